//! The audit log from outside: written, cut, changed, verified and carried elsewhere.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::disallowed_methods, reason = "a test starts itself to be killed, and waits for it")]

mod chain;
mod crash;
mod failure;
#[cfg(feature = "sinks")]
mod sinks;
mod world;

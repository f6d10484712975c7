//! The audit log from outside: written, cut, changed, verified and carried elsewhere.

mod chain;
mod crash;
mod failure;
#[cfg(feature = "sinks")]
mod sinks;
mod world;

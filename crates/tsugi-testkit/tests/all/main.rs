//! The testkit itself: that every behaviour is what it says it is.
#![allow(clippy::unwrap_used, reason = "a helper of a test fails by panicking, as the test does")]
#![allow(clippy::print_stderr, reason = "a test that is skipped says so")]

mod control;
mod fake;
mod http;
mod official;
mod peer;
mod process;
mod stdio;
mod tidy;

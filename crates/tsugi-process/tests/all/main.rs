//! Jobs seen from outside: how they start, what they receive, and what is left of them.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "this is all test code")]

mod egress;
mod hostile;
mod output;
mod sandbox;
mod spawn;
mod stop;
mod survive;
mod world;

//! Jobs seen from outside: what is started, what it is told, and what is left of it.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "this is all test code")]

mod hostile;
mod output;
mod sandbox;
mod spawn;
mod stop;
mod survive;
mod world;

//! The guard and the egress proxy from outside: what reaches a listening socket decides.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test that cannot go on fails")]

mod egress;
mod guard;
mod world;

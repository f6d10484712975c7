//! What tsugi-pm promises, proved from outside: one contract for both stores, the invariants, crashes and crowds.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "tests speak and stop as they like")]
#![allow(missing_docs, unreachable_pub, reason = "nobody outside reads a test's items")]

mod approval;
mod board;
mod busy;
mod child;
mod clock;
mod contract;
mod crowd;
mod differential;
mod disk;
mod feed;
mod files;
mod invariant;
mod lapse;
mod mcp;
mod principal;
mod race;
mod ready;
mod rule;
mod soak;
mod surface;
mod trip;
mod vfs;
mod wire;
mod world;

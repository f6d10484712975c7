//! The command from outside: real processes, real sockets, real signals.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod audit;
mod command;
mod dashboard;
mod docs;
mod faults;
mod key;
mod log;
mod masking;
mod parameters;
mod pm;
mod reload;
mod rest;
mod seeds;
mod serve;
mod settings;
mod stdio;
mod world;

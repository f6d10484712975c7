//! The client library against servers that misbehave, servers of both eras, and real ones.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "this is all test code")]

mod connections;
mod control;
mod eras;
mod faults_http;
mod faults_stdio;
mod hostile_list;
mod life;
mod many;
mod outcome;
mod real;
mod role;
mod subject;
mod table;
mod unknown;
mod wire;
mod world;

tsugi_process::guardian_before_main!();

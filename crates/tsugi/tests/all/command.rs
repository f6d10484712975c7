//! The commands that work without a gateway, through the real binary with real servers.
#![allow(clippy::print_stdout, reason = "a test that is skipped says why")]

mod batch;
mod call;
mod doctor;
mod help;
mod import;
mod init;
mod interrupt;
mod json;
mod list;
mod lock;
mod newcomer;
mod question;
mod server;
mod spot;
mod terminal;
mod world;

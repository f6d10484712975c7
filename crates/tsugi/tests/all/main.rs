//! The command from outside: real processes, real sockets, real signals.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may stop, and say what it skips")]

#[cfg(feature = "acme")]
mod acme;
mod audit;
mod client_certificates;
mod command;
mod dashboard;
mod diagnosis;
mod docs;
mod faults;
mod key;
mod log;
mod login;
mod masking;
mod oauth;
mod outbound;
mod parameters;
mod pm;
mod policy;
mod recorded_calls;
mod reload;
mod remote_sign_in;
mod rest;
mod running_gateway;
mod seeds;
mod serve;
mod settings;
mod stdio;
mod tls;
mod world;

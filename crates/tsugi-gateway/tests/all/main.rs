//! The gateway seen from outside: real sockets, scripted answers.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod audit;
mod board;
mod client_certificates;
mod dashboard;
mod edge;
mod extensions;
mod faults;
mod hub;
mod identity;
mod instances;
mod keys;
mod legacy;
mod login;
mod modern;
mod oauth;
mod pins;
mod policy;
mod restricted;
mod skills;
mod streams;
mod takeover;
mod tasks;
mod tls;
mod tool_search;
mod walk;
mod wires;
mod world;

tsugi_process::guardian_before_main!();

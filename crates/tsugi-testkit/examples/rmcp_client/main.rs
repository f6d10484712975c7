//! The official Rust SDK as a client, to see that what it does works with us.
//!
//! ```text
//! rmcp_client URL legacy|modern                 every feature through a gateway; see interop/clients/run.py
//! rmcp_client pm PROGRAM DB legacy|modern       a story with the project-management server; see interop/pm/run.sh
//! ```
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a test program: whatever is unexpected ends it, and what it starts ends with it"
)]

mod client;
mod gateway;
mod story;

use client::Era;

// The SDK handles every notification in a task of its own: on one thread they stay in order.
#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["pm", program, db, era] => story::tell(program, db, Era::named(era)).await,
        [url, era] => gateway::try_all(url, Era::named(era)).await,
        _ => panic!("say URL ERA, or pm PROGRAM DB ERA"),
    }
}

//! The project-management server under the name that clients of the first design start.

#[path = "../command/pm/mcp.rs"]
mod mcp;

use std::process::ExitCode;

use clap::Parser;

/// Projects, tasks, context and handoffs for agents, over standard input and output.
#[derive(Debug, Parser)]
#[command(name = "mcp-server-pm", version)]
struct PmServerCli {
    #[command(flatten)]
    args: mcp::PmServerArgs,
}

fn main() -> ExitCode {
    let cli = PmServerCli::parse();
    // One agent does one thing at a time, and waking another thread for it costs more than it gains.
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(_) => return ExitCode::FAILURE,
    };
    let served = runtime.block_on(mcp::run(&cli.args));
    // A thread still waits for input that will not come.
    runtime.shutdown_background();
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(mcp::ServerStartError) => ExitCode::from(mcp::ServerStartError::CODE),
    }
}

//! The `tsugi` command: parse the command line, run it, exit with its code.

mod app;
mod atomic_file;
mod backup;
mod builtin;
mod cli;
mod command;
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "fields used only by the generated reference pages, which tests write")
)]
mod config;
mod doctor;
mod failure;
mod gateway_client;
mod gateway_record;
mod interactive_call;
mod key_file;
mod locate;
mod logging;
mod lossy_stderr;
mod output;
mod report;
mod terminal;
mod tool_arguments;

use std::process::ExitCode;

#[cfg(test)]
tsugi_process::guardian_before_main!();

/// The work is done by the servers, so two threads suffice for a command. A service uses all cores.
const THREADS: usize = 2;

fn main() -> ExitCode {
    // First of all: a guardian is this program again, and must have one thread.
    tsugi_process::guardian_main();
    if command::pm::mcp::is_called_by_name() {
        return command::pm::mcp::main();
    }
    let cli = cli::parse();
    logging::start(&cli);
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if !cli.command.is_service() {
        builder.worker_threads(THREADS);
    }
    let runtime = match builder.enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return app::cannot_start(&error).into(),
    };
    let exit = runtime.block_on(app::run(cli));
    // A thread may still block on terminal input; waiting for it would hang the exit.
    runtime.shutdown_background();
    exit.into()
}

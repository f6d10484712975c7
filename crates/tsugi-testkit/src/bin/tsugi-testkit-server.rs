//! The scripted server as a program: `tsugi-testkit-server [--http ADDRESS] [--state DIR] [--script JSON | --script-file FILE] [--launcher]`.
#![allow(clippy::print_stderr, reason = "a program tells its user what is wrong with the command line")]

use std::path::PathBuf;
use std::process::ExitCode;

use tsugi_testkit::script::Script;
use tsugi_testkit::scripted::{Role, play, run_http_process, run_launcher, run_process};

#[derive(Default)]
struct Arguments {
    script: Option<String>,
    state: Option<PathBuf>,
    http: Option<String>,
    role: Option<Role>,
    is_launcher: bool,
}

fn main() -> ExitCode {
    match read_arguments().and_then(run) {
        Ok(code) => code,
        Err(reason) => {
            eprintln!("tsugi-testkit-server: {reason}");
            ExitCode::from(64)
        }
    }
}

fn read_arguments() -> Result<Arguments, String> {
    let mut arguments = Arguments::default();
    let mut words = std::env::args().skip(1);
    while let Some(flag) = words.next() {
        let mut value = || words.next().ok_or(format!("{flag} needs a value"));
        match flag.as_str() {
            "--script" => arguments.script = Some(value()?),
            "--script-file" => {
                arguments.script = Some(std::fs::read_to_string(value()?).map_err(|error| error.to_string())?)
            }
            "--state" => arguments.state = Some(value()?.into()),
            "--http" => arguments.http = Some(value()?),
            "--role" => arguments.role = Some(Role::parse(&value()?).ok_or("unknown role")?),
            "--launcher" => arguments.is_launcher = true,
            other => return Err(format!("unknown argument {other}")),
        }
    }
    Ok(arguments)
}

fn run(arguments: Arguments) -> Result<ExitCode, String> {
    if let Some(role) = arguments.role {
        play(role);
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.is_launcher {
        return run_launcher(arguments.state.as_deref());
    }
    let script = Script::from_json(arguments.script.as_deref().unwrap_or("{}"))?;
    match arguments.http {
        None => run_process(&script, arguments.state.as_deref())?,
        Some(address) => run_http_process(&script, arguments.state.as_deref(), &address)?,
    }
    Ok(ExitCode::SUCCESS)
}

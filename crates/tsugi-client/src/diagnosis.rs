//! Names why a server does not work, from typed fault reasons and from what the server printed.
//!
//! A connection that fails is diagnosed here before its fault is reported, so the dashboard, the log, callers and
//! `tsugi doctor` name the same cause. `clue` recognises what programs print when they fail, `cause` names what that
//! means and what to try.

mod cause;
mod clue;

use std::ffi::{OsStr, OsString};
use std::path::Path;

use tsugi_process::{JobCommand, NetworkAccess};
use tsugi_protocol::answer::{CallStage, Fault, FaultCode, FaultReason};

use crate::config::{ConnectTarget, ServerConfig};
pub use cause::FailureCause;

/// Programs that fetch what they run when they do not have it yet.
const PACKAGE_RUNNERS: [&str; 10] = ["npx", "bunx", "pnpx", "uvx", "pipx", "uv", "npm", "pnpm", "deno", "docker"];

/// What was observed of a server that was tried.
pub struct ServerEvidence<'a> {
    /// Its name.
    pub server: &'a str,
    /// How it is reached, where that is known.
    pub target: Option<&'a ConnectTarget>,
    /// Whether a variable is set where the server's entry could take it from.
    pub is_set_here: &'a dyn Fn(&str) -> bool,
    /// Why it could not be connected; `None` if it could.
    pub fault: Option<&'a Fault>,
    /// The last lines of its standard error.
    pub stderr: &'a [String],
    /// Lines on its standard output that are not messages.
    pub noise: &'a [String],
}

/// The fault of a failed attempt to connect, with the cause named where it can be. The fault as it was stays inside.
pub(crate) fn diagnosed(config: &ServerConfig, fault: Fault, stderr: &[String], noise: &[String]) -> Fault {
    // The variables of this process, since an entry can pass them on.
    let is_set_here = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let (server, target) = (config.name.as_str(), Some(&config.target));
    let evidence = ServerEvidence { server, target, is_set_here: &is_set_here, fault: Some(&fault), stderr, noise };
    let Some(cause) = evidence.diagnose().filter(|cause| !matches!(cause, FailureCause::Unknown { .. })) else {
        return fault;
    };
    let mask = |text: String| config.job.0.redact.mask(&text);
    let diagnosis = cause.diagnosis(&mask);
    // How the process ended is told once, by the outer fault.
    let original = Fault { process: None, ..fault.clone() };
    let (message, hint) = (diagnosis.message.clone(), Some(diagnosis.advice.clone()));
    let named = Fault { message, hint, diagnosis: Some(Box::new(diagnosis)), ..fault };
    // A program that could not be started is named by the cause already.
    if named.stage == CallStage::Spawn { named } else { named.because(original) }
}

impl ServerEvidence<'_> {
    /// What is wrong; `None` if the server works as it should.
    pub fn diagnose(&self) -> Option<FailureCause> {
        // A server that works can still write to its standard output, which other clients do not tolerate.
        let Some(fault) = self.fault else { return self.noise_cause() };
        let root = root_of(fault);
        // From the most to the least specific: what a program says of itself explains more than how it ended.
        self.spawn_cause(root)
            .or_else(|| self.stderr_cause())
            .or_else(|| self.sign_in_cause(root))
            .or_else(|| wire_cause(fault.root_reason()?))
            .or_else(|| self.noise_cause())
            .or_else(|| self.end_cause(fault, root))
            .or_else(|| Some(FailureCause::Unknown { message: root.message.clone() }))
    }

    fn command(&self) -> Option<&JobCommand> {
        match self.target {
            Some(ConnectTarget::Stdio(command)) => Some(command),
            _ => None,
        }
    }

    /// Why the program never ran.
    fn spawn_cause(&self, root: &Fault) -> Option<FailureCause> {
        let command = self.command()?;
        let program = text(&command.program);
        Some(match root.reason? {
            FaultReason::ProgramNotFound => FailureCause::ProgramMissing { program },
            FaultReason::ProgramNotExecutable => FailureCause::NotExecutable { program },
            FaultReason::InterpreterNotFound => FailureCause::InterpreterMissing { program },
            FaultReason::WorkingDirectoryNotFound => FailureCause::DirectoryMissing {
                directory: command.cwd.as_ref().map(|path| path.display().to_string()).unwrap_or_default(),
            },
            // Message and hint name the path that the sandbox would have to open.
            FaultReason::SandboxDenied => {
                FailureCause::SandboxForbidsProgram { message: root.message.clone(), hint: root.hint.clone() }
            }
            _ => return None,
        })
    }

    /// What is wrong with the sign-in to it.
    fn sign_in_cause(&self, root: &Fault) -> Option<FailureCause> {
        let (server, message, hint) = (self.server.to_owned(), root.message.clone(), root.hint.clone());
        Some(match root.reason? {
            FaultReason::OauthRequired => FailureCause::SignInMissing { server },
            FaultReason::SignInEnded => FailureCause::SignInEnded { server },
            FaultReason::SignInScope => FailureCause::SignInScope { message, hint },
            FaultReason::SignInRefused => FailureCause::SignInRefused { message, hint },
            _ => return None,
        })
    }

    /// What it wrote to standard error before it gave up.
    fn stderr_cause(&self) -> Option<FailureCause> {
        let command = self.command()?;
        let is_confined = command.sandbox.rules().is_some();
        let package = package(command);
        let lines = self.stderr;
        // Cache and script come before the package: all three programs print "Cannot find module".
        self.project_server_cause(command)
            .or_else(|| clue::wrong_version(lines))
            .or_else(|| clue::broken_cache(lines))
            .or_else(|| clue::missing_script(lines, &script(command)?))
            .or_else(|| clue::no_package(lines, package.as_deref()))
            .or_else(|| clue::denied(lines).filter(|_| is_confined).map(|path| FailureCause::SandboxDenies { path }))
            .or_else(|| clue::absent_path(lines).filter(|path| is_confined && Path::new(path).exists()).map(hidden))
            .or_else(|| self.variable_cause())
            .or_else(|| clue::taken_port(lines))
            .or_else(|| clue::unreachable(lines))
    }

    /// The project server ends with its own exit code when it cannot start.
    fn project_server_cause(&self, command: &JobCommand) -> Option<FailureCause> {
        let fault = self.fault?;
        let ended = root_of(fault).process.as_ref().or(fault.process.as_ref())?;
        let words: Vec<String> = command.args.iter().map(text).collect();
        let agent = words.iter().skip_while(|word| *word != "--agent-id").nth(1);
        ended.status.ends_with(" 78").then(|| clue::project_server(self.stderr, agent.map(String::as_str))).flatten()
    }

    /// It needs a variable that it was not given.
    fn variable_cause(&self) -> Option<FailureCause> {
        let command = self.command()?;
        let is_given = |name: &String| command.env.get(OsStr::new(name)).is_some_and(|value| !value.is_empty());
        let name = clue::variable(self.stderr).filter(|name| !is_given(name))?;
        let is_set_here = (self.is_set_here)(&name);
        Some(FailureCause::NeedsVariable { name, is_set_here })
    }

    fn noise_cause(&self) -> Option<FailureCause> {
        let line = self.noise.first()?.clone();
        Some(FailureCause::Banner { line, is_fatal: self.fault.is_some() })
    }

    /// How it ended, if nothing else is known.
    fn end_cause(&self, fault: &Fault, root: &Fault) -> Option<FailureCause> {
        let is_late =
            |fault: &Fault| fault.code == FaultCode::Timeout || fault.reason == Some(FaultReason::StillStarting);
        if is_late(root) || is_late(fault) {
            let command = self.command();
            let offline = command.and_then(offline_runner).map(|runner| FailureCause::NoNetwork { runner });
            return offline.or(Some(FailureCause::Hangs { runner: command.and_then(package_runner) }));
        }
        // A process that still ran when it was given up did not crash.
        let has_crashed = [fault, root].iter().any(|fault| fault.code == FaultCode::ServerCrashed);
        let process = root.process.as_ref().or(fault.process.as_ref()).filter(|_| has_crashed)?;
        Some(FailureCause::Crashes { status: process.status.clone(), is_silent: self.stderr.is_empty() })
    }
}

/// What is wrong with an address, or with what answers there.
fn wire_cause(reason: FaultReason) -> Option<FailureCause> {
    Some(match reason {
        FaultReason::TlsWrongName => FailureCause::TlsName,
        FaultReason::TlsExpired => FailureCause::TlsExpired,
        FaultReason::TlsUntrusted => FailureCause::TlsUntrusted,
        FaultReason::ConnectionRefused => FailureCause::Refused,
        FaultReason::HostNotFound => FailureCause::NoSuchHost,
        FaultReason::HttpStatus(401) => FailureCause::Unauthorized,
        FaultReason::HttpStatus(403) => FailureCause::Forbidden,
        // A status from 500 on speaks of a server that has a problem, not of a wrong address.
        FaultReason::HttpStatus(status @ 300..500) => FailureCause::NotMcp { what: format!("status {status}") },
        FaultReason::UpgradeRefused => FailureCause::NotMcp { what: "it refuses WebSocket".to_owned() },
        FaultReason::NotMcp => FailureCause::NotMcp { what: "its answer is not a JSON-RPC message".to_owned() },
        _ => return None,
    })
}

fn hidden(path: String) -> FailureCause {
    FailureCause::SandboxHides { path }
}

/// The innermost cause.
fn root_of(fault: &Fault) -> &Fault {
    fault.cause.as_deref().map_or(fault, root_of)
}

/// The package runner, if its sandbox allows no network: it cannot download anything then.
pub fn offline_runner(command: &JobCommand) -> Option<&'static str> {
    // Loopback alone does not reach a package registry; a list of hosts may hold one.
    let is_offline = |net: &NetworkAccess| matches!(net, NetworkAccess::None | NetworkAccess::Loopback);
    let is_offline = command.sandbox.rules().is_some_and(|rules| is_offline(&rules.net));
    package_runner(command).filter(|_| is_offline)
}

/// The program that runs a server, where that may download it first.
pub fn package_runner(command: &JobCommand) -> Option<&'static str> {
    let program = text(&command.program);
    // `/usr/bin/npx` is the same runner as `npx`.
    let name = program.rsplit('/').next().unwrap_or_default();
    PACKAGE_RUNNERS.into_iter().find(|runner| *runner == name)
}

fn text(word: &OsString) -> String {
    word.to_string_lossy().into_owned()
}

/// The script that an interpreter is asked to run.
fn script(command: &JobCommand) -> Option<String> {
    let program = text(&command.program);
    let name = program.rsplit('/').next().unwrap_or_default();
    let is_interpreter = ["node", "python", "sh", "bash", "bun", "deno", "ruby", "perl"]
        .iter()
        .any(|known| name.strip_prefix(known).is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit() || c == '.')));
    let first = command.args.first().map(text)?;
    // A first word with a dash means that no script follows, such as with `-m` or `-c`.
    (is_interpreter && !first.starts_with('-')).then_some(first)
}

/// What a package runner is asked to run.
fn package(command: &JobCommand) -> Option<String> {
    let program = text(&command.program);
    let runner = program.rsplit('/').next().unwrap_or_default();
    let is_runner = matches!(runner, "npx" | "bunx" | "pnpx" | "uvx" | "pipx" | "uv" | "npm" | "deno");
    let words = command.args.iter().map(text);
    let is_name = |word: &String| !word.starts_with('-') && !matches!(word.as_str(), "run" | "tool" | "exec" | "dlx");
    words.filter(|_| is_runner).find(is_name)
}

#[cfg(test)]
mod tests;

//! Diagnoses why a server does not work, from typed fault reasons and from what the server printed.
//!
//! [`clue`] recognises what programs print when they fail. [`cause`] names what that means and what to try.
//! [`version`] finds the installed Node or Python. [`fix`] repairs what is safe to repair.

pub(crate) mod cause;
mod clue;
pub(crate) mod fix;
pub(crate) mod version;

use std::path::Path;

use tsugi_protocol::answer::{Fault, FaultCode, FaultReason};

use crate::config::env::Environment;
use crate::config::settings::{CommandTarget, ServerSettings, ServerTarget};
use cause::FailureCause;

/// What was observed of a server that was tried.
pub(crate) struct ServerEvidence<'a> {
    pub(crate) settings: &'a ServerSettings,
    pub(crate) environment: &'a Environment,
    /// Why it could not be connected; `None` if it could.
    pub(crate) fault: Option<&'a Fault>,
    pub(crate) stderr: &'a [String],
    /// Lines on its standard output that are not messages.
    pub(crate) noise: &'a [String],
}

impl ServerEvidence<'_> {
    /// What is wrong; `None` if the server works as it should.
    pub(crate) fn diagnose(&self) -> Option<FailureCause> {
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

    fn command(&self) -> Option<&CommandTarget> {
        match &self.settings.target {
            ServerTarget::Command(command) => Some(command),
            _ => None,
        }
    }

    /// Why the program never ran.
    fn spawn_cause(&self, root: &Fault) -> Option<FailureCause> {
        let command = self.command()?;
        let program = command.program.to_string();
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
        let (server, message, hint) = (self.settings.name.clone(), root.message.clone(), root.hint.clone());
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
    fn project_server_cause(&self, command: &CommandTarget) -> Option<FailureCause> {
        let fault = self.fault?;
        let ended = root_of(fault).process.as_ref().or(fault.process.as_ref())?;
        let words: Vec<String> = command.args.iter().map(ToString::to_string).collect();
        let agent = words.iter().skip_while(|word| *word != "--agent-id").nth(1);
        ended.status.ends_with(" 78").then(|| clue::project_server(self.stderr, agent.map(String::as_str))).flatten()
    }

    /// It needs a variable that it was not given.
    fn variable_cause(&self) -> Option<FailureCause> {
        let command = self.command()?;
        let is_given = |name: &String| command.env.iter().any(|(known, value)| known == name && !value.is_empty());
        let name = clue::variable(self.stderr).filter(|name| !is_given(name))?;
        let is_set_here = self.environment.filled(&name).is_some();
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
            let offline = self.settings.offline_runner().map(|runner| FailureCause::NoNetwork { runner });
            return offline.or(Some(FailureCause::Hangs { runner: self.settings.package_runner() }));
        }
        let process = root.process.as_ref().or(fault.process.as_ref())?;
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

/// The script that an interpreter is asked to run.
fn script(command: &CommandTarget) -> Option<String> {
    let program = command.program.to_string();
    let name = program.rsplit('/').next().unwrap_or_default();
    let is_interpreter = ["node", "python", "sh", "bash", "bun", "deno", "ruby", "perl"]
        .iter()
        .any(|known| name.strip_prefix(known).is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit() || c == '.')));
    let first = command.args.first().map(ToString::to_string)?;
    // A first word with a dash means that no script follows, such as with `-m` or `-c`.
    (is_interpreter && !first.starts_with('-')).then_some(first)
}

/// What a package runner is asked to run.
fn package(command: &CommandTarget) -> Option<String> {
    let program = command.program.to_string();
    let runner = program.rsplit('/').next().unwrap_or_default();
    let is_runner = matches!(runner, "npx" | "bunx" | "pnpx" | "uvx" | "pipx" | "uv" | "npm" | "deno");
    let words = command.args.iter().map(ToString::to_string);
    let is_name = |word: &String| !word.starts_with('-') && !matches!(word.as_str(), "run" | "tool" | "exec" | "dlx");
    words.filter(|_| is_runner).find(is_name)
}

#[cfg(test)]
mod tests;

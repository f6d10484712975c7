//! Finds out why a server does not work, from what was seen of it, and says what to do about it.
//!
//! [`clue`] recognises what programs say when they fail; [`cause`] names what that means and what to try;
//! [`version`] asks which Node or Python is here; [`fix`] repairs what is safe.

pub(crate) mod cause;
mod clue;
pub(crate) mod fix;
pub(crate) mod version;

use tsugi_process::NetworkAccess;
use tsugi_protocol::answer::{CallStage, Fault, FaultCode};

use crate::config::env::Environment;
use crate::config::settings::{CommandTarget, ServerSettings, ServerTarget};
use cause::FailureCause;

/// What was seen of a server that was tried.
pub(crate) struct ServerEvidence<'a> {
    pub(crate) settings: &'a ServerSettings,
    pub(crate) environment: &'a Environment,
    /// Why it could not be connected; none if it could.
    pub(crate) fault: Option<&'a Fault>,
    /// What it wrote to its standard error.
    pub(crate) stderr: &'a [String],
    /// What it wrote to its standard output although it is no message.
    pub(crate) noise: &'a [String],
}

impl ServerEvidence<'_> {
    /// What is wrong; nothing if it works as it should.
    pub(crate) fn diagnose(&self) -> Option<FailureCause> {
        let Some(fault) = self.fault else { return self.blemish() };
        let root = root_of(fault);
        self.of_spawn(root)
            .or_else(|| self.of_words())
            .or_else(|| clue::of_wire(&chain(fault)))
            .or_else(|| self.of_noise())
            .or_else(|| self.of_end(fault, root))
            .or_else(|| Some(FailureCause::Unknown { message: root.message.clone() }))
    }

    /// It works, but other clients would stumble.
    fn blemish(&self) -> Option<FailureCause> {
        self.of_noise()
    }

    fn command(&self) -> Option<&CommandTarget> {
        match &self.settings.target {
            ServerTarget::Command(command) => Some(command),
            _ => None,
        }
    }

    /// The program never ran.
    fn of_spawn(&self, fault: &Fault) -> Option<FailureCause> {
        let command = self.command().filter(|_| fault.stage == CallStage::Spawn)?;
        let program = command.program.to_string();
        Some(match fault.message.as_str() {
            text if text.contains("program not found") => FailureCause::ProgramMissing { program },
            text if text.contains("not executable") => FailureCause::NotExecutable { program },
            text if text.contains("interpreter") => FailureCause::InterpreterMissing { program },
            text if text.contains("working directory") => FailureCause::DirectoryMissing {
                directory: command.cwd.as_ref().map(|path| path.display().to_string()).unwrap_or_default(),
            },
            text => FailureCause::Unknown { message: text.to_owned() },
        })
    }

    /// What it said on its standard error before it gave up.
    fn of_words(&self) -> Option<FailureCause> {
        let command = self.command()?;
        let is_confined = command.sandbox.rules().is_some();
        let package = package(command);
        let lines = self.stderr;
        self.of_project_server()
            .or_else(|| clue::wrong_version(lines))
            .or_else(|| clue::broken_cache(lines))
            .or_else(|| clue::no_package(lines, package.as_deref()))
            .or_else(|| clue::denied(lines).filter(|_| is_confined).map(|path| FailureCause::SandboxDenies { path }))
            .or_else(|| self.of_variable())
            .or_else(|| clue::taken_port(lines))
            .or_else(|| clue::unreachable(lines))
    }

    /// The project server ends with a code of its own when it cannot start.
    fn of_project_server(&self) -> Option<FailureCause> {
        let fault = self.fault?;
        let ended = root_of(fault).process.as_ref().or(fault.process.as_ref())?;
        ended.status.ends_with(" 78").then(|| clue::project_server(self.stderr)).flatten()
    }

    /// It wants a variable that it was not given.
    fn of_variable(&self) -> Option<FailureCause> {
        let command = self.command()?;
        let is_given = |name: &String| command.env.iter().any(|(known, value)| known == name && !value.is_empty());
        let name = clue::variable(self.stderr).filter(|name| !is_given(name))?;
        let is_set_here = self.environment.filled(&name).is_some();
        Some(FailureCause::NeedsVariable { name, is_set_here })
    }

    fn of_noise(&self) -> Option<FailureCause> {
        let line = self.noise.first()?.clone();
        Some(FailureCause::Banner { line, is_fatal: self.fault.is_some() })
    }

    /// Whether its sandbox lets it reach nobody.
    fn is_offline(&self) -> bool {
        let rules = self.command().and_then(|command| command.sandbox.rules());
        rules.is_some_and(|rules| rules.net != NetworkAccess::All)
    }

    /// How it ended, where nothing else is known.
    fn of_end(&self, fault: &Fault, root: &Fault) -> Option<FailureCause> {
        let is_late = |fault: &Fault| fault.code == FaultCode::Timeout || fault.message.contains("is still ");
        if is_late(root) || is_late(fault) {
            let runner = self.settings.package_runner();
            let offline = runner.filter(|_| self.is_offline()).map(|runner| FailureCause::NoNetwork { runner });
            return offline.or(Some(FailureCause::Hangs { runner }));
        }
        let process = root.process.as_ref().or(fault.process.as_ref())?;
        Some(FailureCause::Crashes { status: process.status.clone() })
    }
}

/// The fault behind all others.
fn root_of(fault: &Fault) -> &Fault {
    fault.cause.as_deref().map_or(fault, root_of)
}

/// The words of a fault and of what lies behind it.
fn chain(fault: &Fault) -> String {
    let rest = fault.cause.as_deref().map(chain).unwrap_or_default();
    format!("{} {rest}", fault.message)
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

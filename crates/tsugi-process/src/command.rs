//! What to run: a program, its arguments, its environment and its working directory.

mod environment;
mod resolve;

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fmt,
    path::PathBuf,
};

pub(crate) use environment::looks_secret;
pub(crate) use resolve::{ResolvedCommand, TEMPORARY};

use crate::SandboxPolicy;

/// Which of our own variables a child receives.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum EnvInheritance {
    /// A short list of harmless ones: `PATH`, `HOME`, `LANG`, `LC_*`, `XDG_*` and their like.
    /// Tokens and keys in our environment are then not handed to servers by accident.
    #[default]
    Usual,
    /// The usual ones and these by name.
    Also(Vec<OsString>),
    All,
    /// Nothing: only what `env` says.
    Nothing,
}

/// A program to run as a [`SupervisedJob`](crate::SupervisedJob).
#[derive(Clone, PartialEq, Eq)]
pub struct JobCommand {
    /// A name looked up in the child's `PATH`, or a path.
    pub program: OsString,
    /// Arguments, without the program's own name.
    pub args: Vec<OsString>,
    /// Variables set for the child, over inherited ones.
    pub env: BTreeMap<OsString, OsString>,
    /// Which of our own variables it receives.
    pub inherit: EnvInheritance,
    /// Its working directory; ours if left out.
    pub cwd: Option<PathBuf>,
    /// What it may touch.
    pub sandbox: SandboxPolicy,
}

impl JobCommand {
    /// A command without arguments, with the usual environment.
    pub fn new(program: impl Into<OsString>) -> Self {
        JobCommand {
            program: program.into(),
            args: Vec::new(),
            env: BTreeMap::new(),
            inherit: EnvInheritance::default(),
            cwd: None,
            sandbox: SandboxPolicy::Off,
        }
    }

    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Chooses which of our own variables the child receives.
    pub fn inherit(mut self, inherit: EnvInheritance) -> Self {
        self.inherit = inherit;
        self
    }

    /// Sets the working directory.
    pub fn cwd(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.cwd = Some(cwd.into());
        self
    }

    pub fn sandbox(mut self, policy: SandboxPolicy) -> Self {
        self.sandbox = policy;
        self
    }

    /// The program's name as people should read it.
    pub(crate) fn label(&self) -> String {
        self.program.to_string_lossy().into_owned()
    }

    /// Values that must never be shown: those of variables whose name looks secret.
    pub(crate) fn secrets(&self) -> Vec<String> {
        let secret = |(name, _): &(&OsString, &OsString)| looks_secret(name);
        self.env.iter().filter(secret).map(|(_, value)| value.to_string_lossy().into_owned()).collect()
    }
}

impl fmt::Debug for JobCommand {
    /// Values of variables are left out: they are where secrets live.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&OsStr> = self.env.keys().map(OsString::as_os_str).collect();
        formatter
            .debug_struct("Command")
            .field("program", &self.program)
            .field("args", &self.args)
            .field("env", &names)
            .field("inherit", &self.inherit)
            .field("cwd", &self.cwd)
            .field("sandbox", &self.sandbox)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_variables_are_not_printed() {
        let command = JobCommand::new("x").env("API_TOKEN", "hunter2hunter2").env("MODE", "quiet");
        assert!(!format!("{command:?}").contains("hunter2"));
        assert_eq!(command.secrets(), ["hunter2hunter2"]);
    }
}

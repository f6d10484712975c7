//! What can fail before a child runs, with a hint on what to try.

use std::{io, path::PathBuf};

/// Why a child could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProcessError {
    /// No such program, neither as a path nor in `PATH`.
    #[error("program not found: {program}")]
    NotFound {
        /// The program as it was asked for.
        program: String,
        /// Where it was looked for.
        searched: Vec<PathBuf>,
    },
    /// The program exists and may not be executed.
    #[error("not executable: {}", path.display())]
    NotExecutable {
        /// The file that was found.
        path: PathBuf,
    },
    /// The program may be executed, but not inside its sandbox.
    #[error("the sandbox keeps {} from being executed, as it may not read {}", program.display(), path.display())]
    SandboxDenies {
        /// The program that was found.
        program: PathBuf,
        /// What it would have to read.
        path: PathBuf,
    },
    /// The program is a script whose interpreter does not exist.
    #[error("the interpreter of {} does not exist", path.display())]
    NoInterpreter { path: PathBuf },
    /// The working directory does not exist or is not a directory.
    #[error("no such working directory: {}", path.display())]
    NoSuchDirectory {
        /// The directory that was asked for.
        path: PathBuf,
    },
    /// An argument or a variable holds a NUL byte, or a variable's name is not usable.
    #[error("{what} cannot be given to a process: it holds a NUL byte or an equals sign in its name")]
    BadText {
        /// Which argument or variable.
        what: String,
    },
    /// The sandbox policy cannot be enforced on this machine.
    #[error("the sandbox cannot be enforced: {what}")]
    Sandbox {
        /// Which parts, and why.
        what: String,
    },
    /// The system refused to start the process.
    #[error("could not start {program}: {step}")]
    Spawn {
        /// The program as it was asked for.
        program: String,
        /// What was being done.
        step: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl ProcessError {
    /// A sentence on what to try, where there is something.
    pub fn hint(&self) -> Option<String> {
        match self {
            ProcessError::NotFound { program, .. } => Some(not_found_hint(program)),
            ProcessError::NotExecutable { path } => {
                Some(format!("try `chmod +x {}`, or name its interpreter as the command", path.display()))
            }
            ProcessError::SandboxDenies { path, .. } => {
                Some(format!("add {}, or the folder of its installation, to `read` of its `sandbox`", path.display()))
            }
            ProcessError::NoInterpreter { path } => {
                Some(format!("look at the first line of {} and install what it names", path.display()))
            }
            ProcessError::NoSuchDirectory { .. } => Some("create it, or correct `cwd`".to_owned()),
            ProcessError::BadText { .. } => None,
            ProcessError::Sandbox { .. } => {
                Some("change the policy, or set `required: false` to run with what can be enforced".to_owned())
            }
            ProcessError::Spawn { .. } => self
                .is_retryable()
                .then(|| "the system is short of processes, memory or files; try again later".to_owned()),
        }
    }

    /// Whether the same attempt may succeed later without any change.
    pub fn is_retryable(&self) -> bool {
        let ProcessError::Spawn { source, .. } = self else { return false };
        let short_of = [libc::EAGAIN, libc::ENOMEM, libc::EMFILE, libc::ENFILE];
        source.raw_os_error().is_some_and(|code| short_of.contains(&code))
    }

    pub(crate) fn spawn(program: impl Into<String>, step: impl Into<String>, source: impl Into<io::Error>) -> Self {
        ProcessError::Spawn { program: program.into(), step: step.into(), source: source.into() }
    }
}

fn not_found_hint(program: &str) -> String {
    match program.contains('/') {
        true => "check the path; a relative one is taken from `cwd`".to_owned(),
        false => "install it, or give its full path".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_fork_may_be_tried_again_and_a_missing_program_may_not() {
        let refused = ProcessError::spawn("x", "fork", io::Error::from_raw_os_error(libc::EAGAIN));
        let missing = ProcessError::NotFound { program: "x".into(), searched: vec![] };
        assert!(refused.is_retryable() && refused.hint().is_some());
        assert!(!missing.is_retryable() && missing.hint().is_some());
    }
}

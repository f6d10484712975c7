//! Why a command failed, as a type. [`report`](crate::report) has the words, once, at the edge.

use std::fmt;
use std::io;

use tsugi_protocol::answer::{CallFailure, Fault};
use tsugi_protocol::rpc::RpcError;

use crate::config::problem::{ConfigProblem, ConfigProblems};
use crate::output::CommandOutput;
use crate::report;
use crate::report::exit::CommandExit;

#[derive(Debug)]
pub(crate) enum CommandFailure {
    /// The configuration cannot be used.
    Problems(ConfigProblems),
    /// The command line cannot be used.
    Usage(Box<UsageError>),
    /// A server cannot be reached, or a call could not be made.
    Fault(Box<Fault>),
    /// A server answered with an error. `subject` is what was asked, such as `demo/echo`.
    Upstream { subject: String, error: Box<RpcError> },
    /// Everything was reported already.
    Reported(CommandExit),
    /// The reader of our output closed it, or it cannot be written.
    Output(io::Error),
    /// Ctrl-C or SIGTERM.
    Interrupted,
}

/// A command line or an argument that cannot be used.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct UsageError {
    /// Lower case, without a final stop.
    pub(crate) message: String,
    /// One per line.
    pub(crate) details: Vec<String>,
    pub(crate) hint: Option<String>,
}

impl UsageError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        UsageError { message: message.into(), ..UsageError::default() }
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for UsageError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl CommandFailure {
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        UsageError::new(message).into()
    }

    /// Adds a hint to a usage error; other failures have their own.
    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        if let CommandFailure::Usage(usage) = &mut self {
            usage.hint = Some(hint.into());
        }
        self
    }

    /// Adds details to a usage error.
    pub(crate) fn with_details(mut self, details: Vec<String>) -> Self {
        if let CommandFailure::Usage(usage) = &mut self {
            usage.details = details;
        }
        self
    }

    /// The failure of a call about `subject`.
    pub(crate) fn of_call(subject: &str, failure: CallFailure) -> Self {
        match failure {
            CallFailure::Fault(fault) => CommandFailure::Fault(fault),
            CallFailure::Upstream(error) => CommandFailure::Upstream { subject: subject.to_owned(), error },
        }
    }

    /// Prints the failure and returns the exit code for it.
    pub(crate) fn report(&self, output: &CommandOutput) -> CommandExit {
        if !self.is_silent() {
            output.message(|paint| report::failure(self, paint));
        }
        self.exit()
    }

    fn is_silent(&self) -> bool {
        match self {
            CommandFailure::Reported(_) => true,
            // `tsugi tools | head` is not a failure.
            CommandFailure::Output(error) => error.kind() == io::ErrorKind::BrokenPipe,
            _ => false,
        }
    }

    fn exit(&self) -> CommandExit {
        match self {
            CommandFailure::Problems(_) | CommandFailure::Usage(_) => CommandExit::Usage,
            CommandFailure::Fault(fault) => CommandExit::of_fault(fault),
            CommandFailure::Upstream { .. } => CommandExit::Failed,
            CommandFailure::Reported(exit) => *exit,
            CommandFailure::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => CommandExit::Success,
            CommandFailure::Output(_) => CommandExit::Failed,
            CommandFailure::Interrupted => CommandExit::Interrupted,
        }
    }
}

impl From<UsageError> for CommandFailure {
    fn from(usage: UsageError) -> Self {
        CommandFailure::Usage(Box::new(usage))
    }
}

impl From<ConfigProblems> for CommandFailure {
    fn from(problems: ConfigProblems) -> Self {
        CommandFailure::Problems(problems)
    }
}

impl From<ConfigProblem> for CommandFailure {
    fn from(problem: ConfigProblem) -> Self {
        CommandFailure::Problems(problem.into())
    }
}

impl From<Fault> for CommandFailure {
    fn from(fault: Fault) -> Self {
        CommandFailure::Fault(Box::new(fault))
    }
}

impl From<io::Error> for CommandFailure {
    fn from(error: io::Error) -> Self {
        CommandFailure::Output(error)
    }
}

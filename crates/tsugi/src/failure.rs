//! Why a command ended without doing what it should, told once, at the edge.

use std::io;

use tsugi_protocol::answer::{CallFailure, Fault};
use tsugi_protocol::rpc::{RpcError, code};

use crate::config::problem::{ConfigProblem, ConfigProblems};
use crate::output::CommandOutput;
use crate::output::style::TextPaint;
use crate::report::{self, exit::CommandExit};

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum CommandFailure {
    /// The configuration cannot be used.
    Problems(ConfigProblems),
    /// What was typed cannot be used.
    Usage(Box<UsageError>),
    /// The way to a server failed, or there is no such thing.
    Fault(Box<Fault>),
    /// A server answered with an error.
    Upstream(Box<UpstreamError>),
    /// Everything was said already.
    Reported(CommandExit),
    /// Whoever reads our output went away, or it cannot be written.
    Output(io::Error),
    /// The person pressed Ctrl-C, or someone asked us to end.
    Interrupted,
}

/// What was typed cannot be used.
#[derive(Debug, Default)]
pub(crate) struct UsageError {
    /// What is wrong, lower case, without a final stop.
    pub(crate) message: String,
    /// Details, one per line.
    pub(crate) details: Vec<String>,
    /// What to try.
    pub(crate) hint: Option<String>,
}

/// An error in a server's own words.
#[derive(Debug)]
pub(crate) struct UpstreamError {
    /// What was asked, such as `demo/echo`.
    pub(crate) subject: String,
    pub(crate) error: RpcError,
}

impl CommandFailure {
    /// What was typed cannot be used.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        CommandFailure::Usage(Box::new(UsageError { message: message.into(), ..UsageError::default() }))
    }

    /// With advice, where it is a matter of usage.
    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        if let CommandFailure::Usage(usage) = &mut self {
            usage.hint = Some(hint.into());
        }
        self
    }

    /// With details, where it is a matter of usage.
    pub(crate) fn with_details(mut self, details: Vec<String>) -> Self {
        if let CommandFailure::Usage(usage) = &mut self {
            usage.details = details;
        }
        self
    }

    /// A call about `subject` that failed.
    pub(crate) fn of_call(subject: &str, failure: CallFailure) -> Self {
        match failure {
            CallFailure::Fault(fault) => CommandFailure::Fault(fault),
            CallFailure::Upstream(error) => {
                CommandFailure::Upstream(Box::new(UpstreamError { subject: subject.to_owned(), error: *error }))
            }
        }
    }

    /// Says it, and gives the code to end with.
    pub(crate) fn report(&self, output: &CommandOutput) -> CommandExit {
        if !self.is_silent() {
            output.message(|paint| self.text(paint));
        }
        self.exit()
    }

    fn is_silent(&self) -> bool {
        match self {
            CommandFailure::Reported(_) => true,
            CommandFailure::Output(error) => error.kind() == io::ErrorKind::BrokenPipe,
            _ => false,
        }
    }

    fn text(&self, paint: TextPaint) -> String {
        match self {
            CommandFailure::Problems(problems) => report::problems(problems, paint),
            CommandFailure::Usage(usage) => usage.text(paint),
            CommandFailure::Fault(fault) => report::fault(fault, paint),
            CommandFailure::Upstream(answered) => answered.text(paint),
            CommandFailure::Output(error) => format!("{}: the output cannot be written: {error}", paint.error("error")),
            CommandFailure::Interrupted => paint.faint("interrupted"),
            CommandFailure::Reported(_) => String::new(),
        }
    }

    fn exit(&self) -> CommandExit {
        match self {
            CommandFailure::Problems(_) | CommandFailure::Usage(_) => CommandExit::Usage,
            CommandFailure::Fault(fault) => CommandExit::of_fault(fault),
            CommandFailure::Upstream(_) => CommandExit::Failed,
            CommandFailure::Reported(exit) => *exit,
            CommandFailure::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => CommandExit::Success,
            CommandFailure::Output(_) => CommandExit::Failed,
            CommandFailure::Interrupted => CommandExit::Interrupted,
        }
    }
}

impl UsageError {
    fn text(&self, paint: TextPaint) -> String {
        let mut lines = vec![format!("{}: {}", paint.error("error"), self.message)];
        lines.extend(self.details.iter().map(|detail| format!("  {detail}")));
        lines.extend(self.hint.iter().map(|hint| format!("{}: {hint}", paint.hint("hint"))));
        lines.join("\n")
    }
}

impl UpstreamError {
    /// What to try against errors that the command itself can do something about.
    fn hint(&self) -> Option<&'static str> {
        let lacks = |capability: &str| self.error.data().is_some_and(|data| data.as_str().contains(capability));
        match self.error.code() {
            code::MISSING_CLIENT_CAPABILITY if lacks("roots") => Some("tell it the directories with --root"),
            code::MISSING_CLIENT_CAPABILITY if lacks("sampling") => {
                Some("the command has no model to lend; use an agent")
            }
            _ => None,
        }
    }

    /// The server's words, its number, and its data as far as a person can use it.
    fn text(&self, paint: TextPaint) -> String {
        let (label, error) = (paint.error("error"), &self.error);
        let mut text = format!("{label}: {}: {} ({})", self.subject, printable(&error.message()), error.code());
        if let Some(data) = error.data().filter(|data| !data.is_null()) {
            text.push_str(&format!("\n  {}", paint.faint(printable(data.as_str()))));
        }
        if let Some(hint) = self.hint() {
            text.push_str(&format!("\n{}: {hint}", paint.hint("hint")));
        }
        text
    }
}

/// A server's words may not reach the terminal as commands.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' && c != '\t' { '\u{fffd}' } else { c }).collect()
}

/// A server that failed while the work goes on without it.
pub(crate) fn warning(fault: &Fault, paint: TextPaint) -> String {
    let text = report::fault(fault, paint);
    let plain = format!("{}:", paint.error("error"));
    match text.strip_prefix(&plain) {
        Some(rest) => format!("{}:{rest}", paint.warning("warning")),
        None => text,
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

//! Why a command ended without doing what it should, told once, at the edge.

use std::io;

use tsugi_protocol::answer::{Failure as CallFailure, Fault};
use tsugi_protocol::rpc::{RpcError, code};

use crate::config::problem::{Problem, Problems};
use crate::output::Output;
use crate::output::style::Paint;
use crate::report::{self, exit::Exit};

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The configuration cannot be used.
    Problems(Problems),
    /// What was typed cannot be used.
    Usage(Box<Usage>),
    /// The way to a server failed, or there is no such thing.
    Fault(Box<Fault>),
    /// A server answered with an error.
    Answered(Box<Answered>),
    /// Everything was said already.
    Said(Exit),
    /// Whoever reads our output went away, or it cannot be written.
    Output(io::Error),
    /// The person pressed Ctrl-C, or someone asked us to end.
    Interrupted,
}

/// What was typed cannot be used.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    /// What is wrong, lower case, without a final stop.
    pub(crate) message: String,
    /// Details, one per line.
    pub(crate) details: Vec<String>,
    /// What to try.
    pub(crate) hint: Option<String>,
}

/// An error in a server's own words.
#[derive(Debug)]
pub(crate) struct Answered {
    /// What was asked, such as `demo/echo`.
    pub(crate) subject: String,
    pub(crate) error: RpcError,
}

impl Failure {
    /// What was typed cannot be used.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Failure::Usage(Box::new(Usage { message: message.into(), ..Usage::default() }))
    }

    /// With advice, where it is a matter of usage.
    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        if let Failure::Usage(usage) = &mut self {
            usage.hint = Some(hint.into());
        }
        self
    }

    /// With details, where it is a matter of usage.
    pub(crate) fn with_details(mut self, details: Vec<String>) -> Self {
        if let Failure::Usage(usage) = &mut self {
            usage.details = details;
        }
        self
    }

    /// A call about `subject` that failed.
    pub(crate) fn of_call(subject: &str, failure: CallFailure) -> Self {
        match failure {
            CallFailure::Fault(fault) => Failure::Fault(fault),
            CallFailure::Upstream(error) => {
                Failure::Answered(Box::new(Answered { subject: subject.to_owned(), error: *error }))
            }
        }
    }

    /// Says it, and gives the code to end with.
    pub(crate) fn tell(&self, output: &Output) -> Exit {
        if !self.is_silent() {
            output.say(|paint| self.text(paint));
        }
        self.exit()
    }

    fn is_silent(&self) -> bool {
        match self {
            Failure::Said(_) => true,
            Failure::Output(error) => error.kind() == io::ErrorKind::BrokenPipe,
            _ => false,
        }
    }

    fn text(&self, paint: Paint) -> String {
        match self {
            Failure::Problems(problems) => report::problems(problems, paint),
            Failure::Usage(usage) => usage.text(paint),
            Failure::Fault(fault) => report::fault(fault, paint),
            Failure::Answered(answered) => answered.text(paint),
            Failure::Output(error) => format!("{}: the output cannot be written: {error}", paint.error("error")),
            Failure::Interrupted => paint.faint("interrupted"),
            Failure::Said(_) => String::new(),
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Failure::Problems(_) | Failure::Usage(_) => Exit::Usage,
            Failure::Fault(fault) => Exit::of_fault(fault),
            Failure::Answered(_) => Exit::Failed,
            Failure::Said(exit) => *exit,
            Failure::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Success,
            Failure::Output(_) => Exit::Failed,
            Failure::Interrupted => Exit::Interrupted,
        }
    }
}

impl Usage {
    fn text(&self, paint: Paint) -> String {
        let mut lines = vec![format!("{}: {}", paint.error("error"), self.message)];
        lines.extend(self.details.iter().map(|detail| format!("  {detail}")));
        lines.extend(self.hint.iter().map(|hint| format!("{}: {hint}", paint.hint("hint"))));
        lines.join("\n")
    }
}

impl Answered {
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
    fn text(&self, paint: Paint) -> String {
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
pub(crate) fn warning(fault: &Fault, paint: Paint) -> String {
    let text = report::fault(fault, paint);
    let plain = format!("{}:", paint.error("error"));
    match text.strip_prefix(&plain) {
        Some(rest) => format!("{}:{rest}", paint.warning("warning")),
        None => text,
    }
}

impl From<Problems> for Failure {
    fn from(problems: Problems) -> Self {
        Failure::Problems(problems)
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Failure::Problems(problem.into())
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Failure::Fault(Box::new(fault))
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure::Output(error)
    }
}

//! The text of every failure and warning for people, and the exit codes.

pub(crate) mod exit;

use std::fmt::Write as _;

use tsugi_protocol::answer::{Fault, FaultReason, SentState};
use tsugi_protocol::rpc::{RpcError, code};

use crate::config::problem::{ConfigProblem, ConfigProblems};
use crate::failure::{CommandFailure, UsageError};
use crate::output::style::TextPaint;
use crate::output::{CommandOutput, printable};

/// The text of a command's failure.
pub(crate) fn failure(failure: &CommandFailure, paint: TextPaint) -> String {
    match failure {
        CommandFailure::Problems(list) => problems(list, paint),
        CommandFailure::Usage(usage) => self::usage(usage, paint),
        CommandFailure::Fault(one) => fault(one, paint),
        CommandFailure::Upstream { subject, error } => upstream(subject, error, paint),
        CommandFailure::Output(error) => format!("{}: cannot write the output: {error}", paint.error("error")),
        CommandFailure::Interrupted => paint.faint("interrupted"),
        CommandFailure::Reported(_) => String::new(),
    }
}

fn usage(usage: &UsageError, paint: TextPaint) -> String {
    let mut lines = vec![format!("{}: {}", paint.error("error"), usage.message)];
    lines.extend(usage.details.iter().map(|detail| format!("  {detail}")));
    lines.extend(usage.hint.iter().map(|hint| format!("{}: {hint}", paint.hint("hint"))));
    lines.join("\n")
}

/// A server's own error: its message, its code, and its data as far as a person can use it.
fn upstream(subject: &str, error: &RpcError, paint: TextPaint) -> String {
    let label = paint.error("error");
    let mut text = format!("{label}: {subject}: {} ({})", printable(&error.message()), error.code());
    if let Some(data) = error.data().filter(|data| !data.is_null()) {
        let _ = write!(text, "\n  {}", paint.faint(printable(data.as_str())));
    }
    if let Some(hint) = capability_hint(error) {
        let _ = write!(text, "\n{}: {hint}", paint.hint("hint"));
    }
    text
}

/// What to try when the server needs a capability that the command lacks, named in the error's data.
fn capability_hint(error: &RpcError) -> Option<&'static str> {
    if error.code() != code::MISSING_CLIENT_CAPABILITY {
        return None;
    }
    let required = error.data_object().and_then(|data| data.get_object("requiredCapabilities"))?;
    match () {
        () if required.has("roots") => Some("name the directories with --root"),
        () if required.has("sampling") => Some("the command has no model; call the tool from an agent"),
        () => None,
    }
}

/// Warns of servers that failed while the command goes on without them.
pub(crate) fn warn_all(output: &CommandOutput, faults: &[Fault]) {
    for fault in faults {
        output.message(|paint| warning(fault, paint));
    }
}

/// The text of a fault that does not end the command.
pub(crate) fn warning(fault: &Fault, paint: TextPaint) -> String {
    labelled_fault(&paint.warning("warning"), fault, paint)
}

/// The problems of a configuration, each with its location and its hint, and their number.
pub(crate) fn problems(problems: &ConfigProblems, paint: TextPaint) -> String {
    let mut text: Vec<String> =
        problems.0.iter().map(|problem| labelled(&paint.error("error"), problem, paint)).collect();
    // A count helps only when the list scrolls.
    if problems.0.len() > 1 {
        text.push(format!("{}: {} problems", paint.error("error"), problems.0.len()));
    }
    text.join("\n\n")
}

/// Problems of a configuration that can be used all the same.
pub(crate) fn warnings(warnings: &[ConfigProblem], paint: TextPaint) -> String {
    let text: Vec<String> =
        warnings.iter().map(|warning| labelled(&paint.warning("warning"), warning, paint)).collect();
    text.join("\n\n")
}

fn labelled(label: &str, problem: &ConfigProblem, paint: TextPaint) -> String {
    let text = problem.to_string();
    // Only the label gets a colour; the hint itself stays readable.
    let paint_line = |line: &str| match line.strip_prefix("hint: ") {
        Some(hint) => format!("{}: {hint}", paint.hint("hint")),
        None => line.to_owned(),
    };
    let lines: Vec<String> = text.lines().map(paint_line).collect();
    format!("{label}: {}", lines.join("\n"))
}

/// What failed, on which thing, the last output of the process, and what to try.
pub(crate) fn fault(fault: &Fault, paint: TextPaint) -> String {
    labelled_fault(&paint.error("error"), fault, paint)
}

fn labelled_fault(label: &str, fault: &Fault, paint: TextPaint) -> String {
    let mut text = format!("{label}: {}", headline(fault));
    let facts = format!("{}{}", fault.code.as_str(), effect(fault));
    let _ = write!(text, "\n  {}", paint.faint(facts));
    // The last output usually names the cause better than our message.
    if let Some(process) = &fault.process {
        for line in &process.stderr {
            let _ = write!(text, "\n  {} {}", paint.faint("|"), printable(line));
        }
    }
    let mut outer = fault;
    while let Some(inner) = outer.cause.as_deref() {
        // The outer message often quotes the inner one; saying it twice helps no reader.
        if !text.contains(inner.message.as_str()) {
            let _ = write!(text, "\n  because {}", headline(inner));
        }
        outer = inner;
    }
    if let Some(hint) = hint(fault) {
        let _ = write!(text, "\n{}: {}", paint.hint("hint"), printable(hint));
    }
    text
}

fn headline(fault: &Fault) -> String {
    let tool = fault.tool.as_ref().map(|tool| format!(" (tool `{tool}`)")).unwrap_or_default();
    printable(&format!("{fault}{tool}"))
}

/// The hint of the fault, or of its cause.
fn hint(fault: &Fault) -> Option<&str> {
    let said = fault.hint.as_deref().or_else(|| fault.cause.as_deref().and_then(hint));
    said.or_else(|| {
        // What an address without its path answers to every POST.
        let is_elsewhere = fault.root_reason() == Some(FaultReason::HttpStatus(405));
        is_elsewhere.then_some("check the path: a tsugi gateway answers MCP at its address followed by /mcp")
    })
}

/// What is known about the call's effect, for a caller that would try again.
fn effect(fault: &Fault) -> &'static str {
    match fault.sent {
        SentState::Unknown => ", it may have had an effect",
        SentState::Failed => "",
        SentState::NotSent => ", nothing was sent",
    }
}

#[cfg(test)]
mod tests {
    use tsugi_protocol::answer::{FaultCode, ProcessEnd};

    use super::*;

    const PLAIN: fn() -> TextPaint = || TextPaint::new(false);

    #[test]
    fn a_fault_says_what_happened_to_which_thing_and_what_to_try() {
        let crashed = Fault::new(FaultCode::ServerCrashed, "the server died during the call")
            .on_server("files")
            .on_tool("read")
            .with_process(ProcessEnd { status: "exit code 3".into(), stderr: vec!["boom \u{1b}[31m".into()] })
            .with_hint("look at its log");
        let text = fault(&crashed, PLAIN());
        let expected = "error: files: the server died during the call (exit code 3) (tool `read`)\n  \
                        SERVER_CRASHED, it may have had an effect\n  | boom \u{fffd}[31m\nhint: look at its log";
        assert_eq!(text, expected);
    }

    #[test]
    fn an_effect_that_is_unknown_is_never_said_to_be_none() {
        for (sent, expected) in
            [(SentState::Unknown, ", it may have had an effect"), (SentState::NotSent, ", nothing was sent")]
        {
            let answered = Fault::new(FaultCode::ConnectionFailed, "the server answered 404").sent(sent);
            assert!(fault(&answered, PLAIN()).contains(expected), "{sent:?}");
        }
    }

    #[test]
    fn what_lies_behind_a_fault_is_told_with_its_hint() {
        let inner = Fault::new(FaultCode::ConnectionFailed, "connection refused").with_hint("is it running?");
        let outer = Fault::new(FaultCode::MaxRetriesExceeded, "failed after 3 retries").because(inner);
        let text = fault(&outer, PLAIN());
        assert!(text.contains("because connection refused") && text.ends_with("hint: is it running?"), "{text}");
    }

    #[test]
    fn problems_are_counted_and_hints_stand_on_their_own_line() {
        let list = ConfigProblems(vec![ConfigProblem::new("one").with_hint("try"), ConfigProblem::new("two")]);
        assert_eq!(problems(&list, PLAIN()), "error: one\nhint: try\n\nerror: two\n\nerror: 2 problems");
        assert_eq!(warnings(&list.0[..1], PLAIN()), "warning: one\nhint: try");
    }
}

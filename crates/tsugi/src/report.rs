//! How a failure reads for people, and with which code the command ends.

pub(crate) mod exit;

use std::fmt::Write as _;

use tsugi_protocol::answer::{Fault, SentState};

use crate::config::problem::{ConfigProblem, ConfigProblems};
use crate::output::style::TextPaint;

/// The problems of a configuration, each with its place and its hint, and how many there are.
pub(crate) fn problems(problems: &ConfigProblems, paint: TextPaint) -> String {
    let mut text: Vec<String> =
        problems.0.iter().map(|problem| labelled(&paint.error("error"), problem, paint)).collect();
    if problems.0.len() > 1 {
        text.push(format!("{}: {} problems", paint.error("error"), problems.0.len()));
    }
    text.join("\n\n")
}

/// What should be looked at, although it can be used.
pub(crate) fn warnings(warnings: &[ConfigProblem], paint: TextPaint) -> String {
    let text: Vec<String> =
        warnings.iter().map(|warning| labelled(&paint.warning("warning"), warning, paint)).collect();
    text.join("\n\n")
}

fn labelled(label: &str, problem: &ConfigProblem, paint: TextPaint) -> String {
    let text = problem.to_string();
    let paint_line = |line: &str| match line.strip_prefix("hint: ") {
        Some(hint) => format!("{}: {hint}", paint.hint("hint")),
        None => line.to_owned(),
    };
    let lines: Vec<String> = text.lines().map(paint_line).collect();
    format!("{label}: {}", lines.join("\n"))
}

/// A failure of a call: what happened, to which thing, what the process said last, and what to try.
pub(crate) fn fault(fault: &Fault, paint: TextPaint) -> String {
    let mut text = format!("{}: {}", paint.error("error"), headline(fault));
    let facts = format!("{}{}", fault.code.as_str(), effect(fault));
    let _ = write!(text, "\n  {}", paint.faint(facts));
    if let Some(process) = &fault.process {
        for line in &process.stderr {
            let _ = write!(text, "\n  {} {}", paint.faint("|"), printable(line));
        }
    }
    let mut outer = fault;
    while let Some(inner) = outer.cause.as_deref() {
        // Often the outer words quote the inner ones.
        if !outer.message.contains(&inner.message) {
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

/// What an address without its path answers to everything that is sent to it.
const NOT_AN_ENDPOINT: &str = "the server answered 405";

/// The hint of the fault, or of what lies behind it.
fn hint(fault: &Fault) -> Option<&str> {
    let said = fault.hint.as_deref().or_else(|| fault.cause.as_deref().and_then(hint));
    said.or_else(|| {
        let is_elsewhere = fault.message.contains(NOT_AN_ENDPOINT);
        is_elsewhere.then_some("look at the path: a tsugi gateway answers MCP at its address with /mcp behind it")
    })
}

/// What is known about the effect, where it matters to whoever would try again.
fn effect(fault: &Fault) -> &'static str {
    match fault.sent {
        SentState::Unknown => ", it may have had an effect",
        SentState::Failed => "",
        SentState::NotSent => ", nothing was sent",
    }
}

/// A server's words may not reach the terminal as commands.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' && c != '\t' { '\u{fffd}' } else { c }).collect()
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

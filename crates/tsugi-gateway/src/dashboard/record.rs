//! One call as the dashboard remembers it: what, by whom, how long and how it ended. With what is recorded apart.

use std::sync::Arc;
use std::time::Instant;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Value, json};
use tsugi_protocol::answer::timeline::TimelineStep;
use tsugi_protocol::answer::{Call, CallFailure, CallTimeline, Caller, Outcome};
use tsugi_protocol::json::RawJson;
use tsugi_protocol::mcp::Method;

/// The longest text of an error that is kept.
const LONGEST: usize = 2000;
/// The longest address of a resource that is kept.
const LONGEST_SUBJECT: usize = 200;

/// A call that began.
#[derive(Debug, Clone)]
pub(crate) struct CallStart {
    pub(super) at: Instant,
    pub(super) server: Arc<str>,
    /// The tool, prompt or address it is about.
    pub(super) subject: Arc<str>,
    pub(super) method: Method,
    pub(super) caller: Caller,
    pub(super) face: &'static str,
    pub(super) request_id: Option<Arc<str>>,
    /// The program that called, in its own words.
    pub(super) client: Option<Arc<str>>,
    /// What it was given, until the call has ended.
    pub(super) arguments: Option<RawJson>,
    /// Its steps with their times, if a dashboard was open when it began.
    timeline: Option<CallTimeline>,
}

impl CallStart {
    /// A call that begins now.
    pub(crate) fn now(server: Arc<str>, subject: Arc<str>, call: &Call) -> Self {
        Self {
            at: Instant::now(),
            server,
            subject,
            method: call.method.clone(),
            caller: call.caller.clone(),
            face: call.options.face,
            request_id: call.options.request_id.clone(),
            client: None,
            arguments: None,
            timeline: None,
        }
    }

    /// From now on the call says what it does when.
    pub(crate) fn follow(&mut self) -> CallTimeline {
        self.timeline.get_or_insert_with(|| CallTimeline::new(self.at)).clone()
    }
}

/// What a call is about, short enough to be kept.
pub(crate) fn subject_of(call: &Call) -> Arc<str> {
    // The subject comes from the caller, and thousands of records keep one.
    shortened(&call.subject().unwrap_or_default(), LONGEST_SUBJECT).into()
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallEnding {
    Ok,
    ToolError,
    Failed,
    Cancelled,
    InputRequired,
}

impl CallEnding {
    /// How it ended, and with how many bytes. The members of a result are indexed already, so looking is cheap.
    pub(super) fn of(outcome: Option<&Outcome>) -> (Self, usize) {
        match outcome {
            // Without an outcome, the caller went away first.
            None => (Self::Cancelled, 0),
            Some(Outcome::InputRequired(_)) => (Self::InputRequired, 0),
            Some(Outcome::Failed(_)) => (Self::Failed, 0),
            Some(Outcome::Complete(complete)) => {
                let is_error = complete.is_tool_error();
                (if is_error { Self::ToolError } else { Self::Ok }, complete.body.bytes().len())
            }
        }
    }

    pub(super) fn is_error(self) -> bool {
        matches!(self, Self::ToolError | Self::Failed)
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::ToolError => "tool-error",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::InputRequired => "input-required",
        }
    }
}

/// Why a call failed, as people read it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct CallProblem {
    code: String,
    message: String,
    hint: Option<String>,
    details: Value,
}

impl CallProblem {
    /// The error of a row.
    fn short(&self) -> Value {
        json!({"code": self.code, "message": self.message})
    }

    /// The error of a page of its own.
    pub(super) fn full(&self) -> Value {
        json!({"code": self.code, "message": self.message, "hint": self.hint, "details": self.details})
    }

    /// The same without words, for those who may know that it failed and not at what.
    pub(super) fn bare(&self) -> Self {
        let message = "the words are for the caller and for administrators".to_owned();
        Self { code: self.code.clone(), message, hint: None, details: Value::Null }
    }
}

/// The failure behind an outcome. What a tool itself said about its error is part of its result.
pub(super) fn problem_of(outcome: &Outcome) -> Option<Box<CallProblem>> {
    let problem = match outcome {
        Outcome::Failed(CallFailure::Upstream(error)) => CallProblem {
            code: error.code().to_string(),
            message: shortened(&error.message(), LONGEST),
            hint: None,
            details: json!({"fault": "upstream", "stage": "call"}),
        },
        Outcome::Failed(CallFailure::Fault(fault)) => CallProblem {
            code: fault.code.as_str().to_owned(),
            message: shortened(&fault.message, LONGEST),
            hint: fault.hint.clone(),
            details: json!({
                "stage": fault.stage, "fault": fault.blame, "outcome": fault.sent, "retryable": fault.retryable,
                "process": fault.process.as_ref().map(|process| &process.status),
                "cause": fault.cause.as_ref().map(|cause| shortened(&cause.to_string(), LONGEST)),
            }),
        },
        Outcome::Complete(complete) if complete.is_tool_error() => CallProblem {
            code: "TOOL_ERROR".to_owned(),
            message: "the tool answered that it failed".to_owned(),
            hint: None,
            details: json!({"fault": "upstream", "stage": "call"}),
        },
        _ => return None,
    };
    // Boxed, since most calls succeed and every slot of the ring would be larger otherwise.
    Some(Box::new(problem))
}

fn shortened(text: &str, longest: usize) -> String {
    // By characters: a cut inside of one would panic.
    match text.char_indices().nth(longest) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A call that ended.
#[derive(Debug, Clone)]
pub(super) struct CallRecord {
    pub(super) id: u64,
    /// When it began, in milliseconds since 1970.
    pub(super) at: u64,
    pub(super) micros: u64,
    pub(super) ended: CallEnding,
    pub(super) bytes: u64,
    pub(super) problem: Option<Box<CallProblem>>,
    pub(super) started: CallStart,
}

impl PartialEq for CallRecord {
    fn eq(&self, other: &Self) -> bool {
        // An id is given only once, so it stands for the whole record.
        self.id == other.id
    }
}

impl CallRecord {
    /// How long it took, in milliseconds.
    pub(super) fn millis(&self) -> f64 {
        self.micros as f64 / 1000.0
    }

    /// What it did when.
    pub(super) fn timeline(&self) -> Vec<Value> {
        let whole = |note| json!({"stage": "call", "startMs": 0.0, "durationMs": self.millis(), "note": note});
        let Some(timeline) = &self.started.timeline else {
            return vec![whole(Some("what a call does when is recorded while a dashboard is open"))];
        };
        let steps = timeline.steps();
        if steps.is_empty() {
            return vec![whole(None)];
        }
        let step = |step: TimelineStep| {
            let begin = step.begin.as_micros() as u64;
            // A step without an end lasted as long as the call. The bound keeps the difference below from underflowing.
            let end = step.end.map_or(self.micros, |end| end.as_micros() as u64).max(begin);
            let (start, duration) = (begin as f64 / 1000.0, (end - begin) as f64 / 1000.0);
            json!({"stage": step.stage, "startMs": start, "durationMs": duration, "note": step.note})
        };
        steps.into_iter().map(step).collect()
    }
}

impl Serialize for CallRecord {
    /// A row of the list, written without building it first.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let started = &self.started;
        let mut row = serializer.serialize_map(None)?;
        row.serialize_entry("id", &self.id)?;
        row.serialize_entry("at", &self.at)?;
        row.serialize_entry("server", &*started.server)?;
        row.serialize_entry("tool", &*started.subject)?;
        row.serialize_entry("method", started.method.as_str())?;
        row.serialize_entry("caller", &started.caller.identity().to_string())?;
        row.serialize_entry("client", &started.client.as_deref())?;
        row.serialize_entry("face", started.face)?;
        row.serialize_entry("outcome", self.ended.as_str())?;
        row.serialize_entry("durationMs", &self.millis())?;
        row.serialize_entry("bytes", &self.bytes)?;
        row.serialize_entry("error", &self.problem.as_ref().map(|problem| problem.short()))?;
        row.serialize_entry("requestId", &started.request_id.as_deref())?;
        row.end()
    }
}

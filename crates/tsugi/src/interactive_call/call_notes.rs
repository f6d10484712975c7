//! Shows notifications during a call: a progress bar, and a line for each log message.

use serde_json::Value;
use tsugi_protocol::answer::CallNote;
use tsugi_protocol::json::JsonObject;
use tsugi_protocol::mcp::Method;
use tsugi_protocol::mcp::log::LogLevel;
use tsugi_protocol::mcp::meta::RequestMeta;

use crate::output::progress::ProgressLine;
use crate::output::{CommandOutput, printable};

/// A total up to this is a fraction, shown as a percentage.
const WHOLE: f64 = 1.0;

pub(super) struct CallNotes<'a> {
    output: &'a CommandOutput,
    subject: String,
    level: Option<LogLevel>,
    /// A spinner until the server sends a total.
    progress: Option<ProgressLine>,
    has_total: bool,
}

impl<'a> CallNotes<'a> {
    pub(super) fn new(output: &'a CommandOutput, subject: &str, meta: &RequestMeta) -> Self {
        let progress = Some(output.progress(subject, None));
        CallNotes { output, subject: subject.to_owned(), level: meta.log_level, progress, has_total: false }
    }

    /// Shows one notification. Unknown ones are only logged.
    pub(super) fn show(&mut self, note: &CallNote) {
        match note.method {
            Method::Progress => self.advance(&note.params_object()),
            Method::LogMessage => self.log(&note.params_object()),
            _ => tracing::debug!(method = %note.method, "a notification"),
        }
    }

    fn advance(&mut self, params: &JsonObject) {
        let number = |key: &str| params.get(key).and_then(|value| value.to::<f64>().ok());
        let Some(done) = number("progress") else { return };
        let total = number("total").filter(|total| *total > 0.0);
        let scale = if total.is_some_and(|total| total <= WHOLE) { 100.0 } else { 1.0 };
        if let Some(total) = total.filter(|_| !self.has_total) {
            // Dropped first: two bars at once would draw over each other.
            self.progress = None;
            self.progress = Some(self.output.progress(&self.subject, Some((total * scale) as u64)));
            self.has_total = true;
        }
        let message = params.get_lossy("message").map(|message| format!("{}: {message}", self.subject));
        if let Some(progress) = &self.progress {
            progress.report(done * scale, total.map(|total| total * scale), message.as_deref());
        }
        tracing::debug!(subject = self.subject, done, total, "progress");
    }

    /// Legacy servers may log more than the requested level.
    fn log(&mut self, params: &JsonObject) {
        let level = params.get_str("level").and_then(|level| LogLevel::parse(&level)).unwrap_or(LogLevel::Info);
        if self.level.is_none_or(|wanted| level < wanted) {
            return;
        }
        let data: Value = params.get("data").and_then(|data| data.to_lossy().ok()).unwrap_or_default();
        let text = data.as_str().map_or_else(|| data.to_string(), str::to_owned);
        let logger = params.get_str("logger").map(|logger| format!("{logger}: ")).unwrap_or_default();
        let line = printable(&format!("{level} {}: {logger}{text}", self.subject, level = level.as_str()));
        let say = || {
            let is_loud = level >= LogLevel::Warning;
            self.output.message(|paint| if is_loud { paint.warning(&line) } else { paint.faint(&line) });
        };
        match &self.progress {
            Some(progress) => progress.aside(say),
            None => say(),
        }
    }
}

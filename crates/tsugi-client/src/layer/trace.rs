//! One line in the log for every call: what, where, how long, how it ended; never with what.

use std::collections::HashSet;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use tracing::Level;
use tsugi_protocol::answer::{Answer, Call, CallFailure, Outcome, Reply, ReplyEvent, ReplySource};

use crate::config::ServerConfig;

/// Logs calls. Quiet tools are logged at debug level only.
pub(crate) struct TraceLayer<A> {
    inner: A,
    server: Arc<str>,
    quiet: HashSet<String>,
}

impl<A> TraceLayer<A> {
    pub(crate) fn new(inner: A, config: &ServerConfig) -> Self {
        let quiet = config.tools.iter().filter(|(_, tool)| tool.is_quiet).map(|(name, _)| name.clone()).collect();
        Self { inner, server: config.name.as_str().into(), quiet }
    }
}

impl<A: Answer> Answer for TraceLayer<A> {
    fn answer(&self, call: Call) -> Reply {
        if !tracing::enabled!(Level::INFO) {
            return self.inner.answer(call);
        }
        let subject = call.subject().map(|subject| subject.into_owned());
        let is_quiet = subject.as_ref().is_some_and(|subject| self.quiet.contains(subject));
        let line = TraceEntry {
            server: self.server.clone(),
            method: call.method.to_string(),
            subject: subject.unwrap_or_default(),
            request_id: call.options.request_id.clone(),
            is_quiet,
            is_written: false,
            started: Instant::now(),
        };
        Reply::from_source(TraceReply { reply: self.inner.answer(call), line })
    }
}

struct TraceEntry {
    server: Arc<str>,
    method: String,
    subject: String,
    /// By which the line of the request is found that brought the call.
    request_id: Option<Arc<str>>,
    is_quiet: bool,
    is_written: bool,
    started: Instant,
}

impl TraceEntry {
    fn write(&mut self, ended: &str) {
        self.is_written = true;
        let ms = self.started.elapsed().as_secs_f64() * 1000.0;
        let (server, method, subject) = (&self.server, &self.method, &self.subject);
        let request_id = self.request_id.as_deref();
        if self.is_quiet {
            tracing::debug!(request_id, %server, method, subject, ms, ended, "call");
        } else {
            tracing::info!(request_id, %server, method, subject, ms, ended, "call");
        }
    }
}

fn how(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Complete(complete) if complete.is_tool_error() => "tool error".into(),
        Outcome::Complete(_) => "ok".into(),
        Outcome::InputRequired(_) => "input required".into(),
        Outcome::Failed(CallFailure::Upstream(error)) => format!("error {}", error.code()),
        Outcome::Failed(CallFailure::Fault(fault)) => fault.code.as_str().into(),
    }
}

struct TraceReply {
    reply: Reply,
    line: TraceEntry,
}

impl Drop for TraceReply {
    fn drop(&mut self) {
        if !self.line.is_written {
            self.line.write("cancelled");
        }
    }
}

impl ReplySource for TraceReply {
    fn poll_event(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<ReplyEvent> {
        let event = std::task::ready!(self.reply.poll_event(context));
        if let ReplyEvent::Done(outcome) = &event {
            self.line.write(&how(outcome));
        }
        Poll::Ready(event)
    }
}

#[cfg(test)]
mod tests;

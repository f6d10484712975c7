//! Logs what is sent to a server and what comes back, with secrets masked. Only present with `options.debug`.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tsugi_process::{SecretMask, StderrLog};
use tsugi_protocol::answer::{Answer, Call, CallFailure, Outcome, Reply, ReplyEvent, ReplySource};

use crate::config::ServerConfig;

/// The log target of these lines. The commands show it at every level but `--quiet`.
pub(crate) const DEBUG: &str = "tsugi_debug";

/// The innermost layer: what passes here goes to the server, retries included.
pub(crate) struct DebugLayer {
    inner: Arc<dyn Answer>,
    log: Arc<MessageLog>,
}

struct MessageLog {
    server: String,
    mask: SecretMask,
}

impl DebugLayer {
    pub(crate) fn new(inner: Arc<dyn Answer>, config: &ServerConfig) -> Self {
        let log = MessageLog { server: config.name.clone(), mask: config.job.0.redact.clone() };
        Self { inner, log: Arc::new(log) }
    }
}

impl MessageLog {
    fn sent(&self, call: &Call) {
        let (server, params) = (&self.server, self.mask.mask(call.params.raw().as_str()));
        tracing::info!(target: DEBUG, %server, method = %call.method, params, "sent");
    }

    fn received(&self, event: &ReplyEvent) {
        let (server, text) = (&self.server, self.mask.mask(&text_of(event)));
        tracing::info!(target: DEBUG, %server, message = text, "received");
    }
}

fn text_of(event: &ReplyEvent) -> String {
    match event {
        ReplyEvent::Note(note) => format!("{} {}", note.method, note.params_object().raw().as_str()),
        ReplyEvent::Done(Outcome::Complete(complete)) => complete.body.raw().as_str().to_owned(),
        ReplyEvent::Done(Outcome::InputRequired(asked)) => {
            asked.requests.as_ref().map(|requests| requests.raw().as_str().to_owned()).unwrap_or_default()
        }
        ReplyEvent::Done(Outcome::Failed(CallFailure::Upstream(error))) => {
            format!("{} {}", error.code(), error.message())
        }
        ReplyEvent::Done(Outcome::Failed(CallFailure::Fault(fault))) => fault.to_string(),
    }
}

impl Answer for DebugLayer {
    fn answer(&self, call: Call) -> Reply {
        self.log.sent(&call);
        Reply::from_source(DebugReply { reply: self.inner.answer(call), log: self.log.clone() })
    }
}

struct DebugReply {
    reply: Reply,
    log: Arc<MessageLog>,
}

impl ReplySource for DebugReply {
    fn poll_event(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<ReplyEvent> {
        let event = std::task::ready!(self.reply.poll_event(context));
        self.log.received(&event);
        Poll::Ready(event)
    }
}

/// Logs a process's standard error line by line until it ends. The lines are masked already.
pub(crate) fn follow_stderr(server: Arc<str>, stderr: &StderrLog) {
    let mut lines = stderr.subscribe();
    let early = stderr.tail(usize::MAX);
    tokio::spawn(async move {
        early.iter().for_each(|line| tracing::info!(target: DEBUG, %server, line, "stderr"));
        loop {
            match lines.recv().await {
                Ok(line) => tracing::info!(target: DEBUG, %server, line = &*line, "stderr"),
                // A burst can be faster than the log; the rest is still worth showing.
                Err(tokio::sync::broadcast::error::RecvError::Lagged(lost)) => {
                    tracing::info!(target: DEBUG, %server, lost, "stderr: lines were lost");
                }
                Err(tokio::sync::broadcast::error::RecvError::Closed) => return,
            }
        }
    });
}

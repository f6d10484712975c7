//! A running call as faces see it: a panic becomes an error of that call, unwanted notifications are left out, and
//! only administrators see what a process wrote to its standard error.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use ::http::header::WWW_AUTHENTICATE;
use ::http::{HeaderValue, Response, StatusCode};
use bytes::Bytes;
use futures_util::task::AtomicWaker;

use tsugi_protocol::answer::{Answer, Call, CallFailure, CallNote, Outcome, Reply, ReplyEvent};
use tsugi_protocol::era::notification;
use tsugi_protocol::json::JsonObject;
use tsugi_protocol::mcp::Method;
use tsugi_protocol::mcp::log::LogLevel;
use tsugi_protocol::mcp::meta::RequestMeta;
use tsugi_protocol::rpc::{RequestId, RpcResponse};

use super::mcp::modern;
use super::{fault, http};
use crate::body::ResponseBody;

/// A reply on its way. Dropping it cancels the call.
pub(crate) struct RunningCall {
    reply: Reply,
    wanted: NotificationFilter,
    /// Whether the caller may read what a server's process wrote to its standard error.
    sees_stderr: bool,
}

impl RunningCall {
    /// Starts a call.
    pub(crate) fn start(answer: &dyn Answer, call: Call) -> Self {
        let wanted = NotificationFilter::of(&call.meta);
        let sees_stderr = call.caller.is_operator();
        let reply = catch_unwind(AssertUnwindSafe(|| answer.answer(call)));
        Self { reply: reply.unwrap_or_else(|_| Reply::fault(fault::panicked("a call"))), wanted, sees_stderr }
    }

    /// The next wanted note, or the outcome.
    pub(crate) fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<ReplyEvent> {
        loop {
            let reply = &mut self.reply;
            let polled = catch_unwind(AssertUnwindSafe(|| reply.poll_event(context)));
            match polled.unwrap_or_else(|_| Poll::Ready(ReplyEvent::Done(Outcome::fault(fault::panicked("a call"))))) {
                Poll::Ready(ReplyEvent::Note(note)) if !self.wanted.wants(&note) => {}
                Poll::Ready(ReplyEvent::Done(Outcome::Failed(CallFailure::Fault(mut fault)))) if !self.sees_stderr => {
                    fault::hide_stderr(&mut fault);
                    return Poll::Ready(ReplyEvent::Done(Outcome::Failed(CallFailure::Fault(fault))));
                }
                other => return other,
            }
        }
    }

    /// The next wanted note, or the outcome.
    pub(crate) async fn next(&mut self) -> ReplyEvent {
        std::future::poll_fn(|context| self.poll_event(context)).await
    }

    /// The outcome; notes are dropped.
    pub(crate) async fn outcome(mut self) -> Outcome {
        loop {
            if let ReplyEvent::Done(outcome) = self.next().await {
                return outcome;
            }
        }
    }
}

/// Which notifications the caller asked for. Connections hold back log messages by the same rule, for users of the library;
/// here it is the duty of a server, whatever answers behind it.
#[derive(Debug, Clone, Copy)]
struct NotificationFilter {
    progress: bool,
    level: Option<LogLevel>,
}

impl NotificationFilter {
    fn of(meta: &RequestMeta) -> Self {
        Self { progress: meta.progress_token.is_some(), level: meta.log_level }
    }

    fn wants(self, note: &CallNote) -> bool {
        match note.method {
            Method::Progress => self.progress,
            Method::LogMessage => notification::is_log_wanted(note, self.level),
            _ => true,
        }
    }
}

/// What a running call sends to its client.
pub(crate) enum TurnOutput {
    /// A notification or a question; more follows.
    Message(Bytes),
    /// The response; nothing follows.
    Response(RpcResponseBody),
    /// Nothing: the client cancelled the request and expects no response.
    Silence,
}

/// A response on its way out: a result stays as it is until the wire is known, since HTTP sends it without a copy.
pub(crate) enum RpcResponseBody {
    /// Written on one line.
    Whole(Bytes),
    /// A result, and which request it answers.
    Result(RequestId, JsonObject),
    /// A refusal for want of scope: an HTTP exchange says so in its head, too.
    Refused(Bytes, HeaderValue),
}

impl RpcResponseBody {
    /// The response on one line, as streams need it.
    pub(crate) fn into_bytes(self) -> Bytes {
        match self {
            RpcResponseBody::Whole(response) | RpcResponseBody::Refused(response, _) => response,
            RpcResponseBody::Result(id, result) => RpcResponse::result(id, result.raw()).to_bytes(),
        }
    }

    /// The response as all that an HTTP exchange has to say.
    pub(crate) fn into_response(self) -> Response<ResponseBody> {
        match self {
            RpcResponseBody::Whole(response) => http::json(StatusCode::OK, ResponseBody::one(response)),
            RpcResponseBody::Result(id, result) => http::json(StatusCode::OK, modern::around(&id, &result)),
            // Authorization is a matter of HTTP in every era.
            RpcResponseBody::Refused(response, challenge) => {
                let mut refusal = http::json(StatusCode::FORBIDDEN, ResponseBody::one(response));
                refusal.headers_mut().insert(WWW_AUTHENTICATE, challenge);
                refusal
            }
        }
    }
}

/// Cancels one turn from outside.
#[derive(Default)]
pub(crate) struct CancelSwitch {
    is_set: AtomicBool,
    waker: AtomicWaker,
}

impl CancelSwitch {
    pub(crate) fn is_set(&self) -> bool {
        self.is_set.load(Ordering::SeqCst)
    }

    pub(crate) fn register(&self, waker: &Waker) {
        self.waker.register(waker);
    }

    pub(crate) fn set(&self) {
        self.is_set.store(true, Ordering::SeqCst);
        self.waker.wake();
    }
}

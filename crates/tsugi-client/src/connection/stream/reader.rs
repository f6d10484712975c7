//! The one task that reads a stream: routes answers by peeking, and everything else by what it is.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use tsugi_process::SupervisedJob;
use tsugi_protocol::answer::{Caller, Fault, FaultCode};
use tsugi_protocol::era::notification;
use tsugi_protocol::json::{JsonObject, RawJson, lenient};
use tsugi_protocol::mcp::{Era, Method, meta};
use tsugi_protocol::rpc::{
    RequestId, RpcError, RpcMessage, RpcNotification, RpcRequest, RpcResponse, code, response_id,
};
use tsugi_transport::{Inbox, LinkEvent, TransportError};

use super::{CallArrival, StreamCore};
use crate::connection::batch;
use crate::connection::notice::ServerNotice;
use crate::error::{call_fault, process_end};

/// How long to wait for the exit status of a server that closed its output or its input.
const EXIT_LIMIT: Duration = Duration::from_millis(500);
/// How often to look whether a server that closed its input has answered everything.
const DEAF_PAUSE: Duration = Duration::from_millis(20);
/// How many notes may wait for a caller that does not look.
const MAX_NOTES: usize = 256;

/// Reads until the stream ends, then tells everybody.
pub(super) async fn run(shared: Arc<StreamCore>, mut inbox: Inbox, job: Option<SupervisedJob>) {
    let mut batch = Vec::new();
    let mut answers = Vec::new();
    let mut unknown = Vec::new();
    let end = loop {
        // What came before the end counts, also where it is told together with the end.
        let end = inbox.receive(&mut batch).await.err();
        for received in batch.drain(..) {
            match received {
                LinkEvent::Message(line) => match response_id::response_id(&line) {
                    Some(key) => answers.push((key, CallArrival::Answer(line))),
                    None => {
                        // What was written before must be delivered before.
                        deliver(&shared, &mut answers, &mut unknown);
                        route(&shared, line);
                    }
                },
                LinkEvent::Unreadable(head, error) => fail_answer(&shared, &head, &error),
                LinkEvent::Undelivered(request, error) => fail_request(&shared, request, &error),
            }
        }
        deliver(&shared, &mut answers, &mut unknown);
        if !unknown.is_empty() {
            tracing::debug!(server = %shared.context.server, count = unknown.len(), "answers nobody waits for");
            unknown.clear();
        }
        if let Some(end) = end {
            break end;
        }
    };
    shared.begin_to_end();
    let fault = end_fault(&shared, end, job).await;
    shared.finish(Arc::new(fault));
}

type AnswerBatch = Vec<(u64, CallArrival)>;

fn deliver(shared: &StreamCore, answers: &mut AnswerBatch, unknown: &mut AnswerBatch) {
    // Only of a server that asks can an answer show that a question was taken for another call's.
    if !shared.turnstile.is_on() {
        return shared.pending.post_batch(answers, unknown);
    }
    let keys: Vec<u64> = answers.iter().map(|(key, _)| *key).collect();
    shared.pending.post_batch(answers, unknown);
    for key in keys {
        shared.answered(key);
    }
}

/// A line that is not plainly an answer.
fn route(shared: &StreamCore, line: Bytes) {
    for message in batch::messages_or_one(line) {
        route_one(shared, message);
    }
}

fn route_one(shared: &StreamCore, line: Bytes) {
    match RpcMessage::parse(line.clone()) {
        Ok(RpcMessage::Response(response)) => route_response(shared, &response, line),
        Ok(RpcMessage::Notification(notification)) => route_notification(shared, notification),
        Ok(RpcMessage::Request(request)) => route_request(shared, request),
        Err(_) if is_broken_answer(shared, &line) => {}
        // Servers print banners and stack traces to their output. Answering would start a storm.
        Err(error) => {
            let start = String::from_utf8_lossy(&line[..line.len().min(120)]).into_owned();
            tracing::debug!(server = %shared.context.server, %error, line = start, "a line that is no message");
            shared.context.noise.add(&line);
        }
    }
}

/// A line that would be an answer to one of our calls if it had the right form: its caller is told what is
/// wrong with it, rather than left to wait.
fn is_broken_answer(shared: &StreamCore, line: &Bytes) -> bool {
    let key = match JsonObject::parse(line.clone()) {
        Ok(object) => {
            object.get("id").filter(|_| !object.has("method")).and_then(RequestId::from_raw).and_then(|id| id.as_u64())
        }
        Err(_) => lenient::response_id(line),
    };
    let Some(key) = key else { return false };
    shared.pending.post(key, CallArrival::Answer(line.clone())).is_ok()
}

/// A line that is too large. Its beginning may tell whose answer it is; an answer that has its id at the end is
/// that of the only call, if there is one. The callers of others wait for their deadline.
fn fail_answer(shared: &StreamCore, head: &[u8], error: &TransportError) {
    tracing::warn!(server = %shared.context.server, %error, "a message from the server was passed over");
    let fault = Arc::new(call_fault(error).on_server(&shared.context.server));
    let its_own = || response_id::response_id(head).or_else(|| lenient::response_id(head));
    let the_only = || has_id_at_end(head).then(|| only_call(shared)).flatten();
    if let Some(key) = its_own().or_else(the_only) {
        let _ = shared.pending.post(key, CallArrival::Failed(fault));
    }
}

fn has_id_at_end(head: &[u8]) -> bool {
    let without_spaces = head.iter().copied().filter(|byte| !byte.is_ascii_whitespace());
    let start: Vec<u8> = without_spaces.take(32).collect();
    [&b"{\"result\":"[..], b"{\"jsonrpc\":\"2.0\",\"result\":"].iter().any(|expected| start.starts_with(expected))
}

/// A request that could not be delivered.
fn fail_request(shared: &StreamCore, request: Bytes, error: &TransportError) {
    let Ok(RpcMessage::Request(request)) = RpcMessage::parse(request) else { return };
    let fault = Arc::new(call_fault(error).on_server(&shared.context.server));
    if let Some(key) = request.id.as_u64() {
        let _ = shared.pending.post(key, CallArrival::Failed(fault));
    }
}

fn route_response(shared: &StreamCore, response: &RpcResponse, line: Bytes) {
    let key = response.id.as_ref().and_then(RequestId::as_u64);
    match key.filter(|key| shared.pending.post(*key, CallArrival::Answer(line)).is_ok()) {
        Some(key) => shared.answered(key),
        None => tracing::debug!(server = %shared.context.server, "an answer nobody waits for"),
    }
}

fn route_notification(shared: &StreamCore, notification: RpcNotification) {
    if let Some(key) = subscription(&notification) {
        let _ = shared.pending.post_bounded(key, CallArrival::Note(notification), MAX_NOTES);
        return;
    }
    if let Some(notice) = ServerNotice::of(&notification) {
        shared.context.publish(notice);
        return;
    }
    let key = match notification.method {
        Method::Progress => token(notification.params.as_ref(), meta::PROGRESS_TOKEN),
        Method::LogMessage => log_owner(shared),
        Method::Cancelled => {
            if let Some(id) = notification::cancelled_id(&notification).filter(|_| shared.era() == Era::Legacy) {
                shared.withdraw(&id);
            }
            None
        }
        _ => token(notification.params.as_ref(), "requestId").or_else(|| only_call(shared)),
    };
    if let Some(key) = key {
        let _ = shared.pending.post_bounded(key, CallArrival::Note(notification), MAX_NOTES);
    }
}

/// The listen call that a modern notification belongs to.
fn subscription(notification: &RpcNotification) -> Option<u64> {
    let meta = notification.params_object().get_object("_meta")?;
    RequestId::from_raw(meta.get(meta::SUBSCRIPTION_ID)?)?.as_u64()
}

fn token(params: Option<&RawJson>, key: &str) -> Option<u64> {
    RequestId::from_raw(JsonObject::of(params?)?.get(key)?)?.as_u64()
}

/// A log line on a stream does not say whose it is. It goes to the oldest call that wants log lines,
/// unless calls of different callers want them: then nobody gets it.
fn log_owner(shared: &StreamCore) -> Option<u64> {
    let mut found: Option<(u64, Caller)> = None;
    let mut is_ambiguous = false;
    shared.pending.for_each(|key, tag| {
        if !tag.wants_log {
            return;
        }
        match &mut found {
            None => found = Some((key, tag.caller.clone())),
            Some((oldest, caller)) if *caller == tag.caller => *oldest = (*oldest).min(key),
            Some(_) => is_ambiguous = true,
        }
    });
    found.filter(|_| !is_ambiguous).map(|(key, _)| key)
}

fn only_call(shared: &StreamCore) -> Option<u64> {
    let mut keys = Vec::new();
    shared.pending.for_each(|key, tag| {
        if tag.is_of_caller {
            keys.push(key);
        }
    });
    <[u64; 1]>::try_from(keys).ok().map(|[key]| key)
}

fn route_request(shared: &StreamCore, request: RpcRequest) {
    match request.method {
        Method::Ping => shared.respond(&RpcResponse::result(request.id, RawJson::literal("{}"))),
        Method::Elicit | Method::CreateMessage | Method::RootsList if shared.era() == Era::Legacy => {
            shared.route_question(request);
        }
        _ => {
            let error = RpcError::new(code::METHOD_NOT_FOUND, "method not found");
            shared.respond(&RpcResponse::error(Some(request.id), error));
        }
    }
}

/// Watches the server's input. A server that closes it hears nothing any more: the calls it has may end, then it
/// is stopped.
pub(super) async fn watch_input(shared: Arc<StreamCore>, job: Option<SupervisedJob>) {
    shared.outbox.input_closed().await;
    shared.begin_to_end();
    while shared.in_flight() > 0 {
        tokio::time::sleep(DEAF_PAUSE).await;
    }
    let Some(job) = job else { return };
    // A process that ends closes its input too, and its own end says more than our stopping it.
    if tokio::time::timeout(EXIT_LIMIT, job.exited()).await.is_err() {
        shared.is_deaf.store(true, Ordering::Release);
        job.kill();
    }
}

/// Why the stream ended: the end of the process, where there is one.
async fn end_fault(shared: &StreamCore, end: Option<TransportError>, job: Option<SupervisedJob>) -> Fault {
    let context = &shared.context;
    let Some(job) = job else {
        return match end {
            Some(error) => call_fault(&error).on_server(&context.server),
            None => context.fault(FaultCode::ConnectionLost, "the server closed the connection"),
        };
    };
    let (message, report) = match tokio::time::timeout(EXIT_LIMIT, job.exited()).await {
        Ok(report) if shared.was_deaf() => ("the server closed its input and was stopped", report),
        Ok(report) => ("the server's process ended", report),
        Err(_) => {
            job.kill();
            ("the server closed its output and was stopped", job.exited().await)
        }
    };
    context.fault(FaultCode::ServerCrashed, message).with_process(process_end(&report))
}

//! The task that reads a stream: it routes answers by their id without parsing them, and parses everything else.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use tsugi_process::SupervisedJob;
use tsugi_protocol::answer::{Fault, FaultCode, SentState};
use tsugi_protocol::json::{JsonObject, RawJson, lenient};
use tsugi_protocol::mcp::{Method, meta};
use tsugi_protocol::rpc::{RequestId, RpcMessage, RpcNotification, RpcResponse, response_id};
use tsugi_transport::{Inbox, LinkEvent, TransportError};

use super::StreamCore;
use crate::connection::in_flight::CallArrival;
use crate::connection::notice::ServerNotice;
use crate::connection::question_owner::QuestionClient;
use crate::connection::{batch, question_router};
use crate::error::{call_fault, process_end};

/// How long to wait for the exit status of a server that closed its output or its input.
const EXIT_LIMIT: Duration = Duration::from_millis(500);
/// How often to look whether a server that closed its input has answered everything.
const DEAF_PAUSE: Duration = Duration::from_millis(20);

/// Reads until the stream ends, then ends every call in flight.
pub(super) async fn run(core: Arc<StreamCore>, mut inbox: Inbox, job: Option<SupervisedJob>) {
    let mut batch = Vec::new();
    let mut answers = Vec::new();
    let mut unknown = Vec::new();
    let end = loop {
        // Messages that were read together with the end still count.
        let end = inbox.receive(&mut batch).await.err();
        for received in batch.drain(..) {
            match received {
                LinkEvent::Message(line) => match response_id::response_id(&line) {
                    Some(key) => answers.push((key, CallArrival::Answer(line))),
                    None => {
                        // Keeps the order: answers that came before this message are delivered before it.
                        deliver(&core, &mut answers, &mut unknown);
                        route(&core, line);
                    }
                },
                LinkEvent::Unreadable(head, error) => fail_answer(&core, &head, &error),
                LinkEvent::Undelivered(request, error) => fail_request(&core, request, &error),
            }
        }
        deliver(&core, &mut answers, &mut unknown);
        if !unknown.is_empty() {
            tracing::debug!(server = %core.table.context.server, count = unknown.len(), "ignored answers that no call waits for");
            unknown.clear();
        }
        if let Some(end) = end {
            break end;
        }
    };
    core.begin_to_end();
    let fault = end_fault(&core, end, job).await;
    core.finish(Arc::new(fault));
}

type AnswerBatch = Vec<(u64, CallArrival)>;

fn deliver(core: &Arc<StreamCore>, answers: &mut AnswerBatch, unknown: &mut AnswerBatch) {
    let ledger = &core.table.ledger;
    // Only a server that asks, or whose calls were cancelled, is worth a list of keys.
    let has_news = ledger.has_asked() || ledger.has_cancelled();
    let keys: Vec<u64> = answers.iter().filter(|_| has_news).map(|(key, _)| *key).collect();
    core.table.pending.post_batch(answers, unknown);
    question_router::answered(core, &keys);
}

/// Takes a line that is not plainly an answer.
fn route(core: &Arc<StreamCore>, line: Bytes) {
    for message in batch::messages_or_one(line) {
        route_one(core, message);
    }
}

fn route_one(core: &Arc<StreamCore>, line: Bytes) {
    match RpcMessage::parse(line.clone()) {
        Ok(RpcMessage::Response(response)) => route_response(core, &response, line),
        Ok(RpcMessage::Notification(notification)) => route_notification(core, notification),
        Ok(RpcMessage::Request(request)) => question_router::take_request(core, request, None),
        Err(_) if is_broken_answer(core, &line) => {}
        // Servers print banners and stack traces to their output. Answering would start a storm.
        Err(error) => {
            let start = String::from_utf8_lossy(&line[..line.len().min(120)]).into_owned();
            tracing::debug!(server = %core.table.context.server, %error, line = start, "skipped a line that is not a message");
            core.table.context.noise.add(&line);
        }
    }
}

/// Whether the line would be an answer to one of our calls if it had the right form. Its caller gets the reason, rather
/// than a timeout.
fn is_broken_answer(core: &Arc<StreamCore>, line: &Bytes) -> bool {
    let key = match JsonObject::parse(line.clone()) {
        Ok(object) => {
            object.get("id").filter(|_| !object.has("method")).and_then(RequestId::from_raw).and_then(|id| id.as_u64())
        }
        Err(_) => lenient::response_id(line),
    };
    let Some(key) = key else { return false };
    core.table.pending.post(key, CallArrival::Answer(line.clone())).is_ok()
}

/// Takes the head of a line that is too large. It may show the id; an answer with its id at the end is that of the only
/// call, if there is one. Other callers wait for their deadline.
fn fail_answer(core: &Arc<StreamCore>, head: &[u8], error: &TransportError) {
    tracing::warn!(server = %core.table.context.server, %error, "skipped a message from the server");
    let fault = Arc::new(call_fault(error).on_server(&core.table.context.server));
    let its_own = || response_id::response_id(head).or_else(|| lenient::response_id(head));
    let the_only = || has_id_at_end(head).then(|| core.table.only_call()).flatten();
    if let Some(key) = its_own().or_else(the_only) {
        let _ = core.table.pending.post(key, CallArrival::Failed(fault));
    }
}

fn has_id_at_end(head: &[u8]) -> bool {
    let without_spaces = head.iter().copied().filter(|byte| !byte.is_ascii_whitespace());
    // Long enough for either beginning, however it is spaced.
    let start: Vec<u8> = without_spaces.take(32).collect();
    [&b"{\"result\":"[..], b"{\"jsonrpc\":\"2.0\",\"result\":"].iter().any(|expected| start.starts_with(expected))
}

/// Ends a call whose request could not be delivered.
fn fail_request(core: &Arc<StreamCore>, request: Bytes, error: &TransportError) {
    let Ok(RpcMessage::Request(request)) = RpcMessage::parse(request) else { return };
    let fault = Arc::new(call_fault(error).on_server(&core.table.context.server));
    if let Some(key) = request.id.as_u64() {
        let _ = core.table.pending.post(key, CallArrival::Failed(fault));
    }
}

fn route_response(core: &Arc<StreamCore>, response: &RpcResponse, line: Bytes) {
    let key = response.id.as_ref().and_then(RequestId::as_u64);
    if key.is_none_or(|key| core.table.pending.post(key, CallArrival::Answer(line)).is_err()) {
        tracing::debug!(server = %core.table.context.server, "ignored an answer that no call waits for");
    }
    question_router::answered(core, key.as_slice());
}

fn route_notification(core: &Arc<StreamCore>, notification: RpcNotification) {
    if let Some(key) = subscription(&notification) {
        core.table.note(key, notification);
        return;
    }
    if let Some(notice) = ServerNotice::of(&notification) {
        core.table.context.publish(notice);
        return;
    }
    let key = match notification.method {
        Method::Progress => token(notification.params.as_ref(), meta::PROGRESS_TOKEN),
        Method::LogMessage => log_owner(core),
        Method::Cancelled => {
            question_router::withdraw(core, &notification);
            None
        }
        _ => token(notification.params.as_ref(), "requestId").or_else(|| core.table.only_call()),
    };
    if let Some(key) = key {
        core.table.note(key, notification);
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

/// A log message on a stream does not name its call. It goes to the oldest call that wants log messages, unless calls
/// of several clients do: one client's messages are not for another.
fn log_owner(core: &Arc<StreamCore>) -> Option<u64> {
    let mut wanting: Vec<(u64, QuestionClient)> = Vec::new();
    core.table.pending.for_each(|key, call| {
        if let Some(call) = call.of_caller().filter(|call| call.meta.log_level.is_some()) {
            wanting.push((key, QuestionClient::of(key, call)));
        }
    });
    let (_, first) = wanting.first()?;
    let is_one_client = wanting.iter().all(|(_, client)| client == first);
    wanting.iter().map(|(key, _)| *key).min().filter(|_| is_one_client)
}

/// Watches the server's input. A server that closes it can receive no more calls: those in flight may end, then it is
/// stopped.
pub(super) async fn watch_input(core: Arc<StreamCore>, job: Option<SupervisedJob>) {
    core.outbox.input_closed().await;
    core.begin_to_end();
    while core.table.in_flight() > 0 {
        tokio::time::sleep(DEAF_PAUSE).await;
    }
    let Some(job) = job else { return };
    // A process that exits closes its input too, and its exit status says more than our killing it.
    if tokio::time::timeout(EXIT_LIMIT, job.exited()).await.is_err() {
        core.is_deaf.store(true, Ordering::Release);
        job.kill();
    }
}

/// Why the stream ended: the end of the process, where there is one.
async fn end_fault(core: &Arc<StreamCore>, end: Option<TransportError>, job: Option<SupervisedJob>) -> Fault {
    let context = &core.table.context;
    // We ended it, so its end is not a crash, and a call in flight may or may not have run.
    if core.is_closed.load(Ordering::Acquire) {
        return context.fault(FaultCode::ServerNotRunning, "the server was stopped").sent(SentState::Unknown);
    }
    let Some(job) = job else {
        return match end {
            Some(error) => call_fault(&error).on_server(&context.server),
            None => context.fault(FaultCode::ConnectionLost, "the server closed the connection"),
        };
    };
    let (message, report) = match tokio::time::timeout(EXIT_LIMIT, job.exited()).await {
        Ok(report) if core.was_deaf() => ("the server closed its input and was stopped", report),
        Ok(report) => ("the server's process ended", report),
        Err(_) => {
            job.kill();
            ("the server closed its output and was stopped", job.exited().await)
        }
    };
    context.fault(FaultCode::ServerCrashed, message).with_process(process_end(&report))
}

//! The stream on which a legacy HTTP server sends messages outside any call: changes, and what it does not send on a
//! call's own stream.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use tokio::task::AbortHandle;
use tsugi_protocol::mcp::{Method, meta};
use tsugi_protocol::rpc::{RequestId, RpcMessage};
use tsugi_transport::TransportError;
use tsugi_transport::http::{BodyKind, EventStream, HttpResponse, headers};

use super::super::in_flight::CallArrival;
use super::super::notice::ServerNotice;
use super::super::{batch, question_router};
use super::HttpCore;

/// How long to wait before opening the stream again, unless the server says otherwise.
const REOPEN_AFTER: Duration = Duration::from_secs(1);
const REOPEN_LONGEST: Duration = Duration::from_secs(60);

/// How long to wait for the stream to open before calls may begin. Some servers send no headers before the first
/// message.
const OPEN_LIMIT: Duration = Duration::from_millis(300);

type ListenerOpening = Pin<Box<dyn Future<Output = Result<HttpResponse, TransportError>> + Send>>;

/// Asks for the stream, and reads it in the background until the connection is dropped. The request is
/// made before any call, as a server may take a later one for the resumption of a call's stream.
pub(super) async fn start(core: Arc<HttpCore>) -> AbortHandle {
    let mut opening = open(core.clone(), None);
    let opened = tokio::time::timeout(OPEN_LIMIT, &mut opening).await;
    let opening: ListenerOpening = match opened {
        Ok(response) => Box::pin(std::future::ready(response)),
        Err(_) => opening,
    };
    tokio::spawn(run(core, opening)).abort_handle()
}

fn open(core: Arc<HttpCore>, last_id: Option<String>) -> ListenerOpening {
    Box::pin(async move {
        let mut map = core.legacy_headers(&core.session());
        if let Some(id) = last_id.as_deref().and_then(headers::verbatim) {
            map.insert(headers::LAST_EVENT_ID, id);
        }
        core.client.get(map).await
    })
}

/// Keeps the stream open. A new session gets a new stream. A server without such a stream answers 405 and is not asked
/// again.
async fn run(core: Arc<HttpCore>, mut opening: ListenerOpening) {
    let mut renewals = core.renewals.subscribe();
    let mut last_id: Option<String> = None;
    let mut wait = REOPEN_AFTER;
    let mut has_gap = false;
    loop {
        let next = tokio::select! {
            next = stream(&core, opening, &mut last_id, has_gap) => next,
            Ok(()) = renewals.changed() => ReopenDecision::Renewed,
        };
        wait = match next {
            ReopenDecision::After(asked) => asked,
            ReopenDecision::Later => (wait * 2).min(REOPEN_LONGEST),
            ReopenDecision::Never => return,
            ReopenDecision::Renewed => Duration::ZERO,
        };
        let is_renewed = tokio::select! {
            () = tokio::time::sleep(wait) => matches!(next, ReopenDecision::Renewed),
            Ok(()) = renewals.changed() => true,
        };
        // With an id the server resumes where it stopped, and for a new session everything is fetched anyway.
        has_gap = !is_renewed && last_id.is_none();
        if is_renewed {
            (last_id, wait) = (None, REOPEN_AFTER);
        }
        opening = open(core.clone(), last_id.clone());
    }
}

/// When the stream is opened again.
enum ReopenDecision {
    /// After this time.
    After(Duration),
    /// Later than the last time.
    Later,
    /// When there is a new session, which there is.
    Renewed,
    /// Never.
    Never,
}

async fn stream(
    core: &Arc<HttpCore>,
    opening: ListenerOpening,
    last_id: &mut Option<String>,
    has_gap: bool,
) -> ReopenDecision {
    match opening.await {
        Ok(response) if response.status.is_success() && response.kind() == BodyKind::Events => {
            match response.events() {
                Ok(events) => {
                    if has_gap {
                        core.table.context.publish(ServerNotice::Missed);
                    }
                    ReopenDecision::After(follow(core, events, last_id).await.unwrap_or(REOPEN_AFTER))
                }
                Err(_) => ReopenDecision::Never,
            }
        }
        // The server forgot the session; the next call notices and opens a new one.
        Ok(response) if response.status == StatusCode::NOT_FOUND => std::future::pending().await,
        Ok(response) => after_refusal(response.status),
        Err(_) => ReopenDecision::Later,
    }
}

/// A server without such a stream says so. Any other refusal may pass: another stream of the session is not closed yet,
/// a rate limit is reached, a token is renewed.
fn after_refusal(status: StatusCode) -> ReopenDecision {
    match status {
        StatusCode::METHOD_NOT_ALLOWED | StatusCode::BAD_REQUEST | StatusCode::NOT_IMPLEMENTED => ReopenDecision::Never,
        _ => ReopenDecision::Later,
    }
}

async fn follow(core: &Arc<HttpCore>, mut events: EventStream, last_id: &mut Option<String>) -> Option<Duration> {
    let mut retry = None;
    while let Some(Ok(event)) = events.next().await {
        if event.id.is_some() {
            *last_id = event.id;
        }
        retry = event.retry.map(|retry| Duration::from_millis(retry.clamp(100, 60_000))).or(retry);
        for message in batch::messages_or_one(event.data) {
            take(core, message);
        }
    }
    retry
}

fn take(core: &Arc<HttpCore>, message: Bytes) {
    let table = &core.table;
    match RpcMessage::parse(message.clone()) {
        // Servers written with the Python SDK 1.x report progress here.
        Ok(RpcMessage::Notification(note)) if note.method == Method::Progress => {
            let token = note.params_object().get(meta::PROGRESS_TOKEN).and_then(RequestId::from_raw);
            if let Some(key) = token.and_then(|token| token.as_u64()) {
                table.note(key, note);
            }
        }
        Ok(RpcMessage::Notification(note)) if note.method == Method::Cancelled => {
            question_router::withdraw(core, &note);
        }
        Ok(RpcMessage::Notification(notification)) => {
            if let Some(notice) = ServerNotice::of(&notification) {
                table.context.publish(notice);
            }
        }
        Ok(RpcMessage::Request(request)) => question_router::take_request(core, request, None),
        // A server may send the answer here after its call's stream broke.
        Ok(RpcMessage::Response(response)) => {
            let key = response.id.as_ref().and_then(RequestId::as_u64);
            if let Some(key) = key {
                // An answer that no call waits for is dropped.
                let _ = table.pending.post(key, CallArrival::Answer(message));
            }
            question_router::answered(core, key.as_slice());
        }
        Err(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_given_up_only_for_a_server_that_has_none() {
        for (status, is_given_up) in [
            (405, true),
            (400, true),
            (501, true),
            (401, false),
            (408, false),
            (409, false),
            (429, false),
            (500, false),
            (503, false),
        ] {
            let next = after_refusal(StatusCode::from_u16(status).expect("a status"));
            assert_eq!(matches!(next, ReopenDecision::Never), is_given_up, "{status}");
        }
    }
}

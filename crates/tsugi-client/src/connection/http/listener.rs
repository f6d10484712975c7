//! The stream on which a legacy HTTP server speaks by itself: changes, and what it does not say on a call's own.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use tokio::task::AbortHandle;
use tsugi_protocol::mcp::Method;
use tsugi_protocol::rpc::RpcMessage;
use tsugi_transport::TransportError;
use tsugi_transport::http::{BodyKind, EventStream, HttpResponse, headers};

use super::super::batch;
use super::super::notice::ServerNotice;
use super::HttpCore;

/// How long to wait before opening the stream again, unless the server says otherwise.
const REOPEN_AFTER: Duration = Duration::from_secs(1);
const REOPEN_LONGEST: Duration = Duration::from_secs(60);

/// How long to wait for the stream to open before calls may begin. Some servers say nothing on it until
/// they have something to say.
const OPEN_LIMIT: Duration = Duration::from_millis(300);

type ListenerOpening = Pin<Box<dyn Future<Output = Result<HttpResponse, TransportError>> + Send>>;

/// Asks for the stream, and reads it in the background until the connection is dropped. The request is
/// made before any call, as a server may take a later one for the resumption of a call's stream.
pub(super) async fn start(shared: Arc<HttpCore>) -> AbortHandle {
    let mut opening = open(shared.clone(), None);
    let opened = tokio::time::timeout(OPEN_LIMIT, &mut opening).await;
    let opening: ListenerOpening = match opened {
        Ok(response) => Box::pin(std::future::ready(response)),
        Err(_) => opening,
    };
    tokio::spawn(run(shared, opening)).abort_handle()
}

fn open(shared: Arc<HttpCore>, last_id: Option<String>) -> ListenerOpening {
    Box::pin(async move {
        let mut map = shared.legacy_headers(&shared.session());
        if let Some(id) = last_id.as_deref().and_then(headers::verbatim) {
            map.insert(headers::LAST_EVENT_ID, id);
        }
        shared.client.get(map).await
    })
}

/// Keeps the stream open. A new session gets a new stream; a server that offers none answers 405, and that is
/// the end of it.
async fn run(shared: Arc<HttpCore>, mut opening: ListenerOpening) {
    let mut renewals = shared.renewals.subscribe();
    let mut last_id: Option<String> = None;
    let mut wait = REOPEN_AFTER;
    let mut has_gap = false;
    loop {
        let next = tokio::select! {
            next = stream(&shared, opening, &mut last_id, has_gap) => next,
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
        // With an id the server goes on where it stopped, and of a new session everything is asked for anyway.
        has_gap = !is_renewed && last_id.is_none();
        if is_renewed {
            (last_id, wait) = (None, REOPEN_AFTER);
        }
        opening = open(shared.clone(), last_id.clone());
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
    shared: &Arc<HttpCore>,
    opening: ListenerOpening,
    last_id: &mut Option<String>,
    has_gap: bool,
) -> ReopenDecision {
    match opening.await {
        Ok(response) if response.status.is_success() && response.kind() == BodyKind::Events => {
            match response.events() {
                Ok(events) => {
                    if has_gap {
                        shared.context.publish(ServerNotice::Missed);
                    }
                    ReopenDecision::After(follow(shared, events, last_id).await.unwrap_or(REOPEN_AFTER))
                }
                Err(_) => ReopenDecision::Never,
            }
        }
        // The session is forgotten; the next call will notice and open a new one.
        Ok(response) if response.status == StatusCode::NOT_FOUND => std::future::pending().await,
        Ok(response) => after_refusal(response.status),
        Err(_) => ReopenDecision::Later,
    }
}

/// A server that has no such stream says so; any other refusal may pass: another stream of the session is not
/// closed yet, too much is asked for, a token is renewed.
fn after_refusal(status: StatusCode) -> ReopenDecision {
    match status {
        StatusCode::METHOD_NOT_ALLOWED | StatusCode::BAD_REQUEST | StatusCode::NOT_IMPLEMENTED => ReopenDecision::Never,
        _ => ReopenDecision::Later,
    }
}

async fn follow(shared: &Arc<HttpCore>, mut events: EventStream, last_id: &mut Option<String>) -> Option<Duration> {
    let mut retry = None;
    while let Some(Ok(event)) = events.next().await {
        if event.id.is_some() {
            *last_id = event.id;
        }
        retry = event.retry.map(|retry| Duration::from_millis(retry.clamp(100, 60_000))).or(retry);
        for message in batch::messages_or_one(event.data) {
            take(shared, message);
        }
    }
    retry
}

fn take(shared: &Arc<HttpCore>, message: Bytes) {
    match RpcMessage::parse(message.clone()) {
        Ok(RpcMessage::Notification(note)) if note.method == Method::Progress => shared.stray_progress(note),
        Ok(RpcMessage::Notification(note)) if note.method == Method::Cancelled => shared.withdraw(&note),
        Ok(RpcMessage::Notification(notification)) => {
            if let Some(notice) = ServerNotice::of(&notification) {
                shared.context.publish(notice);
            }
        }
        Ok(RpcMessage::Request(request)) => shared.stray_request(request),
        Ok(RpcMessage::Response(response)) => shared.stray_answer(response.id.as_ref(), message),
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

//! The stream on which a legacy HTTP server speaks by itself: changes, and questions outside any call.

use std::sync::Arc;
use std::time::Duration;

use tsugi_protocol::rpc::Message;
use tsugi_transport::http::{EventStream, Kind, headers};

use super::super::context::Notice;
use super::Shared;

/// How long to wait before opening the stream again, unless the server says otherwise.
const REOPEN_AFTER: Duration = Duration::from_secs(1);
const REOPEN_LONGEST: Duration = Duration::from_secs(60);

/// Keeps the stream open until the connection is dropped. A server that offers none answers 405, and
/// that is the end of it.
pub(super) async fn run(shared: Arc<Shared>) {
    let mut last_id: Option<String> = None;
    let mut wait = REOPEN_AFTER;
    loop {
        let mut map = shared.legacy_headers(&shared.session());
        if let Some(id) = &last_id {
            map.insert(headers::LAST_EVENT_ID, headers::encode(id));
        }
        match shared.client.get(map).await {
            Ok(response) if response.status.is_success() && response.kind() == Kind::Events => {
                let Ok(events) = response.events() else { return };
                wait = follow(&shared, events, &mut last_id).await.unwrap_or(REOPEN_AFTER);
            }
            Ok(response) if response.status.is_client_error() => return,
            _ => wait = (wait * 2).min(REOPEN_LONGEST),
        }
        tokio::time::sleep(wait).await;
    }
}

async fn follow(shared: &Arc<Shared>, mut events: EventStream, last_id: &mut Option<String>) -> Option<Duration> {
    let mut retry = None;
    while let Some(Ok(event)) = events.next().await {
        if event.id.is_some() {
            *last_id = event.id;
        }
        retry = event.retry.map(|retry| Duration::from_millis(retry.clamp(100, 60_000))).or(retry);
        match Message::parse(event.data) {
            Ok(Message::Notification(notification)) => {
                if let Some(notice) = Notice::of(&notification) {
                    shared.context.tell(notice);
                }
            }
            Ok(Message::Request(request)) => shared.answer_stray(request),
            Ok(Message::Response(_)) | Err(_) => {}
        }
    }
    retry
}

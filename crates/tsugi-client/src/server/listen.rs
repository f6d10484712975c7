//! `subscriptions/listen` answered by us: whatever the server's era, its changes come this way.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::Stream;
use tokio::sync::broadcast;
use tsugi_protocol::answer::{Call, Event, Reply, Source};
use tsugi_protocol::json::{Object, Raw, Splice};
use tsugi_protocol::mcp::Method;
use tsugi_protocol::mcp::subscription::Filter;
use tsugi_protocol::rpc::Notification;

use super::status::{Change, What};
use super::watch::Watch;
use super::{Inner, Order};

/// A reply that acknowledges first and then tells changes until it is dropped. Notes carry no
/// subscription id: that is the id of the request on the wire, which only the face knows.
pub(super) fn reply(inner: &Arc<Inner>, call: &Call) -> Reply {
    let wanted = call.params.get_object("notifications").unwrap_or_else(Object::empty);
    let filter = Filter::from_object(&wanted);
    let changes = inner.changes.subscribe();
    let watch = inner.watches.add(filter.uris.iter().cloned());
    if !filter.uris.is_empty() {
        inner.order(Order::Watches);
    }
    let server = inner.context.server.clone();
    let stream = Box::pin(changes_of(changes, server));
    Reply::from_source(Listening { inner: inner.clone(), filter, stream, is_acknowledged: false, _watch: watch })
}

type Changes = Pin<Box<dyn Stream<Item = What> + Send>>;

fn changes_of(changes: broadcast::Receiver<Change>, server: Arc<str>) -> impl Stream<Item = What> + Send {
    futures_util::stream::unfold(changes, move |mut changes| {
        let server = server.clone();
        async move {
            loop {
                match changes.recv().await {
                    Ok(change) if change.server == server => return Some((change.what, changes)),
                    Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
                    Err(broadcast::error::RecvError::Closed) => return None,
                }
            }
        }
    })
}

struct Listening {
    inner: Arc<Inner>,
    filter: Filter,
    stream: Changes,
    is_acknowledged: bool,
    _watch: Watch,
}

impl Source for Listening {
    fn poll_event(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Event> {
        if !self.is_acknowledged {
            self.is_acknowledged = true;
            let mut params = Splice::with_capacity(64);
            params.raw("notifications", &self.filter.to_raw());
            let acknowledged = Notification::new(Method::SubscriptionAcknowledged, Some(params.finish()));
            return Poll::Ready(Event::Note(acknowledged));
        }
        loop {
            let Some(what) = std::task::ready!(self.stream.as_mut().poll_next(context)) else { return Poll::Pending };
            if let Some(note) = note(&what).filter(|note| self.filter.wants(note)) {
                return Poll::Ready(Event::Note(note));
            }
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        if !self.filter.uris.is_empty() {
            self.inner.order(Order::Watches);
        }
    }
}

/// The notification that tells a change.
pub(crate) fn note(what: &What) -> Option<Notification> {
    let plain = |method| Some(Notification::new(method, None));
    match what {
        What::Tools => plain(Method::ToolsChanged),
        What::Prompts => plain(Method::PromptsChanged),
        What::Resources => plain(Method::ResourcesChanged),
        What::ResourceUpdated(uri) => {
            let params = Raw::from(serde_json::json!({"uri": uri}));
            Some(Notification::new(Method::ResourceUpdated, Some(params)))
        }
        What::State | What::Registered | What::Removed => None,
    }
}

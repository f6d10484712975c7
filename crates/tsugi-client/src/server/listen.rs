//! Answers `subscriptions/listen` for servers of both eras.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::Stream;
use tokio::sync::broadcast;
use tsugi_protocol::answer::{Call, FaultCode, Reply, ReplyEvent, ReplySource};
use tsugi_protocol::era::notification;
use tsugi_protocol::json::{ObjectWriter, RawJson};
use tsugi_protocol::mcp::Method;
use tsugi_protocol::mcp::subscription::SubscriptionFilter;
use tsugi_protocol::rpc::RpcNotification;

use super::status::{ServerChange, ServerEvent};
use super::watch_table::WatchGuard;
use super::{Instance, InstanceCommand};

/// A reply that acknowledges first and then notifies of changes until it is dropped. The notifications carry no
/// subscription id: that is the id of the request on the wire, which only the face knows.
pub(super) fn reply(instance: &Arc<Instance>, call: &Call) -> Reply {
    let Some(filter) = notification::requested_filter(&call.params) else {
        let fault = instance.context.fault(FaultCode::InvalidParams, "the parameter `notifications` is missing");
        return Reply::fault(fault);
    };
    let changes = instance.changes.subscribe();
    let watch = instance.watches.add(filter.uris.iter().cloned());
    if !filter.uris.is_empty() {
        instance.order(InstanceCommand::Watches);
    }
    let server = instance.context.server.clone();
    let stream = Box::pin(changes_of(changes, server));
    Reply::from_source(ChangeListener {
        instance: instance.clone(),
        filter,
        stream,
        is_acknowledged: false,
        _watch: watch,
    })
}

type ServerEventStream = Pin<Box<dyn Stream<Item = ServerEvent> + Send>>;

fn changes_of(changes: broadcast::Receiver<ServerChange>, server: Arc<str>) -> impl Stream<Item = ServerEvent> + Send {
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

struct ChangeListener {
    instance: Arc<Instance>,
    filter: SubscriptionFilter,
    stream: ServerEventStream,
    is_acknowledged: bool,
    _watch: WatchGuard,
}

impl ReplySource for ChangeListener {
    fn poll_event(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<ReplyEvent> {
        if !self.is_acknowledged {
            self.is_acknowledged = true;
            let mut params = ObjectWriter::with_capacity(64);
            params.raw("notifications", &self.filter.to_raw());
            let acknowledged = RpcNotification::new(Method::SubscriptionAcknowledged, Some(params.finish()));
            return Poll::Ready(ReplyEvent::Note(acknowledged));
        }
        loop {
            let Some(what) = std::task::ready!(self.stream.as_mut().poll_next(context)) else { return Poll::Pending };
            if let Some(note) = note(&what).filter(|note| self.filter.wants(note)) {
                return Poll::Ready(ReplyEvent::Note(note));
            }
        }
    }
}

impl Drop for ChangeListener {
    fn drop(&mut self) {
        if !self.filter.uris.is_empty() {
            self.instance.order(InstanceCommand::Watches);
        }
    }
}

/// The notification for a change.
pub(crate) fn note(what: &ServerEvent) -> Option<RpcNotification> {
    let plain = |method| Some(RpcNotification::new(method, None));
    match what {
        ServerEvent::Tools => plain(Method::ToolsChanged),
        ServerEvent::Prompts => plain(Method::PromptsChanged),
        ServerEvent::Resources => plain(Method::ResourcesChanged),
        ServerEvent::ResourceUpdated(uri) => {
            let params = RawJson::from(serde_json::json!({"uri": uri}));
            Some(RpcNotification::new(Method::ResourceUpdated, Some(params)))
        }
        ServerEvent::State | ServerEvent::Registered | ServerEvent::Removed => None,
    }
}

//! The listeners to changes, and the handle that announces changes to them.
//!
//! A listener has no queue: it has a set of what changed since it last looked, which can never be larger
//! than what it asked for. So a slow listener loses nothing that matters and holds up no other.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use parking_lot::Mutex;
use slab::Slab;

use crate::answer::{Outcome, Reply, ReplyEvent, ReplySource};
use crate::json::{JsonObject, ObjectWriter, RawJson};
use crate::mcp::Method;
use crate::mcp::meta;
use crate::mcp::subscription::{SubscriptionFilter, acknowledgment, tagged};
use crate::rpc::RpcNotification;

/// What a server does before a listener is acknowledged.
pub(super) type PrepareHook = Box<dyn Fn() -> PrepareFuture + Send + Sync>;

type PrepareFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Announces changes to everyone who listens. Cheap to clone, usable from anywhere, never blocks.
#[derive(Debug, Clone, Default)]
pub struct ChangeNotifier(Arc<Mutex<ListenerTable>>);

#[derive(Debug, Default)]
struct ListenerTable {
    listeners: Slab<ListenerEntry>,
    next_id: u64,
}

#[derive(Debug)]
struct ListenerEntry {
    filter: SubscriptionFilter,
    changed: SubscriptionFilter,
    has_ended: bool,
    reader: Option<Waker>,
}

impl ChangeNotifier {
    /// The list of tools changed.
    pub fn tools_changed(&self) {
        self.announce(|filter, changed| changed.tools = filter.tools);
    }

    /// The list of prompts changed.
    pub fn prompts_changed(&self) {
        self.announce(|filter, changed| changed.prompts = filter.prompts);
    }

    /// The list of resources or templates changed.
    pub fn resources_changed(&self) {
        self.announce(|filter, changed| changed.resources = filter.resources);
    }

    /// The resource at this address changed.
    pub fn resource_updated(&self, uri: &str) {
        self.announce(|filter, changed| {
            if filter.uris.contains(uri) {
                changed.uris.insert(uri.to_owned());
            }
        });
    }

    /// Ends every subscription gracefully, as a server does before it stops.
    pub fn end(&self) {
        for (_, listener) in &mut self.0.lock().listeners {
            listener.has_ended = true;
            listener.wake();
        }
    }

    pub fn listeners(&self) -> usize {
        self.0.lock().listeners.len()
    }

    /// True when a listener asked for updates of any resource. Listeners to lists alone do not count.
    pub fn is_any_watched(&self) -> bool {
        self.0.lock().listeners.iter().any(|(_, listener)| !listener.filter.uris.is_empty())
    }

    /// True when a listener asked for updates of this resource, for servers that must watch something for it.
    pub fn is_watched(&self, uri: &str) -> bool {
        self.0.lock().listeners.iter().any(|(_, listener)| listener.filter.uris.contains(uri))
    }

    fn announce(&self, mark: impl Fn(&SubscriptionFilter, &mut SubscriptionFilter)) {
        for (_, listener) in &mut self.0.lock().listeners {
            // Equal changes collapse into one mark until the listener reads it.
            mark(&listener.filter, &mut listener.changed);
            if !listener.changed.is_empty() {
                listener.wake();
            }
        }
    }

    /// The reply to `subscriptions/listen`: the acknowledgment as soon as the server is prepared, then changes until it
    /// is dropped. `filter` is what the server agrees to. The tag is a number of ours; the face that passes them to a client replaces
    /// it by the id of the client's request.
    pub(super) fn listen(
        &self,
        filter: SubscriptionFilter,
        server_meta: JsonObject,
        preparing: Option<PrepareFuture>,
    ) -> Reply {
        let mut listeners = self.0.lock();
        listeners.next_id += 1;
        let id = RawJson::from_value(&listeners.next_id);
        // The entry exists before the acknowledgment is sent, so no change in between is lost.
        let acknowledgment = acknowledgment(&filter, &id);
        let place = listeners.listeners.insert(ListenerEntry {
            filter,
            changed: SubscriptionFilter::default(),
            has_ended: false,
            reader: None,
        });
        Reply::from_source(ListenReply {
            notifier: self.clone(),
            place,
            id,
            preparing,
            acknowledgment: Some(acknowledgment),
            server_meta,
        })
    }
}

impl ListenerEntry {
    fn wake(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }

    /// The next change to tell, list changes first.
    fn next_change(&mut self) -> Option<RpcNotification> {
        let lists = [
            (&mut self.changed.tools, Method::ToolsChanged),
            (&mut self.changed.prompts, Method::PromptsChanged),
            (&mut self.changed.resources, Method::ResourcesChanged),
        ];
        for (is_changed, method) in lists {
            // Reading a mark clears it.
            if std::mem::take(is_changed) {
                return Some(RpcNotification::new(method, None));
            }
        }
        self.changed.uris.pop_first().map(|uri| updated(&uri))
    }
}

fn updated(uri: &str) -> RpcNotification {
    let mut params = ObjectWriter::with_capacity(uri.len() + 16);
    params.string("uri", uri);
    RpcNotification::new(Method::ResourceUpdated, Some(params.finish()))
}

/// What a server agrees to tell, of what was asked for.
pub(super) fn agreed(asked: SubscriptionFilter, has: impl Fn(&str) -> bool) -> SubscriptionFilter {
    let has_resources = has("resources");
    SubscriptionFilter {
        tools: asked.tools && has("tools"),
        prompts: asked.prompts && has("prompts"),
        resources: asked.resources && has_resources,
        uris: if has_resources { asked.uris } else { BTreeSet::new() },
        ..SubscriptionFilter::default()
    }
}

struct ListenReply {
    notifier: ChangeNotifier,
    place: usize,
    id: RawJson,
    preparing: Option<PrepareFuture>,
    acknowledgment: Option<RpcNotification>,
    server_meta: JsonObject,
}

impl ListenReply {
    fn ended(&self) -> Outcome {
        let mut meta = ObjectWriter::with_capacity(128);
        meta.raw(meta::SUBSCRIPTION_ID, &self.id).all_members(&self.server_meta);
        let mut result = ObjectWriter::with_capacity(256);
        result.string("resultType", "complete").raw("_meta", &meta.finish());
        Outcome::complete(result.finish_object())
    }
}

impl ReplySource for ListenReply {
    fn poll_event(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<ReplyEvent> {
        if let Some(preparing) = &mut self.preparing {
            // The acknowledgment waits until the server watches.
            ready!(preparing.as_mut().poll(context));
            self.preparing = None;
        }
        if let Some(acknowledgment) = self.acknowledgment.take() {
            return Poll::Ready(ReplyEvent::Note(acknowledgment));
        }
        let mut listeners = self.notifier.0.lock();
        let listener = &mut listeners.listeners[self.place];
        if let Some(change) = listener.next_change() {
            return Poll::Ready(ReplyEvent::Note(tagged(&change, &self.id)));
        }
        // Changes first, then the end.
        if listener.has_ended {
            return Poll::Ready(ReplyEvent::Done(self.ended()));
        }
        // Set under the lock, so that a change right after it wakes us.
        listener.reader = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Drop for ListenReply {
    fn drop(&mut self) {
        self.notifier.0.lock().listeners.remove(self.place);
    }
}

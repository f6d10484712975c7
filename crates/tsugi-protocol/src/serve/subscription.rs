//! Who listens to changes, and the handle that announces them.
//!
//! A listener has no queue: it has a set of what changed since it last looked, which can never be larger
//! than what it asked for. So a slow listener loses nothing that matters and costs nobody anything.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use parking_lot::Mutex;
use slab::Slab;

use crate::answer::{Event, Outcome, Reply, Source};
use crate::json::{Object, Raw, Splice};
use crate::mcp::Method;
use crate::mcp::meta;
use crate::mcp::subscription::{Filter, acknowledgment, tagged};
use crate::rpc::Notification;

/// What a server does before a listener is acknowledged.
pub(super) type Prepare = Box<dyn Fn() -> Preparing + Send + Sync>;

type Preparing = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Announces changes to everyone who listens. Cheap to clone, usable from anywhere, never blocks.
#[derive(Debug, Clone, Default)]
pub struct Notifier(Arc<Mutex<Listeners>>);

#[derive(Debug, Default)]
struct Listeners {
    listeners: Slab<Listener>,
    next_id: u64,
}

#[derive(Debug)]
struct Listener {
    filter: Filter,
    changed: Filter,
    has_ended: bool,
    reader: Option<Waker>,
}

impl Notifier {
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

    /// How many listen.
    pub fn listeners(&self) -> usize {
        self.0.lock().listeners.len()
    }

    /// True when somebody asked for updates of any resource: whoever listens to lists alone does not count.
    pub fn is_any_watched(&self) -> bool {
        self.0.lock().listeners.iter().any(|(_, listener)| !listener.filter.uris.is_empty())
    }

    /// True when somebody asked for updates of this resource, for servers that must watch something for it.
    pub fn is_watched(&self, uri: &str) -> bool {
        self.0.lock().listeners.iter().any(|(_, listener)| listener.filter.uris.contains(uri))
    }

    fn announce(&self, mark: impl Fn(&Filter, &mut Filter)) {
        for (_, listener) in &mut self.0.lock().listeners {
            mark(&listener.filter, &mut listener.changed);
            if !listener.changed.is_empty() {
                listener.wake();
            }
        }
    }

    /// The reply to `subscriptions/listen`: the acknowledgment as soon as the server is prepared, then changes until it
    /// is dropped. `filter` is what the server agrees to. The tag is a number of ours; whoever carries the notes to a client replaces
    /// it by the id of the client's request.
    pub(super) fn listen(&self, filter: Filter, server_meta: Object, preparing: Option<Preparing>) -> Reply {
        let mut listeners = self.0.lock();
        listeners.next_id += 1;
        let id = Raw::from_value(&listeners.next_id);
        let acknowledgment = acknowledgment(&filter, &id);
        let place =
            listeners.listeners.insert(Listener { filter, changed: Filter::default(), has_ended: false, reader: None });
        Reply::from_source(Listening {
            notifier: self.clone(),
            place,
            id,
            preparing,
            acknowledgment: Some(acknowledgment),
            server_meta,
        })
    }
}

impl Listener {
    fn wake(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }

    /// The next change to tell, list changes first.
    fn next_change(&mut self) -> Option<Notification> {
        let lists = [
            (&mut self.changed.tools, Method::ToolsChanged),
            (&mut self.changed.prompts, Method::PromptsChanged),
            (&mut self.changed.resources, Method::ResourcesChanged),
        ];
        for (is_changed, method) in lists {
            if std::mem::take(is_changed) {
                return Some(Notification::new(method, None));
            }
        }
        self.changed.uris.pop_first().map(|uri| updated(&uri))
    }
}

fn updated(uri: &str) -> Notification {
    let mut params = Splice::with_capacity(uri.len() + 16);
    params.string("uri", uri);
    Notification::new(Method::ResourceUpdated, Some(params.finish()))
}

/// What a server agrees to tell, of what was asked for.
pub(super) fn agreed(asked: Filter, has: impl Fn(&str) -> bool) -> Filter {
    let has_resources = has("resources");
    Filter {
        tools: asked.tools && has("tools"),
        prompts: asked.prompts && has("prompts"),
        resources: asked.resources && has_resources,
        uris: if has_resources { asked.uris } else { BTreeSet::new() },
    }
}

struct Listening {
    notifier: Notifier,
    place: usize,
    id: Raw,
    preparing: Option<Preparing>,
    acknowledgment: Option<Notification>,
    server_meta: Object,
}

impl Listening {
    fn ended(&self) -> Outcome {
        let mut meta = Splice::with_capacity(128);
        meta.raw(meta::SUBSCRIPTION_ID, &self.id).all_members(&self.server_meta);
        let mut result = Splice::with_capacity(256);
        result.string("resultType", "complete").raw("_meta", &meta.finish());
        Outcome::complete(result.finish_object())
    }
}

impl Source for Listening {
    fn poll_event(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Event> {
        if let Some(preparing) = &mut self.preparing {
            ready!(preparing.as_mut().poll(context));
            self.preparing = None;
        }
        if let Some(acknowledgment) = self.acknowledgment.take() {
            return Poll::Ready(Event::Note(acknowledgment));
        }
        let mut listeners = self.notifier.0.lock();
        let listener = &mut listeners.listeners[self.place];
        if let Some(change) = listener.next_change() {
            return Poll::Ready(Event::Note(tagged(&change, &self.id)));
        }
        if listener.has_ended {
            return Poll::Ready(Event::Done(self.ended()));
        }
        listener.reader = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.notifier.0.lock().listeners.remove(self.place);
    }
}

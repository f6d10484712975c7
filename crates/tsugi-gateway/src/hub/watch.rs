//! Changes of all servers together: the view is made anew, and listeners hear what differs.

use std::collections::{BTreeSet, HashMap};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::Stream;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinSet;
use tsugi_client::{Change, Manager, Server, ServerConfig, Start, What};
use tsugi_protocol::answer::{Answer, Call, Event, Reply, Source};
use tsugi_protocol::era::change;
use tsugi_protocol::json::Raw;
use tsugi_protocol::mcp::Method;
use tsugi_protocol::mcp::subscription::Filter;
use tsugi_protocol::rpc::Notification;

use super::list::List;
use super::merge::View;
use super::route::find_resource;
use super::{Hub, Shared};
use crate::telemetry::Metrics;

/// How long changes are gathered before the view is made anew: a starting server tells several at once.
const GATHER: Duration = Duration::from_millis(5);

/// Keeps the view up to date for as long as the manager lives.
pub(super) async fn run(manager: Manager, shared: Arc<Shared>, metrics: Arc<Metrics>) {
    let mut changes = manager.changes();
    let mut announced = Announced::default();
    let mut introductions = Introductions::default();
    loop {
        introductions.begin(&manager.servers(), manager.options().handshake_timeout);
        let view = Arc::new(View::build(&manager.servers(), &shared.config.load(), &metrics));
        renew(view, &shared, &std::mem::take(&mut announced));
        let goes_on = tokio::select! {
            goes_on = next_change(&mut changes, &mut announced) => goes_on,
            () = shared.reconfigured.notified() => true,
        };
        if !goes_on {
            return;
        }
        tokio::time::sleep(GATHER).await;
        while let Ok(change) = changes.try_recv() {
            announced.add(&change.what);
        }
    }
}

/// Starts each lazy server once that nobody knows anything of: most clients call only what is listed, so that nobody
/// would ever start it. They end with the hub.
#[derive(Default)]
struct Introductions {
    begun: HashMap<String, ServerConfig>,
    tasks: JoinSet<()>,
}

impl Introductions {
    fn begin(&mut self, servers: &[Server], limit: Duration) {
        while self.tasks.try_join_next().is_some() {}
        self.begun.retain(|name, _| servers.iter().any(|server| server.name() == name));
        for server in servers.iter().filter(|server| is_unknown(server)) {
            let config = server.config().clone();
            if self.begun.get(server.name()) != Some(&config) {
                self.begun.insert(server.name().to_owned(), config);
                let server = server.clone();
                // Why it could not be started is in its status.
                self.tasks.spawn(async move { drop(server.introduce(limit).await) });
            }
        }
    }
}

fn is_unknown(server: &Server) -> bool {
    server.config().start == Start::Lazy && server.catalog().is_none()
}

/// What servers said has changed; listeners hear it even when the list reads as before.
#[derive(Default)]
struct Announced {
    tools: bool,
    prompts: bool,
    resources: bool,
}

impl Announced {
    fn add(&mut self, what: &What) {
        match what {
            What::Tools => self.tools = true,
            What::Prompts => self.prompts = true,
            What::Resources => self.resources = true,
            // How it stands, or what it has, is no list.
            _ => {}
        }
    }
}

/// Waits for a change that can alter the view; false when there will be none.
async fn next_change(changes: &mut Receiver<Change>, announced: &mut Announced) -> bool {
    loop {
        match changes.recv().await {
            Ok(Change { what: What::ResourceUpdated(_), .. }) => {}
            Ok(change) => {
                announced.add(&change.what);
                return true;
            }
            Err(RecvError::Lagged(_)) => return true,
            Err(RecvError::Closed) => return false,
        }
    }
}

fn renew(view: Arc<View>, shared: &Shared, announced: &Announced) {
    let before = shared.view.swap(view.clone());
    for clash in view.clashes.iter().filter(|clash| !before.clashes.contains(clash)) {
        tracing::warn!(server = %clash.server, "{}", clash.text);
    }
    shared.renewed.send_modify(|count| *count += 1);
    let differs = |list| view.differs(&before, list);
    let changed = [
        (Method::ToolsChanged, announced.tools || differs(List::Tools)),
        (Method::PromptsChanged, announced.prompts || differs(List::Prompts)),
        (Method::ResourcesChanged, announced.resources || differs(List::Resources) || differs(List::Templates)),
    ];
    for (method, _) in changed.into_iter().filter(|(_, is_changed)| *is_changed) {
        // Without listeners nobody needs to hear it.
        let _ = shared.changes.send(Notification::new(method, None));
    }
}

/// Answers `subscriptions/listen` over all servers.
pub(super) fn listen(hub: &Hub, call: &Call) -> Reply {
    let wanted = change::read_filter(&call.params);
    let (watched, uris) = watch_resources(hub, call, &wanted);
    let granted = Filter { uris, ..wanted };
    let changes = Box::pin(stream_of(hub.0.view.changes.subscribe()));
    Reply::from_source(Listening { granted, changes, watched, is_acknowledged: false })
}

/// Listens at each server for its part of the addresses; gives the addresses that somebody has.
fn watch_resources(hub: &Hub, call: &Call, wanted: &Filter) -> (Vec<Watched>, BTreeSet<String>) {
    let view = hub.view();
    let permit = hub.permit(&call.caller);
    let mut granted = BTreeSet::new();
    let mut parts: Vec<(tsugi_client::Server, Vec<(String, String)>)> = Vec::new();
    for uri in &wanted.uris {
        let Some((server, own)) = find_resource(&view, uri) else { continue };
        if permit.as_ref().is_some_and(|permit| !permit.allows(server.name(), &own)) {
            continue;
        }
        granted.insert(uri.clone());
        let names = (own, uri.clone());
        match parts.iter_mut().find(|(known, _)| known.name() == server.name()) {
            Some((_, uris)) => uris.push(names),
            None => parts.push((server, vec![names])),
        }
    }
    let watched = parts.into_iter().map(|(server, names)| {
        let filter = Filter { uris: names.iter().map(|(own, _)| own.clone()).collect(), ..Filter::default() };
        let mut part = call.clone();
        part.params = change::listen_params(&filter);
        Watched { reply: Some(server.answer(part)), names }
    });
    (watched.collect(), granted)
}

type Changes = Pin<Box<dyn Stream<Item = Notification> + Send>>;

fn stream_of(changes: Receiver<Notification>) -> impl Stream<Item = Notification> + Send {
    futures_util::stream::unfold((changes, Vec::new()), |(mut changes, mut missed)| async move {
        loop {
            if let Some(change) = missed.pop() {
                return Some((change, (changes, missed)));
            }
            match changes.recv().await {
                Ok(change) => return Some((change, (changes, missed))),
                // What was missed cannot be told any more; whoever looks at all lists again has missed nothing.
                Err(RecvError::Lagged(_)) => missed.extend(List::CHANGES.map(|method| Notification::new(method, None))),
                Err(RecvError::Closed) => return None,
            }
        }
    })
}

struct Listening {
    granted: Filter,
    changes: Changes,
    watched: Vec<Watched>,
    is_acknowledged: bool,
}

/// The resources of one server that are watched, each with the server's and with the public address.
struct Watched {
    reply: Option<Reply>,
    names: Vec<(String, String)>,
}

impl Source for Listening {
    fn poll_event(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Event> {
        if !self.is_acknowledged {
            self.is_acknowledged = true;
            let params = change::listen_params(&self.granted).raw();
            return Poll::Ready(Event::Note(Notification::new(Method::SubscriptionAcknowledged, Some(params))));
        }
        for watched in &mut self.watched {
            if let Poll::Ready(note) = watched.poll(context) {
                return Poll::Ready(Event::Note(note));
            }
        }
        while let Poll::Ready(Some(change)) = self.changes.as_mut().poll_next(context) {
            if self.granted.wants(&change) {
                return Poll::Ready(Event::Note(change));
            }
        }
        Poll::Pending
    }
}

impl Watched {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Notification> {
        while let Some(reply) = &mut self.reply {
            match std::task::ready!(reply.poll_event(context)) {
                Event::Note(note) if note.method == Method::ResourceUpdated => return Poll::Ready(self.public(&note)),
                Event::Note(_) => {}
                Event::Done(_) => self.reply = None,
            }
        }
        Poll::Pending
    }

    /// The same update under the address that the listener asked for.
    fn public(&self, note: &Notification) -> Notification {
        let params = note.params_object();
        let own = params.get_str("uri").unwrap_or_default();
        match self.names.iter().find(|(known, _)| *known == own) {
            Some((own, public)) if own != public => {
                let mut renamed = tsugi_protocol::json::Splice::with_capacity(public.len() + 32);
                renamed.raw("uri", &Raw::string(public)).members_but(&params, &["uri"]);
                note.with_params(Some(renamed.finish()))
            }
            _ => note.clone(),
        }
    }
}

//! Changes of all servers together: a new snapshot is built, and listeners are notified of what differs.

mod extension_part;

use std::collections::{BTreeSet, HashMap};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::Stream;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinSet;
use tsugi_client::{Manager, Server, ServerChange, ServerConfig, ServerEvent, StartPolicy};
use tsugi_protocol::answer::{Answer, Call, Fault, FaultCode, Reply, ReplyEvent, ReplySource};
use tsugi_protocol::era::notification;
use tsugi_protocol::json::RawJson;
use tsugi_protocol::mcp::Method;
use tsugi_protocol::mcp::subscription::SubscriptionFilter;
use tsugi_protocol::rpc::RpcNotification;

use super::list::ListKind;
use super::snapshot::HubSnapshot;
use super::{Hub, SnapshotFeed};
use super::{resource, task};
use crate::telemetry::GatewayMetrics;

/// How long changes are gathered before a new snapshot is built: a starting server reports several at once.
const GATHER: Duration = Duration::from_millis(5);

/// Keeps the view up to date for as long as the manager lives.
pub(super) async fn run(manager: Manager, shared: Arc<SnapshotFeed>, metrics: Arc<GatewayMetrics>) {
    let mut changes = manager.changes();
    let mut announced = AnnouncedChanges::default();
    let mut introductions = CatalogIntroductions::default();
    loop {
        introductions.begin(&manager.servers(), manager.options().handshake_timeout);
        let view = Arc::new(HubSnapshot::build(&manager.servers(), &shared.config.load(), &metrics));
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

/// Starts each lazy server once whose lists are unknown: most clients call only what is listed, so that no call
/// would ever start it. They end with the hub.
#[derive(Default)]
struct CatalogIntroductions {
    begun: HashMap<String, ServerConfig>,
    tasks: JoinSet<()>,
}

impl CatalogIntroductions {
    fn begin(&mut self, servers: &[Server], limit: Duration) {
        // Reaped here, since nothing else waits for them.
        while self.tasks.try_join_next().is_some() {}
        self.begun.retain(|name, _| servers.iter().any(|server| server.name() == name));
        for server in servers.iter().filter(|server| is_unknown(server)) {
            let config = server.config().clone();
            // A changed configuration earns another try.
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
    server.config().start == StartPolicy::Lazy && server.catalog().is_none()
}

/// What servers reported as changed. Listeners are notified even when the list reads as before.
#[derive(Default)]
struct AnnouncedChanges {
    tools: bool,
    prompts: bool,
    resources: bool,
}

impl AnnouncedChanges {
    fn add(&mut self, what: &ServerEvent) {
        match what {
            ServerEvent::Tools => self.tools = true,
            ServerEvent::Prompts => self.prompts = true,
            ServerEvent::Resources => self.resources = true,
            // How it stands, or what it has, is no list.
            _ => {}
        }
    }
}

/// Waits for a change that can alter the view; false when there will be none.
async fn next_change(changes: &mut Receiver<ServerChange>, announced: &mut AnnouncedChanges) -> bool {
    loop {
        match changes.recv().await {
            Ok(ServerChange { what: ServerEvent::ResourceUpdated(_), .. }) => {}
            Ok(change) => {
                announced.add(&change.what);
                return true;
            }
            // What was missed does not matter: the snapshot is built from all servers.
            Err(RecvError::Lagged(_)) => return true,
            Err(RecvError::Closed) => return false,
        }
    }
}

fn renew(view: Arc<HubSnapshot>, shared: &SnapshotFeed, announced: &AnnouncedChanges) {
    // Swapped before the change is announced: clients read the list at once.
    let before = shared.snapshot.swap(view.clone());
    for clash in view.clashes.iter().filter(|clash| !before.clashes.contains(clash)) {
        tracing::warn!(server = %clash.server, "{}", clash.text);
    }
    shared.renewed.send_modify(|count| *count += 1);
    let differs = |list| view.differs(&before, list);
    let changed = [
        (Method::ToolsChanged, announced.tools || differs(ListKind::Tools)),
        (Method::PromptsChanged, announced.prompts || differs(ListKind::Prompts)),
        (Method::ResourcesChanged, announced.resources || differs(ListKind::Resources) || differs(ListKind::Templates)),
    ];
    for (method, _) in changed.into_iter().filter(|(_, is_changed)| *is_changed) {
        // An error means that there are no listeners.
        let _ = shared.changes.send(RpcNotification::new(method, None));
    }
}

/// Answers `subscriptions/listen` over all servers. While a server may still list an address, the answer
/// waits: what is acknowledged is what is watched.
pub(super) fn listen(hub: &Hub, call: Call) -> Reply {
    match task::wants_extensions(&call) {
        true => extension_part::join(hub, call, None, |rest| listen_to_changes(hub, rest)),
        false => listen_to_changes(hub, call),
    }
}

/// Answers a `subscriptions/listen` at one server's own address that names what extensions announce.
pub(super) fn listen_to(hub: &Hub, call: Call, server: &Server) -> Reply {
    extension_part::join(hub, call, Some(server.name()), |rest| server.answer(rest))
}

fn listen_to_changes(hub: &Hub, call: Call) -> Reply {
    let Some(wanted) = notification::requested_filter(&call.params) else {
        return Reply::fault(Fault::new(FaultCode::InvalidParams, "the parameter `notifications` is missing"));
    };
    let listening = HubListener::new(hub, call, wanted);
    if listening.found().len() == listening.missing.len() || hub.is_settled(&hub.snapshot()) {
        return Reply::from_source(listening);
    }
    let hub = hub.clone();
    Reply::from_pending_reply(async move {
        hub.settled_snapshot().await;
        Reply::from_source(listening)
    })
}

type ChangeStream = Pin<Box<dyn Stream<Item = RpcNotification> + Send>>;

fn stream_of(changes: Receiver<RpcNotification>) -> impl Stream<Item = RpcNotification> + Send {
    futures_util::stream::unfold((changes, Vec::new()), |(mut changes, mut missed)| async move {
        loop {
            if let Some(change) = missed.pop() {
                return Some((change, (changes, missed)));
            }
            match changes.recv().await {
                Ok(change) => return Some((change, (changes, missed))),
                // The missed changes are lost. A client that reads all lists again has missed nothing.
                Err(RecvError::Lagged(_)) => {
                    missed.extend(ListKind::CHANGES.map(|method| RpcNotification::new(method, None)))
                }
                Err(RecvError::Closed) => return None,
            }
        }
    })
}

struct HubListener {
    hub: Hub,
    call: Call,
    wanted: SubscriptionFilter,
    changes: ChangeStream,
    /// Tells of each new view.
    renewed: RenewalStream,
    /// The addresses that are not watched yet. The server that has one may send its list later.
    missing: BTreeSet<String>,
    watched: Vec<WatchedResources>,
    stage: ListenStage,
}

type RenewalStream = Pin<Box<dyn Stream<Item = ()> + Send>>;

/// How far a subscription is. Nothing is asked of a server before its client has heard what is watched: some only want
/// to know that.
#[derive(PartialEq)]
enum ListenStage {
    Opened,
    Acknowledged,
    Watching,
}

/// A server, and its part of the addresses: each as the server and as the listener knows it.
type ServerSubscriptions = (Server, Vec<(String, String)>);

impl HubListener {
    fn new(hub: &Hub, call: Call, wanted: SubscriptionFilter) -> Self {
        let renewed = futures_util::stream::unfold(hub.0.feed.renewed.subscribe(), |mut renewed| async move {
            renewed.changed().await.ok()?;
            Some(((), renewed))
        });
        Self {
            changes: Box::pin(stream_of(hub.0.feed.changes.subscribe())),
            renewed: Box::pin(renewed),
            missing: wanted.uris.clone(),
            hub: hub.clone(),
            call,
            wanted,
            watched: Vec::new(),
            stage: ListenStage::Opened,
        }
    }

    /// The missing addresses that a server has by now and this caller may use, with it.
    fn found(&self) -> Vec<(String, Server, String)> {
        let (view, access) = (self.hub.snapshot(), self.hub.access(&self.call.caller));
        let found = self.missing.iter().filter_map(|uri| {
            let (server, own) = resource::find(&view, uri, &self.call, &access).ok()?;
            Some((uri.clone(), server, own))
        });
        found.collect()
    }

    fn acknowledgment(&self) -> RpcNotification {
        let uris = self.found().into_iter().map(|(uri, ..)| uri).collect();
        let granted = SubscriptionFilter { uris, ..self.wanted.clone() };
        let params = notification::listen_params(&granted).raw();
        RpcNotification::new(Method::SubscriptionAcknowledged, Some(params))
    }

    /// Listens at each server for its part of the missing addresses.
    fn watch_found(&mut self) {
        let mut parts: Vec<ServerSubscriptions> = Vec::new();
        for (uri, server, own) in self.found() {
            self.missing.remove(&uri);
            match parts.iter_mut().find(|(known, _)| known.name() == server.name()) {
                Some((_, names)) => names.push((own, uri)),
                None => parts.push((server, vec![(own, uri)])),
            }
        }
        for (server, names) in parts {
            let filter = SubscriptionFilter {
                uris: names.iter().map(|(own, _)| own.clone()).collect(),
                ..SubscriptionFilter::default()
            };
            let mut part = self.call.clone();
            part.params = notification::listen_params(&filter);
            self.watched.push(WatchedResources { reply: Some(server.answer(part)), names });
        }
    }

    /// Watches what has been found; with every new view it looks again.
    fn watch_new(&mut self, context: &mut Context<'_>) {
        let mut is_due = std::mem::replace(&mut self.stage, ListenStage::Watching) != ListenStage::Watching;
        while !self.missing.is_empty() && (is_due || self.renewed.as_mut().poll_next(context) == Poll::Ready(Some(())))
        {
            is_due = false;
            self.watch_found();
        }
    }
}

/// The resources of one server that are watched, each with the server's and with the public address.
struct WatchedResources {
    reply: Option<Reply>,
    names: Vec<(String, String)>,
}

impl ReplySource for HubListener {
    fn poll_event(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<ReplyEvent> {
        if self.stage == ListenStage::Opened {
            self.stage = ListenStage::Acknowledged;
            return Poll::Ready(ReplyEvent::Note(self.acknowledgment()));
        }
        self.watch_new(context);
        for watched in &mut self.watched {
            if let Poll::Ready(note) = watched.poll(context) {
                return Poll::Ready(ReplyEvent::Note(note));
            }
        }
        while let Poll::Ready(Some(change)) = self.changes.as_mut().poll_next(context) {
            if self.wanted.wants(&change) {
                return Poll::Ready(ReplyEvent::Note(change));
            }
        }
        Poll::Pending
    }
}

impl WatchedResources {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<RpcNotification> {
        while let Some(reply) = &mut self.reply {
            match std::task::ready!(reply.poll_event(context)) {
                ReplyEvent::Note(note) if note.method == Method::ResourceUpdated => {
                    return Poll::Ready(self.public(&note));
                }
                ReplyEvent::Note(_) => {}
                ReplyEvent::Done(_) => self.reply = None,
            }
        }
        Poll::Pending
    }

    /// The same update under the address that the listener asked for.
    fn public(&self, note: &RpcNotification) -> RpcNotification {
        let params = note.params_object();
        let own = params.get_str("uri").unwrap_or_default();
        match self.names.iter().find(|(known, _)| *known == own) {
            Some((own, public)) if own != public => {
                let mut renamed = tsugi_protocol::json::ObjectWriter::with_capacity(public.len() + 32);
                renamed.raw("uri", &RawJson::string(public)).members_except(&params, &["uri"]);
                note.with_params(Some(renamed.finish()))
            }
            _ => note.clone(),
        }
    }
}

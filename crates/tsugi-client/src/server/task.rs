//! The task that owns a server: connects it, keeps its catalog fresh, and brings it back when it breaks.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tsugi_protocol::answer::{Answer, Call, Event, Fault, FaultCode};
use tsugi_protocol::json::Splice;
use tsugi_protocol::mcp::meta::RequestMeta;
use tsugi_protocol::mcp::subscription::Filter;
use tsugi_protocol::mcp::{Era, Method};

use super::status::What;
use super::{Inner, Live, Order};
use crate::catalog::{Catalog, Lists, Wire, fetch};
use crate::config::{Restart, Start};
use crate::connection::Connection;
use crate::connection::backoff::{Backoff, Verdict};
use crate::connection::context::Notice;
use crate::connection::state::Happening;
use crate::layer::cache::Store;
use crate::stack;

type Orders = mpsc::Receiver<Order>;
type Notices = mpsc::Receiver<Notice>;

/// How long calls in flight may take to end when the server is stopped.
const DRAIN_LIMIT: Duration = Duration::from_secs(5);

/// What comes after a phase of the server's life.
enum Next {
    /// Wait until somebody wants it.
    Idle,
    /// Connect.
    Connect,
    /// Nobody holds the server any more.
    Gone,
}

/// Runs until the manager lets the server go.
pub(super) async fn run(inner: Arc<Inner>, mut orders: Orders, mut notices: Notices) {
    let mut backoff = Backoff::new(inner.config.backoff);
    let mut next = if inner.config.start == Start::Eager { Next::Connect } else { Next::Idle };
    loop {
        next = match next {
            Next::Idle => idle(&mut orders).await,
            Next::Connect => live(&inner, &mut orders, &mut notices, &mut backoff).await,
            Next::Gone => return,
        };
    }
}

async fn idle(orders: &mut Orders) -> Next {
    loop {
        match orders.recv().await {
            Some(Order::Start) => return Next::Connect,
            Some(Order::Restart(done)) => {
                let _ = done.send(());
                return Next::Connect;
            }
            Some(Order::Stop(done)) => drop(done.send(())),
            Some(Order::Refresh | Order::Watches) => {}
            None => return Next::Gone,
        }
    }
}

/// One attempt and, if it succeeds, the life of the connection.
async fn live(inner: &Arc<Inner>, orders: &mut Orders, notices: &mut Notices, backoff: &mut Backoff) -> Next {
    inner.status.happen(Happening::Wanted, None);
    let connection = tokio::select! {
        connected = super::connect::connect(inner) => connected,
        next = cancelled(inner, orders) => return next,
    };
    match connection {
        Ok(connection) => {
            backoff.connected(Instant::now());
            serve(inner, connection, orders, notices, backoff).await
        }
        Err(fault) => broken(inner, fault, orders, backoff).await,
    }
}

/// Waits for an order that ends an attempt.
async fn cancelled(inner: &Arc<Inner>, orders: &mut Orders) -> Next {
    loop {
        let (done, next) = match orders.recv().await {
            Some(Order::Stop(done)) => (Some(done), Next::Idle),
            Some(Order::Restart(done)) => (Some(done), Next::Connect),
            Some(Order::Start | Order::Refresh | Order::Watches) => continue,
            None => (None, Next::Gone),
        };
        inner.status.happen(Happening::Closed, None);
        if let Some(done) = done {
            let _ = done.send(());
        }
        return next;
    }
}

/// Decides what to do after a failure, and waits as long as that says.
async fn broken(inner: &Arc<Inner>, fault: Fault, orders: &mut Orders, backoff: &mut Backoff) -> Next {
    tracing::warn!(server = %inner.context.server, %fault, hint = fault.hint, "the server is not connected");
    let may_retry = inner.config.restart == Restart::OnFailure && is_worth_retrying(&fault);
    let verdict = if may_retry { backoff.failed(Instant::now()) } else { Verdict::GiveUp };
    match verdict {
        Verdict::RetryAfter(wait) => {
            inner.status.happen(Happening::Broke, Some(fault));
            pause(inner, wait, Happening::TimeToRetry, orders, backoff).await
        }
        Verdict::Pause(wait) => {
            inner.status.happen(Happening::GaveUp, Some(fault));
            pause(inner, wait, Happening::Wanted, orders, backoff).await
        }
        Verdict::GiveUp => {
            inner.status.happen(Happening::GaveUp, Some(fault));
            idle(orders).await
        }
    }
}

/// A program that does not exist will not exist in a second.
fn is_worth_retrying(fault: &Fault) -> bool {
    fault.retryable || fault.code == FaultCode::ServerCrashed
}

/// Waits before the next attempt. Somebody who asks for a start or a restart ends the waiting.
async fn pause(
    inner: &Arc<Inner>,
    wait: Duration,
    then: Happening,
    orders: &mut Orders,
    backoff: &mut Backoff,
) -> Next {
    let until = Instant::now() + wait;
    loop {
        let order = tokio::select! {
            () = tokio::time::sleep_until(until) => {
                // The move itself is made by the attempt: it begins with "wanted", which is legal here too.
                if then == Happening::TimeToRetry {
                    inner.status.count_restart();
                }
                return Next::Connect;
            }
            order = orders.recv() => order,
        };
        match order {
            Some(Order::Start) => return Next::Connect,
            Some(Order::Restart(done)) => {
                backoff.reset();
                let _ = done.send(());
                return Next::Connect;
            }
            Some(Order::Stop(done)) => {
                inner.status.happen(Happening::Closed, None);
                let _ = done.send(());
                return Next::Idle;
            }
            Some(Order::Refresh | Order::Watches) => {}
            None => return Next::Gone,
        }
    }
}

/// The life of a connection: from agreed to lost or stopped.
async fn serve(
    inner: &Arc<Inner>,
    connection: Connection,
    orders: &mut Orders,
    notices: &mut Notices,
    backoff: &mut Backoff,
) -> Next {
    inner.go_live(connection.clone());
    let mut subscription = Subscription::default();
    let ended = attend(inner, &connection, orders, notices, &mut subscription).await;
    drop(subscription);
    match ended {
        Ended::Lost(fault) => {
            inner.live.store(None);
            connection.close().await;
            inner.context.parked.clear();
            broken(inner, fault, orders, backoff).await
        }
        Ended::Ordered(done, next) => {
            inner.drain(&connection).await;
            if let Some(done) = done {
                let _ = done.send(());
            }
            backoff.reset();
            next
        }
    }
}

enum Ended {
    Lost(Fault),
    Ordered(Option<tokio::sync::oneshot::Sender<()>>, Next),
}

/// Serves orders and notices until the connection ends.
async fn attend(
    inner: &Arc<Inner>,
    connection: &Connection,
    orders: &mut Orders,
    notices: &mut Notices,
    subscription: &mut Subscription,
) -> Ended {
    let mut lists = Lists::ALL;
    let mut changed = true;
    loop {
        let work = async {
            if lists != Lists::default() {
                refresh(inner, connection, lists).await;
            }
        };
        // The connection may be lost while a list is fetched; then the fetch is pointless.
        tokio::select! {
            () = work => lists = Lists::default(),
            fault = connection.lost() => return Ended::Lost((*fault).clone()),
        }
        if changed {
            subscription.renew(inner, connection).await;
            changed = false;
        }
        tokio::select! {
            fault = connection.lost() => return Ended::Lost((*fault).clone()),
            notice = notices.recv() => {
                let Some(notice) = notice else { continue };
                note(inner, notice, &mut lists);
                while let Ok(notice) = notices.try_recv() {
                    note(inner, notice, &mut lists);
                }
            }
            order = orders.recv() => match order {
                Some(Order::Start) => {}
                Some(Order::Refresh) => lists = Lists::ALL,
                Some(Order::Watches) => changed = true,
                Some(Order::Stop(done)) => return Ended::Ordered(Some(done), Next::Idle),
                Some(Order::Restart(done)) => return Ended::Ordered(Some(done), Next::Connect),
                None => return Ended::Ordered(None, Next::Gone),
            },
        }
    }
}

fn note(inner: &Inner, notice: Notice, lists: &mut Lists) {
    if let Some(cache) = &inner.parts.cache {
        forget(cache, &notice);
    }
    match notice {
        Notice::Tools => lists.tools = true,
        Notice::Prompts => lists.prompts = true,
        Notice::Resources => lists.resources = true,
        Notice::Updated(uri) => inner.status.tell(What::ResourceUpdated(uri)),
    }
}

/// What was kept may not be true any more.
fn forget(cache: &Store, notice: &Notice) {
    match notice {
        Notice::Tools => cache.forget_tools(),
        Notice::Resources => cache.forget_all(),
        Notice::Updated(uri) => cache.forget_resource(uri),
        Notice::Prompts => {}
    }
}

/// Fetches lists and tells what changed.
async fn refresh(inner: &Arc<Inner>, connection: &Connection, lists: Lists) {
    let source = stack::plain(connection.clone(), &inner.config, &inner.options);
    let old = inner.catalog.load_full();
    let identity = connection.identity();
    let wire = match connection {
        Connection::Exchange(_) if identity.version.era() == Era::Modern => Wire::ModernHttp,
        _ => Wire::Other,
    };
    let catalog = fetch(&source, &inner.options.profile, old.as_deref(), identity, lists, wire).await;
    if let Connection::Exchange(exchange) = connection {
        exchange.set_header_params(catalog.header_params());
    }
    inner.parts.tools.fill(&catalog);
    let changes = changes_between(old.as_deref(), &catalog, lists);
    inner.catalog.store(Some(Arc::new(catalog)));
    inner.status.wake();
    for what in changes {
        inner.status.tell(what);
    }
}

/// After a first fetch everything is new; later a list that was asked for counts as changed.
fn changes_between(old: Option<&Catalog>, new: &Catalog, lists: Lists) -> Vec<What> {
    let same = |one: usize, two: usize| old.is_some() && one == 0 && two == 0;
    let mut changes = Vec::new();
    let count = |pick: fn(&Catalog) -> usize| (old.map_or(0, pick), pick(new));
    for (wanted, what, (before, after)) in [
        (lists.tools, What::Tools, count(|catalog| catalog.tools.items.len())),
        (lists.prompts, What::Prompts, count(|catalog| catalog.prompts.items.len())),
        (
            lists.resources,
            What::Resources,
            count(|catalog| catalog.resources.items.len() + catalog.templates.items.len()),
        ),
    ] {
        if wanted && !same(before, after) {
            changes.push(what);
        }
    }
    changes
}

/// What the server was asked to tell: a modern server by a listen call, a legacy one by subscribe requests.
#[derive(Default)]
struct Subscription {
    listener: Option<AbortHandle>,
    subscribed: Vec<String>,
}

impl Subscription {
    async fn renew(&mut self, inner: &Arc<Inner>, connection: &Connection) {
        let uris = inner.watches.uris();
        match connection.identity().version.era() {
            Era::Modern => self.listen(inner, connection, uris),
            Era::Legacy => self.subscribe(connection, uris).await,
        }
    }

    fn listen(&mut self, inner: &Arc<Inner>, connection: &Connection, uris: Vec<String>) {
        if let Some(listener) = self.listener.take() {
            listener.abort();
        }
        let capabilities = connection.identity().capabilities.clone();
        let filter = Filter {
            tools: capabilities.has_list_changed("tools"),
            prompts: capabilities.has_list_changed("prompts"),
            resources: capabilities.has_list_changed("resources"),
            uris: uris.into_iter().filter(|_| capabilities.has_resource_subscriptions()).collect(),
        };
        if !filter.is_empty() {
            self.listener = Some(tokio::spawn(listen(inner.clone(), connection.clone(), filter)).abort_handle());
        }
    }

    async fn subscribe(&mut self, connection: &Connection, uris: Vec<String>) {
        if !connection.identity().capabilities.has_resource_subscriptions() {
            return;
        }
        for uri in self.subscribed.iter().filter(|uri| !uris.contains(uri)) {
            ask(connection, Method::ResourcesUnsubscribe, uri).await;
        }
        for uri in uris.iter().filter(|uri| !self.subscribed.contains(uri)) {
            ask(connection, Method::ResourcesSubscribe, uri).await;
        }
        self.subscribed = uris;
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(listener) = &self.listener {
            listener.abort();
        }
    }
}

async fn ask(connection: &Connection, method: Method, uri: &str) {
    let mut params = Splice::with_capacity(uri.len() + 16);
    params.string("uri", uri);
    let asking = connection.answer(Call::new(method, params.finish_object())).outcome();
    let _ = tokio::time::timeout(Duration::from_secs(5), asking).await;
}

/// Listens to a modern server, again and again while the connection lives.
async fn listen(inner: Arc<Inner>, connection: Connection, filter: Filter) {
    let mut wait = Duration::from_millis(100);
    loop {
        let mut params = Splice::with_capacity(128);
        params.raw("notifications", &filter.to_raw());
        let mut call = Call::new(Method::Listen, params.finish_object());
        call.meta = RequestMeta::of_client(inner.options.profile.clone());
        let mut reply = connection.answer(call);
        while let Event::Note(note) = reply.next().await {
            wait = Duration::from_millis(100);
            if let Some(notice) = Notice::of(&note) {
                inner.context.tell(notice);
            }
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(Duration::from_secs(30));
    }
}

impl Inner {
    fn go_live(&self, connection: Connection) {
        // A server that was away may have changed, and could not tell.
        if let Some(cache) = self.parts.cache.as_ref().filter(|_| self.catalog.load().is_some()) {
            cache.forget_all();
        }
        self.live.store(Some(Arc::new(Live { connection })));
        self.status.happen(Happening::Agreed, None);
    }

    /// No new calls; those in flight may end; then the wire and the process go.
    async fn drain(&self, connection: &Connection) {
        self.live.store(None);
        self.status.happen(Happening::Drain, None);
        let idle = async {
            while connection.in_flight() > 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let _ = tokio::time::timeout(DRAIN_LIMIT, idle).await;
        self.context.parked.clear();
        connection.close().await;
        self.status.happen(Happening::Closed, None);
    }
}

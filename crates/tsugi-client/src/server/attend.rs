//! The life of a connection: orders, notices and lists, until it is lost or ended.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;
use tsugi_protocol::answer::Fault;

use super::refresh::refresh;
use super::status::What;
use super::subscription::Subscription;
use super::task::{Next, Orders};
use super::{Inner, Order, Place};
use crate::catalog::Lists;
use crate::connection::Connection;
use crate::connection::notice::{Notices, Told};
use crate::layer::cache::Store;

/// How long to wait before a list that could not be fetched is asked for again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
const AGAIN_LONGEST: Duration = Duration::from_secs(60);
/// How long to wait before everything is looked at once more because changes may have been missed.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// How the life of a connection ended.
pub(super) enum Ended {
    /// It broke.
    Lost(Fault),
    /// Somebody wanted it to end, and may wait to hear that it has.
    Ordered(Option<oneshot::Sender<()>>, Next),
}

/// What is to be done next.
struct Todo {
    lists: Lists,
    watches: bool,
    /// Somebody looked at lists that may be stale.
    is_looked_at: bool,
    /// Nothing was fetched yet over this connection.
    is_new: bool,
    /// What the server was asked to tell is forgotten.
    is_renewed: bool,
    /// Lists that could not be fetched, and when to try again.
    again: Option<(Instant, Lists)>,
    wait: Duration,
    /// When to ask again for what is watched, as the server did not take all of it.
    watches_again: Option<Instant>,
    watches_wait: Duration,
    /// Lists that may have changed without anybody having told.
    unsure: Lists,
    /// When that is looked at, and when it was last.
    look: Option<Instant>,
    looked: Option<Instant>,
}

impl Todo {
    fn everything() -> Self {
        Self { lists: Lists::ALL, watches: true, ..Self::nothing() }
    }

    fn nothing() -> Self {
        Self {
            lists: Lists::default(),
            watches: false,
            is_looked_at: false,
            is_new: true,
            is_renewed: false,
            again: None,
            wait: AGAIN_AFTER,
            watches_again: None,
            watches_wait: AGAIN_AFTER,
            unsure: Lists::default(),
            look: None,
            looked: None,
        }
    }

    fn is_nothing(&self) -> bool {
        self.lists.with(self.unsure) == Lists::default() && !self.watches && !self.is_looked_at
    }

    /// The lists that are stale now, if somebody looked at them. They are fetched with the next look, and not when
    /// they become stale
    /// ([Freshness](https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching#freshness-calculation)).
    fn stale(&mut self, inner: &Inner) -> Lists {
        let is_wanted = std::mem::take(&mut self.is_looked_at) && self.again.is_none();
        let catalog = inner.catalog.load();
        catalog.as_ref().filter(|_| is_wanted).map_or(Lists::default(), |catalog| catalog.stale(Instant::now()))
    }

    /// Takes an order; one that ends the connection comes back.
    fn order(&mut self, inner: &Inner, connection: &Connection, order: Option<Order>) -> Option<Ended> {
        match order {
            Some(Order::Start) => {}
            Some(Order::Rest) if inner.begin_rest(connection) => return Some(Ended::Ordered(None, Next::Idle)),
            Some(Order::Rest) => {}
            Some(Order::Refresh) => self.lists = Lists::ALL,
            Some(Order::Look) => self.is_looked_at = true,
            Some(Order::Watches) => self.watches = true,
            Some(Order::Stop(done)) => return Some(Ended::Ordered(Some(done), Next::Idle)),
            Some(Order::Restart(done)) => return Some(Ended::Ordered(Some(done), Next::Connect)),
            None => return Some(Ended::Ordered(None, Next::Gone)),
        }
        None
    }

    fn told(&mut self, inner: &Inner, told: Told) {
        if let Some(cache) = &inner.parts.cache {
            forget(cache, &told);
        }
        let Told { tools, prompts, resources, .. } = told;
        self.lists = self.lists.with(Lists { tools, prompts, resources });
        let any = if told.any_updated { inner.watches.uris() } else { Vec::new() };
        for uri in told.updated.into_iter().chain(any) {
            inner.status.tell(What::ResourceUpdated(uri));
        }
        if told.is_renewed {
            self.renewed();
        }
        if told.is_missed {
            self.missed();
        }
    }

    /// Changes may have been missed. Some servers end their streams all the time: a look at everything is worth it
    /// once in a while.
    fn missed(&mut self) {
        let now = Instant::now();
        let due = self.looked.map_or(now, |looked| now.max(looked + LOOK_AGAIN_AFTER));
        self.look.get_or_insert(due);
    }

    fn look(&mut self, inner: &Inner) {
        (self.look, self.looked, self.unsure) = (None, Some(Instant::now()), Lists::ALL);
        if let Some(cache) = &inner.parts.cache {
            cache.forget_all();
        }
        for uri in inner.watches.uris() {
            inner.status.tell(What::ResourceUpdated(uri));
        }
    }

    /// The server has a new session: everything is asked for again, but not in a hurry when the last time failed,
    /// since asking may be what makes it forget.
    fn renewed(&mut self) {
        self.is_renewed = true;
        if self.wait > AGAIN_AFTER {
            return self.later(Lists::ALL);
        }
        (self.lists, self.watches, self.wait) = (Lists::ALL, true, self.wait * 2);
    }

    fn later(&mut self, lists: Lists) {
        self.again = Some((Instant::now() + self.wait, lists));
        self.wait = (self.wait * 2).min(AGAIN_LONGEST);
    }

    /// Lists were fetched, but for these.
    fn fetched(&mut self, failed: Lists) {
        if failed == Lists::default() {
            (self.again, self.wait) = (None, AGAIN_AFTER);
            return;
        }
        self.later(failed);
    }

    /// What is watched was asked for.
    fn asked(&mut self, is_done: bool) {
        if is_done {
            (self.watches_again, self.watches_wait) = (None, AGAIN_AFTER);
            return;
        }
        self.watches_again = Some(Instant::now() + self.watches_wait);
        self.watches_wait = (self.watches_wait * 2).min(AGAIN_LONGEST);
    }

    /// Resolves when failed lists should be asked for again.
    async fn time_for_again(&self) -> Lists {
        match self.again {
            Some((when, lists)) => {
                tokio::time::sleep_until(when).await;
                lists
            }
            None => std::future::pending().await,
        }
    }
}

/// Waits for a time, if there is one.
async fn until(when: Option<Instant>) {
    match when {
        Some(when) => tokio::time::sleep_until(when).await,
        None => std::future::pending().await,
    }
}

/// What was kept may not be true any more.
fn forget(cache: &Store, told: &Told) {
    if told.resources || told.is_renewed || told.any_updated {
        return cache.forget_all();
    }
    if told.tools {
        cache.forget_tools();
    }
    told.updated.iter().for_each(|uri| cache.forget_resource(uri));
}

/// Serves orders and notices until the connection ends.
pub(super) async fn attend(
    inner: &Arc<Inner>,
    connection: &Connection,
    orders: &mut Orders,
    notices: &Notices,
) -> Ended {
    let mut subscription = Subscription::default();
    let mut todo = match inner.place {
        Place::First(_) | Place::Further => Todo::everything(),
        // What the server offers is the first one's to know.
        Place::Beside(_) => Todo::nothing(),
    };
    loop {
        let done = work(inner, connection, orders, &mut todo, &mut subscription).await;
        if let Err(ended) = done {
            return ended;
        }
        tokio::select! {
            biased;
            fault = connection.lost() => return Ended::Lost((*fault).clone()),
            order = orders.recv() => if let Some(ended) = todo.order(inner, connection, order) {
                return ended;
            },
            told = notices.take() => todo.told(inner, told),
            () = until(todo.look) => todo.look(inner),
            () = until(todo.watches_again) => (todo.watches, todo.watches_again) = (true, None),
            lists = todo.time_for_again() => {
                (todo.lists, todo.watches, todo.again) = (lists, todo.is_renewed, None);
            }
        }
    }
}

/// Does what is to be done. A server that does not answer holds up neither orders nor the news that it is gone.
async fn work(
    inner: &Arc<Inner>,
    connection: &Connection,
    orders: &mut Orders,
    todo: &mut Todo,
    subscription: &mut Subscription,
) -> Result<(), Ended> {
    while !todo.is_nothing() {
        let told = std::mem::take(&mut todo.lists);
        let lists = told.with(todo.stale(inner)).with(std::mem::take(&mut todo.unsure));
        if lists != Lists::default() {
            let is_new = std::mem::take(&mut todo.is_new);
            let is_quiet = is_new || told == Lists::default();
            let fetching = refresh(inner, connection, lists, is_quiet);
            let failed = unless_ended(inner, connection, orders, todo, fetching).await?;
            todo.is_new = is_new && failed != Lists::default();
            todo.fetched(failed);
        }
        if std::mem::take(&mut todo.watches) {
            if std::mem::take(&mut todo.is_renewed) {
                *subscription = Subscription::default();
                inner.taken().forget_all();
            }
            let asking = subscription.renew(inner, connection);
            let is_done = unless_ended(inner, connection, orders, todo, asking).await?;
            todo.asked(is_done);
        }
    }
    Ok(())
}

/// Waits for `work` and listens to orders meanwhile. The loss of the connection is looked at first: what was
/// fetched from a server that died is not worth keeping.
async fn unless_ended<T>(
    inner: &Inner,
    connection: &Connection,
    orders: &mut Orders,
    todo: &mut Todo,
    work: impl Future<Output = T>,
) -> Result<T, Ended> {
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            biased;
            fault = connection.lost() => return Err(Ended::Lost((*fault).clone())),
            order = orders.recv() => if let Some(ended) = todo.order(inner, connection, order) {
                return Err(ended);
            },
            done = &mut work => return Ok(done),
        }
    }
}

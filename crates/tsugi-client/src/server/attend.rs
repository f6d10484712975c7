//! The life of a connection: orders, notices and lists, until it is lost or ended.

use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;
use tsugi_protocol::answer::Fault;

use super::refresh::refresh;
use super::status::What;
use super::subscription::Subscription;
use super::task::{Next, Notices, Orders};
use super::{Inner, Order, Place};
use crate::catalog::Lists;
use crate::connection::Connection;
use crate::connection::context::Notice;
use crate::layer::cache::Store;
use std::sync::Arc;

/// How long to wait before a list that could not be fetched is asked for again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
const AGAIN_LONGEST: Duration = Duration::from_secs(60);

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
        }
    }

    fn is_nothing(&self) -> bool {
        self.lists == Lists::default() && !self.watches && !self.is_looked_at
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

    fn notice(&mut self, inner: &Inner, notice: Notice) {
        if let Some(cache) = &inner.parts.cache {
            forget(cache, &notice);
        }
        match notice {
            Notice::Tools => self.lists.tools = true,
            Notice::Prompts => self.lists.prompts = true,
            Notice::Resources => self.lists.resources = true,
            Notice::Updated(uri) => inner.status.tell(What::ResourceUpdated(uri)),
            Notice::Renewed => self.renewed(),
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

/// What was kept may not be true any more.
fn forget(cache: &Store, notice: &Notice) {
    match notice {
        Notice::Tools => cache.forget_tools(),
        Notice::Resources | Notice::Renewed => cache.forget_all(),
        Notice::Updated(uri) => cache.forget_resource(uri),
        Notice::Prompts => {}
    }
}

/// Serves orders and notices until the connection ends.
pub(super) async fn attend(
    inner: &Arc<Inner>,
    connection: &Connection,
    orders: &mut Orders,
    notices: &mut Notices,
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
            Some(notice) = notices.recv() => {
                todo.notice(inner, notice);
                while let Ok(notice) = notices.try_recv() {
                    todo.notice(inner, notice);
                }
            }
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
        let lists = told.with(todo.stale(inner));
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
            unless_ended(inner, connection, orders, todo, subscription.renew(inner, connection)).await?;
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

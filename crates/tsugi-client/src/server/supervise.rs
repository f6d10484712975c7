//! Supervises a live connection: commands, notifications and lists, until it is lost or ended.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;
use tsugi_protocol::answer::Fault;

use super::lifecycle::StopReason;
use super::refresh::refresh;
use super::status::ServerEvent;
use super::subscription::UpstreamSubscription;
use super::task::{CommandReceiver, NextPhase};
use super::{Instance, InstanceCommand, InstanceRole};
use crate::catalog::ListSelection;
use crate::connection::ServerConnection;
use crate::connection::notice::{NoticeInbox, PendingNotices};
use crate::layer::cache::CacheStore;

/// How long to wait before a list that could not be fetched is asked for again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
const AGAIN_LONGEST: Duration = Duration::from_secs(60);
/// How long to wait before all lists are fetched again because notifications may have been missed.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// How the life of a connection ended.
pub(super) enum ConnectionEnd {
    Lost(Fault),
    /// A command ended it; its sender may wait until that is done.
    Ordered(Option<oneshot::Sender<()>>, NextPhase, StopReason),
}

/// What is to be done next.
struct RefreshPlan {
    lists: ListSelection,
    watches: bool,
    /// A caller looked at lists that may be stale.
    is_looked_at: bool,
    /// No list was fetched yet over this connection.
    is_new: bool,
    /// The server has a new session, and its subscriptions are gone.
    is_renewed: bool,
    /// Lists that could not be fetched, and when to try again.
    again: Option<(Instant, ListSelection)>,
    wait: Duration,
    /// When to ask again for what is watched, as the server did not take all of it.
    watches_again: Option<Instant>,
    watches_wait: Duration,
    /// Lists that may have changed without a notification.
    unsure: ListSelection,
    /// When that is looked at, and when it was last.
    look: Option<Instant>,
    looked: Option<Instant>,
}

impl RefreshPlan {
    fn everything() -> Self {
        Self { lists: ListSelection::ALL, watches: true, ..Self::nothing() }
    }

    fn nothing() -> Self {
        Self {
            lists: ListSelection::default(),
            watches: false,
            is_looked_at: false,
            is_new: true,
            is_renewed: false,
            again: None,
            wait: AGAIN_AFTER,
            watches_again: None,
            watches_wait: AGAIN_AFTER,
            unsure: ListSelection::default(),
            look: None,
            looked: None,
        }
    }

    fn is_nothing(&self) -> bool {
        self.lists.with(self.unsure) == ListSelection::default() && !self.watches && !self.is_looked_at
    }

    /// The lists that are stale now, if a caller looked at them. They are fetched with the next look, and not when
    /// they become stale
    /// ([Freshness](https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching#freshness-calculation)).
    fn stale(&mut self, instance: &Instance) -> ListSelection {
        // A list that is about to be fetched again anyway is not fetched twice.
        let is_wanted = std::mem::take(&mut self.is_looked_at) && self.again.is_none();
        let catalog = instance.catalog.load();
        catalog.as_ref().filter(|_| is_wanted).map_or(ListSelection::default(), |catalog| catalog.stale(Instant::now()))
    }

    /// Takes an command; one that ends the connection comes back.
    fn command(
        &mut self,
        instance: &Instance,
        connection: &ServerConnection,
        command: Option<InstanceCommand>,
    ) -> Option<ConnectionEnd> {
        match command {
            // The connection stands already.
            Some(InstanceCommand::Start | InstanceCommand::Wake(_)) => {}
            Some(InstanceCommand::Rest) if instance.begin_rest(connection) => {
                return Some(ConnectionEnd::Ordered(None, NextPhase::Idle, StopReason::Unused));
            }
            Some(InstanceCommand::Rest) => {}
            Some(InstanceCommand::Refresh) => self.lists = ListSelection::ALL,
            Some(InstanceCommand::Look) => self.is_looked_at = true,
            Some(InstanceCommand::Watches) => self.watches = true,
            Some(InstanceCommand::Stop(done)) => {
                return Some(ConnectionEnd::Ordered(Some(done), NextPhase::Idle, StopReason::Ordered));
            }
            Some(InstanceCommand::Restart(done)) => {
                return Some(ConnectionEnd::Ordered(Some(done), NextPhase::Connect, StopReason::Restart));
            }
            None => return Some(ConnectionEnd::Ordered(None, NextPhase::Gone, StopReason::Removed)),
        }
        None
    }

    fn told(&mut self, instance: &Instance, told: PendingNotices) {
        if let Some(cache) = &instance.layers.cache {
            forget(cache, &told);
        }
        let PendingNotices { tools, prompts, resources, .. } = told;
        self.lists = self.lists.with(ListSelection { tools, prompts, resources });
        // A server may say that something changed without saying what: then all watched resources count.
        let any = if told.any_updated { instance.watches.uris() } else { Vec::new() };
        for uri in told.updated.into_iter().chain(any) {
            instance.status.announce(ServerEvent::ResourceUpdated(uri));
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
        // Several gaps in a row lead to one look.
        self.look.get_or_insert(due);
    }

    fn look(&mut self, instance: &Instance) {
        (self.look, self.looked, self.unsure) = (None, Some(Instant::now()), ListSelection::ALL);
        if let Some(cache) = &instance.layers.cache {
            cache.forget_all();
        }
        for uri in instance.watches.uris() {
            instance.status.announce(ServerEvent::ResourceUpdated(uri));
        }
    }

    /// The server has a new session: everything is asked for again, but not in a hurry when the last time failed,
    /// since asking may be what makes it forget.
    fn renewed(&mut self) {
        self.is_renewed = true;
        // The last fetch failed too: asking may be what makes the server forget its session.
        if self.wait > AGAIN_AFTER {
            return self.later(ListSelection::ALL);
        }
        (self.lists, self.watches, self.wait) = (ListSelection::ALL, true, self.wait * 2);
    }

    fn later(&mut self, lists: ListSelection) {
        self.again = Some((Instant::now() + self.wait, lists));
        self.wait = (self.wait * 2).min(AGAIN_LONGEST);
    }

    /// Lists were fetched, but for these.
    fn fetched(&mut self, failed: ListSelection) {
        if failed == ListSelection::default() {
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
    async fn time_for_again(&self) -> ListSelection {
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

/// Drops cached results that may be outdated.
fn forget(cache: &CacheStore, told: &PendingNotices) {
    if told.resources || told.is_renewed || told.any_updated {
        return cache.forget_all();
    }
    if told.tools {
        cache.forget_tools();
    }
    told.updated.iter().for_each(|uri| cache.forget_resource(uri));
}

/// Serves commands and notices until the connection ends.
pub(super) async fn supervise(
    instance: &Arc<Instance>,
    connection: &ServerConnection,
    commands: &mut CommandReceiver,
    notices: &NoticeInbox,
) -> ConnectionEnd {
    let mut subscription = UpstreamSubscription::default();
    let mut todo = match instance.role {
        InstanceRole::Primary(_) | InstanceRole::Replica => RefreshPlan::everything(),
        // What the server offers is the first one's to know.
        InstanceRole::CallerSession(_) => RefreshPlan::nothing(),
    };
    loop {
        let done = work(instance, connection, commands, &mut todo, &mut subscription).await;
        if let Err(ended) = done {
            return ended;
        }
        tokio::select! {
            // In this order: a lost connection makes everything else pointless.
            biased;
            fault = connection.lost() => return ConnectionEnd::Lost((*fault).clone()),
            command = commands.recv() => if let Some(ended) = todo.command(instance, connection, command) {
                return ended;
            },
            told = notices.take() => todo.told(instance, told),
            () = until(todo.look) => todo.look(instance),
            () = until(todo.watches_again) => (todo.watches, todo.watches_again) = (true, None),
            lists = todo.time_for_again() => {
                (todo.lists, todo.watches, todo.again) = (lists, todo.is_renewed, None);
            }
        }
    }
}

/// Does what is due. A server that does not answer delays neither commands nor the notice that it is gone.
async fn work(
    instance: &Arc<Instance>,
    connection: &ServerConnection,
    commands: &mut CommandReceiver,
    todo: &mut RefreshPlan,
    subscription: &mut UpstreamSubscription,
) -> Result<(), ConnectionEnd> {
    while !todo.is_nothing() {
        let told = std::mem::take(&mut todo.lists);
        let lists = told.with(todo.stale(instance)).with(std::mem::take(&mut todo.unsure));
        if lists != ListSelection::default() {
            let is_new = std::mem::take(&mut todo.is_new);
            // Without a notification, only real differences are announced.
            let is_quiet = is_new || told == ListSelection::default();
            let fetching = refresh(instance, connection, lists, is_quiet);
            let failed = unless_ended(instance, connection, commands, todo, fetching).await?;
            // Until all lists came once, the first complete fetch is still the first.
            todo.is_new = is_new && failed != ListSelection::default();
            todo.fetched(failed);
        }
        if std::mem::take(&mut todo.watches) {
            if std::mem::take(&mut todo.is_renewed) {
                *subscription = UpstreamSubscription::default();
                instance.taken().forget_all();
            }
            let asking = subscription.renew(instance, connection);
            let is_done = unless_ended(instance, connection, commands, todo, asking).await?;
            todo.asked(is_done);
        }
    }
    Ok(())
}

/// Waits for `work` while taking commands. The loss of the connection is checked first: what was fetched from a server
/// that died is not worth keeping.
async fn unless_ended<T>(
    instance: &Instance,
    connection: &ServerConnection,
    commands: &mut CommandReceiver,
    todo: &mut RefreshPlan,
    work: impl Future<Output = T>,
) -> Result<T, ConnectionEnd> {
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            biased;
            fault = connection.lost() => return Err(ConnectionEnd::Lost((*fault).clone())),
            command = commands.recv() => if let Some(ended) = todo.command(instance, connection, command) {
                return Err(ended);
            },
            done = &mut work => return Ok(done),
        }
    }
}

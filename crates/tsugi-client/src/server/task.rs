//! The task that owns a server: connects it, keeps its catalog fresh, and brings it back when it breaks.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tsugi_protocol::answer::{Fault, FaultCode, Stage};

use super::attend::{Ended, attend};
use super::connect::connect;
use super::seats::Seat;
use super::subscription::Taken;
use super::{Inner, Live, Order, Place};
use crate::config::{Restart, Start};
use crate::connection::Connection;
use crate::connection::backoff::{Backoff, Verdict};
use crate::connection::notice::Notices;
use crate::connection::state::Happening;

pub(super) type Orders = mpsc::Receiver<Order>;

/// A server that asks for a longer pause than this is tried after it all the same.
const LONGEST_ASKED: Duration = Duration::from_secs(300);

/// How long calls in flight may take to end when the server is stopped.
const DRAIN_LIMIT: Duration = Duration::from_secs(5);

/// What comes after a phase of the server's life.
pub(super) enum Next {
    /// Wait until somebody wants it.
    Idle,
    /// Connect.
    Connect,
    /// Nobody holds the server any more.
    Gone,
}

/// Runs until the manager lets the server go.
pub(super) async fn run(
    inner: Arc<Inner>,
    may_start: watch::Receiver<bool>,
    mut orders: Orders,
    notices: Arc<Notices>,
) {
    let mut backoff = Backoff::new(inner.config.backoff);
    let mut next = held_back(&inner, may_start, &mut orders).await;
    loop {
        next = match next {
            Next::Idle => idle(&inner, &mut orders).await,
            Next::Connect => live(&inner, &mut orders, &notices, &mut backoff).await,
            Next::Gone => return,
        };
    }
}

/// Waits until the manager lets servers start. One that is stopped meanwhile waits no longer, and begins nothing; one
/// that somebody wants meanwhile begins then, also if it is lazy.
async fn held_back(inner: &Inner, mut may_start: watch::Receiver<bool>, orders: &mut Orders) -> Next {
    let mut is_wanted = inner.config.start == Start::Eager;
    loop {
        let order = tokio::select! {
            biased;
            // A manager that is gone lets nobody wait.
            _ = may_start.wait_for(|may_start| *may_start) => {
                return if is_wanted { Next::Connect } else { Next::Idle };
            }
            order = orders.recv() => order,
        };
        match order {
            Some(Order::Stop(done)) => {
                let _ = done.send(());
                return Next::Idle;
            }
            Some(Order::Restart(done)) => {
                is_wanted = true;
                let _ = done.send(());
            }
            Some(Order::Start) => is_wanted = true,
            Some(Order::Rest | Order::Refresh | Order::Look | Order::Watches) => {}
            None => return Next::Gone,
        }
    }
}

async fn idle(inner: &Inner, orders: &mut Orders) -> Next {
    loop {
        match orders.recv().await {
            Some(Order::Start) => return Next::Connect,
            Some(Order::Restart(done)) => {
                let _ = done.send(());
                return Next::Connect;
            }
            Some(Order::Stop(done)) => {
                // Also one that failed: it is tried again when somebody calls it.
                inner.status.happen(Happening::Closed, None);
                let _ = done.send(());
            }
            Some(Order::Rest | Order::Refresh | Order::Look | Order::Watches) => {}
            None => return Next::Gone,
        }
    }
}

/// One attempt and, if it succeeds, the life of the connection.
async fn live(inner: &Arc<Inner>, orders: &mut Orders, notices: &Notices, backoff: &mut Backoff) -> Next {
    inner.status.happen(Happening::Wanted, None);
    inner.count_start();
    let (connected, ordered) = attempt(inner, orders, backoff).await;
    match (connected, ordered) {
        (Ok(connected), None) => {
            backoff.connected(Instant::now());
            serve(inner, connected, orders, notices, backoff).await
        }
        (Err(fault), None) => broken(inner, fault, orders, backoff).await,
        (connected, Some((done, next))) => {
            if let Ok((connection, _seat)) = connected {
                connection.close().await;
            }
            inner.status.happen(Happening::Closed, None);
            if let Some(done) = done {
                let _ = done.send(());
            }
            next
        }
    }
}

/// A connection, and the right to have it where connections are limited.
type Connected = (Connection, Option<Seat>);
type Ordered = Option<(Option<oneshot::Sender<()>>, Next)>;

/// Connects, unless somebody wants otherwise meanwhile. The attempt is never just dropped: it ends what it
/// started, so that whoever orders a stop hears of it when nothing is left.
async fn attempt(
    inner: &Arc<Inner>,
    orders: &mut Orders,
    backoff: &mut Backoff,
) -> (Result<Connected, Fault>, Ordered) {
    let give_up = CancellationToken::new();
    let mut connecting = std::pin::pin!(async {
        let seat = inner.seat(&give_up).await?;
        Ok((connect(inner, backoff, &give_up).await?, seat))
    });
    tokio::select! {
        connected = &mut connecting => (connected, None),
        ordered = ending(orders) => {
            give_up.cancel();
            (connecting.await, Some(ordered))
        }
    }
}

/// Waits for an order that ends an attempt.
async fn ending(orders: &mut Orders) -> (Option<oneshot::Sender<()>>, Next) {
    loop {
        match orders.recv().await {
            Some(Order::Stop(done)) => return (Some(done), Next::Idle),
            Some(Order::Restart(done)) => return (Some(done), Next::Connect),
            Some(Order::Start | Order::Rest | Order::Refresh | Order::Look | Order::Watches) => {}
            None => return (None, Next::Gone),
        }
    }
}

/// Decides what to do after a failure, and waits as long as that says.
async fn broken(inner: &Arc<Inner>, fault: Fault, orders: &mut Orders, backoff: &mut Backoff) -> Next {
    match inner.place {
        Place::First(_) | Place::Further => {
            tracing::warn!(server = %inner.context.server, %fault, hint = fault.hint, "the server is not connected");
        }
        // It is done without.
        Place::Beside(_) => tracing::debug!(server = %inner.context.server, %fault, "a session is not connected"),
    }
    let may_retry = inner.config.restart == Restart::OnFailure && is_worth_retrying(&fault);
    let verdict = if may_retry { backoff.failed(Instant::now()) } else { Verdict::GiveUp };
    match verdict {
        Verdict::RetryAfter(wait) => {
            let asked = fault.retry_after_ms.map_or(Duration::ZERO, Duration::from_millis);
            let wait = wait.max(asked.min(LONGEST_ASKED));
            inner.status.happen(Happening::Broke, Some(fault));
            pause(inner, wait, orders, backoff).await
        }
        Verdict::Pause(wait) => {
            inner.status.happen(Happening::GaveUp, Some(fault));
            pause(inner, wait, orders, backoff).await
        }
        Verdict::GiveUp => {
            inner.status.happen(Happening::GaveUp, Some(fault));
            idle(inner, orders).await
        }
    }
}

/// Also a program that does not exist is looked for again: somebody may be installing it. Calls do not wait for that.
fn is_worth_retrying(fault: &Fault) -> bool {
    fault.retryable || fault.code == FaultCode::ServerCrashed || fault.stage == Stage::Spawn
}

/// Waits before the next attempt. Somebody who asks for a start or a restart ends the waiting.
async fn pause(inner: &Arc<Inner>, wait: Duration, orders: &mut Orders, backoff: &mut Backoff) -> Next {
    let until = Instant::now() + wait;
    loop {
        let order = tokio::select! {
            () = tokio::time::sleep_until(until) => return Next::Connect,
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
            Some(Order::Rest | Order::Refresh | Order::Look | Order::Watches) => {}
            None => return Next::Gone,
        }
    }
}

/// The life of a connection: from agreed to lost or stopped.
async fn serve(
    inner: &Arc<Inner>,
    (connection, seat): Connected,
    orders: &mut Orders,
    notices: &Notices,
    backoff: &mut Backoff,
) -> Next {
    inner.go_live(connection.clone());
    let ended = tokio::select! {
        ended = attend(inner, &connection, orders, notices) => ended,
        never = inner.context.parked.keep_sweeping() => match never {},
    };
    match ended {
        Ended::Lost(fault) => {
            inner.live.store(None);
            connection.close().await;
            drop(seat);
            inner.context.parked.clear();
            broken(inner, fault, orders, backoff).await
        }
        Ended::Ordered(done, next) => {
            inner.drain(&connection).await;
            drop(seat);
            if let Some(done) = done {
                let _ = done.send(());
            }
            backoff.reset();
            next
        }
    }
}

impl Inner {
    /// Counts an attempt. One that only rested was not started again, but woken.
    fn count_start(&self) {
        if self.was_started.swap(true, Ordering::Relaxed) && !self.is_resting.load(Ordering::Relaxed) {
            self.status.count_restart();
        }
    }

    fn go_live(&self, connection: Connection) {
        // A server that was away may have changed, and could not tell.
        if let Some(cache) = self.parts.cache.as_ref().filter(|_| self.catalog.load().is_some()) {
            cache.forget_all();
        }
        self.is_resting.store(false, Ordering::Relaxed);
        self.live.store(Some(Arc::new(Live { connection, taken: Taken::default() })));
        // The manager may have let go just now, and then nobody else would end this connection.
        if self.is_let_go() {
            self.live.store(None);
        }
        self.status.happen(Happening::Agreed, None);
    }

    /// No new calls; those in flight may end; then the wire and the process go.
    async fn drain(&self, connection: &Connection) {
        self.live.store(None);
        self.status.happen(Happening::Drain, None);
        // Nobody can bring an answer any more.
        self.context.parked.clear();
        let latest = Instant::now() + DRAIN_LIMIT;
        // One that only rests has time: a call that came just before is not cut short by it.
        let may_wait = || self.is_resting.load(Ordering::Relaxed) || Instant::now() < latest;
        while connection.in_flight() > 0 && may_wait() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        // A call that was in flight may have been parked meanwhile.
        self.context.parked.clear();
        connection.close().await;
        self.status.happen(Happening::Closed, None);
    }
}

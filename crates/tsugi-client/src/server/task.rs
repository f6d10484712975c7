//! The task that owns a server: connects it, keeps its catalog fresh, and brings it back when it breaks.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tsugi_protocol::answer::{CallStage, Fault, FaultCode};

use super::connect::connect;
use super::connection_limit::ConnectionSlot;
use super::subscription::SubscribedUris;
use super::supervise::{ConnectionEnd, attend};
use super::{Instance, InstanceCommand, InstanceRole, LiveConnection};
use crate::config::{RestartPolicy, StartPolicy};
use crate::connection::ServerConnection;
use crate::connection::backoff::{Backoff, BackoffVerdict};
use crate::connection::notice::NoticeInbox;
use crate::connection::state::ConnectionEvent;

pub(super) type CommandReceiver = mpsc::Receiver<InstanceCommand>;

/// A server that asks for a longer pause than this is tried after it all the same.
const LONGEST_ASKED: Duration = Duration::from_secs(300);

/// How long calls in flight may take to end when the server is stopped.
const DRAIN_LIMIT: Duration = Duration::from_secs(5);

/// What comes after a phase of the server's life.
pub(super) enum NextPhase {
    /// Wait until somebody wants it.
    Idle,
    /// Connect.
    Connect,
    /// Nobody holds the server any more.
    Gone,
}

/// Runs until the manager lets the server go.
pub(super) async fn run(
    inner: Arc<Instance>,
    may_start: watch::Receiver<bool>,
    mut orders: CommandReceiver,
    notices: Arc<NoticeInbox>,
) {
    let mut backoff = Backoff::new(inner.config.backoff);
    let mut next = held_back(&inner, may_start, &mut orders).await;
    loop {
        next = match next {
            NextPhase::Idle => idle(&inner, &mut orders).await,
            NextPhase::Connect => live(&inner, &mut orders, &notices, &mut backoff).await,
            NextPhase::Gone => return,
        };
    }
}

/// Waits until the manager lets servers start. One that is stopped meanwhile waits no longer, and begins nothing; one
/// that somebody wants meanwhile begins then, also if it is lazy.
async fn held_back(inner: &Instance, mut may_start: watch::Receiver<bool>, orders: &mut CommandReceiver) -> NextPhase {
    let mut is_wanted = inner.config.start == StartPolicy::Eager;
    loop {
        let order = tokio::select! {
            biased;
            // A manager that is gone lets nobody wait.
            _ = may_start.wait_for(|may_start| *may_start) => {
                return if is_wanted { NextPhase::Connect } else { NextPhase::Idle };
            }
            order = orders.recv() => order,
        };
        match order {
            Some(InstanceCommand::Stop(done)) => {
                let _ = done.send(());
                return NextPhase::Idle;
            }
            Some(InstanceCommand::Restart(done)) => {
                is_wanted = true;
                let _ = done.send(());
            }
            Some(InstanceCommand::Start) => is_wanted = true,
            Some(
                InstanceCommand::Rest | InstanceCommand::Refresh | InstanceCommand::Look | InstanceCommand::Watches,
            ) => {}
            None => return NextPhase::Gone,
        }
    }
}

async fn idle(inner: &Instance, orders: &mut CommandReceiver) -> NextPhase {
    loop {
        match orders.recv().await {
            Some(InstanceCommand::Start) => return NextPhase::Connect,
            Some(InstanceCommand::Restart(done)) => {
                let _ = done.send(());
                return NextPhase::Connect;
            }
            Some(InstanceCommand::Stop(done)) => {
                // Also one that failed: it is tried again when somebody calls it.
                inner.status.happen(ConnectionEvent::Closed, None);
                let _ = done.send(());
            }
            Some(
                InstanceCommand::Rest | InstanceCommand::Refresh | InstanceCommand::Look | InstanceCommand::Watches,
            ) => {}
            None => return NextPhase::Gone,
        }
    }
}

/// One attempt and, if it succeeds, the life of the connection.
async fn live(
    inner: &Arc<Instance>,
    orders: &mut CommandReceiver,
    notices: &NoticeInbox,
    backoff: &mut Backoff,
) -> NextPhase {
    inner.status.happen(ConnectionEvent::Wanted, None);
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
            inner.status.happen(ConnectionEvent::Closed, None);
            if let Some(done) = done {
                let _ = done.send(());
            }
            next
        }
    }
}

/// A connection, and the right to have it where connections are limited.
type OpenConnection = (ServerConnection, Option<ConnectionSlot>);
type CommandEffect = Option<(Option<oneshot::Sender<()>>, NextPhase)>;

/// Connects, unless somebody wants otherwise meanwhile. The attempt is never just dropped: it ends what it
/// started, so that whoever orders a stop hears of it when nothing is left.
async fn attempt(
    inner: &Arc<Instance>,
    orders: &mut CommandReceiver,
    backoff: &mut Backoff,
) -> (Result<OpenConnection, Fault>, CommandEffect) {
    let give_up = CancellationToken::new();
    let mut connecting = std::pin::pin!(async {
        let seat = inner.acquire_slot(&give_up).await?;
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
async fn ending(orders: &mut CommandReceiver) -> (Option<oneshot::Sender<()>>, NextPhase) {
    loop {
        match orders.recv().await {
            Some(InstanceCommand::Stop(done)) => return (Some(done), NextPhase::Idle),
            Some(InstanceCommand::Restart(done)) => return (Some(done), NextPhase::Connect),
            Some(
                InstanceCommand::Start
                | InstanceCommand::Rest
                | InstanceCommand::Refresh
                | InstanceCommand::Look
                | InstanceCommand::Watches,
            ) => {}
            None => return (None, NextPhase::Gone),
        }
    }
}

/// Decides what to do after a failure, and waits as long as that says.
async fn broken(inner: &Arc<Instance>, fault: Fault, orders: &mut CommandReceiver, backoff: &mut Backoff) -> NextPhase {
    match inner.role {
        InstanceRole::Primary(_) | InstanceRole::Replica => {
            tracing::warn!(server = %inner.context.server, %fault, hint = fault.hint, "the server is not connected");
        }
        // It is done without.
        InstanceRole::CallerSession(_) => {
            tracing::debug!(server = %inner.context.server, %fault, "a session is not connected")
        }
    }
    let may_retry = inner.config.restart == RestartPolicy::OnFailure && is_worth_retrying(&fault);
    let verdict = if may_retry { backoff.failed(Instant::now()) } else { BackoffVerdict::GiveUp };
    match verdict {
        BackoffVerdict::RetryAfter(wait) => {
            let asked = fault.retry_after_ms.map_or(Duration::ZERO, Duration::from_millis);
            let wait = wait.max(asked.min(LONGEST_ASKED));
            inner.status.happen(ConnectionEvent::Broke, Some(fault));
            pause(inner, wait, orders, backoff).await
        }
        BackoffVerdict::Pause(wait) => {
            inner.status.happen(ConnectionEvent::GaveUp, Some(fault));
            pause(inner, wait, orders, backoff).await
        }
        BackoffVerdict::GiveUp => {
            inner.status.happen(ConnectionEvent::GaveUp, Some(fault));
            idle(inner, orders).await
        }
    }
}

/// Also a program that does not exist is looked for again: somebody may be installing it. Calls do not wait for that.
fn is_worth_retrying(fault: &Fault) -> bool {
    fault.retryable || fault.code == FaultCode::ServerCrashed || fault.stage == CallStage::Spawn
}

/// Waits before the next attempt. Somebody who asks for a start or a restart ends the waiting.
async fn pause(
    inner: &Arc<Instance>,
    wait: Duration,
    orders: &mut CommandReceiver,
    backoff: &mut Backoff,
) -> NextPhase {
    let until = Instant::now() + wait;
    loop {
        let order = tokio::select! {
            () = tokio::time::sleep_until(until) => return NextPhase::Connect,
            order = orders.recv() => order,
        };
        match order {
            Some(InstanceCommand::Start) => return NextPhase::Connect,
            Some(InstanceCommand::Restart(done)) => {
                backoff.reset();
                let _ = done.send(());
                return NextPhase::Connect;
            }
            Some(InstanceCommand::Stop(done)) => {
                inner.status.happen(ConnectionEvent::Closed, None);
                let _ = done.send(());
                return NextPhase::Idle;
            }
            Some(
                InstanceCommand::Rest | InstanceCommand::Refresh | InstanceCommand::Look | InstanceCommand::Watches,
            ) => {}
            None => return NextPhase::Gone,
        }
    }
}

/// The life of a connection: from agreed to lost or stopped.
async fn serve(
    inner: &Arc<Instance>,
    (connection, seat): OpenConnection,
    orders: &mut CommandReceiver,
    notices: &NoticeInbox,
    backoff: &mut Backoff,
) -> NextPhase {
    inner.go_live(connection.clone());
    let ended = tokio::select! {
        ended = attend(inner, &connection, orders, notices) => ended,
        never = inner.context.parked.keep_sweeping() => match never {},
    };
    match ended {
        ConnectionEnd::Lost(fault) => {
            inner.live.store(None);
            connection.close().await;
            drop(seat);
            inner.context.parked.clear();
            broken(inner, fault, orders, backoff).await
        }
        ConnectionEnd::Ordered(done, next) => {
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

impl Instance {
    /// Counts an attempt. One that only rested was not started again, but woken.
    fn count_start(&self) {
        if self.was_started.swap(true, Ordering::Relaxed) && !self.is_resting.load(Ordering::Relaxed) {
            self.status.count_restart();
        }
    }

    fn go_live(&self, connection: ServerConnection) {
        // A server that was away may have changed, and could not tell.
        if let Some(cache) = self.layers.cache.as_ref().filter(|_| self.catalog.load().is_some()) {
            cache.forget_all();
        }
        self.is_resting.store(false, Ordering::Relaxed);
        self.live.store(Some(Arc::new(LiveConnection { connection, taken: SubscribedUris::default() })));
        // The manager may have let go just now, and then nobody else would end this connection.
        if self.is_let_go() {
            self.live.store(None);
        }
        self.status.happen(ConnectionEvent::Agreed, None);
    }

    /// No new calls; those in flight may end; then the wire and the process go.
    async fn drain(&self, connection: &ServerConnection) {
        self.live.store(None);
        self.status.happen(ConnectionEvent::Drain, None);
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
        self.status.happen(ConnectionEvent::Closed, None);
    }
}

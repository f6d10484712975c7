//! The task that owns an instance: connects it, keeps its catalog fresh, and brings it back when it breaks.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tsugi_protocol::answer::{CallStage, Fault, FaultCode};

use super::connect::connect;
use super::connection_limit::ConnectionSlot;
use super::lifecycle::StopReason;
use super::subscription::SubscribedUris;
use super::supervise::{ConnectionEnd, supervise};
use super::{Instance, InstanceCommand, LiveConnection};
use crate::backoff::{Backoff, BackoffKind, BackoffVerdict, RetryPlan};
use crate::config::{ConnectTarget, RestartPolicy, StartPolicy};
use crate::connection::ServerConnection;
use crate::connection::notice::NoticeInbox;
use crate::connection::state::ConnectionEvent;

pub(super) type CommandReceiver = mpsc::Receiver<InstanceCommand>;

/// The longest `Retry-After` of a server that is obeyed before connecting again.
const LONGEST_ASKED: Duration = Duration::from_secs(300);

/// How soon after a missing sign-in a call may try again. The store of sign-ins announces changes, so this is for those
/// that it does not see.
const WAKE_UNSIGNED: Duration = Duration::from_secs(10);

/// How long calls in flight may take to end when the server is stopped.
const DRAIN_LIMIT: Duration = Duration::from_secs(5);

/// What comes after a phase of an instance's life.
pub(super) enum NextPhase {
    /// Wait for a call or a command.
    Idle,
    Connect,
    /// The manager has dropped the server.
    Gone,
}

/// Runs until the manager drops the server.
pub(super) async fn run(
    instance: Arc<Instance>,
    may_start: watch::Receiver<bool>,
    mut commands: CommandReceiver,
    notices: Arc<NoticeInbox>,
) {
    let mut backoff = Backoff::new(instance.config.backoff, backoff_kind(&instance.config.target));
    let mut next = held_back(&instance, may_start, &mut commands).await;
    loop {
        next = match next {
            NextPhase::Idle => idle(&instance, &mut commands, &mut backoff).await,
            NextPhase::Connect => connect_and_serve(&instance, &mut commands, &notices, &mut backoff).await,
            NextPhase::Gone => return,
        };
    }
}

fn backoff_kind(target: &ConnectTarget) -> BackoffKind {
    match target {
        ConnectTarget::Stdio(_) | ConnectTarget::InProcess(_) | ConnectTarget::Link(_) => BackoffKind::Program,
        _ => BackoffKind::Address,
    }
}

/// Waits until the manager lets servers start. A stop ends the wait and starts nothing. A start or a call before then
/// takes effect when the manager lets go, even for a lazy server.
async fn held_back(
    instance: &Instance,
    mut may_start: watch::Receiver<bool>,
    commands: &mut CommandReceiver,
) -> NextPhase {
    let mut is_wanted = instance.config.start == StartPolicy::Eager;
    loop {
        let command = tokio::select! {
            biased;
            // An error means that the manager is gone, and then there is nothing to wait for either.
            _ = may_start.wait_for(|may_start| *may_start) => {
                return if is_wanted { NextPhase::Connect } else { NextPhase::Idle };
            }
            command = commands.recv() => command,
        };
        match command {
            Some(InstanceCommand::Stop(done)) => {
                let _ = done.send(());
                return NextPhase::Idle;
            }
            Some(InstanceCommand::Restart(done)) => {
                is_wanted = true;
                let _ = done.send(());
            }
            Some(InstanceCommand::Start | InstanceCommand::Wake(_)) => is_wanted = true,
            Some(
                InstanceCommand::Rest | InstanceCommand::Refresh | InstanceCommand::Look | InstanceCommand::Watches,
            ) => {}
            None => return NextPhase::Gone,
        }
    }
}

async fn idle(instance: &Instance, commands: &mut CommandReceiver, backoff: &mut Backoff) -> NextPhase {
    loop {
        let command = commands.recv().await;
        if let Some(next) = instance.take_command(command, backoff) {
            return next;
        }
    }
}

/// One attempt and, if it succeeds, the life of the connection.
async fn connect_and_serve(
    instance: &Arc<Instance>,
    commands: &mut CommandReceiver,
    notices: &NoticeInbox,
    backoff: &mut Backoff,
) -> NextPhase {
    instance.count_attempt();
    instance.status.happen(ConnectionEvent::Wanted, None);
    let (connected, command) = attempt(instance, commands, backoff).await;
    match (connected, command) {
        (Ok(connected), None) => {
            backoff.connected(Instant::now());
            serve(instance, connected, commands, notices, backoff).await
        }
        (Err(fault), None) => {
            let plan = plan_retry(instance, &fault, backoff);
            instance.log_failed_attempt(&fault, plan.as_ref(), backoff.failures());
            wait_for_retry(instance, fault, plan, commands, backoff).await
        }
        (connected, Some((done, next, reason))) => {
            if let Ok((connection, _slot)) = connected {
                connection.close().await;
            }
            instance.log_stopped(reason, None);
            instance.status.happen(ConnectionEvent::Closed, None);
            if let Some(done) = done {
                let _ = done.send(());
            }
            next
        }
    }
}

/// A connection, and the slot it takes where connections are limited.
type OpenConnection = (ServerConnection, Option<ConnectionSlot>);
type CommandEffect = (Option<oneshot::Sender<()>>, NextPhase, StopReason);

/// Connects, unless a command ends the attempt. The attempt is never just dropped: it ends what it started, so that a
/// stop is reported as done only when nothing is left.
async fn attempt(
    instance: &Arc<Instance>,
    commands: &mut CommandReceiver,
    backoff: &mut Backoff,
) -> (Result<OpenConnection, Fault>, Option<CommandEffect>) {
    let give_up = CancellationToken::new();
    let mut connecting = std::pin::pin!(async {
        let slot = instance.acquire_slot(&give_up).await?;
        Ok((connect(instance, backoff, &give_up).await?, slot))
    });
    tokio::select! {
        connected = &mut connecting => (connected, None),
        effect = ending_command(commands) => {
            give_up.cancel();
            (connecting.await, Some(effect))
        }
    }
}

/// Waits for a command that ends an attempt.
async fn ending_command(commands: &mut CommandReceiver) -> CommandEffect {
    loop {
        match commands.recv().await {
            Some(InstanceCommand::Stop(done)) => return (Some(done), NextPhase::Idle, StopReason::Ordered),
            Some(InstanceCommand::Restart(done)) => return (Some(done), NextPhase::Connect, StopReason::Restart),
            Some(
                InstanceCommand::Start
                | InstanceCommand::Wake(_)
                | InstanceCommand::Rest
                | InstanceCommand::Refresh
                | InstanceCommand::Look
                | InstanceCommand::Watches,
            ) => {}
            None => return (None, NextPhase::Gone, StopReason::Removed),
        }
    }
}

/// When the next attempt takes place after this failure; `None` when it is not tried again by itself.
fn plan_retry(instance: &Instance, fault: &Fault, backoff: &mut Backoff) -> Option<RetryPlan> {
    if instance.config.restart != RestartPolicy::OnFailure || !is_worth_retrying(fault) {
        return None;
    }
    let mut plan = match backoff.failed(Instant::now()) {
        BackoffVerdict::Retry(plan) => plan,
        BackoffVerdict::GiveUp => return None,
    };
    // Neither we nor a call may come back sooner than the server asked for.
    let asked = fault.retry_after_ms.map_or(Duration::ZERO, Duration::from_millis).min(LONGEST_ASKED);
    (plan.wait, plan.wake_after) = (plan.wait.max(asked), plan.wake_after.max(asked));
    Some(plan)
}

/// Waits after a failure until it is time for the next attempt, a call wakes the server, or a command arrives.
async fn wait_for_retry(
    instance: &Arc<Instance>,
    fault: Fault,
    plan: Option<RetryPlan>,
    commands: &mut CommandReceiver,
    backoff: &mut Backoff,
) -> NextPhase {
    // Before the state changes: callers look at it as soon as they see the new state.
    instance.set_wake_window(wake_after(&fault, plan.as_ref()));
    let is_down = plan.is_none_or(|plan| plan.is_down);
    let event = if is_down { ConnectionEvent::GaveUp } else { ConnectionEvent::Broke };
    instance.status.happen(event, Some(fault));
    let Some(plan) = plan else { return idle(instance, commands, backoff).await };
    let until = Instant::now() + plan.wait;
    loop {
        let command = tokio::select! {
            () = tokio::time::sleep_until(until) => return NextPhase::Connect,
            command = commands.recv() => command,
        };
        if let Some(next) = instance.take_command(command, backoff) {
            return next;
        }
    }
}

/// After how long a call may bring the next attempt forward; `None` when no call may.
fn wake_after(fault: &Fault, plan: Option<&RetryPlan>) -> Option<Duration> {
    match plan {
        Some(plan) => Some(plan.wake_after),
        None => (fault.code == FaultCode::AuthRequired).then_some(WAKE_UNSIGNED),
    }
}

/// A program that does not exist is tried again too, since it may be being installed.
fn is_worth_retrying(fault: &Fault) -> bool {
    fault.retryable || fault.code == FaultCode::ServerCrashed || fault.stage == CallStage::Spawn
}

/// The life of a connection: from agreed to lost or stopped.
async fn serve(
    instance: &Arc<Instance>,
    (connection, slot): OpenConnection,
    commands: &mut CommandReceiver,
    notices: &NoticeInbox,
    backoff: &mut Backoff,
) -> NextPhase {
    instance.log_connected(&connection, backoff.failures());
    instance.go_live(connection.clone());
    let ended = tokio::select! {
        ended = supervise(instance, &connection, commands, notices) => ended,
        never = instance.context.parked.keep_sweeping() => match never {},
    };
    match ended {
        ConnectionEnd::Lost(fault) => {
            instance.live.store(None);
            connection.close().await;
            // Freed before the wait: another server may use the connection while this one is down.
            drop(slot);
            instance.context.parked.clear();
            let plan = plan_retry(instance, &fault, backoff);
            instance.log_lost(&fault, plan.as_ref());
            wait_for_retry(instance, fault, plan, commands, backoff).await
        }
        ConnectionEnd::Ordered(done, next, reason) => {
            instance.drain(&connection).await;
            instance.log_stopped(reason, Some(&connection));
            drop(slot);
            if let Some(done) = done {
                let _ = done.send(());
            }
            backoff.reset();
            next
        }
    }
}

impl Instance {
    /// What a command means while there is no connection; `None` when the wait goes on.
    fn take_command(&self, command: Option<InstanceCommand>, backoff: &mut Backoff) -> Option<NextPhase> {
        match command {
            Some(InstanceCommand::Start) => {
                backoff.reset();
                self.log_ordered_start();
                Some(NextPhase::Connect)
            }
            Some(InstanceCommand::Restart(done)) => {
                backoff.reset();
                self.log_ordered_start();
                let _ = done.send(());
                Some(NextPhase::Connect)
            }
            // Many calls may have asked at once. Those that an attempt has answered since then do not cause another.
            Some(InstanceCommand::Wake(seen)) => (seen == self.attempts()).then_some(NextPhase::Connect),
            Some(InstanceCommand::Stop(done)) => {
                self.log_stopped(StopReason::Ordered, None);
                // A failed server becomes a stopped one, which the next call starts.
                self.status.happen(ConnectionEvent::Closed, None);
                let _ = done.send(());
                Some(NextPhase::Idle)
            }
            Some(
                InstanceCommand::Rest | InstanceCommand::Refresh | InstanceCommand::Look | InstanceCommand::Watches,
            ) => None,
            None => Some(NextPhase::Gone),
        }
    }

    /// Counts an attempt. Waking an instance that only rested is not a restart.
    fn count_attempt(&self) {
        let earlier = self.attempts.fetch_add(1, Ordering::AcqRel);
        if earlier > 0 && !self.is_resting.load(Ordering::Relaxed) {
            self.status.count_restart();
        }
    }

    fn go_live(&self, connection: ServerConnection) {
        // A server that was away may have changed without a notification.
        if let Some(cache) = self.layers.cache.as_ref().filter(|_| self.catalog.load().is_some()) {
            cache.forget_all();
        }
        self.is_resting.store(false, Ordering::Relaxed);
        self.live.store(Some(Arc::new(LiveConnection { connection, taken: SubscribedUris::default() })));
        // The manager may have removed the server just now, and then nothing else would end this connection.
        if self.is_let_go() {
            self.live.store(None);
        }
        self.status.happen(ConnectionEvent::Agreed, None);
    }

    /// Takes no new calls, lets those in flight end, then closes the wire and ends the process.
    async fn drain(&self, connection: &ServerConnection) {
        self.live.store(None);
        self.status.happen(ConnectionEvent::Drain, None);
        // An answer to a parked call has no way back from here.
        self.context.parked.clear();
        let latest = Instant::now() + DRAIN_LIMIT;
        // An idle stop is in no hurry: a call that came just before it is not cut.
        let may_wait = || self.is_resting.load(Ordering::Relaxed) || Instant::now() < latest;
        while connection.in_flight() > 0 && may_wait() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        // A call in flight may have been parked since.
        self.context.parked.clear();
        connection.close().await;
        self.status.happen(ConnectionEvent::Closed, None);
    }
}

//! One log line for every change in a server's life that an operator would ask about: who, why, and what happens next.

use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt;
use tsugi_protocol::answer::{Fault, FaultCode};

use super::{Instance, InstanceRole};
use crate::backoff::RetryPlan;
use crate::config::{RestartPolicy, StartPolicy};
use crate::connection::ServerConnection;
use crate::connection::state::ConnectionState;
use crate::error::end_in_words;

/// The log target of these lines. `tsugi serve` shows it at its default level; other commands report failures
/// themselves, and would report them twice.
pub(crate) const LIFECYCLE: &str = "tsugi_lifecycle";

/// Why a server is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StopReason {
    Ordered,
    Restart,
    /// It was idle, or its connection is needed for another server.
    Unused,
    Removed,
}

/// What the log has said of a server since it was last connected. A later one is worth another line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) enum ReportedTrouble {
    #[default]
    None,
    Failing,
    Down,
}

impl StopReason {
    fn as_str(self) -> &'static str {
        match self {
            StopReason::Ordered => "stop ordered",
            StopReason::Restart => "restart ordered",
            StopReason::Unused => "not in use",
            StopReason::Removed => "removed",
        }
    }

    fn next(self) -> &'static str {
        match self {
            StopReason::Ordered => "stays stopped until it is started or called",
            StopReason::Restart => "starts again now",
            StopReason::Unused => "starts again with the next call",
            StopReason::Removed => "none",
        }
    }
}

impl Instance {
    /// A connection stands. The first one of an eager server is expected, and `tsugi serve` prints it with more detail,
    /// so it is a line for debugging only.
    pub(super) fn log_connected(&self, connection: &ServerConnection, failures: u32) {
        let server = &self.context.server;
        let (pid, transport) = (connection.job().map(|job| job.pid()), self.status.transport());
        let version = connection.identity().version;
        *self.reported.lock() = ReportedTrouble::None;
        // Later connections of the same server are news, and so are those that a call or an operator caused.
        let is_expected = self.attempts() == 1 && self.config.start == StartPolicy::Eager;
        if is_expected || self.is_of_caller() {
            tracing::debug!(target: LIFECYCLE, %server, pid, transport, %version, "the server is connected");
        } else {
            tracing::info!(target: LIFECYCLE, %server, pid, transport, %version, failures, "the server is connected");
        }
    }

    /// A connection that stood is gone, and not by order.
    pub(super) fn log_lost(&self, fault: &Fault, plan: Option<&RetryPlan>) {
        let (server, reason, next) = (&self.context.server, &fault.message, self.next_step(fault, plan));
        match &fault.process {
            _ if self.is_of_caller() => tracing::debug!(target: LIFECYCLE, %server, reason, "a caller's session ended"),
            // The exit status and the last line of output answer most questions.
            Some(process) => {
                let (status, said) = (&process.status, process.stderr.last());
                tracing::error!(target: LIFECYCLE, %server, reason, status, said, next, "the server died");
            }
            None => tracing::error!(target: LIFECYCLE, %server, reason, next, "the connection to the server was lost"),
        }
    }

    /// An attempt failed. The first failure is reported, and when the server counts as down; between the two, and from
    /// then on, a line per attempt would only fill the log.
    pub(super) fn log_failed_attempt(&self, fault: &Fault, plan: Option<&RetryPlan>, failures: u32) {
        let (server, reason, next) = (&self.context.server, &fault.message, self.next_step(fault, plan));
        let status = fault.process.as_ref().map(|process| &process.status);
        let hint = fault.hint.as_deref();
        let cause = fault.diagnosis.as_ref().map(|diagnosis| diagnosis.cause);
        let said = fault.diagnosis.as_ref().and_then(|diagnosis| diagnosis.quotation.as_deref());
        let is_down = plan.is_none_or(|plan| plan.is_down);
        let trouble = if is_down { ReportedTrouble::Down } else { ReportedTrouble::Failing };
        let is_news = {
            let mut reported = self.reported.lock();
            let is_news = trouble > *reported;
            *reported = trouble.max(*reported);
            is_news
        };
        if !is_news || self.is_of_caller() {
            tracing::debug!(target: LIFECYCLE, %server, reason, cause, status, failures, next, "the server is not connected");
        } else if plan.is_none() {
            tracing::error!(target: LIFECYCLE, %server, reason, cause, said, status, hint, next, "the server is not connected");
        } else {
            tracing::warn!(target: LIFECYCLE, %server, reason, cause, said, status, hint, next, "the server is not connected");
        }
    }

    /// An operator started or restarted it while it was not connected.
    pub(super) fn log_ordered_start(&self) {
        tracing::info!(target: LIFECYCLE, server = %self.context.server, "the server is started by order");
    }

    /// It was stopped on purpose; `connection` is the one that was closed.
    pub(super) fn log_stopped(&self, reason: StopReason, connection: Option<&ServerConnection>) {
        // A stop of what is stopped is not a change.
        if connection.is_none() && self.status.state() == ConnectionState::Disconnected {
            return;
        }
        let server = &self.context.server;
        let next = match reason {
            // Calls to a held server fail: they do not start it.
            StopReason::Ordered if self.layers.is_held.load(Ordering::Relaxed) => "stays stopped until it is started",
            reason => reason.next(),
        };
        let job = connection.and_then(|connection| connection.job());
        // The process was waited for, so its end is known by now.
        let status = job.and_then(|job| job.exited().now_or_never()).map(|report| end_in_words(&report));
        let reason = reason.as_str();
        if self.is_of_caller() {
            tracing::debug!(target: LIFECYCLE, %server, reason, "a caller's session was closed");
        } else if self.is_shutting_down.load(Ordering::Relaxed) {
            tracing::debug!(target: LIFECYCLE, %server, status, "the server was stopped with its manager");
        } else {
            tracing::info!(target: LIFECYCLE, %server, reason, status, next, "the server was stopped");
        }
    }

    /// Sessions for single callers come and go, and callers do without them: not an operator's business.
    fn is_of_caller(&self) -> bool {
        matches!(self.role, InstanceRole::CallerSession(_))
    }

    fn next_step(&self, fault: &Fault, plan: Option<&RetryPlan>) -> String {
        let is_unsigned = fault.code == FaultCode::AuthRequired;
        match plan {
            Some(plan) if plan.is_down => {
                let (wait, wake) = (in_words(plan.wait), in_words(plan.wake_after));
                format!("tried again in {wait}, or by a call after {wake}")
            }
            Some(plan) => format!("tried again in {}", in_words(plan.wait)),
            None if is_unsigned => "waits for a sign-in".to_owned(),
            None if self.config.restart == RestartPolicy::Never => "stays down until it is started".to_owned(),
            None => "stays down until it is started or its settings change".to_owned(),
        }
    }
}

fn in_words(time: Duration) -> String {
    match time.as_secs() {
        0..10 => format!("{:.1} s", time.as_secs_f64()),
        10..120 => format!("{} s", time.as_secs()),
        seconds => format!("{} min", seconds / 60),
    }
}

#[cfg(test)]
mod tests;

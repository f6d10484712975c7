//! A session: one stretch of work of one agent, which outlives the process that began it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::fault::{Code, PmFault};
use super::id::{AgentId, ProjectId, SessionId};
use super::time::Moment;
use super::word::words;
use crate::domain::advice::FaultAdvice;

/// A hosted session whose process has not written for this long is taken for disconnected.
pub const HEARTBEAT_LOST_S: i64 = 60;
/// A session that no process hosts is taken for disconnected after this long without a call.
pub const CALL_TTL_S: i64 = 12 * 3600;

words! {
    /// Where a session stands.
    SessionState {
        Active = "active",
        /// Its process is gone or silent; its claims wait.
        Disconnected = "disconnected",
        /// It was ended or resumed.
        Ended = "ended",
        /// It was not resumed in time.
        Expired = "expired",
    }
}

words! {
    /// How a session came to its end, or lost its process.
    EndKind {
        /// The tool `end_session`.
        Tool = "tool",
        Eof = "eof",
        /// A signal, or the parent went away.
        Signal = "signal",
        /// It was not resumed in time.
        Expired = "expired",
        /// A person ended it.
        Admin = "admin",
        /// Another session took over.
        Resumed = "resumed",
    }
}

words! {
    /// Which generation of the protocol the client speaks.
    Era {
        Legacy = "legacy",
        Modern = "modern",
    }
}

/// The process that hosts a session, when one does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionHost {
    pub host: String,
    pub pid: i64,
    /// Random, so that a reused process id is not mistaken for this process.
    pub process_nonce: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentSession {
    pub id: SessionId,
    pub agent_id: AgentId,
    /// The project it was begun for, if any.
    pub project_id: Option<ProjectId>,
    pub state: SessionState,
    /// Which generation of the protocol its client speaks.
    pub era: Era,
    pub client_name: Option<String>,
    pub client_version: Option<String>,
    /// What the client said about itself.
    pub client_note: Option<String>,
    /// The machine, when a process hosts it.
    pub host: Option<String>,
    /// The process, when one hosts it.
    pub pid: Option<i64>,
    /// That process's random mark.
    pub process_nonce: Option<String>,
    pub started_at: Moment,
    /// The last call that carried it, to within a few seconds. Not versioned.
    pub last_activity_at: Moment,
    /// The last sign of life of its process. Not versioned.
    pub heartbeat_at: Option<Moment>,
    /// Since when its process is gone.
    pub disconnected_at: Option<Moment>,
    pub ended_at: Option<Moment>,
    /// How it ended or lost its process.
    pub end_kind: Option<EndKind>,
    /// What it said in the end.
    pub summary: Option<String>,
    /// The session it took over from.
    pub resumes: Option<SessionId>,
    /// What `end_session` answered, so that asking twice gives the same answer.
    pub end_result: Option<Value>,
    /// Grows by one with each change.
    pub version: i64,
}

/// What can happen to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LifeSignal {
    /// A call carries it.
    Call,
    /// Its process is gone or silent.
    Disconnect,
    End,
    /// A new session takes over.
    Resume,
    /// The grace period is over.
    GraceOver,
}

impl AgentSession {
    /// Whether a process hosts it.
    pub fn is_hosted(&self) -> bool {
        self.process_nonce.is_some()
    }

    /// Whether it has come to its end, from which nothing wakes it.
    pub fn is_over(&self) -> bool {
        matches!(self.state, SessionState::Ended | SessionState::Expired)
    }

    /// The session in the hands of a process, or of none.
    #[must_use]
    pub fn hosted_by(self, host: Option<&SessionHost>, now: Moment) -> Self {
        Self {
            host: host.map(|one| one.host.clone()),
            pid: host.map(|one| one.pid),
            // A pid is used again after a while; the nonce is not.
            process_nonce: host.map(|one| one.process_nonce.clone()),
            heartbeat_at: host.map(|_| now),
            ..self
        }
    }

    /// Whether it has been silent for so long that it counts as disconnected.
    pub fn is_silent(&self, now: Moment) -> bool {
        match self.heartbeat_at.filter(|_| self.is_hosted()) {
            // A hosted session lives by its process, even through hours without a call.
            Some(heartbeat_at) => heartbeat_at.plus_seconds(HEARTBEAT_LOST_S) <= now,
            None => self.last_activity_at.plus_seconds(CALL_TTL_S) <= now,
        }
    }

    /// Whether its claims have waited long enough.
    pub fn is_grace_over(&self, grace_s: i64, now: Moment) -> bool {
        self.state == SessionState::Disconnected
            && self.disconnected_at.is_some_and(|since| since.plus_seconds(grace_s) <= now)
    }
}

/// The state after a signal, or why it is too late.
pub fn next(state: SessionState, signal: LifeSignal) -> Result<SessionState, PmFault> {
    use SessionState as State;
    match (state, signal) {
        // A call proves that the agent is there, whatever was assumed of its process.
        (State::Active | State::Disconnected, LifeSignal::Call) => Ok(State::Active),
        (State::Active | State::Disconnected, LifeSignal::Disconnect) => Ok(State::Disconnected),
        (State::Active | State::Disconnected, LifeSignal::End | LifeSignal::Resume) => Ok(State::Ended),
        // It came back before the sweep got to it.
        (State::Active, LifeSignal::GraceOver) => Ok(State::Active),
        (State::Disconnected, LifeSignal::GraceOver) => Ok(State::Expired),
        (State::Ended | State::Expired, _) => Err(PmFault::new(Code::SessionEnded, format!("the session is {state}"))
            .advise(FaultAdvice::BeginAnotherSession)
            .with("state", state)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_session_machine_is_this_table() {
        use SessionState::{Active, Disconnected, Ended, Expired};
        let table = [
            (Active, [Some(Active), Some(Disconnected), Some(Ended), Some(Ended), Some(Active)]),
            (Disconnected, [Some(Active), Some(Disconnected), Some(Ended), Some(Ended), Some(Expired)]),
            (Ended, [None; 5]),
            (Expired, [None; 5]),
        ];
        let signals =
            [LifeSignal::Call, LifeSignal::Disconnect, LifeSignal::End, LifeSignal::Resume, LifeSignal::GraceOver];
        for (state, row) in table {
            for (signal, expected) in signals.into_iter().zip(row) {
                assert_eq!(next(state, signal).ok(), expected, "{state} + {signal:?}");
            }
        }
    }
}

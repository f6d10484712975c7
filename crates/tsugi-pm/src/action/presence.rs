//! A session and the process behind it: signs of life, a goodbye, and making room for another session.

use serde::{Deserialize, Serialize};

use super::action_context::ActionContext;
use super::{Action, ActionEffect};
use crate::domain::fault::PmFault;
use crate::domain::id::SessionId;
use crate::domain::session::{self, AgentSession, EndKind, LifeSignal, SessionState};
use crate::store::tx::what;

/// The process that hosts sessions is alive; renews no lease, since a hung agent's pipe stays open too.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProcessHeartbeat {
    /// The process's random mark.
    pub process_nonce: String,
}

impl Action for ProcessHeartbeat {
    const NAME: &'static str = "process_heartbeat";
    const EFFECT: ActionEffect = ActionEffect::Write;
    type ErasedOutput = u64;

    fn run(&self, desk: &mut ActionContext<'_, '_>) -> Result<u64, PmFault> {
        desk.tx.session_heartbeat(&self.process_nonce)
    }
}

/// The process of a session goes away: EOF, a signal, a dead parent. Its claims wait for it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DisconnectSession {
    /// Which session.
    pub session_id: SessionId,
    /// How.
    pub kind: EndKind,
}

impl Action for DisconnectSession {
    const NAME: &'static str = "disconnect_session";
    const EFFECT: ActionEffect = ActionEffect::Write;
    type ErasedOutput = SessionState;

    fn run(&self, desk: &mut ActionContext<'_, '_>) -> Result<SessionState, PmFault> {
        let session = desk.session_mine(&self.session_id)?;
        desk.tx.stamp.session = Some(session.id.clone());
        desk.disconnect(&session, self.kind)
    }
}

impl ActionContext<'_, '_> {
    /// Notes that a session's process is gone; a session that is over stays as it is.
    pub(super) fn disconnect(&mut self, session: &AgentSession, kind: EndKind) -> Result<SessionState, PmFault> {
        let Ok(state) = session::next(session.state, LifeSignal::Disconnect) else { return Ok(session.state) };
        if session.state == state {
            return Ok(state);
        }
        let gone = AgentSession { state, disconnected_at: Some(self.tx.now), end_kind: Some(kind), ..session.clone() };
        self.tx.update(session, gone, what("session.disconnected"))?;
        Ok(state)
    }
}

/// A client goes over to another session: the one it leaves ends if it holds nothing, so that nobody looks busy twice.
/// One that holds something stays, and its tasks with it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LeaveSession {
    /// Which session.
    pub session_id: SessionId,
}

impl Action for LeaveSession {
    const NAME: &'static str = "leave_session";
    const EFFECT: ActionEffect = ActionEffect::Write;
    type ErasedOutput = SessionState;

    fn run(&self, desk: &mut ActionContext<'_, '_>) -> Result<SessionState, PmFault> {
        let session = desk.session_mine(&self.session_id)?;
        let Ok(state) = session::next(session.state, LifeSignal::End) else { return Ok(session.state) };
        if !desk.tx.claim_of_session(&session.id)?.is_empty() {
            return Ok(session.state);
        }
        desk.tx.stamp.session = Some(session.id.clone());
        let ended =
            AgentSession { state, ended_at: Some(desk.tx.now), end_kind: Some(EndKind::Tool), ..session.clone() };
        desk.tx.update(&session, ended, what("session.ended").because(Some("the client began another")))?;
        Ok(state)
    }
}

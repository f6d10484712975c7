//! A session and the process behind it: signs of life, a goodbye, and making room for another session.

use serde::{Deserialize, Serialize};

use super::action_context::ActionContext;
use super::{Action, ActionEffect};
use crate::domain::event::EventKind;
use crate::domain::fault::PmFault;
use crate::domain::id::SessionId;
use crate::domain::session::{self, AgentSession, EndKind, LifeSignal, SessionState};

/// The process that hosts sessions is alive; renews no lease, since a hung agent's pipe stays open too.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProcessHeartbeat {
    /// The process's random mark.
    pub process_nonce: String,
}

impl Action for ProcessHeartbeat {
    const NAME: &'static str = "process_heartbeat";
    const EFFECT: ActionEffect = ActionEffect::Write;
    type Output = u64;

    fn run(&self, context: &mut ActionContext<'_, '_>) -> Result<u64, PmFault> {
        context.tx.session_heartbeat(&self.process_nonce)
    }
}

/// The process of a session goes away: EOF, a signal, a dead parent. Its claims wait for it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DisconnectSession {
    pub session_id: SessionId,
    pub kind: EndKind,
}

impl Action for DisconnectSession {
    const NAME: &'static str = "disconnect_session";
    const EFFECT: ActionEffect = ActionEffect::Write;
    type Output = SessionState;

    fn run(&self, context: &mut ActionContext<'_, '_>) -> Result<SessionState, PmFault> {
        let session = context.session_mine(&self.session_id)?;
        context.tx.stamp.session = Some(session.id.clone());
        disconnect(context, &session, self.kind)
    }
}

/// Notes that a session's process is gone; a session that is over stays as it is.
pub(super) fn disconnect(
    context: &mut ActionContext<'_, '_>,
    session: &AgentSession,
    kind: EndKind,
) -> Result<SessionState, PmFault> {
    let Ok(state) = session::next(session.state, LifeSignal::Disconnect) else { return Ok(session.state) };
    if session.state == state {
        return Ok(state);
    }
    let gone = AgentSession { state, disconnected_at: Some(context.tx.now), end_kind: Some(kind), ..session.clone() };
    context.tx.update(session, gone, EventKind::SessionDisconnected.note())?;
    Ok(state)
}

/// A client goes over to another session: the one it leaves ends if it holds nothing, so that no agent seems active twice.
/// One that holds something stays, and its tasks with it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LeaveSession {
    pub session_id: SessionId,
}

impl Action for LeaveSession {
    const NAME: &'static str = "leave_session";
    const EFFECT: ActionEffect = ActionEffect::Write;
    type Output = SessionState;

    fn run(&self, context: &mut ActionContext<'_, '_>) -> Result<SessionState, PmFault> {
        let session = context.session_mine(&self.session_id)?;
        let Ok(state) = session::next(session.state, LifeSignal::End) else { return Ok(session.state) };
        if !context.tx.claim_of_session(&session.id)?.is_empty() {
            return Ok(session.state);
        }
        context.tx.stamp.session = Some(session.id.clone());
        let ended =
            AgentSession { state, ended_at: Some(context.tx.now), end_kind: Some(EndKind::Tool), ..session.clone() };
        context.tx.update(&session, ended, EventKind::SessionEnded.because(Some("the client began another")))?;
        Ok(state)
    }
}

//! Bringing back what dead agents held. Correctness never waits for this: claims check leases themselves.

use serde::{Deserialize, Serialize};

use super::action_context::ActionContext;
use super::{Action, ActionEffect};
use crate::action::presence::disconnect;
use crate::domain::event::EventKind;
use crate::domain::fault::PmFault;
use crate::domain::id::ProjectId;
use crate::domain::policy::ProjectPolicy;
use crate::domain::session::{self, AgentSession, CALL_TTL_S, EndKind, HEARTBEAT_LOST_S, LifeSignal};
use crate::store::tx::{EventStamp, REMEMBER_S, Tx};

/// How much one sweep does at most, so that it never holds the database for long.
const AT_ONCE: i64 = 100;
/// Looks for what has run out.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SweepExpired {}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweepSummary {
    /// Sessions whose process is gone.
    pub disconnected: u64,
    /// Sessions that were not resumed.
    pub expired_sessions: u64,
    /// Claims that ran out.
    pub expired_claims: u64,
    /// Handoffs that were not accepted.
    pub expired_handoffs: u64,
    /// Remembered answers that were forgotten.
    pub forgotten: u64,
}

impl Action for SweepExpired {
    const NAME: &'static str = "sweep";
    const EFFECT: ActionEffect = ActionEffect::Write;
    type Output = SweepSummary;

    fn run(&self, context: &mut ActionContext<'_, '_>) -> Result<SweepSummary, PmFault> {
        context.tx.stamp = EventStamp::default();
        Ok(SweepSummary {
            disconnected: sweep_silent(context)?,
            expired_sessions: sweep_gone(context)?,
            expired_claims: expire_due(context, None)?,
            expired_handoffs: sweep_handoffs(context)?,
            forgotten: context.tx.idempotency_forget()?,
        })
    }
}

/// Whether a sweep would find something: asked without the write lock.
pub(super) fn is_anything_due(tx: &mut Tx<'_>) -> Result<bool, PmFault> {
    let gone = tx.dialect().is_grace_over();
    let questions = [
        "SELECT 1 FROM claim WHERE state = 'live' AND expires_at <= ?1",
        "SELECT 1 FROM handoff WHERE status = 'pending' AND expires_at <= ?1",
        &format!("SELECT 1 FROM session t WHERE {gone}"),
        "SELECT 1 FROM session WHERE state = 'active' AND ((process_nonce IS NOT NULL AND heartbeat_at <= ?2) \
         OR (process_nonce IS NULL AND last_activity_at <= ?3))",
        "SELECT 1 FROM idempotency WHERE created_at < ?4",
    ];
    let any = questions.map(|question| format!("EXISTS ({question})")).join(" OR ");
    let now = tx.now;
    let values = [
        now.into(),
        now.plus_seconds(-HEARTBEAT_LOST_S).into(),
        now.plus_seconds(-CALL_TTL_S).into(),
        now.plus_seconds(-REMEMBER_S).into(),
    ];
    Ok(tx.number(&format!("SELECT CASE WHEN {any} THEN 1 ELSE 0 END"), &values)? > 0)
}

fn sweep_silent(context: &mut ActionContext<'_, '_>) -> Result<u64, PmFault> {
    let silent = context.tx.session_silent(AT_ONCE)?;
    for session in &silent {
        context.tx.stamp.session = Some(session.id.clone());
        disconnect(context, session, EndKind::Expired)?;
    }
    Ok(silent.len() as u64)
}

fn sweep_gone(context: &mut ActionContext<'_, '_>) -> Result<u64, PmFault> {
    let mut count = 0;
    for session in context.tx.session_gone(AT_ONCE)? {
        context.tx.stamp.session = Some(session.id.clone());
        let graces = expire_waiting(context, &session)?;
        if session.is_grace_over(own_grace(context, &session, &graces)?, context.tx.now) {
            expire_session(context, &session)?;
            count += 1;
        }
    }
    Ok(count)
}

/// How long a session waits to be resumed: as its project says, but at least as long as its claims do.
fn own_grace(context: &mut ActionContext<'_, '_>, session: &AgentSession, graces: &[i64]) -> Result<i64, PmFault> {
    let longest = graces.iter().max().copied();
    match (&session.project_id, longest) {
        (Some(id), longest) => Ok(context.tx.project_get(id)?.policy.resume_grace_s.max(longest.unwrap_or(0))),
        (None, Some(longest)) => Ok(longest),
        (None, None) => Ok(ProjectPolicy::default().resume_grace_s),
    }
}

fn expire_session(context: &mut ActionContext<'_, '_>, session: &AgentSession) -> Result<(), PmFault> {
    let expired = AgentSession {
        state: session::next(session.state, LifeSignal::GraceOver)?,
        ended_at: Some(context.tx.now),
        end_kind: Some(EndKind::Expired),
        ..session.clone()
    };
    context.tx.update(session, expired, EventKind::SessionExpired.note()).map(drop)
}

/// Takes back what a vanished session holds in projects that have waited long enough for it; answers how long each
/// of them waits.
fn expire_waiting(context: &mut ActionContext<'_, '_>, session: &AgentSession) -> Result<Vec<i64>, PmFault> {
    let mut graces = Vec::new();
    for claim in context.tx.claim_of_session(&session.id)? {
        let project = context.tx.project_get(&claim.project_id)?;
        // Each project decides how long its own tasks wait.
        let grace = project.policy.resume_grace_s;
        if session.is_grace_over(grace, context.tx.now) {
            let task = context.tx.task_lock(&claim.task_id)?;
            context.expire_claim(&task, &claim, &project, "the session did not come back")?;
        }
        graces.push(grace);
    }
    Ok(graces)
}

/// Takes back what is held beyond its lease, in some projects or in all, a bounded amount; answers how much.
pub(super) fn expire_due(context: &mut ActionContext<'_, '_>, projects: Option<&[ProjectId]>) -> Result<u64, PmFault> {
    let mut count = 0;
    for seen in context.tx.claim_due(projects, AT_ONCE)? {
        // The task before the claim: the order of every other transaction.
        let task = context.tx.task_lock(&seen.task_id)?;
        // Its holder may have renewed it while we waited for the task.
        let now = context.tx.now;
        if let Some(claim) = context.tx.claim_live(&task.id)?.filter(|claim| claim.is_due(now)) {
            let project = context.tx.project_get(&claim.project_id)?;
            context.expire_claim(&task, &claim, &project, "the lease ran out")?;
            count += 1;
        }
    }
    Ok(count)
}

fn sweep_handoffs(context: &mut ActionContext<'_, '_>) -> Result<u64, PmFault> {
    let mut count = 0;
    for seen in context.tx.handoff_due(AT_ONCE)? {
        let task = context.tx.task_lock(&seen.task_id)?;
        // It may have been answered while we waited for the task's lock.
        let (handoff, now) = (context.tx.handoff_get(&seen.id)?, context.tx.now);
        if handoff.is_due(now) {
            context.expire_handoff(&task, &handoff)?;
            count += 1;
        }
    }
    Ok(count)
}

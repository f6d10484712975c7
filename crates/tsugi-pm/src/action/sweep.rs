//! Bringing back what dead agents held. Correctness never waits for this: claims check leases themselves.

use serde::{Deserialize, Serialize};

use super::desk::Desk;
use super::{Action, Effect};
use crate::domain::fault::Fault;
use crate::domain::handoff::Answer;
use crate::domain::notice::NoticeKind;
use crate::domain::policy::Policy;
use crate::domain::session::{self, CALL_TTL_S, EndKind, HEARTBEAT_LOST_S, Session, Signal};
use crate::store::tx::{Stamp, Tx, what};

/// How much one sweep does at most, so that it never holds the database for long.
const AT_ONCE: i64 = 100;
/// Answers to calls with a key are kept this long.
const REMEMBER_S: i64 = 24 * 3600;

/// Looks for what has run out.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sweep {}

/// What was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Swept {
    /// Sessions whose process is gone.
    pub disconnected: u64,
    /// Sessions that nobody came back for.
    pub expired_sessions: u64,
    /// Claims that ran out.
    pub expired_claims: u64,
    /// Handoffs that nobody took.
    pub expired_handoffs: u64,
    /// Remembered answers that were forgotten.
    pub forgotten: u64,
}

impl Action for Sweep {
    const NAME: &'static str = "sweep";
    const EFFECT: Effect = Effect::Write;
    type Output = Swept;

    fn run(&self, desk: &mut Desk<'_, '_>) -> Result<Swept, Fault> {
        desk.tx.stamp = Stamp::default();
        Ok(Swept {
            disconnected: sweep_silent(desk)?,
            expired_sessions: sweep_gone(desk)?,
            expired_claims: sweep_claims(desk)?,
            expired_handoffs: sweep_handoffs(desk)?,
            forgotten: desk.tx.idempotency_forget(desk.tx.now.plus_seconds(-REMEMBER_S))?,
        })
    }
}

/// Whether a sweep would find something: asked without the write lock.
pub(super) fn is_anything_due(tx: &mut Tx<'_>) -> Result<bool, Fault> {
    let sql = "SELECT (SELECT COUNT(*) FROM (SELECT 1 FROM claim WHERE state = 'live' AND expires_at <= ?1 LIMIT 1) AS a) \
               + (SELECT COUNT(*) FROM (SELECT 1 FROM handoff WHERE status = 'pending' AND expires_at <= ?1 LIMIT 1) AS b) \
               + (SELECT COUNT(*) FROM (SELECT 1 FROM session WHERE state = 'disconnected' AND disconnected_at <= ?1 LIMIT 1) AS c) \
               + (SELECT COUNT(*) FROM (SELECT 1 FROM session WHERE state = 'active' AND ((process_nonce IS NOT NULL \
               AND heartbeat_at <= ?2) OR (process_nonce IS NULL AND last_activity_at <= ?3)) LIMIT 1) AS d)";
    let now = tx.now;
    let values = [now.into(), now.plus_seconds(-HEARTBEAT_LOST_S).into(), now.plus_seconds(-CALL_TTL_S).into()];
    Ok(tx.number(sql, &values)? > 0)
}

fn sweep_silent(desk: &mut Desk<'_, '_>) -> Result<u64, Fault> {
    let silent = desk.tx.session_silent(AT_ONCE)?;
    for session in &silent {
        desk.tx.stamp.session = Some(session.id.clone());
        desk.disconnect(session, EndKind::Expired)?;
    }
    Ok(silent.len() as u64)
}

fn sweep_gone(desk: &mut Desk<'_, '_>) -> Result<u64, Fault> {
    let mut count = 0;
    for session in desk.tx.session_gone(AT_ONCE)? {
        if session.is_grace_over(grace(desk, &session)?, desk.tx.now) {
            expire_session(desk, &session)?;
            count += 1;
        }
    }
    Ok(count)
}

/// How long a session's claims wait for it: as its project says, or the project of what it holds.
fn grace(desk: &mut Desk<'_, '_>, session: &Session) -> Result<i64, Fault> {
    let project = match &session.project_id {
        Some(id) => Some(id.clone()),
        None => desk.tx.claim_of_session(&session.id)?.first().map(|claim| claim.project_id.clone()),
    };
    match project {
        Some(id) => Ok(desk.tx.project_get(&id)?.policy.resume_grace_s),
        None => Ok(Policy::default().resume_grace_s),
    }
}

fn expire_session(desk: &mut Desk<'_, '_>, session: &Session) -> Result<(), Fault> {
    desk.tx.stamp.session = Some(session.id.clone());
    for claim in desk.tx.claim_of_session(&session.id)? {
        let task = desk.tx.task_lock(&claim.task_id)?;
        let project = desk.tx.project_get(&claim.project_id)?;
        desk.expire_claim(&task, &claim, &project, "the session did not come back")?;
    }
    let expired = Session {
        state: session::next(session.state, Signal::GraceOver)?,
        ended_at: Some(desk.tx.now),
        end_kind: Some(EndKind::Expired),
        ..session.clone()
    };
    desk.tx.update(session, expired, what("session.expired")).map(drop)
}

fn sweep_claims(desk: &mut Desk<'_, '_>) -> Result<u64, Fault> {
    let mut count = 0;
    for seen in desk.tx.claim_due(AT_ONCE)? {
        let task = desk.tx.task_lock(&seen.task_id)?;
        // Its holder may have renewed it while we waited for the task.
        let now = desk.tx.now;
        if let Some(claim) = desk.tx.claim_live(&task.id)?.filter(|claim| claim.is_due(now)) {
            let project = desk.tx.project_get(&claim.project_id)?;
            desk.expire_claim(&task, &claim, &project, "the lease ran out")?;
            count += 1;
        }
    }
    Ok(count)
}

fn sweep_handoffs(desk: &mut Desk<'_, '_>) -> Result<u64, Fault> {
    let mut count = 0;
    for seen in desk.tx.handoff_due(AT_ONCE)? {
        let task = desk.tx.task_lock(&seen.task_id)?;
        let handoff = desk.tx.handoff_get(&seen.id)?;
        let Ok(expired) = handoff.answered(Answer::Expire) else { continue };
        desk.tx.stamp = Stamp { session: handoff.from_session_id.clone(), ..Stamp::default() };
        desk.tx.update(&handoff, expired, what("handoff.expired"))?;
        desk.free_for_all(&task, &handoff, "nobody took the handoff in time")?;
        let text = format!("nobody took your handoff of {} in time", task.reference);
        desk.tx.notice_add(&handoff.from_agent_id, NoticeKind::HandoffExpired, handoff.id.as_str(), &text)?;
        count += 1;
    }
    Ok(count)
}

//! Sessions in a transaction.

use super::Tx;
use crate::domain::fault::PmFault;
use crate::domain::id::{AgentId, SessionId};
use crate::domain::session::{AgentSession, CALL_TTL_S, HEARTBEAT_LOST_S};
use crate::domain::time::Moment;

impl Tx<'_> {
    pub(crate) fn session_find(&mut self, id: &SessionId) -> Result<Option<AgentSession>, PmFault> {
        self.find(&[id.as_str().into()])
    }

    pub(crate) fn session_lock(&mut self, id: &SessionId) -> Result<Option<AgentSession>, PmFault> {
        self.find_locked(&[id.as_str().into()])
    }

    /// An agent's active sessions, newest first.
    pub(crate) fn session_active(&mut self, agent: &AgentId) -> Result<Vec<AgentSession>, PmFault> {
        let tail = "WHERE t.agent_id = ?1 AND t.state = 'active' ORDER BY t.started_at DESC, t.id LIMIT 20";
        self.select(tail, &[agent.as_str().into()])
    }

    /// Sessions that are active or wait for their process, newest activity first, after a place in this order.
    pub(crate) fn session_live(
        &mut self,
        after: Option<&(Moment, String)>,
        limit: i64,
    ) -> Result<Vec<AgentSession>, PmFault> {
        let (at, id) = after.map_or((Moment(i64::MAX), ""), |(at, id)| (*at, id));
        let tail = "WHERE t.state IN ('active', 'disconnected') AND (t.last_activity_at < ?2 \
                    OR (t.last_activity_at = ?2 AND t.id > ?3)) ORDER BY t.last_activity_at DESC, t.id LIMIT ?1";
        self.select(tail, &[limit.into(), at.into(), id.into()])
    }

    /// Active sessions that have been silent for too long.
    pub(crate) fn session_silent(&mut self, limit: i64) -> Result<Vec<AgentSession>, PmFault> {
        let tail = format!(
            "WHERE t.state = 'active' AND ((t.process_nonce IS NOT NULL AND t.heartbeat_at <= ?1) \
             OR (t.process_nonce IS NULL AND t.last_activity_at <= ?2)) LIMIT ?3{}",
            self.dialect().skip_locked()
        );
        let heartbeat_limit = self.now.plus_seconds(-HEARTBEAT_LOST_S);
        let call_limit = self.now.plus_seconds(-CALL_TTL_S);
        self.select(&tail, &[heartbeat_limit.into(), call_limit.into(), limit.into()])
    }

    /// Sessions whose grace is over, longest gone first.
    pub(crate) fn session_gone(&mut self, limit: i64) -> Result<Vec<AgentSession>, PmFault> {
        let dialect = self.dialect();
        let (over, lock) = (dialect.is_grace_over(), dialect.skip_locked());
        let tail = format!("WHERE {over} ORDER BY t.disconnected_at LIMIT ?2{lock}");
        let now: Moment = self.now;
        self.select(&tail, &[now.into(), limit.into()])
    }

    /// Writes one sign of life for every active session that a process hosts.
    pub(crate) fn session_heartbeat(&mut self, process_nonce: &str) -> Result<u64, PmFault> {
        let sql = "UPDATE session SET heartbeat_at = ?1 WHERE process_nonce = ?2 AND state = 'active'";
        let now = self.now;
        self.run(sql, &[now.into(), process_nonce.into()])
    }
}

//! What is stored beside the records: notices, and the answers of calls with an idempotency key.

use super::Tx;
use crate::domain::fault::PmFault;
use crate::domain::id::AgentId;
use crate::domain::limit;
use crate::domain::notice::{Notice, NoticeKind};
use crate::store::value::{SqlRow, SqlValue};

/// How often a notice is shown unasked.
const SHOWN_AT_MOST: i64 = 2;

/// Answers to calls with a key are remembered this long.
pub(crate) const REMEMBER_S: i64 = 24 * 3600;

/// The answer of an earlier call with the same key.
#[derive(Clone, Debug)]
pub(crate) struct RememberedAnswer {
    pub(crate) args_hash: String,
    pub(crate) result: String,
}

impl Tx<'_> {
    /// Leaves a notice for an agent, unless the agent is the one acting.
    pub(crate) fn notice_add(
        &mut self,
        agent: &AgentId,
        kind: NoticeKind,
        reference: &str,
        text: &str,
    ) -> Result<(), PmFault> {
        if self.stamp.actor.as_ref() == Some(agent) {
            return Ok(());
        }
        // A reader asks for notices after the last one it saw, so one agent's notices must appear in order.
        self.lock_name(&format!("notice:{agent}"))?;
        let sql =
            "INSERT INTO notice (agent_id, kind, reference, text, shown, created_at) VALUES (?1, ?2, ?3, ?4, 0, ?5)";
        let (text, _) = limit::clip(text, 300);
        let now = self.now;
        let who = SqlValue::from(agent.as_str());
        self.run_later(sql, vec![who, kind.as_str().into(), reference.into(), text.into(), now.into()])
    }

    /// An agent's notices after a cursor, oldest first.
    pub(crate) fn notice_list(&mut self, agent: &AgentId, since: i64, limit: i64) -> Result<Vec<Notice>, PmFault> {
        let sql = "SELECT id, kind, reference, text FROM notice WHERE agent_id = ?1 AND id > ?2 ORDER BY id LIMIT ?3";
        self.rows(sql, &[agent.as_str().into(), since.into(), limit.into()])?.iter().map(notice).collect()
    }

    /// An agent's notices that were not yet shown twice, oldest first.
    pub(crate) fn notice_fresh(&mut self, agent: &AgentId, limit: i64) -> Result<Vec<Notice>, PmFault> {
        let sql = format!(
            "SELECT id, kind, reference, text FROM notice WHERE agent_id = ?1 AND shown < {SHOWN_AT_MOST} ORDER BY id LIMIT ?2"
        );
        self.rows(&sql, &[agent.as_str().into(), limit.into()])?.iter().map(notice).collect()
    }

    /// Counts that a notice was shown.
    pub(crate) fn notice_shown(&mut self, id: i64) -> Result<(), PmFault> {
        self.run("UPDATE notice SET shown = shown + 1 WHERE id = ?1", &[id.into()]).map(drop)
    }

    /// The answer of an earlier call with this key.
    pub(crate) fn idempotency_find(
        &mut self,
        agent: &str,
        tool: &str,
        key: &str,
    ) -> Result<Option<RememberedAnswer>, PmFault> {
        let sql = "SELECT args_hash, result FROM idempotency WHERE agent_id = ?1 AND tool = ?2 AND key = ?3 \
                   AND created_at >= ?4";
        let since = self.now.plus_seconds(-REMEMBER_S);
        let rows = self.rows(sql, &[agent.into(), tool.into(), key.into(), since.into()])?;
        let Some(row) = rows.first() else { return Ok(None) };
        Ok(Some(RememberedAnswer { args_hash: row.text(0)?.to_owned(), result: row.text(1)?.to_owned() }))
    }

    /// Remembers the answer of a call. When another call with the same key was faster, this one runs again and finds it.
    pub(crate) fn idempotency_add(
        &mut self,
        agent: &str,
        tool: &str,
        key: &str,
        answer: &RememberedAnswer,
    ) -> Result<(), PmFault> {
        let sql = "INSERT INTO idempotency (agent_id, tool, key, args_hash, result, created_at) \
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (agent_id, tool, key) DO UPDATE SET \
                   args_hash = excluded.args_hash, result = excluded.result, created_at = excluded.created_at \
                   WHERE idempotency.created_at < ?7";
        let now = self.now;
        let values = [
            agent.into(),
            tool.into(),
            key.into(),
            answer.args_hash.as_str().into(),
            answer.result.as_str().into(),
            now.into(),
            now.plus_seconds(-REMEMBER_S).into(),
        ];
        if self.run(sql, &values)? == 1 { Ok(()) } else { Err(self.overtaken("idempotency key")) }
    }

    /// Forgets answers that were remembered for long enough, a bounded number at a time.
    pub(crate) fn idempotency_forget(&mut self) -> Result<u64, PmFault> {
        let before = self.now.plus_seconds(-REMEMBER_S);
        let sql = "DELETE FROM idempotency WHERE (agent_id, tool, key) IN \
                   (SELECT agent_id, tool, key FROM idempotency WHERE created_at < ?1 LIMIT 100)";
        self.run(sql, &[before.into()])
    }
}

fn notice(row: &SqlRow) -> Result<Notice, PmFault> {
    Ok(Notice {
        id: row.int(0)?,
        kind: row.text(1)?.parse()?,
        reference: row.text(2)?.to_owned(),
        text: row.text(3)?.to_owned(),
    })
}

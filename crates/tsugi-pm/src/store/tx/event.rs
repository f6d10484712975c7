//! The history: appended in the same transaction as the change, read back in order without gaps.

use ring::digest::{SHA256, digest};

use super::{EventNote, SqlQuery, Tx};
use crate::domain::event::{EventKind, FieldChange, HistoryEvent};
use crate::domain::fault::PmFault;
use crate::domain::id::{EventId, ProjectId};
use crate::domain::time::Moment;
use crate::store::dialect::SqlDialect;
use crate::store::table::RecordTable;
use crate::store::value::{SqlRow, SqlValue};

pub(super) const COLUMNS: &str = "seq, id, at, project_id, entity_type, entity_id, type, actor_agent_id, session_id, claim_id, \
                       reason, changes, version_after, prev_hash, hash";
/// How often a reader looks again for a transaction in flight that owns an earlier number, before it answers without it.
const SETTLE_ATTEMPTS: u32 = 20;

/// Up to where a reader has seen the history, and the transaction before which all must have ended to make that final.
#[derive(Clone, Debug)]
pub(crate) struct HistoryHorizon {
    since: i64,
    last: i64,
    transaction: String,
}

/// Which events to read.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventFilter {
    pub(crate) since: i64,
    /// Only events before this number, newest first.
    pub(crate) before: Option<i64>,
    pub(crate) projects: Option<Vec<ProjectId>>,
    pub(crate) entity: Option<String>,
    pub(crate) kinds: Vec<EventKind>,
    pub(crate) limit: i64,
}

impl Tx<'_> {
    /// Appends one event, chained to the last one of the same thing.
    ///
    /// We hold the thing's row by now, so no other transaction can append to its chain, and on PostgreSQL the sequence number
    /// taken here is larger than that of every event that led to the state we changed.
    pub(super) fn event_append(
        &mut self,
        table: &RecordTable,
        entity_id: &str,
        project_id: Option<&ProjectId>,
        version_after: i64,
        note: EventNote<'_>,
        changes: Vec<FieldChange>,
    ) -> Result<(), PmFault> {
        // Each record has its own chain, so that histories can be exported and merged per record.
        let prev_hash = self.event_last_hash(entity_id)?;
        let mut event = HistoryEvent {
            seq: 0,
            id: EventId::mint(Self::bits()),
            at: self.now,
            project_id: project_id.cloned(),
            entity_type: table.entity,
            entity_id: entity_id.to_owned(),
            kind: note.kind,
            actor_agent_id: self.stamp.actor.clone(),
            session_id: self.stamp.session.clone(),
            claim_id: self.stamp.claim.clone(),
            reason: note.reason.map(str::to_owned),
            changes,
            version_after,
            prev_hash,
            hash: String::new(),
        };
        // Over everything but `seq`, which differs from store to store.
        event.hash = hex_digest(event.digest_text().as_bytes());
        self.chains.insert(event.entity_id.clone(), event.hash.clone());
        let SqlQuery { sql, values } = insertion(&event)?;
        self.run_later(sql, values)
    }

    /// The hash of the last event of a thing that we hold.
    fn event_last_hash(&mut self, entity_id: &str) -> Result<String, PmFault> {
        if let Some(hash) = self.chains.get(entity_id) {
            return Ok(hash.clone());
        }
        let query = Self::event_chain_query(entity_id);
        hash_in(&self.rows(&query.sql, &query.values)?)
    }

    /// Asks for the end of a thing's chain of events; [`Tx::event_chain_known`] keeps the answer. Only for a thing that
    /// is held until the transaction ends.
    pub(super) fn event_chain_query(entity_id: &str) -> SqlQuery {
        let last = "SELECT hash FROM event WHERE entity_id = ?1 ORDER BY seq DESC LIMIT 1";
        SqlQuery::new(last, vec![entity_id.into()])
    }

    pub(super) fn event_chain_known(&mut self, entity_id: &str, answer: &[SqlRow]) -> Result<(), PmFault> {
        let hash = hash_in(answer)?;
        self.chains.insert(entity_id.to_owned(), hash);
        Ok(())
    }

    /// Stores an event as it is, giving it the next place in this store; does nothing when it is already here.
    pub(crate) fn event_insert(&mut self, event: &HistoryEvent) -> Result<u64, PmFault> {
        let query = insertion(event)?;
        self.run(&query.sql, &query.values)
    }

    /// Whether an event is already here.
    pub(crate) fn event_exists(&mut self, id: &EventId) -> Result<bool, PmFault> {
        Ok(!self.rows("SELECT 1 FROM event WHERE id = ?1", &[id.as_str().into()])?.is_empty())
    }

    /// The number of the newest event.
    pub(crate) fn event_last_seq(&mut self) -> Result<i64, PmFault> {
        self.number("SELECT seq FROM event ORDER BY seq DESC LIMIT 1", &[])
    }

    /// The number of the newest event that is older than so many milliseconds, which are few.
    pub(crate) fn event_seq_before(&mut self, millis: i64) -> Result<i64, PmFault> {
        let before = Moment(self.now.0 - millis);
        self.number("SELECT seq FROM event WHERE at < ?1 ORDER BY seq DESC LIMIT 1", &[before.into()])
    }

    /// Events after a number, oldest first, with no event missing that could still appear before one of them.
    pub(crate) fn event_list(&mut self, filter: &EventFilter) -> Result<Vec<HistoryEvent>, PmFault> {
        match filter.before {
            // Events that appear later have larger numbers, and a backward read does not wait for them.
            Some(before) => self.event_select(filter, before.saturating_sub(1)),
            // A writer holds the row of the thing, so its events are committed in the order of their numbers.
            None if filter.entity.is_some() => self.event_select(filter, i64::MAX),
            None => {
                let horizon = self.event_settle(filter.since)?;
                self.event_select(filter, horizon)
            }
        }
    }

    /// Events after a number as they are visible now: for a view in which nothing can appear any more.
    pub(crate) fn event_page(&mut self, filter: &EventFilter) -> Result<Vec<HistoryEvent>, PmFault> {
        self.event_select(filter, i64::MAX)
    }

    fn event_select(&mut self, filter: &EventFilter, horizon: i64) -> Result<Vec<HistoryEvent>, PmFault> {
        let (mut condition, mut values) =
            (String::from("seq > ?1 AND seq <= ?2"), vec![filter.since.into(), horizon.into()]);
        if let Some(entity) = &filter.entity {
            values.push(entity.as_str().into());
            condition += &format!(" AND entity_id = ?{}", values.len());
        }
        if let Some(projects) = &filter.projects {
            condition += &one_of("project_id", projects.iter().map(ProjectId::as_str), &mut values);
        }
        if !filter.kinds.is_empty() {
            condition += &one_of("type", filter.kinds.iter().map(|kind| kind.as_str()), &mut values);
        }
        values.push(filter.limit.into());
        // The index on the number serves both directions.
        let order = if filter.before.is_some() { "seq DESC" } else { "seq" };
        let sql = format!("SELECT {COLUMNS} FROM event WHERE {condition} ORDER BY {order} LIMIT ?{}", values.len());
        self.rows(&sql, &values)?.iter().map(from_row).collect()
    }

    /// The last events of one thing, newest first.
    pub(crate) fn event_latest(&mut self, entity_id: &str, limit: i64) -> Result<Vec<HistoryEvent>, PmFault> {
        let sql = format!("SELECT {COLUMNS} FROM event WHERE entity_id = ?1 ORDER BY seq DESC LIMIT ?2");
        self.rows(&sql, &[entity_id.into(), limit.into()])?.iter().map(from_row).collect()
    }

    /// The number up to which the history after `since` is complete.
    ///
    /// On SQLite numbers follow the order of commits. On PostgreSQL a number is taken before its transaction commits,
    /// so a hole may still be filled: it is final once every transaction that was running when we saw it has ended.
    /// (The owner of a hole got its transaction id before its number, so it is below the `xmax` we saw.)
    fn event_settle(&mut self, since: i64) -> Result<i64, PmFault> {
        if self.dialect() == SqlDialect::Sqlite {
            return Ok(i64::MAX);
        }
        let seen = "SELECT COALESCE(MAX(seq), ?1), COUNT(*), CAST(pg_snapshot_xmax(pg_current_snapshot()) AS text) \
                    FROM (SELECT seq FROM event WHERE seq > ?1 ORDER BY seq LIMIT 1000) AS page";
        let rows = self.rows(seen, &[since.into()])?;
        let (last, count, horizon) = (rows[0].int(0)?, rows[0].int(1)?, rows[0].text(2)?.to_owned());
        // No hole among the numbers: nothing can still appear in between.
        if last - since == count {
            return Ok(last);
        }
        let settled = "SELECT CASE WHEN pg_snapshot_xmin(pg_current_snapshot()) >= CAST(CAST(?1 AS text) AS xid8) \
                       THEN CAST(1 AS bigint) ELSE CAST(0 AS bigint) END";
        // A later attempt waits for what the first one saw: new transactions begin all the time.
        let earlier = self.attempt.horizon.take().filter(|earlier| earlier.since == since);
        let horizon = earlier.unwrap_or(HistoryHorizon { since, last, transaction: horizon });
        if self.number(settled, &[horizon.transaction.as_str().into()])? == 1 {
            return Ok(horizon.last);
        }
        if self.attempt.number >= SETTLE_ATTEMPTS {
            return self.event_before_hole(since);
        }
        self.attempt.horizon = Some(horizon);
        Err(self.overtaken("history"))
    }

    fn event_before_hole(&mut self, since: i64) -> Result<i64, PmFault> {
        let sql = "SELECT COALESCE(MAX(seq), ?1) FROM (SELECT seq, ROW_NUMBER() OVER (ORDER BY seq) AS place FROM \
                   (SELECT seq FROM event WHERE seq > ?1 ORDER BY seq LIMIT 1000) AS page) AS numbered WHERE seq = ?1 + place";
        self.number(sql, &[since.into()])
    }
}

fn insertion(event: &HistoryEvent) -> Result<SqlQuery, PmFault> {
    let sql = "INSERT INTO event (id, at, project_id, entity_type, entity_id, type, actor_agent_id, session_id, \
               claim_id, reason, changes, version_after, prev_hash, hash) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)";
    let changes = serde_json::to_string(&event.changes).map_err(|error| PmFault::internal(error.to_string()))?;
    let values = vec![
        event.id.as_str().into(),
        event.at.into(),
        event.project_id.as_ref().map(ProjectId::as_str).into(),
        event.entity_type.as_str().into(),
        event.entity_id.as_str().into(),
        event.kind.as_str().into(),
        event.actor_agent_id.as_ref().map(|id| id.as_str()).into(),
        event.session_id.as_ref().map(|id| id.as_str()).into(),
        event.claim_id.as_ref().map(|id| id.as_str()).into(),
        event.reason.as_deref().into(),
        changes.into(),
        event.version_after.into(),
        event.prev_hash.as_str().into(),
        event.hash.as_str().into(),
    ];
    Ok(SqlQuery::new(sql, values))
}

/// The hash that an answer to [`Tx::event_chain_query`] holds; none for a thing without a history.
fn hash_in(answer: &[SqlRow]) -> Result<String, PmFault> {
    answer.first().map_or(Ok(""), |row| row.text(0)).map(str::to_owned)
}

/// ` AND column IN (…)`, adding the values.
pub(super) fn one_of<'a>(column: &str, items: impl Iterator<Item = &'a str>, values: &mut Vec<SqlValue>) -> String {
    let marks: Vec<String> = items
        .map(|item| {
            values.push(item.into());
            format!("?{}", values.len())
        })
        .collect();
    if marks.is_empty() { " AND 1 = 0".to_owned() } else { format!(" AND {column} IN ({})", marks.join(", ")) }
}

/// The SHA-256 of bytes, in hexadecimal.
pub(crate) fn hex_digest(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = |byte: &u8| [byte >> 4, byte & 15].map(|digit| char::from(DIGITS[usize::from(digit)]));
    digest(&SHA256, bytes).as_ref().iter().flat_map(digits).collect()
}

pub(super) fn from_row(row: &SqlRow) -> Result<HistoryEvent, PmFault> {
    let optional = |at: usize| match &row.0[at] {
        SqlValue::Text(text) => Some(text.clone()),
        _ => None,
    };
    Ok(HistoryEvent {
        seq: row.int(0)?,
        id: EventId::parse(row.text(1)?)?,
        at: Moment(row.int(2)?),
        project_id: optional(3).map(TryInto::try_into).transpose()?,
        entity_type: row.text(4)?.parse()?,
        entity_id: row.text(5)?.to_owned(),
        kind: row.text(6)?.parse()?,
        actor_agent_id: optional(7).map(TryInto::try_into).transpose()?,
        session_id: optional(8).map(TryInto::try_into).transpose()?,
        claim_id: optional(9).map(TryInto::try_into).transpose()?,
        reason: optional(10),
        changes: serde_json::from_str(row.text(11)?)
            .map_err(|error| PmFault::internal(format!("bad event: {error}")))?,
        version_after: row.int(12)?,
        prev_hash: row.text(13)?.to_owned(),
        hash: row.text(14)?.to_owned(),
    })
}

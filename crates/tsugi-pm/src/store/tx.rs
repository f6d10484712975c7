//! One transaction as the use-cases see it: records go in and out by noun, and no change leaves without its event.
//!
//! The use-cases are written once, synchronously, against this type. SQLite runs them on its writer thread, PostgreSQL
//! on a blocking thread; only [`SqlTransaction`] below differs. Rows are the same in both engines (numbers and texts, JSON as
//! text), so the SQL is written once too, with the few differences in [`SqlDialect`].
//!
//! Why two runs of one rule cannot disagree on PostgreSQL, which has many writers at READ COMMITTED:
//! the row lock of a task guards the task, its claims, its handoffs and its dependencies (`task_lock`); the row lock of
//! a session guards the session and the number of its claims; locks are taken session first, then tasks by id. And
//! whatever was read without a lock is written with `WHERE version = …`: a miss runs the whole transaction again.

mod agent;
mod board;
mod claim;
mod event;
mod export;
mod handoff;
mod idempotency;
mod membership;
mod name;
mod project;
mod search;
mod session;
mod task;
mod token;

use std::collections::HashMap;

use serde_json::{Map, Value as Json};

pub(crate) use board::{BoardFilter, TimelineFilter, WaitingTask};
pub(crate) use event::{EventFilter, HistoryHorizon, hex_digest};
pub(crate) use idempotency::{REMEMBER_S, RememberedAnswer};
pub(crate) use search::{SearchFilter, SearchHit};
pub(crate) use task::{ReadyPick, TaskFilter};

use super::dialect::SqlDialect;
use super::table::{RecordTable, TableRecord, key_condition};
use super::value::{SqlRow, SqlValue};
use crate::domain::event::{EventKind, FieldChange, changes};
use crate::domain::fault::{Code, PmFault};
use crate::domain::id::{AgentId, ClaimId, SessionId};
use crate::domain::time::Moment;

/// A statement with its values.
#[derive(Clone, Debug)]
pub(crate) struct SqlQuery {
    pub(crate) sql: String,
    pub(crate) values: Vec<SqlValue>,
}

impl SqlQuery {
    pub(crate) fn new(sql: impl Into<String>, values: Vec<SqlValue>) -> Self {
        Self { sql: sql.into(), values }
    }
}

/// What a change must have done when it is over.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ExpectedChange {
    Any,
    /// Changed one row of this table; none means that another transaction was faster.
    One(&'static str),
}

impl ExpectedChange {
    /// The fault of a transaction that another overtook, if this many changed rows mean that.
    pub(crate) fn is_met(self, changed: u64) -> Result<(), PmFault> {
        match self {
            Self::One(table) if changed != 1 => Err(changed_by_another(table)),
            Self::Any | Self::One(_) => Ok(()),
        }
    }
}

/// What an engine must do: run statements of the open transaction.
pub(crate) trait SqlTransaction {
    fn dialect(&self) -> SqlDialect;

    /// Runs a statement; answers how many rows it changed.
    fn run(&mut self, sql: &str, values: &[SqlValue]) -> Result<u64, PmFault>;

    /// Runs a query; answers all its rows.
    fn rows(&mut self, sql: &str, values: &[SqlValue]) -> Result<Vec<SqlRow>, PmFault>;

    /// Runs a statement before the next question or the end of the transaction, whichever comes first; that may be where
    /// its fault is heard.
    fn run_later(&mut self, query: SqlQuery, expected: ExpectedChange) -> Result<(), PmFault> {
        let changed = self.run(&query.sql, &query.values)?;
        expected.is_met(changed)
    }

    /// Runs queries one after the other; where the way to the database is long, in one trip.
    fn rows_many(&mut self, queries: Vec<SqlQuery>) -> Result<Vec<Vec<SqlRow>>, PmFault> {
        queries.iter().map(|query| self.rows(&query.sql, &query.values)).collect()
    }

    /// Marks the transaction as overtaken by another: it is undone and run again.
    fn overtaken(&mut self);
}

/// Who stands behind the changes of a transaction; written on every event.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventStamp {
    pub(crate) actor: Option<AgentId>,
    pub(crate) session: Option<SessionId>,
    pub(crate) claim: Option<ClaimId>,
}

/// What happened and why, for the history.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventNote<'a> {
    pub(crate) kind: EventKind,
    pub(crate) reason: Option<&'a str>,
}

impl EventKind {
    pub(crate) const fn note(self) -> EventNote<'static> {
        EventNote { kind: self, reason: None }
    }

    pub(crate) const fn because(self, reason: Option<&str>) -> EventNote<'_> {
        EventNote { kind: self, reason }
    }
}

/// What a transaction that runs again remembers of its earlier attempts. Waiting happens between attempts: one that
/// slept would hold a connection and its locks while it does.
#[derive(Clone, Debug, Default)]
pub(crate) struct TxAttempt {
    /// How often it was run before.
    pub(crate) number: u32,
    pub(crate) horizon: Option<HistoryHorizon>,
}

pub(crate) struct Tx<'c> {
    pub(crate) attempt: TxAttempt,
    sql: &'c mut dyn SqlTransaction,
    pub(crate) now: Moment,
    /// How far that is ahead of the clock, which must have jumped back.
    pub(crate) ahead_ms: i64,
    pub(crate) stamp: EventStamp,
    has_events: bool,
    is_kept: bool,
    is_changed: bool,
    /// The newest event's hash of things that this transaction holds, by their id.
    chains: HashMap<String, String>,
}

impl<'c> Tx<'c> {
    /// Opens the use-cases' view of a transaction that has begun at `clock`, which counts as `now`.
    pub(crate) fn new(sql: &'c mut dyn SqlTransaction, now: Moment, clock: Moment, attempt: TxAttempt) -> Self {
        Self {
            attempt,
            sql,
            now,
            ahead_ms: now.0 - clock.0,
            stamp: EventStamp::default(),
            has_events: false,
            is_kept: false,
            is_changed: false,
            chains: HashMap::new(),
        }
    }

    pub(crate) fn dialect(&self) -> SqlDialect {
        self.sql.dialect()
    }

    pub(crate) fn has_events(&self) -> bool {
        self.has_events
    }

    /// Whether something was kept that must be committed even though the use-case failed.
    pub(crate) fn is_kept(&self) -> bool {
        self.is_kept
    }

    /// Whether something happened that would be undone if the use-case failed now.
    pub(crate) fn is_changed(&self) -> bool {
        self.is_changed
    }

    /// Keeps what was done so far, even if the use-case fails afterwards.
    ///
    /// A lease found to be over is ended and stays ended, although the call that found it is refused. A use-case that
    /// has changed something by itself must not do this: it is one whole, and would be undone only in half.
    pub(crate) fn keep(&mut self) -> Result<(), PmFault> {
        // A refusal rolls back to here and commits the rest.
        self.run("SAVEPOINT kept", &[])?;
        (self.is_kept, self.is_changed) = (true, false);
        Ok(())
    }

    pub(crate) fn run(&mut self, sql: &str, values: &[SqlValue]) -> Result<u64, PmFault> {
        self.sql.run(sql, values)
    }

    pub(crate) fn rows(&mut self, sql: &str, values: &[SqlValue]) -> Result<Vec<SqlRow>, PmFault> {
        self.sql.rows(sql, values)
    }

    /// Several questions at once; see [`SqlTransaction::rows_many`].
    pub(crate) fn rows_many(&mut self, queries: Vec<SqlQuery>) -> Result<Vec<Vec<SqlRow>>, PmFault> {
        self.sql.rows_many(queries)
    }

    /// A change whose effect is not needed at once; see [`SqlTransaction::run_later`].
    pub(crate) fn run_later(&mut self, sql: impl Into<String>, values: Vec<SqlValue>) -> Result<(), PmFault> {
        self.sql.run_later(SqlQuery::new(sql, values), ExpectedChange::Any)
    }

    /// Waits until no other transaction holds this name. SQLite has one writer, so it never waits.
    pub(crate) fn lock_name(&mut self, name: &str) -> Result<(), PmFault> {
        if self.dialect() == SqlDialect::Postgres {
            self.rows("SELECT pg_advisory_xact_lock(hashtextextended(?1, 0))", &[name.into()])?;
        }
        Ok(())
    }

    /// Random bits for a new id.
    pub(crate) fn bits() -> u128 {
        rand::random()
    }

    /// The record with this key.
    pub(crate) fn find<R: TableRecord>(&mut self, key: &[SqlValue]) -> Result<Option<R>, PmFault> {
        self.find_with(key, "")
    }

    /// The record with this key, kept from others until the transaction ends.
    pub(crate) fn find_locked<R: TableRecord>(&mut self, key: &[SqlValue]) -> Result<Option<R>, PmFault> {
        // SQLite has one writer and needs none.
        let lock = self.dialect().for_update();
        self.find_with(key, lock)
    }

    pub(crate) fn find_with<R: TableRecord>(&mut self, key: &[SqlValue], lock: &str) -> Result<Option<R>, PmFault> {
        let sql = format!("{}{lock}", R::statements().find);
        self.rows(&sql, key)?.first().map(R::from_row).transpose()
    }

    /// All records that a query's tail selects; the tail begins after `FROM table t`.
    pub(crate) fn select<R: TableRecord>(&mut self, tail: &str, values: &[SqlValue]) -> Result<Vec<R>, PmFault> {
        let sql = format!("{} {tail}", R::statements().select);
        records(&self.rows(&sql, values)?)
    }

    /// The question that [`Tx::select`] asks, to be asked together with others; [`records`] reads the answer.
    pub(crate) fn select_query<R: TableRecord>(tail: &str, values: Vec<SqlValue>) -> SqlQuery {
        SqlQuery::new(format!("{} {tail}", R::statements().select), values)
    }

    pub(crate) fn select_one<R: TableRecord>(&mut self, tail: &str, values: &[SqlValue]) -> Result<Option<R>, PmFault> {
        Ok(self.select(tail, values)?.into_iter().next())
    }

    pub(crate) fn number(&mut self, sql: &str, values: &[SqlValue]) -> Result<i64, PmFault> {
        self.rows(sql, values)?.first().map_or(Ok(0), |row| row.int(0))
    }

    /// Stores a new record and its event.
    pub(crate) fn insert<R: TableRecord>(&mut self, record: &R, note: EventNote<'_>) -> Result<(), PmFault> {
        let table = R::TABLE;
        let fields = record.to_fields()?;
        self.run_later(R::statements().insert.as_str(), table.values(&fields))?;
        if table.has_minted_key() {
            // The id was made in this transaction, so it has no history yet.
            self.chains.insert(table.entity_id(&fields), String::new());
        }
        let changes = changes(table.versioned(), &Map::new(), &fields);
        self.append(&table, &fields, record, note, changes)
    }

    /// Stores fields as a row, with no event: for `import`.
    pub(crate) fn insert_fields(&mut self, table: &RecordTable, fields: &Map<String, Json>) -> Result<u64, PmFault> {
        self.run(&table.insert(), &table.values(fields))
    }

    /// Stores a changed record, one version later, and its event. Unchanged records leave no trace.
    pub(crate) fn update<R: TableRecord>(
        &mut self,
        before: &R,
        mut after: R,
        note: EventNote<'_>,
    ) -> Result<R, PmFault> {
        let table = R::TABLE;
        let old = before.to_fields()?;
        // Writing the same again would only make a version that says nothing.
        if !table.differs(&old, &after.to_fields()?) {
            return Ok(after);
        }
        // After the comparison: the mark itself is a difference.
        after.mark(before.version() + 1, self.now);
        let new = after.to_fields()?;
        self.write_changed(&table, &old, &new)?;
        let changes = changes(table.versioned(), &old, &new);
        self.append(&table, &new, &after, note, changes)?;
        Ok(after)
    }

    /// Stores counters and signs of life, which are not history.
    pub(crate) fn touch<R: TableRecord>(&mut self, before: &R, after: &R) -> Result<(), PmFault> {
        let table = R::TABLE;
        let (old, new) = (before.to_fields()?, after.to_fields()?);
        // A versioned field that changes without an event could not be rebuilt.
        debug_assert!(!table.differs(&old, &new), "a touch must not change history");
        self.write_changed(&table, &old, &new)
    }

    /// Removes a record; its history stays.
    pub(crate) fn remove<R: TableRecord>(&mut self, record: &R, note: EventNote<'_>) -> Result<(), PmFault> {
        let table = R::TABLE;
        let fields = record.to_fields()?;
        // The row goes, its events stay.
        let sql = format!("DELETE FROM {} WHERE {}", table.name, key_condition(&table, 1));
        self.run_later(sql, key_values(&table, &fields))?;
        let changes = changes(table.versioned(), &fields, &Map::new());
        self.append(&table, &fields, record, note, changes)
    }

    /// Writes something into a record's history that changed none of its fields.
    pub(crate) fn remark<R: TableRecord>(&mut self, record: &R, note: EventNote<'_>) -> Result<(), PmFault> {
        let fields = record.to_fields()?;
        self.append(&R::TABLE, &fields, record, note, Vec::new())
    }

    fn write_changed(
        &mut self,
        table: &RecordTable,
        old: &Map<String, Json>,
        new: &Map<String, Json>,
    ) -> Result<(), PmFault> {
        let changed: Vec<_> =
            table.columns.iter().filter(|column| old.get(column.name) != new.get(column.name)).collect();
        if changed.is_empty() {
            return Ok(());
        }
        let set: Vec<String> = changed.iter().zip(1..).map(|(column, at)| format!("{} = ?{at}", column.name)).collect();
        let mut values: Vec<SqlValue> = changed.iter().map(|column| table.value(column, &new[column.name])).collect();
        // Only changed columns are written, so that unchanged indexes are not touched.
        let condition = key_condition(table, values.len() + 1);
        values.extend(key_values(table, old));
        // The version in the condition detects a transaction that was faster.
        values.push(SqlValue::Int(old["version"].as_i64().unwrap_or(0)));
        let version_at = values.len();
        let sql = format!("UPDATE {} SET {} WHERE {condition} AND version = ?{version_at}", table.name, set.join(", "));
        self.sql.run_later(SqlQuery::new(sql, values), ExpectedChange::One(table.name))
    }

    /// The fault of a transaction that another overtook; the engine runs it again.
    pub(crate) fn overtaken(&mut self, what: &str) -> PmFault {
        self.sql.overtaken();
        changed_by_another(what)
    }

    fn append<R: TableRecord>(
        &mut self,
        table: &RecordTable,
        fields: &Map<String, Json>,
        record: &R,
        note: EventNote<'_>,
        changes: Vec<FieldChange>,
    ) -> Result<(), PmFault> {
        // Events wake subscribers after the commit.
        (self.has_events, self.is_changed) = (true, true);
        self.event_append(table, &table.entity_id(fields), record.project(), record.version(), note, changes)
    }
}

/// The records that rows of [`Tx::select_query`] hold.
pub(crate) fn records<R: TableRecord>(rows: &[SqlRow]) -> Result<Vec<R>, PmFault> {
    rows.iter().map(R::from_row).collect()
}

fn changed_by_another(what: &str) -> PmFault {
    PmFault::new(Code::Busy, format!("another transaction changed the same {what}"))
}

fn key_values(table: &RecordTable, fields: &Map<String, Json>) -> Vec<SqlValue> {
    table.key.iter().map(|name| fields[*name].as_str().unwrap_or_default().into()).collect()
}

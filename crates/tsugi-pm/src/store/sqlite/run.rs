//! One transaction on one SQLite connection: begin, work, commit or undo, and what SQLite's errors mean.

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, StatementStatus, ToSql, params_from_iter};

use super::SqliteSettings;
use crate::domain::fault::{Code, PmFault};
use crate::domain::time::Moment;
use crate::store::dialect::SqlDialect;
use crate::store::migrate;
use crate::store::tx::{SqlTransaction, Tx, TxAttempt};
use crate::store::value::{SqlRow, SqlValue};
use crate::store::{BoxedResult, TxMode, TxWork};

/// A writer takes the lock at once: a transaction that reads first and writes later can fail with
/// `SQLITE_BUSY_SNAPSHOT`, which no waiting cures.
const fn begin(mode: TxMode) -> &'static str {
    match mode {
        TxMode::Read | TxMode::Snapshot => "BEGIN DEFERRED",
        TxMode::Write => "BEGIN IMMEDIATE",
    }
}

/// Runs a statement that is used often, without parsing its text again.
fn execute(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute(()).map(drop)
}

/// Runs the work; answers its result, and whether events were committed.
pub(super) fn transact(
    connection: &mut Connection,
    setting: &SqliteSettings,
    mode: TxMode,
    work: &TxWork,
) -> (Result<BoxedResult, PmFault>, bool) {
    if setting.known_migrations >= migrate::CLOCKS {
        setting.machine_clock.prepare(connection, mode, &*setting.clock, &setting.ahead);
    }
    if let Err(error) = execute(connection, begin(mode)) {
        return (Err(fault(&error)), false);
    }
    let mut sql = SqliteSql { connection, setting };
    // The lock is ours from here on, so this time is later than that of every committed event.
    let now = setting.clock.now();
    let expected = setting.clock.uptime().and_then(|uptime| setting.machine_clock.expected(&uptime));
    let (result, has_events, is_kept) = match newest(&mut sql) {
        Ok(newest) => {
            let mut tx = Tx::new(&mut sql, setting.ahead.settle(now, newest, expected), now, TxAttempt::default());
            (work(&mut tx), tx.has_events(), tx.is_kept())
        }
        Err(fault) => (Err(fault), false, false),
    };
    // A refused transaction may have ended a lease for good; see `Tx::keep`.
    let is_committed = result.is_ok() || is_kept;
    let ended = match (&result, is_kept) {
        (Ok(_), _) => execute(connection, "COMMIT"),
        (Err(_), true) => execute(connection, "ROLLBACK TO kept").and_then(|()| execute(connection, "COMMIT")),
        (Err(_), false) => execute(connection, "ROLLBACK"),
    };
    match ended {
        Ok(()) => (result, has_events && is_committed),
        Err(error) => {
            let _ = connection.execute_batch("ROLLBACK");
            (result.and(Err(fault(&error))), false)
        }
    }
}

/// The time of the newest event, if the schema is still one that we know.
fn newest(sql: &mut SqliteSql<'_>) -> Result<Option<Moment>, PmFault> {
    const LOOK: &str = "SELECT (SELECT MAX(version) FROM migration), (SELECT at FROM event ORDER BY seq DESC LIMIT 1)";
    let rows = sql.rows(LOOK, &[])?;
    let row = rows.first().ok_or_else(|| PmFault::internal("a look at the newest event answered nothing"))?;
    migrate::check_running(row.int(0).unwrap_or(0), sql.setting.known_migrations)?;
    Ok(row.int(1).ok().map(Moment))
}

struct SqliteSql<'c> {
    connection: &'c Connection,
    setting: &'c SqliteSettings,
}

impl SqlTransaction for SqliteSql<'_> {
    fn dialect(&self) -> SqlDialect {
        SqlDialect::Sqlite
    }

    fn run(&mut self, sql: &str, values: &[SqlValue]) -> Result<u64, PmFault> {
        let mut statement = self.connection.prepare_cached(sql).map_err(|error| fault(&error))?;
        // `RETURNING` makes a change look like a query; ask for rows then.
        let changed = statement.execute(params_from_iter(values)).map_err(|error| fault(&error))?;
        self.count(&statement);
        Ok(changed as u64)
    }

    fn rows(&mut self, sql: &str, values: &[SqlValue]) -> Result<Vec<SqlRow>, PmFault> {
        let mut statement = self.connection.prepare_cached(sql).map_err(|error| fault(&error))?;
        let columns = statement.column_count();
        let found = statement.query_map(params_from_iter(values), |row| {
            (0..columns).map(|at| row.get_ref(at).map(value)).collect::<Result<Vec<_>, _>>().map(SqlRow)
        });
        let rows = found.and_then(Iterator::collect).map_err(|error| fault(&error))?;
        self.count(&statement);
        Ok(rows)
    }

    fn overtaken(&mut self) {
        // There is one writer, so no transaction is ever overtaken. The fault itself is enough.
    }
}

impl SqliteSql<'_> {
    fn count(&self, statement: &rusqlite::Statement<'_>) {
        if let Some(meter) = &self.setting.meter {
            let steps = statement.reset_status(StatementStatus::VmStep);
            meter.add_steps(u64::try_from(steps).unwrap_or(0));
        }
    }
}

impl ToSql for SqlValue {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Int(number) => ValueRef::Integer(*number),
            Self::Real(number) => ValueRef::Real(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
        }))
    }
}

fn value(found: ValueRef<'_>) -> SqlValue {
    match found {
        ValueRef::Integer(number) => SqlValue::Int(number),
        ValueRef::Real(number) => SqlValue::Real(number),
        ValueRef::Text(text) => SqlValue::Text(match std::str::from_utf8(text) {
            Ok(text) => text.to_owned(),
            Err(_) => String::from_utf8_lossy(text).into_owned(),
        }),
        ValueRef::Null | ValueRef::Blob(_) => SqlValue::Null,
    }
}

/// What an error of SQLite means to a caller.
pub(super) fn fault(error: &rusqlite::Error) -> PmFault {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            PmFault::new(Code::Busy, "the database was locked for too long").hint("try again")
        }
        Some(ErrorCode::DiskFull) => PmFault::new(Code::StorageFull, "the disk is full; nothing was changed")
            .hint("free some space and try again"),
        Some(ErrorCode::ReadOnly) => super::read_only(),
        _ => PmFault::internal(format!("sqlite: {error}")),
    }
}

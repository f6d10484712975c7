//! One transaction on one PostgreSQL connection: begin, work, commit or undo, and what PostgreSQL's errors mean.

use std::time::Duration;

use bytes::BytesMut;
use deadpool_postgres::Object;
use tokio::runtime::Handle;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use crate::domain::fault::{Code, Fault};
use crate::domain::time::Moment;
use crate::store::clock::{Ahead, Clock};
use crate::store::dialect::Dialect;
use crate::store::tx::{Sql, Tx};
use crate::store::value::{Row, Value};
use crate::store::{Boxed, Mode, Work};

const fn begin(mode: Mode) -> &'static str {
    match mode {
        Mode::Read => "BEGIN READ ONLY",
        Mode::Snapshot => "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
        Mode::Write => "BEGIN",
    }
}

/// How a transaction went.
pub(super) struct Ended {
    pub(super) result: Result<Boxed, Fault>,
    pub(super) has_events: bool,
    pub(super) is_overtaken: bool,
    pub(super) is_broken: bool,
}

/// The time on the database host.
const CLOCK: &str = "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS bigint)";

/// Runs the work on the calling thread, which must be one that may block.
pub(super) fn transact(
    mut sql: PostgresSql<'_>,
    (clock, ahead): (Option<&dyn Clock>, &Ahead),
    mode: Mode,
    work: &Work,
) -> Ended {
    if let Err(fault) = sql.batch(begin(mode)) {
        return Ended { result: Err(fault), has_events: false, is_overtaken: false, is_broken: true };
    }
    let opened = now(&mut sql, clock).and_then(|now| {
        let mut tx = Tx::new(&mut sql, now, ahead)?;
        Ok((work(&mut tx), tx.has_events(), tx.is_kept()))
    });
    let (result, has_events, is_kept) = opened.unwrap_or_else(|fault| (Err(fault), false, false));
    let end = match (&result, is_kept && !sql.is_overtaken) {
        (Ok(_), _) => "COMMIT",
        (Err(_), true) => "ROLLBACK TO kept; COMMIT",
        (Err(_), false) => "ROLLBACK",
    };
    if sql.is_silent {
        return Ended { result, has_events: false, is_overtaken: false, is_broken: true };
    }
    let ending = sql.batch(end);
    let is_broken = ending.is_err();
    let has_events = has_events && !is_broken && end != "ROLLBACK";
    let result = match ending {
        Ok(()) => result,
        Err(fault) => result.and(Err(unknown_outcome(fault))),
    };
    Ended { has_events, is_overtaken: result.is_err() && sql.is_overtaken, result, is_broken }
}

fn now(sql: &mut PostgresSql<'_>, clock: Option<&dyn Clock>) -> Result<Moment, Fault> {
    match clock {
        Some(clock) => Ok(clock.now()),
        None => sql.rows(CLOCK, &[])?[0].int(0).map(Moment),
    }
}

/// The connection broke while committing: nobody here knows whether the database did it.
fn unknown_outcome(fault: Fault) -> Fault {
    fault.with("outcome", "unknown").hint("repeat the call with the same idempotency_key")
}

/// A connection during one transaction.
pub(super) struct PostgresSql<'c> {
    client: &'c Object,
    handle: &'c Handle,
    longest_statement: Duration,
    meter: Option<&'c crate::store::Meter>,
    is_overtaken: bool,
    /// The database did not answer; the connection is of no use any more.
    is_silent: bool,
}

impl<'c> PostgresSql<'c> {
    pub(super) fn new(client: &'c Object, handle: &'c Handle, longest_statement: Duration, meter: Option<&'c crate::store::Meter>) -> Self {
        Self { client, handle, longest_statement, meter, is_overtaken: false, is_silent: false }
    }

    fn batch(&mut self, sql: &str) -> Result<(), Fault> {
        let client = self.client;
        self.wait(client.batch_execute(sql))
    }

    /// Waits for an answer, but not for ever.
    fn wait<T>(&mut self, asking: impl Future<Output = Result<T, tokio_postgres::Error>>) -> Result<T, Fault> {
        if let Some(m) = self.meter { m.add_trip(); }
        let longest = self.longest_statement;
        let answered = self.handle.block_on(async { tokio::time::timeout(longest, asking).await });
        match answered {
            Ok(answer) => answer.map_err(|error| self.note(&error)),
            Err(_) => {
                self.is_silent = true;
                Err(Fault::new(Code::Busy, format!("the database has not answered for {longest:?}")).hint("try again"))
            }
        }
    }

    /// Remembers whether the error means "run again", and says what it means otherwise.
    fn note(&mut self, error: &tokio_postgres::Error) -> Fault {
        let retried =
            [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED, SqlState::UNIQUE_VIOLATION];
        if error.code().is_some_and(|code| retried.contains(code)) {
            self.is_overtaken = true;
        }
        fault(error)
    }
}

impl Sql for PostgresSql<'_> {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    fn run(&mut self, sql: &str, values: &[Value]) -> Result<u64, Fault> {
        let text = Dialect::Postgres.translate(sql);
        let (client, parameters) = (self.client, borrow(values));
        self.wait(async {
            let statement = client.prepare_cached(&text).await?;
            client.execute(&statement, &parameters).await
        })
    }

    fn rows(&mut self, sql: &str, values: &[Value]) -> Result<Vec<Row>, Fault> {
        let text = Dialect::Postgres.translate(sql);
        let (client, parameters) = (self.client, borrow(values));
        let rows = self.wait(async {
            let statement = client.prepare_cached(&text).await?;
            client.query(&statement, &parameters).await
        })?;
        rows.iter().map(row).collect()
    }

    fn overtaken(&mut self) {
        self.is_overtaken = true;
    }
}

fn borrow(values: &[Value]) -> Vec<&(dyn ToSql + Sync)> {
    values.iter().map(|value| value as &(dyn ToSql + Sync)).collect()
}

fn row(row: &tokio_postgres::Row) -> Result<Row, Fault> {
    let values = row.columns().iter().enumerate().map(|(at, column)| {
        let found = match *column.type_() {
            Type::INT8 => row.try_get::<_, Option<i64>>(at).map(Value::from),
            Type::INT4 => row.try_get::<_, Option<i32>>(at).map(|number| number.map(i64::from).into()),
            Type::FLOAT8 => row.try_get::<_, Option<f64>>(at).map(|number| number.map_or(Value::Null, Value::Real)),
            Type::TEXT | Type::VARCHAR | Type::NAME => row.try_get::<_, Option<String>>(at).map(Value::from),
            // A function called for its effect answers `void`.
            _ => Ok(Value::Null),
        };
        found.map_err(|error| fault(&error))
    });
    values.collect::<Result<_, _>>().map(Row)
}

impl ToSql for Value {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Int(number) if *kind == Type::INT4 => i32::try_from(*number)?.to_sql(kind, out),
            Self::Int(number) => number.to_sql(kind, out),
            Self::Real(number) => number.to_sql(kind, out),
            Self::Text(text) => text.as_str().to_sql(kind, out),
        }
    }

    fn accepts(_kind: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// What an error of PostgreSQL means to a caller.
pub(super) fn fault(error: &tokio_postgres::Error) -> Fault {
    let Some(code) = error.code() else { return without_code(error) };
    let busy = [
        SqlState::LOCK_NOT_AVAILABLE,
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::TOO_MANY_CONNECTIONS,
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
    ];
    if busy.contains(code) {
        return Fault::new(Code::Busy, "the database was locked for too long").hint("try again");
    }
    if *code == SqlState::DISK_FULL {
        return Fault::new(Code::StorageFull, "the database's disk is full; nothing was changed")
            .hint("free some space");
    }
    if *code == SqlState::READ_ONLY_SQL_TRANSACTION {
        return Fault::new(Code::StorageReadonly, "the database cannot be written").hint("is this a standby?");
    }
    Fault::internal(format!("postgres: {}", with_cause(error)))
}

/// What went wrong before the database could say anything: mostly a wire that was cut.
fn without_code(error: &tokio_postgres::Error) -> Fault {
    let is_cut =
        error.is_closed() || std::error::Error::source(error).is_some_and(|cause| cause.is::<std::io::Error>());
    if is_cut {
        let message = format!("the connection to the database was lost: {}", with_cause(error));
        return Fault::new(Code::Busy, message).hint("try again");
    }
    Fault::internal(format!("postgres: {}", with_cause(error)))
}

fn with_cause(error: &tokio_postgres::Error) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

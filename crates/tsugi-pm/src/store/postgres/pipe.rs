//! Statements on their way to PostgreSQL: what needs no answer yet waits, and goes along with the next question.
//!
//! A round trip costs two processes a wake-up each, which with sixty-four agents on one machine is most of what a claim
//! costs. PostgreSQL takes statements faster than their answers come back, in order, so whatever does not depend on an
//! answer is sent without waiting for one.

use std::time::{Duration, Instant};

use bytes::BytesMut;
use deadpool_postgres::Object;
use futures_util::future::{join, join_all, try_join_all};
use tokio::runtime::Handle;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Error, Statement};

use super::fault::{fault, is_overtaken};
use crate::domain::fault::{Code, PmFault};
use crate::store::StoreMeter;
use crate::store::dialect::SqlDialect;
use crate::store::tx::{ExpectedChange, SqlQuery, SqlTransaction};
use crate::store::value::{SqlRow, SqlValue};

/// How many statements are sent at once. [`join_all`] asks so many in the order in which they stand.
const AT_ONCE: usize = 24;

/// How long a connection waits for one lock unless it is told otherwise; see `SETTINGS` in [`super::open`].
pub(super) const LOCK_WAIT: Duration = Duration::from_millis(5_000);

/// How long one transaction may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct StatementTimeout {
    /// For one answer: a database that is stopped or cut off does not answer, and no call may wait for ever.
    pub(super) longest_answer: Duration,
    /// Until then it may wait for locks.
    pub(super) deadline: Instant,
}

impl StatementTimeout {
    /// How long may still be waited for locks.
    pub(super) fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}

/// A statement, and what is wanted of it.
struct SentStatement {
    query: SqlQuery,
    wanted: WantedAnswer,
}

#[derive(Clone, Copy)]
enum WantedAnswer {
    Rows,
    /// How many rows it changed.
    Count,
    /// Nothing, if it does what is expected of it.
    Done(ExpectedChange),
}

enum StatementAnswer {
    Rows(Vec<tokio_postgres::Row>),
    Changed(u64),
}

impl SentStatement {
    async fn ask(&self, client: &Object, statement: &Statement) -> Result<StatementAnswer, Error> {
        let values: Vec<&(dyn ToSql + Sync)> =
            self.query.values.iter().map(|value| value as &(dyn ToSql + Sync)).collect();
        match self.wanted {
            WantedAnswer::Rows => client.query(statement, &values).await.map(StatementAnswer::Rows),
            WantedAnswer::Count | WantedAnswer::Done(_) => {
                client.execute(statement, &values).await.map(StatementAnswer::Changed)
            }
        }
    }
}

/// Sends statements without waiting in between, and answers each in its turn.
///
/// All are made known first: one that had to wait for that would be overtaken by those behind it.
async fn ask_all(
    client: &Object,
    sent: &[SentStatement],
    first: Option<&str>,
) -> Result<Vec<Result<StatementAnswer, Error>>, Error> {
    // Both engines share the statements; only the sign of a parameter differs.
    let texts: Vec<String> = sent.iter().map(|one| SqlDialect::Postgres.translate(&one.query.sql)).collect();
    let statements = try_join_all(texts.iter().map(|text| client.prepare_cached(text))).await?;
    let asking = join_all(sent.iter().zip(&statements).map(|(one, statement)| one.ask(client, statement)));
    let Some(first) = first else { return Ok(asking.await) };
    let (done, answers) = join(client.batch_execute(first), asking).await;
    done.map(|()| answers)
}

/// A connection during one transaction.
pub(super) struct PostgresSql<'c> {
    client: &'c Object,
    handle: &'c Handle,
    patience: StatementTimeout,
    meter: Option<&'c StoreMeter>,
    /// What was written and not yet sent.
    waiting: Vec<SentStatement>,
    /// How long the connection waits for one lock by now.
    lock_wait: Duration,
    pub(super) is_overtaken: bool,
    /// The database did not answer; the connection is of no use any more.
    pub(super) is_silent: bool,
}

impl<'c> PostgresSql<'c> {
    pub(super) fn new(
        client: &'c Object,
        handle: &'c Handle,
        patience: StatementTimeout,
        meter: Option<&'c StoreMeter>,
    ) -> Self {
        Self {
            client,
            handle,
            patience,
            meter,
            waiting: Vec::new(),
            lock_wait: LOCK_WAIT,
            is_overtaken: false,
            is_silent: false,
        }
    }

    /// Begins the transaction and asks it something, in one go.
    pub(super) fn begin(&mut self, begin: &str, question: &str) -> Result<SqlRow, PmFault> {
        // `BEGIN` and the first question travel together: one trip fewer.
        let begin = match self.shorter_wait() {
            Some(shorter) => format!("{begin}; {shorter}"),
            None => begin.to_owned(),
        };
        let client = self.client;
        let asking = async {
            let statement = client.prepare_cached(question).await?;
            client.query_one(&statement, &[]).await
        };
        let (begun, answer) = self.wait(async { Ok(join(client.batch_execute(&begin), asking).await) })?;
        begun.and(answer).map_err(|error| self.note(&error)).and_then(|found| row(&found))
    }

    /// Ends the transaction. Nothing may be waiting any more.
    pub(super) fn end(&mut self, end: &str) -> Result<(), PmFault> {
        let client = self.client;
        self.wait(client.batch_execute(end))
    }

    pub(super) fn flush(&mut self) -> Result<(), PmFault> {
        if self.waiting.is_empty() { Ok(()) } else { self.ask(Vec::new()).map(drop) }
    }

    /// Sends what waits, and then this; answers this.
    fn ask(&mut self, asked: Vec<SentStatement>) -> Result<Vec<StatementAnswer>, PmFault> {
        // What waits goes first: a question must see its own transaction's changes.
        let mut sent = std::mem::take(&mut self.waiting);
        sent.extend(asked);
        let mut wanted = Vec::new();
        // An unbounded pipeline can fill both socket buffers and stall.
        for part in sent.chunks(AT_ONCE) {
            let (client, shorter) = (self.client, self.shorter_wait());
            let answers = self.wait(ask_all(client, part, shorter.as_deref()))?;
            for (one, answer) in part.iter().zip(answers) {
                let answer = answer.map_err(|error| self.note(&error))?;
                wanted.extend(self.accept(one, answer)?);
            }
        }
        Ok(wanted)
    }

    /// The answer, if it was wanted.
    fn accept(&mut self, sent: &SentStatement, answer: StatementAnswer) -> Result<Option<StatementAnswer>, PmFault> {
        match (sent.wanted, &answer) {
            (WantedAnswer::Done(expected), StatementAnswer::Changed(count)) => match expected.is_met(*count) {
                Ok(()) => Ok(None),
                Err(fault) => {
                    // No row had the expected version: another transaction changed it.
                    self.is_overtaken = true;
                    Err(fault)
                }
            },
            _ => Ok(Some(answer)),
        }
    }

    /// Less patience with locks, when little of the call's time is left.
    fn shorter_wait(&mut self) -> Option<String> {
        // Zero would mean no timeout at all.
        let left = self.patience.left().max(Duration::from_millis(1));
        (left < self.lock_wait).then(|| {
            self.lock_wait = left;
            format!("SET LOCAL lock_timeout = {}", left.as_millis().max(1))
        })
    }

    /// Waits for an answer, but not for ever.
    fn wait<T>(&mut self, asking: impl Future<Output = Result<T, Error>>) -> Result<T, PmFault> {
        if let Some(meter) = self.meter {
            meter.add_trip();
        }
        let longest = self.patience.longest_answer;
        // We are on a blocking thread; the connection itself is driven by the runtime.
        let answered = self.handle.block_on(async { tokio::time::timeout(longest, asking).await });
        match answered {
            Ok(answer) => answer.map_err(|error| self.note(&error)),
            Err(_) => {
                self.is_silent = true;
                Err(PmFault::new(Code::Busy, format!("the database has not answered for {longest:?}"))
                    .hint("try again"))
            }
        }
    }

    /// Remembers whether the error means "run again", and says what it means otherwise.
    fn note(&mut self, error: &Error) -> PmFault {
        self.is_overtaken |= is_overtaken(error);
        fault(error)
    }
}

impl SqlTransaction for PostgresSql<'_> {
    fn dialect(&self) -> SqlDialect {
        SqlDialect::Postgres
    }

    fn run(&mut self, sql: &str, values: &[SqlValue]) -> Result<u64, PmFault> {
        let answers =
            self.ask(vec![SentStatement { query: SqlQuery::new(sql, values.to_vec()), wanted: WantedAnswer::Count }])?;
        Ok(match answers.first() {
            Some(StatementAnswer::Changed(count)) => *count,
            _ => 0,
        })
    }

    fn run_later(&mut self, query: SqlQuery, expected: ExpectedChange) -> Result<(), PmFault> {
        self.waiting.push(SentStatement { query, wanted: WantedAnswer::Done(expected) });
        if self.waiting.len() < AT_ONCE { Ok(()) } else { self.flush() }
    }

    fn rows(&mut self, sql: &str, values: &[SqlValue]) -> Result<Vec<SqlRow>, PmFault> {
        let answers = self.rows_many(vec![SqlQuery::new(sql, values.to_vec())])?;
        Ok(answers.into_iter().next().unwrap_or_default())
    }

    fn rows_many(&mut self, queries: Vec<SqlQuery>) -> Result<Vec<Vec<SqlRow>>, PmFault> {
        let asked = queries.into_iter().map(|query| SentStatement { query, wanted: WantedAnswer::Rows }).collect();
        self.ask(asked)?.iter().map(rows).collect()
    }

    fn overtaken(&mut self) {
        self.is_overtaken = true;
    }
}

fn rows(answer: &StatementAnswer) -> Result<Vec<SqlRow>, PmFault> {
    match answer {
        StatementAnswer::Rows(rows) => rows.iter().map(row).collect(),
        StatementAnswer::Changed(_) => Ok(Vec::new()),
    }
}

fn row(row: &tokio_postgres::Row) -> Result<SqlRow, PmFault> {
    let values = row.columns().iter().enumerate().map(|(at, column)| {
        let found = match *column.type_() {
            Type::INT8 => row.try_get::<_, Option<i64>>(at).map(SqlValue::from),
            Type::INT4 => row.try_get::<_, Option<i32>>(at).map(|number| number.map(i64::from).into()),
            Type::FLOAT8 => {
                row.try_get::<_, Option<f64>>(at).map(|number| number.map_or(SqlValue::Null, SqlValue::Real))
            }
            Type::TEXT | Type::VARCHAR | Type::NAME => row.try_get::<_, Option<String>>(at).map(SqlValue::from),
            // A function called for its effect answers `void`.
            _ => Ok(SqlValue::Null),
        };
        found.map_err(|error| fault(&error))
    });
    values.collect::<Result<_, _>>().map(SqlRow)
}

impl ToSql for SqlValue {
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

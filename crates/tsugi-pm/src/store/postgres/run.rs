//! One transaction on one PostgreSQL connection: begin, work, commit or undo.

use super::pipe::PostgresSql;
use crate::domain::fault::PmFault;
use crate::domain::time::Moment;
use crate::store::clock::{ClockLead, TimeSource};
use crate::store::migrate;
use crate::store::tx::{Tx, TxAttempt};
use crate::store::value::SqlRow;
use crate::store::{BoxedResult, TxMode, TxWork};

/// A read gets a plan for its own values; writers run the same few statements again and again, and their plans are made
/// once (see `SETTINGS` in [`super::open`]).
const fn begin(mode: TxMode) -> &'static str {
    match mode {
        TxMode::Read => "BEGIN READ ONLY; SET LOCAL plan_cache_mode = auto; SET LOCAL enable_seqscan = on",
        TxMode::Snapshot => {
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL plan_cache_mode = auto; \
             SET LOCAL enable_seqscan = on"
        }
        TxMode::Write => "BEGIN",
    }
}

/// How a transaction went.
pub(super) struct FinishedTransaction {
    pub(super) result: Result<BoxedResult, PmFault>,
    pub(super) has_events: bool,
    pub(super) is_overtaken: bool,
    pub(super) is_broken: bool,
    /// What the next attempt should know.
    pub(super) attempt: TxAttempt,
}

/// The time on the database host, that of the newest event, and the newest step of the schema.
const CLOCK: &str = "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS bigint), \
                     (SELECT at FROM event ORDER BY seq DESC LIMIT 1), (SELECT MAX(version) FROM migration)";

/// What every transaction needs besides its connection.
pub(super) struct TransactionSettings<'a> {
    pub(super) clock: Option<&'a dyn TimeSource>,
    pub(super) ahead: &'a ClockLead,
    pub(super) known_migrations: usize,
}

impl TransactionSettings<'_> {
    /// The time that counts and what the clock shows, if the schema is still one that we know.
    fn time(&self, found: &SqlRow) -> Result<(Moment, Moment), PmFault> {
        migrate::check_running(found.int(2).unwrap_or(0), self.known_migrations)?;
        let clock = self.clock.map_or_else(|| found.int(0).map(Moment), |clock| Ok(clock.now()))?;
        Ok((self.ahead.settle(clock, found.int(1).ok().map(Moment), None), clock))
    }
}

/// Runs the work on the calling thread, which must be one that may block.
pub(super) fn transact(
    mut sql: PostgresSql<'_>,
    setting: &TransactionSettings<'_>,
    mode: TxMode,
    work: &TxWork,
    mut attempt: TxAttempt,
) -> FinishedTransaction {
    let broken = |result, attempt| FinishedTransaction {
        result,
        has_events: false,
        is_overtaken: false,
        is_broken: true,
        attempt,
    };
    let found = match sql.begin(begin(mode), CLOCK) {
        Ok(found) => found,
        Err(fault) => return broken(Err(fault), attempt),
    };
    let (result, has_events, is_kept) = match setting.time(&found) {
        Ok((now, clock)) => {
            let mut tx = Tx::new(&mut sql, now, clock, attempt.clone());
            let result = work(&mut tx);
            let ended = (result, tx.has_events(), tx.is_kept());
            attempt = TxAttempt { number: attempt.number + 1, horizon: tx.attempt.horizon.take() };
            ended
        }
        Err(fault) => (Err(fault), false, false),
    };
    let result = settled(&mut sql, result);
    let end = match (&result, is_kept && !sql.is_overtaken) {
        (Ok(_), _) => "COMMIT",
        (Err(_), true) => "ROLLBACK TO kept; COMMIT",
        (Err(_), false) => "ROLLBACK",
    };
    if sql.is_silent {
        return broken(result, attempt);
    }
    let ending = sql.end(end);
    let is_broken = ending.is_err();
    let has_events = has_events && !is_broken && end != "ROLLBACK";
    let result = match ending {
        Ok(()) => result,
        Err(fault) => result.and(Err(unknown_outcome(fault))),
    };
    FinishedTransaction { has_events, is_overtaken: result.is_err() && sql.is_overtaken, result, is_broken, attempt }
}

/// Sends what still waits, even for work that was refused: if another transaction has changed what it read, that is found
/// here, and it runs again.
fn settled(sql: &mut PostgresSql<'_>, result: Result<BoxedResult, PmFault>) -> Result<BoxedResult, PmFault> {
    match (result, sql.flush()) {
        (Ok(_), Err(fault)) => Err(fault),
        (result, _) => result,
    }
}

/// The connection broke during the commit: it is not known whether the database did it.
fn unknown_outcome(fault: PmFault) -> PmFault {
    fault.with("outcome", "unknown").hint("repeat the call with the same idempotency_key")
}

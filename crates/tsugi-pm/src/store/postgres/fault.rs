//! What PostgreSQL's errors mean to a caller, and whether another run could help.

use deadpool_postgres::PoolError;
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

use crate::domain::fault::{Code, PmFault};

/// Whether the error means that another transaction was faster: run again, and it will be seen.
pub(super) fn is_overtaken(error: &Error) -> bool {
    let retried = [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED, SqlState::UNIQUE_VIOLATION];
    error.code().is_some_and(|code| retried.contains(code))
}

/// What an error of PostgreSQL means to a caller.
pub(super) fn fault(error: &Error) -> PmFault {
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
        return PmFault::new(Code::Busy, "the database was locked for too long").hint("try again");
    }
    if *code == SqlState::DISK_FULL {
        return PmFault::new(Code::StorageFull, "the database's disk is full; nothing was changed")
            .hint("free some space");
    }
    if *code == SqlState::READ_ONLY_SQL_TRANSACTION {
        return PmFault::new(Code::StorageReadonly, "the database cannot be written").hint("is this a standby?");
    }
    PmFault::internal(format!("postgres: {}", with_cause(error)))
}

/// What went wrong before the database could say anything: mostly a wire that was cut.
fn without_code(error: &Error) -> PmFault {
    let is_cut =
        error.is_closed() || std::error::Error::source(error).is_some_and(|cause| cause.is::<std::io::Error>());
    if is_cut {
        let message = format!("the connection to the database was lost: {}", with_cause(error));
        return PmFault::new(Code::Busy, message).hint("try again");
    }
    PmFault::internal(format!("postgres: {}", with_cause(error)))
}

/// Why no connection came out of the pool in the middle of work. The database may be back in a moment: it restarts,
/// or another takes over.
pub(super) fn unreachable_now(error: &PoolError, place: &str) -> PmFault {
    match error {
        PoolError::Timeout(_) => {
            PmFault::new(Code::Busy, "no database connection became free in time").hint("try again")
        }
        other => PmFault::new(Code::Busy, cannot_reach(other, place)).hint("try again"),
    }
}

/// Why there is no first connection: a wrong address or password is likelier than a database that is away for a moment.
pub(super) fn unreachable_at_first(error: &PoolError, place: &str) -> PmFault {
    PmFault::internal(cannot_reach(error, place)).hint("is PostgreSQL running there, and may this user connect?")
}

fn cannot_reach(error: &PoolError, place: &str) -> String {
    let why = match error {
        PoolError::Backend(error) => cause(error),
        PoolError::Timeout(_) => "it does not answer".to_owned(),
        other => other.to_string(),
    };
    format!("cannot reach the database at {place}: {why}")
}

/// What the database or the system said, without the library's words around it.
fn cause(error: &Error) -> String {
    if let Some(said) = error.as_db_error() {
        return said.message().to_owned();
    }
    match std::error::Error::source(error) {
        Some(cause) => cause.to_string(),
        None => error.to_string(),
    }
}

fn with_cause(error: &Error) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

//! How a database grows with tsugi: numbered steps forward, each whole or not at all.
//!
//! Our own runner instead of a crate: each step must begin with the write lock (sixteen processes may open a new file
//! at once), a newer schema must be refused, and a backup comes first; what a crate would add is the list of files.

use super::StoreOpenError;
use super::tx::hex_digest;
use crate::domain::fault::{Code, PmFault};

/// One step, in both dialects.
pub(crate) struct MigrationStep {
    pub(crate) name: &'static str,
    pub(crate) sqlite: &'static str,
    pub(crate) postgres: &'static str,
}

/// Every step, oldest first. Never change one that was released; add another.
pub(crate) const STEPS: &[MigrationStep] = &[
    MigrationStep {
        name: "records",
        sqlite: include_str!("migrate/sqlite_0001.sql"),
        postgres: include_str!("migrate/postgres_0001.sql"),
    },
    MigrationStep {
        name: "search",
        sqlite: include_str!("migrate/sqlite_0002.sql"),
        postgres: include_str!("migrate/postgres_0002.sql"),
    },
    MigrationStep {
        name: "rules",
        sqlite: include_str!("migrate/sqlite_0003.sql"),
        postgres: include_str!("migrate/postgres_0003.sql"),
    },
    MigrationStep {
        name: "archive",
        sqlite: include_str!("migrate/sqlite_0004.sql"),
        postgres: include_str!("migrate/postgres_0004.sql"),
    },
    MigrationStep {
        name: "own tasks",
        sqlite: include_str!("migrate/sqlite_0005.sql"),
        postgres: include_str!("migrate/postgres_0005.sql"),
    },
    MigrationStep {
        name: "clocks",
        sqlite: include_str!("migrate/sqlite_0006.sql"),
        postgres: include_str!("migrate/postgres_0006.sql"),
    },
];

/// How many steps this binary knows.
pub const KNOWN: usize = STEPS.len();

/// The step from which on a SQLite file records the machine's clock.
pub(crate) const CLOCKS: usize = 6;

/// Where the steps taken are recorded. `BIGINT` is an integer to both engines.
pub(crate) const CREATE_RECORD: &str = "CREATE TABLE IF NOT EXISTS migration(version BIGINT PRIMARY KEY, name TEXT NOT NULL, \
                                        checksum TEXT NOT NULL, applied_at BIGINT NOT NULL)";
pub(crate) const READ_RECORD: &str = "SELECT version, checksum FROM migration ORDER BY version";

/// Compares the steps a database has taken with those we know; answers how many it has taken.
pub(crate) fn check(
    taken: &[(i64, String)],
    known: usize,
    text: fn(&MigrationStep) -> &'static str,
) -> Result<usize, StoreOpenError> {
    for (at, (version, checksum)) in taken.iter().enumerate() {
        let Some(step) = STEPS[..known.min(KNOWN)].get(at) else {
            let found = taken.last().map_or(0, |(version, _)| *version);
            return Err(StoreOpenError::Newer { found, known });
        };
        if *version != at as i64 + 1 || *checksum != hex_digest(text(step).as_bytes()) {
            return Err(StoreOpenError::Altered { version: *version });
        }
    }
    Ok(taken.len())
}

/// Refuses to work on a schema that a newer program has changed since this one opened the database.
pub(crate) fn check_running(found: i64, known: usize) -> Result<(), PmFault> {
    if found <= known as i64 {
        return Ok(());
    }
    let message = format!("a newer tsugi has changed the database to schema {found}; this one knows up to {known}");
    Err(PmFault::new(Code::Outdated, message)
        .hint("install that version and start this server again; nothing was changed")
        .with("schema", found)
        .with("known", known))
}

/// What is recorded of a step.
pub(crate) fn record(at: usize, text: &str) -> (i64, &'static str, String) {
    (at as i64 + 1, STEPS[at].name, hex_digest(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(count: usize) -> Vec<(i64, String)> {
        (0..count).map(|at| (at as i64 + 1, record(at, STEPS[at].sqlite).2)).collect()
    }

    #[test]
    fn a_known_history_is_accepted_a_newer_or_altered_one_is_refused() {
        assert_eq!(check(&taken(0), KNOWN, |step| step.sqlite).unwrap(), 0);
        assert_eq!(check(&taken(KNOWN), KNOWN, |step| step.sqlite).unwrap(), KNOWN);
        assert!(matches!(check(&taken(KNOWN), KNOWN - 1, |step| step.sqlite), Err(StoreOpenError::Newer { .. })));
        let mut altered = taken(KNOWN);
        altered[0].1 = "0".repeat(64);
        assert!(matches!(check(&altered, KNOWN, |step| step.sqlite), Err(StoreOpenError::Altered { version: 1 })));
    }
}

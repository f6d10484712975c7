//! Holds a process's clock against the time that has passed on the machine, so that a clock that was set ahead neither
//! ends other agents' leases nor becomes the time of the others.
//!
//! All processes of a SQLite file run on one machine and share its uptime, which no setting of a clock changes. The first
//! write after a boot records where the database's time stands against the uptime; from then on every process knows how
//! late it is without believing its own clock. A clock that is further ahead is not followed, except slowly: a machine
//! whose clock was corrected must come right some day, and a single wrong process must not matter.

use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension, params};

use super::run::fault;
use crate::domain::fault::PmFault;
use crate::domain::time::{Moment, TOLERATED_LEAD_MS};
use crate::store::TxMode;
use crate::store::clock::{ClockLead, MachineUptime, TimeSource};

/// The database's time gains at most a minute in eight on a clock that is ahead.
const ADJUST_EVERY_MS: i64 = 8 * 60_000;
const ADJUST_BY_MS: i64 = 60_000;

const READ: &str = "SELECT base_ms, adjusted_ms FROM machine_clock WHERE boot = ?1";
const FIRST: &str = "INSERT OR IGNORE INTO machine_clock (boot, base_ms, adjusted_ms) VALUES (?1, ?2, ?3)";
const ADJUST: &str =
    "UPDATE machine_clock SET base_ms = base_ms + ?2, adjusted_ms = ?3 WHERE boot = ?1 AND adjusted_ms = ?4";
const REPORT: &str = "INSERT OR REPLACE INTO clock_lead (host, pid, ahead_ms, seen_at) VALUES (?1, ?2, ?3, ?4)";

/// What this process knows of the database's time on this boot of the machine.
#[derive(Default)]
pub(super) struct MachineClock {
    /// The database's time at uptime zero, as last read. It only grows, so an old value errs on the safe side.
    base_ms: Mutex<Option<i64>>,
}

impl MachineClock {
    /// Before a transaction: learns the base, records it if this is the first write of the boot, and reports a clock
    /// that is ahead. Each is a separate statement, because the transaction that follows may be refused and undone.
    pub(super) fn prepare(&self, connection: &Connection, mode: TxMode, clock: &dyn TimeSource, lead: &ClockLead) {
        let Some(uptime) = clock.uptime() else { return };
        let now = clock.now();
        if self.expected(&uptime).is_some_and(|expected| !is_ahead(now, expected)) {
            return;
        }
        if let Err(fault) = self.look(connection, mode, now, &uptime, lead) {
            // The transaction itself will say what is wrong with the database.
            tracing::debug!(%fault, "the machine's clock could not be compared");
        }
    }

    /// What the time should be by the machine's uptime.
    pub(super) fn expected(&self, uptime: &MachineUptime) -> Option<Moment> {
        self.base_ms.lock().map(|base_ms| Moment(base_ms.saturating_add(uptime.millis)))
    }

    fn look(
        &self,
        connection: &Connection,
        mode: TxMode,
        now: Moment,
        uptime: &MachineUptime,
        lead: &ClockLead,
    ) -> Result<(), PmFault> {
        let sql = |error: rusqlite::Error| fault(&error);
        let mut read = connection.prepare_cached(READ).map_err(sql)?;
        let known: Option<(i64, i64)> =
            read.query_row([&*uptime.boot], |row| Ok((row.get(0)?, row.get(1)?))).optional().map_err(sql)?;
        let Some((base_ms, adjusted_ms)) = known else {
            if mode == TxMode::Write {
                self.record_first(connection, now, uptime, lead).map_err(sql)?;
            }
            return Ok(());
        };
        *self.base_ms.lock() = Some(base_ms);
        let expected = Moment(base_ms.saturating_add(uptime.millis));
        if mode != TxMode::Write || !is_ahead(now, expected) {
            return Ok(());
        }
        let ahead_ms = now.0 - expected.0;
        report(connection, ahead_ms, expected).map_err(sql)?;
        if uptime.millis - adjusted_ms >= ADJUST_EVERY_MS {
            // Another process may have moved it since we looked: then this changes nothing.
            let step = ahead_ms.min(ADJUST_BY_MS);
            connection.execute(ADJUST, params![&*uptime.boot, step, uptime.millis, adjusted_ms]).map_err(sql)?;
        }
        Ok(())
    }

    fn record_first(
        &self,
        connection: &Connection,
        now: Moment,
        uptime: &MachineUptime,
        lead: &ClockLead,
    ) -> rusqlite::Result<()> {
        let newest = "SELECT at FROM event ORDER BY seq DESC LIMIT 1";
        let newest = connection.query_row(newest, [], |row| row.get(0)).optional()?.map(Moment);
        let base_ms = lead.settle(now, newest, None).0 - uptime.millis;
        connection.execute(FIRST, params![&*uptime.boot, base_ms, uptime.millis])?;
        // Another process may have been first, and its base counts.
        let base_ms = connection.query_row(READ, [&*uptime.boot], |row| row.get(0))?;
        *self.base_ms.lock() = Some(base_ms);
        Ok(())
    }
}

fn is_ahead(clock: Moment, expected: Moment) -> bool {
    clock.0 > expected.0.saturating_add(TOLERATED_LEAD_MS)
}

/// Leaves word of this process, for `doctor`.
fn report(connection: &Connection, ahead_ms: i64, seen_at: Moment) -> rusqlite::Result<()> {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    connection.execute(REPORT, params![host, i64::from(std::process::id()), ahead_ms, seen_at.0])?;
    tracing::warn!(
        ahead_s = ahead_ms / 1000,
        "this process's clock is ahead of the machine's uptime and is not followed"
    );
    Ok(())
}

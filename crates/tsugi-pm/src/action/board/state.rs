//! The state of the database for the dashboard: sizes, overdue leases, processes, and notices not yet shown.

use serde::Serialize;

use super::super::Pm;
use super::super::health::{self, HealthReport};
use crate::domain::fault::PmFault;
use crate::domain::time::Moment;
use crate::store::migrate;
use crate::store::tx::Tx;

/// Processes that are listed.
const PROCESSES: i64 = 50;

/// A process that works on the database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DatabaseProcess {
    /// The machine it runs on.
    pub host: String,
    pub pid: i64,
    /// Its last sign of life.
    pub heartbeat_at: Moment,
    /// How many sessions it hosts.
    pub sessions: i64,
}

/// How the database does. Nothing is changed by looking, and nothing is asked that takes long.
#[derive(Clone, Debug, Serialize)]
pub struct BoardState {
    /// What was counted. Complaints of the engine are not among it: asking for them reads the whole database.
    #[serde(flatten)]
    pub health: HealthReport,
    /// The time of this report.
    pub now: Moment,
    /// The lease that ran out first and was not ended yet.
    pub oldest_unswept_lease: Option<Moment>,
    /// The processes that host sessions.
    pub processes: Vec<DatabaseProcess>,
    /// Notices that were not shown yet.
    pub notices_unheard: i64,
    /// For how many agents those are.
    pub notices_for: i64,
    pub version: &'static str,
    pub pid: u32,
}

impl Pm {
    /// Looks at how the database does.
    pub async fn state(&self) -> Result<BoardState, PmFault> {
        let (bytes, log_bytes) = self.store().size().await?;
        let state = self.store().read(look).await?;
        let health = HealthReport { bytes, log_bytes, schema_known: migrate::KNOWN as i64, ..state.health };
        Ok(BoardState { health, ..state })
    }
}

fn look(tx: &mut Tx<'_>) -> Result<BoardState, PmFault> {
    let (notices_unheard, notices_for) = tx.board_notices()?;
    let processes = tx.board_processes(PROCESSES)?.into_iter().map(|one| DatabaseProcess {
        host: one.host,
        pid: one.pid,
        heartbeat_at: one.heartbeat_at,
        sessions: one.sessions,
    });
    Ok(BoardState {
        processes: processes.collect(),
        health: health::counted(tx)?,
        now: tx.now,
        oldest_unswept_lease: tx.board_oldest_lease()?,
        notices_unheard,
        notices_for,
        version: env!("CARGO_PKG_VERSION"),
        pid: std::process::id(),
    })
}

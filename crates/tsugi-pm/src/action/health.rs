//! The health of the database: its engine, its size, and what in it needs attention.

use serde::Serialize;

use super::Pm;
use crate::domain::fault::PmFault;
use crate::domain::session::{CALL_TTL_S, HEARTBEAT_LOST_S};
use crate::domain::time::Moment;
use crate::store::dialect::SqlDialect;
use crate::store::migrate;
use crate::store::tx::Tx;
use crate::store::value::SqlRow;

/// What was found. Nothing is changed by looking.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HealthReport {
    /// The engine and its version.
    pub engine: String,
    /// The step of the schema that the database has reached.
    pub schema: i64,
    /// The step that this program knows.
    pub schema_known: i64,
    /// Bytes of the database.
    pub bytes: u64,
    /// Bytes of the write-ahead log, on SQLite.
    pub log_bytes: u64,
    /// What the engine complains about.
    pub complaints: Vec<String>,
    /// Projects that are not put away.
    pub projects: i64,
    /// Projects of those without a manager.
    pub projects_without_manager: i64,
    /// Agents that may act.
    pub agents: i64,
    /// Agents of those that belong to no project.
    pub agents_without_place: i64,
    /// Tasks that are not finished.
    pub open_tasks: i64,
    /// Unfinished tasks that wait for a cancelled one: a person must decide.
    pub tasks_behind_cancelled: i64,
    /// Tasks that wait for a review.
    pub tasks_in_review: i64,
    pub active_sessions: i64,
    /// Sessions that count as working although their process or client has been silent too long.
    pub silent_sessions: i64,
    /// Sessions whose process is gone and whose claims wait for it.
    pub disconnected_sessions: i64,
    /// Tasks that are held.
    pub live_claims: i64,
    /// Claims of those whose lease has run out.
    pub expired_claims: i64,
    pub pending_handoffs: i64,
    /// Handoffs of those that were not accepted in time.
    pub expired_handoffs: i64,
    /// Processes of the last day whose clock was ahead of the time that had passed, and was not followed.
    pub clocks_ahead: Vec<ProcessClock>,
    /// Seconds by which the newest event is ahead of the clock, which must have jumped back.
    pub ahead_s: i64,
}

/// A process whose clock was ahead of the database's time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProcessClock {
    pub host: String,
    pub pid: i64,
    pub ahead_s: i64,
    /// When it last wrote, by the database's time.
    pub seen_at: Moment,
}

/// For how long a clock that was ahead is remembered.
const CLOCK_NEWS_S: i64 = 24 * 3600;

impl HealthReport {
    /// Whether a sweep would put something right.
    pub fn wants_sweep(&self) -> bool {
        self.silent_sessions + self.expired_claims + self.expired_handoffs > 0
    }
}

/// The questions that are one number, in the order of the fields from `projects` on.
const COUNTS: [&str; 14] = [
    "SELECT COUNT(*) FROM project WHERE status <> 'archived'",
    "SELECT COUNT(*) FROM project p WHERE p.status <> 'archived' AND NOT EXISTS (SELECT 1 FROM membership m \
     JOIN agent a ON a.id = m.agent_id WHERE m.project_id = p.id AND m.role IN ('owner', 'manager') \
     AND a.status = 'active')",
    "SELECT COUNT(*) FROM agent WHERE status = 'active'",
    "SELECT COUNT(*) FROM agent a WHERE a.status = 'active' \
     AND NOT EXISTS (SELECT 1 FROM membership m WHERE m.agent_id = a.id)",
    "SELECT COUNT(*) FROM task WHERE status NOT IN ('done', 'cancelled')",
    "SELECT COUNT(DISTINCT t.id) FROM task t JOIN dependency d ON d.task_id = t.id AND d.kind = 'blocks' \
     JOIN task b ON b.id = d.depends_on_id WHERE t.status NOT IN ('done', 'cancelled') AND b.status = 'cancelled'",
    "SELECT COUNT(*) FROM task WHERE status = 'review'",
    "SELECT COUNT(*) FROM session WHERE state = 'active'",
    "SELECT COUNT(*) FROM session WHERE state = 'active' AND ((process_nonce IS NOT NULL AND heartbeat_at <= ?2) \
     OR (process_nonce IS NULL AND last_activity_at <= ?3))",
    "SELECT COUNT(*) FROM session WHERE state = 'disconnected'",
    "SELECT COUNT(*) FROM claim WHERE state = 'live'",
    "SELECT COUNT(*) FROM claim WHERE state = 'live' AND expires_at <= ?1",
    "SELECT COUNT(*) FROM handoff WHERE status = 'pending'",
    "SELECT COUNT(*) FROM handoff WHERE status = 'pending' AND expires_at <= ?1",
];

impl Pm {
    /// Looks at everything that can be counted, and asks the engine whether the database is sound.
    pub async fn health(&self) -> Result<HealthReport, PmFault> {
        let (bytes, log_bytes) = self.store().size().await?;
        // On a new connection: one that has used the search index would report false errors.
        let complaints = self.store().check().await?;
        let counted = self.store().read(counted).await?;
        Ok(HealthReport { bytes, log_bytes, complaints, schema_known: migrate::KNOWN as i64, ..counted })
    }
}

pub(super) fn counted(tx: &mut Tx<'_>) -> Result<HealthReport, PmFault> {
    // One statement per number; all are index counts.
    let mut numbers = [0; COUNTS.len()];
    for (number, question) in numbers.iter_mut().zip(COUNTS) {
        *number = count(tx, question)?;
    }
    // The order is that of `COUNTS`; the patterns fail to compile when one is added to only one side.
    let [projects, projects_without_manager, agents, agents_without_place, rest @ ..] = numbers;
    let [open_tasks, tasks_behind_cancelled, tasks_in_review, active_sessions, silent_sessions, rest @ ..] = rest;
    let [disconnected_sessions, live_claims, expired_claims, pending_handoffs, expired_handoffs] = rest;
    Ok(HealthReport {
        engine: engine(tx)?,
        schema: tx.number("SELECT MAX(version) FROM migration", &[])?,
        projects,
        projects_without_manager,
        agents,
        agents_without_place,
        open_tasks,
        tasks_behind_cancelled,
        tasks_in_review,
        active_sessions,
        silent_sessions,
        disconnected_sessions,
        live_claims,
        expired_claims,
        pending_handoffs,
        expired_handoffs,
        clocks_ahead: clocks_ahead(tx)?,
        ahead_s: tx.ahead_ms / 1000,
        ..HealthReport::default()
    })
}

fn clocks_ahead(tx: &mut Tx<'_>) -> Result<Vec<ProcessClock>, PmFault> {
    let sql = "SELECT host, pid, ahead_ms, seen_at FROM clock_lead WHERE seen_at > ?1 ORDER BY seen_at DESC LIMIT 20";
    // Old reports are of processes that are long gone.
    let since = tx.now.plus_seconds(-CLOCK_NEWS_S);
    let rows = tx.rows(sql, &[since.into()])?;
    let clock = |row: &SqlRow| -> Result<ProcessClock, PmFault> {
        let (ahead_ms, seen_at) = (row.int(2)?, Moment(row.int(3)?));
        Ok(ProcessClock { host: row.text(0)?.to_owned(), pid: row.int(1)?, ahead_s: ahead_ms / 1000, seen_at })
    };
    rows.iter().map(clock).collect()
}

/// One number; a question gets only the moments that it names.
fn count(tx: &mut Tx<'_>, question: &str) -> Result<i64, PmFault> {
    let now = tx.now;
    // PostgreSQL refuses parameters that a statement does not name.
    if question.contains("?1") {
        return tx.number(question, &[now.into()]);
    }
    if !question.contains("?2") {
        return tx.number(question, &[]);
    }
    let question = question.replace("?2", "?1").replace("?3", "?2");
    tx.number(&question, &[now.plus_seconds(-HEARTBEAT_LOST_S).into(), now.plus_seconds(-CALL_TTL_S).into()])
}

fn engine(tx: &mut Tx<'_>) -> Result<String, PmFault> {
    let (name, question) = match tx.dialect() {
        SqlDialect::Sqlite => ("SQLite", "SELECT sqlite_version()"),
        SqlDialect::Postgres => ("PostgreSQL", "SELECT current_setting('server_version')"),
    };
    let rows = tx.rows(question, &[])?;
    let version = rows.first().map_or(Ok(""), |row| row.text(0))?;
    Ok(format!("{name} {version}"))
}

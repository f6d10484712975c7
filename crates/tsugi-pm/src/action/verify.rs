//! Proving that what is stored is what happened: state rebuilt from events, chains of hashes, and the invariants.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Pm;
use crate::domain::event::{HistoryEvent, replay};
use crate::domain::fault::PmFault;
use crate::store::table::{RecordTable, TABLES};
use crate::store::tx::{EventFilter, Tx, hex_digest};

/// Rows read at a time.
const PAGE: i64 = 500;
/// Complaints that are listed; the rest is counted.
const LISTED: usize = 100;

/// What was checked and what is wrong.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct VerificationReport {
    /// Records that were compared with their history.
    pub records: u64,
    /// Events that were replayed.
    pub events: u64,
    /// Claims whose lease, or whose session's grace (I2), has run out since the last sweep: the next call that wants
    /// their tasks, or the next sweep, ends them.
    #[serde(default)]
    pub overdue: u64,
    /// What is wrong; nothing, in a sound database.
    pub problems: Vec<String>,
    /// How many more problems there are.
    pub more_problems: u64,
}

impl VerificationReport {
    fn complain(&mut self, problem: String) {
        if self.problems.len() < LISTED {
            self.problems.push(problem);
        } else {
            self.more_problems += 1;
        }
    }
}

impl Pm {
    /// Rebuilds every record from its events and compares; checks the chains, the counts and the invariants.
    pub async fn verify(&self) -> Result<VerificationReport, PmFault> {
        // One snapshot: history and tables must be of the same moment.
        let mut found = self.store().snapshot(verify_all).await?;
        for complaint in self.store().check().await? {
            found.complain(format!("engine: {complaint}"));
        }
        Ok(found)
    }
}

/// A record as its history tells it.
#[derive(Default)]
struct RebuiltRecords {
    fields: Map<String, Value>,
    version: i64,
    hash: String,
}

fn verify_all(tx: &mut Tx<'_>) -> Result<VerificationReport, PmFault> {
    let mut found = VerificationReport::default();
    let mut rebuilt = replay_all(tx, &mut found)?;
    for table in TABLES {
        compare(tx, table, &mut rebuilt, &mut found)?;
    }
    for (entity, rest) in rebuilt {
        // A record that was removed has only nulls left.
        if rest.fields.values().any(|value| !value.is_null()) {
            found.complain(format!("I10 {entity}: its history says it exists, the table does not have it"));
        }
    }
    check_rules(tx, &mut found)?;
    check_cycles(tx, &mut found)?;
    let (count, now) = (tx.dialect().count_overdue(), tx.now);
    found.overdue = u64::try_from(tx.number(&count, &[now.into()])?).unwrap_or(0);
    Ok(found)
}

fn replay_all(tx: &mut Tx<'_>, found: &mut VerificationReport) -> Result<BTreeMap<String, RebuiltRecords>, PmFault> {
    let mut rebuilt: BTreeMap<String, RebuiltRecords> = BTreeMap::new();
    let mut since = 0;
    loop {
        let events = tx.event_page(&EventFilter { since, limit: PAGE, ..EventFilter::default() })?;
        // Paged, so that memory holds the records but not the history.
        let Some(last) = events.last() else { return Ok(rebuilt) };
        since = last.seq;
        for event in &events {
            found.events += 1;
            replay_one(rebuilt.entry(event.entity_id.clone()).or_default(), event, found);
        }
    }
}

fn replay_one(record: &mut RebuiltRecords, event: &HistoryEvent, found: &mut VerificationReport) {
    let name = format!("{} {} ({})", event.entity_id, event.kind, event.id);
    // Reported, then continued: one broken link must not hide the rest.
    if event.prev_hash != record.hash {
        found.complain(format!("{name}: the chain of hashes is broken before it"));
    }
    if hex_digest(event.digest_text().as_bytes()) != event.hash {
        found.complain(format!("{name}: the event is not what was hashed"));
    }
    if let Err(field) = replay(&mut record.fields, &event.changes) {
        found.complain(format!("I10 {name}: `{field}` had another value before"));
    }
    record.hash.clone_from(&event.hash);
    record.version = event.version_after;
}

fn compare(
    tx: &mut Tx<'_>,
    table: &RecordTable,
    rebuilt: &mut BTreeMap<String, RebuiltRecords>,
    found: &mut VerificationReport,
) -> Result<(), PmFault> {
    let mut after = None;
    loop {
        let rows = tx.table_page(table, after.as_ref(), PAGE)?;
        for row in &rows {
            found.records += 1;
            let entity = table.entity_id(row);
            // Removed, so that what is left over has a history but no row.
            match rebuilt.remove(&entity) {
                None => found.complain(format!("I9 {entity}: it has no history")),
                Some(record) => compare_one(table, &entity, row, &record, found),
            }
        }
        match rows.into_iter().last() {
            Some(last) => after = Some(last),
            None => return Ok(()),
        }
    }
}

fn compare_one(
    table: &RecordTable,
    entity: &str,
    row: &Map<String, Value>,
    record: &RebuiltRecords,
    found: &mut VerificationReport,
) {
    // Counters and signs of life are not in the history.
    for field in table.versioned() {
        let [stored, told] = [row, &record.fields].map(|fields| fields.get(field).unwrap_or(&Value::Null));
        if told != stored {
            found.complain(format!("I10 {entity}.{field}: stored {stored}, its history says {told}"));
        }
    }
    if row.get("version").and_then(Value::as_i64) != Some(record.version) {
        found.complain(format!("I9 {entity}: the last event is not of its version"));
    }
}

/// Invariants that one query can check: each answers the ids that break it.
const RULES: &[(&str, &str)] = &[
    (
        "I1 in progress without a live claim",
        "SELECT id FROM task t WHERE status = 'in_progress' AND NOT EXISTS (SELECT 1 FROM claim c WHERE c.task_id = t.id AND c.state = 'live')",
    ),
    (
        "I1 live claim on a task that is not in progress",
        "SELECT c.id FROM claim c JOIN task t ON t.id = c.task_id WHERE c.state = 'live' AND t.status <> 'in_progress'",
    ),
    ("I1 two live claims", "SELECT task_id FROM claim WHERE state = 'live' GROUP BY task_id HAVING COUNT(*) > 1"),
    (
        "I2 live claim of a session that is over",
        "SELECT c.id FROM claim c JOIN session s ON s.id = c.session_id WHERE c.state = 'live' AND s.state NOT IN ('active', 'disconnected')",
    ),
    (
        "I3 fence of the live claim is not the task's",
        "SELECT c.id FROM claim c JOIN task t ON t.id = c.task_id WHERE c.state = 'live' AND c.fence <> t.fence",
    ),
    ("I3 fence beyond the task's", "SELECT c.id FROM claim c JOIN task t ON t.id = c.task_id WHERE c.fence > t.fence"),
    (
        "I6 two pending handoffs",
        "SELECT task_id FROM handoff WHERE status = 'pending' GROUP BY task_id HAVING COUNT(*) > 1",
    ),
    (
        "I7 dependency across projects",
        "SELECT d.task_id FROM dependency d JOIN task a ON a.id = d.task_id JOIN task b ON b.id = d.depends_on_id WHERE a.project_id <> b.project_id",
    ),
    (
        "I11 task numbers are not dense",
        "SELECT p.id FROM project p WHERE p.next_number <> 1 + (SELECT COUNT(*) FROM task t WHERE t.project_id = p.id)",
    ),
    (
        "I11 task number beyond the counter",
        "SELECT t.id FROM task t JOIN project p ON p.id = t.project_id WHERE t.number >= p.next_number",
    ),
    (
        "count of open prerequisites is wrong",
        "SELECT t.id FROM task t WHERE t.open_blockers <> (SELECT COUNT(*) FROM dependency d JOIN task b ON b.id = d.depends_on_id WHERE d.task_id = t.id AND d.kind = 'blocks' AND b.status <> 'done')",
    ),
    (
        "count of dependents is wrong",
        "SELECT t.id FROM task t WHERE t.unblocks <> (SELECT COUNT(*) FROM dependency d WHERE d.depends_on_id = t.id AND d.kind = 'blocks')",
    ),
    (
        "I15 something is held in an archived project",
        "SELECT c.id FROM claim c JOIN project p ON p.id = c.project_id WHERE c.state = 'live' AND p.status = 'archived'",
    ),
];

fn check_rules(tx: &mut Tx<'_>, found: &mut VerificationReport) -> Result<(), PmFault> {
    for (rule, sql) in RULES {
        for id in tx.texts(sql)? {
            found.complain(format!("{rule}: {id}"));
        }
    }
    Ok(())
}

/// I7: peels off tasks that wait for nothing until none is left; what remains waits in a circle.
fn check_cycles(tx: &mut Tx<'_>, found: &mut VerificationReport) -> Result<(), PmFault> {
    let rows = tx.texts("SELECT task_id || ' ' || depends_on_id FROM dependency WHERE kind = 'blocks'")?;
    let edges: Vec<(&str, &str)> = rows.iter().filter_map(|row| row.split_once(' ')).collect();
    // In memory rather than in SQL: a recursive query over all edges is quadratic.
    let mut waits: HashMap<&str, usize> = HashMap::new();
    let mut dependents: HashMap<&str, Vec<&str>> = HashMap::new();
    for (task, on) in &edges {
        *waits.entry(task).or_default() += 1;
        dependents.entry(on).or_default().push(task);
    }
    let all: HashSet<&str> = edges.iter().flat_map(|(task, on)| [*task, *on]).collect();
    // Peels off tasks that wait for nothing until only circles are left.
    let mut free: Vec<&str> = all.iter().copied().filter(|task| !waits.contains_key(task)).collect();
    let mut peeled = 0;
    while let Some(task) = free.pop() {
        peeled += 1;
        for dependent in dependents.get(task).into_iter().flatten() {
            if let Some(count) = waits.get_mut(dependent) {
                *count -= 1;
                if *count == 0 {
                    free.push(dependent);
                }
            }
        }
    }
    if peeled < all.len() {
        found.complain(format!("I7 {} tasks wait for each other in a circle", all.len() - peeled));
    }
    Ok(())
}

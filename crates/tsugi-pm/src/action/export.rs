//! Taking everything out as JSON lines and putting it in elsewhere: the way from SQLite to PostgreSQL and back.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use super::Pm;
use crate::domain::event::HistoryEvent;
use crate::domain::fault::PmFault;
use crate::store::table::{RecordTable, TABLES};
use crate::store::tx::{EventFilter, Tx};

/// The version of the format; a reader refuses a newer one.
const FORMAT: i64 = 1;
/// Lines that wait for a slow reader.
const LINES: usize = 256;
/// Rows read at a time.
const PAGE: i64 = 500;

#[derive(Serialize, Deserialize)]
struct ExportLine {
    kind: String,
    row: Map<String, Value>,
}

/// What an import did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportSummary {
    /// Records that were added.
    pub added: u64,
    /// Records that were here already.
    pub skipped: u64,
    /// Events that were added.
    pub events: u64,
}

impl Pm {
    /// Everything, one JSON object per line, in a stable order, from one consistent view. Dropping the receiver stops it.
    pub fn export(&self) -> mpsc::Receiver<Result<String, PmFault>> {
        // Bounded: a slow reader holds up the export instead of filling memory.
        let (sender, receiver) = mpsc::channel(LINES);
        let store = self.store().clone();
        tokio::spawn(async move {
            let lines = sender.clone();
            // One snapshot for everything, so that the export is consistent while others write.
            if let Err(fault) = store.snapshot(move |tx| export_all(tx, &lines)).await {
                let _ = sender.send(Err(fault)).await;
            }
        });
        receiver
    }

    /// Everything as one text.
    pub async fn export_text(&self) -> Result<String, PmFault> {
        let (mut lines, mut text) = (self.export(), String::new());
        while let Some(line) = lines.recv().await {
            text += &line?;
            text.push('\n');
        }
        Ok(text)
    }

    /// Adds what an export holds and this store lacks, all or nothing. Doing it twice changes nothing.
    pub async fn import(&self, text: String) -> Result<ImportSummary, PmFault> {
        self.store().write(move |tx| import_all(tx, &text)).await
    }
}

/// Sends a line; false when the reader is gone.
fn send(lines: &mpsc::Sender<Result<String, PmFault>>, line: &Value) -> bool {
    // The snapshot runs on a thread that may block.
    lines.blocking_send(Ok(line.to_string())).is_ok()
}

fn export_all(tx: &mut Tx<'_>, lines: &mpsc::Sender<Result<String, PmFault>>) -> Result<(), PmFault> {
    let head = json!({"kind": "tsugi-pm", "row": {"format": FORMAT}});
    if !send(lines, &head) {
        return Ok(());
    }
    for table in TABLES {
        if !export_table(tx, table, lines)? {
            return Ok(());
        }
    }
    export_events(tx, lines)
}

fn export_table(
    tx: &mut Tx<'_>,
    table: &RecordTable,
    lines: &mpsc::Sender<Result<String, PmFault>>,
) -> Result<bool, PmFault> {
    let mut after = None;
    loop {
        let rows = tx.table_page(table, after.as_ref(), PAGE)?;
        for row in &rows {
            if !send(lines, &json!({"kind": table.name, "row": row})) {
                return Ok(false);
            }
        }
        match rows.into_iter().last() {
            Some(last) => after = Some(last),
            None => return Ok(true),
        }
    }
}

fn export_events(tx: &mut Tx<'_>, lines: &mpsc::Sender<Result<String, PmFault>>) -> Result<(), PmFault> {
    let mut since = 0;
    loop {
        let events = tx.event_page(&EventFilter { since, limit: PAGE, ..EventFilter::default() })?;
        let Some(last) = events.last() else { return Ok(()) };
        since = last.seq;
        for event in &events {
            if !send(lines, &json!({"kind": "event", "row": event})) {
                return Ok(());
            }
        }
    }
}

fn import_all(tx: &mut Tx<'_>, text: &str) -> Result<ImportSummary, PmFault> {
    // Rows may refer to rows that come later in the file.
    tx.defer_references()?;
    let mut import = ImportRun { done: ImportSummary::default(), had_history: HashMap::new() };
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let bad = |reason: String| PmFault::invalid(format!("line {}: {reason}", number + 1));
        let line: ExportLine = serde_json::from_str(line).map_err(|error| bad(error.to_string()))?;
        import
            .line(tx, line)
            .map_err(|fault| PmFault { message: format!("line {}: {}", number + 1, fault.message), ..fault })?;
    }
    Ok(import.done)
}

struct ImportRun {
    done: ImportSummary,
    /// Whether a record already had a history in this store.
    had_history: HashMap<String, bool>,
}

impl ImportRun {
    fn line(&mut self, tx: &mut Tx<'_>, line: ExportLine) -> Result<(), PmFault> {
        if line.kind == "tsugi-pm" {
            return check_format(&line.row);
        }
        if line.kind == "event" {
            return self.event(tx, line.row);
        }
        let table = TABLES.iter().find(|table| table.name == line.kind);
        let table = table.ok_or_else(|| PmFault::invalid(format!("unknown kind `{}`", line.kind)))?;
        let entity = table.entity_id(&line.row);
        // Asked before the row is added: its own import must not count as history.
        self.note_history(tx, &entity)?;
        if tx.table_has(table, &line.row)? {
            self.done.skipped += 1;
            return Ok(());
        }
        tx.insert_fields(table, &line.row)?;
        // The search index is not exported; it is built from the rows.
        tx.index_fields(table, &line.row)?;
        self.done.added += 1;
        Ok(())
    }

    fn event(&mut self, tx: &mut Tx<'_>, row: Map<String, Value>) -> Result<(), PmFault> {
        let event: HistoryEvent =
            serde_json::from_value(Value::Object(row)).map_err(|error| PmFault::invalid(error.to_string()))?;
        let had_history = self.note_history(tx, &event.entity_id)?;
        // A record that has a history here keeps it: two chains cannot be merged.
        if !had_history && !tx.event_exists(&event.id)? {
            tx.event_insert(&event)?;
            self.done.events += 1;
        }
        Ok(())
    }

    fn note_history(&mut self, tx: &mut Tx<'_>, entity: &str) -> Result<bool, PmFault> {
        if let Some(known) = self.had_history.get(entity) {
            return Ok(*known);
        }
        let had = !tx.event_latest(entity, 1)?.is_empty();
        self.had_history.insert(entity.to_owned(), had);
        Ok(had)
    }
}

fn check_format(row: &Map<String, Value>) -> Result<(), PmFault> {
    match row.get("format").and_then(Value::as_i64) {
        Some(format) if format <= FORMAT => Ok(()),
        Some(format) => Err(PmFault::invalid(format!("the export has format {format}, this tsugi knows {FORMAT}"))
            .hint("install a newer tsugi")),
        None => Err(PmFault::invalid("this is not an export of tsugi pm")),
    }
}

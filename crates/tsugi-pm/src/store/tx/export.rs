//! Whole tables, for export, import and verification.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json};

use super::{Tx, key_condition, key_values};
use crate::domain::context::ContextEntry;
use crate::domain::fault::PmFault;
use crate::domain::handoff::Handoff;
use crate::store::dialect::SqlDialect;
use crate::store::table::RecordTable;
use crate::store::value::SqlValue;

impl Tx<'_> {
    /// A page of a table in the order of its key, after a row.
    pub(crate) fn table_page(
        &mut self,
        table: &RecordTable,
        after: Option<&Map<String, Json>>,
        limit: i64,
    ) -> Result<Vec<Map<String, Json>>, PmFault> {
        let key = table.key.join(", ");
        let mut values: Vec<SqlValue> = after.map(|row| key_values(table, row)).unwrap_or_default();
        let marks: Vec<String> = (1..=values.len()).map(|at| format!("?{at}")).collect();
        let condition =
            if values.is_empty() { String::new() } else { format!("WHERE ({key}) > ({})", marks.join(", ")) };
        values.push(limit.into());
        let sql =
            format!("SELECT {} FROM {} {condition} ORDER BY {key} LIMIT ?{}", table.list(), table.name, values.len());
        self.rows(&sql, &values)?.iter().map(|row| table.fields(row)).collect()
    }

    /// Whether a row with this key is there.
    pub(crate) fn table_has(&mut self, table: &RecordTable, fields: &Map<String, Json>) -> Result<bool, PmFault> {
        let sql = format!("SELECT 1 FROM {} WHERE {}", table.name, key_condition(table, 1));
        Ok(!self.rows(&sql, &key_values(table, fields))?.is_empty())
    }

    /// Lets rows refer to rows that come later in the same transaction.
    pub(crate) fn defer_references(&mut self) -> Result<(), PmFault> {
        match self.dialect() {
            SqlDialect::Sqlite => self.rows("PRAGMA defer_foreign_keys = ON", &[]).map(drop),
            SqlDialect::Postgres => self.run("SET CONSTRAINTS ALL DEFERRED", &[]).map(drop),
        }
    }

    /// Makes an imported row findable, if its kind is, with the same words as when it was written.
    pub(crate) fn index_fields(&mut self, table: &RecordTable, fields: &Map<String, Json>) -> Result<(), PmFault> {
        match table.name {
            "task" => self.task_index(&record(fields)?),
            "context" => {
                let context: ContextEntry = record(fields)?;
                let task = context.task_id.as_ref().map(|id| self.find(&[id.as_str().into()])).transpose()?.flatten();
                self.context_index(&context, task.as_ref())
            }
            "handoff" => {
                let handoff: Handoff = record(fields)?;
                let task = self.find(&[handoff.task_id.as_str().into()])?;
                self.handoff_index(&handoff, task.as_ref())
            }
            _ => Ok(()),
        }
    }

    /// The rows of a query as numbers and texts, for checks.
    pub(crate) fn texts(&mut self, sql: &str) -> Result<Vec<String>, PmFault> {
        self.rows(sql, &[])?.iter().map(|row| row.text(0).map(str::to_owned)).collect()
    }
}

fn record<T: DeserializeOwned>(fields: &Map<String, Json>) -> Result<T, PmFault> {
    serde_json::from_value(Json::Object(fields.clone())).map_err(|error| PmFault::invalid(format!("a row: {error}")))
}

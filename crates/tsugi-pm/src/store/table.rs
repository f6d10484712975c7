//! Which columns each kind of record has, so that reading, writing, history and export are written once for all.

use std::sync::LazyLock;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json};

use super::cell;
use super::value::{SqlRow, SqlValue};
use crate::domain::agent::Agent;
use crate::domain::claim::Claim;
use crate::domain::context::ContextEntry;
use crate::domain::dependency::TaskDependency;
use crate::domain::event::EntityType;
use crate::domain::fault::PmFault;
use crate::domain::handoff::Handoff;
use crate::domain::id::ProjectId;
use crate::domain::member::Membership;
use crate::domain::project::Project;
use crate::domain::session::AgentSession;
use crate::domain::task::Task;
use crate::domain::time::Moment;
use crate::domain::token::AccessToken;

/// How a column is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnShape {
    Plain,
    Json,
}

/// Whether a column's changes are history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HistoryTracking {
    /// A change raises the version and is written to the history.
    Versioned,
    /// Counters and signs of life: too frequent to be history, and not part of what `verify` rebuilds.
    Loose,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct TableColumn {
    pub(crate) name: &'static str,
    pub(crate) shape: ColumnShape,
    pub(crate) tracking: HistoryTracking,
}

const fn plain(name: &'static str) -> TableColumn {
    TableColumn { name, shape: ColumnShape::Plain, tracking: HistoryTracking::Versioned }
}

const fn json(name: &'static str) -> TableColumn {
    TableColumn { name, shape: ColumnShape::Json, tracking: HistoryTracking::Versioned }
}

const fn loose(name: &'static str) -> TableColumn {
    TableColumn { name, shape: ColumnShape::Plain, tracking: HistoryTracking::Loose }
}

/// One kind of record.
#[derive(Debug)]
pub(crate) struct RecordTable {
    pub(crate) name: &'static str,
    pub(crate) entity: EntityType,
    pub(crate) key: &'static [&'static str],
    pub(crate) columns: &'static [TableColumn],
}

impl RecordTable {
    /// The columns, for `SELECT`.
    pub(crate) fn list(&self) -> String {
        self.columns.iter().map(|column| column.name).collect::<Vec<_>>().join(", ")
    }

    /// The sentence that stores a row.
    pub(crate) fn insert(&self) -> String {
        // Numbered parameters mean the same to both engines.
        let marks: Vec<String> = (1..=self.columns.len()).map(|at| format!("?{at}")).collect();
        format!("INSERT INTO {} ({}) VALUES ({})", self.name, self.list(), marks.join(", "))
    }

    /// Turns a row in the order of the columns into fields.
    pub(crate) fn fields(&self, row: &SqlRow) -> Result<Map<String, Json>, PmFault> {
        let mut fields = Map::new();
        for (at, column) in self.columns.iter().enumerate() {
            let value = match (&row.0[at], column.shape) {
                (SqlValue::Null, _) => Json::Null,
                (SqlValue::Int(number), _) => Json::from(*number),
                (SqlValue::Real(number), _) => Json::from(*number),
                // Nested values are stored as JSON text in both engines.
                (SqlValue::Text(_), ColumnShape::Json) => row.json(at)?,
                (SqlValue::Text(text), ColumnShape::Plain) => Json::from(text.as_str()),
            };
            fields.insert(column.name.to_owned(), value);
        }
        Ok(fields)
    }

    /// The stored form of all fields, in the order of the columns.
    pub(crate) fn values(&self, fields: &Map<String, Json>) -> Vec<SqlValue> {
        let field = |column: &TableColumn| fields.get(column.name).unwrap_or(&Json::Null);
        self.columns.iter().map(|column| self.value(column, field(column))).collect()
    }

    /// The stored form of one field.
    pub(crate) fn value(&self, column: &TableColumn, field: &Json) -> SqlValue {
        match (field, column.shape) {
            (Json::Null, _) => SqlValue::Null,
            (other, ColumnShape::Json) => SqlValue::Text(other.to_string()),
            // All plain numbers of records are integers.
            (Json::Number(number), ColumnShape::Plain) => number.as_i64().map_or(SqlValue::Null, SqlValue::Int),
            (Json::String(text), ColumnShape::Plain) => SqlValue::Text(text.clone()),
            (other, ColumnShape::Plain) => SqlValue::Text(other.to_string()),
        }
    }

    /// Whether a new record has an id that was drawn for it, and so no history. Agents are named by people, and who leaves
    /// a project or stops waiting for a task may come back.
    pub(crate) fn has_minted_key(&self) -> bool {
        // These have keys that a caller chooses, so they may have existed before.
        !matches!(self.entity, EntityType::Agent | EntityType::Membership | EntityType::Dependency)
    }

    /// The name of a record in the history.
    pub(crate) fn entity_id(&self, fields: &Map<String, Json>) -> String {
        // A compound key is one text in the history: `prj_…/agt_…`.
        let parts: Vec<&str> = self.key.iter().filter_map(|name| fields.get(*name)?.as_str()).collect();
        parts.join("/")
    }

    /// The names of the columns whose changes are history.
    pub(crate) fn versioned(&self) -> impl Iterator<Item = &'static str> {
        self.columns.iter().filter(|column| column.tracking == HistoryTracking::Versioned).map(|column| column.name)
    }

    /// Whether anything that is history differs.
    pub(crate) fn differs(&self, old: &Map<String, Json>, new: &Map<String, Json>) -> bool {
        self.versioned().any(|name| old.get(name) != new.get(name))
    }
}

/// The SQL statements that every record of a kind needs, built once.
#[derive(Debug)]
pub(crate) struct TableStatements {
    /// By key; a lock may follow.
    pub(crate) find: String,
    /// Up to `FROM table t`.
    pub(crate) select: String,
    pub(crate) insert: String,
}

impl TableStatements {
    fn of(table: &RecordTable) -> Self {
        // Qualified, since tails may join other tables.
        let columns: Vec<String> = table.columns.iter().map(|column| format!("t.{}", column.name)).collect();
        let condition = key_condition(table, 1);
        Self {
            find: format!("SELECT {} FROM {} WHERE {condition}", table.list(), table.name),
            select: format!("SELECT {} FROM {} t", columns.join(", "), table.name),
            insert: table.insert(),
        }
    }
}

/// The condition that a row has this key, with parameters from `first` on.
pub(crate) fn key_condition(table: &RecordTable, first: usize) -> String {
    let parts: Vec<String> = table.key.iter().zip(first..).map(|(name, at)| format!("{name} = ?{at}")).collect();
    parts.join(" AND ")
}

/// Something that is stored as a row, changes by version, and leaves a history.
pub(crate) trait TableRecord: Serialize + DeserializeOwned + Clone {
    const TABLE: RecordTable;

    fn statements() -> &'static TableStatements;

    fn project(&self) -> Option<&ProjectId>;

    /// Sets the version, and the time of change where the record has one.
    fn mark(&mut self, version: i64, now: Moment);

    fn version(&self) -> i64;

    fn to_fields(&self) -> Result<Map<String, Json>, PmFault> {
        match serde_json::to_value(self) {
            Ok(Json::Object(fields)) => Ok(fields),
            other => Err(PmFault::internal(format!("a record is not an object: {other:?}"))),
        }
    }

    fn from_row(row: &SqlRow) -> Result<Self, PmFault> {
        let table = Self::TABLE;
        cell::record(&table, row).map_err(|error| PmFault::internal(format!("bad row in {}: {error}", table.name)))
    }
}

macro_rules! record {
    ($type:ty, $name:literal, $entity:ident, $key:expr, $project:expr, [$($column:expr),+ $(,)?] $(, $updated:ident)?) => {
        impl TableRecord for $type {
            const TABLE: RecordTable =
                RecordTable { name: $name, entity: EntityType::$entity, key: &$key, columns: &[$($column),+] };

            fn statements() -> &'static TableStatements {
                // Built once per record type: they are used in every transaction.
                static STATEMENTS: LazyLock<TableStatements> = LazyLock::new(|| TableStatements::of(&<$type>::TABLE));
                &STATEMENTS
            }

            fn project(&self) -> Option<&ProjectId> {
                let project: fn(&Self) -> Option<&ProjectId> = $project;
                project(self)
            }

            fn mark(&mut self, version: i64, _now: Moment) {
                self.version = version;
                $(self.$updated = _now;)?
            }

            fn version(&self) -> i64 {
                self.version
            }
        }
    };
}

record!(
    Project,
    "project",
    Project,
    ["id"],
    |one| Some(&one.id),
    [
        plain("id"),
        plain("key"),
        plain("name"),
        plain("description"),
        plain("status"),
        // One column for all rules, so that a new rule needs no migration.
        json("policy"),
        // Taken by every new task, whose own event is the record of it.
        loose("next_number"),
        plain("version"),
        plain("created_at"),
        plain("updated_at"),
        plain("archived_at"),
    ],
    updated_at
);

record!(
    Agent,
    "agent",
    Agent,
    ["id"],
    |_| None,
    [
        plain("id"),
        plain("name"),
        plain("type"),
        plain("role_title"),
        json("capabilities"),
        plain("instructions"),
        plain("status"),
        plain("version"),
        plain("created_at"),
        plain("updated_at"),
    ],
    updated_at
);

record!(
    Membership,
    "membership",
    Membership,
    ["project_id", "agent_id"],
    |one| Some(&one.project_id),
    [plain("project_id"), plain("agent_id"), plain("role"), plain("version"),]
);

record!(
    AgentSession,
    "session",
    Session,
    ["id"],
    |one| one.project_id.as_ref(),
    [
        plain("id"),
        plain("agent_id"),
        plain("project_id"),
        plain("state"),
        plain("era"),
        plain("client_name"),
        plain("client_version"),
        plain("client_note"),
        plain("host"),
        plain("pid"),
        plain("process_nonce"),
        plain("started_at"),
        // Signs of life change too often to be history.
        loose("last_activity_at"),
        loose("heartbeat_at"),
        plain("disconnected_at"),
        plain("ended_at"),
        plain("end_kind"),
        plain("summary"),
        plain("resumes"),
        json("end_result"),
        plain("version"),
    ]
);

record!(
    Task,
    "task",
    Task,
    ["id"],
    |one| Some(&one.project_id),
    [
        plain("id"),
        plain("project_id"),
        plain("number"),
        plain("reference"),
        plain("title"),
        // Derived from the title, which is in the history.
        loose("title_key"),
        plain("description"),
        json("acceptance"),
        plain("status"),
        plain("priority"),
        plain("assignee_id"),
        plain("parent_id"),
        json("labels"),
        json("required_capabilities"),
        plain("due_at"),
        plain("estimate_min"),
        plain("created_by"),
        plain("discovered_from"),
        plain("blocked_reason"),
        json("result"),
        json("review"),
        plain("fence"),
        // Counters, kept so that the ready list is one index scan; `verify` recounts them.
        loose("open_blockers"),
        loose("unblocks"),
        json("external"),
        plain("version"),
        plain("created_at"),
        plain("updated_at"),
        plain("started_at"),
        plain("completed_at"),
    ],
    updated_at
);

record!(
    TaskDependency,
    "dependency",
    Dependency,
    ["task_id", "depends_on_id"],
    |one| Some(&one.project_id),
    [
        plain("project_id"),
        plain("task_id"),
        plain("depends_on_id"),
        plain("kind"),
        plain("created_by"),
        plain("created_at"),
        plain("version"),
    ]
);

record!(
    Claim,
    "claim",
    Claim,
    ["id"],
    |one| Some(&one.project_id),
    [
        plain("id"),
        plain("task_id"),
        plain("project_id"),
        plain("session_id"),
        plain("agent_id"),
        plain("fence"),
        plain("state"),
        plain("ttl_s"),
        plain("acquired_at"),
        // Renewed by every call of the holder.
        loose("renewed_at"),
        loose("expires_at"),
        plain("deadline_at"),
        plain("checkpoint"),
        json("git"),
        plain("end_reason"),
        plain("ended_at"),
        plain("version"),
    ]
);

record!(
    ContextEntry,
    "context",
    Context,
    ["id"],
    |one| Some(&one.project_id),
    [
        plain("id"),
        plain("project_id"),
        plain("task_id"),
        plain("agent_id"),
        plain("session_id"),
        plain("type"),
        plain("content"),
        plain("uri"),
        plain("supersedes"),
        plain("state"),
        plain("created_at"),
        plain("version"),
    ]
);

record!(
    Handoff,
    "handoff",
    Handoff,
    ["id"],
    |one| Some(&one.project_id),
    [
        plain("id"),
        plain("task_id"),
        plain("project_id"),
        plain("from_agent_id"),
        plain("from_session_id"),
        plain("to_agent_id"),
        plain("kind"),
        plain("summary"),
        json("next_steps"),
        json("warnings"),
        json("done"),
        json("uncertain"),
        json("git"),
        plain("status"),
        plain("accepted_by"),
        plain("accepted_session_id"),
        plain("accepted_at"),
        plain("reason"),
        plain("expires_at"),
        plain("created_at"),
        plain("version"),
    ]
);

record!(
    AccessToken,
    "token",
    Token,
    ["id"],
    |_| None,
    [
        plain("id"),
        plain("agent_id"),
        plain("hash"),
        json("scopes"),
        plain("created_at"),
        plain("expires_at"),
        plain("revoked_at"),
        plain("version"),
    ]
);

/// Every table of records, in an order in which each refers only to earlier ones (and a task to earlier tasks).
pub(crate) const TABLES: &[RecordTable] = &[
    Agent::TABLE,
    Project::TABLE,
    Membership::TABLE,
    AgentSession::TABLE,
    Task::TABLE,
    TaskDependency::TABLE,
    Claim::TABLE,
    ContextEntry::TABLE,
    Handoff::TABLE,
    AccessToken::TABLE,
];

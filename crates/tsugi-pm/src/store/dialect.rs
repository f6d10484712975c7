//! The few places where the two engines say the same thing in different words.

use crate::domain::policy::ProjectPolicy;

/// Which SQL is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SqlDialect {
    Sqlite,
    Postgres,
}

impl SqlDialect {
    /// Keeps the selected rows from others until the transaction ends. SQLite has one writer, so nothing is needed.
    ///
    /// Not `FOR UPDATE`: every row that refers to this one takes `KEY SHARE` on it in passing, in whatever order, which
    /// waits for that lock and not for this. A transaction that holds a session and waits for its task would meet one that
    /// holds the task and writes a handoff from the session, and they would deadlock.
    pub(crate) const fn for_update(self) -> &'static str {
        match self {
            Self::Sqlite => "",
            Self::Postgres => " FOR NO KEY UPDATE",
        }
    }

    /// The same, waiting also for transactions that hold `for_key_share`.
    pub(crate) const fn for_update_alone(self) -> &'static str {
        match self {
            Self::Sqlite => "",
            Self::Postgres => " FOR UPDATE",
        }
    }

    /// Like `for_update`, skipping rows that another transaction holds right now.
    pub(crate) const fn skip_locked(self) -> &'static str {
        match self {
            Self::Sqlite => "",
            Self::Postgres => " FOR NO KEY UPDATE SKIP LOCKED",
        }
    }

    /// Keeps a project from being archived, without keeping others from creating tasks in it:
    /// the task counter's update takes `NO KEY UPDATE`, which this does not conflict with.
    pub(crate) const fn for_key_share(self) -> &'static str {
        match self {
            Self::Sqlite => "",
            Self::Postgres => " FOR KEY SHARE",
        }
    }

    /// A condition: the JSON list in `whole` has every entry of the JSON list in `part`.
    pub(crate) fn has_all(self, whole: &str, part: &str) -> String {
        match self {
            Self::Sqlite => format!(
                "({part} = '[]' OR NOT EXISTS (SELECT 1 FROM json_each({part}) AS p WHERE p.value NOT IN (SELECT w.value FROM json_each({whole}) AS w)))"
            ),
            Self::Postgres => format!("({part} = '[]' OR CAST({whole} AS jsonb) @> CAST({part} AS jsonb))"),
        }
    }

    /// A number in the JSON object in `column`.
    fn number_in(self, column: &str, field: &str) -> String {
        match self {
            Self::Sqlite => format!("CAST(json_extract({column}, '$.{field}') AS INTEGER)"),
            Self::Postgres => format!("CAST(CAST({column} AS jsonb) ->> '{field}' AS bigint)"),
        }
    }

    /// A condition on a session `t`: it is gone, and at the moment `?1` a project in which it holds something has
    /// waited long enough; or, when it holds nothing, its own project has.
    pub(crate) fn is_grace_over(self) -> String {
        let grace = self.number_in("p.policy", "resume_grace_s");
        let usual = ProjectPolicy::default().resume_grace_s;
        format!(
            "t.state = 'disconnected' AND t.disconnected_at <= ?1 AND (EXISTS (SELECT 1 FROM claim c \
             JOIN project p ON p.id = c.project_id WHERE c.session_id = t.id AND c.state = 'live' \
             AND t.disconnected_at + 1000 * {grace} <= ?1) OR (t.disconnected_at + 1000 * COALESCE((SELECT {grace} \
             FROM project p WHERE p.id = t.project_id), {usual}) <= ?1 AND NOT EXISTS (SELECT 1 FROM claim c \
             WHERE c.session_id = t.id AND c.state = 'live')))"
        )
    }

    /// How many live claims have run out by the moment `?1`, by their lease or by the grace of their session.
    pub(crate) fn count_overdue(self) -> String {
        let grace = self.number_in("p.policy", "resume_grace_s");
        format!(
            "SELECT COUNT(*) FROM claim c JOIN session s ON s.id = c.session_id JOIN project p ON p.id = c.project_id \
             WHERE c.state = 'live' AND (c.expires_at <= ?1 \
             OR (s.state = 'disconnected' AND s.disconnected_at + 1000 * {grace} <= ?1))"
        )
    }

    /// The name of a parameter: both engines number them, with different signs.
    pub(crate) fn translate(self, sql: &str) -> String {
        match self {
            Self::Sqlite => sql.to_owned(),
            Self::Postgres => sql.replace('?', "$"),
        }
    }
}

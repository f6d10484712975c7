//! What the board for people asks of the store: columns with their sizes, and everything that waits for a person.

use super::Tx;
use super::event::{COLUMNS, from_row, one_of};
use super::task::json_list;
use crate::domain::claim::Claim;
use crate::domain::event::HistoryEvent;
use crate::domain::fault::PmFault;
use crate::domain::id::{AgentId, ProjectId, SessionId, TaskId};
use crate::domain::session::AgentSession;
use crate::domain::task::{Priority, Task, TaskStatus};
use crate::domain::time::Moment;
use crate::store::dialect::SqlDialect;
use crate::store::value::{SqlRow, SqlValue};

/// Which tasks of a project stand on the board.
#[derive(Clone, Debug)]
pub(crate) struct BoardFilter {
    pub(crate) project: ProjectId,
    pub(crate) assignee: Option<AgentId>,
    pub(crate) label: Option<String>,
    pub(crate) priority: Option<Priority>,
    /// A part of the title or the reference.
    pub(crate) text: Option<String>,
    /// Without what could not be begun.
    pub(crate) is_ready_only: bool,
    /// What was done before this is not shown.
    pub(crate) done_since: Moment,
}

/// A prerequisite that is not done, and the task that waits for it.
#[derive(Clone, Debug)]
pub(crate) struct WaitingTask {
    pub(crate) task: TaskId,
    pub(crate) on: TaskId,
    pub(crate) reference: String,
    pub(crate) status: TaskStatus,
}

/// A condition on a session `t`: it is about the project `?1`, or about none and its agent belongs there. What agents
/// do elsewhere is none of this project's business.
const AT_HOME: &str = "(t.project_id = ?1 OR (t.project_id IS NULL AND EXISTS (SELECT 1 FROM membership m \
                       WHERE m.agent_id = t.agent_id AND m.project_id = ?1)))";

/// An edge of the graph of dependencies.
pub(crate) type DependencyEdge = (TaskId, TaskId);

/// A process that writes signs of life.
#[derive(Clone, Debug)]
pub(crate) struct AttachedProcess {
    pub(crate) host: String,
    pub(crate) pid: i64,
    pub(crate) heartbeat_at: Moment,
    pub(crate) sessions: i64,
}

/// Which events a timeline shows.
#[derive(Clone, Debug, Default)]
pub(crate) struct TimelineFilter {
    pub(crate) projects: Option<Vec<ProjectId>>,
    pub(crate) actor: Option<AgentId>,
    pub(crate) task: Option<TaskId>,
    /// The kind of thing, or the kind of event.
    pub(crate) kind: Option<String>,
    /// Newest first before this number; else oldest first.
    pub(crate) before: Option<i64>,
    pub(crate) since: i64,
    pub(crate) limit: i64,
}

impl BoardFilter {
    fn condition(&self, dialect: SqlDialect, values: &mut Vec<SqlValue>) -> String {
        values.extend([self.project.as_str().into(), self.done_since.into()]);
        let mut condition =
            String::from("t.project_id = ?1 AND (t.status <> 'done' OR COALESCE(t.completed_at, t.updated_at) >= ?2)");
        // Every part appends its own parameter, whose number it is given.
        let mut add = |value: SqlValue, part: &dyn Fn(usize) -> String| {
            values.push(value);
            condition += &format!(" AND {}", part(values.len()));
        };
        if let Some(agent) = &self.assignee {
            add(agent.as_str().into(), &|at| format!("t.assignee_id = ?{at}"));
        }
        if let Some(priority) = self.priority {
            add(priority.as_str().into(), &|at| format!("t.priority = ?{at}"));
        }
        if let Some(label) = &self.label {
            let list = json_list(std::slice::from_ref(label));
            add(list.into(), &|at| dialect.has_all("t.labels", &format!("CAST(?{at} AS TEXT)")));
        }
        if let Some(text) = &self.text {
            // A scan of one project's titles: quick enough for a board, and it finds parts of words.
            let part = |at| format!("LOWER(t.reference || ' ' || t.title) LIKE CAST(?{at} AS TEXT) ESCAPE '!'");
            add(pattern(text).into(), &part);
        }
        if self.is_ready_only {
            condition += " AND (t.status <> 'todo' OR t.open_blockers = 0)";
        }
        condition
    }
}

/// A text as the middle of a pattern; its own signs mean themselves.
fn pattern(text: &str) -> String {
    let mut pattern = String::from("%");
    for letter in text.to_lowercase().chars() {
        // The signs of a pattern are searched for literally.
        if matches!(letter, '%' | '_' | '!') {
            pattern.push('!');
        }
        pattern.push(letter);
    }
    pattern + "%"
}

/// The order of a column: what can be begun first, then by urgency; what is done by when.
fn column_order(status: TaskStatus) -> &'static str {
    match status {
        TaskStatus::Done => "COALESCE(t.completed_at, t.updated_at) DESC, t.id",
        // What can start comes before what waits.
        TaskStatus::Todo => "CASE WHEN t.open_blockers > 0 THEN 1 ELSE 0 END, t.priority_rank, t.updated_at DESC, t.id",
        _ => "t.priority_rank, t.updated_at DESC, t.id",
    }
}

impl Tx<'_> {
    /// How many tasks of each status the board has.
    pub(crate) fn board_counts(&mut self, filter: &BoardFilter) -> Result<Vec<(TaskStatus, i64)>, PmFault> {
        let mut values = Vec::new();
        let condition = filter.condition(self.dialect(), &mut values);
        let sql = format!("SELECT t.status, COUNT(*) FROM task t WHERE {condition} GROUP BY t.status");
        self.rows(&sql, &values)?.iter().map(|row| Ok((row.text(0)?.parse()?, row.int(1)?))).collect()
    }

    /// The first tasks of a column.
    pub(crate) fn board_column(
        &mut self,
        filter: &BoardFilter,
        status: TaskStatus,
        limit: i64,
    ) -> Result<Vec<Task>, PmFault> {
        let mut values = Vec::new();
        let condition = filter.condition(self.dialect(), &mut values);
        values.extend([status.as_str().into(), limit.into()]);
        let (last, order) = (values.len(), column_order(status));
        self.select(&format!("WHERE {condition} AND t.status = ?{} ORDER BY {order} LIMIT ?{last}", last - 1), &values)
    }

    /// What these tasks wait for.
    pub(crate) fn board_waiting(&mut self, tasks: &[&TaskId]) -> Result<Vec<WaitingTask>, PmFault> {
        let mut values = Vec::new();
        // One query for all cards of a column.
        let those = one_of("d.task_id", tasks.iter().map(|id| id.as_str()), &mut values);
        let sql = format!(
            "SELECT d.task_id, b.id, b.reference, b.status FROM dependency d JOIN task b ON b.id = d.depends_on_id \
             WHERE d.kind = 'blocks' AND b.status <> 'done'{those} ORDER BY b.number"
        );
        self.rows(&sql, &values)?.iter().map(waiting).collect()
    }

    /// Unfinished tasks of a project behind a prerequisite that was cancelled: nothing moves until a person decides.
    pub(crate) fn board_behind_cancelled(
        &mut self,
        project: &ProjectId,
        limit: i64,
    ) -> Result<Vec<WaitingTask>, PmFault> {
        let sql = "SELECT t.id, b.id, b.reference, b.status FROM task b JOIN dependency d ON d.depends_on_id = b.id \
                   AND d.kind = 'blocks' JOIN task t ON t.id = d.task_id WHERE b.project_id = ?1 \
                   AND b.status = 'cancelled' AND t.status NOT IN ('done', 'cancelled') ORDER BY t.number LIMIT ?2";
        self.rows(sql, &[project.as_str().into(), limit.into()])?.iter().map(waiting).collect()
    }

    /// What workers put into the backlog, where a manager's word is needed before it is work.
    pub(crate) fn board_triage(&mut self, project: &ProjectId, limit: i64) -> Result<Vec<Task>, PmFault> {
        let tail = "JOIN membership m ON m.project_id = t.project_id AND m.agent_id = t.created_by \
                    AND m.role = 'worker' WHERE t.project_id = ?1 AND t.status = 'backlog' \
                    ORDER BY t.priority_rank, t.created_at, t.id LIMIT ?2";
        self.select(tail, &[project.as_str().into(), limit.into()])
    }

    /// Sessions of a project's members that expired since a moment and whose agent has not come back.
    pub(crate) fn board_expired(
        &mut self,
        project: &ProjectId,
        since: Moment,
        limit: i64,
    ) -> Result<Vec<AgentSession>, PmFault> {
        let tail = format!(
            "WHERE t.state = 'expired' AND {AT_HOME} AND COALESCE(t.ended_at, t.last_activity_at) >= ?2 \
             AND NOT EXISTS (SELECT 1 FROM session s WHERE s.agent_id = t.agent_id AND s.started_at > t.started_at) \
             ORDER BY t.last_activity_at DESC, t.id LIMIT ?3"
        );
        self.select(&tail, &[project.as_str().into(), since.into(), limit.into()])
    }

    /// What a session held when it expired.
    pub(crate) fn board_lost_by(&mut self, session: &SessionId) -> Result<Vec<Claim>, PmFault> {
        let tail = "WHERE t.session_id = ?1 AND t.state = 'expired' ORDER BY t.acquired_at, t.id LIMIT 5";
        self.select(tail, &[session.as_str().into()])
    }

    /// Sessions that are active or wait for their process, of those who belong to a project; holders of tasks first.
    pub(crate) fn board_sessions(&mut self, project: &ProjectId, limit: i64) -> Result<Vec<AgentSession>, PmFault> {
        let tail = format!(
            "WHERE t.state IN ('active', 'disconnected') AND ({AT_HOME} OR EXISTS (SELECT 1 FROM claim c \
             WHERE c.session_id = t.id AND c.state = 'live' AND c.project_id = ?1)) ORDER BY (SELECT COUNT(*) \
             FROM claim c WHERE c.session_id = t.id AND c.state = 'live') DESC, t.last_activity_at DESC, t.id LIMIT ?2"
        );
        self.select(&tail, &[project.as_str().into(), limit.into()])
    }

    /// The labels of a project's unfinished tasks.
    pub(crate) fn board_labels(&mut self, project: &ProjectId, limit: i64) -> Result<Vec<String>, PmFault> {
        // Unpacking a JSON list is where the dialects differ most.
        let (value, each) = match self.dialect() {
            SqlDialect::Sqlite => ("l.value", "json_each(t.labels) AS l"),
            SqlDialect::Postgres => ("l.value", "jsonb_array_elements_text(CAST(t.labels AS jsonb)) AS l(value)"),
        };
        let sql = format!(
            "SELECT DISTINCT {value} AS label FROM task t, {each} WHERE t.project_id = ?1 AND t.labels <> '[]' \
             AND t.status NOT IN ('done', 'cancelled') ORDER BY label LIMIT ?2"
        );
        self.rows(&sql, &[project.as_str().into(), limit.into()])?
            .iter()
            .map(|row| Ok(row.text(0)?.to_owned()))
            .collect()
    }

    /// The edges that touch these tasks.
    pub(crate) fn board_edges(&mut self, tasks: &[TaskId], limit: i64) -> Result<Vec<DependencyEdge>, PmFault> {
        let mut values = Vec::new();
        let from = one_of("d.task_id", tasks.iter().map(TaskId::as_str), &mut values);
        let on = one_of("d.depends_on_id", tasks.iter().map(TaskId::as_str), &mut values);
        values.push(limit.into());
        let sql = format!(
            "SELECT d.task_id, d.depends_on_id FROM dependency d WHERE d.kind = 'blocks' AND ((1 = 1{from}) \
             OR (1 = 1{on})) ORDER BY d.created_at, d.task_id, d.depends_on_id LIMIT ?{}",
            values.len()
        );
        let rows = self.rows(&sql, &values)?;
        rows.iter().map(|row| Ok((TaskId::parse(row.text(0)?)?, TaskId::parse(row.text(1)?)?))).collect()
    }

    /// Events by who, about what, and of which kind.
    pub(crate) fn board_timeline(&mut self, filter: &TimelineFilter) -> Result<Vec<HistoryEvent>, PmFault> {
        // A backward page ends before its cursor.
        let horizon = filter.before.map_or(i64::MAX, |before| before.saturating_sub(1));
        let (mut condition, mut values) =
            (String::from("seq > ?1 AND seq <= ?2"), vec![filter.since.into(), horizon.into()]);
        if let Some(projects) = &filter.projects {
            condition += &one_of("project_id", projects.iter().map(ProjectId::as_str), &mut values);
        }
        if let Some(actor) = &filter.actor {
            values.push(actor.as_str().into());
            condition += &format!(" AND actor_agent_id = ?{}", values.len());
        }
        if let Some(kind) = &filter.kind {
            values.push(kind.as_str().into());
            let at = values.len();
            // `handoff` and `handoff.created` are both kinds to a person.
            condition += &format!(" AND (entity_type = ?{at} OR type = ?{at})");
        }
        if let Some(task) = &filter.task {
            // A dependency's id begins with the task that waits.
            values.extend([task.as_str().into(), format!("{task}/%").into()]);
            let (at, edge) = (values.len() - 1, values.len());
            condition += &format!(
                " AND (entity_id IN (SELECT CAST(?{at} AS TEXT) UNION ALL SELECT id FROM claim WHERE task_id = ?{at} \
                 UNION ALL SELECT id FROM handoff WHERE task_id = ?{at} UNION ALL SELECT id FROM context WHERE \
                 task_id = ?{at}) OR (entity_type = 'dependency' AND entity_id LIKE CAST(?{edge} AS TEXT)))"
            );
        }
        values.push(filter.limit.into());
        let order = if filter.before.is_some() { "seq DESC" } else { "seq" };
        let sql = format!("SELECT {COLUMNS} FROM event WHERE {condition} ORDER BY {order} LIMIT ?{}", values.len());
        self.rows(&sql, &values)?.iter().map(from_row).collect()
    }

    /// The lease that ran out first and was not ended yet.
    pub(crate) fn board_oldest_lease(&mut self) -> Result<Option<Moment>, PmFault> {
        let now = self.now;
        let oldest = self.number(
            "SELECT COALESCE(MIN(expires_at), 0) FROM claim WHERE state = 'live' AND expires_at <= ?1",
            &[now.into()],
        )?;
        Ok((oldest > 0).then_some(Moment(oldest)))
    }

    /// Processes that host sessions, the newest sign of life first.
    pub(crate) fn board_processes(&mut self, limit: i64) -> Result<Vec<AttachedProcess>, PmFault> {
        let sql = "SELECT COALESCE(MIN(host), ''), COALESCE(MIN(pid), 0), MAX(heartbeat_at), COUNT(*) FROM session \
                   WHERE state = 'active' AND process_nonce IS NOT NULL AND heartbeat_at IS NOT NULL \
                   GROUP BY process_nonce ORDER BY 3 DESC LIMIT ?1";
        let rows = self.rows(sql, &[limit.into()])?;
        rows.iter()
            .map(|row| {
                let (host, pid) = (row.text(0)?.to_owned(), row.int(1)?);
                Ok(AttachedProcess { host, pid, heartbeat_at: Moment(row.int(2)?), sessions: row.int(3)? })
            })
            .collect()
    }

    /// Notices that were not shown yet, and how many agents they are for.
    pub(crate) fn board_notices(&mut self) -> Result<(i64, i64), PmFault> {
        let rows = self.rows("SELECT COUNT(*), COUNT(DISTINCT agent_id) FROM notice WHERE shown = 0", &[])?;
        rows.first().map_or(Ok((0, 0)), |row| Ok((row.int(0)?, row.int(1)?)))
    }
}

fn waiting(row: &SqlRow) -> Result<WaitingTask, PmFault> {
    Ok(WaitingTask {
        task: TaskId::parse(row.text(0)?)?,
        on: TaskId::parse(row.text(1)?)?,
        reference: row.text(2)?.to_owned(),
        status: row.text(3)?.parse()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signs_of_a_pattern_mean_themselves() {
        assert_eq!(pattern("100% Sure_!"), "%100!% sure!_!!%");
    }
}

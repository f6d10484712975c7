//! Tasks and dependencies in a transaction.

use std::cmp::Reverse;

use super::claim::LIVE;
use super::event::one_of;
use super::{EventNote, SqlQuery, Tx};
use crate::domain::claim::Claim;
use crate::domain::dependency::{DependencyKind, TaskDependency};
use crate::domain::fault::PmFault;
use crate::domain::id::{AgentId, ProjectId, TaskId, TaskRef};
use crate::domain::project::Project;
use crate::domain::task::{Priority, Task, TaskSort, TaskStatus};
use crate::domain::time::Moment;
use crate::store::table::TableRecord;
use crate::store::value::SqlValue;

/// The order in which ready tasks are offered; the partial indexes `task_ready` and `task_ready_mine` have it built in.
const READY_ORDER: &str = "ORDER BY t.priority_rank, t.unblocks DESC, t.created_at, t.id";
/// The condition that those indexes hold.
const READY: &str = "t.status = 'todo' AND t.open_blockers = 0";

/// How an order is written in SQL.
trait SqlOrder {
    fn column(self) -> &'static str;
    fn direction(self) -> (&'static str, &'static str);
}

impl SqlOrder for TaskSort {
    fn column(self) -> &'static str {
        match self {
            Self::Updated => "t.updated_at",
            Self::Created => "t.created_at",
            Self::Priority => "t.priority_rank",
            // Tasks without a date come last, and the cursor needs a number for them.
            Self::Due => "COALESCE(t.due_at, 9000000000000000)",
        }
    }

    fn direction(self) -> (&'static str, &'static str) {
        match self {
            Self::Updated => ("DESC", "<"),
            Self::Created | Self::Priority | Self::Due => ("ASC", ">"),
        }
    }
}

/// Which tasks to list.
#[derive(Clone, Debug)]
pub(crate) struct TaskFilter {
    pub(crate) projects: Vec<ProjectId>,
    pub(crate) statuses: Vec<TaskStatus>,
    pub(crate) assignee: Option<AgentId>,
    pub(crate) author: Option<AgentId>,
    pub(crate) holder: Option<AgentId>,
    pub(crate) label: Option<String>,
    pub(crate) parent: Option<TaskId>,
    pub(crate) untouched_since: Option<Moment>,
    pub(crate) text: Option<String>,
    pub(crate) sort: TaskSort,
    pub(crate) after: Option<(i64, String)>,
    pub(crate) limit: i64,
}

impl Tx<'_> {
    /// The task a caller named.
    pub(crate) fn task_get(&mut self, name: &TaskRef) -> Result<Task, PmFault> {
        let found = match name {
            TaskRef::Id(id) => self.find(&[id.as_str().into()])?,
            TaskRef::Reference(reference) => self.select_one("WHERE t.reference = ?1", &[reference.as_str().into()])?,
        };
        found.ok_or_else(|| PmFault::not_found("task", name))
    }

    /// The task, kept from others until the transaction ends; with it its claims, handoffs and dependencies.
    pub(crate) fn task_lock(&mut self, id: &TaskId) -> Result<Task, PmFault> {
        self.find_locked(&[id.as_str().into()])?.ok_or_else(|| PmFault::not_found("task", id))
    }

    /// A task that was seen, locked like [`Tx::task_lock`], after its project, which is kept from being archived;
    /// and the claim that holds it. In one trip.
    pub(crate) fn task_open(&mut self, seen: &Task) -> Result<(Project, Task, Option<Claim>), PmFault> {
        let dialect = self.dialect();
        let share = format!("{}{}", Project::statements().find, dialect.for_key_share());
        let lock = format!("{}{}", Task::statements().find, dialect.for_update());
        // Project before task: the order in which every transaction locks.
        let answers = self.rows_many(vec![
            SqlQuery::new(share, vec![seen.project_id.as_str().into()]),
            SqlQuery::new(lock, vec![seen.id.as_str().into()]),
            Self::select_query::<Claim>(LIVE, vec![seen.id.as_str().into()]),
        ])?;
        let project = answers[0].first().map(Project::from_row).transpose()?;
        let task = answers[1].first().map(Task::from_row).transpose()?;
        Ok((
            project.ok_or_else(|| PmFault::not_found("project", &seen.project_id))?,
            task.ok_or_else(|| PmFault::not_found("task", &seen.id))?,
            answers[2].first().map(Claim::from_row).transpose()?,
        ))
    }

    /// Several tasks, locked in the order of their ids so that two callers cannot wait for each other.
    pub(crate) fn task_lock_all(&mut self, ids: &[TaskId]) -> Result<Vec<Task>, PmFault> {
        let mut ids = ids.to_vec();
        ids.sort();
        // A prerequisite may be named twice.
        ids.dedup();
        ids.iter().map(|id| self.task_lock(id)).collect()
    }

    /// Ready tasks of a project for one agent, best first: those assigned to the agent (also by a handoff), then free ones.
    pub(crate) fn task_ready(
        &mut self,
        pick: &ReadyPick<'_>,
        project: &ProjectId,
        limit: i64,
    ) -> Result<Vec<Task>, PmFault> {
        let mut tasks = self.task_ready_part(pick, project, "t.assignee_id = ?1", limit)?;
        // Two queries instead of an `OR`, which neither engine would serve from an index.
        let rest = limit - tasks.len() as i64;
        if rest > 0 {
            tasks.extend(self.task_ready_part(pick, project, "t.assignee_id IS NULL", rest)?);
        }
        Ok(tasks)
    }

    /// A project, kept from being archived until the transaction ends, and its best ready task, locked; on PostgreSQL
    /// passing over tasks that other claimers hold at this moment. One trip.
    pub(crate) fn project_share_and_ready(
        &mut self,
        pick: &ReadyPick<'_>,
        project: &ProjectId,
    ) -> Result<(Project, Option<Task>), PmFault> {
        let share = format!("{}{}", Project::statements().find, self.dialect().for_key_share());
        let pick = self.task_ready_query(pick, project);
        let answers = self.rows_many(vec![SqlQuery::new(share, vec![project.as_str().into()]), pick])?;
        let found = answers[0].first().map(Project::from_row).transpose()?;
        let task = answers[1].first().map(Task::from_row).transpose()?;
        Ok((found.ok_or_else(|| PmFault::not_found("project", project))?, task))
    }

    /// Asks for the best ready task and locks it: one that is assigned to the agent, or else one that is free. The second
    /// part is not even begun when the first finds something. `LIMIT 1` stands in the text, since a plan that is made
    /// before the number is known expects many rows and sorts them all.
    fn task_ready_query(&self, pick: &ReadyPick<'_>, project: &ProjectId) -> SqlQuery {
        let (columns, lock) = (Task::statements().select.as_str(), self.dialect().skip_locked());
        // Work that is assigned to the agent comes before free work, whatever its priority.
        let mine = self.task_ready_condition(pick, "t.assignee_id = ?1");
        let free = self.task_ready_condition(pick, "t.assignee_id IS NULL AND NOT EXISTS (SELECT 1 FROM mine)");
        let sql = format!(
            "WITH mine AS MATERIALIZED ({columns} {mine} {READY_ORDER} LIMIT 1{lock}), \
             free AS MATERIALIZED ({columns} {free} {READY_ORDER} LIMIT 1{lock}) \
             SELECT * FROM mine UNION ALL SELECT * FROM free"
        );
        SqlQuery::new(sql, pick.values(project))
    }

    fn task_ready_part(
        &mut self,
        pick: &ReadyPick<'_>,
        project: &ProjectId,
        whose: &str,
        limit: i64,
    ) -> Result<Vec<Task>, PmFault> {
        let condition = self.task_ready_condition(pick, whose);
        let mut values = pick.values(project);
        values.push(limit.into());
        self.select(&format!("{condition} {READY_ORDER} LIMIT ?5"), &values)
    }

    fn task_ready_condition(&self, pick: &ReadyPick<'_>, whose: &str) -> String {
        let dialect = self.dialect();
        // A parameter is named even where it is not used, so that every form of the query has the same list.
        let able = match pick.capabilities {
            Some(_) => dialect.has_all("CAST(?3 AS TEXT)", "t.required_capabilities"),
            None => "CAST(?3 AS TEXT) IS NOT NULL".to_owned(),
        };
        // An empty list of labels matches every task.
        let labelled = dialect.has_all("t.labels", "CAST(?4 AS TEXT)");
        format!(
            "WHERE t.project_id = ?2 AND {READY} AND {whose} AND CAST(?1 AS TEXT) IS NOT NULL AND {able} AND {labelled}"
        )
    }

    /// How many tasks of a project wait for others, counted up to a limit.
    pub(crate) fn task_waiting_count(&mut self, project: &ProjectId, limit: i64) -> Result<i64, PmFault> {
        let sql = "SELECT COUNT(*) FROM (SELECT 1 FROM task WHERE project_id = ?1 AND status = 'todo' \
                   AND open_blockers > 0 LIMIT ?2) AS waiting";
        self.number(sql, &[project.as_str().into(), limit.into()])
    }

    /// The open tasks that most others wait for.
    pub(crate) fn task_top_blockers(&mut self, project: &ProjectId, limit: i64) -> Result<Vec<Task>, PmFault> {
        let tail = "WHERE t.project_id = ?1 AND t.unblocks > 0 AND t.status NOT IN ('done', 'cancelled') \
                    ORDER BY t.unblocks DESC LIMIT ?2";
        self.select(tail, &[project.as_str().into(), limit.into()])
    }

    /// Open tasks of a project with the same title.
    pub(crate) fn task_twins(&mut self, project: &ProjectId, title_key: &str) -> Result<Vec<Task>, PmFault> {
        let tail = "WHERE t.project_id = ?1 AND t.title_key = ?2 AND t.status NOT IN ('done', 'cancelled') \
                    ORDER BY t.title_key, t.number LIMIT 5";
        self.select(tail, &[project.as_str().into(), title_key.into()])
    }

    /// How many tasks of a project stand where.
    pub(crate) fn task_counts(&mut self, project: &ProjectId) -> Result<Vec<(String, i64)>, PmFault> {
        let sql = "SELECT status, COUNT(*) FROM task WHERE project_id = ?1 GROUP BY status ORDER BY status";
        let rows = self.rows(sql, &[project.as_str().into()])?;
        rows.iter().map(|row| Ok((row.text(0)?.to_owned(), row.int(1)?))).collect()
    }

    /// A page of tasks.
    pub(crate) fn task_list(&mut self, filter: &TaskFilter) -> Result<Vec<Task>, PmFault> {
        let mut values = Vec::new();
        let mut condition = String::from("1 = 1");
        // Only filters that are set become conditions, so that the planner sees a simple query.
        let mut equal = |column: &str, value: Option<&str>, values: &mut Vec<SqlValue>| {
            if let Some(value) = value {
                values.push(value.into());
                condition += &format!(" AND {column} = ?{}", values.len());
            }
        };
        equal("t.assignee_id", filter.assignee.as_ref().map(AgentId::as_str), &mut values);
        equal("t.created_by", filter.author.as_ref().map(AgentId::as_str), &mut values);
        equal("t.parent_id", filter.parent.as_ref().map(TaskId::as_str), &mut values);
        condition += &one_of("t.project_id", filter.projects.iter().map(ProjectId::as_str), &mut values);
        if !filter.statuses.is_empty() {
            condition += &one_of("t.status", filter.statuses.iter().map(|one| one.as_str()), &mut values);
        }
        condition += &self.task_list_extra(filter, &mut values);
        values.push(filter.limit.into());
        let (direction, _) = filter.sort.direction();
        let column = filter.sort.column();
        let tail = format!("WHERE {condition} ORDER BY {column} {direction}, t.id {direction} LIMIT ?{}", values.len());
        self.select(&tail, &values)
    }

    fn task_list_extra(&self, filter: &TaskFilter, values: &mut Vec<SqlValue>) -> String {
        let mut condition = String::new();
        if let Some(holder) = &filter.holder {
            values.push(holder.as_str().into());
            let at = values.len();
            condition += &format!(
                " AND EXISTS (SELECT 1 FROM claim c WHERE c.task_id = t.id AND c.state = 'live' AND c.agent_id = ?{at})"
            );
        }
        if let Some(label) = &filter.label {
            values.push(json_list(std::slice::from_ref(label)).into());
            let part = format!("CAST(?{} AS TEXT)", values.len());
            condition += &format!(" AND {}", self.dialect().has_all("t.labels", &part));
        }
        if let Some(since) = filter.untouched_since {
            values.push(since.into());
            condition += &format!(" AND t.updated_at <= ?{}", values.len());
        }
        if let Some(text) = &filter.text {
            // A text without a searchable word finds nothing rather than everything.
            let found = self.search_condition(text, values).unwrap_or_else(|| "1 = 0".to_owned());
            condition += &format!(" AND t.id IN (SELECT d.id FROM search_doc d WHERE {found})");
        }
        if let Some((key, id)) = &filter.after {
            values.extend([SqlValue::from(*key), id.as_str().into()]);
            let (last, (_, than)) = (values.len(), filter.sort.direction());
            // The id breaks ties, so that no row is skipped or repeated between pages.
            condition += &format!(" AND ({}, t.id) {than} (?{}, ?{last})", filter.sort.column(), last - 1);
        }
        condition
    }

    /// Stores a changed task and keeps the counts of those that wait for it true.
    ///
    /// The counts make "ready" a matter of one row: the index finds ready tasks without looking at dependencies, and on
    /// PostgreSQL a claim needs no lock beyond the task it takes.
    pub(crate) fn task_update(&mut self, before: &Task, after: Task, what: EventNote<'_>) -> Result<Task, PmFault> {
        let was_done = before.status == TaskStatus::Done;
        let is_done = after.status == TaskStatus::Done;
        let after = self.update(before, after, what)?;
        if was_done != is_done {
            // Only the move into or out of `done` changes what others wait for.
            let step = if is_done { -1 } else { 1 };
            self.task_count_blockers(&after.id, step)?;
        }
        if before.title != after.title || before.description != after.description {
            self.task_index(&after)?;
        }
        Ok(after)
    }

    /// Makes a task findable.
    pub(crate) fn task_index(&mut self, task: &Task) -> Result<(), PmFault> {
        self.search_put(task.id.as_str(), "task", &task.project_id, &task.title, &task.description)
    }

    fn task_count_blockers(&mut self, prerequisite: &TaskId, step: i64) -> Result<(), PmFault> {
        let dependents = self.dependency_dependents(prerequisite)?;
        // One statement each, in the order of their ids, as locks are taken.
        for task in dependents {
            let sql = "UPDATE task SET open_blockers = open_blockers + ?2 WHERE id = ?1";
            self.run_later(sql, vec![task.as_str().into(), step.into()])?;
        }
        Ok(())
    }

    /// The tasks that wait for this one, by id.
    pub(crate) fn dependency_dependents(&mut self, prerequisite: &TaskId) -> Result<Vec<TaskId>, PmFault> {
        let sql = "SELECT task_id FROM dependency WHERE depends_on_id = ?1 AND kind = 'blocks' ORDER BY task_id";
        let rows = self.rows(sql, &[prerequisite.as_str().into()])?;
        rows.iter().map(|row| TaskId::parse(row.text(0)?)).collect()
    }

    /// The tasks that wait for this one and could begin now.
    pub(crate) fn task_newly_ready(&mut self, prerequisite: &TaskId) -> Result<Vec<Task>, PmFault> {
        let tail = format!(
            "JOIN dependency d ON d.task_id = t.id WHERE d.depends_on_id = ?1 AND d.kind = 'blocks' AND {READY} \
             ORDER BY t.priority_rank, t.number LIMIT 20"
        );
        self.select(&tail, &[prerequisite.as_str().into()])
    }

    /// The edges that leave a task.
    pub(crate) fn dependency_list(&mut self, task: &TaskId) -> Result<Vec<TaskDependency>, PmFault> {
        self.select("WHERE t.task_id = ?1 ORDER BY t.created_at, t.depends_on_id", &[task.as_str().into()])
    }

    /// The prerequisites that are not done.
    pub(crate) fn dependency_blockers(&mut self, task: &TaskId, limit: i64) -> Result<Vec<Task>, PmFault> {
        let tail = "JOIN dependency d ON d.depends_on_id = t.id WHERE d.task_id = ?1 AND d.kind = 'blocks' \
                    AND t.status <> 'done' ORDER BY t.number LIMIT ?2";
        self.select(tail, &[task.as_str().into(), limit.into()])
    }

    pub(crate) fn dependency_find(&mut self, task: &TaskId, on: &TaskId) -> Result<Option<TaskDependency>, PmFault> {
        self.find(&[task.as_str().into(), on.as_str().into()])
    }

    /// Whether `from` waits for `to`, directly or through others. Ask while holding the project's graph.
    pub(crate) fn dependency_reaches(&mut self, from: &TaskId, to: &TaskId) -> Result<bool, PmFault> {
        if from == to {
            return Ok(true);
        }
        // `UNION` without `ALL` ends even on a graph that has a circle already.
        let sql = "WITH RECURSIVE reach(id) AS (SELECT d.depends_on_id FROM dependency d WHERE d.task_id = ?1 AND \
                   d.kind = 'blocks' UNION SELECT d.depends_on_id FROM dependency d JOIN reach r ON d.task_id = r.id \
                   WHERE d.kind = 'blocks') SELECT 1 FROM reach WHERE id = ?2 LIMIT 1";
        Ok(!self.rows(sql, &[from.as_str().into(), to.as_str().into()])?.is_empty())
    }

    /// Keeps others from changing a project's dependency graph, so that two additions cannot close a circle together.
    pub(crate) fn dependency_lock_graph(&mut self, project: &ProjectId) -> Result<(), PmFault> {
        self.lock_name(&format!("graph:{project}"))
    }

    /// Adds an edge between two locked tasks, and counts it.
    pub(crate) fn dependency_add(
        &mut self,
        edge: &TaskDependency,
        prerequisite: &Task,
        what: EventNote<'_>,
    ) -> Result<(), PmFault> {
        self.insert(edge, what)?;
        self.dependency_count(edge, prerequisite, 1)
    }

    /// Removes an edge between two locked tasks, and counts it.
    pub(crate) fn dependency_remove(
        &mut self,
        edge: &TaskDependency,
        prerequisite: &Task,
        what: EventNote<'_>,
    ) -> Result<(), PmFault> {
        self.remove(edge, what)?;
        self.dependency_count(edge, prerequisite, -1)
    }

    fn dependency_count(&mut self, edge: &TaskDependency, prerequisite: &Task, step: i64) -> Result<(), PmFault> {
        if edge.kind != DependencyKind::Blocks {
            return Ok(());
        }
        let unblocks = "UPDATE task SET unblocks = unblocks + ?2 WHERE id = ?1";
        self.run_later(unblocks, vec![edge.depends_on_id.as_str().into(), step.into()])?;
        if prerequisite.status != TaskStatus::Done {
            let blockers = "UPDATE task SET open_blockers = open_blockers + ?2 WHERE id = ?1";
            self.run_later(blockers, vec![edge.task_id.as_str().into(), step.into()])?;
        }
        Ok(())
    }
}

/// For whom and with which labels ready tasks are looked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadyPick<'a> {
    pub(crate) agent: &'a AgentId,
    /// What the one who asks is able to do; unset when that does not matter.
    pub(crate) capabilities: Option<&'a [String]>,
    pub(crate) labels: &'a [String],
}

impl ReadyPick<'_> {
    /// The parameters of the query, from the first to the fourth.
    fn values(&self, project: &ProjectId) -> Vec<SqlValue> {
        let capabilities = json_list(self.capabilities.unwrap_or_default());
        vec![self.agent.as_str().into(), project.as_str().into(), capabilities.into(), json_list(self.labels).into()]
    }

    /// A task's place among ready ones, also those of other projects: the order of the query, in words of this
    /// language.
    pub(crate) fn place(&self, task: &Task) -> (bool, Priority, Reverse<i64>, Moment, TaskId) {
        let is_others = task.assignee_id.as_ref() != Some(self.agent);
        (is_others, task.priority, Reverse(task.unblocks), task.created_at, task.id.clone())
    }
}

pub(super) fn json_list(items: &[String]) -> String {
    serde_json::Value::from(items).to_string()
}

//! Handoffs and contexts in a transaction. A transaction that changes a handoff holds its task's row.

use super::claim::COUNT_OF_SESSION;
use super::event::one_of;
use super::{SqlQuery, Tx, records};
use crate::domain::claim::Claim;
use crate::domain::context::ContextEntry;
use crate::domain::fault::PmFault;
use crate::domain::handoff::Handoff;
use crate::domain::id::{AgentId, ContextId, HandoffId, ProjectId, SessionId, TaskId};
use crate::domain::task::Task;
use crate::domain::time::Moment;
use crate::store::value::SqlValue;

const PENDING: &str = "WHERE t.task_id = ?1 AND t.status = 'pending'";
const OF_TASK: &str = "WHERE t.task_id = ?1 AND t.state = 'active' ORDER BY CASE t.type WHEN 'decision' THEN 0 \
                       WHEN 'blocker' THEN 1 WHEN 'assumption' THEN 2 ELSE 3 END, t.created_at DESC, t.id LIMIT ?2";

/// What the next holder of a task should know; see [`Tx::task_brief`].
#[derive(Debug)]
pub(crate) struct HandoffBrief {
    pub(crate) held: i64,
    pub(crate) handoff: Option<Handoff>,
    pub(crate) contexts: Vec<ContextEntry>,
}

impl Tx<'_> {
    pub(crate) fn handoff_get(&mut self, id: &HandoffId) -> Result<Handoff, PmFault> {
        self.find(&[id.as_str().into()])?.ok_or_else(|| PmFault::not_found("handoff", id))
    }

    /// The handoff that waits on a task.
    pub(crate) fn handoff_pending(&mut self, task: &TaskId) -> Result<Option<Handoff>, PmFault> {
        self.select_one(PENDING, &[task.as_str().into()])
    }

    /// What is known of a task that was just locked, in one trip: how many tasks the session holds whose lease still
    /// runs, the handoff that waits on it, its context that still holds, and the end of its history, which is kept here.
    pub(crate) fn task_brief(
        &mut self,
        task: &TaskId,
        session: &SessionId,
        contexts: i64,
    ) -> Result<HandoffBrief, PmFault> {
        // Four questions in one trip: a claim's cost on PostgreSQL is its trips.
        let (id, now) = (SqlValue::from(task.as_str()), self.now);
        let answers = self.rows_many(vec![
            SqlQuery::new(COUNT_OF_SESSION, vec![session.as_str().into(), now.into()]),
            Self::select_query::<Handoff>(PENDING, vec![id.clone()]),
            Self::select_query::<ContextEntry>(OF_TASK, vec![id, contexts.into()]),
            Self::event_chain_query(task.as_str()),
        ])?;
        // The claim will append to the task's history, so its last hash is fetched along.
        self.event_chain_known(task.as_str(), &answers[3])?;
        Ok(HandoffBrief {
            held: answers[0].first().map_or(Ok(0), |row| row.int(0))?,
            handoff: records(&answers[1])?.into_iter().next(),
            contexts: records(&answers[2])?,
        })
    }

    /// A task's handoffs, newest first.
    pub(crate) fn handoff_history(&mut self, task: &TaskId, limit: i64) -> Result<Vec<Handoff>, PmFault> {
        let tail = "WHERE t.task_id = ?1 ORDER BY t.created_at DESC, t.id DESC LIMIT ?2";
        self.select(tail, &[task.as_str().into(), limit.into()])
    }

    /// The handoff that a hold on a task began with. The session is not asked for: a hold goes over to the session
    /// that resumes.
    pub(crate) fn handoff_accepted(&mut self, claim: &Claim) -> Result<Option<Handoff>, PmFault> {
        let tail = "WHERE t.task_id = ?1 AND t.accepted_by = ?2 AND t.accepted_at >= ?3 AND t.status = 'accepted' \
                    ORDER BY t.accepted_at DESC, t.id LIMIT 1";
        self.select_one(
            tail,
            &[claim.task_id.as_str().into(), claim.agent_id.as_str().into(), claim.acquired_at.into()],
        )
    }

    /// Handoffs that wait for an agent, oldest first: addressed to it and, if wished, open ones in its projects.
    pub(crate) fn handoff_for(
        &mut self,
        agent: &AgentId,
        projects: &[ProjectId],
        with_open: bool,
        after: (Moment, &str),
        limit: i64,
    ) -> Result<Vec<Handoff>, PmFault> {
        let mut values: Vec<SqlValue> = vec![agent.as_str().into(), after.0.into(), after.1.into(), limit.into()];
        let projects = one_of("t.project_id", projects.iter().map(ProjectId::as_str), &mut values);
        // An agent is not offered its own open handoffs.
        let open = if with_open { " OR (t.to_agent_id IS NULL AND t.from_agent_id <> ?1)" } else { "" };
        let tail = format!(
            "WHERE t.status = 'pending' AND (t.to_agent_id = ?1{open}) AND (t.created_at, t.id) > (?2, ?3){projects} \
             ORDER BY t.created_at, t.id LIMIT ?4"
        );
        self.select(&tail, &values)
    }

    /// Pending handoffs an agent has sent, oldest first.
    pub(crate) fn handoff_from(
        &mut self,
        agent: &AgentId,
        projects: &[ProjectId],
        after: (Moment, &str),
        limit: i64,
    ) -> Result<Vec<Handoff>, PmFault> {
        let mut values: Vec<SqlValue> = vec![agent.as_str().into(), after.0.into(), after.1.into(), limit.into()];
        let projects = one_of("t.project_id", projects.iter().map(ProjectId::as_str), &mut values);
        let tail = format!(
            "WHERE t.status = 'pending' AND t.from_agent_id = ?1 AND (t.created_at, t.id) > (?2, ?3){projects} \
             ORDER BY t.created_at, t.id LIMIT ?4"
        );
        self.select(&tail, &values)
    }

    /// Every handoff that waits in a project.
    pub(crate) fn handoff_of_project(&mut self, project: &ProjectId) -> Result<Vec<Handoff>, PmFault> {
        self.select("WHERE t.project_id = ?1 AND t.status = 'pending' ORDER BY t.task_id", &[project.as_str().into()])
    }

    /// Handoffs that were not accepted in time.
    pub(crate) fn handoff_due(&mut self, limit: i64) -> Result<Vec<Handoff>, PmFault> {
        let tail = "WHERE t.status = 'pending' AND t.expires_at <= ?1 ORDER BY t.expires_at LIMIT ?2";
        let now = self.now;
        self.select(tail, &[now.into(), limit.into()])
    }

    pub(crate) fn context_find(&mut self, id: &ContextId) -> Result<Option<ContextEntry>, PmFault> {
        self.find_locked(&[id.as_str().into()])
    }

    /// A task's context that still holds: decisions first, then blockers, assumptions and the rest, newest first.
    pub(crate) fn context_of_task(&mut self, task: &TaskId, limit: i64) -> Result<Vec<ContextEntry>, PmFault> {
        self.select(OF_TASK, &[task.as_str().into(), limit.into()])
    }

    /// A project's own context that still holds, newest first.
    pub(crate) fn context_of_project(&mut self, project: &ProjectId, limit: i64) -> Result<Vec<ContextEntry>, PmFault> {
        let tail = "WHERE t.project_id = ?1 AND t.task_id IS NULL AND t.state = 'active' \
                    ORDER BY t.created_at DESC, t.id LIMIT ?2";
        self.select(tail, &[project.as_str().into(), limit.into()])
    }

    /// What an agent wrote on a task since a moment, newest first.
    pub(crate) fn context_since(
        &mut self,
        task: &TaskId,
        since: Moment,
        limit: i64,
    ) -> Result<Vec<ContextEntry>, PmFault> {
        let tail = "WHERE t.task_id = ?1 AND t.created_at >= ?2 ORDER BY t.created_at DESC, t.id LIMIT ?3";
        self.select(tail, &[task.as_str().into(), since.into(), limit.into()])
    }

    /// Makes a context findable: by its words, and by the task it belongs to.
    pub(crate) fn context_index(&mut self, context: &ContextEntry, task: Option<&Task>) -> Result<(), PmFault> {
        // Found by the task's reference too.
        let title =
            task.map_or_else(|| context.kind.to_string(), |task| format!("{} {}", task.reference, context.kind));
        self.search_put(context.id.as_str(), "context", &context.project_id, &title, &context.content)
    }

    /// Makes a handoff findable: by what it says, and by its task.
    pub(crate) fn handoff_index(&mut self, handoff: &Handoff, task: Option<&Task>) -> Result<(), PmFault> {
        let steps = handoff.next_steps.iter().chain(&handoff.warnings).map(String::as_str);
        let body: Vec<&str> = [handoff.summary.as_str()].into_iter().chain(steps).collect();
        let title = task.map_or_else(|| "handoff".to_owned(), |task| format!("{} {}", task.reference, task.title));
        self.search_put(handoff.id.as_str(), "handoff", &handoff.project_id, &title, &body.join("\n"))
    }
}

//! Claims in a transaction. A transaction that changes one holds its task's row.

use super::event::one_of;
use super::membership::AT_WORK;
use super::{Tx, records};
use crate::domain::claim::Claim;
use crate::domain::fault::PmFault;
use crate::domain::id::{AgentId, ProjectId, SessionId, TaskId};
use crate::domain::member::Membership;
use crate::store::value::SqlValue;

pub(super) const LIVE: &str = "WHERE t.task_id = ?1 AND t.state = 'live'";
const OF_SESSION: &str = "WHERE t.session_id = ?1 AND t.state = 'live' ORDER BY t.acquired_at, t.id";

/// How many tasks a session holds whose lease still runs.
pub(super) const COUNT_OF_SESSION: &str =
    "SELECT COUNT(*) FROM claim WHERE session_id = ?1 AND state = 'live' AND expires_at > ?2";

impl Tx<'_> {
    /// The claim that holds a task now.
    pub(crate) fn claim_live(&mut self, task: &TaskId) -> Result<Option<Claim>, PmFault> {
        self.select_one(LIVE, &[task.as_str().into()])
    }

    /// The last claim on a task, live or not.
    pub(crate) fn claim_last(&mut self, task: &TaskId) -> Result<Option<Claim>, PmFault> {
        self.select_one("WHERE t.task_id = ?1 ORDER BY t.fence DESC LIMIT 1", &[task.as_str().into()])
    }

    /// The last claim that a session had on a task.
    pub(crate) fn claim_last_of_session(
        &mut self,
        task: &TaskId,
        session: &SessionId,
    ) -> Result<Option<Claim>, PmFault> {
        let tail = "WHERE t.task_id = ?1 AND t.session_id = ?2 ORDER BY t.fence DESC LIMIT 1";
        self.select_one(tail, &[task.as_str().into(), session.as_str().into()])
    }

    /// A task's claims, newest first.
    pub(crate) fn claim_history(&mut self, task: &TaskId, limit: i64) -> Result<Vec<Claim>, PmFault> {
        self.select("WHERE t.task_id = ?1 ORDER BY t.fence DESC LIMIT ?2", &[task.as_str().into(), limit.into()])
    }

    /// The tasks a session holds, oldest hold first.
    pub(crate) fn claim_of_session(&mut self, session: &SessionId) -> Result<Vec<Claim>, PmFault> {
        self.select(OF_SESSION, &[session.as_str().into()])
    }

    /// The same, and an agent's memberships in projects where work goes on, in one trip.
    pub(crate) fn claim_of_session_and_places(
        &mut self,
        session: &SessionId,
        agent: &AgentId,
    ) -> Result<(Vec<Claim>, Vec<Membership>), PmFault> {
        let answers = self.rows_many(vec![
            Self::select_query::<Claim>(OF_SESSION, vec![session.as_str().into()]),
            Self::select_query::<Membership>(AT_WORK, vec![agent.as_str().into()]),
        ])?;
        Ok((records(&answers[0])?, records(&answers[1])?))
    }

    /// The tasks an agent holds in any session.
    pub(crate) fn claim_of_agent(&mut self, agent: &AgentId) -> Result<Vec<Claim>, PmFault> {
        let tail = "WHERE t.agent_id = ?1 AND t.state = 'live' ORDER BY t.acquired_at, t.id";
        self.select(tail, &[agent.as_str().into()])
    }

    /// Everything that is held in a project.
    pub(crate) fn claim_of_project(&mut self, project: &ProjectId) -> Result<Vec<Claim>, PmFault> {
        self.select("WHERE t.project_id = ?1 AND t.state = 'live' ORDER BY t.task_id", &[project.as_str().into()])
    }

    /// Claims whose lease has run out, longest first; of some projects when they are named.
    pub(crate) fn claim_due(&mut self, projects: Option<&[ProjectId]>, limit: i64) -> Result<Vec<Claim>, PmFault> {
        let mut values: Vec<SqlValue> = vec![self.now.into(), limit.into()];
        let projects = match projects {
            None => String::new(),
            Some(some) => one_of("t.project_id", some.iter().map(ProjectId::as_str), &mut values),
        };
        let tail = format!("WHERE t.state = 'live' AND t.expires_at <= ?1{projects} ORDER BY t.expires_at LIMIT ?2");
        self.select(&tail, &values)
    }
}

//! Agents in a transaction.

use super::Tx;
use crate::domain::agent::Agent;
use crate::domain::fault::PmFault;
use crate::domain::id::{AgentId, ProjectId};
use crate::store::value::SqlValue;

impl Tx<'_> {
    pub(crate) fn agent_get(&mut self, id: &AgentId) -> Result<Agent, PmFault> {
        self.find(&[id.as_str().into()])?.ok_or_else(|| PmFault::not_found("agent", id))
    }

    pub(crate) fn agent_find(&mut self, id: &AgentId) -> Result<Option<Agent>, PmFault> {
        self.find(&[id.as_str().into()])
    }

    pub(crate) fn agent_lock(&mut self, id: &AgentId) -> Result<Agent, PmFault> {
        self.find_locked(&[id.as_str().into()])?.ok_or_else(|| PmFault::not_found("agent", id))
    }

    pub(crate) fn agent_by_name(&mut self, name: &str) -> Result<Option<Agent>, PmFault> {
        self.select_one("WHERE t.name = ?1", &[name.into()])
    }

    /// Agents, by id; of one project when given.
    pub(crate) fn agent_list(
        &mut self,
        project: Option<&ProjectId>,
        after: &str,
        limit: i64,
    ) -> Result<Vec<Agent>, PmFault> {
        let values: [SqlValue; 3] = [project.map(ProjectId::as_str).into(), after.into(), limit.into()];
        let tail = "WHERE t.id > ?2 AND (CAST(?1 AS TEXT) IS NULL OR EXISTS (SELECT 1 FROM membership m \
                    WHERE m.project_id = ?1 AND m.agent_id = t.id)) ORDER BY t.id LIMIT ?3";
        self.select(tail, &values)
    }
}

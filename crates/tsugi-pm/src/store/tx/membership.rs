//! Memberships in a transaction: who belongs to which project, and as what.

use super::Tx;
use super::event::one_of;
use crate::domain::fault::PmFault;
use crate::domain::id::{AgentId, ProjectId};
use crate::domain::member::{Membership, Role};
use crate::store::value::SqlValue;

pub(super) const AT_WORK: &str =
    "JOIN project p ON p.id = t.project_id WHERE t.agent_id = ?1 AND p.status = 'active' ORDER BY t.project_id";

impl Tx<'_> {
    pub(crate) fn membership_find(
        &mut self,
        project: &ProjectId,
        agent: &AgentId,
    ) -> Result<Option<Membership>, PmFault> {
        self.find(&[project.as_str().into(), agent.as_str().into()])
    }

    pub(crate) fn membership_lock(
        &mut self,
        project: &ProjectId,
        agent: &AgentId,
    ) -> Result<Option<Membership>, PmFault> {
        self.find_locked(&[project.as_str().into(), agent.as_str().into()])
    }

    pub(crate) fn membership_of_agent(&mut self, agent: &AgentId) -> Result<Vec<Membership>, PmFault> {
        self.select("WHERE t.agent_id = ?1 ORDER BY t.project_id", &[agent.as_str().into()])
    }

    /// An agent's memberships in projects where work goes on.
    pub(crate) fn membership_at_work(&mut self, agent: &AgentId) -> Result<Vec<Membership>, PmFault> {
        self.select(AT_WORK, &[agent.as_str().into()])
    }

    pub(crate) fn membership_of_project(&mut self, project: &ProjectId) -> Result<Vec<Membership>, PmFault> {
        self.select("WHERE t.project_id = ?1 ORDER BY t.agent_id", &[project.as_str().into()])
    }

    /// Whether a person who may act belongs to the project: then finished work is reviewed unless the policy says no.
    pub(crate) fn membership_has_human(&mut self, project: &ProjectId) -> Result<bool, PmFault> {
        let roles = [Role::Owner, Role::Manager, Role::Worker].map(Role::as_str);
        let mut values = vec![SqlValue::from(project.as_str())];
        let roles = one_of("m.role", roles.into_iter(), &mut values);
        let sql = format!(
            "SELECT 1 FROM membership m JOIN agent a ON a.id = m.agent_id \
             WHERE m.project_id = ?1 AND a.type = 'human' AND a.status = 'active'{roles} LIMIT 1"
        );
        Ok(!self.rows(&sql, &values)?.is_empty())
    }
}

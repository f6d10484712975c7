//! Projects, agents, memberships and tokens in a transaction.

use super::Tx;
use super::event::one_of;
use crate::domain::agent::Agent;
use crate::domain::fault::PmFault;
use crate::domain::id::{AgentId, ProjectId};
use crate::domain::member::{Membership, Role};
use crate::domain::project::Project;
use crate::domain::token::AccessToken;
use crate::store::value::SqlValue;

pub(super) const AT_WORK: &str =
    "JOIN project p ON p.id = t.project_id WHERE t.agent_id = ?1 AND p.status = 'active' ORDER BY t.project_id";

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

    pub(crate) fn project_get(&mut self, id: &ProjectId) -> Result<Project, PmFault> {
        self.find(&[id.as_str().into()])?.ok_or_else(|| PmFault::not_found("project", id))
    }

    /// The project, kept from being archived while this transaction changes something in it.
    pub(crate) fn project_share(&mut self, id: &ProjectId) -> Result<Project, PmFault> {
        let lock = self.dialect().for_key_share();
        self.find_with(&[id.as_str().into()], lock)?.ok_or_else(|| PmFault::not_found("project", id))
    }

    pub(crate) fn project_lock(&mut self, id: &ProjectId) -> Result<Project, PmFault> {
        let lock = self.dialect().for_update_alone();
        self.find_with(&[id.as_str().into()], lock)?.ok_or_else(|| PmFault::not_found("project", id))
    }

    pub(crate) fn project_by_key(&mut self, key: &str) -> Result<Option<Project>, PmFault> {
        self.select_one("WHERE t.key = ?1", &[key.into()])
    }

    /// All projects, by key.
    pub(crate) fn project_list(&mut self) -> Result<Vec<Project>, PmFault> {
        self.select("ORDER BY t.key", &[])
    }

    /// Takes the next task numbers of a project: dense, in the creating transaction, never given twice.
    pub(crate) fn project_take_numbers(&mut self, id: &ProjectId, count: i64) -> Result<i64, PmFault> {
        let sql = "UPDATE project SET next_number = next_number + ?2 WHERE id = ?1 RETURNING next_number";
        Ok(self.number(sql, &[id.as_str().into(), count.into()])? - count)
    }

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

    /// An agent's memberships.
    pub(crate) fn membership_of_agent(&mut self, agent: &AgentId) -> Result<Vec<Membership>, PmFault> {
        self.select("WHERE t.agent_id = ?1 ORDER BY t.project_id", &[agent.as_str().into()])
    }

    /// An agent's memberships in projects where work goes on.
    pub(crate) fn membership_at_work(&mut self, agent: &AgentId) -> Result<Vec<Membership>, PmFault> {
        self.select(AT_WORK, &[agent.as_str().into()])
    }

    /// A project's memberships.
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

    /// The token with this digest.
    pub(crate) fn token_by_hash(&mut self, hash: &str) -> Result<Option<AccessToken>, PmFault> {
        self.select_one("WHERE t.hash = ?1", &[hash.into()])
    }

    /// An agent's tokens, newest first.
    pub(crate) fn token_list(&mut self, agent: Option<&AgentId>) -> Result<Vec<AccessToken>, PmFault> {
        let values: [SqlValue; 1] = [agent.map(AgentId::as_str).into()];
        self.select("WHERE CAST(?1 AS TEXT) IS NULL OR t.agent_id = ?1 ORDER BY t.created_at DESC, t.id", &values)
    }
}

//! Projects in a transaction: found, locked, listed, and their task numbers.

use std::collections::BTreeMap;

use super::Tx;
use crate::domain::fault::PmFault;
use crate::domain::id::{AgentId, ProjectId};
use crate::domain::member::Role;
use crate::domain::project::Project;

impl Tx<'_> {
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

    /// The projects that an agent belongs to with its role in each, or all with the role of an owner; two questions,
    /// however many there are.
    pub(crate) fn project_roles(&mut self, agent: Option<&AgentId>) -> Result<Vec<(Project, Role)>, PmFault> {
        let Some(agent) = agent else {
            return Ok(self.project_list()?.into_iter().map(|project| (project, Role::Owner)).collect());
        };
        let memberships = self.membership_of_agent(agent)?;
        let roles: BTreeMap<ProjectId, Role> = memberships.into_iter().map(|one| (one.project_id, one.role)).collect();
        let mine = "JOIN membership m ON m.project_id = t.id WHERE m.agent_id = ?1";
        let projects: Vec<Project> = self.select(mine, &[agent.as_str().into()])?;
        // On PostgreSQL a membership may have come or gone between the two questions.
        let with_role = projects.into_iter().filter_map(|project| {
            let role = roles.get(&project.id).copied()?;
            Some((project, role))
        });
        Ok(with_role.collect())
    }
}

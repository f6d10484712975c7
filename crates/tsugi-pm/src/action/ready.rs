//! What could be done now, across all the projects of an agent, in one order.

use std::collections::BTreeMap;

use super::action_context::ActionContext;
use super::view::TaskRow;
use crate::domain::fault::PmFault;
use crate::domain::id::{ProjectId, ProjectRef};
use crate::domain::permission::Power;
use crate::domain::project::ProjectStatus;
use crate::domain::task::Task;
use crate::store::tx::ReadyPick;

impl ActionContext<'_, '_> {
    /// The projects that give out work: the one that is meant, or all that the caller can see, while they are active.
    pub(super) fn projects_at_work(&mut self, named: Option<&ProjectRef>) -> Result<Vec<ProjectId>, PmFault> {
        if let Some(name) = named {
            let project = self.project_to_read(name)?;
            return Ok(Some(project)
                .filter(|one| one.status == ProjectStatus::Active)
                .map(|one| one.id)
                .into_iter()
                .collect());
        }
        self.projects_of_all(Power::Read)
    }

    /// The active projects in which the caller has a power.
    pub(super) fn projects_of_all(&mut self, power: Power) -> Result<Vec<ProjectId>, PmFault> {
        match self.caller.bound_agent() {
            Some(agent) => {
                let places = self.tx.membership_at_work(agent)?;
                Ok(places.into_iter().filter(|one| one.role.may(power)).map(|one| one.project_id).collect())
            }
            None => {
                let all = self.tx.project_list()?;
                Ok(all.into_iter().filter(|one| one.status == ProjectStatus::Active).map(|one| one.id).collect())
            }
        }
    }

    /// Tasks as rows. In a project that rests nothing can begin, whatever the task itself says.
    pub(super) fn rows(&mut self, tasks: &[Task]) -> Result<Vec<TaskRow>, PmFault> {
        let mut known: BTreeMap<&ProjectId, bool> = BTreeMap::new();
        let mut rows = Vec::with_capacity(tasks.len());
        for task in tasks {
            let mut row = TaskRow::new(task);
            if row.ready {
                row.ready = match known.get(&task.project_id) {
                    Some(is_active) => *is_active,
                    None => self.is_active(&task.project_id)?,
                };
                known.insert(&task.project_id, row.ready);
            }
            rows.push(row);
        }
        Ok(rows)
    }

    /// Whether work goes on in a project.
    pub(super) fn is_active(&mut self, project: &ProjectId) -> Result<bool, PmFault> {
        Ok(self.tx.project_get(project)?.status == ProjectStatus::Active)
    }

    /// The best ready tasks of several projects, in one order.
    pub(super) fn ready(
        &mut self,
        pick: &ReadyPick<'_>,
        projects: &[ProjectId],
        limit: i64,
    ) -> Result<Vec<Task>, PmFault> {
        let mut tasks = Vec::new();
        for project in projects {
            tasks.extend(self.tx.task_ready(pick, project, limit)?);
        }
        if projects.len() > 1 {
            tasks.sort_by_key(|task| pick.place(task));
            tasks.truncate(usize::try_from(limit).unwrap_or(0));
        }
        Ok(tasks)
    }

    /// Several projects, the one with the best ready task first; those with none stay behind.
    pub(super) fn best_first(
        &mut self,
        pick: &ReadyPick<'_>,
        mut projects: Vec<ProjectId>,
    ) -> Result<Vec<ProjectId>, PmFault> {
        if projects.len() < 2 {
            return Ok(projects);
        }
        let mut bests = Vec::with_capacity(projects.len());
        for project in &projects {
            bests.extend(self.tx.task_ready(pick, project, 1)?);
        }
        projects.sort_by_key(|project| {
            let best = bests.iter().find(|task| task.project_id == *project).map(|task| pick.place(task));
            (best.is_none(), best)
        });
        Ok(projects)
    }
}

//! Making a project together with its first agents: all of it, or nothing.

use serde::{Deserialize, Serialize};

use super::action_context::ActionContext;
use super::admin::{RegisterAgent, SetMembership};
use super::project::{CreateProject, ProjectAnswer};
use super::{Action, ActionEffect};
use crate::domain::agent::AgentType;
use crate::domain::fault::PmFault;
use crate::domain::id::{AgentId, ProjectId};
use crate::domain::member::Role;

/// Makes a project and gives agents their places in it; an agent that is unknown is registered.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InitProject {
    pub project: CreateProject,
    /// Who belongs to it from the beginning.
    pub members: Vec<FirstMember>,
    /// Whether a program may own it.
    pub allow_ai_owner: bool,
}

/// An agent and what it becomes.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FirstMember {
    pub agent_id: AgentId,
    pub role: Role,
}

impl Action for InitProject {
    const NAME: &'static str = "found_project";
    const EFFECT: ActionEffect = ActionEffect::Write;
    type Output = ProjectAnswer;

    fn run(&self, context: &mut ActionContext<'_, '_>) -> Result<ProjectAnswer, PmFault> {
        let made = self.project.run(context)?;
        self.members.iter().try_for_each(|member| self.seat(context, &made.project.id, member))?;
        Ok(made)
    }
}

impl InitProject {
    fn seat(
        &self,
        context: &mut ActionContext<'_, '_>,
        project: &ProjectId,
        member: &FirstMember,
    ) -> Result<(), PmFault> {
        let FirstMember { agent_id, role } = member.clone();
        if context.tx.agent_find(&agent_id)?.is_none() {
            let is_person = role == Role::Owner && !self.allow_ai_owner;
            let kind = if is_person { AgentType::Human } else { AgentType::Ai };
            RegisterAgent { kind, ..RegisterAgent::ai(agent_id.clone()) }.run(context)?;
        }
        let (project_id, allow_ai_owner) = (project.into(), self.allow_ai_owner);
        SetMembership { project_id, agent_id, role: Some(role), allow_ai_owner }.run(context).map(drop)
    }
}

//! A word to an agent: kept as context, and told with the agent's next call.

use serde::{Deserialize, Serialize};

use super::super::action_context::ActionContext;
use super::super::context::{AddContext, AddedContext};
use super::super::{Action, ActionEffect};
use crate::action::board::board_of;
use crate::domain::context::ContextType;
use crate::domain::fault::PmFault;
use crate::domain::id::{AgentId, ProjectId, ProjectRef, TaskRef};
use crate::domain::limit;
use crate::domain::notice::NoticeKind;

/// Tells an agent something.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SendMessage {
    pub project_id: ProjectRef,
    pub agent_id: AgentId,
    /// About which task; about the project when unset.
    pub task_id: Option<TaskRef>,
    pub text: String,
    /// The same key has one effect.
    pub idempotency_key: Option<String>,
}

impl Action for SendMessage {
    const NAME: &'static str = "send_message";
    const EFFECT: ActionEffect = ActionEffect::Write;
    type Output = AddedContext;

    fn key(&self) -> Option<&str> {
        self.idempotency_key.as_deref()
    }

    fn run(&self, context: &mut ActionContext<'_, '_>) -> Result<AddedContext, PmFault> {
        limit::chars("text", &self.text, 1, 2000)?;
        let sender = context.agent()?;
        let project_id = board_of(context, &self.project_id)?.0.id;
        self.check_reader(context, &project_id)?;
        let note = AddContext {
            content: format!("@{}: {}", self.agent_id, self.text),
            kind: ContextType::Note,
            task_id: self.task_id.clone(),
            project_id: self.task_id.is_none().then(|| self.project_id.clone()),
            uri: None,
            supersedes: None,
            session_id: None,
            idempotency_key: None,
        };
        let added = note.run(context)?;
        let about = added.context.task_id.as_ref().map_or_else(|| project_id.to_string(), ToString::to_string);
        let text = format!("{} says: {}", sender.name, self.text);
        context.tx.notice_add(&self.agent_id, NoticeKind::ContextAdded, &about, &text)?;
        Ok(added)
    }
}

impl SendMessage {
    /// Only agents of this project can be messaged in it.
    fn check_reader(&self, context: &mut ActionContext<'_, '_>, project: &ProjectId) -> Result<(), PmFault> {
        let is_member = context.tx.membership_find(project, &self.agent_id)?.is_some();
        let holds = context.tx.claim_of_agent(&self.agent_id)?;
        if is_member || holds.iter().any(|claim| claim.project_id == *project) {
            return Ok(());
        }
        Err(PmFault::not_found("agent", &self.agent_id).hint("only agents of this project can be told something in it"))
    }
}

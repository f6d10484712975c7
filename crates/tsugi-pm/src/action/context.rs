//! Adding what was learnt or decided.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::action_context::{ActionContext, OpenTask};
use super::{Action, ActionEffect};
use crate::domain::context::{ContextEntry, ContextState, ContextType};
use crate::domain::event::EventKind;
use crate::domain::fault::{Code, PmFault};
use crate::domain::id::{AgentId, ContextId, ProjectId, ProjectRef, SessionId, TaskRef};
use crate::domain::limit;
use crate::domain::notice::NoticeKind;
use crate::domain::permission::Power;
use crate::domain::session::AgentSession;
use crate::domain::task::Task;
use crate::store::tx::Tx;

/// Adds context to a task or to a project.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddContext {
    /// the text
    #[schemars(extend("ja" = "内容"))]
    pub content: String,
    /// its kind
    #[serde(rename = "type")]
    #[schemars(extend("ja" = "種類"))]
    pub kind: ContextType,
    /// id or KEY-n
    #[schemars(extend("ja" = "タスクID"))]
    pub task_id: Option<TaskRef>,
    /// id or key
    #[schemars(extend("ja" = "ID・キー"))]
    pub project_id: Option<ProjectRef>,
    /// where to read on
    #[schemars(extend("ja" = "参照先", "rare" = true))]
    pub uri: Option<String>,
    /// context replaced
    #[schemars(extend("ja" = "置き換える記録", "rare" = true))]
    pub supersedes: Option<ContextId>,
    /// if not yours
    #[schemars(extend("ja" = "セッション"))]
    pub session_id: Option<SessionId>,
    /// retry key
    #[schemars(extend("ja" = "再試行用", "rare" = true))]
    pub idempotency_key: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AddedContext {
    /// The context, its content cut if it is long.
    pub context: ContextEntry,
}

/// Where new context belongs.
struct ContextScope {
    project_id: ProjectId,
    task: Option<Task>,
}

impl Action for AddContext {
    const NAME: &'static str = "add_context";
    const EFFECT: ActionEffect = ActionEffect::Write;
    type Output = AddedContext;

    fn key(&self) -> Option<&str> {
        self.idempotency_key.as_deref()
    }

    fn run(&self, context: &mut ActionContext<'_, '_>) -> Result<AddedContext, PmFault> {
        limit::bytes("content", &self.content, 1, limit::LONG_TEXT)?;
        limit::bytes("uri", self.uri.as_deref().unwrap_or(""), 0, 2 * limit::KIB)?;
        let agent = context.agent()?;
        let session = match context.session_if_any(self.session_id.as_ref()) {
            // Knowledge is recorded even if it is not clear from which session.
            Err(fault) if fault.code == Code::SessionAmbiguous => None,
            other => other?,
        };
        let home = self.home(context, session.as_ref())?;
        self.supersede(context, &home)?;
        let entry = self.entry(context, &home, &agent.id, session.as_ref());
        context.tx.insert(&entry, EventKind::ContextAdded.note())?;
        context.tx.context_index(&entry, home.task.as_ref())?;
        // The caller has just sent the text; a long one is not sent back.
        let content = limit::clip(&entry.content, 2 * limit::KIB).0;
        Ok(AddedContext { context: ContextEntry { content, ..entry } })
    }
}

impl AddContext {
    /// Knowledge about a task and no more.
    pub fn of(task: impl Into<TaskRef>, kind: ContextType, content: impl Into<String>) -> Self {
        Self {
            content: content.into(),
            kind,
            task_id: Some(task.into()),
            project_id: None,
            uri: None,
            supersedes: None,
            session_id: None,
            idempotency_key: None,
        }
    }

    fn home(
        &self,
        context: &mut ActionContext<'_, '_>,
        session: Option<&AgentSession>,
    ) -> Result<ContextScope, PmFault> {
        match (&self.task_id, &self.project_id) {
            (Some(name), None) => {
                let seen = context.task_to_read(name)?;
                // Before the task is locked: a viewer may add notes to tasks that it may not change.
                self.check_power(context, &seen.project_id)?;
                let open = context.task_to_change(name, Power::Read)?;
                touch_hold(context, &open, session)?;
                tell_holder(context, &open, self.kind)?;
                Ok(ContextScope { project_id: open.project.id, task: Some(open.task) })
            }
            (None, Some(project)) => {
                let project_id = context.project_id(project)?;
                self.check_power(context, &project_id)?;
                context.project_to_change(project, Power::Read)?;
                Ok(ContextScope { project_id, task: None })
            }
            _ => Err(PmFault::invalid("give exactly one of `task_id` and `project_id`")),
        }
    }

    /// A viewer may leave notes where the project says so.
    fn check_power(&self, context: &mut ActionContext<'_, '_>, project: &ProjectId) -> Result<(), PmFault> {
        let role = context.role(project)?;
        let policy = context.tx.project_get(project)?.policy;
        // Only notes: a decision of a viewer would bind the workers.
        if policy.viewer_notes && self.kind == ContextType::Note {
            return role.check(Power::Read);
        }
        role.check(Power::AddContext)
    }

    fn supersede(&self, context: &mut ActionContext<'_, '_>, home: &ContextScope) -> Result<(), PmFault> {
        let Some(id) = &self.supersedes else { return Ok(()) };
        // Only an entry of the same project can be superseded; others look as if they did not exist.
        let old = context.tx.context_find(id)?.filter(|one| one.project_id == home.project_id);
        let old = old.ok_or_else(|| PmFault::not_found("context", id))?;
        if old.state != ContextState::Active {
            return Err(PmFault::invalid(format!("{id} is already {}", old.state)));
        }
        let after = ContextEntry { state: ContextState::Superseded, ..old.clone() };
        context.tx.update(&old, after, EventKind::ContextSuperseded.note()).map(drop)
    }

    fn entry(
        &self,
        context: &ActionContext<'_, '_>,
        home: &ContextScope,
        agent: &AgentId,
        session: Option<&AgentSession>,
    ) -> ContextEntry {
        ContextEntry {
            id: ContextId::mint(Tx::bits()),
            project_id: home.project_id.clone(),
            task_id: home.task.as_ref().map(|task| task.id.clone()),
            agent_id: agent.clone(),
            session_id: session.map(|one| one.id.clone()),
            kind: self.kind,
            content: self.content.clone(),
            uri: self.uri.clone(),
            supersedes: self.supersedes.clone(),
            state: ContextState::Active,
            created_at: context.tx.now,
            version: 1,
        }
    }
}

/// A call that touches a task keeps the lease of the session that holds it.
pub(super) fn touch_hold(
    context: &mut ActionContext<'_, '_>,
    open: &OpenTask,
    session: Option<&AgentSession>,
) -> Result<(), PmFault> {
    let held = open.claim.as_ref().filter(|claim| session.is_some_and(|session| session.id == claim.session_id));
    // Another session of the same agent does not renew the lease.
    let Some(claim) = held else { return Ok(()) };
    context.tx.stamp.claim = Some(claim.id.clone());
    context.tx.touch(claim, &claim.renewed(context.tx.now))
}

fn tell_holder(context: &mut ActionContext<'_, '_>, open: &OpenTask, kind: ContextType) -> Result<(), PmFault> {
    // A task that is not held has no reader to notify.
    let Some(claim) = &open.claim else { return Ok(()) };
    let author = context.agent_id().map_or_else(|| "a person".to_owned(), ToString::to_string);
    let text = format!("{author} added a {kind} to {}", open.task.reference);
    context.tx.notice_add(&claim.agent_id, NoticeKind::ContextAdded, open.task.id.as_str(), &text)
}

/// Leaves a note on a task.
pub(super) fn add_note(
    context: &mut ActionContext<'_, '_>,
    open: &OpenTask,
    session: Option<&AgentSession>,
    content: &str,
) -> Result<(), PmFault> {
    limit::bytes("note", content, 1, limit::LONG_TEXT)?;
    let entry = ContextEntry {
        id: ContextId::mint(Tx::bits()),
        project_id: open.project.id.clone(),
        task_id: Some(open.task.id.clone()),
        agent_id: context.agent()?.id,
        session_id: session.map(|one| one.id.clone()),
        kind: ContextType::Note,
        content: content.to_owned(),
        uri: None,
        supersedes: None,
        state: ContextState::Active,
        created_at: context.tx.now,
        version: 1,
    };
    context.tx.insert(&entry, EventKind::ContextAdded.note())?;
    context.tx.context_index(&entry, Some(&open.task))
}

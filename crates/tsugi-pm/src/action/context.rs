//! Adding what was learnt or decided.

use serde::{Deserialize, Serialize};

use super::action_context::{ActionContext, OpenTask};
use super::{Action, ActionEffect};
use crate::domain::context::{ContextEntry, ContextState, ContextType};
use crate::domain::fault::{Code, PmFault};
use crate::domain::id::{AgentId, ContextId, ProjectId, SessionId, TaskRef};
use crate::domain::limit;
use crate::domain::notice::NoticeKind;
use crate::domain::permission::Power;
use crate::domain::session::AgentSession;
use crate::domain::task::Task;
use crate::store::tx::{Tx, what};

/// Adds context to a task or to a project.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddContext {
    /// The knowledge.
    pub content: String,
    /// What kind it is.
    #[serde(rename = "type")]
    pub kind: ContextType,
    /// To which task.
    pub task_id: Option<TaskRef>,
    /// Or to which project.
    pub project_id: Option<ProjectId>,
    /// Where more is to be found.
    pub uri: Option<String>,
    /// The one it replaces.
    pub supersedes: Option<ContextId>,
    /// From which session.
    pub session_id: Option<SessionId>,
    /// The same key has one effect.
    pub idempotency_key: Option<String>,
}

/// What was added.
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
    type ErasedOutput = AddedContext;

    fn key(&self) -> Option<&str> {
        self.idempotency_key.as_deref()
    }

    fn run(&self, desk: &mut ActionContext<'_, '_>) -> Result<AddedContext, PmFault> {
        limit::bytes("content", &self.content, 1, limit::LONG_TEXT)?;
        limit::bytes("uri", self.uri.as_deref().unwrap_or(""), 0, 2 * limit::KIB)?;
        let agent = desk.agent()?;
        let session = match desk.session_if_any(self.session_id.as_ref()) {
            Err(fault) if fault.code == Code::SessionAmbiguous => None,
            other => other?,
        };
        let home = self.home(desk, session.as_ref())?;
        self.supersede(desk, &home)?;
        let context = self.context(desk, home.project_id.clone(), &home, &agent.id, session.as_ref());
        desk.tx.insert(&context, what("context.added"))?;
        desk.tx.context_index(&context, home.task.as_ref())?;
        let content = limit::clip(&context.content, 2 * limit::KIB).0;
        Ok(AddedContext { context: ContextEntry { content, ..context } })
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

    fn home(&self, desk: &mut ActionContext<'_, '_>, session: Option<&AgentSession>) -> Result<ContextScope, PmFault> {
        match (&self.task_id, &self.project_id) {
            (Some(name), None) => {
                let seen = desk.task_to_read(name)?;
                self.check_power(desk, &seen.project_id)?;
                let open = desk.task_to_change(name, Power::Read)?;
                desk.touch_hold(&open, session)?;
                desk.tell_holder(&open, self.kind)?;
                Ok(ContextScope { project_id: open.project.id, task: Some(open.task) })
            }
            (None, Some(project)) => {
                self.check_power(desk, project)?;
                desk.project_to_change(project, Power::Read)?;
                Ok(ContextScope { project_id: project.clone(), task: None })
            }
            _ => Err(PmFault::invalid("give exactly one of `task_id` and `project_id`")),
        }
    }

    /// A viewer may leave notes where the project says so.
    fn check_power(&self, desk: &mut ActionContext<'_, '_>, project: &ProjectId) -> Result<(), PmFault> {
        let role = desk.role(project)?;
        let policy = desk.tx.project_get(project)?.policy;
        if policy.viewer_notes && self.kind == ContextType::Note {
            return role.check(Power::Read);
        }
        role.check(Power::AddContext)
    }

    fn supersede(&self, desk: &mut ActionContext<'_, '_>, home: &ContextScope) -> Result<(), PmFault> {
        let Some(id) = &self.supersedes else { return Ok(()) };
        let old = desk.tx.context_find(id)?.filter(|one| one.project_id == home.project_id);
        let old = old.ok_or_else(|| PmFault::not_found("context", id))?;
        if old.state != ContextState::Active {
            return Err(PmFault::invalid(format!("{id} is already {}", old.state)));
        }
        let after = ContextEntry { state: ContextState::Superseded, ..old.clone() };
        desk.tx.update(&old, after, what("context.superseded")).map(drop)
    }

    fn context(
        &self,
        desk: &ActionContext<'_, '_>,
        project_id: ProjectId,
        home: &ContextScope,
        agent: &AgentId,
        session: Option<&AgentSession>,
    ) -> ContextEntry {
        ContextEntry {
            id: ContextId::mint(Tx::bits()),
            project_id,
            task_id: home.task.as_ref().map(|task| task.id.clone()),
            agent_id: agent.clone(),
            session_id: session.map(|one| one.id.clone()),
            kind: self.kind,
            content: self.content.clone(),
            uri: self.uri.clone(),
            supersedes: self.supersedes.clone(),
            state: ContextState::Active,
            created_at: desk.tx.now,
            version: 1,
        }
    }
}

impl ActionContext<'_, '_> {
    /// A call that touches a task keeps the lease of the session that holds it.
    pub(super) fn touch_hold(&mut self, open: &OpenTask, session: Option<&AgentSession>) -> Result<(), PmFault> {
        let held = open.claim.as_ref().filter(|claim| session.is_some_and(|session| session.id == claim.session_id));
        let Some(claim) = held else { return Ok(()) };
        self.tx.stamp.claim = Some(claim.id.clone());
        self.tx.touch(claim, &claim.renewed(self.tx.now))
    }

    fn tell_holder(&mut self, open: &OpenTask, kind: ContextType) -> Result<(), PmFault> {
        let Some(claim) = &open.claim else { return Ok(()) };
        let author = self.agent_id().map_or_else(|| "somebody".to_owned(), ToString::to_string);
        let text = format!("{author} added a {kind} to {}", open.task.reference);
        self.tx.notice_add(&claim.agent_id, NoticeKind::ContextAdded, open.task.id.as_str(), &text)
    }

    /// Leaves a note on a task.
    pub(super) fn add_note(
        &mut self,
        open: &OpenTask,
        session: Option<&AgentSession>,
        content: &str,
    ) -> Result<(), PmFault> {
        limit::bytes("note", content, 1, limit::LONG_TEXT)?;
        let context = ContextEntry {
            id: ContextId::mint(Tx::bits()),
            project_id: open.project.id.clone(),
            task_id: Some(open.task.id.clone()),
            agent_id: self.agent()?.id,
            session_id: session.map(|one| one.id.clone()),
            kind: ContextType::Note,
            content: content.to_owned(),
            uri: None,
            supersedes: None,
            state: ContextState::Active,
            created_at: self.tx.now,
            version: 1,
        };
        self.tx.insert(&context, what("context.added"))?;
        self.tx.context_index(&context, Some(&open.task))
    }
}

//! What a caller may do here, and the task and session in front of them.

use super::caller::ActionCaller;
use crate::domain::advice::FaultAdvice;
use crate::domain::agent::Agent;
use crate::domain::claim::{Claim, ClaimState};
use crate::domain::event::EventKind;
use crate::domain::fault::{Code, PmFault};
use crate::domain::id::{AgentId, ProjectId, ProjectRef, SessionId, TaskRef};
use crate::domain::member::Role;
use crate::domain::permission::{Power, denied};
use crate::domain::project::Project;
use crate::domain::session::{self, AgentSession, LifeSignal, SessionState};
use crate::domain::task::Task;
use crate::domain::task::machine::TaskStanding;
use crate::store::tx::Tx;

/// A session's last activity is written at most this often, so that reading calls stay reads.
const ACTIVITY_STEP_S: i64 = 5;

/// What the history says of a call that a person said yes to.
const APPROVED: &str = "approved by the person at the client";

/// A task that was opened for a change: locked, with its due lease already ended.
#[derive(Clone, Debug)]
pub(crate) struct OpenTask {
    pub(crate) task: Task,
    pub(crate) project: Project,
    pub(crate) role: Role,
    pub(crate) claim: Option<Claim>,
}

/// One caller in one transaction.
pub struct ActionContext<'d, 'c> {
    pub(crate) tx: &'d mut Tx<'c>,
    pub(crate) caller: &'d ActionCaller,
    agent: Option<Agent>,
}

impl<'d, 'c> ActionContext<'d, 'c> {
    /// Seats the caller; an agent that may not act is refused.
    pub(crate) fn open(tx: &'d mut Tx<'c>, caller: &'d ActionCaller) -> Result<Self, PmFault> {
        let agent = caller.agent_id().map(|id| tx.agent_get(id)).transpose()?;
        if let Some(agent) = &agent {
            // An agent that was deactivated is refused here, before any action runs.
            agent.check_active()?;
        }
        tx.stamp.actor = caller.signature().cloned();
        Ok(Self { tx, caller, agent })
    }

    /// The calling agent; a person without one cannot work.
    pub(crate) fn agent(&self) -> Result<Agent, PmFault> {
        self.agent
            .clone()
            .ok_or_else(|| denied("this needs an agent", &["agent"], None).hint("name one: --agent or TSUGI_AGENT_ID"))
    }

    /// Why something happened: what was said, and that a person said yes to it.
    pub(crate) fn reason(&self, said: Option<&str>) -> Option<String> {
        match (self.caller.is_approved, said) {
            (true, Some(said)) => Some(format!("{APPROVED}: {said}")),
            (true, None) => Some(APPROVED.to_owned()),
            (false, said) => said.map(str::to_owned),
        }
    }

    /// Whether the caller has the whole database in hand.
    pub(crate) fn is_operator(&self) -> bool {
        self.caller.is_operator()
    }

    pub(crate) fn agent_id(&self) -> Option<&AgentId> {
        self.caller.agent_id()
    }

    /// The caller's role in a project; a project one does not belong to does not exist.
    pub(crate) fn role(&mut self, project: &ProjectId) -> Result<Role, PmFault> {
        // An operator owns every project.
        let Some(agent) = self.caller.bound_agent() else { return Ok(Role::Owner) };
        let membership = self.tx.membership_find(project, agent)?;
        membership
            .map(|one| one.role)
            .ok_or_else(|| PmFault::not_found("project", project).hint("ask an owner to add you"))
    }

    /// The project that a caller means. A key of a project that the caller does not belong to names nothing: the
    /// answer must not tell that it exists, nor its id.
    pub(crate) fn project_id(&mut self, name: &ProjectRef) -> Result<ProjectId, PmFault> {
        let key = match name {
            ProjectRef::Id(id) => return Ok(id.clone()),
            ProjectRef::Key(key) => key,
        };
        let found = self.tx.project_by_key(key)?.map(|project| project.id);
        let visible = found.filter(|id| self.role(id).is_ok());
        visible
            .ok_or_else(|| PmFault::not_found("project", key).hint("list_projects shows yours; an owner can add you"))
    }

    pub(crate) fn project_id_if_named(&mut self, name: Option<&ProjectRef>) -> Result<Option<ProjectId>, PmFault> {
        name.map(|name| self.project_id(name)).transpose()
    }

    /// A project the caller may look at.
    pub(crate) fn project_to_read(&mut self, name: &ProjectRef) -> Result<Project, PmFault> {
        let id = self.project_id(name)?;
        self.role(&id)?.check(Power::Read)?;
        self.tx.project_get(&id)
    }

    /// A project the caller may change something in.
    pub(crate) fn project_to_change(&mut self, name: &ProjectRef, power: Power) -> Result<(Project, Role), PmFault> {
        let id = self.project_id(name)?;
        let role = self.role(&id)?;
        // The shared lock keeps the project from being archived until the transaction ends.
        let project = self.tx.project_share(&id)?;
        role.check(power)?;
        project.check_writable()?;
        Ok((project, role))
    }

    /// The one project that is meant, or all that the caller can see.
    pub(crate) fn projects(&mut self, named: Option<&ProjectRef>) -> Result<Vec<ProjectId>, PmFault> {
        if let Some(name) = named {
            return Ok(vec![self.project_to_read(name)?.id]);
        }
        match self.caller.bound_agent() {
            Some(agent) => Ok(self.tx.membership_of_agent(agent)?.into_iter().map(|one| one.project_id).collect()),
            None => Ok(self.tx.project_list()?.into_iter().map(|one| one.id).collect()),
        }
    }

    /// A task the caller may look at.
    pub(crate) fn task_to_read(&mut self, name: &TaskRef) -> Result<Task, PmFault> {
        let task = self.tx.task_get(name)?;
        self.role(&task.project_id).map_err(|_| PmFault::not_found("task", name))?.check(Power::Read)?;
        Ok(task)
    }

    /// A task the caller may change: locked, and with a lease that has run out ended for good, whatever comes next.
    pub(crate) fn task_to_change(&mut self, name: &TaskRef, power: Power) -> Result<OpenTask, PmFault> {
        // Read first without a lock: whether the caller may see it decides whether it may wait for it.
        let seen = self.tx.task_get(name)?;
        let role = self.role(&seen.project_id).map_err(|_| PmFault::not_found("task", name))?;
        role.check(Power::Read)?;
        role.check(power)?;
        let (project, mut task, mut claim) = self.tx.task_open(&seen)?;
        project.check_writable()?;
        let over = claim.as_ref().map(|claim| self.over(claim, &project)).transpose()?.flatten();
        if let Some((due, reason)) = claim.take_if(|_| over.is_some()).zip(over) {
            // Only a transaction that has changed nothing yet may keep the expiry if it is refused later.
            let is_first = !self.tx.is_changed();
            task = self.expire_claim(&task, &due, &project, reason)?;
            if is_first {
                self.tx.keep()?;
            }
        }
        Ok(OpenTask { task, project, role, claim })
    }

    /// Why a live claim is over although no sweep has ended it yet, if it is. A holder who comes back late and finds its
    /// work untouched may go on with it.
    fn over(&mut self, claim: &Claim, project: &Project) -> Result<Option<&'static str>, PmFault> {
        if claim.is_due(self.tx.now) {
            return Ok(Some("the lease ran out"));
        }
        // The holder itself may continue as long as its lease lasts.
        if Some(&claim.agent_id) == self.agent_id() {
            return Ok(None);
        }
        let (grace, now) = (project.policy.resume_grace_s, self.tx.now);
        let session = self.tx.session_find(&claim.session_id)?;
        Ok(session.filter(|one| one.is_grace_over(grace, now)).map(|_| "the session did not come back"))
    }

    /// How the caller stands to a task, for the status machine.
    pub(crate) fn standing(&mut self, open: &OpenTask, session: Option<&SessionId>) -> Result<TaskStanding, PmFault> {
        let last = self.tx.claim_last(&open.task.id)?;
        let me = self.agent_id().cloned();
        let is_review_required = match open.project.policy.review_required {
            // The person at the client has approved this very call.
            _ if self.caller.is_approved => false,
            Some(wanted) => wanted,
            None => self.tx.membership_has_human(&open.project.id)?,
        };
        Ok(TaskStanding {
            role: open.role,
            is_holder: open.claim.as_ref().is_some_and(|claim| Some(&claim.session_id) == session),
            is_assignee: me.is_some() && open.task.assignee_id == me,
            is_last_worker: me.is_some() && last.map(|claim| claim.agent_id) == me,
            is_review_required,
        })
    }

    /// The session a call carries, begun if there is none. Locks it, revives it, notes that it is alive.
    pub(crate) fn session(&mut self, named: Option<&SessionId>) -> Result<AgentSession, PmFault> {
        match self.session_if_any(named)? {
            Some(session) => Ok(session),
            None => self.session_begin(None, None, None),
        }
    }

    /// The session a call carries, if it carries one: named, the process's own, or the agent's only one.
    pub(crate) fn session_if_any(&mut self, named: Option<&SessionId>) -> Result<Option<AgentSession>, PmFault> {
        let Some(id) = self.session_id(named)? else { return Ok(None) };
        let session = self.session_mine(&id)?;
        // A process outlives its session when that is ended or expires: it then has none until it needs one, which is
        // its own again. Another session of the same agent is another process's, and is not taken for it.
        if named.is_none() && session.is_over() {
            return Ok(None);
        }
        let session = self.session_wake(session)?;
        self.tx.stamp.session = Some(session.id.clone());
        Ok(Some(session))
    }

    /// The session of a call that cannot name one, when it is unambiguous.
    pub(crate) fn session_if_clear(&mut self) -> Result<Option<AgentSession>, PmFault> {
        if self.agent_id().is_none() {
            return Ok(None);
        }
        match self.session_if_any(None) {
            Err(fault) if fault.code == Code::SessionAmbiguous => Ok(None),
            other => other,
        }
    }

    /// A session of the caller, locked. Another agent's session is not found: a session id is a name, not a capability.
    pub(crate) fn session_mine(&mut self, id: &SessionId) -> Result<AgentSession, PmFault> {
        let session = self.tx.session_lock(id)?.filter(|one| Some(&one.agent_id) == self.caller.agent_id());
        session.ok_or_else(|| PmFault::not_found("session", id))
    }

    pub(crate) fn session_id(&mut self, named: Option<&SessionId>) -> Result<Option<SessionId>, PmFault> {
        if let Some(id) = named.or(self.caller.default_session.as_ref()) {
            return Ok(Some(id.clone()));
        }
        let agent = self.agent()?;
        let active = self.tx.session_active(&agent.id)?;
        match active.as_slice() {
            [] => Ok(None),
            [one] => Ok(Some(one.id.clone())),
            several => {
                let ids: Vec<&SessionId> = several.iter().map(|one| &one.id).collect();
                Err(PmFault::new(Code::SessionAmbiguous, format!("{} sessions of yours are active", several.len()))
                    .advise(FaultAdvice::NameSession)
                    .with("sessions", ids))
            }
        }
    }

    /// A call carries the session: it is alive, also if its process was taken for gone.
    fn session_wake(&mut self, session: AgentSession) -> Result<AgentSession, PmFault> {
        let state = session::next(session.state, LifeSignal::Call)?;
        if state != session.state {
            // The process that hosted it is gone: its heartbeats come from the process that uses it now, if one does.
            let woken = AgentSession {
                state,
                disconnected_at: None,
                end_kind: None,
                last_activity_at: self.tx.now,
                ..session.clone().hosted_by(self.caller.host.as_ref(), self.tx.now)
            };
            return self.tx.update(&session, woken, EventKind::SessionRevived.note());
        }
        // Not every call is worth a write.
        if self.tx.now.seconds_since(session.last_activity_at) < ACTIVITY_STEP_S {
            return Ok(session);
        }
        let active = AgentSession { last_activity_at: self.tx.now, ..session.clone() };
        self.tx.touch(&session, &active)?;
        Ok(active)
    }

    /// Begins a session for the calling agent.
    pub(crate) fn session_begin(
        &mut self,
        project_id: Option<ProjectId>,
        client_note: Option<String>,
        resumes: Option<SessionId>,
    ) -> Result<AgentSession, PmFault> {
        let agent = self.agent()?;
        let session = AgentSession {
            id: SessionId::mint(Tx::bits()),
            agent_id: agent.id,
            project_id,
            state: SessionState::Active,
            era: self.caller.era,
            client_name: self.caller.client_name.clone(),
            client_version: self.caller.client_version.clone(),
            client_note,
            host: None,
            pid: None,
            process_nonce: None,
            started_at: self.tx.now,
            last_activity_at: self.tx.now,
            heartbeat_at: None,
            disconnected_at: None,
            ended_at: None,
            end_kind: None,
            summary: None,
            resumes,
            end_result: None,
            version: 1,
        };
        let session = session.hosted_by(self.caller.host.as_ref(), self.tx.now);
        self.tx.stamp.session = Some(session.id.clone());
        self.tx.insert(&session, EventKind::SessionStarted.note())?;
        Ok(session)
    }

    /// Whether the caller holds this task and its lease could do with renewing.
    pub(crate) fn is_renewal_due(&mut self, name: &TaskRef) -> Result<bool, PmFault> {
        let task = self.tx.task_get(name)?;
        let claim = self.tx.claim_live(&task.id)?;
        let (me, now) = (self.agent_id(), self.tx.now);
        Ok(claim.is_some_and(|claim| Some(&claim.agent_id) == me && !claim.is_due(now) && claim.wants_renewal(now)))
    }

    /// Renews the lease on a task that its holder looked at, when the call can only be the holder's session's.
    pub(crate) fn renew_by_look(&mut self, name: &TaskRef) -> Result<(), PmFault> {
        let Some(session) = self.session_if_any(None)? else { return Ok(()) };
        let open = self.task_to_change(name, Power::Read)?;
        match open.claim.filter(|claim| claim.session_id == session.id && claim.state == ClaimState::Live) {
            Some(claim) => self.tx.touch(&claim, &claim.renewed(self.tx.now)),
            None => Ok(()),
        }
    }
}

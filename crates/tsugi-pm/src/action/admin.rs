//! What people do to keep house: agents, memberships, tokens, and taking a claim away.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::action_context::ActionContext;
use super::caller::ActionCaller;
use super::status::StatusChange;
use super::view::TaskView;
use super::{Action, ActionEffect, Pm};
use crate::domain::agent::{Agent, AgentStatus, AgentType};
use crate::domain::event::EventKind;
use crate::domain::fault::PmFault;
use crate::domain::id::{AgentId, ProjectRef, SessionId, TaskRef, TokenId};
use crate::domain::limit;
use crate::domain::member::{Membership, Role};
use crate::domain::permission::{Power, denied};
use crate::domain::session::{self, AgentSession, EndKind, LifeSignal};
use crate::domain::task::TaskStatus;
use crate::domain::time::Moment;
use crate::domain::token::AccessToken;
use crate::store::tx::{Tx, hex_digest};

/// How the secret of every token begins, so that it is never taken for another kind of key.
pub const TOKEN_START: &str = "tsugi_pm_";

/// Registers an agent.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RegisterAgent {
    /// agt_…
    #[schemars(extend("ja" = "エージェントID"))]
    pub agent_id: Option<AgentId>,
    /// for people
    #[schemars(extend("ja" = "名前"))]
    pub name: Option<String>,
    /// what it is
    #[serde(rename = "type")]
    #[schemars(extend("ja" = "種別"))]
    pub kind: AgentType,
    /// its job
    #[serde(default)]
    #[schemars(extend("ja" = "役職"))]
    pub role_title: String,
    /// what it can do
    #[serde(default)]
    #[schemars(extend("ja" = "能力"))]
    pub capabilities: Vec<String>,
    /// how to work
    #[serde(default)]
    #[schemars(extend("ja" = "指示"))]
    pub instructions: String,
}

impl RegisterAgent {
    /// A program with an id.
    pub fn ai(agent_id: AgentId) -> Self {
        Self {
            agent_id: Some(agent_id),
            name: None,
            kind: AgentType::Ai,
            role_title: String::new(),
            capabilities: Vec::new(),
            instructions: String::new(),
        }
    }

    /// A person with an id.
    pub fn human(agent_id: AgentId) -> Self {
        Self { kind: AgentType::Human, ..Self::ai(agent_id) }
    }
}

impl Action for RegisterAgent {
    const NAME: &'static str = "register_agent";
    const EFFECT: ActionEffect = ActionEffect::Write;
    type Output = Agent;

    fn run(&self, context: &mut ActionContext<'_, '_>) -> Result<Agent, PmFault> {
        check_keeps_people(context)?;
        // An id that the caller chose is kept, so that it can be configured before it is registered.
        let id = self.agent_id.clone().unwrap_or_else(|| AgentId::mint(Tx::bits()));
        let name = self.name.clone().unwrap_or_else(|| id.to_string());
        if context.tx.agent_get(&id).is_ok() || context.tx.agent_by_name(&name)?.is_some() {
            return Err(PmFault::invalid(format!("there is already an agent `{id}` or `{name}`")).with("field", "name"));
        }
        let agent = Agent {
            id,
            name,
            kind: self.kind,
            role_title: self.role_title.clone(),
            capabilities: self.capabilities.clone(),
            instructions: self.instructions.clone(),
            status: AgentStatus::Active,
            version: 1,
            created_at: context.tx.now,
            updated_at: context.tx.now,
        };
        // Limits are checked on the record, so that every way to make one has the same.
        agent.check()?;
        context.tx.insert(&agent, EventKind::AgentRegistered.note())?;
        Ok(agent)
    }
}

/// Changes an agent; what is not named stays as it is.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UpdateAgent {
    /// agt_…
    #[schemars(extend("ja" = "エージェントID"))]
    pub agent_id: AgentId,
    /// for people
    #[schemars(extend("ja" = "名前"))]
    pub name: Option<String>,
    /// its job
    #[schemars(extend("ja" = "役職"))]
    pub role_title: Option<String>,
    /// what it can do
    #[schemars(extend("ja" = "能力"))]
    pub capabilities: Option<Vec<String>>,
    /// how to work
    #[schemars(extend("ja" = "指示"))]
    pub instructions: Option<String>,
    /// the new one
    #[schemars(extend("ja" = "状態"))]
    pub status: Option<AgentStatus>,
}

impl Action for UpdateAgent {
    const NAME: &'static str = "update_agent";
    const EFFECT: ActionEffect = ActionEffect::Write;
    type Output = Agent;

    fn run(&self, context: &mut ActionContext<'_, '_>) -> Result<Agent, PmFault> {
        check_keeps(context, &self.agent_id)?;
        let before = context.tx.agent_lock(&self.agent_id)?;
        // What is not named stays.
        let name = self.name.clone().unwrap_or_else(|| before.name.clone());
        if context.tx.agent_by_name(&name)?.is_some_and(|other| other.id != before.id) {
            return Err(PmFault::invalid(format!("there is already an agent `{name}`")).with("field", "name"));
        }
        let after = Agent {
            name,
            role_title: self.role_title.clone().unwrap_or_else(|| before.role_title.clone()),
            capabilities: self.capabilities.clone().unwrap_or_else(|| before.capabilities.clone()),
            instructions: self.instructions.clone().unwrap_or_else(|| before.instructions.clone()),
            status: self.status.unwrap_or(before.status),
            ..before.clone()
        };
        after.check()?;
        context.tx.update(&before, after, EventKind::AgentUpdated.note())
    }
}

/// Gives an agent a role in a project, or another one, or none.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetMembership {
    /// id or key
    #[schemars(extend("ja" = "ID・キー"))]
    pub project_id: ProjectRef,
    /// agt_…
    #[schemars(extend("ja" = "エージェントID"))]
    pub agent_id: AgentId,
    /// none to leave
    #[schemars(extend("ja" = "役割"))]
    pub role: Option<Role>,
    /// Whether a program may become an owner.
    #[serde(default)]
    #[schemars(skip)]
    pub allow_ai_owner: bool,
}

impl Action for SetMembership {
    const NAME: &'static str = "set_membership";
    const EFFECT: ActionEffect = ActionEffect::Write;
    type Output = Option<Membership>;

    fn run(&self, context: &mut ActionContext<'_, '_>) -> Result<Option<Membership>, PmFault> {
        // Only an owner decides who belongs to the project.
        let project_id = context.project_to_change(&self.project_id, Power::Own)?.0.id;
        let agent = context.tx.agent_get(&self.agent_id)?;
        // A program that owns a project could make itself reviewer of its own work.
        if self.role == Some(Role::Owner) && agent.kind == AgentType::Ai && !self.allow_ai_owner {
            return Err(denied("a program does not own a project", &["human"], self.role)
                .hint("make it a manager, or say --allow-ai-owner"));
        }
        // Locked even if it does not exist yet, so that two changes cannot both insert it.
        let before = context.tx.membership_lock(&project_id, &self.agent_id)?;
        match (before, self.role) {
            (None, None) => Ok(None),
            (None, Some(role)) => {
                let one = Membership { project_id, agent_id: agent.id, role, version: 1 };
                context.tx.insert(&one, EventKind::MembershipAdded.note())?;
                Ok(Some(one))
            }
            (Some(before), Some(role)) => {
                let after = Membership { role, ..before.clone() };
                context.tx.update(&before, after, EventKind::MembershipChanged.note()).map(Some)
            }
            (Some(before), None) => {
                context.tx.remove(&before, EventKind::MembershipRemoved.note())?;
                Ok(None)
            }
        }
    }
}

/// Agents are registered by an operator or by the owner of a project.
fn check_keeps_people(context: &mut ActionContext<'_, '_>) -> Result<(), PmFault> {
    let Some(agent) = context.caller.bound_agent() else { return Ok(()) };
    let owns = context.tx.membership_of_agent(agent)?.iter().any(|one| one.role.may(Power::Own));
    if owns {
        Ok(())
    } else {
        Err(denied("only an owner keeps agents", &["owner"], None).hint("ask the owner of a project"))
    }
}

/// Whether the caller may administer an agent: as an operator, as that agent, or as the owner of every project the agent
/// belongs to. Owning some project must not give power over agents of other projects.
fn keeps(context: &mut ActionContext<'_, '_>, kept: &AgentId) -> Result<bool, PmFault> {
    // An operator keeps every agent.
    let Some(me) = context.caller.bound_agent() else { return Ok(true) };
    if me == kept {
        return Ok(true);
    }
    // An agent without any project is kept by every owner: `all` of nothing is true.
    let mine = context.tx.membership_of_agent(me)?;
    let owned =
        |place: &Membership| mine.iter().any(|one| one.project_id == place.project_id && one.role.may(Power::Own));
    Ok(context.tx.membership_of_agent(kept)?.iter().all(owned))
}

fn check_keeps(context: &mut ActionContext<'_, '_>, kept: &AgentId) -> Result<(), PmFault> {
    check_keeps_people(context)?;
    if keeps(context, kept)? {
        return Ok(());
    }
    Err(denied(format!("{kept} also belongs to projects that are not yours"), &["owner"], None)
        .hint("ask the person who keeps the database: tsugi pm agent, tsugi pm token"))
}

/// Makes an access token.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IssueToken {
    /// agt_…
    #[schemars(extend("ja" = "エージェントID"))]
    pub agent_id: AgentId,
    /// Nothing: a token may do what its agent may. Kept so that a caller who means otherwise is refused.
    #[serde(default)]
    #[schemars(skip)]
    pub scopes: Vec<String>,
    /// never if unset
    #[schemars(extend("ja" = "有効秒数"))]
    pub expires_in_s: Option<i64>,
}

/// A new token; the secret is shown this once.
#[derive(Clone, Serialize, Deserialize)]
pub struct IssuedToken {
    pub token_id: TokenId,
    pub secret: String,
    /// When it stops working.
    pub expires_at: Option<Moment>,
}

impl std::fmt::Debug for IssuedToken {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("TokenMade").field("token_id", &self.token_id).finish_non_exhaustive()
    }
}

impl Action for IssueToken {
    const NAME: &'static str = "new_token";
    const EFFECT: ActionEffect = ActionEffect::Write;
    type Output = IssuedToken;

    fn run(&self, context: &mut ActionContext<'_, '_>) -> Result<IssuedToken, PmFault> {
        check_keeps(context, &self.agent_id)?;
        if !self.scopes.is_empty() {
            return Err(PmFault::invalid("a token has no scopes: it may do what its agent may")
                .hint("give the agent a role instead")
                .with("field", "scopes"));
        }
        let agent = context.tx.agent_get(&self.agent_id)?;
        // Two 128-bit numbers; the secret itself is never stored.
        let secret = format!("{TOKEN_START}{:032x}{:032x}", Tx::bits(), Tx::bits());
        let token = AccessToken {
            id: TokenId::mint(Tx::bits()),
            agent_id: agent.id,
            // A fast digest is enough for a secret with 256 random bits.
            hash: hex_digest(secret.as_bytes()),
            scopes: Vec::new(),
            created_at: context.tx.now,
            expires_at: self.expires_in_s.map(|seconds| context.tx.now.plus_seconds(seconds)),
            revoked_at: None,
            version: 1,
        };
        context.tx.insert(&token, EventKind::TokenMade.note())?;
        Ok(IssuedToken { token_id: token.id, secret, expires_at: token.expires_at })
    }
}

/// Withdraws a token.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RevokeToken {
    /// tok_…
    #[schemars(extend("ja" = "トークンID"))]
    pub token_id: TokenId,
}

impl Action for RevokeToken {
    const NAME: &'static str = "revoke_token";
    const EFFECT: ActionEffect = ActionEffect::Write;
    type Output = bool;

    fn run(&self, context: &mut ActionContext<'_, '_>) -> Result<bool, PmFault> {
        let found = context.tx.find_locked::<AccessToken>(&[self.token_id.as_str().into()])?;
        let token = found.ok_or_else(|| PmFault::not_found("token", &self.token_id))?;
        check_keeps(context, &token.agent_id)?;
        // Revoking twice is not an error, and leaves no second event.
        if token.revoked_at.is_some() {
            return Ok(false);
        }
        let revoked = AccessToken { revoked_at: Some(context.tx.now), ..token.clone() };
        context.tx.update(&token, revoked, EventKind::TokenRevoked.note())?;
        Ok(true)
    }
}

/// Lists tokens, without their digests.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ListTokens {
    /// agt_…
    #[schemars(extend("ja" = "エージェントID"))]
    pub agent_id: Option<AgentId>,
}

impl Action for ListTokens {
    const NAME: &'static str = "list_tokens";
    const EFFECT: ActionEffect = ActionEffect::Read;
    type Output = Vec<AccessToken>;

    fn run(&self, context: &mut ActionContext<'_, '_>) -> Result<Vec<AccessToken>, PmFault> {
        check_keeps_people(context)?;
        let mut kept = Vec::new();
        for token in context.tx.token_list(self.agent_id.as_ref())? {
            if keeps(context, &token.agent_id)? {
                // The digest is of no use to a reader.
                kept.push(AccessToken { hash: String::new(), ..token });
            }
        }
        Ok(kept)
    }
}

impl Pm {
    /// The caller that a secret stands for, if its agent may still act. Every wrong secret gets the same answer.
    pub async fn authenticate(&self, secret: &str) -> Result<Option<ActionCaller>, PmFault> {
        // Looked up by digest, so a wrong guess costs the same whatever it shares with a right one.
        let hash = hex_digest(secret.as_bytes());
        let found = self.store().read(move |tx| {
            let Some(token) = tx.token_by_hash(&hash)?.filter(|token| token.is_valid(tx.now)) else { return Ok(None) };
            let agent = tx.agent_get(&token.agent_id)?;
            Ok((agent.status == AgentStatus::Active).then_some(agent.id))
        });
        Ok(found.await?.map(ActionCaller::agent))
    }
}

/// Takes a claim away from its holder.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ForceRelease {
    /// id or KEY-n
    #[schemars(extend("ja" = "タスクID"))]
    pub task_id: TaskRef,
    /// why
    #[schemars(extend("ja" = "理由"))]
    pub reason: String,
}

impl Action for ForceRelease {
    const NAME: &'static str = "force_release";
    const EFFECT: ActionEffect = ActionEffect::Write;
    type Output = TaskView;

    fn run(&self, context: &mut ActionContext<'_, '_>) -> Result<TaskView, PmFault> {
        limit::chars("reason", &self.reason, 1, 2000)?;
        let open = context.task_to_change(&self.task_id, Power::Manage)?;
        // Releasing a task that is free is not an error.
        if open.claim.is_none() {
            return Ok(TaskView::brief(&open.task));
        }
        let change = StatusChange { to: TaskStatus::Todo, reason: Some(&self.reason), result: None };
        let task = context.change_status(&open, None, &change)?;
        Ok(TaskView::brief(&task))
    }
}

/// Ends an agent's session and releases its tasks.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ForceEndSession {
    /// ses_…
    #[schemars(extend("ja" = "セッション"))]
    pub session_id: SessionId,
    /// why
    #[schemars(extend("ja" = "理由"))]
    pub reason: String,
}

impl Action for ForceEndSession {
    const NAME: &'static str = "force_end_session";
    const EFFECT: ActionEffect = ActionEffect::Write;
    type Output = AgentSession;

    fn run(&self, context: &mut ActionContext<'_, '_>) -> Result<AgentSession, PmFault> {
        check_keeps_people(context)?;
        limit::chars("reason", &self.reason, 1, 2000)?;
        let found = context.tx.session_lock(&self.session_id)?;
        let session = found.ok_or_else(|| PmFault::not_found("session", &self.session_id))?;
        // The owner of the session's project may end it, even if the agent has other projects.
        let is_ours = match &session.project_id {
            Some(project) => context.role(project).is_ok_and(|role| role.may(Power::Own)),
            None => false,
        };
        if !is_ours {
            check_keeps(context, &session.agent_id)?;
        }
        let state = session::next(session.state, LifeSignal::End)?;
        for claim in context.tx.claim_of_session(&session.id)? {
            let open = context.task_to_change(&claim.task_id.into(), Power::Manage)?;
            if open.claim.is_some() {
                let change = StatusChange { to: TaskStatus::Todo, reason: Some(&self.reason), result: None };
                context.change_status(&open, None, &change)?;
            }
        }
        let ended =
            AgentSession { state, ended_at: Some(context.tx.now), end_kind: Some(EndKind::Admin), ..session.clone() };
        context.tx.update(&session, ended, EventKind::SessionEnded.because(Some(&self.reason)))
    }
}

//! Who acts: the agent that a process was started for, or the one that a caller's verified name stands for.

use crate::action::Pm;
use crate::action::admin::RegisterAgent;
use crate::action::desk::Caller;
use crate::action::people::{GetAgent, ListAgents};
use crate::domain::fault::{Code, Fault};
use crate::domain::id::AgentId;

/// The name that callers have who need no key: the person at this machine.
const LOCAL: &str = "local";
/// The agent of that person.
const LOCAL_AGENT: &str = "agt_local";

/// Who acts. No tool takes this as an argument: nobody can act as somebody else.
#[derive(Clone, Debug)]
pub enum Actor {
    /// Always this agent.
    Agent(AgentId),
    /// The agent that the caller's verified name stands for: an agent's id or name. `local`, the person at this
    /// machine, gets the agent `agt_local` on first use; every other unknown name is refused, since a key for the
    /// gateway is not yet a place in a project.
    Principal,
}

impl Actor {
    /// The agent behind a caller's name.
    pub(super) async fn agent(&self, pm: &Pm, principal: &str) -> Result<AgentId, Fault> {
        match self {
            Self::Agent(id) => Ok(id.clone()),
            Self::Principal if principal == LOCAL => local(pm).await,
            Self::Principal => known(pm, principal).await,
        }
    }

    /// Whether something about this agent is about whoever calls.
    pub(super) fn may_be(&self, agent: Option<&AgentId>) -> bool {
        match self {
            Self::Agent(id) => agent.is_none_or(|agent| agent == id),
            Self::Principal => true,
        }
    }
}

async fn local(pm: &Pm) -> Result<AgentId, Fault> {
    let id = AgentId::parse(LOCAL_AGENT)?;
    if is_there(pm, &id).await? {
        return Ok(id);
    }
    match pm.perform(&Caller::operator(), RegisterAgent::human(id.clone())).await {
        // Another call may have been quicker.
        Err(fault) if !is_there(pm, &id).await? => Err(fault),
        _ => Ok(id),
    }
}

/// Whether there is such an agent.
pub async fn is_there(pm: &Pm, id: &AgentId) -> Result<bool, Fault> {
    match pm.perform(&Caller::operator(), GetAgent { agent_id: id.clone() }).await {
        Ok(_) => Ok(true),
        Err(fault) if fault.code == Code::NotFound => Ok(false),
        Err(fault) => Err(fault),
    }
}

async fn known(pm: &Pm, principal: &str) -> Result<AgentId, Fault> {
    for id in [principal.to_owned(), format!("agt_{principal}")] {
        if let Ok(id) = AgentId::parse(&id)
            && is_there(pm, &id).await?
        {
            return Ok(id);
        }
    }
    match by_name(pm, principal).await? {
        Some(id) => Ok(id),
        None => Err(Fault::new(Code::PermissionDenied, format!("no agent is called `{principal}`"))
            .hint(format!("an operator can add it: tsugi pm agent add agt_{principal}"))),
    }
}

async fn by_name(pm: &Pm, name: &str) -> Result<Option<AgentId>, Fault> {
    let mut cursor = None;
    loop {
        let wish = ListAgents { limit: Some(200), cursor, ..ListAgents::default() };
        let page = pm.perform(&Caller::operator(), wish).await?;
        if let Some(agent) = page.agents.into_iter().find(|agent| agent.name == name) {
            return Ok(Some(agent.id));
        }
        match page.next_cursor {
            Some(next) => cursor = Some(next),
            None => return Ok(None),
        }
    }
}

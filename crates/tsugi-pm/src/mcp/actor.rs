//! Who acts: the agent that a process was started for, or the one that a caller's verified name stands for.

use tsugi_protocol::answer;

use crate::action::Pm;
use crate::action::admin::RegisterAgent;
use crate::action::agent::GetAgent;
use crate::action::caller::ActionCaller;
use crate::domain::fault::{Code, PmFault};
use crate::domain::id::AgentId;
use crate::domain::permission::denied;

/// The names that callers have who need no key: the person at this machine.
const LOCAL: [&str; 2] = ["local", "anonymous"];
/// The agent of that person.
const LOCAL_AGENT: &str = "agt_local";
/// Before an agent's id in the name of a caller who came with one of our tokens: `pm:agt_a@pm`.
const BY_TOKEN: &str = "pm:";

/// Which agent acts. No tool takes this as an argument, so no caller can act as another.
#[derive(Clone, Debug)]
pub enum ServerActor {
    Agent(AgentId),
    /// The agent that the caller's verified name stands for.
    ///
    /// A caller that may control the gateway has access to the whole database: such a caller owns every project, under an agent that
    /// is made on first use (`agt_local` for the person at this machine, else `agt_` and the key's name). Any other
    /// name must be that of an agent that was registered: a key for the gateway is not a membership in a project.
    Principal,
}

impl ServerActor {
    /// The agent behind a caller, and what rights it has.
    pub(super) async fn caller(&self, pm: &Pm, caller: &answer::Caller) -> Result<ActionCaller, PmFault> {
        match self {
            Self::Agent(id) => Ok(ActionCaller::agent(id.clone())),
            Self::Principal => of_principal(pm, caller).await,
        }
    }

    /// Whether this agent is the caller.
    pub(super) fn may_be(&self, agent: Option<&AgentId>) -> bool {
        match self {
            Self::Agent(id) => agent.is_none_or(|agent| agent == id),
            Self::Principal => true,
        }
    }
}

/// The agent of the person at this machine, who may not have been here yet.
pub fn local_agent() -> AgentId {
    AgentId::parse(LOCAL_AGENT).expect("the name is an id")
}

/// The name under which the holder of an agent's token calls the server of this name.
pub fn principal_of_token(agent: &AgentId, server: &str) -> String {
    format!("{BY_TOKEN}{agent}@{server}")
}

/// The server and agent in the name of a caller who came with one of our tokens.
pub fn server_and_agent(principal: &str) -> Option<(&str, AgentId)> {
    let (agent, server) = principal.strip_prefix(BY_TOKEN)?.split_once('@')?;
    Some((server, AgentId::parse(agent).ok()?))
}

/// The agent that a gateway's caller is.
pub async fn of_principal(pm: &Pm, caller: &answer::Caller) -> Result<ActionCaller, PmFault> {
    let principal = caller.principal();
    if let Some((_, id)) = server_and_agent(principal) {
        return Ok(ActionCaller::agent(id));
    }
    if caller.is_operator() {
        return operator(pm, principal).await.map(ActionCaller::operator_as);
    }
    match pm.agent_named(principal).await? {
        Some(id) => Ok(ActionCaller::agent(id)),
        None => Err(unknown(principal)),
    }
}

fn unknown(principal: &str) -> PmFault {
    let id = own_id(principal).map_or_else(|_| "agt_NAME".to_owned(), |id| id.to_string());
    denied(format!("no agent is called `{principal}`"), &["agent"], None).hint(format!(
        "an operator can add it and give it a place: tsugi pm agent add {id} --name {principal} --project KEY --role worker"
    ))
}

/// The agent of an operator: a person.
async fn operator(pm: &Pm, principal: &str) -> Result<AgentId, PmFault> {
    if LOCAL.contains(&principal) {
        return registered(pm, local_agent()).await;
    }
    match pm.agent_named(principal).await? {
        Some(id) => Ok(id),
        None => registered(pm, own_id(principal)?).await,
    }
}

/// The id that a name would have as an agent: what cannot stand in an id becomes a dash.
fn own_id(principal: &str) -> Result<AgentId, PmFault> {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
    AgentId::parse(&format!("agt_{}", principal.chars().take(60).map(plain).collect::<String>()))
}

/// A person's agent, made if there is none.
async fn registered(pm: &Pm, id: AgentId) -> Result<AgentId, PmFault> {
    if is_there(pm, &id).await? {
        return Ok(id);
    }
    match pm.perform(&ActionCaller::operator(), RegisterAgent::human(id.clone())).await {
        // Another call may have been quicker.
        Err(fault) if !is_there(pm, &id).await? => Err(fault),
        _ => Ok(id),
    }
}

/// Whether there is such an agent.
pub async fn is_there(pm: &Pm, id: &AgentId) -> Result<bool, PmFault> {
    match pm.perform(&ActionCaller::operator(), GetAgent { agent_id: id.clone() }).await {
        Ok(_) => Ok(true),
        Err(fault) if fault.code == Code::NotFound => Ok(false),
        Err(fault) => Err(fault),
    }
}

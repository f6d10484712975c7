//! Who acts: the agent that a process was started for, or the one that a caller's verified identity stands for.

use std::borrow::Cow;

use ring::digest::{SHA256, digest};
use tsugi_protocol::answer::{self, Identity};

use crate::action::Pm;
use crate::action::admin::RegisterAgent;
use crate::action::agent::GetAgent;
use crate::action::caller::ActionCaller;
use crate::domain::fault::{Code, PmFault};
use crate::domain::id::AgentId;
use crate::domain::permission::denied;

/// The agent of the person at this machine.
const LOCAL_AGENT: &str = "agt_local";

/// Which agent acts. No tool takes this as an argument, so no caller can act as another.
#[derive(Clone, Debug)]
pub enum ServerActor {
    Agent(AgentId),
    /// The agent that the caller's verified identity stands for.
    ///
    /// A caller that may control the gateway has access to the whole database: such a caller owns every project, under an agent that
    /// is made on first use (`agt_local` for the person at this machine, else `agt_` and the key's name). Any other
    /// caller needs an agent that was registered under its name: a key for the gateway is not a membership in a project.
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

/// The identity of the holder of an agent's token at the server of this name.
pub fn identity_of_token(agent: &AgentId, server: &str) -> Identity {
    Identity::pm_token(agent.as_str(), server)
}

/// The agent that a gateway's caller is.
pub async fn of_principal(pm: &Pm, caller: &answer::Caller) -> Result<ActionCaller, PmFault> {
    let identity = caller.identity();
    if let Identity::PmToken { agent, .. } = identity {
        return AgentId::parse(agent.as_str()).map(ActionCaller::agent);
    }
    if caller.is_operator() {
        return operator(pm, identity).await.map(ActionCaller::operator_as);
    }
    match named_agent(pm, identity).await? {
        Some(id) => Ok(ActionCaller::agent(id)),
        None => Err(unknown(identity)),
    }
}

/// The registered agent of this identity. A key's agent has the key's name; every other kind is registered by the whole
/// text of the identity, so that the holder of a token cannot choose an agent by choosing a name.
async fn named_agent(pm: &Pm, identity: &Identity) -> Result<Option<AgentId>, PmFault> {
    match agent_name(identity) {
        Some(name) => pm.agent_named(&name).await,
        None => Ok(None),
    }
}

fn agent_name(identity: &Identity) -> Option<Cow<'_, str>> {
    match identity {
        // All of them are one identity, which cannot stand for one agent.
        Identity::Local | Identity::Anonymous | Identity::PmToken { .. } => None,
        // A colon begins the text of another kind.
        Identity::Key(name) if !name.as_str().contains(':') => Some(Cow::Borrowed(name.as_str())),
        Identity::Key(_) | Identity::Subject { .. } | Identity::Certificate(_) => {
            Some(Cow::Owned(identity.to_string()))
        }
    }
}

fn unknown(identity: &Identity) -> PmFault {
    let id = own_id(identity).map_or_else(|_| "agt_NAME".to_owned(), |id| id.to_string());
    let name = agent_name(identity).unwrap_or(Cow::Borrowed("NAME"));
    denied(format!("no agent is called `{name}`"), &["agent"], None).hint(format!(
        "an operator can add it and give it a place: tsugi pm agent add {id} --name {name} --project KEY --role worker"
    ))
}

/// The agent of an operator: a person.
async fn operator(pm: &Pm, identity: &Identity) -> Result<AgentId, PmFault> {
    if matches!(identity, Identity::Local | Identity::Anonymous) {
        return registered(pm, local_agent()).await;
    }
    match named_agent(pm, identity).await? {
        Some(id) => Ok(id),
        None => registered(pm, own_id(identity)?).await,
    }
}

/// The id that an identity would have as an agent: what cannot stand in an id becomes a dash.
fn own_id(identity: &Identity) -> Result<AgentId, PmFault> {
    let name = agent_name(identity).unwrap_or(Cow::Borrowed("local"));
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
    let plain = |most: usize| name.chars().take(most).map(plain).collect::<String>();
    match identity {
        Identity::Key(key) if name == key.as_str() => AgentId::parse(&format!("agt_{}", plain(60))),
        // Two subjects can differ in what became a dash, and one of them may have chosen its name for that.
        _ => {
            let digest = digest(&SHA256, name.as_bytes());
            let tail: String = digest.as_ref().iter().take(6).map(|byte| format!("{byte:02x}")).collect();
            AgentId::parse(&format!("agt_{}-{tail}", plain(44)))
        }
    }
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

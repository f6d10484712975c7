//! The caller, as authenticated at the edge: no argument lets one agent act as another.

use crate::domain::id::{AgentId, SessionId};
use crate::domain::session::{Era, SessionHost};

/// Who calls, and through what.
#[derive(Clone, Debug)]
pub struct ActionCaller {
    who: CallerKind,
    /// The session of a legacy process, used when a call names none.
    pub(crate) default_session: Option<SessionId>,
    /// Which generation of the protocol the client speaks.
    pub(crate) era: Era,
    pub(crate) client_name: Option<String>,
    pub(crate) client_version: Option<String>,
    /// The process that hosts new sessions, when one does.
    pub(crate) host: Option<SessionHost>,
    /// Whether the person at the client said yes to this very call, where a rule wants a person's word.
    pub(crate) is_approved: bool,
}

/// What a caller may do hangs on this alone, so each case says it for itself.
#[derive(Clone, Debug)]
enum CallerKind {
    /// May do what its roles in its projects allow.
    Agent(AgentId),
    /// Has the whole database in hand, and so owns every project; works under a name.
    OperatorAs(AgentId),
    /// Has access to the whole database and acts without a name. Unsigned events are the system's.
    Operator { signs_as: Option<AgentId> },
}

impl ActionCaller {
    /// An agent, over the modern protocol, hosted by no process.
    pub fn agent(agent_id: AgentId) -> Self {
        Self::of(CallerKind::Agent(agent_id))
    }

    /// A person who has the database in hand and works under a name: what they do is theirs.
    pub fn operator_as(agent_id: AgentId) -> Self {
        Self::of(CallerKind::OperatorAs(agent_id))
    }

    /// A person with the database in their hands: the command, on this machine.
    pub fn operator() -> Self {
        Self::of(CallerKind::Operator { signs_as: None })
    }

    /// A person with the database in their hands, who holds no work but signs what they do.
    pub fn operator_signing_as(agent_id: AgentId) -> Self {
        Self::of(CallerKind::Operator { signs_as: Some(agent_id) })
    }

    /// The same caller in a process that hosts the sessions it begins.
    #[must_use]
    pub fn hosted_by(self, host: SessionHost) -> Self {
        Self { host: Some(host), ..self }
    }

    /// The agent that acts; none when a person works on the database directly.
    pub fn agent_id(&self) -> Option<&AgentId> {
        match &self.who {
            CallerKind::Agent(agent_id) | CallerKind::OperatorAs(agent_id) => Some(agent_id),
            CallerKind::Operator { .. } => None,
        }
    }

    /// Whether the caller has the whole database in hand.
    pub(crate) fn is_operator(&self) -> bool {
        self.bound_agent().is_none()
    }

    /// The agent whose roles limit this caller; none for an operator.
    pub(crate) fn bound_agent(&self) -> Option<&AgentId> {
        match &self.who {
            CallerKind::Agent(agent_id) => Some(agent_id),
            CallerKind::OperatorAs(_) | CallerKind::Operator { .. } => None,
        }
    }

    /// Whom the history names.
    pub(crate) fn signature(&self) -> Option<&AgentId> {
        match &self.who {
            CallerKind::Agent(agent_id) | CallerKind::OperatorAs(agent_id) => Some(agent_id),
            CallerKind::Operator { signs_as } => signs_as.as_ref(),
        }
    }

    fn of(who: CallerKind) -> Self {
        Self {
            who,
            default_session: None,
            era: Era::Modern,
            client_name: None,
            client_version: None,
            host: None,
            is_approved: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_has_the_database_in_hand_is_bound_by_no_role() {
        let ann = || AgentId::mint(1);
        let cases = [
            (ActionCaller::agent(ann()), Some(ann()), Some(ann()), Some(ann())),
            (ActionCaller::operator_as(ann()), None, Some(ann()), Some(ann())),
            (ActionCaller::operator_signing_as(ann()), None, None, Some(ann())),
            (ActionCaller::operator(), None, None, None),
        ];
        for (caller, bound, acts, signs) in cases {
            assert_eq!(caller.bound_agent().cloned(), bound, "{caller:?}");
            assert_eq!(caller.agent_id().cloned(), acts, "{caller:?}");
            assert_eq!(caller.signature().cloned(), signs, "{caller:?}");
            assert_eq!(caller.is_operator(), bound.is_none(), "{caller:?}");
        }
    }
}

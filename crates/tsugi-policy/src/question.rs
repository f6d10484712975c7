//! What a policy is asked: who wants to do what, with which thing, and how the request came in.

use std::net::IpAddr;

use crate::arguments::CallArguments;

/// What a caller wants to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PolicyAction {
    CallTool,
    GetPrompt,
    ReadResource,
    /// Be notified when a resource changes.
    Subscribe,
    /// Have an argument of a prompt or a resource template completed.
    Complete,
    /// Look at, answer or cancel a task that a tool has begun.
    Task,
    /// Send a method that no revision of MCP defines.
    Method,
    /// Have it in a list.
    See,
    /// Control the gateway: start, stop, add or remove servers, and read their logs.
    Control,
    /// Make the gateway connect to a server that the configuration does not have.
    ConnectUpstream,
}

impl PolicyAction {
    pub const ALL: [PolicyAction; 10] = [
        PolicyAction::CallTool,
        PolicyAction::GetPrompt,
        PolicyAction::ReadResource,
        PolicyAction::Subscribe,
        PolicyAction::Complete,
        PolicyAction::Task,
        PolicyAction::Method,
        PolicyAction::See,
        PolicyAction::Control,
        PolicyAction::ConnectUpstream,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            PolicyAction::CallTool => "callTool",
            PolicyAction::GetPrompt => "getPrompt",
            PolicyAction::ReadResource => "readResource",
            PolicyAction::Subscribe => "subscribe",
            PolicyAction::Complete => "complete",
            PolicyAction::Task => "task",
            PolicyAction::Method => "method",
            PolicyAction::See => "see",
            PolicyAction::Control => "control",
            PolicyAction::ConnectUpstream => "connectUpstream",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.as_str() == text)
    }

    /// True for what is about one tool, prompt or resource of a server. A rule that permits without naming actions means
    /// these: nothing opens methods or control that was not written down.
    pub(crate) const fn is_use(self) -> bool {
        !matches!(self, PolicyAction::Method | PolicyAction::Control | PolicyAction::ConnectUpstream)
    }
}

/// Actions of one rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ActionSet(u16);

impl ActionSet {
    pub fn contains(self, action: PolicyAction) -> bool {
        self.0 & Self::bit(action) != 0
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn is_superset(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    fn bit(action: PolicyAction) -> u16 {
        1 << (action as u16)
    }
}

impl FromIterator<PolicyAction> for ActionSet {
    fn from_iter<T: IntoIterator<Item = PolicyAction>>(actions: T) -> Self {
        Self(actions.into_iter().fold(0, |set, action| set | Self::bit(action)))
    }
}

impl Extend<PolicyAction> for ActionSet {
    fn extend<T: IntoIterator<Item = PolicyAction>>(&mut self, actions: T) {
        self.0 |= actions.into_iter().collect::<ActionSet>().0;
    }
}

/// Who asks, as verified. What is not known is empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PrincipalFacts {
    /// As logs write it: `key:ann`, `subject:corp:alice`, `certificate:build`, `anonymous`, `local`.
    pub identity: String,
    /// One of [`ROLES`].
    pub role: &'static str,
    pub groups: Vec<String>,
    pub tenant: String,
    pub scopes: Vec<String>,
    /// The OAuth client.
    pub client: String,
    /// The short name of the token's issuer.
    pub issuer: String,
    /// When the person signed in, in seconds since 1970; 0 when that is not known.
    pub auth_time: i64,
}

/// The names of all actions.
pub(crate) const ACTIONS: &[&str] = &{
    let mut names = [""; PolicyAction::ALL.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = PolicyAction::ALL[at].as_str();
        at += 1;
    }
    names
};

/// What `principal.role` can be.
pub const ROLES: &[&str] = &["admin", "user", "readOnly"];

/// What `context.face` can be. It is empty for questions that no face asks, such as those of the dashboard.
pub const FACES: &[&str] = &["mcp", "legacy", "stream", "rest", "rpc", "control", ""];

/// What `context.era` can be. It is empty for faces that do not speak MCP.
pub const ERAS: &[&str] = &["modern", "legacy", ""];

/// What kind of name a resource has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NameKind {
    Tool,
    Prompt,
    /// A URI, or a template of one.
    Address,
    /// A method of JSON-RPC.
    Method,
    /// An order to the gateway, such as `restart`.
    Order,
}

impl NameKind {
    /// What a caller does with it once it has seen it in a list.
    pub(crate) const fn main_use(self) -> Option<PolicyAction> {
        match self {
            NameKind::Tool => Some(PolicyAction::CallTool),
            NameKind::Prompt => Some(PolicyAction::GetPrompt),
            NameKind::Address => Some(PolicyAction::ReadResource),
            NameKind::Method | NameKind::Order => None,
        }
    }
}

/// What the caller wants to use.
#[derive(Debug, Clone, Copy)]
pub struct ResourceFacts<'a> {
    /// The server's name in the configuration; empty for the gateway itself.
    pub server: &'a str,
    /// The server's own name for it.
    pub name: &'a str,
    pub kind: NameKind,
    /// The tags that the configuration gives to the server and to the tool.
    pub tags: &'a [String],
    pub hints: ResourceHints,
    /// Whether the lock file has it.
    pub is_pinned: bool,
}

/// What the operator says about a tool. What the server says about itself is a claim and does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResourceHints {
    pub is_read_only: bool,
    pub is_idempotent: bool,
}

/// How the request came in.
#[derive(Debug, Clone, Copy)]
pub struct QuestionContext<'a> {
    pub arguments: &'a CallArguments,
    /// One of [`FACES`].
    pub face: &'static str,
    /// One of [`ERAS`].
    pub era: &'static str,
    pub address: Option<IpAddr>,
    /// Seconds since 1970.
    pub now: i64,
}

/// One question.
#[derive(Debug, Clone, Copy)]
pub struct PolicyQuestion<'a> {
    pub principal: &'a PrincipalFacts,
    pub action: PolicyAction,
    pub resource: ResourceFacts<'a>,
    pub context: QuestionContext<'a>,
}

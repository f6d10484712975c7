//! Policies at the gateway: what a question is made of here, and what follows from its answer.
//!
//! Everything that a permit decides is asked here too, after the permit. To see and to use are two questions: lists ask
//! the first, calls the second.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;
use tsugi_pins::{PinKey, PinKind, PinStore};
use tsugi_policy::arguments::CallArguments;
use tsugi_policy::cache::DecisionCache;
use tsugi_policy::question::{
    NameKind, PolicyAction, PolicyQuestion, PrincipalFacts, QuestionContext, ResourceFacts, ResourceHints,
};
use tsugi_policy::set::{PolicyDecision, PolicySet, PolicyVerdict};
use tsugi_protocol::answer::{Call, Caller, DecidingRule, Identity};
use tsugi_protocol::json::RawJson;
use tsugi_protocol::mcp::Method;
use tsugi_protocol::mcp::version::Era;

use super::api_key::KeyRole;
use super::authority::Authority;
use crate::telemetry::GatewayMetrics;

/// What follows from a policy's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PolicyMode {
    /// What it denies is refused.
    #[default]
    Enforce,
    /// What it denies is counted and passes.
    Shadow,
}

/// What the configuration says about servers and tools, for conditions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerFacts {
    pub tags: Vec<String>,
    /// The tools of which more is said, with all of their tags.
    pub tools: HashMap<String, ToolFacts>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolFacts {
    pub tags: Vec<String>,
    pub hints: ResourceHints,
}

/// The rules that hold now.
pub struct PolicyGuard {
    set: Arc<PolicySet>,
    mode: PolicyMode,
    servers: HashMap<String, ServerFacts>,
    pins: Option<Arc<PinStore>>,
    /// No two guards of a process have the same, so remembered decisions belong to one.
    generation: u64,
}

static GENERATION: AtomicU64 = AtomicU64::new(1);

impl PolicyGuard {
    pub fn new(set: Arc<PolicySet>, mode: PolicyMode) -> Self {
        let generation = GENERATION.fetch_add(1, Ordering::Relaxed);
        Self { set, mode, servers: HashMap::new(), pins: None, generation }
    }

    /// With what the configuration says about its servers.
    pub fn with_servers(mut self, servers: HashMap<String, ServerFacts>) -> Self {
        self.servers = servers;
        self
    }

    /// With the lock file, for rules that ask whether a tool is pinned.
    pub fn with_pins(mut self, pins: Option<Arc<PinStore>>) -> Self {
        self.pins = pins;
        self
    }

    pub fn mode(&self) -> PolicyMode {
        self.mode
    }

    pub fn set(&self) -> &PolicySet {
        &self.set
    }

    pub(crate) fn is_enforced(&self) -> bool {
        self.mode == PolicyMode::Enforce
    }

    /// True when some rule may permit this caller something of a server.
    pub(crate) fn may_permit_some_of(&self, caller: &Caller, server: &str) -> bool {
        with_memo(caller, |memo| self.set.may_permit_some_of(memo.principal(caller), server))
    }

    /// Decides.
    pub(crate) fn decide(&self, asked: &PolicyRequest<'_>) -> PolicyDecision {
        let facts = self.facts(asked.server, asked.name);
        let reads = self.set.reads();
        // Read only where a rule looks at them: most policies are about names alone.
        let arguments = match asked.action != PolicyAction::See && reads.arguments {
            true => CallArguments::read(asked.arguments.as_ref().map(RawJson::as_str)),
            false => CallArguments::Absent,
        };
        let now = if reads.clock {
            SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
        } else {
            Default::default()
        };
        with_memo(asked.caller, |memo| {
            let question = PolicyQuestion {
                principal: memo.principal(asked.caller),
                action: asked.action,
                resource: ResourceFacts {
                    server: asked.server,
                    name: asked.name,
                    kind: asked.kind,
                    tags: facts.0,
                    hints: facts.1,
                    is_pinned: reads.pinned && self.is_pinned(asked),
                },
                context: QuestionContext {
                    arguments: &arguments,
                    face: asked.origin.face,
                    era: asked.origin.era,
                    address: asked.origin.address,
                    now: i64::try_from(now.as_secs()).unwrap_or(i64::MAX),
                },
            };
            memo.decisions.decide(&self.set, self.generation, &question)
        })
    }

    /// The rule behind a denial.
    fn deciding(&self, decision: &PolicyDecision) -> DecidingRule {
        let is_error = matches!(decision.verdict, PolicyVerdict::Failed(_));
        DecidingRule { name: self.set.decided_by(decision.verdict).into(), is_error }
    }

    fn facts(&self, server: &str, name: &str) -> (&[String], ResourceHints) {
        let Some(server) = self.servers.get(server) else { return (&[], ResourceHints::default()) };
        match server.tools.get(name) {
            Some(tool) => (&tool.tags, tool.hints),
            None => (&server.tags, ResourceHints::default()),
        }
    }

    fn is_pinned(&self, asked: &PolicyRequest<'_>) -> bool {
        let kind = match asked.kind {
            NameKind::Tool => PinKind::Tool,
            NameKind::Prompt => PinKind::Prompt,
            NameKind::Address => PinKind::Resource,
            NameKind::Method | NameKind::Order => return false,
        };
        let key = PinKey::new(asked.server, kind, asked.name);
        self.pins.as_ref().is_some_and(|pins| pins.with_lock(|lock| lock.get(&key).is_some()))
    }
}

/// How a request came in, as far as rules may look at it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RequestOrigin {
    pub(crate) face: &'static str,
    pub(crate) era: &'static str,
    pub(crate) address: Option<IpAddr>,
}

impl RequestOrigin {
    pub(crate) fn of(call: &Call) -> Self {
        let era = match call.options.era {
            Some(Era::Modern) => "modern",
            Some(Era::Legacy) => "legacy",
            None => "",
        };
        Self { face: call.options.face, era, address: call.options.address }
    }

    pub(crate) fn by(face: &'static str, address: Option<IpAddr>) -> Self {
        Self { face, era: "", address }
    }
}

/// One question of the gateway.
pub(crate) struct PolicyRequest<'a> {
    pub(crate) caller: &'a Caller,
    pub(crate) action: PolicyAction,
    pub(crate) kind: NameKind,
    pub(crate) server: &'a str,
    pub(crate) name: &'a str,
    pub(crate) arguments: Option<RawJson>,
    pub(crate) origin: RequestOrigin,
}

/// What a call does, and the part of its parameters that rules see as arguments.
fn action_of(call: &Call) -> (PolicyAction, Option<RawJson>) {
    match &call.method {
        Method::ToolsCall => (PolicyAction::CallTool, call.params.get("arguments")),
        Method::PromptsGet => (PolicyAction::GetPrompt, call.params.get("arguments")),
        Method::ResourcesRead => (PolicyAction::ReadResource, None),
        Method::ResourcesSubscribe | Method::ResourcesUnsubscribe | Method::Listen => (PolicyAction::Subscribe, None),
        Method::Complete => (PolicyAction::Complete, call.params.get("argument")),
        // Extensions that read, too.
        method if matches!(method.as_str(), "skills/get" | "resources/directory/read") => {
            (PolicyAction::ReadResource, None)
        }
        method if method.as_str().starts_with("tasks/") => (PolicyAction::Task, Some(call.params.raw())),
        _ => (PolicyAction::Method, Some(call.params.raw())),
    }
}

/// The policy as one request meets it.
#[derive(Clone)]
pub(crate) struct PolicyGate {
    pub(crate) guard: Arc<PolicyGuard>,
    pub(crate) metrics: Option<Arc<GatewayMetrics>>,
}

impl std::fmt::Debug for PolicyGate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PolicyGate({:?})", self.guard.mode)
    }
}

impl PolicyGate {
    /// Whether a call may use this. In shadow mode it always may, and is counted if it should not.
    pub(crate) fn ask(&self, call: &Call, server: &str, kind: NameKind, name: &str) -> Result<(), DecidingRule> {
        let (action, arguments) = action_of(call);
        let origin = RequestOrigin::of(call);
        self.expect(&PolicyRequest { caller: &call.caller, action, kind, server, name, arguments, origin })
    }

    pub(crate) fn expect(&self, asked: &PolicyRequest<'_>) -> Result<(), DecidingRule> {
        let decision = self.guard.decide(asked);
        if decision.verdict.is_permitted() {
            return Ok(());
        }
        let rule = self.guard.deciding(&decision);
        let (policy, action, identity) = (&*rule.name, asked.action.as_str(), asked.caller.identity());
        let (server, name) = (asked.server, asked.name);
        if let Some(error) = &decision.error {
            tracing::warn!(target: "tsugi_access", policy, %identity, action, server, name, %error, "a policy rule could not be evaluated");
        }
        if self.guard.is_enforced() {
            return Err(rule);
        }
        tracing::info!(target: "tsugi_access", rule = "policy", policy, %identity, action, server, name, "would have refused a call");
        if let Some(metrics) = &self.metrics {
            metrics.shadow_denied(policy);
        }
        Ok(())
    }

    /// Whether a list shows this to a caller. Lists are not counted in shadow mode.
    pub(crate) fn shows(
        &self,
        caller: &Caller,
        origin: RequestOrigin,
        server: &str,
        kind: NameKind,
        name: &str,
    ) -> bool {
        let asked = PolicyRequest { caller, action: PolicyAction::See, kind, server, name, arguments: None, origin };
        !self.guard.is_enforced() || self.guard.decide(&asked).verdict.is_permitted()
    }
}

/// What policies know and remember of one authority.
#[derive(Debug, Default)]
pub(super) struct PolicyMemo {
    principal: std::sync::OnceLock<PrincipalFacts>,
    decisions: DecisionCache,
}

impl PolicyMemo {
    fn principal(&self, caller: &Caller) -> &PrincipalFacts {
        self.principal.get_or_init(|| principal_facts(caller))
    }
}

/// Uses what is remembered of the caller's authority. Calls that begin inside this program have none.
fn with_memo<T>(caller: &Caller, work: impl FnOnce(&PolicyMemo) -> T) -> T {
    match Authority::of(caller) {
        Some(authority) => work(authority.policy_memo()),
        None => work(&PolicyMemo::default()),
    }
}

fn principal_facts(caller: &Caller) -> PrincipalFacts {
    let owner = caller.owner();
    let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
    let authority = Authority::of(caller);
    let role = match authority.map(Authority::role) {
        Some(KeyRole::Admin) => "admin",
        Some(KeyRole::Reader) => "readOnly",
        None if caller.is_operator() => "admin",
        Some(KeyRole::User) | None => "user",
    };
    PrincipalFacts {
        identity: owner.identity.to_string(),
        role,
        groups: authority.map(|authority| authority.groups().to_vec()).unwrap_or_default(),
        tenant: text(owner.tenant.as_ref().map(|tenant| tenant.as_str())),
        scopes: authority
            .and_then(Authority::scopes)
            .map(|scopes| scopes.iter().cloned().collect())
            .unwrap_or_default(),
        client: text(owner.client.as_ref().map(|client| client.as_str())),
        issuer: match &owner.identity {
            Identity::Subject { issuer, .. } => issuer.as_str().to_owned(),
            _ => String::new(),
        },
        auth_time: authority
            .and_then(|authority| authority.attributes().get("auth_time").and_then(Value::as_i64))
            .unwrap_or_default(),
    }
}

//! What one request may see and use: the permit of its authority, and the servers that its tenant shares.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use tsugi_auth::scope::ScopeSet;
use tsugi_policy::question::NameKind;
use tsugi_protocol::answer::identity::TenantName;
use tsugi_protocol::answer::{Call, Caller, DecidingRule, Fault, Identity};
use tsugi_protocol::mcp::Method;

use super::authority::Authority;
use super::oauth::resource::ResourceDirectory;
use super::oauth::scope_challenge;
use super::oauth::scope_rules::ScopeSubject;
use super::permit::AccessPermit;
use super::policy::{PolicyGate, RequestOrigin};

/// Which tenants see which servers. A server that is not named here is everyone's.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct ServerTenants(HashMap<String, BTreeSet<TenantName>>);

impl ServerTenants {
    pub fn new(servers: impl IntoIterator<Item = (String, BTreeSet<TenantName>)>) -> Self {
        Self(servers.into_iter().collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn shows(&self, server: &str, tenant: Option<&TenantName>) -> bool {
        let Some(tenants) = self.0.get(server) else { return true };
        tenant.is_some_and(|tenant| tenants.contains(tenant))
    }
}

/// What the request of one caller may see and use. Lists and calls are decided by the same functions.
#[derive(Debug, Clone)]
pub struct CallerAccess {
    /// Without one everything is allowed.
    permit: Option<Arc<AccessPermit>>,
    /// Set where some servers belong to tenants and the caller is not an operator above all of them.
    tenancy: Option<(Arc<ServerTenants>, Option<TenantName>)>,
    /// Set where calls need scopes and the caller's credential has some.
    scopes: Option<ScopeGate>,
    /// Set where there is a policy.
    policy: Option<PolicyView>,
}

/// The policy, and what it is asked about for lists.
#[derive(Debug, Clone)]
struct PolicyView {
    gate: PolicyGate,
    caller: Caller,
    origin: RequestOrigin,
}

/// The scopes that calls need, and the caller that has some.
#[derive(Debug, Clone)]
struct ScopeGate {
    resources: Arc<ResourceDirectory>,
    caller: Caller,
}

impl CallerAccess {
    /// By the authority that the caller carries. Only calls that begin inside this program have none.
    pub(super) fn new(
        caller: &Caller,
        tenants: &Arc<ServerTenants>,
        resources: Option<&Arc<ResourceDirectory>>,
    ) -> Self {
        let permit = match Authority::of(caller) {
            Some(authority) if authority.is_current() => authority.permit().cloned(),
            None if *caller.identity() == Identity::Local => None,
            // The credential is gone, or no stage of ours has identified the caller.
            _ => Some(Arc::new(AccessPermit::nothing())),
        };
        let tenant = &caller.owner().tenant;
        let is_above = tenants.is_empty() || tenant.is_none() && caller.is_operator();
        let scopes = resources.filter(|resources| !resources.rules().is_empty()).and_then(|resources| {
            // Keys have no scopes: what they may use is their permit.
            Authority::of(caller)?.scopes()?;
            Some(ScopeGate { resources: resources.clone(), caller: caller.clone() })
        });
        Self { permit, tenancy: (!is_above).then(|| (tenants.clone(), tenant.clone())), scopes, policy: None }
    }

    /// The same under a policy.
    pub(super) fn under(mut self, gate: PolicyGate, caller: &Caller) -> Self {
        self.policy = Some(PolicyView { gate, caller: caller.clone(), origin: RequestOrigin::default() });
        self
    }

    /// The same for a request that came in as this call did.
    pub(crate) fn asked_by(mut self, call: &Call) -> Self {
        if let Some(policy) = &mut self.policy {
            policy.origin = RequestOrigin::of(call);
        }
        self
    }

    /// True when a policy refuses what it does not permit.
    pub(crate) fn has_enforced_policy(&self) -> bool {
        self.policy.as_ref().is_some_and(|policy| policy.gate.guard.is_enforced())
    }

    /// True when not everything may be seen.
    pub(crate) fn is_restricted(&self) -> bool {
        self.permit.is_some() || self.tenancy.is_some() || self.has_enforced_policy()
    }

    /// True when a call must name what the server lists, in the server's own spelling: a server that ignores case would
    /// otherwise run a tool under a name that no rule knows.
    pub(crate) fn needs_listed_names(&self) -> bool {
        self.is_restricted() || self.scopes.is_some()
    }

    /// Refuses a call that needs a scope which the caller's token lacks. What the caller may not use at all was refused
    /// before: more scope would not help there.
    pub(crate) fn expect_scopes(&self, server: &str, subject: ScopeSubject<'_>) -> Result<(), Fault> {
        let Some(gate) = &self.scopes else { return Ok(()) };
        match gate.missing(server, subject) {
            None => Ok(()),
            Some(needed) => Err(scope_challenge::insufficient(&needed).on_server(server)),
        }
    }

    /// Asks the policy whether a call may use what the permit allows. In shadow mode the answer is always yes.
    pub(crate) fn expect_policy(
        &self,
        call: &Call,
        server: &str,
        kind: NameKind,
        name: &str,
    ) -> Result<(), DecidingRule> {
        self.policy.as_ref().map_or(Ok(()), |policy| policy.gate.ask(call, server, kind, name))
    }

    /// True when no policy keeps an address of a server from a call. Nothing is counted.
    pub(crate) fn may_use_address(&self, call: &Call, server: &str, uri: &str) -> bool {
        !self.has_enforced_policy() || self.expect_policy(call, server, NameKind::Address, uri).is_ok()
    }

    /// True when a list shows this. What may be called and what may be seen are two questions to a policy, and one to
    /// permits.
    pub(crate) fn lists(&self, server: &str, kind: NameKind, name: &str) -> bool {
        let is_allowed = match kind {
            NameKind::Address => self.allows_address(server, name),
            _ => self.allows(server, name),
        };
        is_allowed && self.shows_by_policy(server, kind, name)
    }

    /// True when a list shows this, whatever kind of name it is.
    pub(crate) fn lists_any(&self, server: &str, name: &str) -> bool {
        let kinds = [NameKind::Tool, NameKind::Prompt, NameKind::Address];
        self.allows(server, name)
            && (!self.has_enforced_policy() || kinds.iter().any(|kind| self.shows_by_policy(server, *kind, name)))
    }

    fn shows_by_policy(&self, server: &str, kind: NameKind, name: &str) -> bool {
        self.policy.as_ref().is_none_or(|policy| policy.gate.shows(&policy.caller, policy.origin, server, kind, name))
    }

    fn shows(&self, server: &str) -> bool {
        self.tenancy.as_ref().is_none_or(|(tenants, tenant)| tenants.shows(server, tenant.as_ref()))
    }

    /// True when something of this server may be seen.
    pub(crate) fn allows_some_of(&self, server: &str) -> bool {
        self.shows(server)
            && self.permit.as_ref().is_none_or(|permit| permit.allows_some_of(server))
            && self.policy.as_ref().is_none_or(|policy| {
                let guard = &policy.gate.guard;
                !guard.is_enforced() || guard.may_permit_some_of(&policy.caller, server)
            })
    }

    /// True when a tool or prompt that the server lists under this name may be used.
    pub(crate) fn allows(&self, server: &str, own: &str) -> bool {
        self.shows(server) && self.permit.as_ref().is_none_or(|permit| permit.allows(server, own))
    }

    /// True when the patterns allow this address. Whether the server has it is for the hub to look up.
    pub(crate) fn allows_address(&self, server: &str, uri: &str) -> bool {
        self.shows(server) && self.permit.as_ref().is_none_or(|permit| permit.allows_uri(server, uri))
    }

    /// True when a method that no revision defines may be sent to this server.
    pub(crate) fn allows_method(&self, server: &str, method: &Method) -> bool {
        self.shows(server) && self.permit.as_ref().is_none_or(|permit| permit.allows_method(server, method.as_str()))
    }
}

impl CallerAccess {
    /// True when a task that came of this tool may be asked about. What a caller may do about its own tasks follows from
    /// the tool, so that no pattern need name the methods; one that denies them holds.
    pub(crate) fn allows_task(&self, server: &str, tool: &str, method: &Method) -> bool {
        self.allows(server, tool) && !self.denies_method(server, method)
    }

    /// True when a pattern denies this method of this server.
    pub(crate) fn denies_method(&self, server: &str, method: &Method) -> bool {
        self.permit.as_ref().is_some_and(|permit| permit.denies_method(server, method.as_str()))
    }
}

impl ScopeGate {
    /// Everything that the call needs, if something of it is missing.
    fn missing(&self, server: &str, subject: ScopeSubject<'_>) -> Option<ScopeSet> {
        self.resources.missing_scopes(Authority::of(&self.caller)?, server, subject)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::api_key::KeyRole;

    fn caller(tenant: Option<&'static str>, role: KeyRole) -> Caller {
        let authority = Authority::new(Identity::key("ann")).with_role(role);
        let authority = tenant.map(TenantName::new).into_iter().fold(authority, Authority::of_tenant);
        Arc::new(authority).into_caller()
    }

    #[test]
    fn a_tenants_server_is_shown_to_that_tenant_and_to_operators_above_all() {
        let tenants = ServerTenants::new([("books".to_owned(), BTreeSet::from([TenantName::new("acme")]))]);
        let tenants = Arc::new(tenants);
        for (tenant, role, is_shown) in [
            (Some("acme"), KeyRole::User, true),
            (Some("other"), KeyRole::User, false),
            (Some("other"), KeyRole::Admin, false),
            (None, KeyRole::User, false),
            (None, KeyRole::Reader, false),
            (None, KeyRole::Admin, true),
        ] {
            let access = CallerAccess::new(&caller(tenant, role), &tenants, None);
            let shown = [
                access.allows_some_of("books"),
                access.allows("books", "read"),
                access.allows_address("books", "file:///a"),
                access.allows_method("books", &Method::from("vendor/x")),
            ];
            assert_eq!(shown, [is_shown; 4], "{tenant:?} {role:?}");
            assert!(access.allows("files", "read"), "a server without tenants is everyone's");
        }
    }

    #[test]
    fn a_caller_that_no_stage_identified_may_use_nothing() {
        let none = Arc::default();
        assert!(!CallerAccess::new(&Caller::local(), &none, None).is_restricted());
        for identity in [Identity::Anonymous, Identity::key("local"), Identity::subject("corp", "local")] {
            assert!(!CallerAccess::new(&Caller::of(identity), &none, None).allows("files", "read"));
        }
        let revoked = Arc::new(Authority::new(Identity::key("ann")));
        let caller = revoked.clone().into_caller();
        assert!(CallerAccess::new(&caller, &none, None).allows("files", "read"));
        revoked.revoke();
        assert!(!CallerAccess::new(&caller, &none, None).allows("files", "read"));
    }
}

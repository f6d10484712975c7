//! What was found out about the sender of a request: who it is, and what this one request may do.
//!
//! The identify stage makes an [`Authority`] for each request, and the calls of the request carry it. Nothing looks up by
//! a name later what a caller may do, so two credentials of one person never get each other's rights.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use serde_json::Value;
use tokio::sync::OwnedSemaphorePermit;
use tsugi_auth::scope::ScopeSet;
use tsugi_protocol::answer::identity::{ClientId, TenantName};
use tsugi_protocol::answer::{CallOwner, Caller, Fault, Identity};
use tsugi_protocol::mcp::Method;

use super::api_key::KeyRole;
use super::permit::AccessPermit;
use super::policy::PolicyMemo;

/// What one request may do. It does not change; a credential that is taken away is marked in it.
#[derive(Debug)]
pub struct Authority {
    owner: CallOwner,
    role: KeyRole,
    scopes: Option<BTreeSet<String>>,
    granted_scopes: Option<ScopeSet>,
    permit: Option<Arc<AccessPermit>>,
    quota: Option<Arc<dyn CallLedger>>,
    attributes: BTreeMap<String, Value>,
    groups: Vec<String>,
    policy: PolicyMemo,
    until: Option<SystemTime>,
    is_revoked: AtomicBool,
}

/// Counts the calls of one caller. The state may be in this process or shared by several gateways.
pub trait CallLedger: fmt::Debug + Send + Sync {
    /// Takes what one more call needs; its room is held for as long as it runs.
    fn begin(&self) -> Result<Option<OwnedSemaphorePermit>, Fault>;

    /// Where the numbers are kept.
    fn scope(&self) -> LedgerScope {
        LedgerScope::Process
    }
}

/// How far the numbers of a [`CallLedger`] reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LedgerScope {
    /// This process counts alone: two gateways allow twice as much.
    Process,
    /// Gateways that share a store count together.
    Fleet,
}

impl Authority {
    /// A user who may use everything. The other functions narrow it.
    pub fn new(owner: impl Into<CallOwner>) -> Self {
        Self {
            owner: owner.into(),
            role: KeyRole::User,
            scopes: None,
            granted_scopes: None,
            permit: None,
            quota: None,
            attributes: BTreeMap::new(),
            groups: Vec::new(),
            policy: PolicyMemo::default(),
            until: None,
            is_revoked: AtomicBool::new(false),
        }
    }

    /// For the OAuth client that the token was issued to. Sessions and tasks belong to identity and client together.
    pub fn for_client(mut self, client: ClientId) -> Self {
        self.owner.client = Some(client);
        self
    }

    /// Of this tenant. It comes from the credential, never from the request.
    pub fn of_tenant(mut self, tenant: TenantName) -> Self {
        self.owner.tenant = Some(tenant);
        self
    }

    pub fn with_role(mut self, role: KeyRole) -> Self {
        self.role = role;
        self
    }

    /// With these scopes alone. Credentials that know no scopes have none set.
    pub fn with_scopes(mut self, scopes: impl IntoIterator<Item = String>) -> Self {
        self.scopes = Some(scopes.into_iter().collect());
        self
    }

    /// With the scopes as the token itself has them, without those that they include. A challenge repeats them.
    pub fn with_granted_scopes(mut self, scopes: ScopeSet) -> Self {
        self.granted_scopes = Some(scopes);
        self
    }

    /// With access to this alone.
    pub fn with_permit(mut self, permit: impl Into<Arc<AccessPermit>>) -> Self {
        self.permit = Some(permit.into());
        self
    }

    /// Counted by this ledger.
    pub fn with_quota(mut self, quota: Arc<dyn CallLedger>) -> Self {
        self.quota = Some(quota);
        self
    }

    /// With what policies may decide on, such as verified claims.
    pub fn with_attributes(mut self, attributes: BTreeMap<String, Value>) -> Self {
        self.attributes = attributes;
        self
    }

    /// In these groups, as the issuer says.
    pub fn with_groups(mut self, groups: Vec<String>) -> Self {
        self.groups = groups;
        self
    }

    /// Until this time. A verifier that allows for clocks that differ adds that before.
    pub fn until(mut self, end: SystemTime) -> Self {
        self.until = Some(end);
        self
    }

    /// The authority of a caller's request. `None` for calls that begin inside this program.
    pub fn of(caller: &Caller) -> Option<&Self> {
        caller.authority()
    }

    /// The caller that the calls of this request carry.
    pub fn into_caller(self: Arc<Self>) -> Caller {
        let caller = Caller::of(self.owner.clone());
        let caller = if self.role == KeyRole::Admin { caller.as_operator() } else { caller };
        caller.with_authority(self)
    }

    pub fn identity(&self) -> &Identity {
        &self.owner.identity
    }

    /// Whom sessions, tasks and parked calls of this request belong to.
    pub fn owner(&self) -> &CallOwner {
        &self.owner
    }

    pub fn tenant(&self) -> Option<&TenantName> {
        self.owner.tenant.as_ref()
    }

    pub fn role(&self) -> KeyRole {
        self.role
    }

    /// The scopes of the credential; `None` when its kind has no scopes.
    pub fn scopes(&self) -> Option<&BTreeSet<String>> {
        self.scopes.as_ref()
    }

    /// The scopes as the token has them; `None` for other credentials.
    pub fn granted_scopes(&self) -> Option<&ScopeSet> {
        self.granted_scopes.as_ref()
    }

    pub fn attributes(&self) -> &BTreeMap<String, Value> {
        &self.attributes
    }

    /// True when this may see whatever `other` may: of the same owner, with the same permit, at least its role, and its
    /// scopes. Other claims are not compared, since some of them change with every token.
    pub fn covers(&self, other: &Self) -> bool {
        let has_scopes = match (&self.scopes, &other.scopes) {
            (None, _) => true,
            (Some(own), Some(others)) => own.is_superset(others),
            (Some(_), None) => false,
        };
        let is_as_free = self.permit.is_none() || self.permit == other.permit;
        let is_as_high = self.role == other.role || self.role == KeyRole::Admin;
        has_scopes && is_as_free && is_as_high && self.owner == other.owner
    }

    /// The groups that the issuer says the caller is in.
    pub fn groups(&self) -> &[String] {
        &self.groups
    }

    /// What policies remember of this authority.
    pub(super) fn policy_memo(&self) -> &PolicyMemo {
        &self.policy
    }

    /// When it ends by itself.
    pub fn end(&self) -> Option<SystemTime> {
        self.until
    }

    /// What this request may use; `None` means everything. Ask [`Authority::is_current`] first.
    pub fn permit(&self) -> Option<&Arc<AccessPermit>> {
        self.permit.as_ref()
    }

    /// False once the credential was taken away or has ended. A socket may outlive that for a moment, and its calls
    /// must not.
    pub fn is_current(&self) -> bool {
        self.is_current_at(SystemTime::now)
    }

    fn is_current_at(&self, now: impl FnOnce() -> SystemTime) -> bool {
        // Most credentials have no end, and then no clock is read.
        !self.is_revoked.load(Ordering::Acquire) && self.until.is_none_or(|until| now() < until)
    }

    /// Ends it for every call that carries it.
    pub fn revoke(&self) {
        self.is_revoked.store(true, Ordering::Release);
    }

    /// Counts a call that begins. Greetings and listening cost nothing.
    pub(crate) fn begin(&self, method: &Method) -> Result<Option<OwnedSemaphorePermit>, Fault> {
        match &self.quota {
            // Greeting and listening cost a server next to nothing.
            Some(quota) if !matches!(method, Method::Discover | Method::Listen) => quota.begin(),
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn it_ends_at_its_time_and_when_it_is_taken_away() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000);
        let authority = Authority::new(Identity::key("ann")).until(now);
        assert!(authority.is_current_at(|| now - Duration::from_millis(1)));
        assert!(!authority.is_current_at(|| now));
        let lasting = Authority::new(Identity::key("ann"));
        assert!(lasting.is_current_at(|| unreachable!("no clock is needed")));
        lasting.revoke();
        assert!(!lasting.is_current());
    }

    #[test]
    fn an_authority_covers_those_that_may_do_no_more() {
        let scoped = |scopes: &[&str]| {
            Authority::new(Identity::subject("corp", "ann")).with_scopes(scopes.iter().map(|scope| (*scope).to_owned()))
        };
        let permit = |pattern| AccessPermit::new(&[pattern], &[]).unwrap();
        assert!(scoped(&["a", "b"]).covers(&scoped(&["a"])) && scoped(&["a"]).covers(&scoped(&["a"])));
        assert!(!scoped(&["a"]).covers(&scoped(&["a", "b"])));
        assert!(!scoped(&["a"]).covers(&Authority::new(Identity::subject("corp", "ann"))), "no scopes are no limit");
        assert!(!scoped(&["a"]).covers(&scoped(&["a"]).with_role(KeyRole::Admin)));
        assert!(scoped(&["a"]).with_role(KeyRole::Admin).covers(&scoped(&["a"])));
        assert!(!scoped(&["a"]).with_permit(permit("x")).covers(&scoped(&["a"]).with_permit(permit("y"))));
        assert!(scoped(&["a"]).with_permit(permit("x")).covers(&scoped(&["a"]).with_permit(permit("x"))));
        assert!(!Authority::new(Identity::subject("corp", "bob")).covers(&scoped(&["a"])));
    }

    #[test]
    fn a_call_carries_the_authority_of_its_request() {
        let owner = Authority::new(Identity::subject("corp", "ann")).for_client(ClientId::new("editor"));
        let caller = Arc::new(owner.with_role(KeyRole::Admin).with_scopes(["files.write".to_owned()])).into_caller();
        let caller = caller.in_session("s");
        let found = Authority::of(&caller).unwrap();
        assert!(found.scopes().unwrap().contains("files.write") && caller.is_operator());
        assert_eq!(found.owner(), caller.owner());
        assert!(Authority::of(&Caller::local()).is_none());
    }
}

//! The caller of a request, once it has been identified.

use std::fmt;
use std::sync::{Arc, LazyLock};

use tsugi_protocol::answer::Caller;

use super::api_key::{ApiKey, KeyRole, SecretDigest};
use super::permit::AccessPermit;
use super::sign_in::SignInId;

#[derive(Debug, Clone)]
pub struct Principal {
    caller: Caller,
    key: Option<Arc<ApiKey>>,
    standing: AdmissionKind,
    /// The token that identified the caller, if one did. It is checked again while a connection of the caller is open.
    token: Option<PrincipalToken>,
}

/// A token that is not printed.
#[derive(Clone)]
struct PrincipalToken(Arc<str>);

impl fmt::Debug for PrincipalToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// How a caller was identified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AdmissionKind {
    /// As the rules of the door say.
    Admitted,
    /// By a sign-in at the dashboard.
    SignedIn(SignInId),
    /// Without a key, on one of the few pages that need none.
    Guest,
}

impl Principal {
    /// A caller at an address that needs no key.
    pub fn anonymous() -> Self {
        static ANONYMOUS: LazyLock<Caller> = LazyLock::new(|| Caller::any_session_of("anonymous").as_operator());
        Self { caller: ANONYMOUS.clone(), key: None, standing: AdmissionKind::Admitted, token: None }
    }

    /// A caller without a key. Guests see the sign-in page and nothing else.
    pub(crate) fn guest() -> Self {
        static GUEST: LazyLock<Caller> = LazyLock::new(|| Caller::new("guest"));
        Self { caller: GUEST.clone(), key: None, standing: AdmissionKind::Guest, token: None }
    }

    /// The holder of a key.
    pub(super) fn of_key(key: Arc<ApiKey>, caller: Caller) -> Self {
        Self { caller, key: Some(key), standing: AdmissionKind::Admitted, token: None }
    }

    /// The same one, let in by this token.
    pub(super) fn of_token(self, secret: &str) -> Self {
        Self { token: Some(PrincipalToken(secret.into())), ..self }
    }

    /// The token that let them in, if one did.
    pub(super) fn token(&self) -> Option<&str> {
        self.token.as_ref().map(|token| &*token.0)
    }

    /// The same one, by a sign-in at the dashboard.
    pub(super) fn signed_in(self, session: SignInId) -> Self {
        Self { standing: AdmissionKind::SignedIn(session), ..self }
    }

    /// The digest of the key that says who this is.
    pub(super) fn digest(&self) -> Option<SecretDigest> {
        self.key.as_ref().map(|key| key.digest())
    }

    /// True for a caller without a key, on a page that needs none.
    pub fn is_guest(&self) -> bool {
        self.standing == AdmissionKind::Guest
    }

    /// The sign-in that let them in, if one did.
    pub(crate) fn session(&self) -> Option<SignInId> {
        match self.standing {
            AdmissionKind::SignedIn(session) => Some(session),
            _ => None,
        }
    }

    /// The caller, as calls carry it.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// True when a key says who this is.
    pub fn is_authenticated(&self) -> bool {
        self.key.is_some()
    }

    /// True when this caller may use the control routes: everybody where no key is asked for.
    pub fn is_admin(&self) -> bool {
        self.role() == Some(KeyRole::Admin)
    }

    /// What this caller may do; `None` for a guest. Where no key is needed, everyone may
    /// do everything.
    pub fn role(&self) -> Option<KeyRole> {
        (!self.is_guest()).then(|| self.key.as_ref().map_or(KeyRole::Admin, |key| key.role))
    }

    /// True when this caller may look at the dashboard and do nothing else.
    pub fn is_reader(&self) -> bool {
        self.role() == Some(KeyRole::Reader)
    }

    /// What this caller may use; `None` means everything.
    pub fn permit(&self) -> Option<&AccessPermit> {
        self.key.as_ref().and_then(|key| key.permit.as_deref())
    }

    /// True when a key makes both the same one to servers and to the control routes.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let standing = |of: &Self| of.key.as_ref().map(|key| key.role);
        self.caller.principal() == other.caller.principal() && standing(self) == standing(other)
    }
}

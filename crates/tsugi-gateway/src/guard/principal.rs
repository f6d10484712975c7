//! The sender of a request, once it has been identified.

use std::fmt;
use std::sync::{Arc, LazyLock};

use tsugi_protocol::answer::{Caller, Identity};

use super::api_key::KeyRole;
use super::authority::Authority;
use super::certificate::PeerCertificate;
use super::permit::AccessPermit;
use super::sign_in::SignInId;

#[derive(Debug, Clone)]
pub struct Principal {
    /// Carries the authority.
    caller: Caller,
    authority: Arc<Authority>,
    admission: AdmissionKind,
}

/// How a caller was identified.
#[derive(Debug, Clone)]
enum AdmissionKind {
    /// Without a credential, at a gateway that asks for none.
    Anonymous,
    /// Without a credential, on one of the few pages that need none.
    Guest,
    Key,
    /// By a sign-in at the dashboard.
    SignIn(SignInId),
    /// By a credential of another kind. It is checked again while a connection of the caller is open.
    Credential(HiddenSecret),
    /// By the certificate of the connection. It is checked again when what is trusted changes.
    Certificate(Arc<PeerCertificate>),
}

/// A secret that is not printed.
#[derive(Clone)]
struct HiddenSecret(Arc<str>);

impl fmt::Debug for HiddenSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HiddenSecret")
    }
}

impl Principal {
    /// A caller at an address that needs no key.
    pub fn anonymous() -> Self {
        static ANONYMOUS: LazyLock<(Arc<Authority>, Caller)> =
            LazyLock::new(|| with_caller(Authority::new(Identity::Anonymous).with_role(KeyRole::Admin)));
        let (authority, caller) = ANONYMOUS.clone();
        Self { caller, authority, admission: AdmissionKind::Anonymous }
    }

    /// A caller without a key. Guests see the sign-in page and nothing else.
    pub(crate) fn guest() -> Self {
        static GUEST: LazyLock<(Arc<Authority>, Caller)> = LazyLock::new(|| {
            let nothing = Authority::new(Identity::Anonymous).with_permit(AccessPermit::nothing());
            with_caller(nothing.with_role(KeyRole::Reader))
        });
        let (authority, caller) = GUEST.clone();
        Self { caller, authority, admission: AdmissionKind::Guest }
    }

    /// The holder of a key.
    pub(super) fn of_key(authority: Arc<Authority>, caller: Caller) -> Self {
        Self { caller, authority, admission: AdmissionKind::Key }
    }

    /// The holder of a credential of another kind.
    pub(super) fn of_credential(authority: Arc<Authority>, secret: &str) -> Self {
        let caller = authority.clone().into_caller();
        Self { caller, authority, admission: AdmissionKind::Credential(HiddenSecret(secret.into())) }
    }

    /// A person whom a provider has named, by a sign-in at the dashboard.
    pub(super) fn of_person(authority: Arc<Authority>, session: SignInId) -> Self {
        let caller = authority.clone().into_caller();
        Self { caller, authority, admission: AdmissionKind::SignIn(session) }
    }

    /// The holder of a certificate.
    pub(super) fn of_certificate(authority: Arc<Authority>, caller: Caller, peer: Arc<PeerCertificate>) -> Self {
        Self { caller, authority, admission: AdmissionKind::Certificate(peer) }
    }

    /// The same one, by a sign-in at the dashboard.
    pub(super) fn signed_in(self, session: SignInId) -> Self {
        Self { admission: AdmissionKind::SignIn(session), ..self }
    }

    /// The credential of another kind that let them in, if one did.
    pub(super) fn secret(&self) -> Option<&str> {
        match &self.admission {
            AdmissionKind::Credential(secret) => Some(&secret.0),
            _ => None,
        }
    }

    /// The certificate that let them in, if one did.
    pub(super) fn certificate(&self) -> Option<&Arc<PeerCertificate>> {
        match &self.admission {
            AdmissionKind::Certificate(peer) => Some(peer),
            _ => None,
        }
    }

    /// True for a caller without a key, on a page that needs none.
    pub fn is_guest(&self) -> bool {
        matches!(self.admission, AdmissionKind::Guest)
    }

    /// The sign-in that let them in, if one did.
    pub(crate) fn session(&self) -> Option<SignInId> {
        match self.admission {
            AdmissionKind::SignIn(session) => Some(session),
            _ => None,
        }
    }

    /// The caller, as calls carry it.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    pub fn identity(&self) -> &Identity {
        self.authority.identity()
    }

    /// What this request may do.
    pub fn authority(&self) -> &Arc<Authority> {
        &self.authority
    }

    /// True when a credential says who this is.
    pub fn is_authenticated(&self) -> bool {
        !matches!(self.admission, AdmissionKind::Anonymous | AdmissionKind::Guest)
    }

    /// True when this caller may use the control routes: everybody where no key is asked for.
    pub fn is_admin(&self) -> bool {
        self.role() == Some(KeyRole::Admin)
    }

    /// What this caller may do; `None` for a guest. Where no key is needed, everyone may
    /// do everything.
    pub fn role(&self) -> Option<KeyRole> {
        (!self.is_guest()).then(|| self.authority.role())
    }

    /// True when this caller may look at the dashboard and do nothing else.
    pub fn is_reader(&self) -> bool {
        self.role() == Some(KeyRole::Reader)
    }
}

fn with_caller(authority: Authority) -> (Arc<Authority>, Caller) {
    let authority = Arc::new(authority);
    (authority.clone(), authority.into_caller())
}

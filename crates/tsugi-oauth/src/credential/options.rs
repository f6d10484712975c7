//! What is configured about the sign-in to one server.

use std::sync::Arc;

use tsugi_auth::scope::ScopeSet;
use tsugi_auth::secret::SecretText;

use crate::assertion::AssertionSource;
use crate::browser::{DeviceDisplay, SignInBrowser};
use crate::discovery::DiscoveryRules;
use crate::record::CredentialKey;
use crate::registration::ClientChoice;

/// Everything about the sign-in to one server for one owner.
pub struct OauthOptions {
    pub key: CredentialKey,
    pub discovery: DiscoveryRules,
    pub grant: GrantChoice,
    pub client: ClientChoice,
    /// Scopes that are asked for in any case.
    pub scopes: Option<ScopeSet>,
    pub quirks: ProviderQuirks,
    pub need: SignInNeed,
    /// What a person does to sign in, as a hint in failures, such as the command that does it.
    pub advice: Option<String>,
}

/// Whether a server is known to want a sign-in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignInNeed {
    /// Every refusal is a matter of the sign-in.
    Always,
    /// Only a refusal that names the metadata of a protected resource is, until there is a sign-in. The server may want a
    /// key instead.
    WhenAsked,
}

/// What a provider gets wrong and the operator knows of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProviderQuirks {
    /// It supports PKCE and does not say so.
    pub assume_pkce: bool,
    /// It refuses requests with `resource`.
    pub no_resource: bool,
}

/// How tokens are obtained.
#[derive(Clone)]
pub enum GrantChoice {
    /// A person signs in.
    SignIn(SignInWay),
    /// The client itself, with a secret or a key.
    ClientCredentials,
    /// A workload's own token (RFC 7523).
    Workload(Arc<dyn AssertionSource>),
    /// A person's sign-in with the identity provider of their organization.
    Enterprise(Arc<EnterpriseLogin>),
}

/// How a person signs in.
#[derive(Clone)]
pub enum SignInWay {
    /// Not here: another process signs in and writes to the same store.
    Elsewhere,
    Browser(Arc<dyn SignInBrowser>),
    Device(Arc<dyn DeviceDisplay>),
}

/// The identity provider of an organization, and our client there.
pub struct EnterpriseLogin {
    pub issuer: String,
    pub client_id: String,
    pub client_secret: Option<SecretText>,
    /// The ID token of the person.
    pub subject: Arc<dyn AssertionSource>,
}

impl GrantChoice {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::SignIn(_) => "sign-in",
            Self::ClientCredentials => "client-credentials",
            Self::Workload(_) => "workload",
            Self::Enterprise(_) => "enterprise",
        }
    }

    pub(super) fn is_sign_in(&self) -> bool {
        matches!(self, Self::SignIn(_))
    }
}

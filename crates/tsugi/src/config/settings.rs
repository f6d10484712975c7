//! Settings: each defined once in one of the files below, together with the struct that it fills.
//!
//! What stands here is what a configuration becomes after everything is checked: complete, typed, and with every default
//! in place.

mod access_policy;
mod audit_log;
mod certificates;
mod credentials;
mod downstream;
mod login;
mod network;
mod oauth;
mod pinning;
mod policy;
mod tls;
mod top;
mod upstream;

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use serde::{Serialize, Serializer};
use tsugi_gateway::guard::api_key::{KeyRole, SecretDigest};
use tsugi_outbound::OutboundRules;
use tsugi_process::SandboxPolicy;
use url::Url;

use super::key::SettingTable;
use super::secret::{MaskedText, Secret};

pub(crate) use access_policy::PolicySettings;
pub(in crate::config) use access_policy::policy_rules;
pub(crate) use audit_log::{ArgumentMode, AuditSettings, AuditSinkSettings, AuditSinkType};
pub(in crate::config) use audit_log::{audit, audit_sink};
pub(crate) use certificates::CallerCertificateSettings;
pub(in crate::config) use certificates::caller_certificate;
pub(crate) use credentials::{
    ProviderQuirk, UpstreamAuthMode, UpstreamAuthSettings, UpstreamClientSettings, UpstreamProviderSettings,
    VaultSettings,
};
pub(in crate::config) use credentials::{
    secret_command, secrets, upstream_auth, upstream_client, upstream_provider, vault,
};
pub(crate) use downstream::{AdminSettings, GatewaySettings, LimitSettings};
pub(in crate::config) use downstream::{admin, api_key, auth, gateway, limits, previous_key};
pub(crate) use login::SignInSettings;
pub(in crate::config) use login::sign_in;
pub(in crate::config) use network::{egress, outbound};
pub(crate) use oauth::{
    AdminNeedSettings, IntrospectionSettings, IssuerSettings, OAuthSettings, QuotaRuleSettings, ScopeRuleSettings,
};
pub(in crate::config) use oauth::{admin_needs, introspection, issuer, issuer_claims, quota_rule, scope_rule, scopes};
pub(in crate::config) use pinning::pin;
pub(crate) use policy::CacheSettings;
pub(in crate::config) use policy::{breaker, cache, pool, retry, sandbox, validate};
pub(crate) use tls::{
    AcmeChallenge, AcmeSettings, CertificatePart, ClientAuthSettings, ClientAuthWord, KeyPairSettings,
    ListenerTlsSettings, ServerTlsSettings,
};
pub(in crate::config) use tls::{acme, certificate, listener_tls, server_tls};
pub(in crate::config) use top::options;
pub(crate) use top::{OptionSettings, root};
pub(crate) use upstream::{ServerSettings, ToolSettings};
pub(in crate::config) use upstream::{server, tool};

/// Every map of settings, in the order of the reference page.
pub(crate) static TABLES: &[&SettingTable] = &[
    &root::TABLE,
    &server::TABLE,
    &server_tls::TABLE,
    &upstream_auth::TABLE,
    &upstream_client::TABLE,
    &upstream_provider::TABLE,
    &tool::TABLE,
    &retry::TABLE,
    &cache::TABLE,
    &validate::TABLE,
    &pin::TABLE,
    &breaker::TABLE,
    &sandbox::TABLE,
    &egress::TABLE,
    &pool::TABLE,
    &options::TABLE,
    &gateway::TABLE,
    &listener_tls::TABLE,
    &acme::TABLE,
    &certificate::TABLE,
    &auth::TABLE,
    &api_key::TABLE,
    &previous_key::TABLE,
    &issuer::TABLE,
    &issuer_claims::TABLE,
    &sign_in::TABLE,
    &quota_rule::TABLE,
    &introspection::TABLE,
    &scopes::TABLE,
    &scope_rule::TABLE,
    &admin_needs::TABLE,
    &caller_certificate::TABLE,
    &limits::TABLE,
    &admin::TABLE,
    &policy_rules::TABLE,
    &audit::TABLE,
    &audit_sink::TABLE,
    &outbound::TABLE,
    &vault::TABLE,
    &secrets::TABLE,
    &secret_command::TABLE,
];

/// A whole configuration.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CheckedSettings {
    pub(crate) servers: Vec<ServerSettings>,
    pub(crate) options: OptionSettings,
    pub(crate) gateway: GatewaySettings,
    /// Absent when no policy decides.
    pub(crate) policy: Option<PolicySettings>,
    /// Absent when there is no audit log.
    pub(crate) audit: Option<AuditSettings>,
    pub(crate) outbound: OutboundRules,
    #[serde(skip_serializing_if = "VaultSettings::is_default")]
    pub(crate) vault: VaultSettings,
    /// Every secret value that the configuration holds, to be masked in whatever is shown.
    #[serde(skip)]
    pub(crate) secrets: Vec<Secret>,
}

/// What a server is.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub(crate) enum ServerTarget {
    Command(CommandTarget),
    Remote(RemoteTarget),
    Builtin(BuiltinTarget),
}

/// A program that we run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CommandTarget {
    pub(crate) program: MaskedText,
    pub(crate) args: Vec<MaskedText>,
    pub(crate) env: Vec<(String, MaskedText)>,
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) sandbox: SandboxPolicy,
    /// What holds for addresses behind the names that the sandbox lists; only for a sandbox with such a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) egress: Option<OutboundRules>,
}

/// A server that runs elsewhere.
#[derive(Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RemoteTarget {
    /// The address as it may be shown.
    pub(crate) shown: String,
    // An address may hold a password. `shown` is serialized in its place.
    #[serde(skip)]
    pub(crate) url: Url,
    pub(crate) headers: Vec<(String, MaskedText)>,
    pub(crate) transport: RemoteTransport,
    /// What every connection is checked by, where the address did not come from the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) guard: Option<OutboundRules>,
    pub(crate) tls: ServerTlsSettings,
    /// How tsugi signs in; absent where nothing is written about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) auth: Option<UpstreamAuthSettings>,
}

/// A server that is part of tsugi.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BuiltinTarget {
    pub(crate) builtin: BuiltinServer,
    pub(crate) args: Vec<MaskedText>,
}

/// The servers that are part of tsugi.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum BuiltinServer {
    Pm,
    Demo,
}

/// How to talk to a server elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RemoteTransport {
    /// HTTP, then SSE.
    Auto,
    Http,
    Sse,
    /// JSON-RPC at `POST <url>/rpc`, without a handshake.
    Rpc,
    Websocket,
}

/// Which tools are offered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ToolFilter {
    /// Checked globs.
    pub(crate) allow: Vec<String>,
    /// Checked globs; they win.
    pub(crate) deny: Vec<String>,
}

/// The name under which `gateway.auth.adminKey` appears.
pub(crate) const ADMIN: &str = "admin";

/// Who may ask.
#[derive(Debug, Clone, PartialEq, Serialize, Default)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AuthSettings {
    pub(crate) keys: Vec<KeySettings>,
    pub(crate) admin_key: Option<Secret>,
    #[serde(flatten, skip_serializing_if = "OAuthSettings::is_off")]
    pub(crate) oauth: OAuthSettings,
    /// Absent when every certificate of an authority makes a user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) certificates: Option<Vec<CallerCertificateSettings>>,
}

impl AuthSettings {
    /// Whether a key of the configuration has this name.
    pub(crate) fn knows(&self, name: &str) -> bool {
        self.keys.iter().any(|key| key.name == name) || (self.admin_key.is_some() && name == ADMIN)
    }
}

/// One API key.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct KeySettings {
    pub(crate) name: String,
    // Settings are shown to people, and a weak key could be guessed from its digest.
    #[serde(skip)]
    pub(crate) digest: SecretDigest,
    pub(crate) role: KeyRole,
    pub(crate) filter: ToolFilter,
    pub(crate) per_minute: Option<u32>,
    pub(crate) max_in_flight: Option<usize>,
    pub(crate) tenant: Option<String>,
    #[serde(serialize_with = "unix_seconds")]
    pub(crate) expires: Option<SystemTime>,
    #[serde(skip)]
    pub(crate) previous: Option<(SecretDigest, SystemTime)>,
}

fn unix_seconds<S: Serializer>(time: &Option<SystemTime>, serializer: S) -> Result<S::Ok, S::Error> {
    let since = time.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
    since.map(|since| since.as_secs()).serialize(serializer)
}

fn milliseconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    // A bare number is read as milliseconds too, so what is shown can be written back.
    serializer.serialize_u128(duration.as_millis())
}

fn optional_milliseconds<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    duration.map(|duration| duration.as_millis()).serialize(serializer)
}

impl ServerSettings {
    /// What it is, as far as it may be shown.
    pub(crate) fn shown_target(&self) -> String {
        match &self.target {
            ServerTarget::Command(command) => {
                let words = std::iter::once(&command.program).chain(&command.args);
                // A `MaskedText` prints its secret parts masked.
                words.map(ToString::to_string).collect::<Vec<_>>().join(" ")
            }
            ServerTarget::Remote(remote) => remote.shown.clone(),
            ServerTarget::Builtin(builtin) => format!("built in: {:?}", builtin.builtin).to_lowercase(),
        }
    }
}

/// The address may hold a password, so only its showable form is printed.
impl std::fmt::Debug for RemoteTarget {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("RemoteTarget")
            .field("url", &self.shown)
            .field("headers", &self.headers)
            .field("transport", &self.transport)
            .finish()
    }
}

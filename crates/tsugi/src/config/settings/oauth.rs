//! Settings of OAuth: which issuers' access tokens are accepted, and what they mean here.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use tsugi_gateway::guard::api_key::KeyRole;

use super::{SignInSettings, ToolFilter, milliseconds};
use crate::config::key::settings;
use crate::config::key::shape::SchemaShape::*;
use crate::config::key::value::{DURATION, FLAG, GLOBS, POSITIVE_DURATION, TEXT, TEXTS, positive};
use crate::config::resolve::reader::{SettingsReader, SettingsSection};
use crate::config::secret::Secret;

settings! {
    /// One OAuth issuer whose access tokens are accepted. `gateway.publicUrl` must be set.
    issuer at "gateway.auth.issuers[]"
    keys {
        /// A short name of letters, digits, `-` and `_`. It is a part of the identity of its callers: under another
        /// name they are other callers.
        NAME: String = key("name") value(TEXT);
        /// The issuer as its tokens and its metadata write it, compared byte for byte. Its keys are found through its
        /// metadata.
        ISSUER: String = key("issuer") value(TEXT);
        /// Audiences to accept besides our own addresses, for providers that cannot issue tokens for a resource.
        AUDIENCES: String = key("audiences") value(TEXTS) default("[]");
        /// Which signatures to accept.
        ALGORITHMS: String =
            key("algorithms") value(TEXTS) default("[\"RS256\", \"PS256\", \"ES256\", \"ES384\", \"EdDSA\"]");
        /// How far the clocks may differ; at most `300s`.
        SKEW: Duration = key("skew") value(DURATION) default("60s");
        /// Where its tokens say more about the caller.
        CLAIMS = key("claims") shape(Table("gateway.auth.issuers[].claims"));
        /// What the values of the claim `roles` mean: `admin`, `user` or `readOnly`. Callers without one of them are
        /// users.
        ROLES = key("roles") shape(TextMap);
        /// Which `server/tool` its callers may use.
        ALLOW: String = key("allow") value(GLOBS) default("[\"*\"]");
        /// Which `server/tool` its callers may not use, in any spelling; wins over `allow`.
        DENY: String = key("deny") value(GLOBS) default("[]");
        /// Calls per minute of each of its callers at most.
        PER_MINUTE: u32 = key("perMinute") value(positive());
        /// Calls of each of its callers at the same time at most.
        MAX_IN_FLIGHT: usize = key("maxInFlight") value(positive());
        /// Let people sign in at the dashboard through it.
        SIGN_IN = key("signIn") shape(Table("gateway.auth.issuers[].signIn"));
        /// Other limits for callers with certain values of the claim `quota`. The first one that fits holds; without
        /// one, `perMinute` and `maxInFlight` of the issuer.
        QUOTAS = key("quotas") shape(Tables("gateway.auth.issuers[].quotas[]")) default("[]");
        /// Ask the issuer about tokens (RFC 7662). Without it, only signed tokens are accepted.
        INTROSPECTION = key("introspection") shape(Table("gateway.auth.issuers[].introspection"));
        /// Accept an issuer at `http://127.0.0.1` or `http://localhost`, for tests.
        INSECURE_LOOPBACK: bool = key("insecureLoopback") value(FLAG) default("false");
    }
}

settings! {
    /// Where the tokens of an issuer say more about the caller: JSON pointers, such as `/realm_access/roles`.
    issuer_claims at "gateway.auth.issuers[].claims"
    keys {
        /// Roles or groups: one text or a list.
        ROLES: String = key("roles") value(TEXT);
        /// The tenant.
        TENANT: String = key("tenant") value(TEXT);
        /// What `quotas` are chosen by, such as a plan: one text or a list.
        QUOTA: String = key("quota") value(TEXT);
    }
}

settings! {
    /// Limits for callers whose tokens have one value of the claim `quota`.
    quota_rule at "gateway.auth.issuers[].quotas[]"
    keys {
        /// The value of the claim, or one of its values. Required.
        VALUE: String = key("value") value(TEXT);
        /// Calls per minute of each such caller at most.
        PER_MINUTE: u32 = key("perMinute") value(positive());
        /// Calls of each such caller at the same time at most.
        MAX_IN_FLIGHT: usize = key("maxInFlight") value(positive());
    }
}

settings! {
    /// How an issuer is asked about tokens (RFC 7662).
    introspection at "gateway.auth.issuers[].introspection"
    keys {
        /// Which tokens to ask about: those that are not signed (`opaque`), or signed ones too (`always`), so that a
        /// revoked token ends within `cache`.
        MODE = key("mode") shape(Words(&["opaque", "always"])) default("opaque");
        /// The name of the gateway at the issuer. Required.
        CLIENT_ID: String = key("clientId") value(TEXT);
        /// Its secret; better from a variable or a file. Required.
        CLIENT_SECRET = key("clientSecret") shape(Text);
        /// Where to ask. Default: `introspection_endpoint` of the issuer's metadata.
        ENDPOINT: String = key("endpoint") value(TEXT);
        /// How opaque tokens of this issuer begin. One issuer may do without; others need it, because a token is shown
        /// to one issuer only.
        PREFIX: String = key("prefix") value(TEXT);
        /// How long an answer is used; at most `30s`.
        CACHE: Duration = key("cache") value(POSITIVE_DURATION) default("30s");
    }
}

settings! {
    /// Scopes that some calls need besides `base`.
    scope_rule at "gateway.auth.scopes.rules[]"
    keys {
        /// Which `server/tool`: patterns as in `allow`. A server alone means everything of it.
        MATCH: String = key("match") value(GLOBS);
        /// What a call of these needs. A call needs the scopes of every rule that fits it.
        SCOPES: String = key("scopes") value(TEXTS) default("[]");
    }
}

settings! {
    /// Which scopes a token needs.
    scopes at "gateway.auth.scopes"
    keys {
        /// Scopes that every request with a token needs. Clients are told to ask for these.
        BASE: String = key("base") value(TEXTS) default("[]");
        /// Scopes that calls of certain tools need as well. A token that lacks one gets 403 with all of them, so that
        /// its client can ask for more.
        RULES = key("rules") shape(Tables("gateway.auth.scopes.rules[]")) default("[]");
        /// Scopes that a broader scope includes, separated by spaces: `files.all: files.read files.write`.
        IMPLIES = key("implies") shape(TextMap);
    }
}

settings! {
    /// What a token must show before its role makes an administrator.
    admin_needs at "gateway.auth.adminNeeds"
    => #[derive(Default)] struct AdminNeedSettings(reader, section) {
        /// One of these as `acr`.
        many acr: String = key(ACR: "acr") value(TEXTS) default("[]");
        /// All of these in `amr`.
        many amr: String = key(AMR: "amr") value(TEXTS) default("[]");
        /// Signed in (`auth_time`) no longer ago than this.
        maybe max_age: Duration =
            key(MAX_AGE: "maxAge") value(POSITIVE_DURATION) serde(serialize_with = "super::optional_milliseconds");
    }
}

/// OAuth as a whole; nothing without issuers.
#[derive(Debug, Clone, PartialEq, Serialize, Default)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OAuthSettings {
    pub(crate) issuers: Vec<IssuerSettings>,
    pub(crate) base_scopes: Vec<String>,
    pub(crate) scope_rules: Vec<ScopeRuleSettings>,
    pub(crate) implied_scopes: BTreeMap<String, String>,
    pub(crate) admin_needs: AdminNeedSettings,
}

impl OAuthSettings {
    pub(crate) fn is_off(&self) -> bool {
        self.issuers.is_empty()
    }
}

/// Scopes that some calls need.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct ScopeRuleSettings {
    /// Checked globs.
    #[serde(rename = "match")]
    pub(crate) patterns: Vec<String>,
    pub(crate) scopes: Vec<String>,
}

/// Limits for callers with one value of a claim.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QuotaRuleSettings {
    pub(crate) value: String,
    pub(crate) per_minute: Option<u32>,
    pub(crate) max_in_flight: Option<usize>,
}

/// How an issuer is asked about tokens.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct IntrospectionSettings {
    pub(crate) asks_always: bool,
    pub(crate) client_id: String,
    pub(crate) client_secret: Secret,
    pub(crate) endpoint: Option<String>,
    pub(crate) prefix: Option<String>,
    #[serde(serialize_with = "milliseconds")]
    pub(crate) cache: Duration,
}

/// One issuer, checked.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct IssuerSettings {
    pub(crate) name: String,
    pub(crate) issuer: String,
    pub(crate) audiences: Vec<String>,
    pub(crate) algorithms: Vec<String>,
    #[serde(serialize_with = "milliseconds")]
    pub(crate) skew: Duration,
    pub(crate) roles_claim: Option<String>,
    pub(crate) tenant_claim: Option<String>,
    pub(crate) quota_claim: Option<String>,
    pub(crate) roles: BTreeMap<String, KeyRole>,
    pub(crate) filter: ToolFilter,
    pub(crate) per_minute: Option<u32>,
    pub(crate) max_in_flight: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sign_in: Option<SignInSettings>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) quotas: Vec<QuotaRuleSettings>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) introspection: Option<IntrospectionSettings>,
    pub(crate) insecure_loopback: bool,
}

//! Settings of OAuth: which issuers' access tokens are accepted, and what they mean here.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use tsugi_gateway::guard::api_key::KeyRole;

use super::{SignInSettings, ToolFilter, milliseconds};
use crate::config::key::settings;
use crate::config::key::shape::SchemaShape::*;
use crate::config::key::value::{DURATION, FLAG, GLOBS, POSITIVE_DURATION, TEXT, TEXTS, by_hand, positive};
use crate::config::resolve::reader::{SettingsReader, SettingsSection};
use crate::config::secret::Secret;

settings! {
    issuer at "gateway.auth.issuers[]": "One OAuth issuer whose access tokens are accepted. `gateway.publicUrl` must be set."
    keys {
        NAME: String = "name", TEXT, "", "A short name of letters, digits, `-` and `_`. It is a part of the identity of its callers: under another name they are other callers.";
        ISSUER: String = "issuer", TEXT, "", "The issuer as its tokens and its metadata write it, compared byte for byte. Its keys are found through its metadata.";
        AUDIENCES: String = "audiences", TEXTS, "[]", "Audiences to accept besides our own addresses, for providers that cannot issue tokens for a resource.";
        ALGORITHMS: String = "algorithms", TEXTS, "[\"RS256\", \"PS256\", \"ES256\", \"ES384\", \"EdDSA\"]", "Which signatures to accept.";
        SKEW: Duration = "skew", DURATION, "60s", "How far the clocks may differ; at most `300s`.";
        CLAIMS: () = "claims", by_hand(Table("gateway.auth.issuers[].claims")), "", "Where its tokens say more about the caller.";
        ROLES: () = "roles", by_hand(TextMap), "", "What the values of the claim `roles` mean: `admin`, `user` or `readOnly`. Callers without one of them are users.";
        ALLOW: String = "allow", GLOBS, "[\"*\"]", "Which `server/tool` its callers may use.";
        DENY: String = "deny", GLOBS, "[]", "Which `server/tool` its callers may not use, in any spelling; wins over `allow`.";
        PER_MINUTE: u32 = "perMinute", positive(), "", "Calls per minute of each of its callers at most.";
        MAX_IN_FLIGHT: usize = "maxInFlight", positive(), "", "Calls of each of its callers at the same time at most.";
        SIGN_IN: () = "signIn", by_hand(Table("gateway.auth.issuers[].signIn")), "", "Let people sign in at the dashboard through it.";
        QUOTAS: () = "quotas", by_hand(Tables("gateway.auth.issuers[].quotas[]")), "[]", "Other limits for callers with certain values of the claim `quota`. The first one that fits holds; without one, `perMinute` and `maxInFlight` of the issuer.";
        INTROSPECTION: () = "introspection", by_hand(Table("gateway.auth.issuers[].introspection")), "", "Ask the issuer about tokens (RFC 7662). Without it, only signed tokens are accepted.";
        INSECURE_LOOPBACK: bool = "insecureLoopback", FLAG, "false", "Accept an issuer at `http://127.0.0.1` or `http://localhost`, for tests.";
    }
}

settings! {
    issuer_claims at "gateway.auth.issuers[].claims": "Where the tokens of an issuer say more about the caller: JSON pointers, such as `/realm_access/roles`."
    keys {
        ROLES: String = "roles", TEXT, "", "Roles or groups: one text or a list.";
        TENANT: String = "tenant", TEXT, "", "The tenant.";
        QUOTA: String = "quota", TEXT, "", "What `quotas` are chosen by, such as a plan: one text or a list.";
    }
}

settings! {
    quota_rule at "gateway.auth.issuers[].quotas[]": "Limits for callers whose tokens have one value of the claim `quota`."
    keys {
        VALUE: String = "value", TEXT, "", "The value of the claim, or one of its values. Required.";
        PER_MINUTE: u32 = "perMinute", positive(), "", "Calls per minute of each such caller at most.";
        MAX_IN_FLIGHT: usize = "maxInFlight", positive(), "", "Calls of each such caller at the same time at most.";
    }
}

settings! {
    introspection at "gateway.auth.issuers[].introspection": "How an issuer is asked about tokens (RFC 7662)."
    keys {
        MODE: () = "mode", by_hand(Words(&["opaque", "always"])), "opaque", "Which tokens to ask about: those that are not signed (`opaque`), or signed ones too (`always`), so that a revoked token ends within `cache`.";
        CLIENT_ID: String = "clientId", TEXT, "", "The name of the gateway at the issuer. Required.";
        CLIENT_SECRET: () = "clientSecret", by_hand(Text), "", "Its secret; better from a variable or a file. Required.";
        ENDPOINT: String = "endpoint", TEXT, "", "Where to ask. Default: `introspection_endpoint` of the issuer's metadata.";
        PREFIX: String = "prefix", TEXT, "", "How opaque tokens of this issuer begin. One issuer may do without; others need it, because a token is shown to one issuer only.";
        CACHE: Duration = "cache", POSITIVE_DURATION, "30s", "How long an answer is used; at most `30s`.";
    }
}

settings! {
    scope_rule at "gateway.auth.scopes.rules[]": "Scopes that some calls need besides `base`."
    keys {
        MATCH: String = "match", GLOBS, "", "Which `server/tool`: patterns as in `allow`. A server alone means everything of it.";
        SCOPES: String = "scopes", TEXTS, "[]", "What a call of these needs. A call needs the scopes of every rule that fits it.";
    }
}

settings! {
    scopes at "gateway.auth.scopes": "Which scopes a token needs."
    keys {
        BASE: String = "base", TEXTS, "[]", "Scopes that every request with a token needs. Clients are told to ask for these.";
        RULES: () = "rules", by_hand(Tables("gateway.auth.scopes.rules[]")), "[]", "Scopes that calls of certain tools need as well. A token that lacks one gets 403 with all of them, so that its client can ask for more.";
        IMPLIES: () = "implies", by_hand(TextMap), "", "Scopes that a broader scope includes, separated by spaces: `files.all: files.read files.write`.";
    }
}

settings! {
    admin_needs at "gateway.auth.adminNeeds": "What a token must show before its role makes an administrator."
    => #[derive(Default)] own AdminNeedSettings(reader, section) {
        many ACR acr: String = "acr", TEXTS, "[]", "One of these as `acr`.";
        many AMR amr: String = "amr", TEXTS, "[]", "All of these in `amr`.";
        #[serde(serialize_with = "super::optional_milliseconds")]
        maybe MAX_AGE max_age: Duration = "maxAge", POSITIVE_DURATION, "", "Signed in (`auth_time`) no longer ago than this.";
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

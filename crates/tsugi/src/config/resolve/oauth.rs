//! Which issuers' access tokens are accepted, checked before anything starts.

use std::collections::BTreeMap;

use tsugi_auth::endpoint::{PlainHttp, parse_endpoint};
use tsugi_auth::issuer_metadata::discovery_addresses;
use tsugi_auth::jose::algorithm::SigningAlgorithm;
use tsugi_auth::scope::is_scope;
use tsugi_auth::token::MAX_SKEW;
use tsugi_gateway::guard::api_key::KeyRole;
use tsugi_gateway::guard::oauth::introspector::LONGEST_FRESH;

use super::gateway::{read_secret, required};
use super::reader::{SettingsReader, SettingsSection};
use super::sign_in;
use crate::config::document::ConfigNode;
use crate::config::settings::{
    AdminNeedSettings, IntrospectionSettings, IssuerSettings, OAuthSettings, QuotaRuleSettings, ScopeRuleSettings,
    ToolFilter, admin_needs, auth, introspection, issuer, issuer_claims, quota_rule, scope_rule, scopes,
};

/// Reads what `gateway.auth` says about OAuth.
pub(super) fn read(reader: &mut SettingsReader<'_>, section: &SettingsSection<'_>) -> OAuthSettings {
    let issuers = section.get(&auth::ISSUERS).map(|node| read_issuers(reader, node)).unwrap_or_default();
    let scope = SettingsSection::open(reader, section.get(&auth::SCOPES), &scopes::TABLE);
    let base_scopes = reader.list_or_default(&scope, &scopes::BASE);
    if let (Some(node), Some(wrong)) = (scope.get(&scopes::BASE), base_scopes.iter().find(|name| !is_scope(name))) {
        reader.problem(node, format!("`{wrong}` is not a scope: scopes are printable ASCII without spaces and quotes"));
    }
    let scope_rules = scope.get(&scopes::RULES).map(|node| read_rules(reader, node)).unwrap_or_default();
    let implied = scope.get(&scopes::IMPLIES).map(|node| texts(reader, "implies", node)).unwrap_or_default();
    OAuthSettings {
        issuers,
        base_scopes,
        scope_rules,
        implied_scopes: implied,
        admin_needs: match section.get(&auth::ADMIN_NEEDS) {
            Some(node) => {
                let needs = SettingsSection::open(reader, Some(node), &admin_needs::TABLE);
                admin_needs(reader, &needs)
            }
            None => AdminNeedSettings::default(),
        },
    }
}

/// The address under which clients know the gateway: an origin, https unless it is of this machine.
pub(in crate::config) fn read_public_url(reader: &mut SettingsReader<'_>, node: &ConfigNode) -> Option<String> {
    let text = reader.text(node)?.expose();
    let url = parse_endpoint(&text, PlainHttp::LoopbackOnly).filter(|url| url.path() == "/" && url.query().is_none());
    if url.is_none() {
        let message = "`publicUrl` must be an https address without a path, such as `https://mcp.example.com`";
        let problem = reader.source.problem(node.span, message).with_hint("`http` is accepted for a loopback address");
        reader.problems.push(problem);
    }
    url.map(|_| text.trim_end_matches('/').to_owned())
}

fn read_issuers(reader: &mut SettingsReader<'_>, node: &ConfigNode) -> Vec<IssuerSettings> {
    let Some(items) = node.items() else {
        reader.problem(node, format!("`issuers` must be a list, but this is {}", node.kind()));
        return Vec::new();
    };
    let issuers = items.iter().filter_map(|item| read_issuer(reader, item)).collect();
    reader.reject_duplicates(node, "issuer");
    let issuers: Vec<IssuerSettings> = issuers;
    let unmarked =
        issuers.iter().filter_map(|issuer| issuer.introspection.as_ref()).filter(|asked| asked.prefix.is_none());
    if unmarked.count() > 1 {
        reader.problem(
            node,
            "of several issuers with `introspection`, all but one need a `prefix`: a token is shown to one issuer only",
        );
    }
    issuers
}

fn read_issuer(reader: &mut SettingsReader<'_>, node: &ConfigNode) -> Option<IssuerSettings> {
    let section = SettingsSection::open(reader, Some(node), &issuer::TABLE);
    node.entries()?;
    let name = required(reader, node, &section, &issuer::NAME);
    let address = required(reader, node, &section, &issuer::ISSUER);
    let is_name =
        |name: &String| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    if name.as_ref().is_some_and(|name| !is_name(name)) {
        reader.problem(node, "the `name` of an issuer has letters, digits, `-` and `_` only");
    }
    let insecure_loopback = reader.or_default(&section, &issuer::INSECURE_LOOPBACK);
    let plain = if insecure_loopback { PlainHttp::LoopbackOnly } else { PlainHttp::Refused };
    if address.as_ref().is_some_and(|address| discovery_addresses(address, plain).is_none()) {
        let message = "`issuer` must be an https address without query and fragment";
        let hint = "`insecureLoopback: true` accepts `http` to a loopback address";
        reader.problems.push(reader.source.problem(node.span, message).with_hint(hint));
    }
    let algorithms = reader.list_or_default(&section, &issuer::ALGORITHMS);
    if let Some(wrong) = algorithms.iter().find(|name| SigningAlgorithm::parse(name).is_none()) {
        let known = SigningAlgorithm::ALL.map(SigningAlgorithm::name).join(", ");
        reader.problem(node, format!("`{wrong}` is not accepted as an algorithm: known are {known}"));
    }
    let skew = reader.or_default(&section, &issuer::SKEW);
    if skew.as_secs() > MAX_SKEW {
        reader.problem(node, "`skew` can be at most 300s");
    }
    let claims = SettingsSection::open(reader, section.get(&issuer::CLAIMS), &issuer_claims::TABLE);
    let mut pointer = |key| {
        let found: Option<String> = reader.optional(&claims, key);
        if found.as_ref().is_some_and(|text| !text.starts_with('/')) {
            reader.problem(node, "a claim is named by a JSON pointer, which begins with `/`");
        }
        found
    };
    let (roles_claim, tenant_claim) = (pointer(&issuer_claims::ROLES), pointer(&issuer_claims::TENANT));
    let quota_claim = pointer(&issuer_claims::QUOTA);
    let roles = section.get(&issuer::ROLES).map(|node| read_roles(reader, node)).unwrap_or_default();
    if !roles.is_empty() && roles_claim.is_none() {
        reader.problem(node, "`roles` needs `claims.roles`, which says where the tokens have them");
    }
    let sign_in = section.get(&issuer::SIGN_IN).and_then(|node| sign_in::read(reader, node, name.as_deref()));
    if let (Some(settings), true) = (&sign_in, roles.is_empty())
        && settings.default_role.is_none()
    {
        reader.problem(node, "`signIn` lets no one in: it needs `roles`, or `signIn.defaultRole`");
    }
    let quotas = section.get(&issuer::QUOTAS).map(|node| read_quotas(reader, node)).unwrap_or_default();
    if !quotas.is_empty() && quota_claim.is_none() {
        reader.problem(node, "`quotas` needs `claims.quota`, which says where the tokens have its values");
    }
    let introspection = section.get(&issuer::INTROSPECTION).and_then(|node| read_introspection(reader, node, plain));
    Some(IssuerSettings {
        sign_in,
        audiences: reader.list_or_default(&section, &issuer::AUDIENCES),
        algorithms,
        skew,
        roles_claim,
        tenant_claim,
        quota_claim,
        quotas,
        introspection,
        roles,
        filter: ToolFilter {
            allow: reader.list_or_default(&section, &issuer::ALLOW),
            deny: reader.list_or_default(&section, &issuer::DENY),
        },
        per_minute: reader.optional(&section, &issuer::PER_MINUTE),
        max_in_flight: reader.optional(&section, &issuer::MAX_IN_FLIGHT),
        insecure_loopback,
        name: name?,
        issuer: address?,
    })
}

/// Which tokens the issuer is asked about, and as whom.
fn read_introspection(
    reader: &mut SettingsReader<'_>,
    node: &ConfigNode,
    plain: PlainHttp,
) -> Option<IntrospectionSettings> {
    let section = SettingsSection::open(reader, Some(node), &introspection::TABLE);
    node.entries()?;
    let mode = section.get(&introspection::MODE).and_then(|node| reader.text(node)).map(|text| text.expose());
    if let Some(mode) = mode.as_deref().filter(|mode| !matches!(*mode, "opaque" | "always")) {
        reader.problem(node, format!("`{mode}` is not a `mode`: known are `opaque` and `always`"));
    }
    let client_id = required(reader, node, &section, &introspection::CLIENT_ID);
    let client_secret = section.get(&introspection::CLIENT_SECRET).and_then(|node| read_secret(reader, node));
    if section.get(&introspection::CLIENT_SECRET).is_none() {
        reader.problem(node, "`clientSecret` is missing here");
    }
    let endpoint: Option<String> = reader.optional(&section, &introspection::ENDPOINT);
    if endpoint.as_ref().is_some_and(|address| parse_endpoint(address, plain).is_none()) {
        reader.problem(node, "`endpoint` must be an https address");
    }
    let prefix: Option<String> = reader.optional(&section, &introspection::PREFIX);
    if prefix.as_ref().is_some_and(|prefix| prefix.is_empty() || prefix.starts_with("tsugi_")) {
        reader.problem(node, "`prefix` must not be empty, nor the one of our own keys");
    }
    let cache = reader.or_default(&section, &introspection::CACHE);
    if cache > LONGEST_FRESH {
        reader.problem(node, "`cache` can be at most 30s");
    }
    Some(IntrospectionSettings {
        asks_always: mode.as_deref() == Some("always"),
        endpoint,
        prefix,
        cache,
        client_id: client_id?,
        client_secret: client_secret?,
    })
}

fn read_quotas(reader: &mut SettingsReader<'_>, node: &ConfigNode) -> Vec<QuotaRuleSettings> {
    read_list(reader, "quotas", node, |reader, node| {
        let section = SettingsSection::open(reader, Some(node), &quota_rule::TABLE);
        node.entries()?;
        Some(QuotaRuleSettings {
            per_minute: reader.optional(&section, &quota_rule::PER_MINUTE),
            max_in_flight: reader.optional(&section, &quota_rule::MAX_IN_FLIGHT),
            value: required(reader, node, &section, &quota_rule::VALUE)?,
        })
    })
}

fn read_rules(reader: &mut SettingsReader<'_>, node: &ConfigNode) -> Vec<ScopeRuleSettings> {
    read_list(reader, "rules", node, |reader, node| {
        let section = SettingsSection::open(reader, Some(node), &scope_rule::TABLE);
        node.entries()?;
        let scopes = reader.list_or_default(&section, &scope_rule::SCOPES);
        if let Some(wrong) = scopes.iter().find(|name| !is_scope(name)) {
            reader.problem(
                node,
                format!("`{wrong}` is not a scope: scopes are printable ASCII without spaces and quotes"),
            );
        }
        let patterns = reader.optional_list(&section, &scope_rule::MATCH).unwrap_or_default();
        // A rule that says nothing looks like protection and is none.
        if patterns.is_empty() || scopes.is_empty() {
            reader.problem(node, "a rule needs `match` and `scopes`");
        }
        Some(ScopeRuleSettings { patterns, scopes })
    })
}

fn read_list<T>(
    reader: &mut SettingsReader<'_>,
    name: &str,
    node: &ConfigNode,
    mut read: impl FnMut(&mut SettingsReader<'_>, &ConfigNode) -> Option<T>,
) -> Vec<T> {
    let Some(items) = node.items() else {
        reader.problem(node, format!("`{name}` must be a list, but this is {}", node.kind()));
        return Vec::new();
    };
    items.iter().filter_map(|item| read(reader, item)).collect()
}

fn read_roles(reader: &mut SettingsReader<'_>, node: &ConfigNode) -> BTreeMap<String, KeyRole> {
    let role = |text: &str| match text {
        "admin" => Some(KeyRole::Admin),
        "user" => Some(KeyRole::User),
        "readOnly" => Some(KeyRole::Reader),
        _ => None,
    };
    let pairs = texts(reader, "roles", node);
    if let Some(wrong) = pairs.values().find(|text| role(text).is_none()) {
        reader.problem(node, format!("`{wrong}` is not a role: known are `admin`, `user` and `readOnly`"));
    }
    pairs.into_iter().filter_map(|(name, text)| Some((name, role(&text)?))).collect()
}

fn texts(reader: &mut SettingsReader<'_>, name: &str, node: &ConfigNode) -> BTreeMap<String, String> {
    reader.pairs(name, node).into_iter().map(|(name, text)| (name, text.expose())).collect()
}

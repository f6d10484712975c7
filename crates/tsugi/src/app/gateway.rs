//! The gateway's settings as the gateway wants them: addresses, limits, keys, and how each server is shown.

pub(crate) mod configured_backend;
pub(crate) mod persist;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::SystemTime;

use serde_json::Value;
use tsugi_client::ServerConfig;
use tsugi_client::backoff::BackoffPolicy;
use tsugi_gateway::StartError;
use tsugi_gateway::config::Exposure;
use tsugi_gateway::guard::AccessGuard;
use tsugi_gateway::guard::api_key::{ApiKey, KeyRole};
use tsugi_gateway::guard::caller_access::ServerTenants;
use tsugi_gateway::guard::certificate::CertificateRule;
use tsugi_gateway::guard::permit::AccessPermit;
use tsugi_gateway::guard::policy::{PolicyGuard, ServerFacts, ToolFacts};
use tsugi_gateway::guard::quota::CallQuota;
use tsugi_gateway::hub::page::PageLimit;
use tsugi_gateway::hub::presentation::ServerPresentation;
use tsugi_gateway::{GatewayConfig, GatewayLimits, HubConfig};
use tsugi_pins::PinStore;
use tsugi_policy::question::ResourceHints;
use tsugi_process::StopGrace;
use tsugi_protocol::answer::identity::TenantName;
use tsugi_tls::acme_challenge::ChallengeTable;
use tsugi_tls::server::{ServerTls, ServerTlsFiles};

use crate::config::secret::Secret;
use crate::config::settings::{
    self, ADMIN, AuthSettings, CallerCertificateSettings, CheckedSettings, ClientAuthSettings, KeyPairSettings,
    KeySettings,
};
use crate::config::settings::{ServerSettings, ToolFilter};
use crate::failure::CommandFailure;

/// Where it listens, and what it holds at most.
pub(crate) fn config(settings: &CheckedSettings, keys: Vec<ApiKey>) -> GatewayConfig {
    let gateway = &settings.gateway;
    let limits = GatewayLimits {
        body: gateway.limits.max_body_size as usize,
        head: gateway.limits.max_header_size as usize,
        connections: gateway.limits.max_connections,
        streams: gateway.limits.max_streams,
        sessions: gateway.limits.max_sessions,
        batch: gateway.limits.max_batch,
        parallel: settings.options.max_parallel,
        session_idle: gateway.session_idle_timeout,
        keep_alive: gateway.keep_alive_interval,
        ..GatewayLimits::default()
    };
    GatewayConfig {
        listen: vec![gateway.listen],
        inherited: None,
        tls: None,
        redirect: gateway.tls.iter().filter_map(|tls| tls.redirect).collect(),
        public_url: gateway.public_url.as_deref().and_then(|url| url.parse().ok()),
        exposure: if gateway.insecure { Exposure::Insecure } else { Exposure::Guarded },
        allowed_hosts: gateway.allowed_hosts.clone(),
        allowed_origins: gateway.allowed_origins.clone(),
        trusted_proxies: gateway.trusted_proxies.clone(),
        keys,
        dashboard: gateway.dashboard,
        metrics: gateway.metrics,
        record: gateway.record,
        limits,
    }
}

/// The certificates that the configuration names, read and checked.
pub(crate) fn tls(
    settings: &CheckedSettings,
    challenges: Option<Arc<ChallengeTable>>,
) -> Result<Option<Arc<ServerTls>>, CommandFailure> {
    let Some(tls) = &settings.gateway.tls else { return Ok(None) };
    let pairs = tls.certificates.iter().map(KeyPairSettings::files).collect();
    let files = ServerTlsFiles { pairs, client_auth: tls.client_auth.as_ref().map(ClientAuthSettings::files) };
    match ServerTls::load_with_challenges(files, challenges, SystemTime::now()) {
        Ok(loaded) => Ok(Some(Arc::new(loaded))),
        Err(error) => Err(CommandFailure::usage(format!("cannot use `gateway.tls`: {error}"))),
    }
}

/// The guard, which lets in callers with the certificates that the configuration names.
pub(crate) fn with_certificates(guard: AccessGuard, auth: &AuthSettings) -> Result<AccessGuard, CommandFailure> {
    let Some(entries) = &auth.certificates else { return Ok(guard) };
    let rules = entries.iter().map(certificate_rule).collect::<Result<_, StartError>>();
    let rules = rules.map_err(|error| CommandFailure::usage(error.to_string()))?;
    Ok(guard.with_certificate_rules(rules))
}

fn certificate_rule(settings: &CallerCertificateSettings) -> Result<CertificateRule, StartError> {
    let filter = &settings.filter;
    let permit = match is_everything(filter) {
        true => None,
        false => Some(Arc::new(AccessPermit::new(&filter.allow, &filter.deny)?)),
    };
    Ok(CertificateRule {
        role: settings.role,
        tenant: settings.tenant.as_deref().map(TenantName::new),
        permit,
        quota: settings.per_minute.map(CallQuota::per_minute),
        max_in_flight: settings.max_in_flight,
        ..CertificateRule::new(&settings.pattern)?
    })
}

/// The keys that the configuration names.
pub(crate) fn keys(auth: &AuthSettings) -> Result<Vec<ApiKey>, CommandFailure> {
    let mut keys: Vec<ApiKey> = auth.keys.iter().map(key).collect::<Result<_, _>>()?;
    if let Some(secret) = &auth.admin_key {
        keys.push(ApiKey::of_secret(ADMIN, secret.expose()).with_role(KeyRole::Admin));
    }
    Ok(keys)
}

fn key(settings: &KeySettings) -> Result<ApiKey, CommandFailure> {
    let key = ApiKey::of_digest(&settings.name, settings.digest).with_role(settings.role);
    let tenant = settings.tenant.as_deref().map(TenantName::new);
    let key = tenant.into_iter().fold(key, ApiKey::of_tenant);
    let key = settings.expires.into_iter().fold(key, ApiKey::until);
    let key = settings.previous.into_iter().fold(key, |key, (digest, until)| key.after(digest, until));
    limited(key, &settings.filter, settings.per_minute, settings.max_in_flight)
}

/// With access to these tools alone, so often, and so much at once.
pub(crate) fn limited(
    key: ApiKey,
    filter: &ToolFilter,
    per_minute: Option<u32>,
    max_in_flight: Option<usize>,
) -> Result<ApiKey, CommandFailure> {
    let key = match is_everything(filter) {
        true => key,
        false => {
            let permit = AccessPermit::new(&filter.allow, &filter.deny);
            key.with_permit(permit.map_err(|error| CommandFailure::usage(error.to_string()))?)
        }
    };
    let key = per_minute.into_iter().fold(key, |key, calls| key.with_quota(CallQuota::per_minute(calls)));
    Ok(max_in_flight.into_iter().fold(key, ApiKey::with_max_in_flight))
}

pub(super) fn is_everything(filter: &ToolFilter) -> bool {
    filter.deny.is_empty() && filter.allow.iter().any(|glob| glob == "*")
}

/// A server's settings for as long as the gateway runs: it starts when the configuration says so, and is never
/// given up.
pub(crate) fn lasting(config: ServerConfig, server: &ServerSettings) -> ServerConfig {
    let start = server.start;
    let mut job = config.job.clone();
    job.0.grace = StopGrace::default();
    ServerConfig { start, backoff: BackoffPolicy::default(), job, ..config }
}

/// How the servers are shown together.
pub(crate) fn hub(all: &CheckedSettings, servers: &[&ServerSettings]) -> Result<HubConfig, CommandFailure> {
    let naming = all.gateway.naming;
    let mut presentations = HashMap::new();
    for server in servers {
        if let Some(shape) = shape(server).map_err(|error| CommandFailure::usage(error.to_string()))? {
            presentations.insert(server.name.clone(), shape);
        }
    }
    let settings = servers.iter().map(|server| (server.name.clone(), shown(server, &all.secrets))).collect();
    let limits = &all.gateway.limits;
    let page =
        PageLimit { items: limits.max_page_items, bytes: usize::try_from(limits.max_page_size).unwrap_or(usize::MAX) };
    let listing = all.gateway.tools;
    Ok(HubConfig { naming, presentations, settings, page, tenants: tenants(servers), listing, ..HubConfig::default() })
}

/// The policy of the configuration, with what it says about its servers.
pub(crate) fn policy(all: &CheckedSettings, pins: Option<&Arc<PinStore>>) -> Option<PolicyGuard> {
    let policy = all.policy.as_ref()?;
    let servers = all.servers.iter().map(|server| (server.name.clone(), facts(server))).collect();
    Some(PolicyGuard::new(policy.set.clone(), policy.mode).with_servers(servers).with_pins(pins.cloned()))
}

/// What rules may read about a server. Only what the operator wrote counts.
pub(crate) fn facts(server: &ServerSettings) -> ServerFacts {
    let tools = server.tools.iter().map(|(name, tool)| {
        let hints = ResourceHints {
            is_read_only: tool.read_only.unwrap_or_default(),
            is_idempotent: tool.idempotent.unwrap_or_default(),
        };
        (name.clone(), ToolFacts { tags: server.tags.iter().chain(&tool.tags).cloned().collect(), hints })
    });
    ServerFacts { tags: server.tags.clone(), tools: tools.collect() }
}

/// Which servers only certain tenants see.
fn tenants(servers: &[&ServerSettings]) -> ServerTenants {
    let limited = servers.iter().filter(|server| !server.tenants.is_empty());
    ServerTenants::new(limited.map(|server| {
        (server.name.clone(), server.tenants.iter().map(|tenant| TenantName::new(tenant.as_str())).collect())
    }))
}

/// The settings as people may read them. What is secret in one place is hidden wherever else it stands.
pub(super) fn shown(server: &ServerSettings, secrets: &[Secret]) -> Value {
    let mut shown = serde_json::to_value(server).unwrap_or_default();
    mask(&mut shown, secrets);
    shown
}

fn mask(value: &mut Value, secrets: &[Secret]) {
    match value {
        Value::String(text) => secrets.iter().for_each(|secret| *text = secret.mask(text)),
        Value::Array(items) => items.iter_mut().for_each(|item| mask(item, secrets)),
        Value::Object(members) => members.values_mut().for_each(|member| mask(member, secrets)),
        _ => {}
    }
}

/// What is changed about a server; nothing at all for most.
pub(super) fn shape(server: &ServerSettings) -> Result<Option<ServerPresentation>, StartError> {
    let is_touched = |tool: &settings::ToolSettings| tool.hidden || tool.rename.is_some() || tool.description.is_some();
    let is_plain = server.naming.is_none() && server.instructions;
    if is_plain && is_everything(&server.filter) && !server.tools.values().any(is_touched) {
        return Ok(None);
    }
    let hidden = server.tools.iter().filter(|(_, tool)| tool.hidden).map(|(name, _)| globset::escape(name));
    let deny: Vec<String> = server.filter.deny.iter().cloned().chain(hidden).collect();
    let shape = ServerPresentation::new(&server.filter.allow, &deny)?;
    let shape = server.naming.into_iter().fold(shape, |shape, own| shape.named(own));
    let shape = if server.instructions { shape } else { shape.silent() };
    Ok(Some(server.tools.iter().fold(shape, |shape, (own, tool)| {
        let shape = tool.rename.iter().fold(shape, |shape, shown| shape.rename(own, shown));
        tool.description.iter().fold(shape, |shape, text| shape.describe(own, text))
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_allow_is_not_everything() {
        let filter =
            |allow: &[&str]| ToolFilter { allow: allow.iter().map(|&glob| glob.into()).collect(), deny: vec![] };
        assert!(is_everything(&filter(&["*"])) && is_everything(&filter(&["files", "*"])));
        assert!(!is_everything(&filter(&[])) && !is_everything(&filter(&["files"])));
    }
}

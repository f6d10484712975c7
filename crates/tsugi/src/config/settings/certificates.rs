//! Settings of callers with certificates: who they are, and what they may do.

use serde::Serialize;
use tsugi_gateway::guard::api_key::KeyRole;

use super::ToolFilter;
use crate::config::key::settings;
use crate::config::key::value::{CERTIFICATE_GLOB, GLOBS, TEXT, keyword, positive};
#[allow(unused_imports, reason = "the map below is read by hand")]
use crate::config::resolve::reader::{SettingsReader, SettingsSection};

settings! {
    /// Callers with certificates of `gateway.tls.clientCa`. The first entry that matches a certificate counts, and one
    /// that none matches is refused. Without this list, every such certificate makes a user who may use everything.
    caller_certificate at "gateway.auth.certificates[]"
    keys {
        /// The names it is about; required: `spiffe://corp.example/agent/*`, `dns:*.example.com`, `cn:ann`, `sha256:…`.
        /// `*` stands for anything but a slash, `**` for anything.
        MATCH: String = key("match") value(CERTIFICATE_GLOB);
        /// What they may do: `admin` controls servers, `readOnly` looks at the dashboard alone.
        ROLE: KeyRole = key("role") value(keyword()) default("user");
        /// Which `server/tool` they may use.
        ALLOW: String = key("allow") value(GLOBS) default("[\"*\"]");
        /// Which `server/tool` they may not use; wins over `allow`.
        DENY: String = key("deny") value(GLOBS) default("[]");
        /// The tenant they belong to; see `servers[].tenants`.
        TENANT: String = key("tenant") value(TEXT);
        /// Calls per minute of each of them at most.
        PER_MINUTE: u32 = key("perMinute") value(positive());
        /// Calls of each of them at the same time at most.
        MAX_IN_FLIGHT: usize = key("maxInFlight") value(positive());
    }
}

/// What the holders of some certificates may do.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CallerCertificateSettings {
    #[serde(rename = "match")]
    pub(crate) pattern: String,
    pub(crate) role: KeyRole,
    pub(crate) filter: ToolFilter,
    pub(crate) tenant: Option<String>,
    pub(crate) per_minute: Option<u32>,
    pub(crate) max_in_flight: Option<usize>,
}

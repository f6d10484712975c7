//! Settings of the gateway.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use tsugi_gateway::dashboard::payload::RecordMode;
use tsugi_gateway::guard::proxy_trust::AddressRange;
use tsugi_gateway::hub::tool_search::ToolListing;
use tsugi_schema::tool_name::ToolNaming;

use super::{AuthSettings, ListenerTlsSettings, OptionSettings, milliseconds};
use crate::config::key::settings;
use crate::config::key::shape::SchemaShape::*;
use crate::config::key::value::{
    ADDRESS, ADDRESS_RANGES, DURATION, FLAG, GLOBS, HOSTS, MOMENT, ORIGINS, POSITIVE_DURATION, SIZE, SWITCH, TEXT,
    keyword, positive,
};
use crate::config::resolve::gateway::{read_admin, read_auth, read_limits, read_state_key};
use crate::config::resolve::oauth::read_public_url;
use crate::config::resolve::reader::{SettingsReader, SettingsSection};
use crate::config::resolve::tls::read_tls;
use crate::config::secret::Secret;

settings! {
    /// How `tsugi serve` offers the servers to callers.
    gateway at "gateway"
    => struct GatewaySettings(reader, section, options: &OptionSettings) {
        /// Where to listen. An address that others can reach needs a key (`auth`, `tsugi key add`) and TLS (`tls`, or a
        /// proxy in `trustedProxies`), or `insecure`.
        one listen: SocketAddr = key(LISTEN: "listen") value(ADDRESS) default("127.0.0.1:7600");
        /// The address under which clients know the gateway, such as `https://mcp.example.com`. Access tokens are
        /// issued for it, and every address in metadata comes from it, never what a request claims. When it is `https`,
        /// browsers are told to stay with that (HSTS).
        one public_url: Option<String> =
            key(PUBLIC_URL: "publicUrl") shape(Url)
            read(section.get(&gateway::PUBLIC_URL).and_then(|node| read_public_url(reader, node)))
            serde(skip_serializing_if = "Option::is_none");
        /// Listen where others can reach it, without authentication or without TLS.
        one insecure: bool = key(INSECURE: "insecure") value(FLAG) default("false");
        /// Certificates, with which it speaks HTTPS. Without it, plain HTTP.
        one tls: Option<ListenerTlsSettings> =
            key(TLS: "tls") shape(Table("gateway.tls"))
            read(section.get(&gateway::TLS).and_then(|node| read_tls(reader, node)));
        /// How tools are named together. Default: `options.naming`.
        one naming: ToolNaming = key(NAMING: "naming") value(keyword()) inherit(options.naming);
        /// What `tools/list` of all servers together lists: `all` tools, or with `search` only `search_tools` and
        /// `call_tool`. `auto` searches when the descriptions of the caller's tools are larger than 32 KiB.
        one tools: ToolListing = key(TOOLS: "tools") value(keyword()) default("all");
        /// Host names that requests may use, besides its own address and loopback.
        many allowed_hosts: String = key(ALLOWED_HOSTS: "allowedHosts") value(HOSTS) default("[]");
        /// Web origins that may send requests, besides its own.
        many allowed_origins: String = key(ALLOWED_ORIGINS: "allowedOrigins") value(ORIGINS) default("[]");
        /// Addresses or ranges (`10.0.0.0/8`) of proxies in front of it. Their `X-Forwarded-For` says which client sent
        /// too many wrong keys; without this, all clients of a proxy are one.
        many trusted_proxies: AddressRange = key(TRUSTED_PROXIES: "trustedProxies") value(ADDRESS_RANGES) default("[]");
        /// Who may send requests. Without it, everyone who can reach the address.
        one auth: AuthSettings =
            key(AUTH: "auth") shape(Table("gateway.auth"))
            read(section.get(&gateway::AUTH).map(|node| read_auth(reader, node)).unwrap_or_default());
        /// How much callers may send and hold.
        one limits: LimitSettings =
            key(LIMITS: "limits") shape(Table("gateway.limits"))
            read(read_limits(reader, section.get(&gateway::LIMITS)));
        /// How long calls may still take when it stops.
        one drain_timeout: Duration =
            key(DRAIN_TIMEOUT: "drainTimeout") value(DURATION) default("30s") serde(serialize_with = "milliseconds");
        /// A legacy session without a request for this long ends.
        one session_idle_timeout: Duration =
            key(SESSION_IDLE_TIMEOUT: "sessionIdleTimeout") value(POSITIVE_DURATION) default("30m")
            serde(serialize_with = "milliseconds");
        /// How often a quiet stream gets a comment, so that no proxy closes it.
        one keep_alive_interval: Duration =
            key(KEEP_ALIVE_INTERVAL: "keepAliveInterval") value(POSITIVE_DURATION) default("15s")
            serde(serialize_with = "milliseconds");
        /// Seals the `requestState` of calls that wait for input: at least 32 characters, best `${file:…}` or a
        /// variable. With the same key a restarted gateway, or another one, can resume such a call, if the server
        /// itself remembers it or needs to remember nothing. Absent: a new key for every start.
        one state_key: Option<Secret> =
            key(STATE_KEY: "stateKey") shape(Text)
            read(section.get(&gateway::STATE_KEY).and_then(|node| read_state_key(reader, node)));
        /// What may be changed over HTTP.
        one admin_api: AdminSettings =
            key(ADMIN_API: "adminApi") shape(Table("gateway.adminApi"))
            read(read_admin(reader, section.get(&gateway::ADMIN_API)));
        /// Offer the dashboard at `/`.
        one dashboard: bool = key(DASHBOARD: "dashboard") value(SWITCH) default("on");
        /// Which calls the dashboard records with their arguments and results: those that fail (`errors`), `all` or none
        /// (`off`). The last ones are kept in memory, without secrets, for administrators and for the caller itself.
        /// Default: `errors` while no key is needed to call, `off` otherwise.
        maybe record: RecordMode = key(RECORD: "record") value(keyword());
        /// Offer `/metrics`.
        one metrics: bool = key(METRICS: "metrics") value(SWITCH) default("on");
    }
}

settings! {
    /// Who may send requests.
    auth at "gateway.auth"
    keys {
        /// API keys.
        KEYS = key("keys") shape(Tables("gateway.auth.keys[]")) default("[]");
        /// OAuth issuers whose access tokens are accepted; needs `gateway.publicUrl`.
        ISSUERS = key("issuers") shape(Tables("gateway.auth.issuers[]")) default("[]");
        /// What callers with certificates may do; needs `gateway.tls.clientAuth`.
        CERTIFICATES = key("certificates") shape(Tables("gateway.auth.certificates[]"));
        /// Which scopes a token needs.
        SCOPES = key("scopes") shape(Table("gateway.auth.scopes"));
        /// What a token must show before its role makes an administrator.
        ADMIN_NEEDS = key("adminNeeds") shape(Table("gateway.auth.adminNeeds"));
        /// The key for control and dashboard itself; better from a variable or a file. A key that is stored as a hash
        /// goes into `keys`, with `admin: true`.
        ADMIN_KEY = key("adminKey") shape(Text);
    }
}

settings! {
    /// One API key. It has exactly one of `key` and `hash`.
    api_key at "gateway.auth.keys[]"
    keys {
        /// Its owner; appears in logs.
        NAME: String = key("name") value(TEXT);
        /// The key itself; better from a variable or a file.
        KEY = key("key") shape(Text);
        /// Its SHA-256 in hexadecimal, as `tsugi key add --print` prints it.
        HASH = key("hash") shape(Text);
        /// May control servers; not together with `readOnly`.
        ADMIN: bool = key("admin") value(FLAG) default("false");
        /// May look at the dashboard but not call or control.
        READ_ONLY: bool = key("readOnly") value(FLAG) default("false");
        /// Which `server/tool` it may use.
        ALLOW: String = key("allow") value(GLOBS) default("[\"*\"]");
        /// Which `server/tool` it may not use, in any spelling; wins over `allow`.
        DENY: String = key("deny") value(GLOBS) default("[]");
        /// The tenant it belongs to; see `servers[].tenants`.
        TENANT: String = key("tenant") value(TEXT);
        /// When it ends: `2027-01-31` or `2027-01-31T18:00:00Z` (UTC).
        EXPIRES: SystemTime = key("expires") value(MOMENT);
        /// The key before it, accepted for a while so that clients can change over.
        PREVIOUS = key("previous") shape(Table("gateway.auth.keys[].previous"));
        /// Calls per minute at most, over all faces; each call of a batch or a WebSocket counts.
        PER_MINUTE: u32 = key("perMinute") value(positive());
        /// Calls at the same time at most; one more is refused with `RATE_LIMIT_EXCEEDED`.
        MAX_IN_FLIGHT: usize = key("maxInFlight") value(positive());
    }
}

settings! {
    /// The key that another one replaces. It has exactly one of `key` and `hash`.
    previous_key at "gateway.auth.keys[].previous"
    keys {
        /// The key itself; better from a variable or a file.
        KEY = key("key") shape(Text);
        /// Its SHA-256 in hexadecimal.
        HASH = key("hash") shape(Text);
        /// When it ends: `2027-01-31` or `2027-01-31T18:00:00Z` (UTC). Required.
        UNTIL: SystemTime = key("until") value(MOMENT);
    }
}

settings! {
    /// How much callers may send and hold.
    limits at "gateway.limits"
    => struct LimitSettings(reader, section) {
        /// The body of a request; a compressed one is refused.
        one max_body_size: u64 = key(MAX_BODY_SIZE: "maxBodySize") value(SIZE) default("4MiB");
        /// All headers of a request.
        one max_header_size: u64 = key(MAX_HEADER_SIZE: "maxHeaderSize") value(SIZE) default("64KiB");
        /// Connections at the same time.
        one max_connections: usize = key(MAX_CONNECTIONS: "maxConnections") value(positive()) default("10000");
        /// Open event streams and WebSockets at the same time.
        one max_streams: usize = key(MAX_STREAMS: "maxStreams") value(positive()) default("10000");
        /// Legacy sessions at the same time.
        one max_sessions: usize = key(MAX_SESSIONS: "maxSessions") value(positive()) default("10000");
        /// Calls in one batch, including `POST /mcp/batch`.
        one max_batch: usize = key(MAX_BATCH: "maxBatch") value(positive()) default("50");
        /// Entries of a list in one response; a longer list comes in pages.
        one max_page_items: usize = key(MAX_PAGE_ITEMS: "maxPageItems") value(positive()) default("1000");
        /// Bytes of a list in one response; a larger list comes in pages.
        one max_page_size: u64 = key(MAX_PAGE_SIZE: "maxPageSize") value(SIZE) default("8MiB");
    }
}

settings! {
    /// What may be changed over HTTP.
    admin at "gateway.adminApi"
    => #[derive(Copy)] struct AdminSettings(reader, section) {
        /// Start, stop, add and remove servers over HTTP at all.
        one enabled: bool = key(ENABLED: "enabled") value(FLAG) default("true");
        /// Let HTTP add servers that run a program. A caller who can do that can run anything.
        one allow_commands: bool = key(ALLOW_COMMANDS: "allowCommands") value(FLAG) default("false");
    }
}

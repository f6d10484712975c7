//! Settings of the gateway.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use tsugi_gateway::guard::proxy_trust::AddressRange;
use tsugi_gateway::hub::tool_search::ToolListing;
use tsugi_schema::tool_name::ToolNaming;

use super::{AuthSettings, ListenerTlsSettings, OptionSettings, milliseconds};
use crate::config::key::settings;
use crate::config::key::shape::SchemaShape::*;
use crate::config::key::value::{
    ADDRESS, ADDRESS_RANGES, DURATION, FLAG, GLOBS, HOSTS, MOMENT, ORIGINS, POSITIVE_DURATION, SIZE, SWITCH, TEXT,
    by_hand, keyword, positive,
};
use crate::config::resolve::gateway::{read_admin, read_auth, read_limits, read_state_key};
use crate::config::resolve::oauth::read_public_url;
use crate::config::resolve::reader::{SettingsReader, SettingsSection};
use crate::config::resolve::tls::read_tls;
use crate::config::secret::Secret;

settings! {
    gateway at "gateway": "How `tsugi serve` offers the servers to callers."
    => own GatewaySettings(reader, section, options: &OptionSettings) {
        one LISTEN listen: SocketAddr = "listen", ADDRESS, "127.0.0.1:7600", "Where to listen. An address that others can reach needs a key (`auth`, `tsugi key add`) and TLS (`tls`, or a proxy in `trustedProxies`), or `insecure`.";
        #[serde(skip_serializing_if = "Option::is_none")]
        hand PUBLIC_URL public_url: Option<String> = "publicUrl", by_hand(Url), "", "The address under which clients know the gateway, such as `https://mcp.example.com`. Access tokens are issued for it, and every address in metadata comes from it, never what a request claims. When it is `https`, browsers are told to stay with that (HSTS).", section.get(&gateway::PUBLIC_URL).and_then(|node| read_public_url(reader, node));
        one INSECURE insecure: bool = "insecure", FLAG, "false", "Listen where others can reach it, without authentication or without TLS.";
        hand TLS tls: Option<ListenerTlsSettings> = "tls", by_hand(Table("gateway.tls")), "", "Certificates, with which it speaks HTTPS. Without it, plain HTTP.", section.get(&gateway::TLS).and_then(|node| read_tls(reader, node));
        custom NAMING naming: ToolNaming = "naming", keyword(), "", "How tools are named together. Default: `options.naming`.", reader.optional(section, &gateway::NAMING).unwrap_or(options.naming);
        one TOOLS tools: ToolListing = "tools", keyword(), "all", "What `tools/list` of all servers together lists: `all` tools, or with `search` only `search_tools` and `call_tool`. `auto` searches when the descriptions of the caller's tools are larger than 32 KiB.";
        many ALLOWED_HOSTS allowed_hosts: String = "allowedHosts", HOSTS, "[]", "Host names that requests may use, besides its own address and loopback.";
        many ALLOWED_ORIGINS allowed_origins: String = "allowedOrigins", ORIGINS, "[]", "Web origins that may send requests, besides its own.";
        many TRUSTED_PROXIES trusted_proxies: AddressRange = "trustedProxies", ADDRESS_RANGES, "[]", "Addresses or ranges (`10.0.0.0/8`) of proxies in front of it. Their `X-Forwarded-For` says which client sent too many wrong keys; without this, all clients of a proxy are one.";
        hand AUTH auth: AuthSettings = "auth", by_hand(Table("gateway.auth")), "", "Who may send requests. Without it, everyone who can reach the address.", section.get(&gateway::AUTH).map(|node| read_auth(reader, node)).unwrap_or_default();
        hand LIMITS limits: LimitSettings = "limits", by_hand(Table("gateway.limits")), "", "How much callers may send and hold.", read_limits(reader, section.get(&gateway::LIMITS));
        #[serde(serialize_with = "milliseconds")]
        one DRAIN_TIMEOUT drain_timeout: Duration = "drainTimeout", DURATION, "30s", "How long calls may still take when it stops.";
        #[serde(serialize_with = "milliseconds")]
        one SESSION_IDLE_TIMEOUT session_idle_timeout: Duration = "sessionIdleTimeout", POSITIVE_DURATION, "30m", "A legacy session without a request for this long ends.";
        #[serde(serialize_with = "milliseconds")]
        one KEEP_ALIVE_INTERVAL keep_alive_interval: Duration = "keepAliveInterval", POSITIVE_DURATION, "15s", "How often a quiet stream gets a comment, so that no proxy closes it.";
        hand STATE_KEY state_key: Option<Secret> = "stateKey", by_hand(Text), "", "Seals the `requestState` of calls that wait for input: at least 32 characters, best `${file:…}` or a variable. With the same key a restarted gateway, or another one, can resume such a call, if the server itself remembers it or needs to remember nothing. Absent: a new key for every start.", section.get(&gateway::STATE_KEY).and_then(|node| read_state_key(reader, node));
        hand ADMIN_API admin_api: AdminSettings = "adminApi", by_hand(Table("gateway.adminApi")), "", "What may be changed over HTTP.", read_admin(reader, section.get(&gateway::ADMIN_API));
        one DASHBOARD dashboard: bool = "dashboard", SWITCH, "on", "Offer the dashboard at `/`.";
        one METRICS metrics: bool = "metrics", SWITCH, "on", "Offer `/metrics`.";
    }
}

settings! {
    auth at "gateway.auth": "Who may send requests."
    keys {
        KEYS: () = "keys", by_hand(Tables("gateway.auth.keys[]")), "[]", "API keys.";
        ISSUERS: () = "issuers", by_hand(Tables("gateway.auth.issuers[]")), "[]", "OAuth issuers whose access tokens are accepted; needs `gateway.publicUrl`.";
        CERTIFICATES: () = "certificates", by_hand(Tables("gateway.auth.certificates[]")), "", "What callers with certificates may do; needs `gateway.tls.clientAuth`.";
        SCOPES: () = "scopes", by_hand(Table("gateway.auth.scopes")), "", "Which scopes a token needs.";
        ADMIN_NEEDS: () = "adminNeeds", by_hand(Table("gateway.auth.adminNeeds")), "", "What a token must show before its role makes an administrator.";
        ADMIN_KEY: () = "adminKey", by_hand(Text), "", "The key for control and dashboard itself; better from a variable or a file. A key that is stored as a hash goes into `keys`, with `admin: true`.";
    }
}

settings! {
    api_key at "gateway.auth.keys[]": "One API key. It has exactly one of `key` and `hash`."
    keys {
        NAME: String = "name", TEXT, "", "Its owner; appears in logs.";
        KEY: () = "key", by_hand(Text), "", "The key itself; better from a variable or a file.";
        HASH: () = "hash", by_hand(Text), "", "Its SHA-256 in hexadecimal, as `tsugi key add --print` prints it.";
        ADMIN: bool = "admin", FLAG, "false", "May control servers; not together with `readOnly`.";
        READ_ONLY: bool = "readOnly", FLAG, "false", "May look at the dashboard but not call or control.";
        ALLOW: String = "allow", GLOBS, "[\"*\"]", "Which `server/tool` it may use.";
        DENY: String = "deny", GLOBS, "[]", "Which `server/tool` it may not use, in any spelling; wins over `allow`.";
        TENANT: String = "tenant", TEXT, "", "The tenant it belongs to; see `servers[].tenants`.";
        EXPIRES: SystemTime = "expires", MOMENT, "", "When it ends: `2027-01-31` or `2027-01-31T18:00:00Z` (UTC).";
        PREVIOUS: () = "previous", by_hand(Table("gateway.auth.keys[].previous")), "", "The key before it, accepted for a while so that clients can change over.";
        PER_MINUTE: u32 = "perMinute", positive(), "", "Calls per minute at most, over all faces; each call of a batch or a WebSocket counts.";
        MAX_IN_FLIGHT: usize = "maxInFlight", positive(), "", "Calls at the same time at most; one more is refused with `RATE_LIMIT_EXCEEDED`.";
    }
}

settings! {
    previous_key at "gateway.auth.keys[].previous": "The key that another one replaces. It has exactly one of `key` and `hash`."
    keys {
        KEY: () = "key", by_hand(Text), "", "The key itself; better from a variable or a file.";
        HASH: () = "hash", by_hand(Text), "", "Its SHA-256 in hexadecimal.";
        UNTIL: SystemTime = "until", MOMENT, "", "When it ends: `2027-01-31` or `2027-01-31T18:00:00Z` (UTC). Required.";
    }
}

settings! {
    limits at "gateway.limits": "How much callers may send and hold."
    => own LimitSettings(reader, section) {
        one MAX_BODY_SIZE max_body_size: u64 = "maxBodySize", SIZE, "4MiB", "The body of a request; a compressed one is refused.";
        one MAX_HEADER_SIZE max_header_size: u64 = "maxHeaderSize", SIZE, "64KiB", "All headers of a request.";
        one MAX_CONNECTIONS max_connections: usize = "maxConnections", positive(), "10000", "Connections at the same time.";
        one MAX_STREAMS max_streams: usize = "maxStreams", positive(), "10000", "Open event streams and WebSockets at the same time.";
        one MAX_SESSIONS max_sessions: usize = "maxSessions", positive(), "10000", "Legacy sessions at the same time.";
        one MAX_BATCH max_batch: usize = "maxBatch", positive(), "50", "Calls in one batch, including `POST /mcp/batch`.";
        one MAX_PAGE_ITEMS max_page_items: usize = "maxPageItems", positive(), "1000", "Entries of a list in one response; a longer list comes in pages.";
        one MAX_PAGE_SIZE max_page_size: u64 = "maxPageSize", SIZE, "8MiB", "Bytes of a list in one response; a larger list comes in pages.";
    }
}

settings! {
    admin at "gateway.adminApi": "What may be changed over HTTP."
    => #[derive(Copy)] own AdminSettings(reader, section) {
        one ENABLED enabled: bool = "enabled", FLAG, "true", "Start, stop, add and remove servers over HTTP at all.";
        one ALLOW_COMMANDS allow_commands: bool = "allowCommands", FLAG, "false", "Let HTTP add servers that run a program. A caller who can do that can run anything.";
    }
}

//! The keys of the gateway.

use super::keys;

keys! {
    gateway at "gateway": "How `tsugi serve` offers the servers to callers."
    LISTEN = "listen", "address", "127.0.0.1:7600", "Where to listen. An address that others can reach needs a key (`auth`, `tsugi key add`) or `insecure`.";
    INSECURE = "insecure", "`true` or `false`", "false", "Listen where others can reach it, although nobody has to say who they are.";
    NAMING = "naming", "`prefix`, `prefix-on-conflict`, or `bare`", "", "How tools are named together. Default: `options.naming`.";
    ALLOWED_HOSTS = "allowedHosts", "list of text", "[]", "Names under which it may be asked, besides its own address and loopback.";
    ALLOWED_ORIGINS = "allowedOrigins", "list of text", "[]", "Web origins that may ask, besides its own.";
    AUTH = "auth", "map", "", "Who may ask. Without it, everyone who can reach the address.";
    LIMITS = "limits", "map", "", "How much callers may send and hold.";
    DRAIN = "drain", "duration", "30s", "How long calls may still take when it stops.";
    SESSION_IDLE = "sessionIdle", "duration", "30m", "After so long without a request a legacy session ends.";
    KEEP_ALIVE = "keepAlive", "duration", "15s", "How often a quiet stream gets a comment, so that nobody closes it.";
    SEAL_KEY = "sealKey", "text", "", "Seals the `requestState` of calls that wait for input: at least 32 characters, best `${file:…}` or a variable. With the same key a gateway that was started again, or another one, takes up such a call, where the server itself remembers it or needs to remember nothing. Absent: a new key for every start.";
    ADMIN_API = "adminApi", "map", "", "What may be changed over HTTP.";
    DASHBOARD = "dashboard", "`on` or `off`", "on", "Offer the dashboard at `/`.";
    METRICS = "metrics", "`on` or `off`", "on", "Offer `/metrics`.";
}

keys! {
    auth at "gateway.auth": "Who may ask."
    KEYS = "keys", "list", "[]", "API keys.";
    ADMIN_KEY = "adminKey", "text", "", "The key for control and dashboard itself; better from a variable or a file. One that is to be kept as a hash goes into `keys`, with `admin: true`.";
}

keys! {
    api_key at "gateway.auth.keys[]": "One API key. It has exactly one of `key` and `hash`."
    NAME = "name", "text", "", "Who it is; appears in logs.";
    KEY = "key", "text", "", "The key itself; better from a variable or a file.";
    HASH = "hash", "text", "", "Its SHA-256 in hexadecimal, as `tsugi key add --print` prints it.";
    ADMIN = "admin", "`true` or `false`", "false", "May control servers; not together with `readOnly`.";
    READ_ONLY = "readOnly", "`true` or `false`", "false", "May look at the dashboard but not call or control.";
    ALLOW = "allow", "list of globs", "[\"*\"]", "Which `server/tool` it may use.";
    DENY = "deny", "list of globs", "[]", "Which `server/tool` it may not use; wins over `allow`.";
    PER_MINUTE = "perMinute", "number", "", "Calls in a minute at most, whichever way they come; each call of a batch or a WebSocket counts.";
    MAX_IN_FLIGHT = "maxInFlight", "number", "", "Calls at the same time at most; one more is refused with `RATE_LIMIT_EXCEEDED`.";
}

keys! {
    limits at "gateway.limits": "How much callers may send and hold."
    BODY = "body", "size", "4MiB", "The body of a request; one that is compressed is refused.";
    HEADERS = "headers", "size", "64KiB", "All headers of a request.";
    CONNECTIONS = "connections", "number", "10000", "Connections at the same time.";
    STREAMS = "streams", "number", "10000", "Open event streams and WebSockets at the same time.";
    SESSIONS = "sessions", "number", "10000", "Legacy sessions at the same time.";
    BATCH = "batch", "number", "50", "Calls in one batch, also of `POST /mcp/batch`.";
    PAGE_ITEMS = "pageItems", "number", "1000", "Entries of a list in one answer; a longer list comes in pages.";
    PAGE_BYTES = "pageBytes", "size", "8MiB", "Bytes of a list in one answer; a larger list comes in pages.";
}

keys! {
    admin at "gateway.adminApi": "What may be changed over HTTP."
    ENABLED = "enabled", "`true` or `false`", "true", "Start, stop, add and remove servers over HTTP at all.";
    ALLOW_COMMANDS = "allowCommands", "`true` or `false`", "false", "Let HTTP add servers that run a program. Whoever can do that can run anything.";
}

//! Settings of a server and of its tools.

use std::collections::BTreeMap;
use std::time::Duration;

use tsugi_client::config::{AutoSwitch, InstancePolicy, PinPolicy, RetryPolicy, ValidatePolicy};
use tsugi_client::config::{BreakerPolicy, EraChoice, RestartPolicy, StartPolicy};
use tsugi_process::SandboxPolicy;
use tsugi_schema::tool_name::ToolNaming;

use super::{BuiltinServer, CacheSettings, OptionSettings, RemoteTransport, ServerTarget, ToolFilter};
use super::{milliseconds, optional_milliseconds};
use crate::config::key::settings;
use crate::config::key::shape::SchemaShape::*;
use crate::config::key::value::{
    FLAG, GLOBS, INSTANCES_WORD, POSITIVE_DURATION, REVISION, SANDBOX_WORD, SWITCH, TEXT, TEXTS, TOOL_NAME, TOOL_NAMES,
    TRANSPORT_WORD, keyword, positive,
};
use crate::config::resolve::policy;
use crate::config::resolve::reader::{SettingsReader, SettingsSection};
use crate::config::resolve::server::instances;

settings! {
    /// One upstream server. It has exactly one of `command`, `url` and `builtin`.
    server at "servers[]"
    keys {
        /// Its name: up to 64 of A-Z, a-z, 0-9, `.`, `_` and `-`. In a map of servers the key is the name.
        NAME = key("name") shape(Text);
        /// The program to run. It is started as it is, without a shell; arguments go into `args`.
        COMMAND = key("command") shape(Text);
        /// Arguments of the program, or of a built-in server.
        ARGS = key("args") shape(Arguments) default("[]");
        /// Variables of the program, added to those it inherits.
        ENV = key("env" | "envs") shape(TextMap) default("{}");
        /// A file of `NAME=value` lines with more variables of the program; `env` wins.
        ENV_FILE = key("envFile") shape(Path);
        /// The directory to start the program in; relative to the configuration file. Default: the directory of the
        /// configuration file.
        CWD = key("cwd") shape(Path);
        /// The address of a remote server: `http`, `https`, `ws` or `wss`.
        URL = key("url" | "serverUrl" | "httpUrl" | "endpoint") shape(Url);
        /// Headers of every request to `url`.
        HEADERS = key("headers") shape(TextMap) default("{}");
        /// Check every connection to `url` by the rules of `outbound`. Servers that are added over HTTP are always
        /// checked, and are written down with this.
        GUARDED: bool = key("guarded") value(FLAG) default("false");
        /// How to talk. `auto` follows from `command` or from the address, and tries HTTP before SSE. `rpc` posts
        /// JSON-RPC to `<url>/rpc` without a handshake.
        TRANSPORT: RemoteTransport = key("transport" | "type") value(TRANSPORT_WORD) default("auto");
        /// How connections to `url` are secured. Default: the authorities of the system.
        TLS = key("tls") shape(Table("servers[].tls"));
        /// How tsugi signs in to `url`. Without it a sign-in by `tsugi login` is used where there is one.
        AUTH = key("auth") shape(Table("servers[].auth"));
        /// A server that is part of tsugi.
        BUILTIN: BuiltinServer = key("builtin") value(keyword());
        /// What the program may reach.
        SANDBOX: SandboxPolicy = key("sandbox") value(SANDBOX_WORD) default("off");
        /// Keep the entry but do not use it.
        DISABLED: bool = key("disabled") value(FLAG) default("false");
        /// Settings of single tools.
        TOOLS = key("tools") shape(TableMap("servers[].tools.NAME")) default("{}");
        /// Tools whose calls are not logged at info, such as those that are polled: short for `quiet: true` of each.
        QUIET_TOOLS: String = key("quietTools") value(TOOL_NAMES) default("[]");
        /// Only these tools are offered.
        ALLOW: String =
            key("allow" | "includeTools" | "include_tools" | "enabledTools" | "enabled_tools") value(GLOBS)
            default("[\"*\"]");
        /// These tools are not offered; it wins over `allow`.
        DENY: String =
            key("deny" | "excludeTools" | "exclude_tools" | "disabledTools" | "disabled_tools") value(GLOBS)
            default("[]");
    }
    => struct ServerSettings(
        reader,
        section,
        name: String,
        target: ServerTarget,
        tools: BTreeMap<String, ToolSettings>,
        validate: ValidatePolicy,
        options: &OptionSettings
    ) {
        /// How long a call may be silent; progress starts it again. Default: `options.timeout`.
        one timeout: Duration =
            key(TIMEOUT: "timeout") value(POSITIVE_DURATION) inherit(options.timeout)
            serde(serialize_with = "milliseconds");
        /// How long a call may take in all. Default: `options.maxTimeout`.
        maybe max_timeout: Duration =
            key(MAX_TIMEOUT: "maxTimeout") value(POSITIVE_DURATION) inherit(options.max_timeout)
            serde(serialize_with = "optional_milliseconds");
        /// When and how a call is retried. Absent keys come from `options.retryPolicy`.
        one retry: RetryPolicy =
            key(RETRY: "retryPolicy") shape(Table("retryPolicy"))
            read(policy::retry(reader, section.get(&server::RETRY), &options.retry));
        /// Whether results of read-only tools are cached. Absent keys come from `options.cache`.
        one cache: CacheSettings =
            key(CACHE: "cache") shape(SwitchOrTable("cache"))
            read(policy::cache(reader, section.get(&server::CACHE), &options.cache));
        /// How arguments and results are checked. Absent keys come from `options.validate`.
        one validate: ValidatePolicy =
            key(VALIDATE: "validate") shape(WordsOrTable(policy::MODES, "validate")) read(validate);
        /// How strictly it is held to what it offered before. Absent keys come from `options.pin`; built-in servers are
        /// not pinned.
        one pin: PinPolicy =
            key(PIN: "pin") shape(WordsOrTable(policy::PIN_MODES, "pin"))
            read(policy::pin(reader, section.get(&server::PIN), options.pin));
        /// Whether it is left alone for a while when it keeps failing.
        one breaker: Option<BreakerPolicy> =
            key(BREAKER: "breaker") shape(SwitchOrTable("servers[].breaker")) default("on")
            read(policy::breaker(reader, section.get(&server::BREAKER)));
        /// Whether a program that died is started again.
        one restart: RestartPolicy = key(RESTART: "restart") value(keyword()) default("on-failure");
        /// Whether the server is started at once or with its first call.
        one start: StartPolicy = key(START: "start") value(keyword()) default("eager");
        /// How many instances of it run: `shared` one for all callers, `per-session` one for each session, `auto` one
        /// and, once it has asked a question, up to `maxConnections` that share the calls.
        one instances: InstancePolicy =
            key(INSTANCES: "instances") value(INSTANCES_WORD) default("shared") read(instances(reader, section));
        /// Stop an instance that was not used for this long; the next call starts it again.
        maybe idle_timeout: Duration =
            key(IDLE_TIMEOUT: "idleTimeout") value(POSITIVE_DURATION) serde(serialize_with = "optional_milliseconds");
        /// Connections to it at most; the one unused for longest is closed for a new one.
        one max_connections: usize = key(MAX_CONNECTIONS: "maxConnections") value(positive()) default("10");
        /// Calls in flight to it at the same time; more wait in a bounded queue.
        one max_in_flight: usize = key(MAX_IN_FLIGHT: "maxInFlight") value(positive()) default("64");
        /// The only tenants that see it; a caller's tenant comes from its key or token. Operators without a tenant see
        /// every server. Empty: everyone sees it.
        many tenants: String = key(TENANTS: "tenants") value(TEXTS) default("[]");
        /// Words for rules of a policy, which read them as `resource.tags`. All of its tools have them too.
        many tags: String = key(TAGS: "tags") value(TEXTS) default("[]");
        /// How this server's tools and prompts are named among those of the others. Default: `gateway.naming`.
        maybe naming: ToolNaming = key(NAMING: "naming") value(keyword());
        /// Which kind of protocol it speaks, if asking it does not work.
        one era: EraChoice = key(ERA: "era") value(keyword()) default("auto");
        /// The revision to offer first, and with it the era.
        maybe protocol_version: String = key(PROTOCOL_VERSION: "protocolVersion") value(REVISION);
        /// Whether its instructions are passed on to callers.
        one instructions: bool = key(INSTRUCTIONS: "instructions") value(SWITCH) default("on");
    }
    fields {
        name: String = name;
        target: ServerTarget = target;
        enabled: bool = !reader.or_default(section, &server::DISABLED);
        tools: BTreeMap<String, ToolSettings> = tools;
        filter: ToolFilter = ToolFilter {
            allow: reader.list_or_default(section, &server::ALLOW),
            deny: reader.list_or_default(section, &server::DENY),
        };
    }
}

settings! {
    /// Settings of one tool.
    tool at "servers[].tools.NAME"
    => #[derive(Default)] struct ToolSettings(reader, section, validate: Option<ValidatePolicy>) {
        /// How long a call may be silent. Default: that of the server.
        maybe timeout: Duration =
            key(TIMEOUT: "timeout") value(POSITIVE_DURATION) serde(serialize_with = "optional_milliseconds");
        /// Whether a call may be retried. `auto` retries only what was not sent, or is read-only or idempotent.
        one retry: AutoSwitch = key(RETRY: "retry") value(keyword()) default("auto");
        /// Whether results are cached. `auto` means those of read-only tools, if the server's `cache` is on.
        one cache: AutoSwitch = key(CACHE: "cache") value(keyword()) default("auto");
        /// How its arguments and results are checked. Absent keys come from the server's `validate`.
        one validate: Option<ValidatePolicy> =
            key(VALIDATE: "validate") shape(WordsOrTable(policy::MODES, "validate")) read(validate);
        /// Overrides the tool's own `readOnlyHint`.
        maybe read_only: bool = key(READ_ONLY: "readOnly") value(FLAG);
        /// Overrides the tool's own `idempotentHint`.
        maybe idempotent: bool = key(IDEMPOTENT: "idempotent") value(FLAG);
        /// Do not offer it.
        one hidden: bool = key(HIDDEN: "hidden") value(FLAG) default("false");
        /// Offer it under this name.
        maybe rename: String = key(RENAME: "rename") value(TOOL_NAME);
        /// Offer it with this description.
        maybe description: String = key(DESCRIPTION: "description") value(TEXT);
        /// More words for rules of a policy, beside those of the server.
        many tags: String = key(TAGS: "tags") value(TEXTS) default("[]");
        /// Do not log its calls at info.
        one quiet: bool = key(QUIET: "quiet") value(FLAG) default("false");
    }
}

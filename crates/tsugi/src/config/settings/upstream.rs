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
    TRANSPORT_WORD, by_hand, keyword, positive,
};
use crate::config::resolve::policy;
use crate::config::resolve::reader::{SettingsReader, SettingsSection};
use crate::config::resolve::server::instances;

settings! {
    server at "servers[]": "One upstream server. It has exactly one of `command`, `url` and `builtin`."
    keys {
        NAME: () = "name", by_hand(Text), "", "Its name: up to 64 of A-Z, a-z, 0-9, `.`, `_` and `-`. In a map of servers the key is the name.";
        COMMAND: () = "command", by_hand(Text), "", "The program to run. It is started as it is, without a shell; arguments go into `args`.";
        ARGS: () = "args", by_hand(Arguments), "[]", "Arguments of the program, or of a built-in server.";
        ENV: () = "env" | "envs", by_hand(TextMap), "{}", "Variables of the program, added to those it inherits.";
        ENV_FILE: () = "envFile", by_hand(Path), "", "A file of `NAME=value` lines with more variables of the program; `env` wins.";
        CWD: () = "cwd", by_hand(Path), "", "The directory to start the program in; relative to the configuration file. Default: the directory of the configuration file.";
        URL: () = "url" | "serverUrl" | "httpUrl" | "endpoint", by_hand(Url), "", "The address of a remote server: `http`, `https`, `ws` or `wss`.";
        HEADERS: () = "headers", by_hand(TextMap), "{}", "Headers of every request to `url`.";
        GUARDED: bool = "guarded", FLAG, "false", "Check every connection to `url` by the rules of `outbound`. Servers that are added over HTTP are always checked, and are written down with this.";
        TRANSPORT: RemoteTransport = "transport" | "type", TRANSPORT_WORD, "auto", "How to talk. `auto` follows from `command` or from the address, and tries HTTP before SSE. `rpc` posts JSON-RPC to `<url>/rpc` without a handshake.";
        TLS: () = "tls", by_hand(Table("servers[].tls")), "", "How connections to `url` are secured. Default: the authorities of the system.";
        BUILTIN: BuiltinServer = "builtin", keyword(), "", "A server that is part of tsugi.";
        SANDBOX: SandboxPolicy = "sandbox", SANDBOX_WORD, "off", "What the program may reach.";
        DISABLED: bool = "disabled", FLAG, "false", "Keep the entry but do not use it.";
        TOOLS: () = "tools", by_hand(TableMap("servers[].tools.NAME")), "{}", "Settings of single tools.";
        QUIET_TOOLS: String = "quietTools", TOOL_NAMES, "[]", "Tools whose calls are not logged at info, such as those that are polled: short for `quiet: true` of each.";
        ALLOW: String = "allow" | "includeTools" | "include_tools" | "enabledTools" | "enabled_tools", GLOBS, "[\"*\"]", "Only these tools are offered.";
        DENY: String = "deny" | "excludeTools" | "exclude_tools" | "disabledTools" | "disabled_tools", GLOBS, "[]", "These tools are not offered; it wins over `allow`.";
    }
    => own ServerSettings(reader, section, name: String, target: ServerTarget, tools: BTreeMap<String, ToolSettings>, validate: ValidatePolicy, options: &OptionSettings) {
        #[serde(serialize_with = "milliseconds")]
        custom TIMEOUT timeout: Duration = "timeout", POSITIVE_DURATION, "", "How long a call may be silent; progress starts it again. Default: `options.timeout`.", reader.optional(section, &server::TIMEOUT).unwrap_or(options.timeout);
        #[serde(serialize_with = "optional_milliseconds")]
        maybe_custom MAX_TIMEOUT max_timeout: Duration = "maxTimeout", POSITIVE_DURATION, "", "How long a call may take in all. Default: `options.maxTimeout`.", reader.optional(section, &server::MAX_TIMEOUT).or(options.max_timeout);
        hand RETRY retry: RetryPolicy = "retryPolicy", by_hand(Table("retryPolicy")), "", "When and how a call is retried. Absent keys come from `options.retryPolicy`.", policy::retry(reader, section.get(&server::RETRY), &options.retry);
        hand CACHE cache: CacheSettings = "cache", by_hand(SwitchOrTable("cache")), "", "Whether results of read-only tools are cached. Absent keys come from `options.cache`.", policy::cache(reader, section.get(&server::CACHE), &options.cache);
        hand VALIDATE validate: ValidatePolicy = "validate", by_hand(WordsOrTable(policy::MODES, "validate")), "", "How arguments and results are checked. Absent keys come from `options.validate`.", validate;
        hand PIN pin: PinPolicy = "pin", by_hand(WordsOrTable(policy::PIN_MODES, "pin")), "", "How strictly it is held to what it offered before. Absent keys come from `options.pin`; built-in servers are not pinned.", policy::pin(reader, section.get(&server::PIN), options.pin);
        hand BREAKER breaker: Option<BreakerPolicy> = "breaker", by_hand(SwitchOrTable("servers[].breaker")), "on", "Whether it is left alone for a while when it keeps failing.", policy::breaker(reader, section.get(&server::BREAKER));
        one RESTART restart: RestartPolicy = "restart", keyword(), "on-failure", "Whether a program that died is started again.";
        one START start: StartPolicy = "start", keyword(), "eager", "Whether the server is started at once or with its first call.";
        custom INSTANCES instances: InstancePolicy = "instances", INSTANCES_WORD, "shared", "How many instances of it run: `shared` one for all callers, `per-session` one for each session, `auto` one and, once it has asked a question, up to `maxConnections` that share the calls.", instances(reader, section);
        #[serde(serialize_with = "optional_milliseconds")]
        maybe IDLE_TIMEOUT idle_timeout: Duration = "idleTimeout", POSITIVE_DURATION, "", "Stop an instance that was not used for this long; the next call starts it again.";
        one MAX_CONNECTIONS max_connections: usize = "maxConnections", positive(), "10", "Connections to it at most; the one unused for longest is closed for a new one.";
        one MAX_IN_FLIGHT max_in_flight: usize = "maxInFlight", positive(), "64", "Calls in flight to it at the same time; more wait in a bounded queue.";
        many TENANTS tenants: String = "tenants", TEXTS, "[]", "The only tenants that see it; a caller's tenant comes from its key or token. Operators without a tenant see every server. Empty: everyone sees it.";
        maybe NAMING naming: ToolNaming = "naming", keyword(), "", "How this server's tools and prompts are named among those of the others. Default: `gateway.naming`.";
        one ERA era: EraChoice = "era", keyword(), "auto", "Which kind of protocol it speaks, if asking it does not work.";
        maybe PROTOCOL_VERSION protocol_version: String = "protocolVersion", REVISION, "", "The revision to offer first, and with it the era.";
        one INSTRUCTIONS instructions: bool = "instructions", SWITCH, "on", "Whether its instructions are passed on to callers.";
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
    tool at "servers[].tools.NAME": "Settings of one tool."
    => #[derive(Default)] own ToolSettings(reader, section, validate: Option<ValidatePolicy>) {
        #[serde(serialize_with = "optional_milliseconds")]
        maybe TIMEOUT timeout: Duration = "timeout", POSITIVE_DURATION, "", "How long a call may be silent. Default: that of the server.";
        one RETRY retry: AutoSwitch = "retry", keyword(), "auto", "Whether a call may be retried. `auto` retries only what was not sent, or is read-only or idempotent.";
        one CACHE cache: AutoSwitch = "cache", keyword(), "auto", "Whether results are cached. `auto` means those of read-only tools, if the server's `cache` is on.";
        hand VALIDATE validate: Option<ValidatePolicy> = "validate", by_hand(WordsOrTable(policy::MODES, "validate")), "", "How its arguments and results are checked. Absent keys come from the server's `validate`.", validate;
        maybe READ_ONLY read_only: bool = "readOnly", FLAG, "", "Overrides the tool's own `readOnlyHint`.";
        maybe IDEMPOTENT idempotent: bool = "idempotent", FLAG, "", "Overrides the tool's own `idempotentHint`.";
        one HIDDEN hidden: bool = "hidden", FLAG, "false", "Do not offer it.";
        maybe RENAME rename: String = "rename", TOOL_NAME, "", "Offer it under this name.";
        maybe DESCRIPTION description: String = "description", TEXT, "", "Offer it with this description.";
        one QUIET quiet: bool = "quiet", FLAG, "false", "Do not log its calls at info.";
    }
}

//! The keys of a server and of its tools.

use super::keys;

keys! {
    server at "servers[]": "One upstream server. It has exactly one of `command`, `url` and `builtin`."
    NAME = "name", "text", "", "Its name: up to 64 of A-Z, a-z, 0-9, `.`, `_` and `-`. In a map of servers the key is the name.";
    COMMAND = "command", "text", "", "The program to run. It is started as it is, without a shell; arguments go into `args`.";
    ARGS = "args", "list of text", "[]", "Arguments of the program, or of a built-in server.";
    ENV = "env" | "envs", "map of text", "{}", "Variables of the program, added to those it inherits.";
    ENV_FILE = "envFile", "path", "", "A file of `NAME=value` lines with more variables of the program; `env` wins.";
    CWD = "cwd", "path", "", "The directory to start the program in; relative to the configuration file.";
    URL = "url" | "serverUrl" | "httpUrl" | "endpoint", "URL", "", "The address of a server that runs elsewhere: `http`, `https`, `ws` or `wss`.";
    HEADERS = "headers", "map of text", "{}", "Headers of every request to `url`.";
    TRANSPORT = "transport" | "type", "`stdio`, `http` (`streamable-http`, `streamableHttp`), `sse`, `rpc`, `websocket` (`ws`), or `auto`", "auto", "How to talk. `auto` follows from `command` or from the address, and tries HTTP before SSE. `rpc` posts JSON-RPC to `<url>/rpc` without a handshake.";
    BUILTIN = "builtin", "text", "", "A server that is part of tsugi: `pm` or `demo`.";
    TIMEOUT = "timeout", "duration", "", "How long a call may be silent; progress starts it again. Default: `options.timeout`.";
    MAX_TIMEOUT = "maxTimeout", "duration", "", "How long a call may take in all. Default: `options.maxTimeout`.";
    TOOLS = "tools", "map by tool name", "{}", "What differs for single tools.";
    QUIET = "quiet", "list of text", "[]", "Tools whose calls are not logged at info, such as those that are polled.";
    RETRY = "retryPolicy", "map", "", "When and how a call is tried again. What is absent comes from `options.retryPolicy`.";
    RESTART = "restart", "`on-failure` or `never`", "on-failure", "Whether a program that died is started again.";
    START = "start", "`eager` or `lazy`", "eager", "Whether the server is started at once or with its first call.";
    INSTANCES = "instances", "`shared`, `per-session`, or `{pool: N}`", "shared", "How many of it run.";
    IDLE_TIMEOUT = "idleTimeout", "duration", "", "Stop what was not used for so long; the next call starts it again.";
    MAX_CONNECTIONS = "maxConnections", "number", "10", "Connections to it at most; the one unused for longest is closed for a new one.";
    MAX_IN_FLIGHT = "maxInFlight", "number", "64", "Calls under way to it at the same time; more wait in a bounded queue.";
    SANDBOX = "sandbox", "`off`, `default`, or map", "off", "What the program may reach.";
    CACHE = "cache", "`on`, `off`, or map", "", "Whether results of read-only tools are kept. What is absent comes from `options.cache`.";
    VALIDATE = "validate", "`off`, `warn`, `enforce`, or map", "", "How arguments and results are checked. What is absent comes from `options.validate`.";
    BREAKER = "breaker", "`on`, `off`, or map", "on", "Whether it is left alone for a while when it keeps failing.";
    ALLOW = "allow" | "includeTools" | "include_tools" | "enabledTools" | "enabled_tools", "list of globs", "[\"*\"]", "Only these tools are offered.";
    DENY = "deny" | "excludeTools" | "exclude_tools" | "disabledTools" | "disabled_tools", "list of globs", "[]", "These tools are not offered; it wins over `allow`.";
    DISABLED = "disabled", "`true` or `false`", "false", "Keep the entry but do not use it.";
    ENABLED = "enabled", "`true` or `false`", "true", "The opposite of `disabled`.";
    NAMING = "naming", "`prefix`, `prefix-on-conflict`, or `bare`", "", "How this server's tools and prompts are named among those of the others. Default: `gateway.naming`.";
    ERA = "era", "`auto`, `modern`, or `legacy`", "auto", "Which kind of protocol it speaks, where asking it does not work.";
    PROTOCOL_VERSION = "protocolVersion", "revision", "", "The revision to offer first, and with it the era: `2024-11-05`, `2025-03-26`, `2025-06-18`, `2025-11-25` or `2026-07-28`.";
    INSTRUCTIONS = "instructions", "`on` or `off`", "on", "Whether its instructions are passed on to callers.";
}

keys! {
    tool at "servers[].tools.NAME": "What differs for one tool."
    TIMEOUT = "timeout", "duration", "", "How long a call may be silent. Default: that of the server.";
    RETRY = "retry", "`auto`, `on`, or `off`", "auto", "Whether a call may be tried again; `auto` trusts only what was not sent, or is read-only or idempotent.";
    CACHE = "cache", "`auto`, `on`, or `off`", "auto", "Whether results are kept; `auto` means those of read-only tools, where the server's `cache` is on.";
    VALIDATE = "validate", "`off`, `warn`, `enforce`, or map", "", "How its arguments and results are checked. What is absent comes from the server's `validate`.";
    READ_ONLY = "readOnly", "`true` or `false`", "", "Overrules the tool's own `readOnlyHint`.";
    IDEMPOTENT = "idempotent", "`true` or `false`", "", "Overrules the tool's own `idempotentHint`.";
    HIDDEN = "hidden", "`true` or `false`", "false", "Do not offer it.";
    RENAME = "rename", "text", "", "Offer it under this name.";
    DESCRIPTION = "description", "text", "", "Offer it with this description.";
    QUIET = "quiet", "`true` or `false`", "false", "Do not log its calls at info.";
}

//! The keys at the top of a configuration, and the options that hold for all servers.

use super::keys;

keys! {
    root at "": "The file itself."
    SERVERS = "servers" | "mcpServers", "list, or map by name", "", "The upstream servers, in the order in which their tools are listed.";
    OPTIONS = "options", "map", "", "What holds for every server that does not say otherwise.";
    GATEWAY = "gateway", "map", "", "How `tsugi serve` offers the servers to callers.";
    ENV_FILE = "envFile", "path", "", "A file of `NAME=value` lines whose variables `${…}` may use; variables of the process win.";
    SCHEMA = "$schema", "text", "", "Ignored; editors use it.";
}

keys! {
    options at "options": "What holds for every server that does not say otherwise."
    MAX_PARALLEL = "maxParallel", "number", "10", "Calls of one batch that run at the same time, also of `POST /mcp/batch`.";
    MAX_IN_FLIGHT = "maxInFlight", "number", "1024", "Calls under way at the same time, over all servers.";
    MAX_CONNECTIONS = "maxConnections", "number", "", "Connections over all servers at most; the one unused for longest is closed for a new one, and opened again when it is called. Absent means no limit.";
    TIMEOUT = "timeout", "duration", "30s", "How long a call may be silent. Where it is absent, the variable `DEFAULT_TIMEOUT` is asked first.";
    MAX_TIMEOUT = "maxTimeout", "duration", "", "How long a call may take in all, progress or not: no `timeout` goes beyond it. Where it is absent everywhere that is 10 minutes, or a longer `timeout`.";
    INPUT_PATIENCE = "inputPatience", "duration", "5s", "How long a legacy server's open question keeps other callers waiting: then the server gets an error instead of the answer. Without other callers it waits for ten minutes.";
    RETRY = "retryPolicy", "map", "", "When and how a call is tried again.";
    CACHE = "cache", "`on`, `off`, or map", "off", "Whether results of read-only tools are kept. What else happens to the data meanwhile is not noticed.";
    VALIDATE = "validate", "`off`, `warn`, `enforce`, or map", "", "How arguments and results are checked against their schemas.";
    DEBUG = "debug", "`true` or `false`", "false", "Log what servers write to standard error, and every message to and from them, with secrets masked.";
    NAMING = "naming", "`prefix`, `prefix-on-conflict`, or `bare`", "prefix", "How tools of several servers are named together.";
}

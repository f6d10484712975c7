//! The keys of what servers and options share: retry, cache, validation, breaker, sandbox, pool.

use super::keys;

keys! {
    retry at "retryPolicy": "When and how a call is tried again: in `options` and in a server."
    MAX_RETRIES = "maxRetries", "number", "3", "How often, after the first try.";
    INITIAL_DELAY = "initialDelay", "duration", "1s", "The longest wait before the first retry; each wait is a random part of its longest.";
    MAX_DELAY = "maxDelay", "duration", "10s", "No wait is longer.";
    BACKOFF_MULTIPLIER = "backoffMultiplier", "number", "2", "The longest wait grows by this with every retry.";
    RETRYABLE_ERRORS = "retryableErrors", "list of error codes", "[CONNECTION_FAILED, CONNECTION_LOST, SERVER_CRASHED, SERVER_NOT_RUNNING, RATE_LIMIT_EXCEEDED, OVERLOADED]", "Which failures are worth another try. A server's own error is listed by the code that its result shows, such as `EXECUTION_FAILED`, or by its JSON-RPC number. With `TIMEOUT` among them a call that may be repeated can take several times its timeout.";
}

keys! {
    cache at "cache": "Whether results of read-only tools are kept: in `options` and in a server."
    ENABLED = "enabled", "`true` or `false`", "true", "Keep results.";
    MAX_ENTRIES = "maxEntries", "number", "1000", "How many; the least recently used goes first.";
    TTL = "ttl", "duration", "60s", "For how long.";
    UPDATE_AGE_ON_GET = "updateAgeOnGet", "`true` or `false`", "false", "Keep a result for another `ttl` whenever it is read.";
}

keys! {
    validate at "validate": "How values are checked against schemas: in `options`, in a server and in a tool. A single word means both."
    ARGUMENTS = "arguments", "`off`, `warn`, or `enforce`", "enforce", "Arguments, before they are sent.";
    RESULTS = "results", "`off`, `warn`, or `enforce`", "warn", "Results, where the tool says what they look like.";
}

keys! {
    breaker at "servers[].breaker": "When a server that keeps failing is left alone: its calls then fail at once, until one of them may try again."
    ENABLED = "enabled", "`true` or `false`", "true", "Leave it alone at all.";
    FAILURES = "failures", "number", "5", "After so many failed calls within `window`, if they are at least half of all.";
    WINDOW = "window", "duration", "30s", "The time in which failures are counted.";
    PAUSE = "pause", "duration", "5s", "How long it is left alone; doubled with every try that fails, up to eight times.";
}

keys! {
    sandbox at "servers[].sandbox": "What a program may reach. `default` is this map with nothing in it."
    READ = "read", "list of paths", "", "Readable, besides what programs need to run at all. Default: the working directory.";
    WRITE = "write", "list of paths", "", "Readable and writable. Default: the working directory.";
    CACHES = "caches", "`none`, `read`, or `write`", "write", "What it may do with the package caches that `npx` and `uvx` fill.";
    NET = "net", "`none`, `loopback`, or `all`", "all", "Whom it may talk to; `loopback` is a device of its own.";
    ENV = "env", "list of names", "[]", "Variables of tsugi that it receives besides the usual ones; those of the server's `env` come in any case.";
    MEMORY = "memory", "size", "2GiB", "Memory of all its processes together; 0 means no limit.";
    CPU = "cpu", "number", "", "Whole processor cores that it may use.";
    PROCESSES = "processes", "number", "256", "Processes at once; 0 means no limit.";
    ISOLATION = "isolation", "`auto`, `standard`, or `strict`", "auto", "How far it is separated from other processes.";
    REQUIRED = "required", "`true` or `false`", "true", "Refuse to start where the kernel cannot enforce this.";
}

keys! {
    pool at "servers[].instances": "A number of equal programs that share the calls."
    POOL = "pool", "number", "", "How many.";
}

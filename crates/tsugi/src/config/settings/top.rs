//! Keys at the top of a configuration, and options that hold for all servers.

use std::time::Duration;

use tsugi_client::config::{PinPolicy, RetryPolicy, ValidatePolicy};
use tsugi_schema::tool_name::ToolNaming;

use super::{CacheSettings, milliseconds, optional_milliseconds};
use crate::config::key::settings;
use crate::config::key::shape::SchemaShape::*;
use crate::config::key::value::{FLAG, POSITIVE_DURATION, keyword, positive};
use crate::config::resolve::options::timeout;
use crate::config::resolve::policy;
use crate::config::resolve::reader::{SettingsReader, SettingsSection};

settings! {
    /// The file itself.
    root at ""
    keys {
        /// The upstream servers, in the order in which their tools are listed.
        SERVERS = key("servers" | "mcpServers") shape(NamedTables("servers[]"));
        /// Defaults for every server.
        OPTIONS = key("options") shape(Table("options"));
        /// How `tsugi serve` offers the servers to callers.
        GATEWAY = key("gateway") shape(Table("gateway"));
        /// Rules that decide who may do what, beyond the patterns of keys. Absent: none.
        POLICY = key("policy") shape(Table("policy"));
        /// The log that proves who called what. Absent: none is written.
        AUDIT = key("audit") shape(Table("audit"));
        /// Which addresses may be reached that did not come from this file.
        OUTBOUND = key("outbound") shape(Table("outbound"));
        /// Where sign-ins to remote servers are kept, sealed.
        VAULT = key("vault") shape(Table("vault"));
        /// Where secrets come from besides variables and files.
        SECRETS = key("secrets") shape(Table("secrets"));
        /// A file of `NAME=value` lines whose variables `${…}` may use; variables of the process win.
        ENV_FILE = key("envFile") shape(Path);
        /// Ignored; editors use it.
        SCHEMA = key("$schema") shape(Text);
    }
}

settings! {
    /// Defaults for every server.
    options at "options"
    => struct OptionSettings(reader, section) {
        /// Calls of one batch that run at the same time, including `POST /mcp/batch`.
        one max_parallel: usize = key(MAX_PARALLEL: "maxParallel") value(positive()) default("10");
        /// Calls in flight at the same time, over all servers.
        one max_in_flight: usize = key(MAX_IN_FLIGHT: "maxInFlight") value(positive()) default("1024");
        /// Connections over all servers at most. The one unused for longest is closed for a new one, and opened again
        /// when it is called. Absent means no limit.
        maybe max_connections: usize = key(MAX_CONNECTIONS: "maxConnections") value(positive());
        /// How long a call may be silent. If it is absent, the variable `DEFAULT_TIMEOUT` counts.
        one timeout: Duration =
            key(TIMEOUT: "timeout") value(POSITIVE_DURATION) default("30s") read(timeout(reader, section))
            serde(serialize_with = "milliseconds");
        /// How long a call may take in all, progress or not: no `timeout` goes beyond it. If it is absent everywhere,
        /// that is 10 minutes, or a longer `timeout`.
        maybe max_timeout: Duration =
            key(MAX_TIMEOUT: "maxTimeout") value(POSITIVE_DURATION) serde(serialize_with = "optional_milliseconds");
        /// When and how a call is retried.
        one retry: RetryPolicy =
            key(RETRY: "retryPolicy") shape(Table("retryPolicy"))
            read(policy::retry(reader, section.get(&options::RETRY), &RetryPolicy::default()));
        /// Whether results of read-only tools are cached. Changes to the data are not noticed while a result is cached.
        one cache: CacheSettings =
            key(CACHE: "cache") shape(SwitchOrTable("cache")) default("off")
            read(policy::cache(reader, section.get(&options::CACHE), &CacheSettings::default()));
        /// How arguments and results are checked against their schemas.
        one validate: ValidatePolicy =
            key(VALIDATE: "validate") shape(WordsOrTable(policy::MODES, "validate"))
            read(policy::validate(reader, section.get(&options::VALIDATE), ValidatePolicy::default()));
        /// How strictly servers are held to what they offered before, which `tsugi.lock` beside the configuration
        /// records.
        one pin: PinPolicy =
            key(PIN: "pin") shape(WordsOrTable(policy::PIN_MODES, "pin"))
            read(policy::pin(reader, section.get(&options::PIN), PinPolicy::default()));
        /// How long a legacy server's open question keeps other callers waiting: then the server gets an error instead
        /// of the answer. Without other callers it waits for ten minutes.
        one input_patience: Duration =
            key(INPUT_PATIENCE: "inputPatience") value(POSITIVE_DURATION) default("5s")
            serde(serialize_with = "milliseconds");
        /// Log what servers write to standard error, and every message to and from them, with secrets masked.
        one debug: bool = key(DEBUG: "debug") value(FLAG) default("false");
        /// How tools of several servers are named together.
        one naming: ToolNaming = key(NAMING: "naming") value(keyword()) default("prefix");
    }
}

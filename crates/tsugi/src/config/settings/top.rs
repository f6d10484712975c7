//! Keys at the top of a configuration, and options that hold for all servers.

use std::time::Duration;

use tsugi_client::config::{PinPolicy, RetryPolicy, ValidatePolicy};
use tsugi_schema::tool_name::ToolNaming;

use super::{CacheSettings, milliseconds, optional_milliseconds};
use crate::config::key::settings;
use crate::config::key::shape::SchemaShape::*;
use crate::config::key::value::{FLAG, POSITIVE_DURATION, by_hand, keyword, positive};
use crate::config::resolve::options::timeout;
use crate::config::resolve::policy;
use crate::config::resolve::reader::{SettingsReader, SettingsSection};

settings! {
    root at "": "The file itself."
    keys {
        SERVERS: () = "servers" | "mcpServers", by_hand(NamedTables("servers[]")), "", "The upstream servers, in the order in which their tools are listed.";
        OPTIONS: () = "options", by_hand(Table("options")), "", "Defaults for every server.";
        GATEWAY: () = "gateway", by_hand(Table("gateway")), "", "How `tsugi serve` offers the servers to callers.";
        AUDIT: () = "audit", by_hand(Table("audit")), "", "The log that proves who called what. Absent: none is written.";
        OUTBOUND: () = "outbound", by_hand(Table("outbound")), "", "Which addresses may be reached that did not come from this file.";
        ENV_FILE: () = "envFile", by_hand(Path), "", "A file of `NAME=value` lines whose variables `${…}` may use; variables of the process win.";
        SCHEMA: () = "$schema", by_hand(Text), "", "Ignored; editors use it.";
    }
}

settings! {
    options at "options": "Defaults for every server."
    => own OptionSettings(reader, section) {
        one MAX_PARALLEL max_parallel: usize = "maxParallel", positive(), "10", "Calls of one batch that run at the same time, including `POST /mcp/batch`.";
        one MAX_IN_FLIGHT max_in_flight: usize = "maxInFlight", positive(), "1024", "Calls in flight at the same time, over all servers.";
        maybe MAX_CONNECTIONS max_connections: usize = "maxConnections", positive(), "", "Connections over all servers at most. The one unused for longest is closed for a new one, and opened again when it is called. Absent means no limit.";
        #[serde(serialize_with = "milliseconds")]
        custom TIMEOUT timeout: Duration = "timeout", POSITIVE_DURATION, "30s", "How long a call may be silent. If it is absent, the variable `DEFAULT_TIMEOUT` counts.", timeout(reader, section);
        #[serde(serialize_with = "optional_milliseconds")]
        maybe MAX_TIMEOUT max_timeout: Duration = "maxTimeout", POSITIVE_DURATION, "", "How long a call may take in all, progress or not: no `timeout` goes beyond it. If it is absent everywhere, that is 10 minutes, or a longer `timeout`.";
        hand RETRY retry: RetryPolicy = "retryPolicy", by_hand(Table("retryPolicy")), "", "When and how a call is retried.", policy::retry(reader, section.get(&options::RETRY), &RetryPolicy::default());
        hand CACHE cache: CacheSettings = "cache", by_hand(SwitchOrTable("cache")), "off", "Whether results of read-only tools are cached. Changes to the data are not noticed while a result is cached.", policy::cache(reader, section.get(&options::CACHE), &CacheSettings::default());
        hand VALIDATE validate: ValidatePolicy = "validate", by_hand(WordsOrTable(policy::MODES, "validate")), "", "How arguments and results are checked against their schemas.", policy::validate(reader, section.get(&options::VALIDATE), ValidatePolicy::default());
        hand PIN pin: PinPolicy = "pin", by_hand(WordsOrTable(policy::PIN_MODES, "pin")), "", "How strictly servers are held to what they offered before, which `tsugi.lock` beside the configuration records.", policy::pin(reader, section.get(&options::PIN), PinPolicy::default());
        #[serde(serialize_with = "milliseconds")]
        one INPUT_PATIENCE input_patience: Duration = "inputPatience", POSITIVE_DURATION, "5s", "How long a legacy server's open question keeps other callers waiting: then the server gets an error instead of the answer. Without other callers it waits for ten minutes.";
        one DEBUG debug: bool = "debug", FLAG, "false", "Log what servers write to standard error, and every message to and from them, with secrets masked.";
        one NAMING naming: ToolNaming = "naming", keyword(), "prefix", "How tools of several servers are named together.";
    }
}

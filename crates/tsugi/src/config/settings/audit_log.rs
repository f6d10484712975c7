//! Settings of the audit log.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Serialize, Serializer};
use tsugi_audit::writer::{FailurePolicy, SyncMode};

use crate::config::key::settings;
use crate::config::key::shape::SchemaShape::*;
use crate::config::key::value::{AUDIT_SYNC, SIZE, by_hand, keyword};
use crate::config::resolve::audit::{read_fields, read_file, read_path, read_sinks};
use crate::config::resolve::reader::{SettingsReader, SettingsSection};
use crate::config::secret::{MaskedText, Secret};

settings! {
    audit at "audit": "The log that proves who called what. Without this map nothing is written."
    => own AuditSettings(reader, section) {
        hand FILE file: PathBuf = "file", by_hand(Path), "", "Where lines are written; required. Finished files stand beside it, named after their first line.", read_file(reader, section.get(&audit::FILE));
        hand KEY key: Option<PathBuf> = "key", by_hand(Path), "", "The file of the key that signs the log; made if it is not there, with the public half beside it. Default: `file` with the ending `.key`. Better on another disk, since a person who has it can sign another history.", read_path(reader, section.get(&audit::KEY));
        #[serde(serialize_with = "sync_text")]
        one SYNC sync: SyncMode = "sync", AUDIT_SYNC, "200ms", "How much a power loss may cost: a duration, or `always`, where each call waits until its line is on the disk. A crash of tsugi costs nothing in any case.";
        one ARGUMENTS arguments: ArgumentMode = "arguments", keyword(), "none", "What is kept of arguments: `digest` keeps a keyed hash, `fields` what `fields` names. Results are never kept.";
        hand FIELDS fields: BTreeMap<String, Vec<String>> = "fields", by_hand(TextListMap), "{}", "With `arguments: fields`, the JSON pointers that are kept, by `server/tool`.", read_fields(reader, section.get(&audit::FIELDS));
        one ON_FAILURE on_failure: FailurePolicy = "onFailure", keyword(), "refuse", "What happens while the file cannot be written: `refuse` answers calls with `AUDIT_UNAVAILABLE`, `continue` counts the missing lines.";
        one ROTATE_SIZE rotate_size: u64 = "rotateSize", SIZE, "256MiB", "A file this large is finished, and so is one at the end of a day (UTC).";
        hand SINKS sinks: Vec<AuditSinkSettings> = "sinks", by_hand(Tables("audit.sinks[]")), "[]", "Where the same lines are sent too. A slow sink does not delay calls.", read_sinks(reader, section.get(&audit::SINKS));
    }
}

settings! {
    audit_sink at "audit.sinks[]": "One place that gets the lines of the audit log."
    keys {
        TYPE: AuditSinkType = "type", keyword(), "", "What it speaks; required.";
        URL: () = "url", by_hand(Text), "", "Its address; required: `postgres://…`, `tls://host:6514` for syslog, or the base address of an OTLP collector.";
        HEADERS: () = "headers", by_hand(TextMap), "{}", "Headers for OTLP.";
        CA: () = "ca", by_hand(Path), "", "A file of certificates to trust instead of the system's.";
    }
}

/// What is kept of arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ArgumentMode {
    None,
    Digest,
    Fields,
}

/// What a sink speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum AuditSinkType {
    Postgres,
    Syslog,
    Otlp,
}

/// One place that gets the lines too.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AuditSinkSettings {
    #[serde(rename = "type")]
    pub(crate) kind: AuditSinkType,
    pub(crate) url: Secret,
    pub(crate) headers: Vec<(String, MaskedText)>,
    pub(crate) ca: Option<PathBuf>,
}

fn sync_text<S: Serializer>(sync: &SyncMode, serializer: S) -> Result<S::Ok, S::Error> {
    match sync {
        SyncMode::Always => serializer.serialize_str("always"),
        SyncMode::Interval(interval) => serializer.serialize_u128(interval.as_millis()),
    }
}

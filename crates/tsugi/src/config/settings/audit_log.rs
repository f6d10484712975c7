//! Settings of the audit log.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Serialize, Serializer};
use tsugi_audit::writer::{FailurePolicy, SyncMode};

use crate::config::key::settings;
use crate::config::key::shape::SchemaShape::*;
use crate::config::key::value::{AUDIT_SYNC, SIZE, keyword};
use crate::config::resolve::audit::{read_fields, read_file, read_path, read_sinks};
use crate::config::resolve::reader::{SettingsReader, SettingsSection};
use crate::config::secret::{MaskedText, Secret};

settings! {
    /// The log that proves who called what. Without this map nothing is written.
    audit at "audit"
    => struct AuditSettings(reader, section) {
        /// Where lines are written; required. Finished files stand beside it, named after their first line.
        one file: PathBuf = key(FILE: "file") shape(Path) read(read_file(reader, section.get(&audit::FILE)));
        /// The file of the key that signs the log; made if it is not there, with the public half beside it. Default:
        /// `file` with the ending `.key`. Better on another disk, since a person who has it can sign another history.
        one key: Option<PathBuf> = key(KEY: "key") shape(Path) read(read_path(reader, section.get(&audit::KEY)));
        /// How much a power loss may cost: a duration, or `always`, where each call waits until its line is on the
        /// disk. A crash of tsugi costs nothing in any case.
        one sync: SyncMode = key(SYNC: "sync") value(AUDIT_SYNC) default("200ms") serde(serialize_with = "sync_text");
        /// What is kept of arguments: `digest` keeps a keyed hash, `fields` what `fields` names. Results are never
        /// kept.
        one arguments: ArgumentMode = key(ARGUMENTS: "arguments") value(keyword()) default("none");
        /// With `arguments: fields`, the JSON pointers that are kept, by `server/tool`.
        one fields: BTreeMap<String, Vec<String>> =
            key(FIELDS: "fields") shape(TextListMap) default("{}")
            read(read_fields(reader, section.get(&audit::FIELDS)));
        /// What happens while the file cannot be written: `refuse` answers calls with `AUDIT_UNAVAILABLE`, `continue`
        /// counts the missing lines.
        one on_failure: FailurePolicy = key(ON_FAILURE: "onFailure") value(keyword()) default("refuse");
        /// A file this large is finished, and so is one at the end of a day (UTC).
        one rotate_size: u64 = key(ROTATE_SIZE: "rotateSize") value(SIZE) default("256MiB");
        /// Where the same lines are sent too. A slow sink does not delay calls.
        one sinks: Vec<AuditSinkSettings> =
            key(SINKS: "sinks") shape(Tables("audit.sinks[]")) default("[]")
            read(read_sinks(reader, section.get(&audit::SINKS)));
    }
}

settings! {
    /// One place that gets the lines of the audit log.
    audit_sink at "audit.sinks[]"
    keys {
        /// What it speaks; required.
        TYPE: AuditSinkType = key("type") value(keyword());
        /// Its address; required: `postgres://…`, `tls://host:6514` for syslog, or the base address of an OTLP
        /// collector.
        URL = key("url") shape(Text);
        /// Headers for OTLP.
        HEADERS = key("headers") shape(TextMap) default("{}");
        /// A file of certificates to trust instead of the system's.
        CA = key("ca") shape(Path);
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

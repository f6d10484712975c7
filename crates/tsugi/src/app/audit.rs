//! The audit log of a gateway: what its events look like as lines.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tsugi_audit::arguments::ArgumentPolicy;
use tsugi_audit::checkpoint::AuditKey;
use tsugi_audit::filter::{self, LineFilter};
use tsugi_audit::record::{AuditKind, AuditOutcome, AuditRecord, DecisionRecord};
use tsugi_audit::sink::{OtlpSink, PostgresSink, SinkTask, SyslogSink};
use tsugi_audit::writer::{AuditWriter, WriterConfig};
use tsugi_gateway::audit::{AuditEnding, AuditEvent, AuditQuery, AuditTicket, AuditTrail, CallAuditEntry};
use tsugi_protocol::answer::{Call, CallFailure, Caller, Fault, FaultCode, Outcome};
use tsugi_protocol::mcp::Method;

use crate::config::settings::{ArgumentMode, AuditSettings, AuditSinkSettings, AuditSinkType};
use crate::failure::CommandFailure;

/// Failed sign-ins of one address are one line per minute after the first.
const MINUTE: Duration = Duration::from_secs(60);
/// How many addresses are counted apart within a minute.
const ADDRESSES: usize = 10_000;
/// How much of the end of the file the dashboard searches.
const LOOKED_AT: u64 = 4 << 20;

/// Writes what a gateway reports.
pub(crate) struct GatewayAudit {
    writer: Arc<AuditWriter>,
    failures: Arc<Mutex<HashMap<String, u64>>>,
    sinks: Mutex<Vec<SinkTask>>,
}

impl GatewayAudit {
    /// Takes the file, or says why it cannot be used.
    pub(crate) fn open(settings: &AuditSettings) -> Result<Self, CommandFailure> {
        let unusable = |error: &dyn std::fmt::Display| CommandFailure::usage(error.to_string());
        let mut config = WriterConfig::new(&settings.file);
        config.sync = settings.sync;
        config.on_failure = settings.on_failure;
        config.rotate_bytes = settings.rotate_size;
        config.version = format!("tsugi {}", env!("CARGO_PKG_VERSION"));
        config.arguments = match settings.arguments {
            ArgumentMode::None => ArgumentPolicy::None,
            ArgumentMode::Digest => ArgumentPolicy::Digest,
            ArgumentMode::Fields => ArgumentPolicy::Fields(settings.fields.clone().into_iter().collect()),
        };
        let key_file = settings.key.clone().unwrap_or_else(|| settings.file.with_added_extension("key"));
        if let Some(folder) = settings.file.parent() {
            std::fs::create_dir_all(folder).map_err(|error| unusable(&error))?;
        }
        // Before the file is opened: a log without a key would have an unsigned beginning.
        let key = AuditKey::load_or_create(&key_file).map_err(|error| unusable(&error))?;
        let writer = AuditWriter::open(config, key).map_err(|error| unusable(&error))?;
        let sinks = start_sinks(settings, &writer).map_err(|error| unusable(&error))?;
        let audit = Self { writer: Arc::new(writer), failures: Arc::default(), sinks: Mutex::new(sinks) };
        // It holds no strong reference, so that it ends with the log.
        tokio::spawn(report_failures(Arc::downgrade(&audit.writer), audit.failures.clone()));
        Ok(audit)
    }

    /// Writes what the operator changed: `kind` is `key` or `config`.
    pub(crate) fn note_change(&self, kind: AuditKind, action: &str, name: &str) {
        let record =
            AuditRecord { identity: Some("local"), action: Some(action), name: Some(name), ..AuditRecord::new(kind) };
        self.writer.note(&record);
    }

    /// Writes what is counted, closes the file with a checkpoint, and lets the sinks send the rest.
    pub(crate) async fn close(&self) {
        write_failures(&self.writer, &self.failures);
        self.writer.close();
        // After the last checkpoint is in the file, which they send too.
        let sinks = std::mem::take(&mut *self.sinks.lock());
        for sink in sinks {
            sink.stop().await;
        }
    }

    fn count_failure(&self, address: &str) {
        let mut failures = self.failures.lock();
        // A flood from many addresses must not fill the memory.
        let address = if failures.len() < ADDRESSES || failures.contains_key(address) { address } else { "others" };
        let is_first = !failures.contains_key(address);
        *failures.entry(address.to_owned()).or_default() += u64::from(!is_first);
        drop(failures);
        // The first is written at once, so that a crash cannot hide that there was one.
        if is_first {
            write_failure(&self.writer, address, 1);
        }
    }
}

/// A task per sink. Two of one type have positions of their own, by their place in the list.
fn start_sinks(settings: &AuditSettings, writer: &AuditWriter) -> Result<Vec<SinkTask>, String> {
    let start = |(index, sink): (usize, &AuditSinkSettings)| {
        let (url, ca, files) = (sink.url.expose(), sink.ca.as_deref(), writer.files().clone());
        let name = |kind: &str| format!("{kind}-{}", index + 1);
        Ok(match sink.kind {
            AuditSinkType::Postgres => {
                let sink = PostgresSink::new(url, ca, &writer.key().public())?;
                SinkTask::spawn(files, name("postgres"), sink)
            }
            AuditSinkType::Syslog => SinkTask::spawn(files, name("syslog"), SyslogSink::new(url, ca)?),
            AuditSinkType::Otlp => {
                let headers: Vec<(String, String)> =
                    sink.headers.iter().map(|(name, value)| (name.clone(), value.expose())).collect();
                SinkTask::spawn(files, name("otlp"), OtlpSink::new(url, &headers, ca)?)
            }
        })
    };
    settings.sinks.iter().enumerate().map(start).collect()
}

fn write_failure(writer: &AuditWriter, address: &str, count: u64) {
    let record =
        AuditRecord { address: Some(address), count: Some(count), ..AuditRecord::new(AuditKind::SignInFailed) };
    writer.note(&record);
}

fn write_failures(writer: &AuditWriter, failures: &Mutex<HashMap<String, u64>>) {
    let counted = std::mem::take(&mut *failures.lock());
    for (address, count) in counted.into_iter().filter(|(_, count)| *count > 0) {
        write_failure(writer, &address, count);
    }
}

/// Ends with the writer.
async fn report_failures(writer: Weak<AuditWriter>, failures: Arc<Mutex<HashMap<String, u64>>>) {
    loop {
        tokio::time::sleep(MINUTE).await;
        let Some(writer) = writer.upgrade() else { return };
        write_failures(&writer, &failures);
    }
}

impl AuditTrail for GatewayAudit {
    fn begin(&self, call: &Call, server: &str) -> Result<AuditTicket, Fault> {
        let entry = CallEntry::new(self.writer.clone(), call, server);
        let arguments = arguments_of(call);
        let record = AuditRecord {
            // The line is formatted from the raw text, so that arguments are copied only where they are kept.
            arguments: arguments.as_ref().map(|arguments| arguments.as_str()),
            ..entry.record(AuditKind::CallBegun)
        };
        let seq = self.writer.require(&record).map_err(|_| unavailable())?;
        let on_disk = seq.filter(|_| self.writer.waits_for_sync()).map(|seq| {
            let writer = self.writer.clone();
            let on_disk = async move { writer.synced(seq).await.map_err(|_| unavailable()) };
            Box::pin(on_disk) as futures_util::future::BoxFuture<'static, Result<(), Fault>>
        });
        Ok(AuditTicket { entry: Box::new(CallEntry { begun: seq, ..entry }), on_disk })
    }

    fn look(&self, query: &AuditQuery) -> Result<Value, Fault> {
        let status = self.writer.status();
        let filter = LineFilter { kind: query.kind.clone(), identity: query.identity.clone(), ..LineFilter::default() };
        let file = self.writer.files().current();
        let lines = filter::last_lines(file, &filter, query.limit, LOOKED_AT)
            .map_err(|error| Fault::new(FaultCode::InternalError, format!("the audit log cannot be read: {error}")))?;
        Ok(json!({
            "file": file.display().to_string(),
            "seq": status.head.seq,
            "isAvailable": status.is_available,
            "backlog": status.backlog,
            "lost": status.lost,
            "checkpoint": status.last_checkpoint,
            "lines": lines,
        }))
    }

    fn note(&self, event: &AuditEvent<'_>) {
        match *event {
            AuditEvent::CallDenied { call, fault, by } => {
                let server = fault.server.as_deref().unwrap_or_default();
                let entry = CallEntry::new(self.writer.clone(), call, server);
                let record = AuditRecord {
                    decision: Some(DecisionRecord { by: by.as_str(), policies: &[] }),
                    outcome: Some(AuditOutcome::Refused),
                    code: Some(fault.code.as_str()),
                    ..entry.record(AuditKind::Denied)
                };
                self.writer.note(&record);
            }
            AuditEvent::RequestDenied { caller, route, address, code, by } => {
                let identity = identity_of(caller);
                let record = AuditRecord {
                    identity: Some(&identity),
                    action: Some(route),
                    address,
                    decision: Some(DecisionRecord { by: by.as_str(), policies: &[] }),
                    outcome: Some(AuditOutcome::Refused),
                    code: Some(code.as_str()),
                    ..AuditRecord::new(AuditKind::Denied)
                };
                self.writer.note(&record);
            }
            AuditEvent::CredentialRefused { address } => {
                self.count_failure(&counted_address(address.unwrap_or("unknown")))
            }
            AuditEvent::SignedIn { caller, address } => {
                let identity = identity_of(caller);
                let record = AuditRecord {
                    identity: Some(&identity),
                    action: Some("in"),
                    address,
                    ..AuditRecord::new(AuditKind::SignIn)
                };
                self.writer.note(&record);
            }
            AuditEvent::SignedOut { caller } => {
                let identity = identity_of(caller);
                let record = AuditRecord {
                    identity: Some(&identity),
                    action: Some("out"),
                    ..AuditRecord::new(AuditKind::SignIn)
                };
                self.writer.note(&record);
            }
            AuditEvent::ServerOrdered { caller, order, server, is_done } => {
                let identity = identity_of(caller);
                let record = AuditRecord {
                    identity: Some(&identity),
                    action: Some(order),
                    server: Some(server),
                    outcome: Some(if is_done { AuditOutcome::Ok } else { AuditOutcome::Failed }),
                    ..AuditRecord::new(AuditKind::Server)
                };
                self.writer.note(&record);
            }
        }
    }
}

fn identity_of(caller: &Caller) -> String {
    caller.identity().to_string()
}

/// The OAuth client and the tenant of a caller.
fn client_and_tenant(caller: &Caller) -> (Option<String>, Option<String>) {
    let owner = caller.owner();
    let client = owner.client.as_ref().map(|client| client.as_str().to_owned());
    (client, owner.tenant.as_ref().map(|tenant| tenant.as_str().to_owned()))
}

/// An address as failures are counted by: an IPv6 network of 64 bits is one caller's.
fn counted_address(address: &str) -> String {
    match address.parse::<IpAddr>() {
        Ok(IpAddr::V6(address)) => {
            let [a, b, c, d, ..] = address.segments();
            format!("{a:x}:{b:x}:{c:x}:{d:x}::/64")
        }
        _ => address.to_owned(),
    }
}

fn unavailable() -> Fault {
    Fault::new(FaultCode::AuditUnavailable, "the audit log cannot be written, and nothing may happen without it")
        .with_hint("make room on the disk of `audit.file`, or say `audit.onFailure: continue`")
}

fn arguments_of(call: &Call) -> Option<tsugi_protocol::json::RawJson> {
    match call.method {
        Method::ToolsCall | Method::PromptsGet => call.params.get("arguments"),
        _ => None,
    }
}

/// The trace that a call belongs to: the second part of its `traceparent`.
fn trace_id(call: &Call) -> Option<String> {
    let parent = call.meta.rest.get_str("traceparent")?;
    let id = parent.split('-').nth(1)?;
    // The header comes from the caller and may hold anything.
    let is_id = id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then(|| id.to_owned())
}

/// What the last line of a call repeats of its first.
struct CallEntry {
    writer: Arc<AuditWriter>,
    started: Instant,
    identity: String,
    client: Option<String>,
    tenant: Option<String>,
    method: Method,
    server: String,
    name: Option<String>,
    face: &'static str,
    request_id: Option<Arc<str>>,
    trace_id: Option<String>,
    begun: Option<u64>,
}

impl CallEntry {
    fn new(writer: Arc<AuditWriter>, call: &Call, server: &str) -> Self {
        let (client, tenant) = client_and_tenant(&call.caller);
        Self {
            writer,
            started: Instant::now(),
            identity: identity_of(&call.caller),
            client,
            tenant,
            method: call.method.clone(),
            server: server.to_owned(),
            name: call.subject().map(|name| name.into_owned()),
            face: call.options.face,
            request_id: call.options.request_id.clone(),
            trace_id: trace_id(call),
            begun: None,
        }
    }

    fn record(&self, kind: AuditKind) -> AuditRecord<'_> {
        AuditRecord {
            identity: Some(&self.identity),
            client: self.client.as_deref(),
            tenant: self.tenant.as_deref(),
            action: Some(self.method.as_str()),
            server: Some(self.server.as_str()).filter(|server| !server.is_empty()),
            name: self.name.as_deref(),
            face: Some(self.face).filter(|face| !face.is_empty()),
            request_id: self.request_id.as_deref(),
            trace_id: self.trace_id.as_deref(),
            ..AuditRecord::new(kind)
        }
    }
}

impl CallAuditEntry for CallEntry {
    fn end(self: Box<Self>, ending: AuditEnding<'_>) {
        let (outcome, code, bytes) = match ending {
            AuditEnding::Abandoned => (AuditOutcome::Cancelled, None, None),
            AuditEnding::Outcome(Outcome::Complete(result)) => {
                let outcome = if result.is_tool_error() { AuditOutcome::ToolError } else { AuditOutcome::Ok };
                (outcome, None, Some(result.body.bytes().len() as u64))
            }
            AuditEnding::Outcome(Outcome::InputRequired(_)) => (AuditOutcome::InputRequired, None, None),
            AuditEnding::Outcome(Outcome::Failed(CallFailure::Fault(fault))) => {
                (AuditOutcome::Failed, Some(fault.code.as_str().to_owned()), None)
            }
            // The number alone: a server's message may repeat arguments.
            AuditEnding::Outcome(Outcome::Failed(CallFailure::Upstream(error))) => {
                (AuditOutcome::Failed, Some(error.code().to_string()), None)
            }
        };
        let record = AuditRecord {
            begun: self.begun,
            outcome: Some(outcome),
            code: code.as_deref(),
            bytes,
            micros: Some(u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX)),
            ..self.record(AuditKind::CallEnded)
        };
        self.writer.note(&record);
    }
}

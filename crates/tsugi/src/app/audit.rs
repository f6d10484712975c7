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
use tsugi_client::ServerConfig;
use tsugi_gateway::audit::{
    AuditEnding, AuditEvent, AuditQuery, AuditSinkStatus, AuditTicket, AuditTrail, CallAuditEntry, DenialRule,
};
use tsugi_outbound::egress::RefusalObserver;
use tsugi_pins::store::{DriftEffect, PinEventKind};
use tsugi_pins::{PinEvent, PinMode, PinObserver, PinStore};
use tsugi_protocol::answer::{Call, CallFailure, Caller, DecidingRule, Fault, FaultCode, Outcome};
use tsugi_protocol::mcp::Method;
use tsugi_protocol::mcp::version::Era;

use crate::config::settings::{ArgumentMode, AuditSettings, AuditSinkSettings, AuditSinkType};
use crate::failure::CommandFailure;

/// Failed sign-ins of one address are one line per minute after the first.
const MINUTE: Duration = Duration::from_secs(60);
/// How many addresses are counted apart within a minute.
const ADDRESSES: usize = 10_000;
/// How much of the end of the file the dashboard searches.
const LOOKED_AT: u64 = 4 << 20;

/// Refusals that are counted: any caller can cause them, and a line for each would fill the disk.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct CountedRefusal {
    kind: AuditKind,
    /// What a challenge calls the reason, or the rule of the outbound guard.
    code: Option<&'static str>,
    /// The address that it came from, or the host and port that a program may not reach.
    address: String,
    /// The server whose program it was.
    server: Option<String>,
}

/// Writes what a gateway reports.
pub(crate) struct GatewayAudit {
    writer: Arc<AuditWriter>,
    failures: Arc<Mutex<HashMap<CountedRefusal, u64>>>,
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

    /// Writes what the pins report, too.
    pub(crate) fn follow_pins(self: &Arc<Self>, pins: Option<&Arc<PinStore>>) {
        if let Some(pins) = pins {
            pins.set_observer(self.clone());
        }
    }

    /// Writes which hosts the programs of these servers tried to reach although their sandboxes do not list them.
    pub(crate) fn follow_egress(self: &Arc<Self>, servers: &mut [ServerConfig]) {
        let audit = Arc::downgrade(self);
        let observer: RefusalObserver = Arc::new(move |refused| {
            if let Some(audit) = audit.upgrade() {
                let (address, server) = (format!("{}:{}", refused.host, refused.port), Some(refused.server.clone()));
                let code = Some(refused.refusal.rule());
                audit.count(CountedRefusal { kind: AuditKind::Denied, code, address, server });
            }
        });
        for access in servers.iter_mut().filter_map(|server| server.job.0.egress.as_mut()) {
            access.observer = Some(observer.clone());
        }
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

    fn count_failure(&self, kind: AuditKind, code: Option<&'static str>, address: Option<&str>) {
        let address = counted_address(address.unwrap_or("unknown"));
        self.count(CountedRefusal { kind, code, address, server: None });
    }

    fn count(&self, mut refusal: CountedRefusal) {
        let mut failures = self.failures.lock();
        // A flood from many addresses must not fill the memory.
        if failures.len() >= ADDRESSES && !failures.contains_key(&refusal) {
            refusal.address = "others".to_owned();
        }
        let is_first = !failures.contains_key(&refusal);
        *failures.entry(refusal.clone()).or_default() += u64::from(!is_first);
        drop(failures);
        // The first is written at once, so that a crash cannot hide that there was one.
        if is_first {
            write_failure(&self.writer, &refusal, 1);
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

fn write_failure(writer: &AuditWriter, refusal: &CountedRefusal, count: u64) {
    let (action, rule) = match refusal.kind {
        AuditKind::Token => (Some("refused"), Some(DenialRule::Credential)),
        AuditKind::Denied => (Some("connect"), Some(DenialRule::Egress)),
        _ => (None, None),
    };
    let record = AuditRecord {
        action,
        address: Some(&refusal.address),
        code: refusal.code,
        count: Some(count),
        decision: rule.map(decided_by),
        server: refusal.server.as_deref(),
        ..AuditRecord::new(refusal.kind)
    };
    writer.note(&record);
}

fn write_failures(writer: &AuditWriter, failures: &Mutex<HashMap<CountedRefusal, u64>>) {
    let counted = std::mem::take(&mut *failures.lock());
    for (refusal, count) in counted.into_iter().filter(|(_, count)| *count > 0) {
        write_failure(writer, &refusal, count);
    }
}

fn decided_by(rule: DenialRule) -> DecisionRecord<'static> {
    DecisionRecord { by: rule.as_str(), policies: &[] }
}

/// Ends with the writer.
async fn report_failures(writer: Weak<AuditWriter>, failures: Arc<Mutex<HashMap<CountedRefusal, u64>>>) {
    loop {
        tokio::time::sleep(MINUTE).await;
        let Some(writer) = writer.upgrade() else { return };
        write_failures(&writer, &failures);
    }
}

/// What a server offers differently than was agreed, and what a person decided about it.
impl PinObserver for GatewayAudit {
    fn observe(&self, event: &PinEvent) {
        let action = match event.kind {
            PinEventKind::Drift => event.change.as_str(),
            PinEventKind::Lint => "lint",
            PinEventKind::Accepted => "accepted",
        };
        let name = format!("{}:{}", event.key.kind, event.key.name);
        let record = AuditRecord {
            identity: event.by.as_deref(),
            action: Some(action),
            server: Some(&event.key.server),
            name: Some(&name),
            decision: event.mode.is_some().then_some(decided_by(DenialRule::Pin)),
            outcome: Some(match event.effect {
                DriftEffect::Passed => AuditOutcome::Ok,
                DriftEffect::Refused | DriftEffect::Hidden => AuditOutcome::Refused,
            }),
            code: event.mode.map(PinMode::as_str),
            ..AuditRecord::new(AuditKind::Pin)
        };
        self.writer.note(&record);
    }
}

impl AuditTrail for GatewayAudit {
    fn sinks(&self) -> Vec<AuditSinkStatus> {
        let status = self.writer.status();
        let file = AuditSinkStatus {
            name: "file".to_owned(),
            is_up: status.is_available,
            waiting: status.backlog as u64,
            lost: status.lost,
        };
        let sinks = self.sinks.lock();
        let others = sinks.iter().map(|sink| sink.progress()).map(|sink| AuditSinkStatus {
            name: sink.name.clone(),
            is_up: sink.is_up(),
            waiting: status.head.seq.saturating_sub(sink.position()),
            lost: sink.lost(),
        });
        std::iter::once(file).chain(others).collect()
    }

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
                let policies = policies(fault.decided_by.as_deref());
                let record = AuditRecord {
                    decision: Some(DecisionRecord { policies: &policies, ..decided_by(by) }),
                    outcome: Some(AuditOutcome::Refused),
                    code: Some(fault.code.as_str()),
                    ..entry.record(AuditKind::Denied)
                };
                self.writer.note(&record);
            }
            AuditEvent::RequestDenied { caller, route, address, code, by, policy } => {
                let policies = policies(policy);
                let identity = identity_of(caller);
                let record = AuditRecord {
                    identity: Some(&identity),
                    action: Some(route),
                    address,
                    decision: Some(DecisionRecord { policies: &policies, ..decided_by(by) }),
                    outcome: Some(AuditOutcome::Refused),
                    code: Some(code.as_str()),
                    ..AuditRecord::new(AuditKind::Denied)
                };
                self.writer.note(&record);
            }
            AuditEvent::CredentialRefused { address } => self.count_failure(AuditKind::SignInFailed, None, address),
            AuditEvent::TokenRefused { address, error } => {
                self.count_failure(AuditKind::Token, Some(error.code()), address);
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

/// The rule of a policy that decided, by name.
fn policies(rule: Option<&DecidingRule>) -> Vec<String> {
    rule.iter().map(|rule| rule.name.to_string()).collect()
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
    era: Option<Era>,
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
            era: call.options.era,
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
            era: self.era.map(|era| match era {
                Era::Modern => "modern",
                Era::Legacy => "legacy",
            }),
            request_id: self.request_id.as_deref(),
            trace_id: self.trace_id.as_deref(),
            ..AuditRecord::new(kind)
        }
    }
}

impl CallAuditEntry for CallEntry {
    fn end(self: Box<Self>, ending: AuditEnding<'_>) {
        // A rule may refuse a call after its first line, as a pin does.
        let mut decision = None;
        let (outcome, code, bytes) = match ending {
            AuditEnding::Abandoned => (AuditOutcome::Cancelled, None, None),
            AuditEnding::Outcome(Outcome::Complete(result)) => {
                let outcome = if result.is_tool_error() { AuditOutcome::ToolError } else { AuditOutcome::Ok };
                (outcome, None, Some(result.body.bytes().len() as u64))
            }
            AuditEnding::Outcome(Outcome::InputRequired(_)) => (AuditOutcome::InputRequired, None, None),
            AuditEnding::Outcome(Outcome::Failed(CallFailure::Fault(fault))) => {
                decision = DenialRule::of_fault(fault).map(decided_by);
                let outcome = if decision.is_some() { AuditOutcome::Refused } else { AuditOutcome::Failed };
                (outcome, Some(fault.code.as_str().to_owned()), None)
            }
            // The number alone: a server's message may repeat arguments.
            AuditEnding::Outcome(Outcome::Failed(CallFailure::Upstream(error))) => {
                (AuditOutcome::Failed, Some(error.code().to_string()), None)
            }
        };
        let record = AuditRecord {
            begun: self.begun,
            decision,
            outcome: Some(outcome),
            code: code.as_deref(),
            bytes,
            micros: Some(u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX)),
            ..self.record(AuditKind::CallEnded)
        };
        self.writer.note(&record);
    }
}

#[cfg(test)]
mod tests {
    use tsugi_audit::writer::{FailurePolicy, SyncMode};
    use tsugi_auth::challenge::ChallengeError;
    use tsugi_client::ConnectTarget;
    use tsugi_outbound::OutboundRefusal;
    use tsugi_outbound::egress::EgressRefusal;
    use tsugi_pins::compare::DriftChange;
    use tsugi_pins::{PinKey, PinKind};
    use tsugi_process::{EgressAccess, JobCommand};

    use super::*;

    fn settings(folder: &std::path::Path) -> AuditSettings {
        AuditSettings {
            file: folder.join("audit.jsonl"),
            key: None,
            sync: SyncMode::Interval(Duration::from_millis(200)),
            arguments: ArgumentMode::None,
            fields: Default::default(),
            on_failure: FailurePolicy::Refuse,
            rotate_size: 1 << 20,
            sinks: Vec::new(),
        }
    }

    /// The lines of one kind, after the log was closed.
    async fn lines_of(audit: GatewayAudit, folder: &std::path::Path, kind: &str) -> Vec<Value> {
        audit.close().await;
        let text = std::fs::read_to_string(folder.join("audit.jsonl")).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|line| line["kind"] == kind).collect()
    }

    #[tokio::test]
    async fn what_differs_from_the_pins_has_a_line_with_the_rule_that_decided() {
        let folder = tempfile::tempdir().unwrap();
        let audit = GatewayAudit::open(&settings(folder.path())).unwrap();
        let drift = PinEvent {
            kind: PinEventKind::Drift,
            key: PinKey::new("files", PinKind::Tool, "read"),
            change: DriftChange::Changed,
            old: None,
            new: None,
            findings: Vec::new(),
            mode: Some(PinMode::Enforce),
            effect: DriftEffect::Refused,
            claimed_from: None,
            by: None,
        };
        audit.observe(&drift);
        let by = Some("local".to_owned());
        audit.observe(&PinEvent { kind: PinEventKind::Accepted, mode: None, effect: DriftEffect::Passed, by, ..drift });
        let lines = lines_of(audit, folder.path(), "pin").await;
        let fields = |line: &Value| {
            ["action", "server", "name", "outcome", "code", "identity"]
                .map(|name| line[name].as_str().unwrap_or("-").to_owned())
        };
        assert_eq!(fields(&lines[0]), ["changed", "files", "tool:read", "refused", "enforce", "-"]);
        assert_eq!(lines[0]["decision"]["by"], "pin");
        assert_eq!(fields(&lines[1]), ["accepted", "files", "tool:read", "ok", "-", "local"]);
    }

    #[tokio::test]
    async fn a_host_that_a_program_may_not_reach_has_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let audit = Arc::new(GatewayAudit::open(&settings(folder.path())).unwrap());
        let mut server = ServerConfig::new("files", ConnectTarget::Stdio(Box::new(JobCommand::new("files"))));
        server.job.0.egress = Some(EgressAccess::default());
        let mut servers = [server];
        audit.follow_egress(&mut servers);
        let observer = servers[0].job.0.egress.as_ref().and_then(|access| access.observer.clone()).unwrap();
        let refused = EgressRefusal {
            server: "files".to_owned(),
            host: "evil.example".to_owned(),
            port: 443,
            refusal: OutboundRefusal::NotListed { host: "evil.example".to_owned(), port: 443 },
        };
        (0..100).for_each(|_| observer(&refused));
        drop(observer);
        let audit = Arc::into_inner(audit).unwrap();
        let lines = lines_of(audit, folder.path(), "denied").await;
        let fields = |line: &Value| (line["server"].clone(), line["address"].clone(), line["count"].clone());
        let expected = |count: u64| (json!("files"), json!("evil.example:443"), json!(count));
        assert_eq!(lines.iter().map(fields).collect::<Vec<_>>(), [expected(1), expected(99)]);
        assert_eq!(lines[0]["decision"]["by"], "egress");
    }

    #[tokio::test]
    async fn a_flood_of_refused_tokens_is_two_lines() {
        let folder = tempfile::tempdir().unwrap();
        let audit = GatewayAudit::open(&settings(folder.path())).unwrap();
        for _ in 0..1000 {
            audit.note(&AuditEvent::TokenRefused { address: Some("10.0.0.1"), error: ChallengeError::InvalidToken });
        }
        audit.note(&AuditEvent::TokenRefused { address: Some("10.0.0.1"), error: ChallengeError::InsufficientScope });
        let sinks = audit.sinks();
        assert_eq!((sinks.len(), sinks[0].name.as_str(), sinks[0].lost, sinks[0].is_up), (1, "file", 0, true));
        let lines = lines_of(audit, folder.path(), "token").await;
        let mut seen: Vec<_> = lines.iter().map(|line| (line["code"].clone(), line["count"].clone())).collect();
        seen.sort_by_key(|(code, count)| (code.to_string(), count.as_u64()));
        let expected = [("insufficient_scope", 1), ("invalid_token", 1), ("invalid_token", 999)];
        assert_eq!(seen, expected.map(|(code, count)| (json!(code), json!(count))));
    }
}

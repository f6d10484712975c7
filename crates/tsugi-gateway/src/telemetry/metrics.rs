//! Numbers in the Prometheus text format, with labels that callers cannot multiply.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use serde_json::Value;
use tsugi_protocol::answer::{Call, Fault, Outcome, Reply, ReplyEvent, ReplySource};

use crate::audit::{self, AuditTrail, DenialRule};
use crate::dashboard::record::{CallStart, subject_of};
use crate::dashboard::recorder::{CallRecorder, ServerSlot};

/// How many tools are counted by name; calls of any more are counted under `other`.
const TOOLS: usize = 2000;
/// The upper bounds of the latency buckets, in seconds.
const BUCKETS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0, 120.0];

/// All numbers of a gateway.
pub struct GatewayMetrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    sent: Counter,
    calls: Family<CallLabels, Counter>,
    refused: Family<RefusedLabels, Counter>,
    seconds: Family<ToolLabels, Histogram, fn() -> Histogram>,
    in_flight: Family<ServerLabels, Gauge>,
    sessions: Gauge,
    up: Family<ServerLabels, Gauge>,
    restarts: Family<ServerLabels, Counter>,
    cache: Family<CacheLabels, Counter>,
    tls_handshakes: Family<OutcomeLabels, Counter>,
    tls_reloads: Family<OutcomeLabels, Counter>,
    bytes: Family<ToolLabels, Counter>,
    meters: Mutex<HashMap<(String, String), Arc<ToolMeter>>>,
    /// Held while the numbers of the servers are filled in and written out.
    writing: Mutex<()>,
    recorder: Arc<CallRecorder>,
    shadow_denied: Family<PolicyLabels, Counter>,
    audit_up: Family<SinkLabels, Gauge>,
    audit_waiting: Family<SinkLabels, Gauge>,
    audit_lost: Family<SinkLabels, Counter>,
    /// Set once, before the first call, where there is an audit log.
    audit: OnceLock<Arc<dyn AuditTrail>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    route: &'static str,
    status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    server: String,
    tool: String,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RefusedLabels {
    code: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ToolLabels {
    server: String,
    tool: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ServerLabels {
    server: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PolicyLabels {
    policy: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SinkLabels {
    sink: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CacheLabels {
    server: String,
    outcome: &'static str,
}

impl Default for GatewayMetrics {
    fn default() -> Self {
        let mut metrics = Self {
            registry: Registry::default(),
            requests: Family::default(),
            sent: Counter::default(),
            calls: Family::default(),
            refused: Family::default(),
            seconds: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            in_flight: Family::default(),
            sessions: Gauge::default(),
            up: Family::default(),
            restarts: Family::default(),
            cache: Family::default(),
            tls_handshakes: Family::default(),
            tls_reloads: Family::default(),
            bytes: Family::default(),
            meters: Mutex::default(),
            writing: Mutex::default(),
            recorder: Arc::default(),
            shadow_denied: Family::default(),
            audit_up: Family::default(),
            audit_waiting: Family::default(),
            audit_lost: Family::default(),
            audit: OnceLock::new(),
        };
        metrics.register();
        metrics
    }
}

impl GatewayMetrics {
    fn register(&mut self) {
        let registry = self.registry.sub_registry_with_prefix("tsugi");
        registry.register("http_requests", "Requests by route and status", self.requests.clone());
        registry.register("http_response_bytes", "Bytes of whole responses", self.sent.clone());
        registry.register("calls", "Calls by server, tool and outcome", self.calls.clone());
        registry.register("calls_refused", "Calls that no server was asked about, by reason", self.refused.clone());
        registry.register("call_duration_seconds", "How long calls took", self.seconds.clone());
        registry.register("call_result_bytes", "Bytes of results by server and tool", self.bytes.clone());
        registry.register("calls_in_flight", "Calls that are running", self.in_flight.clone());
        registry.register("legacy_sessions", "Open legacy sessions", self.sessions.clone());
        registry.register("server_up", "1 when a server is connected", self.up.clone());
        registry.register("server_restarts", "How often a server was started again", self.restarts.clone());
        let cache = "Reads that were answered from the cache (hit), by another's answer (shared), or not (miss)";
        registry.register("cache_reads", cache, self.cache.clone());
        registry.register("tls_handshakes", "TLS handshakes by outcome", self.tls_handshakes.clone());
        registry.register("tls_reloads", "Changed certificates, put to use or not", self.tls_reloads.clone());
        let shadow = "Calls that a policy in shadow mode would have refused, by the rule that decided";
        registry.register("policy_shadow_denied", shadow, self.shadow_denied.clone());
        let up = "1 when the file of the audit log, or a sink, takes lines";
        registry.register("audit_up", up, self.audit_up.clone());
        let waiting = "Lines of the audit log that the file or a sink does not have yet";
        registry.register("audit_waiting_lines", waiting, self.audit_waiting.clone());
        let lost = "Lines of the audit log that the file or a sink will never have";
        registry.register("audit_lost_lines", lost, self.audit_lost.clone());
    }

    /// Counts a call that a policy would have refused. Labels are names of rules, which callers cannot make.
    pub(crate) fn shadow_denied(&self, policy: &str) {
        self.shadow_denied.get_or_create(&PolicyLabels { policy: policy.to_owned() }).inc();
    }

    pub(crate) fn tls_handshake(&self, outcome: &'static str) {
        self.tls_handshakes.get_or_create(&OutcomeLabels { outcome }).inc();
    }

    pub(crate) fn tls_reload(&self, outcome: &'static str) {
        self.tls_reloads.get_or_create(&OutcomeLabels { outcome }).inc();
    }

    /// Writes calls and refusals to this log from now on. Only the first one counts.
    pub(crate) fn set_audit(&self, trail: Arc<dyn AuditTrail>) {
        let _ = self.audit.set(trail);
    }

    pub(crate) fn audit(&self) -> Option<&Arc<dyn AuditTrail>> {
        self.audit.get()
    }

    /// Counts one request.
    pub(crate) fn request(&self, route: &'static str, status: u16, bytes: u64) {
        self.requests.get_or_create(&RequestLabels { route, status }).inc();
        self.sent.inc_by(bytes);
    }

    /// Counts a call that no server was asked about: no server has what it names, or its caller may not use that.
    pub(crate) fn refuse(&self, call: &Call, fault: &Fault) {
        self.refused.get_or_create(&RefusedLabels { code: fault.code.as_str() }).inc();
        if let Some(rule) = DenialRule::of_fault(fault) {
            let (identity, method) = (call.caller.identity(), call.method.as_str());
            let (subject, rule) = (subject_of(call), rule.as_str());
            let policy = fault.decided_by.as_ref().map(|rule| &*rule.name);
            tracing::info!(target: "tsugi_access", rule, policy, %identity, method, subject = ?subject, reason = fault.message, "refused a call");
        }
        audit::note_denial(self.audit(), call, fault);
        let server: Arc<str> = fault.server.as_deref().unwrap_or_default().into();
        let place = self.recorder.place(&"".into());
        let mut started = CallStart::now(server, subject_of(call), call);
        self.recorder.describe(&mut started, call);
        self.recorder.record(place, started, Some(&Outcome::fault(fault.clone())));
    }

    pub(crate) fn recorder(&self) -> &Arc<CallRecorder> {
        &self.recorder
    }

    /// Where the calls of one tool are counted.
    pub fn meter(&self, server: &str, tool: &str) -> Arc<ToolMeter> {
        let mut meters = self.meters.lock();
        // A tool that has a line keeps it, even when the table is full.
        let is_known = meters.contains_key(&(server.to_owned(), tool.to_owned()));
        let tool = if is_known || meters.len() < TOOLS { tool } else { "other" };
        let key = (server.to_owned(), tool.to_owned());
        meters.entry(key).or_insert_with(|| Arc::new(self.make_meter(server, tool))).clone()
    }

    /// Where the calls of a server that are not about a tool are counted.
    pub fn other(&self, server: &str) -> Arc<ToolMeter> {
        let key = (server.to_owned(), String::new());
        self.meters.lock().entry(key).or_insert_with(|| Arc::new(self.plain_meter(server, None, None))).clone()
    }

    fn plain_meter(&self, server: &str, tool: Option<Arc<str>>, counts: Option<OutcomeCounters>) -> ToolMeter {
        let name: Arc<str> = server.into();
        let in_flight = self.in_flight.get_or_create(&ServerLabels { server: server.to_owned() }).clone();
        let place = self.recorder.place(&name);
        ToolMeter { server: name, tool, place, recorder: self.recorder.clone(), in_flight, counts }
    }

    fn make_meter(&self, server: &str, tool: &str) -> ToolMeter {
        let counter = |outcome| {
            let labels = CallLabels { server: server.to_owned(), tool: tool.to_owned(), outcome };
            self.calls.get_or_create(&labels).clone()
        };
        let labels = ToolLabels { server: server.to_owned(), tool: tool.to_owned() };
        let counts = OutcomeCounters {
            ok: counter("ok"),
            tool_error: counter("tool_error"),
            input_required: counter("input_required"),
            failed: counter("failed"),
            cancelled: counter("cancelled"),
            seconds: self.seconds.get_or_create(&labels).clone(),
            bytes: self.bytes.get_or_create(&labels).clone(),
        };
        self.plain_meter(server, Some(tool.into()), Some(counts))
    }

    /// The numbers as text. What is only known when asked is given: open sessions, and the servers as control
    /// shows them.
    pub(crate) fn text(&self, sessions: usize, servers: &[Value]) -> String {
        // Two scrapes at once would clear each other's gauges.
        let _writing = self.writing.lock();
        self.sessions.set(sessions as i64);
        self.fill(servers);
        self.fill_audit();
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

impl GatewayMetrics {
    /// What servers themselves count. It is cleared each time, so that servers that are gone are not reported.
    fn fill(&self, servers: &[Value]) {
        // Families keep every label set for ever otherwise.
        self.up.clear();
        self.restarts.clear();
        self.cache.clear();
        for server in servers {
            let labels = ServerLabels { server: server["name"].as_str().unwrap_or_default().to_owned() };
            self.up.get_or_create(&labels).set(i64::from(server["state"] == "connected"));
            self.restarts.get_or_create(&labels).inc_by(server["restarts"].as_u64().unwrap_or_default());
            self.fill_cache(&labels.server, &server["cache"]);
        }
    }

    fn fill_audit(&self) {
        self.audit_up.clear();
        self.audit_waiting.clear();
        self.audit_lost.clear();
        for sink in self.audit().map(|trail| trail.sinks()).unwrap_or_default() {
            let labels = SinkLabels { sink: sink.name };
            self.audit_up.get_or_create(&labels).set(i64::from(sink.is_up));
            self.audit_waiting.get_or_create(&labels).set(i64::try_from(sink.waiting).unwrap_or(i64::MAX));
            self.audit_lost.get_or_create(&labels).inc_by(sink.lost);
        }
    }

    fn fill_cache(&self, server: &str, counts: &Value) {
        for (outcome, key) in [("hit", "hits"), ("shared", "shared"), ("miss", "misses")] {
            let labels = CacheLabels { server: server.to_owned(), outcome };
            self.cache.get_or_create(&labels).inc_by(counts[key].as_u64().unwrap_or_default());
        }
    }
}

/// Counts the calls of one tool, or those of a server that name no tool.
pub struct ToolMeter {
    server: Arc<str>,
    /// Nothing when every call is about something else.
    tool: Option<Arc<str>>,
    place: ServerSlot,
    recorder: Arc<CallRecorder>,
    in_flight: Gauge,
    counts: Option<OutcomeCounters>,
}

struct OutcomeCounters {
    ok: Counter,
    tool_error: Counter,
    input_required: Counter,
    failed: Counter,
    cancelled: Counter,
    seconds: Histogram,
    bytes: Counter,
}

impl OutcomeCounters {
    fn count(&self, outcome: Option<&Outcome>, took: Duration) {
        match outcome {
            Some(Outcome::Complete(complete)) => {
                self.bytes.inc_by(complete.body.bytes().len() as u64);
                // A result with `isError` completes the protocol's exchange, but the tool failed.
                if complete.is_tool_error() { self.tool_error.inc() } else { self.ok.inc() }
            }
            Some(Outcome::InputRequired(_)) => self.input_required.inc(),
            Some(Outcome::Failed(_)) => self.failed.inc(),
            None => self.cancelled.inc(),
        };
        // A call that was given up says nothing about how long the tool takes.
        if outcome.is_some() {
            self.seconds.observe(took.as_secs_f64());
        }
    }
}

/// A call that is counted, before it is made.
pub struct MeteredCall {
    meter: Arc<ToolMeter>,
    started: CallStart,
}

impl ToolMeter {
    /// A call begins. While a dashboard is open, the call records its steps.
    pub fn begin(self: Arc<Self>, call: &mut Call) -> MeteredCall {
        let subject = self.tool.clone().unwrap_or_else(|| subject_of(call));
        let mut started = CallStart::now(self.server.clone(), subject, call);
        self.recorder.describe(&mut started, call);
        // Recording costs every call something, so it is off while no page is open.
        if self.recorder.is_watched() {
            call.options.timeline = Some(started.follow());
        }
        MeteredCall { meter: self, started }
    }

    /// How many calls have succeeded.
    pub(crate) fn successes(&self) -> u64 {
        self.counts.as_ref().map_or(0, |counts| counts.ok.get())
    }

    /// Counts a call that ended; `None` when its caller went away.
    fn count(&self, started: CallStart, outcome: Option<&Outcome>) {
        let took = self.recorder.record(self.place, started, outcome);
        if let Some(counts) = &self.counts {
            counts.count(outcome, took);
        }
    }
}

impl MeteredCall {
    /// The same reply, counted.
    pub fn measure(self, reply: Reply) -> Reply {
        match reply.into_ready() {
            // A reply that is ready was never in flight, so the gauge stays as it is.
            Ok(outcome) => {
                self.meter.count(self.started, Some(&outcome));
                Reply::ready(outcome)
            }
            Err(reply) => {
                self.meter.in_flight.inc();
                Reply::from_source(MeteredReply { reply, meter: self.meter, started: Some(self.started) })
            }
        }
    }
}

struct MeteredReply {
    reply: Reply,
    meter: Arc<ToolMeter>,
    /// Nothing once the call has been counted.
    started: Option<CallStart>,
}

impl ReplySource for MeteredReply {
    fn poll_event(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<ReplyEvent> {
        let event = std::task::ready!(self.reply.poll_event(context));
        if let ReplyEvent::Done(outcome) = &event
            && let Some(started) = self.started.take()
        {
            self.meter.count(started, Some(outcome));
        }
        Poll::Ready(event)
    }
}

impl Drop for MeteredReply {
    fn drop(&mut self) {
        // In `drop`, so that it holds for calls that are given up, too.
        self.meter.in_flight.dec();
        if let Some(started) = self.started.take() {
            self.meter.count(started, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nothing_is_told_of_a_server_that_is_gone_and_what_counts_upwards_is_a_counter() {
        let metrics = GatewayMetrics::default();
        let server = |name: &str| json!({"name": name, "state": "connected", "restarts": 2, "cache": {"hits": 3, "shared": 0, "misses": 1}});
        assert!(metrics.text(0, &[server("one"), server("two")]).contains(r#"tsugi_server_up{server="two"} 1"#));
        let text = metrics.text(0, &[server("one")]);
        assert!(!text.contains("two"), "{text}");
        for line in [
            "# TYPE tsugi_server_restarts counter",
            r#"tsugi_server_restarts_total{server="one"} 2"#,
            "# TYPE tsugi_cache_reads counter",
            r#"tsugi_cache_reads_total{server="one",outcome="hit"} 3"#,
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
    }
}

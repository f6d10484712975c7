//! How a call finds its connection, waits for one, or fails with the reason why there is none.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tsugi_protocol::answer::{Answer, Call, CallStage, Fault, FaultCode, FaultReason, Outcome, Reply};
use tsugi_protocol::era::session;
use tsugi_protocol::mcp::Method;

use super::connection_limit::UsageGuard;
use super::subscription::SubscribedUris;
use super::{Instance, Server, listen, roots};
use crate::connection::ServerConnection;
use crate::connection::state::ConnectionState;

/// A connection over which calls can be made.
pub(crate) struct LiveConnection {
    pub(super) connection: ServerConnection,
    pub(super) taken: SubscribedUris,
}

impl LiveConnection {
    fn answer(&self, call: Call) -> Reply {
        if let Some(timeline) = &call.options.timeline {
            timeline.begin("upstream", Instant::now());
        }
        match call.method {
            // Remembered, since several callers may subscribe to the same resource.
            Method::ResourcesSubscribe => self.taken.subscribe(&self.connection, call),
            _ => self.connection.answer(call),
        }
    }
}

impl Instance {
    /// Answers a call over the connection, and connects first when there is none.
    pub(crate) fn answer_via_connection(self: &Arc<Self>, call: Call) -> Reply {
        // Taken before the connection is looked at: from here on it is not closed for another server.
        let usage = self.usage.is_some().then(|| UsageGuard::of(self));
        let reply = match &*self.live.load() {
            Some(live) if !live.connection.is_ending() => live.answer(call),
            _ => self.answer_once_connected(call),
        };
        match usage {
            Some(usage) => usage.hold_during(reply),
            None => reply,
        }
    }

    fn answer_once_connected(self: &Arc<Self>, call: Call) -> Reply {
        let instance = self.clone();
        Reply::from_pending_reply(async move {
            let (timeline, began) = (call.options.timeline.clone(), Instant::now());
            let connected = tokio::time::timeout(instance.wait_limit(&call), instance.connected()).await;
            if let Some(timeline) = timeline {
                timeline.add("start", began, Instant::now(), Some("waits for the connection".to_owned()));
            }
            match connected {
                Ok(Ok(live)) => live.answer(call),
                Ok(Err(fault)) => Reply::fault(fault),
                Err(_) => Reply::fault(instance.late()),
            }
        })
    }

    /// Why a call fails at once: there is no connection, and waiting does not help. `seen` is how many attempts there
    /// were when the call arrived.
    pub(super) fn unavailable(&self, seen: u64) -> Option<Fault> {
        if self.is_let_go() {
            return Some(self.not_running("the server was removed", None).retryable(false));
        }
        if self.layers.is_held.load(Ordering::Relaxed) {
            let fault = self.not_running("the server was stopped by order", None).retryable(false);
            return Some(fault.with_hint("start or restart it"));
        }
        let status = self.status.get();
        let why = match status.state {
            ConnectionState::Failed | ConnectionState::Reconnecting if self.may_wake(seen) => return None,
            ConnectionState::Failed => "the server is not running",
            ConnectionState::Reconnecting if status.fault.as_ref().is_some_and(cannot_start) => {
                "the server is not running"
            }
            // An idle stop lets the call wait: it starts the server again right after.
            ConnectionState::Draining if !self.is_resting.load(Ordering::Relaxed) => "the server is being stopped",
            _ => return None,
        };
        // Callers act on a missing sign-in in another way than on a server that is down.
        if let Some(fault) = status.fault.as_ref().filter(|fault| fault.code == FaultCode::AuthRequired) {
            return Some(fault.clone().on_server(&self.context.server));
        }
        let mut fault = self.not_running(why, status.fault);
        match *self.wake_at.lock() {
            Some(wake_at) => {
                let wait = wake_at.saturating_duration_since(tokio::time::Instant::now());
                fault.retry_after_ms = Some(wait.as_millis().max(1) as u64);
            }
            // It is not tried again by itself, and no call may wake it.
            None if status.state == ConnectionState::Failed => fault.retryable = false,
            None => {}
        }
        Some(fault)
    }

    pub(super) fn late(&self) -> Fault {
        if let Some(fault) = self.no_slot_fault() {
            return fault;
        }
        let status = self.status.get();
        let late = self.not_running(&format!("the server is still {}", status.state), status.fault);
        late.with_reason(FaultReason::StillStarting)
    }

    pub(super) fn not_running(&self, why: &str, cause: Option<Fault>) -> Fault {
        let fault = self.context.fault(FaultCode::ServerNotRunning, why);
        let Some(cause) = cause else { return fault };
        let message = format!("{why}: {}", cause.message);
        let (hint, process, stage) = (cause.hint.clone(), cause.process.clone(), cause.stage);
        let diagnosis = cause.diagnosis.clone();
        let mut fault = Fault { message, hint, process, stage, diagnosis, ..fault };
        // The caller learns the cause as if it were its own, with where it came from inside.
        fault.retryable = cause.retryable;
        fault.because(cause)
    }

    /// The live connection, once there is one. A server that is down is woken, if a call may do that now.
    pub(super) async fn connected(&self) -> Result<Arc<LiveConnection>, Fault> {
        let seen = self.attempts();
        loop {
            let change = self.status.changed();
            if let Some(live) = self.live.load_full().filter(|live| !live.connection.is_ending()) {
                return Ok(live);
            }
            if let Some(fault) = self.unavailable(seen) {
                return Err(fault);
            }
            self.want_until(change, seen).await;
        }
    }

    pub(super) fn wait_limit(&self, call: &Call) -> Duration {
        call.options.timeout.or(self.config.timeout).unwrap_or(self.options.timeout)
    }
}

/// Whether a server cannot be started until something changes, such as a program that is missing.
fn cannot_start(fault: &Fault) -> bool {
    fault.stage == CallStage::Spawn && !fault.retryable
}

/// The only instance of a server, as the end of its stack.
pub(super) struct InstanceAnswer(pub(super) Arc<Instance>);

impl Answer for InstanceAnswer {
    fn answer(&self, call: Call) -> Reply {
        self.0.answer_via_connection(call)
    }
}

impl Answer for Server {
    /// Lists come from the catalog; everything else goes to the server, which is started when needed.
    fn answer(&self, call: Call) -> Reply {
        match call.method {
            Method::ToolsList | Method::ResourcesList | Method::TemplatesList | Method::PromptsList => self.list(call),
            Method::Discover => self.discover(),
            Method::Listen => listen::reply(&self.instance, &call),
            Method::RootsChanged if call.meta.client.capabilities.announces_roots() => {
                roots::changed(std::slice::from_ref(self), &call)
            }
            _ => self.stack.answer(call),
        }
    }
}

impl Server {
    /// Opens a subscription at the server itself, for what only an extension knows. A subscription to the changes that
    /// are known here is shared, and goes through [`Answer`].
    pub fn listen_directly(&self, call: Call) -> Reply {
        self.instance.answer_via_connection(call)
    }

    fn list(&self, call: Call) -> Reply {
        self.freshen();
        if let Some(catalog) = self.catalog()
            && let Some(outcome) = catalog.answer(&call.method)
        {
            return Reply::ready(outcome);
        }
        let server = self.clone();
        Reply::from_future(async move {
            match server.ready(server.instance.wait_limit(&call)).await {
                Ok(catalog) => catalog.answer(&call.method).unwrap_or_else(|| {
                    Outcome::fault(server.instance.context.fault(FaultCode::MethodNotFound, "not a list"))
                }),
                Err(fault) => Outcome::fault(fault),
            }
        })
    }

    fn discover(&self) -> Reply {
        let server = self.clone();
        Reply::from_future(async move {
            match server.ready(server.instance.options.handshake_timeout).await {
                Ok(catalog) => Outcome::complete(session::discover_result(&catalog.identity)),
                Err(fault) => Outcome::fault(fault),
            }
        })
    }
}

//! A server's public status, and the changes that subscribers receive.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use parking_lot::Mutex;
use tokio::sync::futures::OwnedNotified;
use tokio::sync::{Notify, broadcast};
use tsugi_protocol::answer::{Fault, FaultCode};
use tsugi_protocol::mcp::{ProtocolVersion, ServerIdentity};
use tsugi_transport::http::CredentialStanding;

use crate::connection::state::{ConnectionEvent, ConnectionState};
use crate::layer::cache::CacheCounts;
use crate::stack::LayerState;

/// How a server stands.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerStatus {
    /// Where the connection stands.
    pub state: ConnectionState,
    /// Since when.
    pub since: SystemTime,
    /// The wire: `stdio`, `http`, `sse`, `websocket`, `builtin`.
    pub transport: &'static str,
    /// The revision spoken, when connected.
    pub version: Option<ProtocolVersion>,
    /// Who answers, when connected.
    pub identity: Option<Arc<ServerIdentity>>,
    /// The process, when there is one.
    pub pid: Option<u32>,
    /// What makes sure that no descendant of the process survives.
    pub tier: Option<&'static str>,
    /// How often it was started again, whether that went well or not. One that rested is not counted.
    pub restarts: u32,
    /// Why it is not connected, or why it was not the last time.
    pub fault: Option<Fault>,
    pub in_flight: usize,
    /// Calls that wait for input.
    pub parked: usize,
    /// Calls that wait for their turn.
    pub waiting: usize,
    /// How many of it run.
    pub instances: usize,
    /// It has asked questions without saying which call they belong to, so calls that may be asked take turns.
    pub asks: bool,
    /// Why it is left alone after failures, while it is.
    pub left_alone: Option<String>,
    /// It was stopped by order: calls do not start it.
    pub is_held: bool,
    /// How often keeping results helped, where they are kept.
    pub cache: Option<CacheCounts>,
    /// How the sign-in to it stands, where it can have one.
    pub sign_in: Option<ServerSignIn>,
}

/// How the sign-in to a server stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerSignIn {
    /// The server wants one that is not there.
    Needed,
    Present {
        /// The end of its token, in seconds since 1970.
        until: Option<u64>,
        /// Whether the token is renewed before that.
        is_renewed: bool,
    },
}

impl ServerSignIn {
    /// Nothing for a server that never asked for one.
    pub(super) fn of(standing: CredentialStanding) -> Option<Self> {
        match standing {
            CredentialStanding::Unknown => None,
            CredentialStanding::Needed => Some(Self::Needed),
            CredentialStanding::SignedIn { until, is_renewed } => Some(Self::Present { until, is_renewed }),
        }
    }
}

impl ServerStatus {
    /// The state in JSON and in output for people: that of the connection, unless a sign-in is missing.
    pub fn state_word(&self) -> &'static str {
        if self.needs_sign_in() { "needs-sign-in" } else { self.state.as_str() }
    }

    /// Whether only a sign-in can make it work.
    pub fn needs_sign_in(&self) -> bool {
        match self.state {
            ConnectionState::Failed => self.fault.as_ref().is_some_and(|fault| fault.code == FaultCode::AuthRequired),
            // The sign-in may end while the connection lasts.
            ConnectionState::Connected => self.sign_in == Some(ServerSignIn::Needed),
            _ => false,
        }
    }
}

impl LayerState {
    /// Adds what the layers know.
    pub(super) fn add_to_status(&self, status: &mut ServerStatus) {
        status.is_held = self.is_held.load(Ordering::Relaxed);
        status.waiting = self.gate.as_ref().map_or(0, |gate| gate.load().1);
        status.cache = self.cache.as_ref().map(|cache| cache.counts());
        let reason = self.breaker.as_ref().and_then(|breaker| breaker.reason());
        // A sentence for people: the dashboard and `tsugi servers` show it as it is.
        status.left_alone = reason.map(|(fault, wait)| {
            format!("it keeps failing and is probed in {} s: {}", wait.as_secs_f64().ceil(), fault.message)
        });
    }
}

/// Something changed about a server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerChange {
    pub server: Arc<str>,
    pub what: ServerEvent,
}

#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerEvent {
    State,
    Tools,
    Prompts,
    /// Its resources or templates.
    Resources,
    ResourceUpdated(String),
    Registered,
    Removed,
}

/// The status, its waiters and its listeners.
pub(super) struct StatusCell {
    server: Arc<str>,
    status: Mutex<ServerStatus>,
    waiters: Arc<Notify>,
    changes: broadcast::Sender<ServerChange>,
}

impl StatusCell {
    pub(super) fn new(server: Arc<str>, transport: &'static str, changes: broadcast::Sender<ServerChange>) -> Self {
        let status = ServerStatus {
            state: ConnectionState::Disconnected,
            since: SystemTime::now(),
            transport,
            version: None,
            identity: None,
            pid: None,
            tier: None,
            restarts: 0,
            fault: None,
            in_flight: 0,
            parked: 0,
            waiting: 0,
            instances: 0,
            asks: false,
            left_alone: None,
            is_held: false,
            cache: None,
            sign_in: None,
        };
        Self { server, status: Mutex::new(status), waiters: Arc::default(), changes }
    }

    pub(super) fn get(&self) -> ServerStatus {
        self.status.lock().clone()
    }

    pub(super) fn transport(&self) -> &'static str {
        self.status.lock().transport
    }

    pub(super) fn set_transport(&self, transport: &'static str) {
        self.status.lock().transport = transport;
    }

    pub(super) fn state(&self) -> ConnectionState {
        self.status.lock().state
    }

    /// Resolves with the next change after this call: look at the state after making it, then wait.
    pub(super) fn changed(&self) -> Pin<Box<OwnedNotified>> {
        let mut notified = Box::pin(self.waiters.clone().notified_owned());
        // Registered now, so that a change between this call and the await is not missed.
        notified.as_mut().enable();
        notified
    }

    /// Applies an event. One that is impossible in this state is a defect, and changes nothing.
    pub(super) fn happen(&self, happening: ConnectionEvent, fault: Option<Fault>) {
        let mut status = self.status.lock();
        let Some(next) = status.state.after(happening) else {
            tracing::error!(server = %self.server, state = %status.state, ?happening, "a move that cannot happen");
            return;
        };
        if next != status.state {
            status.since = SystemTime::now();
        }
        status.state = next;
        // The last failure stays visible until the server is connected again.
        if fault.is_some() || next == ConnectionState::Connected {
            status.fault = fault;
        }
        drop(status);
        self.wake();
        self.announce(ServerEvent::State);
    }

    pub(super) fn count_restart(&self) {
        self.status.lock().restarts += 1;
    }

    /// Wakes those who wait for a connection or a catalog.
    pub(super) fn wake(&self) {
        self.waiters.notify_waiters();
    }

    pub(super) fn announce(&self, what: ServerEvent) {
        // An error means that there is no subscriber.
        let _ = self.changes.send(ServerChange { server: self.server.clone(), what });
    }
}

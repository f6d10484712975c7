//! Extra upstream sessions, one per set of client capabilities: without them a legacy server would see all callers as one.
//!
//! A legacy server learns once, in `initialize`, what its client can be asked for, and a server that speaks both eras
//! can often ask only in the legacy one. So over HTTP, where a session costs no process, a call that may make the
//! server ask goes over a session with its caller's capabilities:
//!
//! - The server speaks the legacy era: a session for each distinct set of capabilities, made when first needed.
//! - It speaks the modern era, and the caller the legacy one: the same, if the server takes a legacy session too.
//!
//! Without such a session the call goes the usual way, and a question that its caller cannot answer is refused.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tsugi_protocol::answer::{Answer, Call, CallStage, Reply};
use tsugi_protocol::mcp::{AskableInputs, Era};

use super::{Instance, InstanceRole, ManagerShared, ServerStatus};
use crate::config::{ConnectTarget, EraChoice, InstancePolicy, RestartPolicy, StartPolicy};
use crate::connection::state::ConnectionState;
use crate::pool::sweep;
use crate::seal::SealedState;

/// How long an unused session is kept, unless the server has an idle timeout.
const IDLE: Duration = Duration::from_secs(300);
/// How long after a failure a session is not tried again.
const AFTER_FAILURE: Duration = Duration::from_secs(30);
/// The same after the server said that it takes no legacy session: it will hardly change its mind.
const AFTER_REFUSAL: Duration = Duration::from_secs(3600);

/// The sessions of one server besides its first. Cheap to clone.
#[derive(Clone)]
pub(crate) struct CallerSessions(Arc<CallerSessionTable>);

struct CallerSessionTable {
    first: Arc<Instance>,
    /// The usual way to the server.
    usual: Arc<dyn Answer>,
    common: Arc<ManagerShared>,
    declared: AskableInputs,
    most: usize,
    /// One for each set of capabilities, of which there are few. Unused ones are closed.
    sessions: Mutex<Vec<Arc<CallerSession>>>,
    janitor: Mutex<Option<AbortHandle>>,
}

/// A session on the terms of some callers.
struct CallerSession {
    askable: AskableInputs,
    instance: Arc<Instance>,
    task: AbortHandle,
    used: Mutex<Instant>,
    /// Until then it is not tried, as it failed.
    shut_until: Mutex<Option<Instant>>,
    opening: Mutex<Option<SessionOpening>>,
}

impl Drop for CallerSession {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// An attempt to open a session, shared by all calls that want it. Its result is kept even when no call waits for it.
struct SessionOpening {
    /// Whether it went well, once it is over.
    outcome: watch::Receiver<Option<bool>>,
    task: AbortHandle,
}

impl Drop for CallerSessionTable {
    fn drop(&mut self) {
        if let Some(janitor) = self.janitor.get_mut() {
            janitor.abort();
        }
    }
}

/// Which way a call goes.
enum SessionRoute {
    Usual,
    Over(Arc<CallerSession>),
    /// It is not known yet what the server speaks.
    Unknown,
}

impl CallerSessions {
    /// For a server that is reached over HTTP and shared by its callers; `None` for others.
    pub(super) fn of(first: &Arc<Instance>, usual: &Arc<dyn Answer>, common: &Arc<ManagerShared>) -> Option<Self> {
        let config = &first.config;
        let is_cheap =
            matches!(config.target, ConnectTarget::Http(_) | ConnectTarget::StreamableHttp(_) | ConnectTarget::Sse(_));
        // The first connection is one of those there may be.
        let most = config.max_connections.saturating_sub(1);
        (is_cheap && matches!(config.instances, InstancePolicy::Shared | InstancePolicy::Auto) && most > 0).then(|| {
            Self(Arc::new(CallerSessionTable {
                first: first.clone(),
                usual: usual.clone(),
                common: common.clone(),
                declared: common.options.profile.capabilities.askable(),
                most,
                sessions: Mutex::default(),
                janitor: Mutex::default(),
            }))
        })
    }

    /// Adds what these sessions do.
    pub(super) fn add_to_status(&self, status: &mut ServerStatus) {
        for session in self.0.sessions.lock().iter() {
            status.in_flight += session.instance.in_flight();
            status.parked += session.instance.context.parked.len();
        }
    }

    /// Ends all of them and waits until that is done.
    pub(super) async fn stop(&self) {
        let sessions = std::mem::take(&mut *self.0.sessions.lock());
        join_all(sessions.iter().map(|session| session.stop())).await;
    }

    /// Ends all of them without waiting.
    pub(super) fn let_go(&self) {
        for session in std::mem::take(&mut *self.0.sessions.lock()) {
            session.give_up();
            session.instance.let_go();
        }
    }

    /// Waits for the server's first connection, which shows what it speaks.
    async fn answer_once_known(self, call: Call) -> Reply {
        let first = &self.0.first;
        match tokio::time::timeout(first.wait_limit(&call), first.connected()).await {
            Ok(Ok(_)) => {}
            Ok(Err(fault)) => return Reply::fault(fault),
            Err(_) => return Reply::fault(first.late()),
        }
        match self.0.route(&call) {
            SessionRoute::Over(session) => self.answer_over(session, call),
            SessionRoute::Usual | SessionRoute::Unknown => self.0.usual.answer(call),
        }
    }

    fn answer_over(&self, session: Arc<CallerSession>, call: Call) -> Reply {
        if session.instance.is_live() {
            return session.forward(call);
        }
        if session.is_shut() || !self.0.make_room() {
            return self.0.usual.answer(call);
        }
        let usual = self.0.usual.clone();
        // The other half of its time is for the call itself, whichever way it goes.
        let patience = self.0.first.wait_limit(&call) / 2;
        Reply::from_pending_reply(async move {
            match session.is_open_within(patience).await {
                true => session.forward(call),
                false => usual.answer(call),
            }
        })
    }
}

impl Answer for CallerSessions {
    fn answer(&self, call: Call) -> Reply {
        if !call.method.may_ask() {
            return self.0.usual.answer(call);
        }
        match self.0.route(&call) {
            SessionRoute::Usual => self.0.usual.answer(call),
            SessionRoute::Over(session) => self.answer_over(session, call),
            SessionRoute::Unknown => Reply::from_pending_reply(self.clone().answer_once_known(call)),
        }
    }
}

impl CallerSessionTable {
    fn route(self: &Arc<Self>, call: &Call) -> SessionRoute {
        // No session is opened for a removed server; the first instance returns the error.
        if self.first.is_let_go() {
            return SessionRoute::Usual;
        }
        // Which era the server speaks decides everything below.
        let Some(identity) = self.first.known_identity() else { return SessionRoute::Unknown };
        if let Some(held) = self.held(call) {
            // The session that asked gets the answer.
            return self.asking(&held).map_or(SessionRoute::Usual, SessionRoute::Over);
        }
        let client = &call.meta.client;
        match (identity.version.era(), client.version.era()) {
            (Era::Modern, Era::Modern) => SessionRoute::Usual,
            (Era::Modern, Era::Legacy) if self.first.config.era == EraChoice::Modern => SessionRoute::Usual,
            (Era::Modern, Era::Legacy) => SessionRoute::Over(self.session(client.capabilities.askable(), Era::Modern)),
            (Era::Legacy, _) => match client.capabilities.askable() {
                askable if askable == self.declared => SessionRoute::Usual,
                askable => SessionRoute::Over(self.session(askable, Era::Legacy)),
            },
        }
    }

    /// What stands behind the state that a call brings back.
    fn held(&self, call: &Call) -> Option<SealedState> {
        let state = call.params.get_str("requestState")?;
        self.common.options.sealer.open(&self.first.config.name, call, &state).ok()
    }

    /// The session in which a call waits for its answer; `None` when it is none of these.
    fn asking(&self, held: &SealedState) -> Option<Arc<CallerSession>> {
        let SealedState::Parked(number) = held else { return None };
        let sessions = self.sessions.lock();
        sessions.iter().find(|session| session.instance.context.parked.has(*number)).cloned()
    }

    /// The session for callers that can be asked for this. It is opened when it is used.
    fn session(self: &Arc<Self>, askable: AskableInputs, first: Era) -> Arc<CallerSession> {
        let mut sessions = self.sessions.lock();
        if let Some(known) = sessions.iter().find(|session| session.askable == askable) {
            return known.clone();
        }
        let mut config = self.first.config.clone();
        // A session that fails is not retried by itself: the call goes the usual way, and the next one tries again.
        (config.era, config.start, config.restart) = (EraChoice::Legacy, StartPolicy::Lazy, RestartPolicy::Never);
        if let (Era::Modern, ConnectTarget::Http(target)) = (first, &config.target) {
            // A server that speaks the modern era does not speak the wire of 2024.
            config.target = ConnectTarget::StreamableHttp(target.clone());
        }
        let common = self.common.declaring(askable.to_capabilities());
        let place = InstanceRole::CallerSession(self.first.context.notices.clone());
        let (instance, task) = Instance::spawn(config, &common, None, self.first.layers.clone(), place);
        let used = Mutex::new(Instant::now());
        let (shut_until, opening) = (Mutex::default(), Mutex::default());
        let session = Arc::new(CallerSession { askable, instance, task, used, shut_until, opening });
        sessions.push(session.clone());
        drop(sessions);
        self.look_after();
        session
    }

    /// Starts the janitor, if there is none.
    fn look_after(self: &Arc<Self>) {
        let idle = self.first.config.idle_timeout.unwrap_or(IDLE);
        let mut janitor = self.janitor.lock();
        janitor.get_or_insert_with(|| {
            tokio::spawn(sweep(Arc::downgrade(self), idle, CallerSessionTable::rest)).abort_handle()
        });
    }

    /// Makes room for one more session by closing the one unused for longest. False when all are in use.
    fn make_room(&self) -> bool {
        let sessions = self.sessions.lock();
        let open: Vec<&Arc<CallerSession>> = sessions.iter().filter(|session| session.instance.is_live()).collect();
        // Closed sessions stay in the list and cost nothing.
        if open.len() < self.most {
            return true;
        }
        let unused = open.into_iter().filter(|session| session.is_unused());
        match unused.min_by_key(|session| *session.used.lock()) {
            Some(oldest) => {
                oldest.instance.rest();
                true
            }
            None => false,
        }
    }

    fn rest(&self, idle: Duration) {
        for session in self.sessions.lock().iter() {
            if session.instance.is_live() && session.is_unused() && session.used.lock().elapsed() >= idle {
                session.instance.rest();
            }
        }
    }
}

impl CallerSession {
    fn is_unused(&self) -> bool {
        self.instance.in_flight() == 0 && !self.instance.is_watched()
    }

    /// Makes a call, and marks the session as used.
    fn forward(&self, call: Call) -> Reply {
        *self.used.lock() = Instant::now();
        self.instance.answer_via_connection(call)
    }

    fn is_shut(&self) -> bool {
        self.shut_until.lock().is_some_and(|until| Instant::now() < until)
    }

    /// Whether it is open after so long at most. The attempt goes on without those who do not wait for its end.
    async fn is_open_within(self: &Arc<Self>, patience: Duration) -> bool {
        let mut outcome = self.opening();
        let waiting = outcome.wait_for(|outcome| outcome.is_some());
        match tokio::time::timeout(patience, waiting).await {
            Ok(Ok(outcome)) => *outcome == Some(true),
            Ok(Err(_)) | Err(_) => false,
        }
    }

    /// The attempt that is under way, or a new one.
    fn opening(self: &Arc<Self>) -> watch::Receiver<Option<bool>> {
        let mut opening = self.opening.lock();
        if let Some(opening) = opening.as_ref().filter(|opening| !opening.task.is_finished()) {
            return opening.outcome.clone();
        }
        let (told, outcome) = watch::channel(None);
        let session = self.clone();
        let task = tokio::spawn(async move { told.send_replace(Some(session.open().await)) }).abort_handle();
        *opening = Some(SessionOpening { outcome: outcome.clone(), task });
        outcome
    }

    /// Ends an attempt that is under way.
    fn give_up(&self) {
        if let Some(opening) = self.opening.lock().take() {
            opening.task.abort();
        }
    }

    async fn stop(&self) {
        self.give_up();
        self.instance.stop().await;
    }

    /// Connects; false when that fails, and then it is not tried again for a while.
    async fn open(&self) -> bool {
        if self.instance.status.state() == ConnectionState::Failed {
            // It was lost, and a call wants it now.
            self.instance.stop().await;
        }
        let limit = self.instance.options.handshake_timeout;
        let fault = match tokio::time::timeout(limit, self.instance.connected()).await {
            Ok(Ok(_)) => return true,
            Ok(Err(fault)) => fault,
            Err(_) => self.instance.late(),
        };
        tracing::debug!(server = %self.instance.config.name, %fault, "no session on the terms of a caller");
        let is_refused = fault.stage == CallStage::Handshake && !fault.retryable;
        let wait = if is_refused { AFTER_REFUSAL } else { AFTER_FAILURE };
        *self.shut_until.lock() = Some(Instant::now() + wait);
        false
    }
}

//! One gateway: what it shares, how a request goes through it, how it starts and stops.

use std::future::Future;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use http::header::{ALLOW, CONNECTION};
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode, Version};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;
use tsugi_client::Manager;
use tsugi_client::alarm::Alarm;
use tsugi_protocol::answer::{Answer, Fault, FaultCode};

use crate::admin;
use crate::backend::{Backend, Control, Endpoint};
use crate::body::Body;
use crate::config::Config;
use crate::dashboard;
use crate::drain::Drain;
use crate::face;
use crate::face::mcp::session::Table;
use crate::guard::Guard;
use crate::guard::allowance::Allowed;
use crate::guard::cors;
use crate::guard::principal::Principal;
use crate::guard::refusal::Refusal;
use crate::hub::{Hub, HubConfig};
use crate::listen::{self, Listening};
use crate::route::{self, Entry, Found, Route, Segments, Style};
use crate::telemetry::{Metrics, access_log};

/// How often unused sessions are looked for.
const SWEEP: Duration = Duration::from_secs(30);

/// Why a gateway did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Others could reach it, and nobody would be asked who they are.
    #[error("refusing to listen on {0} without authentication: add a key, or say --insecure")]
    Exposed(SocketAddr),
    /// An address cannot be used.
    #[error("cannot listen on {address}: {error}")]
    Bind {
        /// Which.
        address: SocketAddr,
        /// Why.
        error: std::io::Error,
    },
    /// A socket that listens already cannot be used.
    #[error("cannot use the socket that was handed over: {0}")]
    Inherited(std::io::Error),
    /// There is no address.
    #[error("no address to listen on: name one in `listen`, such as 127.0.0.1:7600")]
    NoAddress,
}

/// The end of a stream that would stay open otherwise.
pub(crate) type Ending = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What all requests share.
pub struct Gateway {
    config: Config,
    guard: Arc<Guard>,
    backend: Arc<dyn Backend>,
    /// All servers together, made once.
    all: Endpoint,
    drain: Drain,
    sessions: Table,
    sse_streams: face::sse::Streams,
    /// Room for streams that stay open, of whatever face.
    streams: Arc<Semaphore>,
    tasks: TaskTracker,
    /// The clock of everything that may take seconds.
    alarm: Alarm,
    metrics: Arc<Metrics>,
    addresses: Vec<SocketAddr>,
}

/// Who was let in, and what came with the request.
struct Admitted {
    principal: Principal,
    request_id: Option<Arc<str>>,
    upgrade: Option<OnUpgrade>,
}

/// A running gateway. Dropping it leaves the gateway running; [`Handle::drain`] stops it.
pub struct Handle {
    gateway: Arc<Gateway>,
}

impl Gateway {
    /// Binds the addresses and serves the servers of `manager` on them, shown as `shown` says. Returns as soon as it
    /// listens. The hub is for whoever wants to show the servers in another way later, the handle's
    /// [`guard`](Handle::guard) for whoever wants to let in others.
    pub async fn serve_manager(
        config: Config,
        manager: Manager,
        shown: HubConfig,
    ) -> Result<(Handle, Hub), StartError> {
        let hub = Hub::new(manager, shown, Arc::new(Guard::new(&config)));
        Ok((Self::serve(config, Arc::new(hub.clone())).await?, hub))
    }

    /// Binds the addresses and serves `backend` on them, behind its own guard if it has one. Returns as soon as it
    /// listens.
    pub async fn serve(config: Config, backend: Arc<dyn Backend>) -> Result<Handle, StartError> {
        let guard = backend.guard().unwrap_or_else(|| Arc::new(Guard::new(&config)));
        Self::serve_guarded(config, backend, guard).await
    }

    /// Like [`Gateway::serve`] with a guard that others share, such as a hub inside of `backend`.
    pub async fn serve_guarded(
        config: Config,
        backend: Arc<dyn Backend>,
        guard: Arc<Guard>,
    ) -> Result<Handle, StartError> {
        refuse_exposure(&config)?;
        let listeners = listen::bind(&config).await?;
        let addresses: Vec<_> = listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect();
        if addresses.is_empty() {
            return Err(StartError::NoAddress);
        }
        let sessions = Table::new(&config.limits);
        let metrics = backend.metrics();
        let gateway = Arc::new(Self {
            all: allowed(backend.all(), &guard, &metrics),
            guard,
            backend,
            drain: Drain::new(config.inherited.is_some()),
            sessions,
            sse_streams: face::sse::Streams::default(),
            streams: Arc::new(Semaphore::new(config.limits.streams.min(Semaphore::MAX_PERMITS))),
            tasks: TaskTracker::new(),
            alarm: Alarm::default(),
            metrics,
            addresses,
            config,
        });
        let listening = Arc::new(Listening::new(gateway.clone()));
        for listener in listeners {
            gateway.tasks.spawn(listening.clone().accept(listener));
        }
        gateway.tasks.spawn(gateway.clone().sweep());
        Ok(Handle { gateway })
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) fn guard(&self) -> &Guard {
        &self.guard
    }

    pub(crate) fn backend(&self) -> &dyn Backend {
        &*self.backend
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Where it listens, in the order of the configuration.
    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    pub(crate) fn drain(&self) -> &Drain {
        &self.drain
    }

    pub(crate) fn sessions(&self) -> &Table {
        &self.sessions
    }

    pub(crate) fn sse_streams(&self) -> &face::sse::Streams {
        &self.sse_streams
    }

    /// Room for one more stream, held as long as it is open.
    pub(crate) fn take_stream(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        let message = "there are too many streams";
        let refusal = || Refusal::new(StatusCode::SERVICE_UNAVAILABLE, FaultCode::Overloaded, message);
        self.streams.clone().try_acquire_owned().map_err(|_| refusal().retry_after(Duration::from_secs(1)))
    }

    /// Ends with `end`, or before it when this caller would not be let in any more.
    pub(crate) fn until(&self, end: impl Future<Output = ()> + Send + 'static, principal: &Principal) -> Ending {
        let dismissal = self.guard.dismissal(principal);
        Box::pin(async move {
            tokio::select! {
                () = end => {}
                () = dismissal => {}
            }
        })
    }

    /// The same answer, asked no more than each caller's key allows.
    pub(crate) fn allowed(&self, answer: Arc<dyn Answer>) -> Arc<dyn Answer> {
        Arc::new(Allowed { guard: self.guard.clone(), metrics: self.metrics.clone(), answer })
    }

    /// Counts a call that is no call of MCP, such as a list over REST.
    pub(crate) fn begin(&self, principal: &Principal) -> Result<Option<OwnedSemaphorePermit>, Fault> {
        self.guard.begin(principal.caller().principal(), &tsugi_protocol::mcp::Method::ToolsList)
    }

    pub(crate) fn alarm(&self) -> &Alarm {
        &self.alarm
    }

    pub(crate) fn tasks(&self) -> &TaskTracker {
        &self.tasks
    }

    /// Does work that goes on although its client leaves. Stopping waits for it as for any other; `None` when that
    /// took too long.
    pub(crate) fn go_on<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<Option<T>> {
        let (busy, closing) = (self.drain.join(), self.drain.closing().clone());
        self.tasks.spawn(async move {
            let done = closing.run_until_cancelled_owned(work).await;
            drop(busy);
            done
        })
    }

    /// Forgets what nobody uses any more, until we close.
    async fn sweep(self: Arc<Self>) {
        let mut ticks = tokio::time::interval(SWEEP);
        loop {
            tokio::select! {
                _ = ticks.tick() => self.sessions.sweep(),
                () = self.drain.closing().cancelled() => return,
            }
        }
    }

    /// Answers one request. Whatever happens inside, exactly one response comes out.
    pub(crate) fn handle(
        self: Arc<Self>,
        mut request: Request<Incoming>,
    ) -> impl Future<Output = Response<Body>> + Send + 'static {
        let upgrade = face::ws::upgrade_of(&mut request);
        let (parts, body) = request.into_parts();
        self.finished(Box::new(parts), body, upgrade)
    }

    async fn finished(
        self: Arc<Self>,
        parts: Box<Parts>,
        body: Incoming,
        upgrade: Option<OnUpgrade>,
    ) -> Response<Body> {
        let (version, is_head) = (parts.version, parts.method == Method::HEAD);
        let mut response = self.dispatch(parts, body, upgrade).await;
        if version == Version::HTTP_11 && self.drain.is_draining() {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        if is_head { face::http::head_of(response) } else { response }
    }

    /// Finds the route, and counts and logs what came of it.
    async fn dispatch(
        self: &Arc<Self>,
        parts: Box<Parts>,
        body: Incoming,
        upgrade: Option<OnUpgrade>,
    ) -> Response<Body> {
        let origin = self.guard.listed_origin(&parts);
        if let Some(origin) = &origin
            && cors::is_preflight(&parts)
        {
            self.metrics.request("preflight", StatusCode::NO_CONTENT.as_u16(), 0);
            return preflight(&parts, origin.clone());
        }
        let logged = access_log::Entry::begin(&parts.headers);
        let found = route::find(&parts.method, parts.uri.path());
        let (name, style) = match &found {
            Found::Route(entry, _) => (entry.pattern, entry.style),
            Found::OtherVerb(style, _) => ("other verb", *style),
            Found::Nothing => ("nothing", Style::Rest),
        };
        let request_id = logged.as_ref().map(access_log::Entry::id);
        let answering = AssertUnwindSafe(self.let_in(&parts, found, body, upgrade, request_id)).catch_unwind();
        // Whatever breaks in there breaks this request alone.
        let (caller, answered) = answering.await.unwrap_or_else(|_| (String::new(), Err(panicked(name))));
        let mut response = answered.unwrap_or_else(|refusal| face::fault::refuse(style, &refusal));
        if let Some(origin) = origin {
            cors::expose(origin, response.headers_mut());
        }
        let bytes = response.body().size_hint().exact().unwrap_or(0);
        self.metrics.request(name, response.status().as_u16(), bytes);
        if let Some(logged) = logged {
            logged.end(parts.method.as_str(), name, &caller, response.status());
        }
        response
    }

    /// Asks the door, and answers whoever is let in. Says who that is where there is a log.
    async fn let_in(
        self: &Arc<Self>,
        parts: &Parts,
        found: Found<'_>,
        body: Incoming,
        upgrade: Option<OnUpgrade>,
        request_id: Option<Arc<str>>,
    ) -> (String, Result<Response<Body>, Refusal>) {
        let admitted = match &found {
            Found::Route(entry, _) if entry.route.is_open() => self.guard.admit_guest(parts).await,
            _ => self.guard.admit(parts).await,
        };
        let principal = match admitted {
            Ok(principal) => principal,
            Err(refusal) => return (String::new(), Err(refusal)),
        };
        let caller = match request_id {
            Some(_) => principal.caller().principal().to_owned(),
            None => String::new(),
        };
        (caller, self.admitted(Admitted { principal, request_id, upgrade }, parts, found, body).await)
    }

    async fn admitted(
        self: &Arc<Self>,
        admitted: Admitted,
        parts: &Parts,
        found: Found<'_>,
        body: Incoming,
    ) -> Result<Response<Body>, Refusal> {
        let Admitted { principal, request_id, upgrade } = admitted;
        let (entry, segments) = match found {
            Found::Route(entry, segments) => (entry, segments),
            Found::OtherVerb(style, verbs) => return Ok(other_verb(style, &verbs)),
            Found::Nothing => return Err(no_such_path()),
        };
        self.expect_allowed(&principal, entry.route)?;
        let busy = match self.drain.enter_request() {
            Some(busy) => busy,
            // It may be what a running call waits for; the face looks.
            None if matches!(entry.route, Route::McpPost | Route::SseMessages) => self.drain.join(),
            None => return Err(draining()),
        };
        // In a box: it is handed down through everything that waits, and each of those would have room for it twice.
        let asked = Box::new(face::Asked { gateway: self, principal, parts, request_id, busy, upgrade });
        self.answer(asked, entry, segments, body).await
    }

    /// The dashboard and the numbers can be switched off, and some keys are for nothing but looking.
    fn expect_allowed(&self, principal: &Principal, route: Route) -> Result<(), Refusal> {
        let is_off = route.is_dashboard() && !self.config.dashboard || route == Route::Metrics && !self.config.metrics;
        if is_off {
            return Err(no_such_path());
        }
        let is_harmless = route.is_dashboard() || route.is_probe();
        if principal.is_only_looking() && !is_harmless {
            return Err(Refusal::forbidden(
                "this key may look at the dashboard and touch nothing: sign in with another one",
            ));
        }
        Ok(())
    }

    async fn answer(
        &self,
        asked: Box<face::Asked<'_>>,
        entry: &'static Entry,
        segments: Segments<'_>,
        body: Incoming,
    ) -> Result<Response<Body>, Refusal> {
        if entry.route == Route::McpPost {
            let (endpoint, place) = self.endpoint(segments.first())?;
            return face::mcp::post(asked, endpoint, place, body).await;
        }
        // Every request has room for what its own route needs, so only the busiest keep theirs beside it.
        Box::pin(self.answer_rarely(*asked, entry, segments, body)).await
    }

    async fn answer_rarely(
        &self,
        asked: face::Asked<'_>,
        entry: &'static Entry,
        segments: Segments<'_>,
        body: Incoming,
    ) -> Result<Response<Body>, Refusal> {
        Ok(match entry.route {
            Route::McpGet | Route::McpDelete => {
                let (_, place) = self.endpoint(segments.first())?;
                face::mcp::other_verb(entry.route, asked, place.as_deref())?
            }
            Route::Sse => face::sse::open(&asked, self.all.clone())?,
            Route::SseMessages => face::sse::post(&asked, asked.json_body(body).await?)?,
            Route::Rpc => {
                let bytes = asked.json_body(body).await?;
                face::rpc::post(asked, self.all.clone(), bytes).await
            }
            Route::WebSocket => face::ws::open(asked, self.all.clone())?,
            Route::Healthz => face::http::text(StatusCode::OK, "ok\n"),
            Route::Readyz => self.readyz(&asked.principal),
            Route::Metrics => self.numbers(&asked)?,
            Route::Tools | Route::Call | Route::Batch | Route::Operation | Route::OperationAnswer | Route::OpenApi => {
                self.rest(&asked, entry.route, segments, body).await?
            }
            Route::Page(file) => dashboard::page::serve(file, &asked.parts.headers),
            Route::Session => dashboard::session::show(&asked),
            Route::SignIn => dashboard::session::sign_in(&asked, &asked.json_body(body).await?)?,
            Route::SignOut => dashboard::session::sign_out(&asked),
            Route::BoardOrder => {
                let name = segments.first().unwrap_or_default();
                dashboard::board::order(&asked, name, &asked.json_body(body).await?).await?
            }
            Route::PlainBoard => dashboard::board::plain::show(&asked).await?,
            Route::PlainSignIn => dashboard::board::plain::sign_in(&asked, &asked.form_body(body).await?)?,
            Route::Dashboard(view) => dashboard::show(&asked, view, segments.first().unwrap_or_default()).await?,
            route => self.control(&asked, route, segments, body).await?,
        })
    }

    async fn rest(
        &self,
        asked: &face::Asked<'_>,
        route: Route,
        segments: Segments<'_>,
        body: Incoming,
    ) -> Result<Response<Body>, Refusal> {
        let Some(directory) = self.backend.directory() else { return Err(no_servers()) };
        Ok(match route {
            Route::Tools => face::rest::tools(asked, directory).await,
            Route::OpenApi => face::rest::openapi(asked, directory).await,
            Route::Call => face::rest::call(asked, directory, asked.json_body(body).await?).await,
            Route::Batch => face::rest::batch(asked, directory, asked.json_body(body).await?).await,
            _ => {
                let tool = (segments.first().unwrap_or_default(), segments.second().unwrap_or_default());
                let bytes = asked.json_body(body).await?;
                match route {
                    Route::OperationAnswer => face::rest::operation_answer(asked, directory, tool, bytes).await,
                    _ => face::rest::operation(asked, directory, tool, bytes).await,
                }
            }
        })
    }

    async fn control(
        &self,
        asked: &face::Asked<'_>,
        route: Route,
        segments: Segments<'_>,
        body: Incoming,
    ) -> Result<Response<Body>, Refusal> {
        admin::expect_admin(asked)?;
        let Some(control) = self.backend.control() else { return Err(no_servers()) };
        if asked.parts.method != Method::GET {
            self.guard.expect_own_page(asked.parts)?;
            expect_changeable(control)?;
        }
        let name = segments.first().unwrap_or_default();
        Ok(match route {
            Route::AddServer => admin::add(control, &asked.json_body(body).await?).await,
            Route::RemoveServer => admin::remove(control, name).await,
            Route::Order(order) => admin::order(control, name, order).await,
            Route::Log => admin::log(asked, control, name),
            _ => admin::servers(control),
        })
    }

    fn servers(&self) -> Vec<serde_json::Value> {
        self.backend.control().map(Control::servers).unwrap_or_default()
    }

    /// How the servers stand that this caller may use something of. Whoever has not said who they are hears of none.
    fn readyz(&self, principal: &Principal) -> Response<Body> {
        if principal.is_guest() {
            return face::http::json(StatusCode::OK, Body::one(r#"{"status":"ready"}"#.into()));
        }
        let mut servers = self.servers();
        if let Some(permit) = self.guard.permit(principal.caller().principal()) {
            servers.retain(|server| permit.allows_some_of(server["name"].as_str().unwrap_or_default()));
        }
        let states = servers.iter().map(|server| (server["name"].as_str().unwrap_or_default(), &server["state"]));
        let states: serde_json::Map<String, serde_json::Value> =
            states.map(|(name, state)| (name.to_owned(), state.clone())).collect();
        let body = serde_json::json!({"status": "ready", "servers": states}).to_string();
        face::http::json(StatusCode::OK, Body::one(body.into()))
    }

    fn numbers(&self, asked: &face::Asked<'_>) -> Result<Response<Body>, Refusal> {
        admin::expect_admin(asked)?;
        Ok(face::http::text(StatusCode::OK, self.metrics.text(self.sessions.len(), &self.servers())))
    }

    /// Everything together, or one server and its name.
    fn endpoint(&self, server: Option<&str>) -> Result<(Endpoint, Option<String>), Refusal> {
        let Some(server) = server else { return Ok((self.all.clone(), None)) };
        let name = percent_encoding::percent_decode_str(server).decode_utf8_lossy();
        match self.backend.server(&name) {
            Some(endpoint) => Ok((allowed(endpoint, &self.guard, &self.metrics), Some(name.into_owned()))),
            None => Err(Refusal::new(
                StatusCode::NOT_FOUND,
                FaultCode::ServerNotFound,
                format!("there is no server {name:?}"),
            )),
        }
    }
}

impl Handle {
    /// The door: whose keys are known can be changed there.
    pub fn guard(&self) -> &Arc<Guard> {
        &self.gateway.guard
    }

    /// Where it listens, in the order of the configuration: at least one address.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.gateway.addresses
    }

    /// The first address, as the beginning of a URL: `http://127.0.0.1:7600`.
    pub fn url(&self) -> String {
        format!("http://{}", self.gateway.addresses[0])
    }

    /// Stops: refuses new calls with a clear error, lets running ones finish for up to `grace`, closes.
    /// Gives how many calls were cut off.
    pub async fn drain(&self, grace: Duration) -> usize {
        let left = self.gateway.drain.run(grace).await;
        self.gateway.tasks.close();
        self.gateway.tasks.wait().await;
        left
    }
}

fn allowed(endpoint: Endpoint, guard: &Arc<Guard>, metrics: &Arc<Metrics>) -> Endpoint {
    let answer = Allowed { guard: guard.clone(), metrics: metrics.clone(), answer: endpoint.answer };
    Endpoint { answer: Arc::new(answer), ..endpoint }
}

/// The answer to a browser that asks whether a page may ask. It never carries a key.
fn preflight(parts: &Parts, origin: HeaderValue) -> Response<Body> {
    let mut response = face::http::empty(StatusCode::NO_CONTENT);
    cors::allow(&parts.headers, response.headers_mut());
    cors::expose(origin, response.headers_mut());
    response
}

fn refuse_exposure(config: &Config) -> Result<(), StartError> {
    if !config.keys.is_empty() || !config.needs_keys() {
        return Ok(());
    }
    match config.listen.iter().find(|address| !address.ip().is_loopback()) {
        Some(address) => Err(StartError::Exposed(*address)),
        None => Ok(()),
    }
}

fn other_verb(style: Style, verbs: &str) -> Response<Body> {
    let refusal = Refusal::new(
        StatusCode::METHOD_NOT_ALLOWED,
        FaultCode::InvalidRequest,
        format!("this address answers to {verbs}"),
    );
    let mut response = face::fault::refuse(style, &refusal);
    let allowed = HeaderValue::from_str(verbs).expect("verbs are plain text");
    response.headers_mut().insert(ALLOW, allowed);
    response
}

/// The error of a call whose handler broke.
pub(crate) fn panicked(route: &str) -> Refusal {
    tracing::error!(route, "a request handler panicked");
    let message = "a defect of tsugi: the handler of this request panicked";
    Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, FaultCode::InternalError, message)
}

fn no_servers() -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, FaultCode::InvalidRequest, "this gateway has no servers to show")
}

fn expect_changeable(control: &dyn Control) -> Result<(), Refusal> {
    match control.allows_changes() {
        true => Ok(()),
        false => Err(Refusal::forbidden("servers cannot be changed over HTTP: `gateway.adminApi.enabled` is off")),
    }
}

fn no_such_path() -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, FaultCode::InvalidRequest, "there is nothing at this address")
}

/// The error of a call that comes too late.
pub(crate) fn draining() -> Refusal {
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, FaultCode::Draining, "the gateway is shutting down")
        .retry_after(Duration::from_secs(1))
}

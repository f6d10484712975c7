//! One gateway: what it shares, how a request goes through it, how it starts and stops.

use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use http::header::{ALLOW, CONNECTION};
use http::{HeaderValue, Request, Response, StatusCode, Version};
use hyper::body::Incoming;
use tokio_util::task::TaskTracker;
use tsugi_protocol::answer::FaultCode;

use crate::backend::{Backend, Endpoint};
use crate::body::Body;
use crate::config::{Config, Exposure};
use crate::drain::Drain;
use crate::face;
use crate::face::mcp::session::Table;
use crate::guard::Guard;
use crate::guard::refusal::Refusal;
use crate::listen::{self, Listening};
use crate::route::{self, Entry, Found, Route, Segments, Style};

/// How often unused sessions are looked for.
const SWEEP: Duration = Duration::from_secs(30);

/// Why a gateway did not start.
#[derive(Debug, thiserror::Error)]
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
}

/// What all requests share.
pub struct Gateway {
    config: Config,
    guard: Arc<Guard>,
    backend: Arc<dyn Backend>,
    drain: Drain,
    sessions: Table,
    sse_streams: face::sse::Streams,
    tasks: TaskTracker,
}

/// A running gateway. Dropping it leaves the gateway running; [`Handle::drain`] stops it.
pub struct Handle {
    addresses: Vec<SocketAddr>,
    gateway: Arc<Gateway>,
}

impl Gateway {
    /// Binds the addresses and serves `backend` on them. Returns as soon as it listens.
    pub async fn serve(config: Config, backend: Arc<dyn Backend>) -> Result<Handle, StartError> {
        let guard = Arc::new(Guard::new(&config));
        Self::serve_guarded(config, backend, guard).await
    }

    /// Like [`Gateway::serve`] with a guard that others (the hub) share.
    pub async fn serve_guarded(
        config: Config,
        backend: Arc<dyn Backend>,
        guard: Arc<Guard>,
    ) -> Result<Handle, StartError> {
        refuse_exposure(&config)?;
        let bound = listen::bind(&config.listen).await;
        let listeners = bound.map_err(|(address, error)| StartError::Bind { address, error })?;
        let addresses = listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect();
        let sessions = Table::new(&config.limits);
        let gateway = Arc::new(Self {
            guard,
            backend,
            drain: Drain::default(),
            sessions,
            sse_streams: face::sse::Streams::default(),
            tasks: TaskTracker::new(),
            config,
        });
        let listening = Arc::new(Listening::new(gateway.clone()));
        for listener in listeners {
            gateway.tasks.spawn(listening.clone().accept(listener));
        }
        gateway.tasks.spawn(gateway.clone().sweep());
        Ok(Handle { addresses, gateway })
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
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

    pub(crate) fn tasks(&self) -> &TaskTracker {
        &self.tasks
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
    pub(crate) async fn handle(self: Arc<Self>, request: Request<Incoming>) -> Response<Body> {
        let version = request.version();
        let answered = AssertUnwindSafe(self.dispatch(request)).catch_unwind().await;
        let mut response = answered.unwrap_or_else(|_| {
            tracing::error!("a request handler panicked");
            let refusal = Refusal::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                FaultCode::Internal,
                "a defect of tsugi: the handler of this request panicked",
            );
            face::fault::refuse(Style::Rpc, &refusal)
        });
        if version == Version::HTTP_11 && self.drain.is_draining() {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    async fn dispatch(self: &Arc<Self>, mut request: Request<Incoming>) -> Response<Body> {
        let upgrade = face::ws::upgrade_of(&mut request);
        let (parts, body) = request.into_parts();
        let found = route::find(&parts.method, parts.uri.path());
        let style = match &found {
            Found::Route(entry, _) => entry.style,
            Found::OtherVerb(style, _) => *style,
            Found::Nothing => Style::Rest,
        };
        let principal = match self.guard.admit(&parts) {
            Ok(principal) => principal,
            Err(refusal) => return face::fault::refuse(style, &refusal),
        };
        let (entry, segments) = match found {
            Found::Route(entry, segments) => (entry, segments),
            Found::OtherVerb(_, verbs) => return other_verb(style, &verbs),
            Found::Nothing => return face::fault::refuse(style, &no_such_path()),
        };
        let Some(busy) = self.drain.enter() else { return face::fault::refuse(style, &draining()) };
        let asked = face::Asked { gateway: self, principal, parts: &parts, busy, upgrade };
        let answered = self.answer(asked, entry, segments, body).await;
        answered.unwrap_or_else(|refusal| face::fault::refuse(style, &refusal))
    }

    async fn answer(
        &self,
        asked: face::Asked<'_>,
        entry: &'static Entry,
        segments: Segments<'_>,
        body: Incoming,
    ) -> Result<Response<Body>, Refusal> {
        Ok(match entry.route {
            Route::McpPost | Route::McpGet | Route::McpDelete => {
                let (endpoint, place) = self.endpoint(segments.first())?;
                face::mcp::serve(entry.route, asked, endpoint, place, body).await?
            }
            Route::Sse => face::sse::open(&asked, self.backend.all())?,
            Route::SseMessages => face::sse::post(&asked, asked.json_body(body).await?)?,
            Route::Rpc => {
                let bytes = asked.json_body(body).await?;
                face::rpc::post(asked, self.backend.all(), bytes).await
            }
            Route::WebSocket => face::ws::open(asked, self.backend.all())?,
            Route::Healthz => face::http::text(StatusCode::OK, "ok\n"),
        })
    }

    /// Everything together, or one server and its name.
    fn endpoint(&self, server: Option<&str>) -> Result<(Endpoint, Option<String>), Refusal> {
        let Some(server) = server else { return Ok((self.backend.all(), None)) };
        let name = percent_encoding::percent_decode_str(server).decode_utf8_lossy();
        match self.backend.server(&name) {
            Some(endpoint) => Ok((endpoint, Some(name.into_owned()))),
            None => Err(Refusal::new(
                StatusCode::NOT_FOUND,
                FaultCode::ServerNotFound,
                format!("there is no server {name:?}"),
            )),
        }
    }
}

impl Handle {
    /// Where it listens, in the order of the configuration.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The first address, as the beginning of a URL: `http://127.0.0.1:7600`.
    pub fn url(&self) -> String {
        format!("http://{}", self.addresses[0])
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

fn refuse_exposure(config: &Config) -> Result<(), StartError> {
    if !config.keys.is_empty() || config.exposure == Exposure::Insecure {
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

fn no_such_path() -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, FaultCode::InvalidRequest, "there is nothing at this address")
}

fn draining() -> Refusal {
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, FaultCode::Draining, "the gateway is shutting down")
        .retry_after(Duration::from_secs(1))
}

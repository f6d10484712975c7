//! Pooled connections to one HTTP server, plain or TLS, each HTTP/1 connection driven by the call that uses it.
//!
//! hyper-util's client gives every connection a task, sends each request through a channel to it, and spawns another
//! task to find out when the connection is free again. Here the caller that waits for a response also moves the bytes,
//! and the connection returns to the pool with the end of the response body. Only HTTP/2, which a server chooses
//! during the TLS handshake, needs a task: many calls share that connection.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::task::AtomicWaker;
use http::header::{Entry, HOST};
use http::uri::PathAndQuery;
use http::{HeaderValue, Request, Response, Uri};
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::client::legacy::connect::Connection as _;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use parking_lot::Mutex;

use super::connector::{BoxError, UpstreamConnector, UpstreamStream};
use crate::error::TransportError;

/// How long an unused connection is kept.
const IDLE: Duration = Duration::from_secs(60);
/// How many unused connections are kept.
const KEPT: usize = 256;
/// How many steps are made at once before other tasks get their turn.
const STEPS: usize = 8;
/// How often unused connections are checked, so that those closed by the server do not stay half open.
const SWEEP: Duration = Duration::from_secs(10);

type OutgoingRequest = Request<Full<Bytes>>;
type Http1Connection = http1::Connection<UpstreamStream, Full<Bytes>>;
type Http2Sender = http2::SendRequest<Full<Bytes>>;

/// The connections to one server.
#[derive(Debug)]
pub(super) struct ConnectionPool {
    connector: UpstreamConnector,
    idle: Mutex<IdleConnections>,
}

/// Connections that can take a request now.
#[derive(Debug, Default)]
struct IdleConnections {
    http1: Vec<IdleConnection>,
    /// Not idle in the strict sense: it takes new requests while others are in flight.
    http2: Option<SharedConnection>,
    /// Whether the sweeping task runs: consecutive calls empty and fill the list each time, and each would start one.
    is_swept: bool,
}

#[derive(Debug)]
struct IdleConnection {
    connection: PooledConnection,
    since: Instant,
}

#[derive(Debug)]
struct SharedConnection {
    sender: Http2Sender,
    last_used: Instant,
}

/// A new connection in the protocol that the server chose.
enum NewConnection {
    Http1(PooledConnection),
    Http2(Http2Sender),
}

/// One HTTP/1 connection with its driver.
#[derive(Debug)]
struct PooledConnection {
    sender: http1::SendRequest<Full<Bytes>>,
    driver: ConnectionDriver,
    wakeups: Arc<StepWaker>,
    /// Wakes through `wakeups`.
    waker: Waker,
}

/// Moves the bytes of a connection until it ends. It is dropped as soon as it is done: only then does hyper return a
/// request that was queued and never taken.
#[derive(Debug)]
struct ConnectionDriver(Option<Pin<Box<Http1Connection>>>);

impl ConnectionDriver {
    fn turn(&mut self, context: &mut Context<'_>) {
        // The call that waits for the response learns how the connection ended; nothing is lost here.
        if self.0.as_mut().is_some_and(|driver| driver.as_mut().poll(context).is_ready()) {
            self.0 = None;
        }
    }

    fn is_over(&self) -> bool {
        self.0.is_none()
    }
}

/// Wakes the task that uses a connection, except while that task polls it: the two ends of a connection wake each
/// other at every step, and the same task polls both.
#[derive(Debug, Default)]
struct StepWaker {
    task: AtomicWaker,
    is_polling: AtomicBool,
    was_woken: AtomicBool,
}

impl Wake for StepWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.was_woken.store(true, Ordering::SeqCst);
        if !self.is_polling.load(Ordering::SeqCst) {
            self.task.wake();
        }
    }
}

impl StepWaker {
    /// Polls `step` for this task until it makes no progress.
    fn poll<T>(&self, waker: &Waker, task: &Context<'_>, mut step: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
        self.task.register(task.waker());
        let mut context = Context::from_waker(waker);
        for _ in 0..STEPS {
            self.was_woken.store(false, Ordering::SeqCst);
            self.is_polling.store(true, Ordering::SeqCst);
            let polled = step(&mut context);
            self.is_polling.store(false, Ordering::SeqCst);
            // A wake-up during the step reached no task, so it must be answered with another step.
            if polled.is_ready() || !self.was_woken.load(Ordering::SeqCst) {
                return polled;
            }
        }
        // Still making progress: yield to the other tasks and continue afterwards.
        task.waker().wake_by_ref();
        Poll::Pending
    }
}

impl PooledConnection {
    async fn handshake(stream: UpstreamStream) -> hyper::Result<Self> {
        let (sender, driver) = http1::handshake(stream).await?;
        let wakeups = Arc::<StepWaker>::default();
        let waker = Waker::from(wakeups.clone());
        Ok(Self { sender, driver: ConnectionDriver(Some(Box::pin(driver))), wakeups, waker })
    }

    /// Whether it can take a request now.
    fn is_free(&mut self) -> bool {
        // Driving it once shows whether the server has closed it.
        self.driver.turn(&mut Context::from_waker(Waker::noop()));
        !self.driver.is_over() && self.sender.is_ready()
    }
}

impl SharedConnection {
    fn is_usable(&self) -> bool {
        !self.sender.is_closed() && self.last_used.elapsed() < IDLE
    }
}

impl ConnectionPool {
    pub(super) fn new(connector: UpstreamConnector) -> Arc<Self> {
        Arc::new(Self { connector, idle: Mutex::default() })
    }

    /// Sends a request and returns the head of its response. An idle connection that closed before it took the request
    /// is not a failure: nothing was sent, so another connection may take it.
    pub(super) async fn send(
        self: &Arc<Self>,
        mut request: OutgoingRequest,
    ) -> Result<Response<DrivenBody>, TransportError> {
        let uri = request.uri().clone();
        let broken = |failure| broken(&uri, failure);
        if let Some(mut sender) = self.shared() {
            match exchange_shared(&mut sender, &uri, request).await {
                Ok(response) => return Ok(response),
                Err((_, Some(unsent))) => request = unsent,
                Err(failure) => return Err(broken(failure)),
            }
        }
        // The server may have closed any idle connection by now, so they are tried in turn.
        while let Some(mut connection) = self.take() {
            match exchange(&mut connection, &uri, request).await {
                Ok(response) => return Ok(self.driven(response, connection)),
                Err((_, Some(unsent))) => request = unsent,
                Err(failure) => return Err(broken(failure)),
            }
        }
        match self.connect(&uri).await? {
            NewConnection::Http1(mut connection) => match exchange(&mut connection, &uri, request).await {
                Ok(response) => Ok(self.driven(response, connection)),
                Err(failure) => Err(broken(failure)),
            },
            NewConnection::Http2(sender) => {
                let mut sender = self.share(sender);
                exchange_shared(&mut sender, &uri, request).await.map_err(broken)
            }
        }
    }

    async fn connect(&self, uri: &Uri) -> Result<NewConnection, TransportError> {
        let refused = |error: BoxError| TransportError::connect(host_of(uri), &*error);
        let stream = self.connector.connect(uri.clone()).await.map_err(refused)?;
        let broke = |error: hyper::Error| TransportError::broke(host_of(uri), &error, true);
        if !stream.connected().is_negotiated_h2() {
            return PooledConnection::handshake(stream).await.map(NewConnection::Http1).map_err(broke);
        }
        let mut builder = http2::Builder::new(TokioExecutor::new());
        let (sender, driver) = builder.timer(TokioTimer::new()).handshake(stream).await.map_err(broke)?;
        // It ends with the last sender and the last response, so it needs no parent that waits for it.
        tokio::spawn(async move {
            let _ = driver.await;
        });
        Ok(NewConnection::Http2(sender))
    }

    /// The HTTP/2 connection, if there is one.
    fn shared(&self) -> Option<Http2Sender> {
        let mut idle = self.idle.lock();
        let shared = idle.http2.as_mut().filter(|shared| shared.is_usable())?;
        shared.last_used = Instant::now();
        Some(shared.sender.clone())
    }

    /// Makes a new HTTP/2 connection the one for all calls. Calls that start together connect together: the first one
    /// to get here wins, and the connections of the others close.
    fn share(self: &Arc<Self>, sender: Http2Sender) -> Http2Sender {
        let mut idle = self.idle.lock();
        if let Some(shared) = idle.http2.as_mut().filter(|shared| shared.is_usable()) {
            return shared.sender.clone();
        }
        idle.http2 = Some(SharedConnection { sender: sender.clone(), last_used: Instant::now() });
        self.start_sweep(&mut idle);
        sender
    }

    /// The most recently used connection that can take a request.
    fn take(&self) -> Option<PooledConnection> {
        loop {
            // The lock is free again before the connection is polled below.
            let IdleConnection { mut connection, since } = self.idle.lock().http1.pop()?;
            if since.elapsed() < IDLE && connection.is_free() {
                return Some(connection);
            }
        }
    }

    fn driven(self: &Arc<Self>, response: Response<Incoming>, connection: PooledConnection) -> Response<DrivenBody> {
        let pool = Arc::downgrade(self);
        response.map(|body| {
            let mut body = DrivenBody { body, connection: Some(connection), pool };
            // An empty body is never polled, so its end would not be noticed.
            if body.is_end_stream() {
                body.release();
            }
            body
        })
    }

    /// Takes a connection back whose response was read to the end.
    fn give_back(self: &Arc<Self>, mut connection: PooledConnection) {
        if !connection.is_free() {
            return;
        }
        let mut idle = self.idle.lock();
        if idle.http1.len() >= KEPT {
            return;
        }
        idle.http1.push(IdleConnection { connection, since: Instant::now() });
        self.start_sweep(&mut idle);
    }

    fn start_sweep(self: &Arc<Self>, idle: &mut IdleConnections) {
        if !std::mem::replace(&mut idle.is_swept, true) {
            tokio::spawn(sweep(Arc::downgrade(self)));
        }
    }

    /// Drops connections that are too old or were closed by the server; `false` when none is left.
    fn drop_unusable(&self) -> bool {
        let mut idle = self.idle.lock();
        idle.http1.retain_mut(|idle| idle.since.elapsed() < IDLE && idle.connection.is_free());
        idle.http2 = idle.http2.take().filter(SharedConnection::is_usable);
        // Decided under the lock, so a connection that returns later starts a new sweep.
        idle.is_swept = !idle.http1.is_empty() || idle.http2.is_some();
        idle.is_swept
    }
}

/// Checks idle connections while there are any.
async fn sweep(pool: Weak<ConnectionPool>) {
    loop {
        tokio::time::sleep(SWEEP).await;
        if !pool.upgrade().is_some_and(|pool| pool.drop_unusable()) {
            return;
        }
    }
}

/// An error, and the request if it was certainly not sent.
type ExchangeFailure = (hyper::Error, Option<OutgoingRequest>);

fn broken(uri: &Uri, (error, unsent): ExchangeFailure) -> TransportError {
    TransportError::broke(host_of(uri), &error, unsent.is_none())
}

fn host_of(uri: &Uri) -> &str {
    uri.host().unwrap_or("the server")
}

/// Sends a request on an HTTP/1 connection and moves bytes until the head of the response is there.
async fn exchange(
    connection: &mut PooledConnection,
    uri: &Uri,
    mut request: OutgoingRequest,
) -> Result<Response<Incoming>, ExchangeFailure> {
    to_origin_form(&mut request, uri);
    let PooledConnection { sender, driver, wakeups, waker } = connection;
    let mut answer = std::pin::pin!(sender.try_send_request(request));
    std::future::poll_fn(|task| {
        wakeups.poll(waker, task, |context| {
            // The driver first: what it reads may complete the answer in the same step.
            driver.turn(context);
            answer.as_mut().poll(context)
        })
    })
    .await
    .map_err(|mut error| {
        let unsent = error.take_message();
        (error.into_error(), unsent)
    })
}

/// Sends a request on an HTTP/2 connection, whose own task moves the bytes.
async fn exchange_shared(
    sender: &mut Http2Sender,
    uri: &Uri,
    mut request: OutgoingRequest,
) -> Result<Response<DrivenBody>, ExchangeFailure> {
    // HTTP/2 sends scheme and authority as fields of their own, which hyper takes from the absolute form.
    *request.uri_mut() = uri.clone();
    match sender.try_send_request(request).await {
        Ok(response) => Ok(response.map(|body| DrivenBody { body, connection: None, pool: Weak::new() })),
        Err(mut error) => {
            let unsent = error.take_message();
            Err((error.into_error(), unsent))
        }
    }
}

/// The request as an HTTP/1 server expects it: the path alone, the host in a header
/// ([RFC 9112](https://www.rfc-editor.org/rfc/rfc9112#name-origin-form)).
fn to_origin_form(request: &mut OutgoingRequest, uri: &Uri) {
    let path = uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    *request.uri_mut() = path.into();
    if let Entry::Vacant(entry) = request.headers_mut().entry(HOST)
        && let Some(host) = uri.authority().and_then(|host| HeaderValue::from_str(host.as_str()).ok())
    {
        entry.insert(host);
    }
}

/// The body of a response, which moves its connection's bytes when it is read. Dropping it before its end closes an
/// HTTP/1 connection and resets an HTTP/2 stream.
#[derive(Debug)]
pub(super) struct DrivenBody {
    body: Incoming,
    /// `None` on HTTP/2, and once the connection is back in the pool.
    connection: Option<PooledConnection>,
    pool: Weak<ConnectionPool>,
}

impl DrivenBody {
    /// Returns the connection to the pool.
    fn release(&mut self) {
        if let (Some(connection), Some(pool)) = (self.connection.take(), self.pool.upgrade()) {
            pool.give_back(connection);
        }
    }
}

impl Body for DrivenBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = &mut *self;
        let frame = match &mut this.connection {
            None => Pin::new(&mut this.body).poll_frame(context),
            Some(PooledConnection { driver, wakeups, waker, .. }) => wakeups.poll(waker, context, |context| {
                driver.turn(context);
                Pin::new(&mut this.body).poll_frame(context)
            }),
        };
        let frame = std::task::ready!(frame);
        if frame.is_none() || self.body.is_end_stream() {
            self.release();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests;

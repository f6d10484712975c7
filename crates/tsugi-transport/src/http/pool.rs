//! Pooled connections to one HTTP server, plain or TLS, each HTTP/1 connection driven by the call that uses it.
//!
//! The caller that waits for a response also moves the bytes, and the connection returns to the pool with the end of the
//! response body. Only HTTP/2, which a server chooses during the TLS handshake, needs a task: many calls share that
//! connection.

use std::error::Error;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body::{Body, Frame};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::client::legacy::connect::Connection as _;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use parking_lot::Mutex;

use super::connector::{BoxError, UpstreamConnector};
use super::http1::{ArrivingBody, Http1Wire, OutgoingMessage, ResponseHead};
use crate::error::TransportError;

/// How long an unused connection is kept.
const IDLE: Duration = Duration::from_secs(60);
/// How many unused connections are kept.
const KEPT: usize = 256;
/// How often unused connections are checked, so that those closed by the server do not stay half open.
const SWEEP: Duration = Duration::from_secs(10);

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
    /// Boxed: the state of TLS is large, and connections move.
    wire: Box<Http1Wire>,
    since: Instant,
}

#[derive(Debug)]
struct SharedConnection {
    sender: Http2Sender,
    last_used: Instant,
}

/// A new connection in the protocol that the server chose.
enum NewConnection {
    Http1(Box<Http1Wire>),
    Http2(Http2Sender),
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
        message: OutgoingMessage<'_>,
    ) -> Result<Response<DrivenBody>, TransportError> {
        if let Some(mut sender) = self.shared() {
            // Boxed, as is a new connection below: a call on an idle connection needs no room for them.
            match Box::pin(exchange_shared(&mut sender, message)).await {
                Ok(response) => return Ok(response),
                Err(failure) if failure.may_be_sent => return Err(failure),
                Err(_) => {}
            }
        }
        // The server may have closed any idle connection by now, so they are tried in turn.
        while let Some(mut wire) = self.take() {
            match wire.exchange(message).await {
                Ok(head) => return Ok(self.driven(head, wire)),
                Err(failure) if failure.may_be_sent => return Err(broken(message.uri, &failure.error, true)),
                Err(_) => {}
            }
        }
        Box::pin(self.send_on_new(message)).await
    }

    async fn send_on_new(
        self: &Arc<Self>,
        message: OutgoingMessage<'_>,
    ) -> Result<Response<DrivenBody>, TransportError> {
        match self.connect(message.uri).await? {
            NewConnection::Http1(mut wire) => match wire.exchange(message).await {
                Ok(head) => Ok(self.driven(head, wire)),
                Err(failure) => Err(broken(message.uri, &failure.error, failure.may_be_sent)),
            },
            NewConnection::Http2(sender) => exchange_shared(&mut self.share(sender), message).await,
        }
    }

    async fn connect(&self, uri: &Uri) -> Result<NewConnection, TransportError> {
        let refused = |error: BoxError| TransportError::connect(host_of(uri), &*error);
        let stream = self.connector.connect(uri.clone()).await.map_err(refused)?;
        if !stream.connected().is_negotiated_h2() {
            return Ok(NewConnection::Http1(Box::new(Http1Wire::new(stream))));
        }
        let mut builder = http2::Builder::new(TokioExecutor::new());
        let shaking = builder.timer(TokioTimer::new()).handshake(stream).await;
        let (sender, driver) = shaking.map_err(|error| broken(uri, &error, true))?;
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

    /// The most recently used connection. Whether it is still open shows when it is used.
    fn take(&self) -> Option<Box<Http1Wire>> {
        let mut idle = self.idle.lock();
        loop {
            let IdleConnection { wire, since } = idle.http1.pop()?;
            if since.elapsed() < IDLE {
                return Some(wire);
            }
        }
    }

    fn driven(self: &Arc<Self>, head: ResponseHead, wire: Box<Http1Wire>) -> Response<DrivenBody> {
        let body = BodySource::Http1(ArrivingBody::new(wire, head.framing, head.is_kept));
        let mut body = DrivenBody { source: body, pool: Arc::downgrade(self) };
        // An empty body is never polled, so its end would not be noticed.
        body.release_at_end();
        let mut response = Response::new(body);
        *response.status_mut() = head.status;
        *response.headers_mut() = head.headers;
        response
    }

    /// Takes a connection back whose response was read to the end.
    fn give_back(self: &Arc<Self>, wire: Box<Http1Wire>) {
        let mut idle = self.idle.lock();
        if idle.http1.len() >= KEPT {
            return;
        }
        idle.http1.push(IdleConnection { wire, since: Instant::now() });
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
        idle.http1.retain_mut(|idle| idle.since.elapsed() < IDLE && idle.wire.is_silent());
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

fn broken(uri: &Uri, error: &(dyn Error + 'static), may_be_sent: bool) -> TransportError {
    TransportError::broke(host_of(uri), error, may_be_sent)
}

fn host_of(uri: &Uri) -> &str {
    uri.host().unwrap_or("the server")
}

/// Sends a request on an HTTP/2 connection, whose own task moves the bytes.
async fn exchange_shared(
    sender: &mut Http2Sender,
    message: OutgoingMessage<'_>,
) -> Result<Response<DrivenBody>, TransportError> {
    let mut request = Request::new(Full::new(message.body.clone()));
    *request.method_mut() = message.method.clone();
    // HTTP/2 sends scheme and authority as fields of their own, which hyper takes from the absolute form.
    *request.uri_mut() = message.uri.clone();
    *request.headers_mut() = message.headers.clone();
    match sender.try_send_request(request).await {
        Ok(response) => Ok(response.map(|body| DrivenBody { source: BodySource::Http2(body), pool: Weak::new() })),
        Err(mut error) => {
            // hyper returns the request if it was certainly not sent.
            let may_be_sent = error.take_message().is_none();
            Err(broken(message.uri, &error.into_error(), may_be_sent))
        }
    }
}

/// The body of a response, which moves its connection's bytes when it is read. Dropping it before its end closes an
/// HTTP/1 connection and resets an HTTP/2 stream.
#[derive(Debug)]
pub(super) struct DrivenBody {
    source: BodySource,
    pool: Weak<ConnectionPool>,
}

#[derive(Debug)]
enum BodySource {
    Http1(ArrivingBody),
    Http2(Incoming),
    /// The connection is back in the pool.
    Over,
}

impl DrivenBody {
    /// The length that the server announced, unless the body has to be read in pieces.
    pub(super) fn announced(&self) -> Option<u64> {
        match &self.source {
            BodySource::Http1(body) => body.announced(),
            BodySource::Http2(_) => None,
            BodySource::Over => Some(0),
        }
    }

    /// Reads all of it at once, as long as it was announced to be.
    pub(super) async fn whole(&mut self, length: usize) -> Result<Bytes, BoxError> {
        let BodySource::Http1(body) = &mut self.source else { return Ok(Bytes::new()) };
        let whole = poll_fn(|context| body.poll_whole(length, context)).await?;
        self.release_at_end();
        Ok(whole)
    }

    /// Returns the connection to the pool, once the body was read.
    fn release_at_end(&mut self) {
        if !matches!(&self.source, BodySource::Http1(body) if body.is_over()) {
            return;
        }
        if let BodySource::Http1(body) = std::mem::replace(&mut self.source, BodySource::Over)
            && let (Some(wire), Some(pool)) = (body.into_wire(), self.pool.upgrade())
        {
            pool.give_back(wire);
        }
    }
}

impl Body for DrivenBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = match &mut self.source {
            BodySource::Over => None,
            BodySource::Http2(body) => {
                ready!(Pin::new(body).poll_frame(context)).map(|frame| frame.map_err(Into::into))
            }
            BodySource::Http1(body) => {
                let piece = ready!(body.poll_piece(context));
                piece.map(|piece| piece.map(Frame::data).map_err(Into::into))
            }
        };
        self.release_at_end();
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            BodySource::Over => true,
            BodySource::Http1(body) => body.is_over(),
            BodySource::Http2(body) => body.is_end_stream(),
        }
    }
}

#[cfg(test)]
mod tests;

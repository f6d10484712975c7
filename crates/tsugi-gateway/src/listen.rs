//! Sockets: bind, accept, and serve each connection until it ends or we do.

mod client_stream;
mod handshake;
mod long_stream;
mod redirect;

use std::convert::Infallible;
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::FutureExt;
use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::audit::{AuditEvent, ClientAddress};
use crate::config::{GatewayConfig, GatewayLimits};
use crate::drain::DrainState;
use crate::gateway::{Gateway, StartError};
use crate::guard::certificate::PeerCertificate;
use client_stream::ClientStream;
use handshake::{HandshakeError, HandshakeRoom};
use long_stream::{DetachableSocket, DetachedStream};
use tsugi_rt::header_timeout::HeaderTimeout;
use tsugi_rt::wake_filter::FilteredWaker;
use tsugi_tls::server::ServerTls;

/// How long after an accept error the next try comes: out of files, most often.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How long the other side of a connection may neither read nor answer.
#[cfg(target_os = "linux")]
const STALL: Duration = tsugi_protocol::codec::InputLimits::STALL;
/// How many the system's queue of connections may hold at most.
const QUEUE: usize = 4096;
/// How long a connection that was just opened may take to say what it wants when we close.
const FIRST_WORD: Duration = Duration::from_millis(200);

/// What all connections share.
pub(crate) struct ConnectionAcceptor {
    gateway: Arc<Gateway>,
    room: Arc<Semaphore>,
    handshakes: HandshakeRoom,
}

/// What is spoken at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListenerKind {
    /// Everything that the gateway offers, under TLS where it is configured.
    Gateway,
    /// Redirects to the TLS address.
    Redirect,
}

impl ConnectionAcceptor {
    pub(crate) fn new(gateway: Arc<Gateway>) -> Self {
        let handshakes = HandshakeRoom::new(gateway.config().limits.connections);
        Self { room: gateway.connections().clone(), gateway, handshakes }
    }

    /// Accepts until we close. While draining, new connections are accepted and answered with 503, unless the socket is
    /// shared with a successor process.
    pub(crate) async fn accept(self: Arc<Self>, listener: TcpListener, kind: ListenerKind) {
        let closing = self.gateway.drain().not_accepting();
        loop {
            let accepted = tokio::select! {
                accepted = self.next(&listener) => accepted,
                () = closing.cancelled() => break,
            };
            match accepted {
                Ok((stream, permit)) => self.begin(kind, stream, permit),
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        if self.gateway.config().inherited.is_none() {
            self.serve_queued(listener, kind);
        }
    }

    /// Serves the connections that wait in the system's queue: closing it would reset them.
    fn serve_queued(self: Arc<Self>, listener: TcpListener, kind: ListenerKind) {
        let Ok(listener) = listener.into_std() else { return };
        for _ in 0..QUEUE {
            let (Ok(permit), Ok((stream, _))) = (self.room.clone().try_acquire_owned(), listener.accept()) else {
                return;
            };
            if stream.set_nonblocking(true).is_ok()
                && let Ok(stream) = TcpStream::from_std(stream)
            {
                self.begin(kind, stream, permit);
            }
        }
    }

    /// Serves a connection in a task of its own.
    fn begin(self: &Arc<Self>, kind: ListenerKind, stream: TcpStream, permit: OwnedSemaphorePermit) {
        let tasks = self.gateway.tasks();
        match (kind, &self.gateway.config().tls) {
            (ListenerKind::Redirect, _) => tasks.spawn(redirect::serve(self.gateway.clone(), stream, permit)),
            (ListenerKind::Gateway, None) => tasks.spawn(self.clone().serve(ClientStream::Plain(stream), None, permit)),
            (ListenerKind::Gateway, Some(tls)) => tasks.spawn(self.clone().secure(tls.clone(), stream, permit)),
        };
    }

    /// Shakes hands, and then serves the connection in another task, which has no room for the handshake.
    async fn secure(self: Arc<Self>, tls: Arc<ServerTls>, stream: TcpStream, permit: OwnedSemaphorePermit) {
        // Not known any more once the handshake has failed.
        let address = stream.peer_addr().ok();
        let secured = tokio::select! {
            secured = self.handshakes.secure(&tls, stream) => secured,
            () = self.too_late() => return,
        };
        match secured {
            Ok((stream, certificate)) => {
                self.gateway.metrics().tls_handshake("ok");
                let stream = ClientStream::Tls(Box::new(stream));
                self.gateway.tasks().spawn(self.clone().serve(stream, certificate.map(Arc::new), permit));
            }
            Err(error) => self.report_handshake(&error, address),
        }
    }

    fn report_handshake(&self, error: &HandshakeError, address: Option<SocketAddr>) {
        self.gateway.metrics().tls_handshake(error.label());
        if !error.is_credential() {
            return tracing::debug!(%error, "a TLS handshake failed");
        }
        tracing::info!(target: "tsugi_access", rule = "certificate", %error, "refused a certificate");
        if let Some(trail) = self.gateway.metrics().audit() {
            let address = address.map(|address| address.ip().to_string());
            trail.note(&AuditEvent::CredentialRefused { address: address.as_deref() });
        }
    }

    /// Ends when a connection that is still open must be cut off.
    async fn too_late(&self) {
        let drain = self.gateway.drain();
        drain.closing().cancelled().await;
        tokio::time::sleep_until(drain.end()).await;
    }

    async fn next(&self, listener: &TcpListener) -> std::io::Result<(TcpStream, OwnedSemaphorePermit)> {
        let permit = self.room.clone().acquire_owned().await.expect("the semaphore is never closed");
        let (stream, _) = listener.accept().await?;
        // A small answer must not wait for the acknowledgment of the one before.
        stream.set_nodelay(true)?;
        set_dead_peer_timeout(&stream)?;
        Ok((stream, permit))
    }

    async fn serve(
        self: Arc<Self>,
        stream: ClientStream,
        certificate: Option<Arc<PeerCertificate>>,
        permit: OwnedSemaphorePermit,
    ) {
        let gateway = &self.gateway;
        let limits = &gateway.config().limits;
        let clock = HeaderTimeout::start(limits.head_timeout);
        let is_used = AtomicBool::new(false);
        // A socket that is gone already has no address; its request will not be answered either.
        let peer = stream.peer_addr().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |address| address.ip());
        // In the request only where it is written down: it takes room there.
        let address = gateway.metrics().audit().map(|_| peer);
        let socket = DetachableSocket::new(stream);
        let service = service_fn(|mut request: Request<Incoming>| {
            if let Some(address) = address {
                request.extensions_mut().insert(ClientAddress(address));
            }
            if let Some(certificate) = &certificate {
                request.extensions_mut().insert(certificate.clone());
            }
            clock.stop();
            is_used.store(true, Ordering::Relaxed);
            // Not in an `async` block, which would have room for it twice and copy it from one to the other.
            let pass_on = socket.pass_on(request.version());
            gateway.clone().handle(request, peer).then(pass_on).map(Ok::<_, Infallible>)
        });
        let http = builder(limits, &clock);
        let connection = http.serve_connection_with_upgrades(TokioIo::new(socket.clone()), service);
        tokio::pin!(connection);
        let ended = match serve_until(connection.as_mut(), &socket, &clock, gateway.drain()).await {
            ServeEnd::Ended(ended) => ended,
            ServeEnd::Late => return,
            ServeEnd::Detached(stream, response) => {
                // In a task of its own, so that this one can end and give back what hyper holds.
                gateway.tasks().spawn(self.clone().stream(stream, response, permit));
                return;
            }
            ServeEnd::Closing => {
                // Nothing looks for detached streams from here on.
                socket.stop_detaching();
                // A client that has not sent a request yet gets an error that we stop, once it has.
                let patience = if is_used.load(Ordering::Relaxed) { Duration::ZERO } else { FIRST_WORD };
                if tokio::time::timeout(patience, connection.as_mut()).await.is_ok() {
                    return;
                }
                connection.as_mut().graceful_shutdown();
                match tokio::time::timeout_at(gateway.drain().end(), connection).await {
                    Ok(ended) => ended,
                    Err(_) => return,
                }
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection broke");
        }
    }
}

impl ConnectionAcceptor {
    /// Writes a long stream to its end. While we close, it has as much time as any other connection.
    async fn stream(self: Arc<Self>, stream: ClientStream, response: DetachedStream, _permit: OwnedSemaphorePermit) {
        tokio::select! {
            () = response.run(stream) => {}
            () = self.too_late() => {}
        }
    }
}

/// What comes first for a connection.
enum ServeEnd<T> {
    /// It ended.
    Ended(T),
    /// It was silent for too long.
    Late,
    /// It has become a long stream.
    Detached(ClientStream, DetachedStream),
    /// We close.
    Closing,
}

/// Serves a connection until one of these. It is written out, since waiting for the signal to close takes a lock
/// that all connections share: it is waited for once, and then only looked at.
async fn serve_until<C: Future>(
    mut connection: Pin<&mut C>,
    socket: &DetachableSocket,
    clock: &HeaderTimeout,
    drain: &DrainState,
) -> ServeEnd<C::Output> {
    // One timer per connection, and not one per request.
    let mut late = std::pin::pin!(clock.is_late());
    let mut closing = std::pin::pin!(drain.closing().cancelled());
    let mut is_waiting = false;
    let (mut task, mut ear) = (Waker::noop().clone(), Waker::noop().clone());
    std::future::poll_fn(|context| {
        if !task.will_wake(context.waker()) {
            task.clone_from(context.waker());
            ear = FilteredWaker::of(&task);
        }
        if let Poll::Ready(ended) = connection.as_mut().poll(&mut Context::from_waker(&ear)) {
            return Poll::Ready(ServeEnd::Ended(ended));
        }
        if let Some((stream, response)) = socket.take_detached() {
            return Poll::Ready(ServeEnd::Detached(stream, response));
        }
        if late.as_mut().poll(context).is_ready() {
            return Poll::Ready(ServeEnd::Late);
        }
        if (!std::mem::replace(&mut is_waiting, true) || drain.is_closing())
            && closing.as_mut().poll(context).is_ready()
        {
            return Poll::Ready(ServeEnd::Closing);
        }
        Poll::Pending
    })
    .await
}

fn builder(limits: &GatewayLimits, clock: &HeaderTimeout) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    // The number of headers stays at hyper's own limit of 100: setting it costs an allocation per request.
    builder.http1().timer(clock.clone()).header_read_timeout(limits.head_timeout).max_buf_size(limits.head);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(limits.head as u32)
        .max_concurrent_streams(256)
        .keep_alive_interval(Duration::from_secs(30));
    builder
}

/// Makes the system end connections whose other side vanished without a word or does not read: nothing is
/// held for them for longer than this.
#[cfg(target_os = "linux")]
fn set_dead_peer_timeout(stream: &TcpStream) -> std::io::Result<()> {
    use rustix::net::sockopt;
    sockopt::set_tcp_user_timeout(stream, STALL.as_millis() as u32)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, STALL)?;
    sockopt::set_tcp_keepintvl(stream, STALL / 3)?;
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn set_dead_peer_timeout(_stream: &TcpStream) -> std::io::Result<()> {
    Ok(())
}

/// Takes the inherited socket, or binds all addresses or none.
pub(crate) async fn bind(config: &GatewayConfig) -> Result<Vec<TcpListener>, StartError> {
    if let Some(inherited) = &config.inherited {
        let taken = inherited.try_clone().and_then(TcpListener::from_std);
        return taken.map(|listener| vec![listener]).map_err(StartError::Inherited);
    }
    bind_all(&config.listen).await
}

/// Binds all addresses or none.
pub(crate) async fn bind_all(addresses: &[SocketAddr]) -> Result<Vec<TcpListener>, StartError> {
    let mut listeners = Vec::with_capacity(addresses.len());
    for &address in addresses {
        let bound = TcpListener::bind(address).await;
        listeners.push(bound.map_err(|error| StartError::Bind { address, error })?);
    }
    Ok(listeners)
}

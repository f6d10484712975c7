//! An HTTP proxy for one sandboxed program: `CONNECT` tunnels and plain requests, to listed hosts only.
//!
//! Its listening socket was opened inside the network namespace of the program, and is the only thing there that leads
//! anywhere. What is not listed is refused before its name is looked up, so that lookups carry nothing out either.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, HOST, HeaderName, HeaderValue};
use http::uri::{Authority, PathAndQuery};
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1 as client;
use hyper::server::conn::http1 as server;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, Semaphore};
use tokio::task::JoinSet;

use super::list::EgressList;
use crate::address::{AddressClass, classify, is_metadata_name};
use crate::guard::{OutboundGuard, TargetHost, connect, find};
use crate::refusal::{DialError, OutboundRefusal};

/// Connections of one program at a time.
const MOST_CONNECTIONS: usize = 256;
/// How long a program may take to send the head of a request.
const HEAD_LIMIT: Duration = Duration::from_secs(30);
/// How long looking up and connecting may take.
const DIAL_LIMIT: Duration = Duration::from_secs(10);

/// Headers that concern one connection, not the request ([RFC 9110](https://www.rfc-editor.org/rfc/rfc9110#section-7.6.1)).
const HOP_BY_HOP: [&str; 8] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "trailer",
    "upgrade",
];

/// An attempt to leave the sandbox that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EgressRefusal {
    /// The server whose program it was.
    pub server: String,
    pub host: String,
    pub port: u16,
    pub refusal: OutboundRefusal,
}

/// Learns of every refusal.
pub type RefusalObserver = Arc<dyn Fn(&EgressRefusal) + Send + Sync>;

type ProxyBody = BoxBody<Bytes, hyper::Error>;

/// Connects one program to the hosts on its list.
#[derive(Clone)]
pub struct EgressProxy {
    server: Arc<str>,
    list: Arc<EgressList>,
    guard: OutboundGuard,
    observer: Option<RefusalObserver>,
}

/// The two ends of a tunnel, once both are there.
struct TunnelEnds {
    program: OnUpgrade,
    host: TcpStream,
}

impl std::fmt::Debug for EgressProxy {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("EgressProxy").field("server", &self.server).field("list", &self.list).finish()
    }
}

impl EgressProxy {
    /// A proxy for the program of `server`. Addresses behind listed names must pass `guard`.
    pub fn new(server: &str, list: EgressList, guard: OutboundGuard) -> Self {
        Self { server: server.into(), list: list.into(), guard, observer: None }
    }

    /// The same proxy, with an observer of refusals.
    pub fn with_observer(self, observer: RefusalObserver) -> Self {
        Self { observer: Some(observer), ..self }
    }

    /// Serves the program until it is dropped, and with it every connection.
    pub async fn serve(self, listener: TcpListener) {
        let mut connections = JoinSet::new();
        let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
        loop {
            let Ok(place) = places.clone().acquire_owned().await else { return };
            let Ok((stream, _)) = listener.accept().await else {
                // The program exhausted a resource; trying again at once would only burn the processor.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let proxy = self.clone();
            connections.spawn(async move {
                proxy.serve_connection(stream).await;
                drop(place);
            });
            while connections.try_join_next().is_some() {}
        }
    }

    async fn serve_connection(self, stream: TcpStream) {
        // The tunnel is handed out of the service and carried here, so that it ends with this task.
        let tunnel = Arc::new(Mutex::new(None));
        let service = service_fn(|request| {
            let (proxy, tunnel) = (&self, tunnel.clone());
            async move { Ok::<_, std::convert::Infallible>(proxy.respond(request, &tunnel).await) }
        });
        let connection = server::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_LIMIT)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        let _ = connection.await;
        let ends: Option<TunnelEnds> = tunnel.lock().await.take();
        if let Some(TunnelEnds { program, mut host }) = ends
            && let Ok(program) = program.await
        {
            let _ = tokio::io::copy_bidirectional(&mut TokioIo::new(program), &mut host).await;
        }
    }

    async fn respond(&self, request: Request<Incoming>, tunnel: &Mutex<Option<TunnelEnds>>) -> Response<ProxyBody> {
        let Some((host, port)) = destination(&request) else {
            return answer(StatusCode::BAD_REQUEST, "this is a proxy: expected CONNECT, or an address with a host");
        };
        let stream = match tokio::time::timeout(DIAL_LIMIT, self.dial(&host, port)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(DialError::Refused(refusal))) => {
                self.report(&host, port, refusal);
                return answer(StatusCode::FORBIDDEN, "the sandbox does not allow this address");
            }
            Ok(Err(error)) => {
                tracing::debug!(server = %self.server, %error, "a sandboxed program could not reach a listed host");
                return answer(StatusCode::BAD_GATEWAY, "the address could not be reached");
            }
            Err(_) => return answer(StatusCode::GATEWAY_TIMEOUT, "the address could not be reached"),
        };
        if request.method() == Method::CONNECT {
            *tunnel.lock().await = Some(TunnelEnds { program: hyper::upgrade::on(request), host: stream });
            return Response::new(empty());
        }
        match forward(request, stream).await {
            Ok(response) => response,
            Err(_) => answer(StatusCode::BAD_GATEWAY, "the host broke off"),
        }
    }

    async fn dial(&self, host: &TargetHost, port: u16) -> Result<TcpStream, DialError> {
        if !self.list.has(host, port) {
            return Err(OutboundRefusal::NotListed { host: host.to_string(), port }.into());
        }
        if let TargetHost::Name(name) = host
            && is_metadata_name(name)
        {
            return Err(OutboundRefusal::MetadataName(name.clone()).into());
        }
        let found = find(self.guard.lookup(), host).await?;
        found.iter().try_for_each(|address| self.check_address(host, *address, port))?;
        let found: Vec<SocketAddr> = found.into_iter().map(|address| SocketAddr::new(address, port)).collect();
        connect(host, &found).await
    }

    /// A listed name may not lead to a private address, unless the list names that address itself or the operator
    /// allows it to everything: a name that did so yesterday may belong to another party today.
    fn check_address(&self, host: &TargetHost, address: IpAddr, port: u16) -> Result<(), OutboundRefusal> {
        let network = match classify(address) {
            AddressClass::Metadata => return Err(OutboundRefusal::MetadataAddress(address)),
            AddressClass::Public => return Ok(()),
            AddressClass::Special(network) => network,
        };
        let allow = &self.guard.rules().allow;
        let is_allowed_name = match host {
            // It means loopback everywhere, so listing it says what is wanted.
            TargetHost::Name(name) if name == "localhost" => {
                address.to_canonical().is_loopback() && self.list.has_exactly(name, port)
            }
            TargetHost::Name(name) => allow.has_host(name),
            TargetHost::Address(_) => false,
        };
        if is_allowed_name || allow.has_address(address) || self.list.has_address(address, port) {
            return Ok(());
        }
        Err(OutboundRefusal::SpecialAddress { address, network })
    }

    fn report(&self, host: &TargetHost, port: u16, refusal: OutboundRefusal) {
        tracing::warn!(
            server = %self.server, host = %host, port, rule = refusal.rule(), reason = %refusal,
            "a sandboxed program was refused an address"
        );
        if let Some(observer) = &self.observer {
            observer(&EgressRefusal { server: self.server.to_string(), host: host.to_string(), port, refusal });
        }
    }
}

/// Where a request is to go: the authority of `CONNECT`, or that of an absolute address. The `Host` header is not
/// asked: the program could name one host there and another in the address.
fn destination(request: &Request<Incoming>) -> Option<(TargetHost, u16)> {
    let uri = request.uri();
    let authority = uri.authority().filter(|authority| !authority.as_str().contains('@'))?;
    let port = match (request.method(), uri.scheme_str()) {
        (&Method::CONNECT, _) => authority.port_u16()?,
        (_, Some("http")) => port_of(authority)?,
        _ => return None,
    };
    Some((TargetHost::parse(authority.host())?, port))
}

/// The port, or that of HTTP where none is written; none if what is written is not a port.
fn port_of(authority: &Authority) -> Option<u16> {
    if authority.port().is_none() { Some(80) } else { authority.port_u16() }
}

/// Sends a plain request to its host and returns the response as it arrives.
async fn forward(request: Request<Incoming>, stream: TcpStream) -> hyper::Result<Response<ProxyBody>> {
    let (mut sender, driver) = client::handshake(TokioIo::new(stream)).await?;
    // It ends with the request's sender and the response's body, which this connection owns.
    tokio::spawn(async move {
        let _ = driver.await;
    });
    let mut response = sender.send_request(to_origin_form(request)).await?;
    strip_hop_by_hop(response.headers_mut());
    Ok(response.map(BodyExt::boxed))
}

/// The request as its host expects it. `Host` is what was checked, not what the program wrote there.
fn to_origin_form(mut request: Request<Incoming>) -> Request<Incoming> {
    let uri = std::mem::take(request.uri_mut());
    let path = uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    *request.uri_mut() = Uri::from(path);
    let headers = request.headers_mut();
    strip_hop_by_hop(headers);
    if let Some(host) = uri.authority().and_then(|host| HeaderValue::from_str(host.as_str()).ok()) {
        headers.insert(HOST, host);
    }
    request
}

fn strip_hop_by_hop(headers: &mut HeaderMap) {
    let listed = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let listed: Vec<HeaderName> =
        listed.flat_map(|value| value.split(',')).flat_map(|name| name.trim().parse()).collect();
    // A program must not strip what says where a message ends.
    let listed = listed.into_iter().filter(|name| name != http::header::CONTENT_LENGTH && name != HOST);
    for name in listed {
        headers.remove(name);
    }
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
}

fn empty() -> ProxyBody {
    Full::new(Bytes::new()).map_err(|never| match never {}).boxed()
}

fn answer(status: StatusCode, sentence: &'static str) -> Response<ProxyBody> {
    let mut response =
        Response::new(Full::new(Bytes::from_static(sentence.as_bytes())).map_err(|never| match never {}).boxed());
    *response.status_mut() = status;
    // A program that was refused has no more to say on this connection, and some clients would wait for it to end.
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response.headers_mut().insert(http::header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

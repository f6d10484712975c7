//! The plain address beside a TLS one: sends readers to HTTPS, and answers an ACME authority where there is one.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST, LOCATION};
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;

use crate::gateway::Gateway;

/// How long a connection may take in all: one request, one answer.
const LIMIT: Duration = Duration::from_secs(10);

/// Answers one request.
pub(super) async fn serve(gateway: Arc<Gateway>, stream: TcpStream, _permit: OwnedSemaphorePermit) {
    let service = service_fn(|request: Request<Incoming>| {
        let answer = answer(&gateway, &request.into_parts().0);
        async { Ok::<_, Infallible>(answer) }
    });
    let mut http = http1::Builder::new();
    http.keep_alive(false).timer(TokioTimer::new()).max_buf_size(gateway.config().limits.head.max(8192));
    // Nothing is lost when it takes too long: nothing was asked of a server.
    let _ = tokio::time::timeout(LIMIT, http.serve_connection(TokioIo::new(stream), service)).await;
}

/// 308 for a reader, so that method and path stay. Anything else has sent its secrets in the clear already: it is refused
/// so that its operator notices, instead of being made to work.
fn answer(gateway: &Gateway, parts: &Parts) -> Response<Full<Bytes>> {
    let is_read = matches!(parts.method, Method::GET | Method::HEAD);
    if let Some(proof) = proof(gateway, parts).filter(|_| is_read) {
        gateway.metrics().request("redirect", StatusCode::OK.as_u16(), proof.len() as u64);
        return Response::new(Full::new(proof.into()));
    }
    // The name that is redirected to must be one of ours.
    let target = gateway.guard().check_origin(parts).ok().and_then(|_| target(gateway, parts));
    let (status, text, location) = match target {
        Some(location) if is_read => (StatusCode::PERMANENT_REDIRECT, "use https\n", Some(location)),
        Some(_) => (StatusCode::FORBIDDEN, "this address only redirects: use https\n", None),
        None => (StatusCode::FORBIDDEN, "this gateway is not known by the name in Host\n", None),
    };
    gateway.metrics().request("redirect", status.as_u16(), text.len() as u64);
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    location.into_iter().for_each(|location| drop(response.headers_mut().insert(LOCATION, location)));
    response
}

/// The text that an ACME authority asks for at this address (RFC 8555 §8.3).
fn proof(gateway: &Gateway, parts: &Parts) -> Option<String> {
    let token = parts.uri.path().strip_prefix("/.well-known/acme-challenge/")?;
    gateway.config().tls.as_ref()?.challenges()?.text(token)
}

/// The same path at the public address, or at the host that was asked for and our own port.
fn target(gateway: &Gateway, parts: &Parts) -> Option<HeaderValue> {
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let base = match gateway.config().public_url.as_ref().filter(|url| url.scheme() == "https") {
        Some(url) => url.origin().ascii_serialization(),
        None => {
            let host = parts.headers.get(HOST)?.to_str().ok()?;
            // An address of IPv6 has colons of its own, within brackets.
            let end = host.rfind(':').filter(|colon| !host[*colon..].contains(']')).unwrap_or(host.len());
            let port = gateway.addresses().first()?.port();
            let suffix = if port == 443 { String::new() } else { format!(":{port}") };
            format!("https://{}{suffix}", &host[..end])
        }
    };
    HeaderValue::try_from(format!("{base}{path}")).ok()
}

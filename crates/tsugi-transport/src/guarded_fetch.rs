//! Fetch small JSON documents from addresses that another party named, through the outbound guard.
//!
//! Every request makes its own connection: the guard checks all addresses behind the name each time, and a connection
//! that was kept would outlive the check. An error prints as one sentence without a cause, since it may reach the party
//! that named the address; the log has the reason.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HOST, LOCATION, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body::Body;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde::de::IgnoredAny;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tsugi_outbound::{DialError, GuardedTarget, OutboundGuard, OutboundRefusal, TargetHost};
use url::form_urlencoded;

use crate::error::chain;
use crate::http::tls_config;

/// The most that the headers of a response may hold.
const HEAD_LIMIT: usize = 64 << 10;
const AGENT: &str = concat!("tsugi/", env!("CARGO_PKG_VERSION"));

/// Fetches JSON from guarded addresses. Cheap to clone.
#[derive(Debug, Clone)]
pub struct GuardedFetch {
    guard: OutboundGuard,
    tls: Arc<ClientConfig>,
}

/// What one fetch may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetchLimits {
    /// Bytes of the body.
    pub bytes: usize,
    /// Redirects that are followed; `post_form` follows none.
    pub redirects: u8,
    /// For everything: lookup, connection, redirects and body.
    pub time: Duration,
}

impl FetchLimits {
    /// Metadata of protected resources and of authorization servers.
    pub const METADATA: Self = Self { bytes: 64 << 10, redirects: 3, time: Duration::from_secs(5) };
    /// A set of keys.
    pub const KEY_SET: Self = Self { bytes: 512 << 10, redirects: 0, time: Duration::from_secs(5) };
    /// A client's metadata document.
    pub const CLIENT_DOCUMENT: Self = Self { bytes: 5 << 10, redirects: 0, time: Duration::from_secs(3) };
    /// An answer of a token, introspection, revocation or registration endpoint.
    pub const TOKEN: Self = Self { bytes: 64 << 10, redirects: 0, time: Duration::from_secs(5) };
}

/// A response whose body is JSON. The status may be one of failure: OAuth says in the body what is wrong.
#[derive(Debug, Clone)]
pub struct FetchedJson {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl FetchedJson {
    /// The body as a type.
    pub fn parse<'a, T: serde::Deserialize<'a>>(&'a self) -> serde_json::Result<T> {
        serde_json::from_slice(&self.body)
    }
}

/// Why nothing was fetched. It prints as one sentence for every cause: use [`reason`](Self::reason) in a log only.
#[derive(Debug, thiserror::Error)]
#[error("the address could not be fetched")]
pub struct FetchError {
    kind: FetchErrorKind,
}

/// Causes that a caller treats differently.
#[derive(Debug, thiserror::Error)]
pub enum FetchErrorKind {
    /// A rule of the guard refused the address, or one that it led to.
    #[error(transparent)]
    Refused(OutboundRefusal),
    #[error("{0}")]
    Unreachable(String),
    #[error("no complete answer within {0:?}")]
    TimedOut(Duration),
    #[error("the answer ({status}) is larger than {limit} bytes")]
    TooLarge { status: StatusCode, limit: usize },
    #[error("the answer ({status}) is not JSON")]
    NotJson { status: StatusCode },
    #[error("a redirect ({status}) is not followed: {why}")]
    Redirected { status: StatusCode, why: &'static str },
}

impl FetchError {
    pub fn kind(&self) -> &FetchErrorKind {
        &self.kind
    }

    /// The cause, for the log. It may describe our own network, so a caller must not see it.
    pub fn reason(&self) -> String {
        self.kind.to_string()
    }

    /// Whether a rule refused the address: then trying again is of no use.
    pub fn is_refused(&self) -> bool {
        matches!(self.kind, FetchErrorKind::Refused(_))
    }

    /// The status, where there was an answer that could not be used. Discovery goes on to the next address after 404.
    pub fn status(&self) -> Option<StatusCode> {
        match self.kind {
            FetchErrorKind::TooLarge { status, .. }
            | FetchErrorKind::NotJson { status }
            | FetchErrorKind::Redirected { status, .. } => Some(status),
            _ => None,
        }
    }
}

impl From<OutboundRefusal> for FetchErrorKind {
    fn from(refusal: OutboundRefusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<DialError> for FetchErrorKind {
    fn from(error: DialError) -> Self {
        match error {
            DialError::Refused(refusal) => Self::Refused(refusal),
            error => Self::Unreachable(error.to_string()),
        }
    }
}

impl GuardedFetch {
    /// Trusts the certificates of the system.
    pub fn new(guard: OutboundGuard) -> Self {
        Self::with_tls(guard, tls_config())
    }

    /// Trusts what this configuration trusts. It must not offer HTTP/2.
    pub fn with_tls(guard: OutboundGuard, tls: Arc<ClientConfig>) -> Self {
        Self { guard, tls }
    }

    /// Gets a document. Redirects are followed as far as the limits say, and each address is checked like the first.
    pub async fn get_json(&self, url: &str, limits: FetchLimits) -> Result<FetchedJson, FetchError> {
        self.within(url, limits, self.get(url, limits)).await
    }

    /// Posts a form and returns the answer. `headers` is for credentials of the client, such as `Authorization`.
    pub async fn post_form(
        &self,
        url: &str,
        form: &[(&str, &str)],
        headers: HeaderMap,
        limits: FetchLimits,
    ) -> Result<FetchedJson, FetchError> {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
        self.within(url, limits, self.post(url, "application/x-www-form-urlencoded", body.into(), headers, limits))
            .await
    }

    /// Posts JSON and returns the answer, as the registration of a client wants it.
    pub async fn post_json(
        &self,
        url: &str,
        body: Bytes,
        headers: HeaderMap,
        limits: FetchLimits,
    ) -> Result<FetchedJson, FetchError> {
        self.within(url, limits, self.post(url, "application/json", body, headers, limits)).await
    }

    /// Sends a request and returns its answer as it is, whatever it holds. Redirects are not followed.
    pub async fn send_bytes(
        &self,
        request: Request<Bytes>,
        limits: FetchLimits,
    ) -> Result<Response<Bytes>, FetchError> {
        let (parts, body) = request.into_parts();
        let url = parts.uri.to_string();
        let sent = async {
            let target = self.guard.parse(&url)?;
            let answer = self.send(&target, self::request(parts.method, &target, body, parts.headers)?).await?;
            read_bytes(answer, limits.bytes).await
        };
        self.within(&url, limits, sent).await
    }

    /// Bounds a fetch in time, and logs why it failed: the error that the caller gets does not say.
    async fn within<T>(
        &self,
        url: &str,
        limits: FetchLimits,
        fetch: impl Future<Output = Result<T, FetchErrorKind>>,
    ) -> Result<T, FetchError> {
        let fetched = tokio::time::timeout(limits.time, fetch).await;
        let kind = match fetched {
            Ok(Ok(fetched)) => return Ok(fetched),
            Ok(Err(kind)) => kind,
            Err(_) => FetchErrorKind::TimedOut(limits.time),
        };
        let host = url::Url::parse(url).ok().and_then(|url| TargetHost::of(&url)).map(|host| host.to_string());
        let rule = if let FetchErrorKind::Refused(refusal) = &kind { Some(refusal.rule()) } else { None };
        tracing::warn!(host, rule, reason = %kind, "an outbound address could not be fetched");
        Err(FetchError { kind })
    }

    async fn get(&self, url: &str, limits: FetchLimits) -> Result<FetchedJson, FetchErrorKind> {
        let mut target = self.guard.parse(url)?;
        for left in (0..=limits.redirects).rev() {
            // A redirect carries no header to the next host, so a request has none but ours.
            let response = self.send(&target, request(Method::GET, &target, Bytes::new(), HeaderMap::new())?).await?;
            if !is_redirect(response.status()) {
                return read_json(response, limits.bytes).await;
            }
            if left == 0 {
                let why = if limits.redirects == 0 { "none is expected here" } else { "there were too many" };
                return Err(FetchErrorKind::Redirected { status: response.status(), why });
            }
            target = self.redirect(&target, &response)?;
        }
        unreachable!("the last round returns")
    }

    async fn post(
        &self,
        url: &str,
        kind: &'static str,
        body: Bytes,
        mut headers: HeaderMap,
        limits: FetchLimits,
    ) -> Result<FetchedJson, FetchErrorKind> {
        let target = self.guard.parse(url)?;
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        let response = self.send(&target, request(Method::POST, &target, body, headers)?).await?;
        if is_redirect(response.status()) {
            // A form holds codes and secrets, which are meant for the host that was asked.
            return Err(FetchErrorKind::Redirected { status: response.status(), why: "a form is not sent on" });
        }
        read_json(response, limits.bytes).await
    }

    /// The address that a response leads to, checked like the first.
    fn redirect(&self, from: &GuardedTarget, response: &Response<Incoming>) -> Result<GuardedTarget, FetchErrorKind> {
        let refused = |why| FetchErrorKind::Redirected { status: response.status(), why };
        let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
        let next = location.and_then(|text| from.url().join(text).ok()).ok_or(refused("it has no usable address"))?;
        let target = self.guard.check(&next)?;
        if from.is_secure() && !target.is_secure() {
            return Err(refused("it leads from https to http"));
        }
        Ok(target)
    }

    async fn send(
        &self,
        target: &GuardedTarget,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, FetchErrorKind> {
        let stream = self.guard.dial(target).await?;
        if !target.is_secure() {
            return exchange(stream, request).await;
        }
        // TLS must prove the name that was asked for, whatever address it led to.
        let name = match target.host() {
            TargetHost::Address(address) => ServerName::from(*address),
            TargetHost::Name(name) => ServerName::try_from(name.clone()).map_err(|error| unreachable(&error))?,
        };
        let stream = TlsConnector::from(self.tls.clone()).connect(name, stream).await;
        exchange(stream.map_err(|error| unreachable(&error))?, request).await
    }
}

fn unreachable(error: &(dyn std::error::Error + 'static)) -> FetchErrorKind {
    FetchErrorKind::Unreachable(chain(error))
}

/// A redirect to another address; 304 is none.
fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

fn request(
    method: Method,
    target: &GuardedTarget,
    body: Bytes,
    headers: HeaderMap,
) -> Result<Request<Full<Bytes>>, FetchErrorKind> {
    let unusable =
        |error: &dyn std::fmt::Display| FetchErrorKind::Unreachable(format!("the address cannot be used: {error}"));
    let path = &target.url()[url::Position::BeforePath..url::Position::AfterQuery];
    let uri: Uri = path.parse().map_err(|error| unusable(&error))?;
    let authority = &target.url()[url::Position::BeforeHost..url::Position::AfterPort];
    let host = HeaderValue::from_str(authority).map_err(|error| unusable(&error))?;
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = method;
    *request.uri_mut() = uri;
    *request.headers_mut() = headers;
    let headers = request.headers_mut();
    headers.insert(HOST, host);
    headers.entry(ACCEPT).or_insert(HeaderValue::from_static("application/json"));
    headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
    Ok(request)
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
) -> Result<Response<Incoming>, FetchErrorKind> {
    let failed = |error: hyper::Error| unreachable(&error);
    let handshake = http1::Builder::new().max_buf_size(HEAD_LIMIT).handshake(TokioIo::new(stream));
    let (mut sender, driver) = handshake.await.map_err(failed)?;
    // It ends with the sender and the body of the response, which the caller owns.
    tokio::spawn(async move {
        let _ = driver.await;
    });
    sender.send_request(request).await.map_err(failed)
}

/// Reads a body of JSON up to the limit.
async fn read_json(response: Response<Incoming>, limit: usize) -> Result<FetchedJson, FetchErrorKind> {
    if !is_json(response.headers()) {
        return Err(FetchErrorKind::NotJson { status: response.status() });
    }
    let (parts, body) = read_bytes(response, limit).await?.into_parts();
    // Checked here once, so that no caller can forget it.
    if serde_json::from_slice::<IgnoredAny>(&body).is_err() {
        return Err(FetchErrorKind::NotJson { status: parts.status });
    }
    Ok(FetchedJson { status: parts.status, headers: parts.headers, body })
}

/// Reads a body up to the limit. What a server announces is believed only when it is too much.
async fn read_bytes(response: Response<Incoming>, limit: usize) -> Result<Response<Bytes>, FetchErrorKind> {
    let (parts, mut body) = response.into_parts();
    let status = parts.status;
    let announced = parts.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|length| length > limit) || body.size_hint().lower() > limit as u64 {
        return Err(FetchErrorKind::TooLarge { status, limit });
    }
    let mut read = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| unreachable(&error))?;
        let Some(data) = frame.data_ref() else { continue };
        if read.len() + data.len() > limit {
            return Err(FetchErrorKind::TooLarge { status, limit });
        }
        read.extend_from_slice(data);
    }
    Ok(Response::from_parts(parts, read.freeze()))
}

/// `application/json`, or a type that is written in it, such as `application/jwk-set+json`.
fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"))
}

#[cfg(test)]
mod tests;

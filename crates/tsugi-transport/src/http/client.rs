//! Requests to one HTTP server: pooled connections, custom headers, and only redirects within the origin.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, Entry, LOCATION};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use tsugi_outbound::OutboundGuard;
use tsugi_protocol::answer::FaultReason;
use tsugi_tls::upstream::UpstreamTlsSettings;
use url::Url;

use super::connector::UpstreamConnector;
use super::credential::{CredentialRefusal, RefusalVerdict, TargetCredential};
use super::http1::OutgoingMessage;
use super::pool::ConnectionPool;
use super::response::HttpResponse;
use crate::error::{TransportError, TransportErrorKind};

const REDIRECT_REFUSED: Option<FaultReason> = Some(FaultReason::RedirectRefused);
/// How many redirects within the origin are followed.
const MAX_REDIRECTS: usize = 3;
/// How often one request is sent with other credentials: a sign-in, a nonce, and a few steps to more scope.
const MAX_REFUSALS: usize = 6;

/// The address of an HTTP server and the headers of every request to it.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpTarget {
    pub url: Url,
    /// The user's headers, such as `Authorization`. They are never sent to another origin.
    pub headers: HeaderMap,
    /// Checks every connection, where the address did not come from the operator.
    pub guard: Option<OutboundGuard>,
    /// How the connections are secured, where the address is `https` or `wss`.
    pub tls: UpstreamTlsSettings,
    /// Credentials that change while the server is in use, such as OAuth tokens.
    pub credential: Option<TargetCredential>,
}

impl HttpTarget {
    /// A server that the operator named, secured as the system does it.
    pub fn new(url: Url, headers: HeaderMap) -> Self {
        Self { url, headers, guard: None, tls: UpstreamTlsSettings::default(), credential: None }
    }

    /// The same server with credentials for its requests.
    pub fn with_credential(self, credential: TargetCredential) -> Self {
        Self { credential: Some(credential), ..self }
    }

    /// A server that another party named: every connection to it passes this guard.
    pub fn guarded(self, guard: OutboundGuard) -> Self {
        Self { guard: Some(guard), ..self }
    }
}

impl std::fmt::Debug for HttpTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Header values may be secrets, and so may a query.
        f.debug_struct("HttpTarget").field("origin", &self.url.origin().ascii_serialization()).finish_non_exhaustive()
    }
}

/// A client for one server. Cheap to clone; clones share the pool.
#[derive(Debug, Clone)]
pub struct HttpClient {
    pool: Arc<ConnectionPool>,
    target: Arc<HttpTarget>,
    /// The address as hyper reads it, parsed once instead of per request; `None` when hyper cannot use it.
    uri: Option<Uri>,
}

impl HttpClient {
    /// A client with a pool of its own. Nothing is connected yet.
    pub fn new(target: HttpTarget) -> Self {
        let connector = UpstreamConnector::new(target.guard.as_ref(), &target.tls);
        Self::with_connector(target, connector)
    }

    pub(super) fn with_connector(target: HttpTarget, connector: UpstreamConnector) -> Self {
        Self { pool: ConnectionPool::new(connector), uri: uri_of(&target.url).ok(), target: Arc::new(target) }
    }

    #[cfg(test)]
    pub(super) fn pool(&self) -> &ConnectionPool {
        &self.pool
    }

    /// The address that requests go to.
    pub fn url(&self) -> &Url {
        &self.target.url
    }

    /// The same client for another address of the same origin; `None` for another origin.
    pub fn at(&self, url: Url) -> Option<Self> {
        (url.origin() == self.target.url.origin()).then(|| Self {
            pool: self.pool.clone(),
            uri: uri_of(&url).ok(),
            target: Arc::new(HttpTarget { url, ..(*self.target).clone() }),
        })
    }

    /// Posts one message. `headers` are those of the protocol.
    pub fn post(
        &self,
        message: Bytes,
        headers: HeaderMap,
    ) -> impl Future<Output = Result<HttpResponse, TransportError>> {
        self.send(Method::POST, message, headers)
    }

    /// Opens a stream of events.
    pub async fn get(&self, headers: HeaderMap) -> Result<HttpResponse, TransportError> {
        self.send(Method::GET, Bytes::new(), headers).await
    }

    pub async fn delete(&self, headers: HeaderMap) -> Result<HttpResponse, TransportError> {
        self.send(Method::DELETE, Bytes::new(), headers).await
    }

    async fn send(&self, method: Method, body: Bytes, mut headers: HeaderMap) -> Result<HttpResponse, TransportError> {
        self.add_headers(&method, &mut headers);
        match &self.target.credential {
            None => self.exchange(&method, &body, &headers).await,
            // Boxed: every call would have room for what it takes to sign in.
            Some(credential) => Box::pin(self.send_authorized(credential, &method, &body, &headers)).await,
        }
    }

    /// Sends a request with credentials, and once more whenever a refusal got better ones. A server that answers 401 or
    /// 403 has not acted on the request.
    async fn send_authorized(
        &self,
        credential: &TargetCredential,
        method: &Method,
        body: &Bytes,
        headers: &HeaderMap,
    ) -> Result<HttpResponse, TransportError> {
        for round in 1.. {
            let used = credential.authorize(method, self.url()).await?;
            let mut headers = headers.clone();
            headers.extend(used.headers);
            let response = self.exchange(method, body, &headers).await?;
            let is_refused = matches!(response.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
            if !is_refused || round > MAX_REFUSALS {
                return Ok(response);
            }
            let refusal =
                CredentialRefusal { status: response.status, headers: &response.headers, generation: used.generation };
            if credential.refused(refusal).await? == RefusalVerdict::GiveUp {
                return Ok(response);
            }
        }
        unreachable!("the last round returns")
    }

    async fn exchange(
        &self,
        method: &Method,
        body: &Bytes,
        headers: &HeaderMap,
    ) -> Result<HttpResponse, TransportError> {
        let mut uri = self.uri.clone().map_or_else(|| uri_of(self.url()), Ok)?;
        // Only a redirect needs a `Url`, which is costly to build.
        let mut moved: Option<Url> = None;
        for _ in 0..=MAX_REDIRECTS {
            let url = moved.as_ref().unwrap_or_else(|| self.url());
            let response = self.pool.send(OutgoingMessage { method, uri: &uri, headers, body }).await?;
            match redirect(url, response.status(), response.headers())? {
                Some(next) => {
                    uri = uri_of(&next)?;
                    moved = Some(next);
                }
                None => return Ok(HttpResponse::new(response)),
            }
        }
        Err(TransportError::unsent(TransportErrorKind::Protocol, format!("more than {MAX_REDIRECTS} redirects")))
    }

    /// Adds to the headers of the protocol those of the user, and to them our defaults.
    fn add_headers(&self, method: &Method, headers: &mut HeaderMap) {
        for name in self.target.headers.keys() {
            if let Entry::Vacant(entry) = headers.entry(name) {
                // A name may have several values, and `keys` lists it once.
                let mut values = self.target.headers.get_all(name).iter().cloned();
                let Some(first) = values.next() else { continue };
                let mut entry = entry.insert_entry(first);
                values.for_each(|value| entry.append(value));
            }
        }
        headers.entry(ACCEPT).or_insert_with(|| accept_for(method));
        if method == Method::POST {
            headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/json"));
        }
    }
}

fn uri_of(url: &Url) -> Result<Uri, TransportError> {
    let mut url = url.clone();
    // Neither `Host` nor `:authority` may carry a user's name or password.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.as_str().parse().map_err(|error| {
        TransportError::unsent(TransportErrorKind::Connect, format!("the address cannot be used: {error}"))
            .with_reason(Some(FaultReason::InvalidAddress))
    })
}

fn accept_for(method: &Method) -> HeaderValue {
    match *method {
        Method::GET => HeaderValue::from_static("text/event-stream"),
        _ => HeaderValue::from_static("application/json, text/event-stream"),
    }
}

/// The target of a redirect that may be followed: within the origin, and only 307 and 308, which repeat the request
/// as it was. Any other redirect would leak headers or change the meaning.
fn redirect(from: &Url, status: StatusCode, headers: &HeaderMap) -> Result<Option<Url>, TransportError> {
    if !status.is_redirection() || status == StatusCode::NOT_MODIFIED {
        return Ok(None);
    }
    if !matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT) {
        // The others may point at the result of the request, so the server may have acted on it.
        let why = format!("redirect ({status}) that would change the request is not followed");
        return Err(TransportError::sent(TransportErrorKind::Protocol, why).with_reason(REDIRECT_REFUSED));
    }
    let refuse = |why: &str| {
        let error = TransportError::unsent(TransportErrorKind::Protocol, format!("redirect ({status}) {why}"));
        Err(error.with_reason(REDIRECT_REFUSED))
    };
    let target = headers.get(LOCATION).and_then(|value| value.to_str().ok()).and_then(|text| from.join(text).ok());
    match target {
        Some(url) if url.origin() == from.origin() => Ok(Some(url)),
        Some(_) => refuse("to another origin is not followed"),
        None => refuse("without a usable address"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_values_of_a_header_are_sent_and_what_the_protocol_says_wins() {
        let mut headers = HeaderMap::new();
        for (name, value) in [("x-tag", "one"), ("x-tag", "two"), ("mcp-method", "mine"), ("accept", "text/html")] {
            headers.append(name, HeaderValue::from_static(value));
        }
        let client = HttpClient::new(HttpTarget::new("http://localhost/".parse().expect("an address"), headers));
        let mut sent =
            HeaderMap::from_iter([("mcp-method".parse().expect("a name"), HeaderValue::from_static("ping"))]);
        client.add_headers(&Method::POST, &mut sent);
        let all = |name: &str| sent.get_all(name).iter().map(|value| value.to_str().unwrap_or("")).collect::<Vec<_>>();
        assert_eq!(all("x-tag"), ["one", "two"]);
        assert_eq!(all("mcp-method"), ["ping"]);
        assert_eq!((all("accept"), all("content-type")), (vec!["text/html"], vec!["application/json"]));
    }

    #[test]
    fn a_redirect_that_repeats_the_request_counts_as_unsent_and_any_other_does_not() {
        let from: Url = "http://here/mcp".parse().expect("an address");
        let elsewhere = HeaderMap::from_iter([(LOCATION, HeaderValue::from_static("http://there/"))]);
        for (status, may_be_sent) in [(301, true), (302, true), (303, true), (307, false), (308, false)] {
            let status = StatusCode::from_u16(status).expect("a status");
            let refused = redirect(&from, status, &elsewhere).expect_err("another origin");
            assert_eq!(refused.may_be_sent, may_be_sent, "{status}");
        }
    }
}

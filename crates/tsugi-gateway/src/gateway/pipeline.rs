//! The way of every request, stage by stage: check the origin, route, identify, admit, dispatch; and around them the
//! log, the fence against panics, and CORS.

use std::future::Future;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use http::header::{ALLOW, CONNECTION, STRICT_TRANSPORT_SECURITY};
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode, Version};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use tsugi_protocol::answer::{Caller, FaultCode};

use super::{Gateway, draining, panicked};
use crate::audit::{self, AuditEvent, DenialRule};
use crate::body::ResponseBody;
use crate::drain::BusyGuard;
use crate::face::{self, FaceRequest};
use crate::guard::certificate::PeerCertificate;
use crate::guard::principal::Principal;
use crate::guard::refusal::HttpRefusal;
use crate::guard::{api_key, cors};
use crate::route::{self, ErrorStyle, Route, RouteMatch};
use crate::telemetry::access_log::AccessLogEntry;

/// The status that nginx logs, too, for a request whose client left before there was a response.
const CLIENT_LEFT: u16 = 499;

/// What comes with a request beside its head.
struct RequestInput {
    body: Incoming,
    upgrade: Option<OnUpgrade>,
    /// Its id in the log, when there is one.
    request_id: Option<Arc<str>>,
    /// The other end of the connection.
    peer: IpAddr,
}

impl Gateway {
    /// Answers one request. Whatever happens inside, exactly one response comes out.
    pub(crate) fn handle(
        self: Arc<Self>,
        mut request: Request<Incoming>,
        peer: IpAddr,
    ) -> impl Future<Output = Response<ResponseBody>> + Send + 'static {
        let upgrade = face::ws::upgrade_of(&mut request);
        let (parts, body) = request.into_parts();
        // The head is boxed: the future of every request would be larger by its 200 bytes otherwise.
        self.respond(Box::new(parts), body, upgrade, peer)
    }

    /// The stages, and what surrounds them.
    async fn respond(
        self: Arc<Self>,
        parts: Box<Parts>,
        body: Incoming,
        upgrade: Option<OnUpgrade>,
        peer: IpAddr,
    ) -> Response<ResponseBody> {
        let found = route::find(&parts.method, parts.uri.path());
        // Checked once: the stages below refuse by it, and CORS answers by it. Metadata is for every page: it is the same
        // for all, and a client reads it before it has anything else.
        let origin =
            if found.is_metadata() && self.guard.accepts_tokens() { Ok(None) } else { self.guard.check_origin(&parts) };
        if let Ok(Some(page)) = &origin
            && cors::is_preflight(&parts)
        {
            self.metrics.request("preflight", StatusCode::NO_CONTENT.as_u16(), 0);
            return preflight(&parts, page.clone());
        }
        let (mut log, style) = RequestLog::begin(&self, &parts, &found);
        let input = RequestInput { body, upgrade, request_id: log.request_id(), peer };
        let (refused, page) = match origin {
            Ok(page) => (None, page),
            Err(refusal) => (Some(refusal), None),
        };
        let stages = AssertUnwindSafe(self.run_stages(&parts, refused, found, input, &mut log.caller)).catch_unwind();
        // A panic in there breaks this request alone.
        let answered = stages.await.unwrap_or_else(|_| Err(panicked(log.route)));
        let mut response = answered.unwrap_or_else(|refusal| {
            if let Some(rule) = refusal.rule {
                let status = refusal.status.as_u16();
                let policy = refusal.policy.as_ref().map(|policy| &*policy.name);
                tracing::info!(target: "tsugi_access", rule, policy, status, route = log.route, caller = log.caller, "refused a request");
            }
            let challenge = self.guard.challenge(&refusal, parts.uri.path());
            face::fault::refuse(style, &refusal, challenge)
        });
        if let Some(page) = page {
            cors::expose(page, response.headers_mut());
        }
        log.end(&response);
        self.finish(&parts, response)
    }

    /// Identify, admit, dispatch.
    async fn run_stages<'request>(
        self: &'request Arc<Self>,
        parts: &'request Parts,
        refused: Option<HttpRefusal>,
        found: RouteMatch<'request>,
        input: RequestInput,
        caller: &mut String,
    ) -> Result<Response<ResponseBody>, HttpRefusal> {
        refused.map_or(Ok(()), Err)?;
        let principal = self.guard.identify(parts, found.is_open(), input.peer).await;
        let principal = principal.inspect_err(|refusal| self.note_credential(parts, refusal))?;
        if input.request_id.is_some() {
            *caller = principal.identity().to_string();
        }
        let (entry, segments) = match found {
            RouteMatch::Route(entry, segments) => (entry, segments),
            RouteMatch::OtherVerb(style, verbs) => return Ok(other_verb(style, &verbs)),
            RouteMatch::Nothing(_) => return Err(no_such_path()),
        };
        let busy_guard = self.admit(&principal, entry.route, parts);
        let busy_guard =
            busy_guard.inspect_err(|refusal| self.note_denial(principal.caller(), entry.pattern, parts, refusal))?;
        let recorded = self.metrics.audit().map(|_| principal.caller().clone());
        let RequestInput { body, upgrade, request_id, peer } = input;
        let request = FaceRequest { gateway: self, principal, parts, peer, request_id, busy_guard, upgrade };
        let answered = match self.dispatch(request, entry, segments, body) {
            Ok(dispatched) => dispatched.run().await,
            Err(refusal) => Err(refusal),
        };
        if let (Some(caller), Err(refusal)) = (recorded, &answered) {
            self.note_denial(&caller, entry.pattern, parts, refusal);
        }
        answered
    }

    /// Writes down that a credential did not hold. A request without one is only asked for it.
    fn note_credential(&self, parts: &Parts, refusal: &HttpRefusal) {
        let Some(trail) = self.metrics.audit() else { return };
        let address = audit::address_of(parts);
        let address = address.as_deref();
        let is_shown = api_key::has_secret(&parts.headers) || parts.extensions.get::<Arc<PeerCertificate>>().is_some();
        match (&refusal.challenge, refusal.status) {
            (Some(reason), _) => trail.note(&AuditEvent::TokenRefused { address, error: reason.error }),
            (None, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) if is_shown => {
                trail.note(&AuditEvent::CredentialRefused { address });
            }
            _ => {}
        }
    }

    /// Writes down that a known caller was refused.
    fn note_denial(&self, caller: &Caller, route: &str, parts: &Parts, refusal: &HttpRefusal) {
        let Some(trail) = self.metrics.audit() else { return };
        let address = audit::address_of(parts);
        let address = address.as_deref();
        match refusal.status {
            // At the sign-in of the dashboard the credential is in the body.
            StatusCode::UNAUTHORIZED => trail.note(&AuditEvent::CredentialRefused { address }),
            StatusCode::FORBIDDEN => {
                let policy = refusal.policy.as_ref();
                let (code, by) = (refusal.code, policy.map_or(DenialRule::Role, DenialRule::of_policy));
                trail.note(&AuditEvent::RequestDenied { caller, route, address, code, by, policy });
            }
            _ => {}
        }
    }

    /// Decides whether this caller may use this route now. The dashboard and the metrics can be switched off, some keys
    /// may only look, and no request begins once we stop.
    fn admit(&self, principal: &Principal, route: Route, parts: &Parts) -> Result<BusyGuard, HttpRefusal> {
        let is_off = route.is_dashboard() && !self.config.dashboard || route == Route::Metrics && !self.config.metrics;
        let is_off = is_off || route == Route::ResourceMetadata && self.guard.resources().is_none();
        let is_off = is_off || route.is_login() && self.guard.logins().is_none();
        if is_off {
            return Err(no_such_path());
        }
        let is_harmless = route.is_dashboard() || route.is_probe() || route == Route::ResourceMetadata;
        if principal.is_reader() && !is_harmless {
            return Err(HttpRefusal::forbidden(
                "this key may look at the dashboard and touch nothing: sign in with another one",
            )
            .by("role"));
        }
        if matches!(route, Route::WebSocket | Route::Sse) {
            // Browsers open these without a preflight, so that any page of this machine could.
            self.guard.expect_own_page(parts)?;
        }
        match self.drain.enter_request() {
            Some(busy_guard) => Ok(busy_guard),
            // It may be an answer that a running call waits for; the face decides.
            None if matches!(route, Route::McpPost | Route::SseMessages) => Ok(self.drain.join()),
            None => Err(draining()),
        }
    }

    fn finish(&self, parts: &Parts, mut response: Response<ResponseBody>) -> Response<ResponseBody> {
        if parts.version == Version::HTTP_11 && self.drain.is_draining() {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        // Browsers ignore it over plain HTTP, and a proxy in front of us passes it on.
        if self.config.public_url.as_ref().is_some_and(|url| url.scheme() == "https") {
            response.headers_mut().insert(STRICT_TRANSPORT_SECURITY, HeaderValue::from_static("max-age=31536000"));
        }
        if parts.method == Method::HEAD { face::http::head_of(response) } else { response }
    }
}

/// What is counted and logged of a request, even when its client leaves before it is answered.
struct RequestLog<'request> {
    gateway: &'request Gateway,
    verb: &'request str,
    route: &'static str,
    caller: String,
    entry: Option<AccessLogEntry>,
    is_over: bool,
}

impl<'request> RequestLog<'request> {
    fn begin(gateway: &'request Gateway, parts: &'request Parts, found: &RouteMatch<'_>) -> (Self, ErrorStyle) {
        let (route, style) = match found {
            RouteMatch::Route(entry, _) => (entry.pattern, entry.style),
            RouteMatch::OtherVerb(style, _) => ("other verb", *style),
            RouteMatch::Nothing(_) => ("nothing", ErrorStyle::Rest),
        };
        let entry = AccessLogEntry::begin(&parts.headers);
        let verb = parts.method.as_str();
        (Self { gateway, verb, route, caller: String::new(), entry, is_over: false }, style)
    }

    fn request_id(&self) -> Option<Arc<str>> {
        self.entry.as_ref().map(AccessLogEntry::id)
    }

    fn end(mut self, response: &Response<ResponseBody>) {
        self.write(response.status(), response.body().size_hint().exact().unwrap_or(0));
    }

    fn write(&mut self, status: StatusCode, bytes: u64) {
        self.is_over = true;
        self.gateway.metrics.request(self.route, status.as_u16(), bytes);
        if let Some(entry) = self.entry.take() {
            entry.end(self.verb, self.route, &self.caller, status);
        }
    }
}

impl Drop for RequestLog<'_> {
    fn drop(&mut self) {
        // hyper drops the future of a request whose client has left.
        if !self.is_over {
            self.write(StatusCode::from_u16(CLIENT_LEFT).expect("a status has three digits"), 0);
        }
    }
}

/// The answer to a browser that asks whether a page may send a request. Such a question never carries a key.
fn preflight(parts: &Parts, page: HeaderValue) -> Response<ResponseBody> {
    let mut response = face::http::empty(StatusCode::NO_CONTENT);
    cors::allow(&parts.headers, response.headers_mut());
    cors::expose(page, response.headers_mut());
    response
}

fn other_verb(style: ErrorStyle, verbs: &str) -> Response<ResponseBody> {
    let refusal = HttpRefusal::new(
        StatusCode::METHOD_NOT_ALLOWED,
        FaultCode::InvalidRequest,
        format!("this address answers to {verbs}"),
    );
    let mut response = face::fault::refuse(style, &refusal, None);
    let allowed = HeaderValue::from_str(verbs).expect("verbs are plain text");
    response.headers_mut().insert(ALLOW, allowed);
    response
}

fn no_such_path() -> HttpRefusal {
    HttpRefusal::new(StatusCode::NOT_FOUND, FaultCode::InvalidRequest, "there is nothing at this address")
}

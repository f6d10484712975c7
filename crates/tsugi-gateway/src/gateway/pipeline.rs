//! One request on its way in and out: its route, the door, and what is counted and logged of it.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::FutureExt;
use http::header::{ALLOW, CONNECTION};
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode, Version};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use tsugi_protocol::answer::FaultCode;

use super::{Gateway, draining, panicked};
use crate::backend::Endpoint;
use crate::body::ResponseBody;
use crate::face::{self, FaceRequest};
use crate::guard::cors;
use crate::guard::principal::Principal;
use crate::guard::refusal::HttpRefusal;
use crate::route::{self, ErrorStyle, Route, RouteMatch};
use crate::telemetry::access_log;

/// What other servers write, too, for a request whose client left before there was a response.
const CLIENT_LEFT: u16 = 499;

/// What came with a request beside its head.
struct RequestInput {
    body: Incoming,
    upgrade: Option<OnUpgrade>,
    /// Its id in the log, when there is one.
    request_id: Option<Arc<str>>,
}

/// What is counted and logged of a request, also when its client leaves before it is answered.
struct RequestLog<'request> {
    gateway: &'request Gateway,
    verb: &'request str,
    name: &'static str,
    caller: String,
    logged: Option<access_log::AccessLogEntry>,
    is_over: bool,
}

impl RequestLog<'_> {
    fn end(&mut self, status: StatusCode, bytes: u64) {
        self.is_over = true;
        self.gateway.metrics.request(self.name, status.as_u16(), bytes);
        if let Some(logged) = self.logged.take() {
            logged.end(self.verb, self.name, &self.caller, status);
        }
    }
}

impl Drop for RequestLog<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.end(StatusCode::from_u16(CLIENT_LEFT).expect("a status has three digits"), 0);
        }
    }
}

/// Who answers a request that was let in. The busiest face is waited for beside the request; each of the others in a
/// box of its own, since every request would have room for it.
enum RequestHandler<'request> {
    Mcp(Box<FaceRequest<'request>>, Endpoint, Option<String>, Incoming),
    Rare(Pin<Box<dyn Future<Output = Result<Response<ResponseBody>, HttpRefusal>> + Send + 'request>>),
    Answered(Box<Response<ResponseBody>>),
}

impl Gateway {
    /// Answers one request. Whatever happens inside, exactly one response comes out.
    pub(crate) fn handle(
        self: Arc<Self>,
        mut request: Request<Incoming>,
    ) -> impl Future<Output = Response<ResponseBody>> + Send + 'static {
        let upgrade = face::ws::upgrade_of(&mut request);
        let (parts, body) = request.into_parts();
        self.respond(Box::new(parts), body, upgrade)
    }

    async fn respond(
        self: Arc<Self>,
        parts: Box<Parts>,
        body: Incoming,
        upgrade: Option<OnUpgrade>,
    ) -> Response<ResponseBody> {
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
    ) -> Response<ResponseBody> {
        let origin = self.guard.listed_origin(&parts);
        if let Some(origin) = &origin
            && cors::is_preflight(&parts)
        {
            self.metrics.request("preflight", StatusCode::NO_CONTENT.as_u16(), 0);
            return preflight(&parts, origin.clone());
        }
        let found = route::find(&parts.method, parts.uri.path());
        let (name, style) = match &found {
            RouteMatch::Route(entry, _) => (entry.pattern, entry.style),
            RouteMatch::OtherVerb(style, _) => ("other verb", *style),
            RouteMatch::Nothing => ("nothing", ErrorStyle::Rest),
        };
        let logged = access_log::AccessLogEntry::begin(&parts.headers);
        let request_id = logged.as_ref().map(access_log::AccessLogEntry::id);
        let mut told = RequestLog {
            gateway: self,
            verb: parts.method.as_str(),
            name,
            caller: String::new(),
            logged,
            is_over: false,
        };
        let came = RequestInput { body, upgrade, request_id };
        let answering = AssertUnwindSafe(self.authenticate(&parts, found, came, &mut told.caller)).catch_unwind();
        // Whatever breaks in there breaks this request alone.
        let answered = answering.await.unwrap_or_else(|_| Err(panicked(name)));
        let mut response = answered.unwrap_or_else(|refusal| face::fault::refuse(style, &refusal));
        if let Some(origin) = origin {
            cors::expose(origin, response.headers_mut());
        }
        let bytes = response.body().size_hint().exact().unwrap_or(0);
        told.end(response.status(), bytes);
        response
    }

    /// Asks the door, and answers whoever is let in. Says who that is where there is a log.
    async fn authenticate<'request>(
        self: &'request Arc<Self>,
        parts: &'request Parts,
        found: RouteMatch<'request>,
        came: RequestInput,
        caller: &mut String,
    ) -> Result<Response<ResponseBody>, HttpRefusal> {
        let principal = match found.is_open() {
            true => self.guard.admit_guest(parts).await?,
            false => self.guard.admit(parts).await?,
        };
        if came.request_id.is_some() {
            principal.caller().principal().clone_into(caller);
        }
        match self.select_handler(principal, parts, found, came)? {
            RequestHandler::Mcp(asked, endpoint, place, body) => face::mcp::post(asked, endpoint, place, body).await,
            RequestHandler::Rare(answering) => answering.await,
            RequestHandler::Answered(response) => Ok(*response),
        }
    }

    /// Finds out who answers. Nothing here waits, so that nothing of it is carried along while somebody does.
    fn select_handler<'request>(
        self: &'request Arc<Self>,
        principal: Principal,
        parts: &'request Parts,
        found: RouteMatch<'request>,
        came: RequestInput,
    ) -> Result<RequestHandler<'request>, HttpRefusal> {
        let (entry, segments) = match found {
            RouteMatch::Route(entry, segments) => (entry, segments),
            RouteMatch::OtherVerb(style, verbs) => {
                return Ok(RequestHandler::Answered(Box::new(other_verb(style, &verbs))));
            }
            RouteMatch::Nothing => return Err(no_such_path()),
        };
        self.expect_allowed(&principal, entry.route)?;
        let busy = match self.drain.enter_request() {
            Some(busy) => busy,
            // It may be what a running call waits for; the face looks.
            None if matches!(entry.route, Route::McpPost | Route::SseMessages) => self.drain.join(),
            None => return Err(draining()),
        };
        let RequestInput { body, upgrade, request_id } = came;
        let asked = FaceRequest { gateway: self, principal, parts, request_id, busy_guard: busy, upgrade };
        if entry.route == Route::McpPost {
            let (endpoint, place) = self.endpoint(segments.first())?;
            return Ok(RequestHandler::Mcp(Box::new(asked), endpoint, place, body));
        }
        Ok(RequestHandler::Rare(Box::pin(self.answer(asked, entry, segments, body))))
    }

    /// The dashboard and the numbers can be switched off, and some keys are for nothing but looking.
    fn expect_allowed(&self, principal: &Principal, route: Route) -> Result<(), HttpRefusal> {
        let is_off = route.is_dashboard() && !self.config.dashboard || route == Route::Metrics && !self.config.metrics;
        if is_off {
            return Err(no_such_path());
        }
        let is_harmless = route.is_dashboard() || route.is_probe();
        if principal.is_reader() && !is_harmless {
            return Err(HttpRefusal::forbidden(
                "this key may look at the dashboard and touch nothing: sign in with another one",
            ));
        }
        Ok(())
    }
}

/// The answer to a browser that asks whether a page may ask. It never carries a key.
fn preflight(parts: &Parts, origin: HeaderValue) -> Response<ResponseBody> {
    let mut response = face::http::empty(StatusCode::NO_CONTENT);
    cors::allow(&parts.headers, response.headers_mut());
    cors::expose(origin, response.headers_mut());
    response
}

fn other_verb(style: ErrorStyle, verbs: &str) -> Response<ResponseBody> {
    let refusal = HttpRefusal::new(
        StatusCode::METHOD_NOT_ALLOWED,
        FaultCode::InvalidRequest,
        format!("this address answers to {verbs}"),
    );
    let mut response = face::fault::refuse(style, &refusal);
    let allowed = HeaderValue::from_str(verbs).expect("verbs are plain text");
    response.headers_mut().insert(ALLOW, allowed);
    response
}

fn no_such_path() -> HttpRefusal {
    HttpRefusal::new(StatusCode::NOT_FOUND, FaultCode::InvalidRequest, "there is nothing at this address")
}

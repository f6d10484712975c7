//! One request on its way in and out: its route, the door, and what is counted and logged of it.

use std::future::Future;
use std::panic::AssertUnwindSafe;
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
use crate::body::Body;
use crate::face;
use crate::guard::cors;
use crate::guard::principal::Principal;
use crate::guard::refusal::Refusal;
use crate::route::{self, Found, Route, Style};
use crate::telemetry::access_log;

/// Who was let in, and what came with the request.
struct Admitted {
    principal: Principal,
    request_id: Option<Arc<str>>,
    upgrade: Option<OnUpgrade>,
}

impl Gateway {
    /// Answers one request. Whatever happens inside, exactly one response comes out.
    pub(crate) fn handle(
        self: Arc<Self>,
        mut request: Request<Incoming>,
    ) -> impl Future<Output = Response<Body>> + Send + 'static {
        let upgrade = face::ws::upgrade_of(&mut request);
        let (parts, body) = request.into_parts();
        self.finished(Box::new(parts), body, upgrade)
    }

    async fn finished(
        self: Arc<Self>,
        parts: Box<Parts>,
        body: Incoming,
        upgrade: Option<OnUpgrade>,
    ) -> Response<Body> {
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
    ) -> Response<Body> {
        let origin = self.guard.listed_origin(&parts);
        if let Some(origin) = &origin
            && cors::is_preflight(&parts)
        {
            self.metrics.request("preflight", StatusCode::NO_CONTENT.as_u16(), 0);
            return preflight(&parts, origin.clone());
        }
        let logged = access_log::Entry::begin(&parts.headers);
        let found = route::find(&parts.method, parts.uri.path());
        let (name, style) = match &found {
            Found::Route(entry, _) => (entry.pattern, entry.style),
            Found::OtherVerb(style, _) => ("other verb", *style),
            Found::Nothing => ("nothing", Style::Rest),
        };
        let request_id = logged.as_ref().map(access_log::Entry::id);
        let answering = AssertUnwindSafe(self.let_in(&parts, found, body, upgrade, request_id)).catch_unwind();
        // Whatever breaks in there breaks this request alone.
        let (caller, answered) = answering.await.unwrap_or_else(|_| (String::new(), Err(panicked(name))));
        let mut response = answered.unwrap_or_else(|refusal| face::fault::refuse(style, &refusal));
        if let Some(origin) = origin {
            cors::expose(origin, response.headers_mut());
        }
        let bytes = response.body().size_hint().exact().unwrap_or(0);
        self.metrics.request(name, response.status().as_u16(), bytes);
        if let Some(logged) = logged {
            logged.end(parts.method.as_str(), name, &caller, response.status());
        }
        response
    }

    /// Asks the door, and answers whoever is let in. Says who that is where there is a log.
    async fn let_in(
        self: &Arc<Self>,
        parts: &Parts,
        found: Found<'_>,
        body: Incoming,
        upgrade: Option<OnUpgrade>,
        request_id: Option<Arc<str>>,
    ) -> (String, Result<Response<Body>, Refusal>) {
        let admitted = match &found {
            Found::Route(entry, _) if entry.route.is_open() => self.guard.admit_guest(parts).await,
            _ => self.guard.admit(parts).await,
        };
        let principal = match admitted {
            Ok(principal) => principal,
            Err(refusal) => return (String::new(), Err(refusal)),
        };
        let caller = match request_id {
            Some(_) => principal.caller().principal().to_owned(),
            None => String::new(),
        };
        (caller, self.admitted(Admitted { principal, request_id, upgrade }, parts, found, body).await)
    }

    async fn admitted(
        self: &Arc<Self>,
        admitted: Admitted,
        parts: &Parts,
        found: Found<'_>,
        body: Incoming,
    ) -> Result<Response<Body>, Refusal> {
        let Admitted { principal, request_id, upgrade } = admitted;
        let (entry, segments) = match found {
            Found::Route(entry, segments) => (entry, segments),
            Found::OtherVerb(style, verbs) => return Ok(other_verb(style, &verbs)),
            Found::Nothing => return Err(no_such_path()),
        };
        self.expect_allowed(&principal, entry.route)?;
        let busy = match self.drain.enter_request() {
            Some(busy) => busy,
            // It may be what a running call waits for; the face looks.
            None if matches!(entry.route, Route::McpPost | Route::SseMessages) => self.drain.join(),
            None => return Err(draining()),
        };
        // In a box: it is handed down through everything that waits, and each of those would have room for it twice.
        let asked = Box::new(face::Asked { gateway: self, principal, parts, request_id, busy, upgrade });
        self.answer(asked, entry, segments, body).await
    }

    /// The dashboard and the numbers can be switched off, and some keys are for nothing but looking.
    fn expect_allowed(&self, principal: &Principal, route: Route) -> Result<(), Refusal> {
        let is_off = route.is_dashboard() && !self.config.dashboard || route == Route::Metrics && !self.config.metrics;
        if is_off {
            return Err(no_such_path());
        }
        let is_harmless = route.is_dashboard() || route.is_probe();
        if principal.is_only_looking() && !is_harmless {
            return Err(Refusal::forbidden(
                "this key may look at the dashboard and touch nothing: sign in with another one",
            ));
        }
        Ok(())
    }
}

/// The answer to a browser that asks whether a page may ask. It never carries a key.
fn preflight(parts: &Parts, origin: HeaderValue) -> Response<Body> {
    let mut response = face::http::empty(StatusCode::NO_CONTENT);
    cors::allow(&parts.headers, response.headers_mut());
    cors::expose(origin, response.headers_mut());
    response
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

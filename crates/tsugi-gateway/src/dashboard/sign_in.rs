//! Signing in and out, and who one is.

use ::http::header::{CACHE_CONTROL, SET_COOKIE};
use ::http::{HeaderValue, Response, StatusCode};
use bytes::Bytes;
use serde_json::{Value, json};

use super::overview;
use super::viewer::DashboardViewer;
use crate::audit::{self, AuditEvent};
use crate::backend::BoardViewer;
use crate::body::ResponseBody;
use crate::face::{FaceRequest, http};
use crate::gateway::Gateway;
use crate::guard::principal::Principal;
use crate::guard::refusal::HttpRefusal;

/// `GET /api/session`
pub(crate) fn show(asked: &FaceRequest<'_>) -> Response<ResponseBody> {
    let session = asked.principal.session();
    let csrf = session.and_then(|session| asked.gateway.guard().csrf(&session));
    let mut told = describe(asked.gateway, &asked.principal, csrf.as_deref());
    // A page that opens needs both, and one question less is one picture sooner.
    if asked.parts.uri.query() == Some("overview") && !asked.principal.is_guest() {
        told["overview"] = json!(overview::overview_of(&DashboardViewer::of(asked)));
    }
    give(told, None)
}

/// `POST /api/session`
pub(crate) fn sign_in(asked: &FaceRequest<'_>, body: &Bytes) -> Result<Response<ResponseBody>, HttpRefusal> {
    let guard = asked.gateway.guard();
    if !guard.asks_for_keys() {
        return Ok(show(asked));
    }
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let key = body["key"].as_str().ok_or_else(|| HttpRefusal::bad_request("the body must be {\"key\":\"…\"}"))?;
    let (principal, signed_in) = guard.sign_in(key.trim(), asked.parts, asked.peer)?;
    tracing::info!(caller = %principal.identity(), "signed in at the dashboard");
    if let Some(trail) = asked.gateway.metrics().audit() {
        let address = audit::address_of(asked.parts);
        trail.note(&AuditEvent::SignedIn { caller: principal.caller(), address: address.as_deref() });
    }
    let body = describe(asked.gateway, &principal, Some(&signed_in.csrf));
    Ok(give(body, Some(signed_in.set_cookie())))
}

/// `DELETE /api/session`
pub(crate) fn sign_out(asked: &FaceRequest<'_>) -> Response<ResponseBody> {
    let guard = asked.gateway.guard();
    let mut provider = None;
    if let Some(session) = asked.principal.session() {
        provider = guard.sign_out(&session);
        if let Some(trail) = asked.gateway.metrics().audit() {
            trail.note(&AuditEvent::SignedOut { caller: asked.principal.caller() });
        }
    }
    let left = if guard.asks_for_keys() { Principal::guest() } else { Principal::anonymous() };
    let mut told = describe(asked.gateway, &left, None);
    // The page leads the browser there: the person may still be signed in at the provider.
    told["logout"] = json!(provider.as_deref());
    give(told, Some(guard.clear_cookie(asked.parts)))
}

fn describe(gateway: &Gateway, principal: &Principal, csrf: Option<&str>) -> Value {
    let is_in = !principal.is_guest();
    let access = gateway.guard().access(principal.caller());
    let backend = gateway.backend();
    let has_pm = is_in && backend.board_changes(BoardViewer::Caller(principal.caller())).is_some();
    let control = backend.control().filter(|control| principal.is_admin() && control.allows_changes());
    json!({
        "authRequired": gateway.guard().asks_for_keys(),
        "signedIn": is_in,
        "role": principal.role(),
        "readOnly": principal.is_reader(),
        "name": is_in.then(|| principal.identity().short_name()),
        "csrf": csrf,
        "providers": if is_in { json!([]) } else { providers(gateway) },
        "version": env!("CARGO_PKG_VERSION"),
        "pm": has_pm && access.allows_some_of("pm"),
        "audit": principal.is_admin() && gateway.metrics().audit().is_some(),
        "allowAdd": control.is_some(),
        "allowCommands": control.is_some_and(|control| control.allows_commands()),
    })
}

/// Where a person can sign in without a key.
fn providers(gateway: &Gateway) -> Value {
    let Some(logins) = gateway.guard().logins() else { return json!([]) };
    let shown = |(label, address): (&str, String)| json!({"label": label, "address": address});
    logins.providers().map(shown).collect()
}

fn give(body: Value, cookie: Option<String>) -> Response<ResponseBody> {
    let mut response = http::json(StatusCode::OK, ResponseBody::one(body.to_string().into()));
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(cookie) = cookie {
        headers.insert(SET_COOKIE, HeaderValue::try_from(cookie).expect("a cookie of ours is plain text"));
    }
    response
}

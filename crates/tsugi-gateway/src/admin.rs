//! Control over HTTP: the servers, their state and their logs, for administrators.

use ::http::{Response, StatusCode};
use bytes::Bytes;
use serde_json::{Value, json};
use tsugi_policy::question::{NameKind, PolicyAction};
use tsugi_protocol::answer::{Fault, FaultCode};
use tsugi_protocol::json::RawJson;

use crate::audit::AuditEvent;
use crate::backend::{ServerCommand, ServerControl};
use crate::body::ResponseBody;
use crate::face::fault::RestFault;
use crate::face::{FaceRequest, http};
use crate::guard::policy::{PolicyRequest, RequestOrigin};
use crate::guard::refusal::HttpRefusal;

/// How many lines of a log are given unless asked otherwise.
const LINES: usize = 100;

/// Refuses callers that may not control.
pub(crate) fn expect_admin(asked: &FaceRequest<'_>) -> Result<(), HttpRefusal> {
    match asked.principal.is_admin() {
        true => Ok(()),
        false => Err(HttpRefusal::forbidden("this needs an admin key").by("role")),
    }
}

/// Refuses an order that the policy keeps from an administrator.
pub(crate) fn expect_policy(
    asked: &FaceRequest<'_>,
    action: PolicyAction,
    server: &str,
    order: &str,
    arguments: Option<RawJson>,
) -> Result<(), HttpRefusal> {
    let Some(gate) = asked.gateway.guard().policy() else { return Ok(()) };
    let origin = RequestOrigin::by("control", asked.policy_address());
    let (caller, kind) = (asked.principal.caller(), NameKind::Order);
    let question = PolicyRequest { caller, action, kind, server, name: order, arguments, origin };
    gate.expect(&question).map_err(|rule| HttpRefusal::forbidden("this caller may not do this").by_policy(rule))
}

/// `GET /servers`
pub(crate) fn servers(control: &dyn ServerControl) -> Response<ResponseBody> {
    give(json!({"servers": control.servers()}))
}

/// `POST /servers`
pub(crate) async fn add(control: &dyn ServerControl, bytes: &Bytes) -> Response<ResponseBody> {
    match serde_json::from_slice::<Value>(bytes) {
        Ok(definition) => {
            let added = control.add(definition).await;
            tell(added.map(|(server, kept)| json!({"success": true, "server": server, "kept": kept})))
        }
        Err(error) => {
            let fault = Fault::new(FaultCode::InvalidParams, format!("the body is not JSON: {error}"));
            RestFault::from(&fault).response()
        }
    }
}

/// `DELETE /servers/{name}`
pub(crate) async fn remove(control: &dyn ServerControl, name: &str) -> Response<ResponseBody> {
    tell(control.remove(&decode(name)).await.map(|kept| json!({"success": true, "kept": kept})))
}

/// `POST /servers/{name}/{start,stop,restart}`
pub(crate) async fn order(control: &dyn ServerControl, name: &str, order: ServerCommand) -> Response<ResponseBody> {
    let ordered = control.order(&decode(name), order).await;
    tell(ordered.map(|server| json!({"success": true, "server": server})))
}

/// `GET /servers/{name}/logs`
pub(crate) fn log(asked: &FaceRequest<'_>, control: &dyn ServerControl, name: &str) -> Response<ResponseBody> {
    let query = asked.parts.uri.query().unwrap_or_default();
    let wanted = url::form_urlencoded::parse(query.as_bytes()).find(|(key, _)| key == "lines");
    let lines = wanted.and_then(|(_, lines)| lines.parse().ok()).unwrap_or(LINES);
    tell(control.log(&decode(name), lines).map(|lines| json!({"lines": lines})))
}

/// Writes an order down, where there is an audit log.
pub(crate) fn note_order(asked: &FaceRequest<'_>, order: &str, name: &str, answered: &Response<ResponseBody>) {
    if let Some(trail) = asked.gateway.metrics().audit() {
        let (caller, server) = (asked.principal.caller(), decode(name));
        let is_done = answered.status().is_success();
        trail.note(&AuditEvent::ServerOrdered { caller, order, server: &server, is_done });
    }
}

/// The name of a server that was posted.
pub(crate) fn added_name(bytes: &Bytes) -> String {
    let definition: Value = serde_json::from_slice(bytes).unwrap_or_default();
    definition["name"].as_str().unwrap_or_default().to_owned()
}

pub(crate) fn decode(segment: &str) -> String {
    percent_encoding::percent_decode_str(segment).decode_utf8_lossy().into_owned()
}

fn tell(told: Result<Value, Fault>) -> Response<ResponseBody> {
    match told {
        Ok(value) => give(value),
        Err(fault) => RestFault::from(&fault).response(),
    }
}

fn give(value: Value) -> Response<ResponseBody> {
    http::json(StatusCode::OK, ResponseBody::one(value.to_string().into()))
}

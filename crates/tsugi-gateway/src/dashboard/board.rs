//! The board of the project-management server beside its tools: what only people look at, what only people may order,
//! and the way for read-only keys, since every other way to that server can also change something.

mod export;
mod html;
pub(crate) mod html_board;
mod label;
mod time_label;

use ::http::{Response, StatusCode};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tsugi_policy::question::{NameKind, PolicyAction};
use tsugi_protocol::answer::FaultCode;
use tsugi_protocol::json::RawJson;

use super::overview;
use super::viewer::DashboardViewer;
use crate::body::ResponseBody;
use crate::face::{FaceRequest, http};
use crate::guard::policy::{PolicyRequest, RequestOrigin};
use crate::guard::refusal::HttpRefusal;

/// The server whose board it is.
const SERVER: &str = "pm";

/// Reads that cover the whole database and not one caller's part of it.
const WHOLE: [&str; 2] = ["get_state", "verify"];

/// `GET /api/board/{look}?arguments={…}`: what that reading tool or that view of the board answers.
pub(super) async fn show(
    viewer: &DashboardViewer,
    name: &str,
    query: &str,
) -> Result<Response<ResponseBody>, HttpRefusal> {
    if let Some(format) = export::format(name) {
        return export::open(viewer, format, query).await;
    }
    Ok(answer(look(viewer, name, arguments(query)?)?.await))
}

/// `POST /api/board/{order}` with its arguments as the body.
pub(crate) async fn order(
    asked: &FaceRequest<'_>,
    name: &str,
    body: &Bytes,
) -> Result<Response<ResponseBody>, HttpRefusal> {
    let viewer = DashboardViewer::of(asked);
    if viewer.principal.is_reader() || !viewer.sees(SERVER, like(name)) {
        return Err(HttpRefusal::forbidden("this key may not change anything on the board").by("role"));
    }
    asked.gateway.guard().expect_own_page(asked.parts)?;
    let arguments = serde_json::from_slice(body).map_err(|error| not_json("the body", &error))?;
    expect_policy(asked, name, body)?;
    let asking = viewer.backend().board_order(viewer.principal.caller(), name, arguments);
    Ok(answer(asking.ok_or_else(|| no_such_look(name))?.await))
}

/// An order on the board is a call of the tool that does the same.
fn expect_policy(asked: &FaceRequest<'_>, name: &str, body: &Bytes) -> Result<(), HttpRefusal> {
    let Some(gate) = asked.gateway.guard().policy() else { return Ok(()) };
    let question = PolicyRequest {
        caller: asked.principal.caller(),
        action: PolicyAction::CallTool,
        kind: NameKind::Tool,
        server: SERVER,
        name: like(name),
        arguments: RawJson::parse(body.clone()).ok(),
        origin: RequestOrigin::by("control", asked.policy_address()),
    };
    let refusal = || HttpRefusal::forbidden("this key may not change anything on the board");
    gate.expect(&question).map_err(|rule| refusal().by_policy(rule))
}

/// Begins to look, as far as this viewer may.
fn look<'a>(
    viewer: &'a DashboardViewer,
    name: &str,
    arguments: Value,
) -> Result<BoxFuture<'a, Result<Value, Value>>, HttpRefusal> {
    let sees_all = viewer.is_admin() || viewer.principal.is_reader();
    if !viewer.sees(SERVER, like(name)) || (WHOLE.contains(&name) && !sees_all) {
        return Err(HttpRefusal::forbidden("this key does not see that part of the board").by("permit"));
    }
    viewer.backend().board(viewer.looker(), name, arguments).ok_or_else(|| no_such_look(name))
}

/// The tool by which a key's permit is asked: who may not use that tool does not see the same by another way.
fn like(name: &str) -> &str {
    match name {
        "get_board" | "get_needs" | "get_state" | "verify" => "list_tasks",
        "get_crew" => "list_sessions",
        "get_story" => "get_task",
        "get_timeline" => "get_history",
        "send_message" => "add_context",
        other => other,
    }
}

fn answer(told: Result<Value, Value>) -> Response<ResponseBody> {
    match told {
        Ok(told) => overview::give(&told),
        Err(fault) => {
            let body = json!({"success": false, "error": fault}).to_string();
            http::json(StatusCode::UNPROCESSABLE_ENTITY, ResponseBody::one(body.into()))
        }
    }
}

fn arguments(query: &str) -> Result<Value, HttpRefusal> {
    let Some((_, text)) = url::form_urlencoded::parse(query.as_bytes()).find(|(key, _)| key == "arguments") else {
        return Ok(json!({}));
    };
    serde_json::from_str(&text).map_err(|error| not_json("`arguments`", &error))
}

fn not_json(what: &str, error: &serde_json::Error) -> HttpRefusal {
    HttpRefusal::bad_request(format!("{what} is not JSON: {error}"))
}

fn no_such_look(name: &str) -> HttpRefusal {
    let message = format!("there is no board here, or {name:?} is nothing that can be asked of it");
    HttpRefusal::new(StatusCode::NOT_FOUND, FaultCode::ToolNotFound, message)
}

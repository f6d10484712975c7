//! The board for those who may only look: without it a read-only key would see no task, since every other way to the
//! project-management server can also change something.

use ::http::{Response, StatusCode};
use serde_json::{Value, json};
use tsugi_protocol::answer::FaultCode;

use super::look;
use super::viewer::Viewer;
use crate::body::Body;
use crate::face::http;
use crate::guard::refusal::Refusal;

/// The server whose board it is.
const SERVER: &str = "pm";

/// `GET /api/board/{tool}?arguments={…}`: what that reading tool answers.
pub(super) async fn show(viewer: &Viewer, tool: &str, query: &str) -> Result<Response<Body>, Refusal> {
    let may_see = viewer.is_admin() || viewer.principal.is_only_looking();
    if !may_see || !viewer.sees(SERVER, tool) {
        return Err(Refusal::forbidden("this is for read-only keys; others ask the server pm itself"));
    }
    let arguments = arguments(query)?;
    let asking = viewer.backend().board(tool, arguments).ok_or_else(|| no_such_look(tool))?;
    Ok(match asking.await {
        Ok(told) => look::give(&told),
        Err(fault) => {
            let body = json!({"success": false, "error": fault}).to_string();
            http::json(StatusCode::UNPROCESSABLE_ENTITY, Body::one(body.into()))
        }
    })
}

fn arguments(query: &str) -> Result<Value, Refusal> {
    let Some((_, text)) = url::form_urlencoded::parse(query.as_bytes()).find(|(key, _)| key == "arguments") else {
        return Ok(json!({}));
    };
    let not_json = |error| Refusal::bad_request(format!("`arguments` is not JSON: {error}"));
    serde_json::from_str(&text).map_err(not_json)
}

fn no_such_look(tool: &str) -> Refusal {
    let message = format!("there is no board here, or {tool:?} is not one of the tools that only look");
    Refusal::new(StatusCode::NOT_FOUND, FaultCode::ToolNotFound, message)
}

//! MCP over HTTP at one address for both eras: how a request is opened decides which rules hold.

mod agree;
mod legacy;
pub(crate) mod modern;
mod replay;
pub(crate) mod session;

use ::http::{HeaderMap, HeaderName, Response, StatusCode};
use hyper::body::Incoming;
use tsugi_protocol::answer::FaultCode;
use tsugi_protocol::json::Object;
use tsugi_protocol::mcp::{Era, Version, meta};
use tsugi_protocol::rpc::{Message, MessageError, RpcError, code};

use super::legacy::batch;
use super::{Asked, fault};
use crate::backend::Endpoint;
use crate::body::Body;
use crate::guard::refusal::Refusal;
use crate::route::Route;
use crate::run::draining;

pub(crate) static PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// Answers one request at an MCP address. `place` is the server's name, or nothing for all together.
pub(crate) async fn serve(
    route: Route,
    asked: Asked<'_>,
    endpoint: Endpoint,
    place: Option<String>,
    body: Incoming,
) -> Result<Response<Body>, Refusal> {
    match route {
        Route::McpPost => post(asked, endpoint, place, body).await,
        _ if asked.parts.headers.get(&PROTOCOL_VERSION).is_some_and(|version| !is_legacy(version.as_bytes())) => {
            Err(only_post())
        }
        Route::McpDelete => legacy::delete(&asked, place.as_deref()),
        _ => legacy::get(asked, place.as_deref()),
    }
}

async fn post(
    asked: Asked<'_>,
    endpoint: Endpoint,
    place: Option<String>,
    body: Incoming,
) -> Result<Response<Body>, Refusal> {
    let bytes = asked.json_body(body).await?;
    if batch::is_batch(&bytes) {
        expect_time(&asked)?;
        return legacy::post_batch(asked, place.as_deref(), &bytes).await;
    }
    let (message, params) = match Message::parse_with_params(bytes) {
        Ok(parsed) => parsed,
        Err(error) => return Ok(unreadable(&error)),
    };
    if matches!(message, Message::Request(_)) {
        expect_time(&asked)?;
    }
    // A request of a legacy session says so twice in its head; its body need not be asked.
    if legacy::is_in_session(&asked.parts.headers) {
        return legacy::post(asked, endpoint, place, message).await;
    }
    let own = params.as_ref().and_then(|params| params.get_object("_meta"));
    match is_modern(&asked.parts.headers, own.as_ref()) {
        true => Ok(modern::post(asked, endpoint, message, params, own).await),
        false => legacy::post(asked, endpoint, place, message).await,
    }
}

/// While we stop, no call begins any more. What running calls wait for, such as an answer to a question, still
/// comes in.
fn expect_time(asked: &Asked<'_>) -> Result<(), Refusal> {
    match asked.busy.is_late() {
        true => Err(draining()),
        false => Ok(()),
    }
}

/// A request is modern when its `_meta` names a revision, or when its header names one that is not legacy.
fn is_modern(headers: &HeaderMap, own: Option<&Object>) -> bool {
    own.is_some_and(|own| own.has(meta::PROTOCOL_VERSION))
        || headers.get(&PROTOCOL_VERSION).is_some_and(|version| !is_legacy(version.as_bytes()))
}

/// True when the parameters carry the `_meta` of a modern request.
pub(crate) fn names_revision(params: Option<&Object>) -> bool {
    params.and_then(|params| params.get_object("_meta")).is_some_and(|own| own.has(meta::PROTOCOL_VERSION))
}

fn is_legacy(version: &[u8]) -> bool {
    let version = std::str::from_utf8(version).ok().and_then(Version::parse);
    version.is_some_and(|version| version.era() == Era::Legacy)
}

/// The error for bytes that are no message.
pub(crate) fn unreadable_error(error: &MessageError) -> RpcError {
    let number = match error {
        MessageError::Json(_) => code::PARSE_ERROR,
        MessageError::Envelope(_) => code::INVALID_REQUEST,
    };
    RpcError::new(number, &error.to_string())
}

/// The answer to bytes that are no message.
pub(crate) fn unreadable(error: &MessageError) -> Response<Body> {
    fault::rpc_error(StatusCode::BAD_REQUEST, None, &unreadable_error(error))
}

fn only_post() -> Refusal {
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, FaultCode::InvalidRequest, "this revision has only POST here")
}

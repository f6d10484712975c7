//! MCP over HTTP at one address for both eras: how a request is opened decides which rules hold.

mod agree;
mod legacy;
pub(crate) mod modern;
mod replay;
pub(crate) mod session;

use std::sync::Arc;

use ::http::{HeaderMap, HeaderName, Response, StatusCode};
use bytes::Bytes;
use hyper::body::Incoming;
use tsugi_protocol::answer::FaultCode;
use tsugi_protocol::json::Object;
use tsugi_protocol::mcp::{Era, Method, Version, meta};
use tsugi_protocol::rpc::{Message, MessageError, Parsed, Request, RpcError, code};

use super::legacy::{Received, batch};
use super::{Asked, fault};
use crate::backend::Endpoint;
use crate::body::Body;
use crate::guard::refusal::Refusal;
use crate::route::Route;
use crate::run::draining;

pub(crate) static PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// Answers a GET or a DELETE at an MCP address. `place` is the server's name, or nothing for all together.
pub(crate) fn other_verb(route: Route, asked: Asked<'_>, place: Option<&str>) -> Result<Response<Body>, Refusal> {
    let version = asked.parts.headers.get(&PROTOCOL_VERSION);
    if version.is_some_and(|version| !is_legacy(version.as_bytes())) {
        return Err(only_post());
    }
    match route {
        Route::McpDelete => legacy::delete(&asked, place),
        _ => legacy::get(asked, place),
    }
}

/// Answers a POST at an MCP address.
pub(crate) async fn post(
    asked: Box<Asked<'_>>,
    endpoint: Endpoint,
    place: Option<String>,
    body: Incoming,
) -> Result<Response<Body>, Refusal> {
    let bytes = asked.json_body(body).await?;
    if batch::is_batch(&bytes) {
        expect_time(&asked)?;
        return Box::pin(legacy::post_batch(*asked, place.as_deref(), &bytes)).await;
    }
    match begin(&asked, &endpoint, place.as_deref(), bytes)? {
        Begun::Modern(modern::Begun::Done(response)) => Ok(*response),
        Begun::Modern(modern::Begun::Listen(id, call)) => Ok(modern::listen::open(*asked, &endpoint, id, *call)),
        Begun::Modern(modern::Begun::Running(under_way)) => Ok(modern::answer(asked, under_way).await),
        Begun::Legacy(session, received) => Ok(legacy::answer(asked, session, received).await),
        Begun::Initialize(request) => Box::pin(legacy::initialize(*asked, endpoint, place, &request)).await,
    }
}

/// A POST that was read, up to where somebody has to wait.
enum Begun {
    Modern(modern::Begun),
    Legacy(Arc<session::Session>, Received),
    Initialize(Box<Request>),
}

/// Reads a POST and begins what it asks for. Nothing here waits, so that nothing of it is carried along while
/// somebody does.
fn begin(asked: &Asked<'_>, endpoint: &Endpoint, place: Option<&str>, bytes: Bytes) -> Result<Begun, Refusal> {
    // A request of a legacy session says so twice in its head; its body need not be asked.
    if legacy::is_in_session(&asked.parts.headers) {
        return match Message::parse(bytes) {
            Ok(message) => begin_legacy(asked, place, message),
            Err(error) => Ok(unread(&error)),
        };
    }
    let Parsed { message, params, meta } = match Message::parse_with_params(bytes) {
        Ok(parsed) => parsed,
        Err(error) => return Ok(unread(&error)),
    };
    if !is_modern(&asked.parts.headers, meta.as_ref()) {
        return begin_legacy(asked, place, message);
    }
    expect_time_for(asked, &message)?;
    Ok(Begun::Modern(modern::begin(asked, endpoint, message, params, meta)))
}

fn begin_legacy(asked: &Asked<'_>, place: Option<&str>, message: Message) -> Result<Begun, Refusal> {
    expect_time_for(asked, &message)?;
    match message {
        Message::Request(request) if request.method == Method::Initialize => Ok(Begun::Initialize(Box::new(request))),
        message => {
            let (session, received) = legacy::receive(asked, place, message)?;
            Ok(Begun::Legacy(session, received))
        }
    }
}

fn unread(error: &MessageError) -> Begun {
    Begun::Modern(modern::Begun::Done(Box::new(unreadable(error))))
}

fn expect_time_for(asked: &Asked<'_>, message: &Message) -> Result<(), Refusal> {
    match message {
        Message::Request(_) => expect_time(asked),
        _ => Ok(()),
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

//! MCP over HTTP at one address for both eras: how a request is opened decides which rules hold.

pub(crate) mod client_session;
mod header_check;
mod legacy;
pub(crate) mod modern;
mod replay;

use std::sync::Arc;

use ::http::{HeaderMap, HeaderName, Response, StatusCode};
use bytes::Bytes;
use hyper::body::Incoming;
use tsugi_protocol::answer::FaultCode;
use tsugi_protocol::json::JsonObject;
use tsugi_protocol::mcp::{Era, Method, ProtocolVersion, meta};
use tsugi_protocol::rpc::{MessageError, ParsedMessage, RpcError, RpcMessage, RpcRequest, code};

use super::legacy_session::{MessageEffect, batch};
use super::{FaceRequest, fault};
use crate::backend::Endpoint;
use crate::body::ResponseBody;
use crate::gateway::draining;
use crate::guard::refusal::HttpRefusal;
use crate::route::Route;

pub(crate) static PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
static METHOD: HeaderName = HeaderName::from_static("mcp-method");

/// Answers a GET or a DELETE at an MCP address. `place` is the server's name, or nothing for all together.
pub(crate) fn other_verb(
    route: Route,
    face_request: FaceRequest<'_>,
    place: Option<&str>,
) -> Result<Response<ResponseBody>, HttpRefusal> {
    let version = face_request.parts.headers.get(&PROTOCOL_VERSION);
    if version.is_some_and(|version| !is_legacy(version.as_bytes())) {
        return Err(only_post());
    }
    match route {
        Route::McpDelete => legacy::delete(&face_request, place),
        _ => legacy::get(face_request, place),
    }
}

/// Answers a POST at an MCP address.
pub(crate) async fn post(
    face_request: Box<FaceRequest<'_>>,
    endpoint: Endpoint,
    place: Option<String>,
    body: Incoming,
) -> Result<Response<ResponseBody>, HttpRefusal> {
    let bytes = face_request.json_body(body).await?;
    // Looked at before parsing: an array is not a message, and only one legacy revision has batches.
    if batch::is_batch(&bytes) {
        refuse_if_draining(&face_request)?;
        return Box::pin(legacy::post_batch(*face_request, place.as_deref(), &bytes)).await;
    }
    match parse_post(&face_request, &endpoint, place.as_deref(), bytes)? {
        ParsedPost::Modern(modern::ModernRequest::Done(response)) => Ok(*response),
        ParsedPost::Modern(modern::ModernRequest::Listen(id, call)) => {
            Ok(modern::listen::open(*face_request, &endpoint, id, *call))
        }
        ParsedPost::Modern(modern::ModernRequest::Running(under_way)) => {
            Ok(modern::answer(face_request, under_way).await)
        }
        ParsedPost::Legacy(session, received) => Ok(legacy::answer(face_request, session, received).await),
        ParsedPost::Initialize(request) => Box::pin(legacy::initialize(*face_request, endpoint, place, &request)).await,
    }
}

/// A POST that was parsed, up to the first point where it has to wait.
enum ParsedPost {
    Modern(modern::ModernRequest),
    Legacy(Arc<client_session::ClientSession>, MessageEffect),
    Initialize(Box<RpcRequest>),
}

/// Reads a POST and begins what it asks for. Nothing here waits, so that none of its variables are kept in
/// the future that does.
fn parse_post(
    face_request: &FaceRequest<'_>,
    endpoint: &Endpoint,
    place: Option<&str>,
    bytes: Bytes,
) -> Result<ParsedPost, HttpRefusal> {
    // A request of a legacy session says so twice in its head; its body need not be asked.
    if legacy::is_in_session(&face_request.parts.headers) {
        return match RpcMessage::parse(bytes) {
            Ok(message) => begin_legacy(face_request, place, message),
            Err(error) => Ok(parse_error(&error)),
        };
    }
    // What is read of a subscription or of `initialize` lives as long as the stream or the session, and would keep the
    // whole 8 KiB buffer that hyper read it into. Only legacy clients send no method header.
    let is_kept = face_request.parts.headers.get(&METHOD).is_none_or(|method| method == Method::Listen.as_str());
    let bytes = if is_kept { Bytes::copy_from_slice(&bytes) } else { bytes };
    let ParsedMessage { message, params, meta } = match RpcMessage::parse_with_params(bytes) {
        Ok(parsed) => parsed,
        Err(error) => return Ok(parse_error(&error)),
    };
    // Decided per request. A client may speak both eras on one connection.
    if !is_modern(&face_request.parts.headers, meta.as_ref()) {
        return begin_legacy(face_request, place, message);
    }
    refuse_request_if_draining(face_request, &message)?;
    Ok(ParsedPost::Modern(modern::begin(face_request, endpoint, message, params, meta)))
}

fn begin_legacy(
    face_request: &FaceRequest<'_>,
    place: Option<&str>,
    message: RpcMessage,
) -> Result<ParsedPost, HttpRefusal> {
    refuse_request_if_draining(face_request, &message)?;
    match message {
        RpcMessage::Request(request) if request.method == Method::Initialize => {
            Ok(ParsedPost::Initialize(Box::new(request)))
        }
        message => {
            let (session, received) = legacy::receive(face_request, place, message)?;
            Ok(ParsedPost::Legacy(session, received))
        }
    }
}

fn parse_error(error: &MessageError) -> ParsedPost {
    ParsedPost::Modern(modern::ModernRequest::Done(Box::new(unreadable(error))))
}

fn refuse_request_if_draining(face_request: &FaceRequest<'_>, message: &RpcMessage) -> Result<(), HttpRefusal> {
    match message {
        RpcMessage::Request(_) => refuse_if_draining(face_request),
        _ => Ok(()),
    }
}

/// While we stop, no call begins any more. What running calls wait for, such as an answer to a question, still
/// comes in.
fn refuse_if_draining(face_request: &FaceRequest<'_>) -> Result<(), HttpRefusal> {
    match face_request.busy_guard.is_late() {
        true => Err(draining()),
        false => Ok(()),
    }
}

/// A request is modern when its `_meta` names a revision, or when its header names one that is not legacy.
fn is_modern(headers: &HeaderMap, own: Option<&JsonObject>) -> bool {
    own.is_some_and(|own| own.has(meta::PROTOCOL_VERSION))
        || headers.get(&PROTOCOL_VERSION).is_some_and(|version| !is_legacy(version.as_bytes()))
}

/// True when the parameters carry the `_meta` of a modern request.
pub(crate) fn names_revision(params: Option<&JsonObject>) -> bool {
    params.and_then(|params| params.get_object("_meta")).is_some_and(|own| own.has(meta::PROTOCOL_VERSION))
}

fn is_legacy(version: &[u8]) -> bool {
    let version = std::str::from_utf8(version).ok().and_then(ProtocolVersion::parse);
    version.is_some_and(|version| version.era() == Era::Legacy)
}

/// The error for bytes that are not a message.
pub(crate) fn unreadable_error(error: &MessageError) -> RpcError {
    let number = match error {
        MessageError::TooLarge { .. } | MessageError::Frame(_) | MessageError::Json(_) => code::PARSE_ERROR,
        MessageError::Envelope(_) => code::INVALID_REQUEST,
        MessageError::MissingMeta(_) | MessageError::InvalidMeta(_) => code::INVALID_PARAMS,
        MessageError::Version(requested) => return modern::unsupported(requested),
    };
    RpcError::new(number, &error.to_string())
}

/// The answer to bytes that are not a message.
pub(crate) fn unreadable(error: &MessageError) -> Response<ResponseBody> {
    fault::rpc_error(StatusCode::BAD_REQUEST, None, &unreadable_error(error))
}

fn only_post() -> HttpRefusal {
    HttpRefusal::new(StatusCode::METHOD_NOT_ALLOWED, FaultCode::InvalidRequest, "this revision has only POST here")
}

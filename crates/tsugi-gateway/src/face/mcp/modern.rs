//! The modern era: every request stands alone, and its answer is one JSON object unless something precedes it.

pub(crate) mod listen;
pub(crate) mod stream;

use ::http::{HeaderMap, HeaderName, Response, StatusCode};
use serde_json::json;
use tsugi_protocol::answer::{Call, CallFailure, CallOptions, CallParts, Outcome, ReplyEvent};
use tsugi_protocol::era::to_modern;
use tsugi_protocol::json::{JsonObject, ObjectWriter, RawJson};
use tsugi_protocol::mcp::meta::{self, RequestMeta};
use tsugi_protocol::mcp::version::Era;
use tsugi_protocol::mcp::{Method, ProtocolVersion};
use tsugi_protocol::rpc::{RequestId, RpcError, RpcMessage, RpcRequest, code};

use super::{header_check, unreadable_error};
use crate::backend::Endpoint;
use crate::body::ResponseBody;
use crate::face::running_call::RunningCall;
use crate::face::{FaceRequest, fault, http};

static TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// A modern POST that was parsed, up to the first point where it has to wait. Boxed, because the waiting future has room
/// for it twice.
pub(super) enum ModernRequest {
    /// There is nothing to wait for.
    Done(Box<Response<ResponseBody>>),
    Listen(RequestId, Box<Call>),
    /// A call under way.
    Running(Box<(RpcRequest, RunningCall)>),
}

/// Reads one modern POST and begins what it asks for.
pub(super) fn begin(
    face_request: &FaceRequest<'_>,
    endpoint: &Endpoint,
    message: RpcMessage,
    params: Option<JsonObject>,
    own: Option<JsonObject>,
) -> ModernRequest {
    let request = match message {
        RpcMessage::Request(request) => request,
        // No revision defines a notification from the client here, but one that comes is accepted.
        RpcMessage::Notification(_) => return ModernRequest::Done(Box::new(http::empty(StatusCode::ACCEPTED))),
        RpcMessage::Response(_) => return ModernRequest::Done(Box::new(refuse_response())),
    };
    match read(face_request, endpoint, &request, params, own) {
        Ok(call) if call.method == Method::Listen => ModernRequest::Listen(request.id, Box::new(call)),
        Ok(call) => ModernRequest::Running(Box::new((request, RunningCall::start(&*endpoint.answer, call)))),
        Err(error) => {
            ModernRequest::Done(Box::new(fault::rpc_error(refused_status(&error), Some(&request.id), &error)))
        }
    }
}

/// The status of a request that was refused before any server was asked.
fn refused_status(error: &RpcError) -> StatusCode {
    match fault::modern_status(error) {
        // 200 is for errors of a server. Here none was asked.
        StatusCode::OK => StatusCode::BAD_REQUEST,
        status => status,
    }
}

fn read(
    face_request: &FaceRequest<'_>,
    endpoint: &Endpoint,
    request: &RpcRequest,
    params: Option<JsonObject>,
    own: Option<JsonObject>,
) -> Result<Call, RpcError> {
    let headers = &face_request.parts.headers;
    let Some(version) = header_check::only(headers, &super::PROTOCOL_VERSION)? else {
        return Err(header_check::mismatch("the MCP-Protocol-Version header is missing"));
    };
    let params = params.ok_or_else(|| invalid("the parameters must be an object without duplicate keys"))?;
    let own = own.ok_or_else(|| invalid("the parameters lack _meta"))?;
    // Proxies route by the header and we act on the body, so the two must agree.
    if own.get_str(meta::PROTOCOL_VERSION).is_some_and(|in_body| in_body.as_bytes() != version) {
        return Err(header_check::mismatch("the MCP-Protocol-Version header differs from _meta"));
    }
    let mut request_meta = read_meta(&own)?;
    header_check::check(headers, &request.method, &params, &*endpoint.tools)?;
    refuse_gone(&request.method)?;
    adopt_trace(headers, &mut request_meta);
    let call = Call::from(CallParts {
        method: request.method.clone(),
        // `_meta` is carried apart and written again in the era of the server.
        params: params.without("_meta"),
        meta: request_meta,
        caller: face_request.principal.caller().clone(),
        options: CallOptions { era: Some(Era::Modern), ..face_request.options("mcp") },
    });
    listen::expect_few(&call)?;
    Ok(call)
}

/// Reads a modern request's `_meta`, or says what is wrong with it.
pub(crate) fn read_meta(own: &JsonObject) -> Result<RequestMeta, RpcError> {
    RequestMeta::from_modern(own).map_err(|error| unreadable_error(&error))
}

pub(crate) fn invalid(message: &str) -> RpcError {
    RpcError::new(code::INVALID_PARAMS, message)
}

/// The revisions we speak, newest first.
fn own_versions() -> Vec<&'static str> {
    ProtocolVersion::ALL.iter().rev().map(|version| version.as_str()).collect()
}

/// Which revisions are spoken is a property of this face, whatever the server behind it speaks.
fn with_own_versions(discovered: &JsonObject) -> JsonObject {
    let mut result = ObjectWriter::with_capacity(discovered.bytes().len() + 64);
    result.members_except(discovered, &["supportedVersions"]);
    result.raw("supportedVersions", &RawJson::from_value(&own_versions()));
    result.finish_object()
}

/// The error that names the revisions we speak.
pub(super) fn unsupported(requested: &str) -> RpcError {
    let data = RawJson::from(json!({"supported": own_versions(), "requested": requested}));
    RpcError::with_data(code::UNSUPPORTED_VERSION, "unsupported protocol version", Some(&data))
}

/// Refuses methods that this revision no longer has, or that only a server may send.
pub(crate) fn refuse_gone(method: &Method) -> Result<(), RpcError> {
    let is_gone = matches!(
        method,
        Method::Initialize
            | Method::Ping
            | Method::SetLevel
            | Method::ResourcesSubscribe
            | Method::ResourcesUnsubscribe
            | Method::CreateMessage
            | Method::Elicit
            | Method::RootsList
    );
    match is_gone {
        true => Err(RpcError::new(code::METHOD_NOT_FOUND, &format!("method not found: {method}"))),
        false => Ok(()),
    }
}

/// A trace that only the headers know goes on in `_meta`, where every transport carries it.
pub(crate) fn adopt_trace(headers: &HeaderMap, own: &mut RequestMeta) {
    let Some(parent) = headers.get(&TRACEPARENT).and_then(|value| value.to_str().ok()) else { return };
    // The body wins over the header: it comes from the client, and proxies may add headers.
    if own.rest.has("traceparent") {
        return;
    }
    let mut rest = ObjectWriter::with_capacity(own.rest.bytes().len() + 80);
    rest.string("traceparent", parent);
    if let Some(state) = headers.get("tracestate").and_then(|value| value.to_str().ok())
        && !own.rest.has("tracestate")
    {
        rest.string("tracestate", state);
    }
    rest.all_members(&own.rest);
    own.rest = rest.finish_object();
}

/// Waits for a call.
pub(super) async fn answer(
    face_request: Box<FaceRequest<'_>>,
    mut under_way: Box<(RpcRequest, RunningCall)>,
) -> Response<ResponseBody> {
    match under_way.1.next().await {
        ReplyEvent::Done(outcome) => done(&under_way.0.id, &under_way.0.method, &outcome),
        // A notification came first, so the answer has to be a stream.
        ReplyEvent::Note(first) => {
            let (request, running) = *under_way;
            http::events(stream::CallStream::new(*face_request, request, running, first))
        }
    }
}

/// The response that carries an outcome.
fn done(id: &RequestId, method: &Method, outcome: &Outcome) -> Response<ResponseBody> {
    match outcome_of(method, outcome) {
        Ok(result) => http::json(StatusCode::OK, around(id, &result)),
        Err(error) => {
            let status = match outcome {
                Outcome::Failed(failure) => fault::failure_status(failure),
                _ => StatusCode::OK,
            };
            let mut response = fault::rpc_error(status, Some(id), &error);
            if let Outcome::Failed(CallFailure::Fault(fault)) = outcome {
                fault::set_retry_after(&mut response, fault.retry_after_ms);
                fault::set_challenge(&mut response, fault);
            }
            response
        }
    }
}

/// An outcome in the modern form.
pub(crate) fn outcome_of(method: &Method, outcome: &Outcome) -> Result<JsonObject, RpcError> {
    match outcome {
        Outcome::Complete(complete) if *method == Method::Discover => Ok(with_own_versions(&complete.body)),
        Outcome::Complete(complete) => Ok(to_modern::result(complete, method)),
        Outcome::InputRequired(input) => Ok(input.to_result()),
        Outcome::Failed(CallFailure::Upstream(error)) => Err(to_modern::error(error, method)),
        Outcome::Failed(CallFailure::Fault(fault)) => Err(fault::modern_error(fault)),
    }
}

/// `{"jsonrpc":"2.0","id":…,"result":…}` around a result that is not copied when it is large.
pub(crate) fn around(id: &RequestId, result: &JsonObject) -> ResponseBody {
    ResponseBody::around([b"{\"jsonrpc\":\"2.0\",\"id\":", id.raw().bytes(), b",\"result\":"], result, b"}")
}

fn refuse_response() -> Response<ResponseBody> {
    let error = RpcError::new(code::INVALID_REQUEST, "a client sends no responses in this revision");
    fault::rpc_error(StatusCode::BAD_REQUEST, None, &error)
}

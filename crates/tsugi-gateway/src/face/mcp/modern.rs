//! The modern era: every request stands alone, and its answer is one JSON object unless something precedes it.

pub(crate) mod listen;
pub(crate) mod stream;

use ::http::{HeaderMap, HeaderName, Response, StatusCode};
use serde_json::json;
use tsugi_protocol::answer::{Call, CallParts, Event, Failure, Outcome};
use tsugi_protocol::era::to_modern;
use tsugi_protocol::json::{Object, Raw, Splice};
use tsugi_protocol::mcp::meta::{self, MetaError, RequestMeta};
use tsugi_protocol::mcp::{Method, Version};
use tsugi_protocol::rpc::{Id, Message, Request, RpcError, code};

use super::agree;
use crate::backend::Endpoint;
use crate::body::Body;
use crate::face::running::Running;
use crate::face::{Asked, fault, http};

static TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// A modern POST that was read, up to where somebody has to wait. In boxes: whatever waits has room for it twice.
pub(super) enum Begun {
    /// There is nothing to wait for.
    Done(Box<Response<Body>>),
    /// A subscription.
    Listen(Id, Box<Call>),
    /// A call under way.
    Running(Box<(Request, Running)>),
}

/// Reads one modern POST and begins what it asks for.
pub(super) fn begin(
    asked: &Asked<'_>,
    endpoint: &Endpoint,
    message: Message,
    params: Option<Object>,
    own: Option<Object>,
) -> Begun {
    let request = match message {
        Message::Request(request) => request,
        // No revision defines a notification from the client here, but one that comes is accepted.
        Message::Notification(_) => return Begun::Done(Box::new(http::empty(StatusCode::ACCEPTED))),
        Message::Response(_) => return Begun::Done(Box::new(refuse_response())),
    };
    match read(asked, endpoint, &request, params, own) {
        Ok(call) if call.method == Method::Listen => Begun::Listen(request.id, Box::new(call)),
        Ok(call) => Begun::Running(Box::new((request, Running::start(&*endpoint.answer, call)))),
        Err(error) => Begun::Done(Box::new(fault::rpc_error(refused_status(&error), Some(&request.id), &error))),
    }
}

/// The status of a request that was refused before anybody was asked.
fn refused_status(error: &RpcError) -> StatusCode {
    match fault::modern_status(error) {
        StatusCode::OK => StatusCode::BAD_REQUEST,
        status => status,
    }
}

fn read(
    asked: &Asked<'_>,
    endpoint: &Endpoint,
    request: &Request,
    params: Option<Object>,
    own: Option<Object>,
) -> Result<Call, RpcError> {
    let headers = &asked.parts.headers;
    let Some(version) = agree::only(headers, &super::PROTOCOL_VERSION)? else {
        return Err(agree::mismatch("the MCP-Protocol-Version header is missing"));
    };
    let params = params.ok_or_else(|| invalid("the parameters must be an object without duplicate keys"))?;
    let own = own.ok_or_else(|| invalid("the parameters lack _meta"))?;
    if own.get_str(meta::PROTOCOL_VERSION).is_some_and(|in_body| in_body.as_bytes() != version) {
        return Err(agree::mismatch("the MCP-Protocol-Version header differs from _meta"));
    }
    let mut request_meta = read_meta(&own)?;
    agree::check(headers, &request.method, &params, &*endpoint.tools)?;
    refuse_gone(&request.method)?;
    adopt_trace(headers, &mut request_meta);
    let call = Call::from(CallParts {
        method: request.method.clone(),
        params: params.without("_meta"),
        meta: request_meta,
        caller: asked.principal.caller().clone(),
        options: asked.options("mcp"),
    });
    listen::expect_few(&call)?;
    Ok(call)
}

/// Reads a modern request's `_meta`, or says what is wrong with it.
pub(crate) fn read_meta(own: &Object) -> Result<RequestMeta, RpcError> {
    RequestMeta::from_modern(own).map_err(|error| match error {
        MetaError::Version(requested) => unsupported(&requested),
        other => invalid(&other.to_string()),
    })
}

pub(crate) fn invalid(message: &str) -> RpcError {
    RpcError::new(code::INVALID_PARAMS, message)
}

/// The revisions we speak, newest first.
fn own_versions() -> Vec<&'static str> {
    Version::ALL.iter().rev().map(|version| version.as_str()).collect()
}

/// Which revisions are spoken is a property of this face, whatever the server behind it speaks.
fn with_own_versions(discovered: &Object) -> Object {
    let mut result = Splice::with_capacity(discovered.bytes().len() + 64);
    result.members_but(discovered, &["supportedVersions"]);
    result.raw("supportedVersions", &Raw::from_value(&own_versions()));
    result.finish_object()
}

/// The error that names the revisions we speak.
fn unsupported(requested: &str) -> RpcError {
    let data = Raw::from(json!({"supported": own_versions(), "requested": requested}));
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
    if own.rest.has("traceparent") {
        return;
    }
    let mut rest = Splice::with_capacity(own.rest.bytes().len() + 80);
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
pub(super) async fn answer(asked: Box<Asked<'_>>, mut under_way: Box<(Request, Running)>) -> Response<Body> {
    match under_way.1.next().await {
        Event::Done(outcome) => done(&under_way.0.id, &under_way.0.method, &outcome),
        Event::Note(first) => {
            let (request, running) = *under_way;
            http::events(stream::CallStream::new(*asked, request, running, first))
        }
    }
}

/// The response that carries an outcome.
fn done(id: &Id, method: &Method, outcome: &Outcome) -> Response<Body> {
    match outcome_of(method, outcome) {
        Ok(result) => http::json(StatusCode::OK, around(id, &result)),
        Err(error) => {
            let mut response = fault::rpc_error(fault::modern_status(&error), Some(id), &error);
            if let Outcome::Failed(Failure::Fault(fault)) = outcome {
                fault::say_when(&mut response, fault.retry_after_ms);
            }
            response
        }
    }
}

/// An outcome in the modern form.
pub(crate) fn outcome_of(method: &Method, outcome: &Outcome) -> Result<Object, RpcError> {
    match outcome {
        Outcome::Complete(complete) if *method == Method::Discover => Ok(with_own_versions(&complete.body)),
        Outcome::Complete(complete) => Ok(to_modern::result(complete, method)),
        Outcome::InputRequired(input) => Ok(input.to_result()),
        Outcome::Failed(Failure::Upstream(error)) => Err(to_modern::error(error, method)),
        Outcome::Failed(Failure::Fault(fault)) => Err(fault::modern_error(fault)),
    }
}

/// `{"jsonrpc":"2.0","id":…,"result":…}` around a result that is not copied when it is large.
pub(crate) fn around(id: &Id, result: &Object) -> Body {
    Body::around([b"{\"jsonrpc\":\"2.0\",\"id\":", id.raw().bytes(), b",\"result\":"], result, b"}")
}

fn refuse_response() -> Response<Body> {
    let error = RpcError::new(code::INVALID_REQUEST, "a client sends no responses in this revision");
    fault::rpc_error(StatusCode::BAD_REQUEST, None, &error)
}

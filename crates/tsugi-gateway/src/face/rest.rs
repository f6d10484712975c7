//! Tools over plain HTTP, as seed 001 writes it: a list, a call, a batch, and an operation per tool.

pub(crate) mod call;

use ::http::{Response, StatusCode};
use bytes::Bytes;
use serde_json::Value;
use tsugi_protocol::answer::{Fault, FaultCode};
use tsugi_protocol::json::{JsonObject, ObjectWriter, RawJson};

use self::call::{RestCall, RestOutcome, ResultForm};
use super::fault::RestFault;
use super::openapi::DocumentSecurity;
use super::{FaceRequest, http};
use crate::backend::{self, ToolDirectory, ToolInfo};
use crate::body::ResponseBody;

/// `GET /mcp/tools`
pub(crate) async fn tools(face_request: &FaceRequest<'_>, directory: &dyn ToolDirectory) -> Response<ResponseBody> {
    // A list is not a call of MCP, but it counts against the same limits.
    let _room = match face_request.gateway.begin(&face_request.principal) {
        Ok(room) => room,
        Err(fault) => return RestFault::from(&fault).response(),
    };
    let wanted = query(face_request, "server");
    let tools = directory.tools(face_request.principal.caller()).await;
    // A server that does not exist gives an empty list, as one without tools does.
    let shown = tools.iter().filter(|tool| wanted.as_ref().is_none_or(|wanted| *wanted == tool.server));
    let list: Vec<RawJson> = shown.map(describe).collect();
    let mut body = ObjectWriter::with_capacity(256);
    body.raw("tools", &RawJson::array(&list));
    http::json(StatusCode::OK, ResponseBody::one(body.finish().bytes().clone()))
}

fn describe(tool: &ToolInfo) -> RawJson {
    let mut shown = ObjectWriter::with_capacity(256);
    shown.string("name", &tool.name).string("server", &tool.server);
    if let Some(description) = &tool.description {
        shown.string("description", description);
    }
    let parts = [
        ("inputSchema", &tool.input_schema),
        ("outputSchema", &tool.output_schema),
        ("annotations", &tool.annotations),
    ];
    for (key, value) in parts.into_iter().filter_map(|(key, value)| Some((key, value.as_ref()?))) {
        shown.raw(key, value);
    }
    shown.number("timeout", tool.timeout);
    shown.finish()
}

/// `POST /mcp/call`
pub(crate) async fn call(
    face_request: &FaceRequest<'_>,
    directory: &dyn ToolDirectory,
    bytes: Bytes,
) -> Response<ResponseBody> {
    let form = form_of(face_request);
    let called = match RestCall::read(bytes) {
        Ok(asking) => asking.call(directory, face_request, form).await,
        Err(fault) => RestOutcome::Failed(RestFault::from(&fault)),
    };
    match called {
        RestOutcome::Result(result) => http::json(
            StatusCode::OK,
            ResponseBody::pieces([Bytes::from_static(SUCCESS), result.bytes().clone(), Bytes::from_static(b"}")]),
        ),
        RestOutcome::Failed(fault) => fault.response(),
    }
}

const SUCCESS: &[u8] = b"{\"success\":true,\"result\":";

/// `POST /mcp/batch`: results in the order of the calls; one that fails does not fail the others.
pub(crate) async fn batch(
    face_request: &FaceRequest<'_>,
    directory: &dyn ToolDirectory,
    bytes: Bytes,
) -> Response<ResponseBody> {
    let limits = &face_request.gateway.config().limits;
    let calls = match read_batch(bytes, limits.batch) {
        Ok(calls) => calls,
        Err(fault) => return RestFault::from(&fault).response(),
    };
    let form = form_of(face_request);
    let running = calls.into_iter().map(|call| async move {
        match RestCall::read(call.bytes().clone()) {
            Ok(asking) => asking.call(directory, face_request, form).await,
            Err(fault) => RestOutcome::Failed(RestFault::from(&fault)),
        }
    });
    // Bounded, so that one request cannot take every slot of a server.
    let told: Vec<RestOutcome> = backend::in_order(running.collect(), limits.parallel).await;
    let results: Vec<RawJson> = told.iter().map(entry).collect();
    let mut body = ObjectWriter::with_capacity(256);
    body.raw("success", &RawJson::literal("true")).raw("results", &RawJson::array(&results));
    http::json(StatusCode::OK, ResponseBody::one(body.finish().bytes().clone()))
}

fn read_batch(bytes: Bytes, most: usize) -> Result<Vec<RawJson>, Fault> {
    let body = JsonObject::parse(bytes).map_err(|error| invalid(&format!("the body is not a JSON object: {error}")))?;
    match body.get("calls").as_ref().and_then(RawJson::items) {
        // Checked before any call begins: half a batch would be worse than none.
        Some(calls) if calls.len() <= most => Ok(calls),
        Some(_) => Err(invalid(&format!("a batch has at most {most} calls"))),
        None => Err(invalid("`calls` must be an array")),
    }
}

fn entry(told: &RestOutcome) -> RawJson {
    let mut entry = ObjectWriter::with_capacity(128);
    match told {
        RestOutcome::Result(result) => entry.raw("success", &RawJson::literal("true")).raw("result", result),
        RestOutcome::Failed(fault) => {
            entry.raw("success", &RawJson::literal("false")).raw("error", &RawJson::from(fault.to_json()))
        }
    };
    entry.finish()
}

/// `POST /tools/{server}/{tool}`: the arguments as the body, the result as the answer.
pub(crate) async fn operation(
    face_request: &FaceRequest<'_>,
    directory: &dyn ToolDirectory,
    tool: (&str, &str),
    bytes: Bytes,
) -> Response<ResponseBody> {
    let asking = RestCall::of(named(tool), bytes);
    operate(face_request, directory, asking).await
}

/// `POST /tools/{server}/{tool}/answer`: the call again, with answers to what the tool asked. It has an address of its
/// own because the body of the operation itself belongs to the tool, which may have arguments of any name.
pub(crate) async fn operation_answer(
    face_request: &FaceRequest<'_>,
    directory: &dyn ToolDirectory,
    tool: (&str, &str),
    bytes: Bytes,
) -> Response<ResponseBody> {
    let asking = RestCall::again(named(tool), bytes);
    operate(face_request, directory, asking).await
}

/// Server and tool of a path.
fn named((server, tool): (&str, &str)) -> (String, String) {
    let decode = |segment: &str| percent_encoding::percent_decode_str(segment).decode_utf8_lossy().into_owned();
    (decode(server), decode(tool))
}

async fn operate(
    face_request: &FaceRequest<'_>,
    directory: &dyn ToolDirectory,
    asking: Result<RestCall, Fault>,
) -> Response<ResponseBody> {
    let called = match asking {
        Ok(asking) => asking.call(directory, face_request, form_of(face_request)).await,
        Err(fault) => RestOutcome::Failed(RestFault::from(&fault)),
    };
    match called {
        RestOutcome::Result(result) => http::json(StatusCode::OK, ResponseBody::one(result.bytes().clone())),
        RestOutcome::Failed(fault) => fault.response(),
    }
}

fn form_of(face_request: &FaceRequest<'_>) -> ResultForm {
    match query(face_request, "raw").as_deref() {
        // Anything else means the plain form, so that a typing error does not fail the call.
        Some("true" | "1") => ResultForm::Raw,
        _ => ResultForm::Plain,
    }
}

fn query(face_request: &FaceRequest<'_>, key: &str) -> Option<String> {
    let query = face_request.parts.uri.query()?;
    url::form_urlencoded::parse(query.as_bytes()).find(|(known, _)| known == key).map(|(_, value)| value.into_owned())
}

fn invalid(message: &str) -> Fault {
    Fault::new(FaultCode::InvalidParams, message)
}

/// `GET /openapi.json`
pub(crate) async fn openapi(face_request: &FaceRequest<'_>, directory: &dyn ToolDirectory) -> Response<ResponseBody> {
    let _room = match face_request.gateway.begin(&face_request.principal) {
        Ok(room) => room,
        Err(fault) => return RestFault::from(&fault).response(),
    };
    let tools = directory.tools(face_request.principal.caller()).await;
    let security = DocumentSecurity::of(face_request.gateway.guard());
    let document: Value = super::openapi::document(&tools, face_request.gateway.config().limits.batch, &security);
    http::json(StatusCode::OK, ResponseBody::one(document.to_string().into()))
}

//! Parses a server's answer: validates that the line is a response and turns it into an outcome.

use std::sync::Arc;

use bytes::Bytes;
use tsugi_protocol::answer::{Call, CompletedResult, FaultCode, InputRequired, Outcome};
use tsugi_protocol::era::round_trip;
use tsugi_protocol::json::{JsonObject, ScanError, ScanErrorKind, lenient};
use tsugi_protocol::mcp::{Era, Method, ServerIdentity};
use tsugi_protocol::rpc::id::whole_number;
use tsugi_protocol::rpc::{ResponsePayload, RpcError, RpcResponse};

use super::context::ConnectionContext;

/// Parses the line that was routed to a call. The id is checked again here, on validated text.
pub(crate) fn answer(
    context: &ConnectionContext,
    identity: &Arc<ServerIdentity>,
    call: &Call,
    key: u64,
    line: Bytes,
) -> Outcome {
    let parsed = match list_key(&call.method) {
        None => JsonObject::parse_nested(line, "result"),
        Some(key) => parse_list(line, key),
    };
    let (envelope, result) = match parsed {
        Ok(parsed) => parsed,
        Err(error) if error.kind == ScanErrorKind::TooDeep => {
            return unacceptable(context, format!("the answer is not acceptable: {error}"));
        }
        Err(error) => return unacceptable(context, format!("the answer is not JSON: {error}")),
    };
    let ([id, version, error], _) = envelope.select(["id", "jsonrpc", "error"]);
    if id.and_then(|id| whole_number(envelope.value_bytes(id))) != Some(key) {
        return unacceptable(context, "the answer has another id");
    }
    if version.map(|version| envelope.value_bytes(version)) != Some(b"\"2.0\"") {
        return unacceptable(context, "the answer is not JSON-RPC 2.0");
    }
    if let Some(result) = result
        && error.is_none()
    {
        return of_result(context, identity, call, result);
    }
    match RpcResponse::from_object(&envelope) {
        Ok(response) => of_body(context, identity, call, response.body),
        Err(error) => unacceptable(context, error.to_string()),
    }
}

/// The member with the entries, if the answer is a list.
fn list_key(method: &Method) -> Option<&'static str> {
    match method {
        Method::ToolsList => Some("tools"),
        Method::ResourcesList => Some("resources"),
        Method::TemplatesList => Some("resourceTemplates"),
        Method::PromptsList => Some("prompts"),
        _ => None,
    }
}

/// Parses a list. An entry that is nested too deeply is dropped, and the others are kept.
fn parse_list(line: Bytes, key: &str) -> Result<(JsonObject, Option<JsonObject>), ScanError> {
    JsonObject::parse_nested(line.clone(), "result").or_else(|error| match lenient::without_deep_entries(&line, key) {
        Some(rest) if error.kind == ScanErrorKind::TooDeep => JsonObject::parse_nested(rest, "result"),
        _ => Err(error),
    })
}

/// The outcome of a call with this response.
pub(crate) fn of_body(
    context: &ConnectionContext,
    identity: &Arc<ServerIdentity>,
    call: &Call,
    body: ResponsePayload,
) -> Outcome {
    match body {
        ResponsePayload::Error(error) => of_error(context, call, identity, error),
        ResponsePayload::Result(raw) => match JsonObject::of(&raw) {
            Some(result) => of_result(context, identity, call, result),
            None => unacceptable(context, "the result is not an object"),
        },
    }
}

fn of_result(context: &ConnectionContext, identity: &Arc<ServerIdentity>, call: &Call, result: JsonObject) -> Outcome {
    let era = identity.version.era();
    let asks = era == Era::Modern && result.get_bytes("resultType") == Some(b"\"input_required\"");
    if !asks {
        return Outcome::Complete(CompletedResult { body: result, era, server: Some(identity.clone()) });
    }
    match InputRequired::from_result(&result) {
        Some(asked) => Outcome::InputRequired(context.seal_state(call, asked)),
        None => unacceptable(context, "the server asks for input without a question and without a state"),
    }
}

fn of_error(context: &ConnectionContext, call: &Call, identity: &Arc<ServerIdentity>, error: RpcError) -> Outcome {
    if identity.version.era() == Era::Legacy
        && call.method.may_ask()
        && let Some(asked) = round_trip::url_required(&error)
    {
        return Outcome::InputRequired(context.seal_state(call, asked));
    }
    Outcome::error(error)
}

fn unacceptable(context: &ConnectionContext, why: impl Into<String>) -> Outcome {
    Outcome::fault(context.fault(FaultCode::InvalidResponse, why))
}

//! Reading a server's answer: the proof that the line is a response, and what it means.

use std::sync::Arc;

use bytes::Bytes;
use tsugi_protocol::answer::{Call, Complete, FaultCode, InputRequired, Outcome};
use tsugi_protocol::era::round_trip;
use tsugi_protocol::json::Object;
use tsugi_protocol::mcp::{Era, ServerIdentity};
use tsugi_protocol::rpc::id::whole_number;
use tsugi_protocol::rpc::{Body, Response, RpcError};

use super::context::Context;

/// Reads the line that was routed to a call. The id is checked again here, on the proved text.
pub(crate) fn answer(context: &Context, identity: &Arc<ServerIdentity>, call: &Call, key: u64, line: Bytes) -> Outcome {
    let (envelope, result) = match Object::parse_nested(line, "result") {
        Ok(parsed) => parsed,
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
    match Response::from_object(&envelope) {
        Ok(response) => of_body(context, identity, call, response.body),
        Err(error) => unacceptable(context, error.to_string()),
    }
}

/// What a response's body means for a call.
pub(crate) fn of_body(context: &Context, identity: &Arc<ServerIdentity>, call: &Call, body: Body) -> Outcome {
    match body {
        Body::Error(error) => of_error(context, call, identity, error),
        Body::Result(raw) => match Object::of(&raw) {
            Some(result) => of_result(context, identity, call, result),
            None => unacceptable(context, "the result is not an object"),
        },
    }
}

fn of_result(context: &Context, identity: &Arc<ServerIdentity>, call: &Call, result: Object) -> Outcome {
    let era = identity.version.era();
    let asks = era == Era::Modern && result.get_bytes("resultType") == Some(b"\"input_required\"");
    if !asks {
        return Outcome::Complete(Complete { body: result, era, server: Some(identity.clone()) });
    }
    match InputRequired::from_result(&result) {
        Some(asked) => Outcome::InputRequired(context.seal_state(call, asked)),
        None => unacceptable(context, "the server asks for input but says neither for what nor keeps state"),
    }
}

fn of_error(context: &Context, call: &Call, identity: &Arc<ServerIdentity>, error: RpcError) -> Outcome {
    if identity.version.era() == Era::Legacy
        && call.method.may_ask()
        && let Some(asked) = round_trip::url_required(&error)
    {
        return Outcome::InputRequired(context.seal_state(call, asked));
    }
    Outcome::error(error)
}

fn unacceptable(context: &Context, why: impl Into<String>) -> Outcome {
    Outcome::fault(context.fault(FaultCode::InvalidResponse, why))
}

//! One JSON-RPC message: a request, a notification or a response, with raw payloads.

use bytes::Bytes;

use super::error::RpcError;
use super::id::RequestId;
use crate::json::{JsonObject, ObjectWriter, RawJson, ScanError};
use crate::mcp::Method;

/// A message from a peer.
#[derive(Debug, Clone)]
pub enum RpcMessage {
    /// Wants exactly one response.
    Request(RpcRequest),
    Notification(RpcNotification),
    Response(RpcResponse),
}

/// A message with what is in it. Objects with duplicate keys are not given.
#[derive(Debug)]
pub struct ParsedMessage {
    pub message: RpcMessage,
    /// Its parameters as an object; a message without parameters has empty ones, and a response none.
    pub params: Option<JsonObject>,
    /// The `_meta` of its parameters.
    pub meta: Option<JsonObject>,
}

/// A request. Members of the envelope that JSON-RPC does not know are kept.
#[derive(Debug, Clone)]
pub struct RpcRequest {
    /// Its id, echoed in the answer.
    pub id: RequestId,
    pub method: Method,
    /// With what, when anything.
    pub params: Option<RawJson>,
    extra: Bytes,
}

#[derive(Debug, Clone)]
pub struct RpcNotification {
    pub method: Method,
    /// To what, when said.
    pub params: Option<RawJson>,
    extra: Bytes,
}

#[derive(Debug, Clone)]
pub struct RpcResponse {
    /// The request it answers; absent when the peer could not read the request's id.
    pub id: Option<RequestId>,
    pub body: ResponsePayload,
    extra: Bytes,
}

/// What a response carries.
#[derive(Debug, Clone)]
pub enum ResponsePayload {
    Result(RawJson),
    Error(RpcError),
}

/// Why bytes of a peer are not a message that can be accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// Over the limit. It is dropped as it arrives, so that it never fills the memory; the stream goes on after it.
    #[error("a message is larger than {limit} bytes")]
    TooLarge { limit: usize },
    /// A `Content-Length` header that cannot be read. Everything up to the next one is dropped.
    #[error("not a frame: {0}")]
    Frame(&'static str),
    /// Not JSON at all, or an envelope with a repeated key.
    #[error("not JSON: {0}")]
    Json(#[from] ScanError),
    /// JSON, but not a JSON-RPC 2.0 message.
    #[error("not a JSON-RPC message: {0}")]
    Envelope(&'static str),
    /// A modern request whose `_meta` lacks an entry.
    #[error("_meta lacks {0}")]
    MissingMeta(&'static str),
    #[error("_meta has an invalid {0}")]
    InvalidMeta(&'static str),
    /// A revision that is not spoken here as a modern one.
    #[error("unsupported protocol version {0:?}")]
    Version(String),
}

impl RpcMessage {
    /// Reads one message. The payloads share the buffer of `bytes`.
    pub fn parse(bytes: Bytes) -> Result<Self, MessageError> {
        Self::from_object(&JsonObject::parse(bytes)?)
    }

    /// Reads one message together with its parameters and their `_meta`, in one pass.
    pub fn parse_with_params(bytes: Bytes) -> Result<ParsedMessage, MessageError> {
        let (object, [params, meta]) = JsonObject::parse_along(bytes, ["params", "_meta"])?;
        let message = Self::from_object(&object)?;
        let params = match &message {
            RpcMessage::Request(request) => params.or_else(|| request.params_object()),
            RpcMessage::Notification(notification) => params.or_else(|| Some(notification.params_object())),
            RpcMessage::Response(_) => None,
        };
        // Written with an escape it was not seen on the way.
        let meta = params.as_ref().and_then(|params| meta.or_else(|| params.get_object("_meta")));
        Ok(ParsedMessage { message, params, meta })
    }

    /// Reads a message from an object whose members are known.
    pub fn from_object(object: &JsonObject) -> Result<Self, MessageError> {
        let ([version, id, method, params, result, error], others) =
            object.select(["jsonrpc", "id", "method", "params", "result", "error"]);
        if version.map(|version| object.value_bytes(version)) != Some(b"\"2.0\"") {
            return Err(MessageError::Envelope("the member `jsonrpc` must be \"2.0\""));
        }
        // Only a response has no method.
        let Some(method) = method else { return RpcResponse::from_object(object).map(RpcMessage::Response) };
        let method = object.value_str(method).ok_or(MessageError::Envelope("the member `method` must be a string"))?;
        let method = Method::from(method.as_ref());
        // Two readers could take it for two different messages.
        if result.is_some() || error.is_some() {
            return Err(MessageError::Envelope("both a request and a response"));
        }
        let params = params.map(|params| object.value(params));
        // Most envelopes have no other members, and then none are copied.
        let extra = if others == 0 { Bytes::new() } else { unknown(object, &["jsonrpc", "id", "method", "params"]) };
        let Some(id) = id else { return Ok(RpcMessage::Notification(RpcNotification { method, params, extra })) };
        let id = RequestId::from_raw(object.value(id));
        let id = id.ok_or(MessageError::Envelope("the id must be a string or a number"))?;
        Ok(RpcMessage::Request(RpcRequest { id, method, params, extra }))
    }

    /// Writes the message on one line, without a line end.
    pub fn to_bytes(&self) -> Bytes {
        match self {
            RpcMessage::Request(request) => request.to_bytes(),
            RpcMessage::Notification(notification) => notification.to_bytes(),
            RpcMessage::Response(response) => response.to_bytes(),
        }
    }
}

/// The members of an envelope that JSON-RPC does not define, as they were written.
fn unknown(object: &JsonObject, known: &[&str]) -> Bytes {
    if object.members().len() <= known.len() && object.members().iter().all(|member| object.is_one_of(*member, known)) {
        return Bytes::new();
    }
    let mut splice = ObjectWriter::with_capacity(0);
    splice.members_except(object, known);
    let written = splice.finish_bytes();
    // Without the braces: the pairs go into another object.
    written.slice(1..written.len() - 1)
}

impl RpcRequest {
    /// A request of our own.
    pub fn new(id: RequestId, method: Method, params: Option<RawJson>) -> Self {
        Self { id, method, params, extra: Bytes::new() }
    }

    /// The parameters as an object; the empty object when there are none.
    pub fn params_object(&self) -> Option<JsonObject> {
        match &self.params {
            None => Some(JsonObject::empty()),
            Some(params) => JsonObject::of(params),
        }
    }

    /// Members of the envelope that JSON-RPC does not define: `"key":value` pairs as written.
    pub fn extra(&self) -> &Bytes {
        &self.extra
    }

    /// Writes the request on one line.
    pub fn to_bytes(&self) -> Bytes {
        write_request(&self.id, self.method.as_str(), self.params.as_ref(), &self.extra)
    }
}

/// Writes a request on one line: the id and the parameters may be another caller's bytes.
pub fn write_request(id: &RequestId, method: &str, params: Option<&RawJson>, extra: &Bytes) -> Bytes {
    let size = method.len() + params.map_or(0, |params| params.bytes().len()) + extra.len() + 64;
    let mut splice = ObjectWriter::with_capacity(size);
    splice.string("jsonrpc", "2.0").raw("id", id.raw()).string("method", method);
    if let Some(params) = params {
        splice.raw("params", params);
    }
    splice.written(extra);
    crate::json::write::on_one_line(&splice.finish_bytes())
}

/// Writes a request of our own on one line, with a number as its id: the shape of every call upstream.
pub fn write_numbered(id: u64, method: &str, params: Option<&RawJson>) -> Bytes {
    let size = method.len() + params.map_or(0, |params| params.bytes().len()) + 80;
    let mut splice = ObjectWriter::with_capacity(size);
    splice.string("jsonrpc", "2.0").number("id", id).string("method", method);
    if let Some(params) = params {
        splice.raw("params", params);
    }
    crate::json::write::on_one_line(&splice.finish_bytes())
}

impl RpcNotification {
    /// A notification of our own.
    pub fn new(method: Method, params: Option<RawJson>) -> Self {
        Self { method, params, extra: Bytes::new() }
    }

    /// The parameters as an object; the empty object when there are none.
    pub fn params_object(&self) -> JsonObject {
        self.params.as_ref().and_then(JsonObject::of).unwrap_or_else(JsonObject::empty)
    }

    /// The same notification with other parameters; unknown members of the envelope stay.
    pub fn with_params(&self, params: Option<RawJson>) -> Self {
        Self { method: self.method.clone(), params, extra: self.extra.clone() }
    }

    /// Writes the notification on one line.
    pub fn to_bytes(&self) -> Bytes {
        let mut splice =
            ObjectWriter::with_capacity(64 + self.params.as_ref().map_or(0, |params| params.bytes().len()));
        splice.string("jsonrpc", "2.0").string("method", self.method.as_str());
        if let Some(params) = &self.params {
            splice.raw("params", params);
        }
        splice.written(&self.extra);
        crate::json::write::on_one_line(&splice.finish_bytes())
    }
}

impl RpcResponse {
    /// A response with a result.
    pub fn result(id: RequestId, result: RawJson) -> Self {
        Self { id: Some(id), body: ResponsePayload::Result(result), extra: Bytes::new() }
    }

    /// A response with an error.
    pub fn error(id: Option<RequestId>, error: RpcError) -> Self {
        Self { id, body: ResponsePayload::Error(error), extra: Bytes::new() }
    }

    /// Reads a response. `"error":null` beside a result is not an error; a result beside an error is
    /// refused, since two readers could disagree about it.
    pub fn from_object(object: &JsonObject) -> Result<Self, MessageError> {
        let error = object.get("error").filter(|error| !error.is_null());
        let body = match (object.get("result"), error) {
            (Some(result), None) => ResponsePayload::Result(result),
            (None, Some(error)) => ResponsePayload::Error(
                RpcError::from_raw(&error).ok_or(MessageError::Envelope("the member `error` must be an object"))?,
            ),
            (Some(_), Some(_)) => return Err(MessageError::Envelope("both a result and an error")),
            (None, None) => return Err(MessageError::Envelope("neither a method, a result nor an error")),
        };
        let id = object.get("id").and_then(RequestId::from_raw);
        // An error may lack the id when the peer could not read it. A result always answers a request.
        if id.is_none() && matches!(body, ResponsePayload::Result(_)) {
            return Err(MessageError::Envelope("a result without an id"));
        }
        Ok(Self { id, body, extra: unknown(object, &["jsonrpc", "id", "result", "error"]) })
    }

    /// Members of the envelope that JSON-RPC does not define.
    pub fn extra(&self) -> &Bytes {
        &self.extra
    }

    /// Writes the response on one line.
    pub fn to_bytes(&self) -> Bytes {
        // Room for all of it: growing to the size of a large result would copy it again and again.
        let size = if let ResponsePayload::Result(result) = &self.body { result.bytes().len() } else { 256 };
        let mut splice = ObjectWriter::with_capacity(size + self.extra.len() + 96);
        splice.string("jsonrpc", "2.0");
        if let Some(id) = &self.id {
            splice.raw("id", id.raw());
        }
        match &self.body {
            ResponsePayload::Result(result) => splice.raw("result", result),
            ResponsePayload::Error(error) => splice.raw("error", &error.raw()),
        };
        splice.written(&self.extra);
        crate::json::write::on_one_line(&splice.finish_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<RpcMessage, MessageError> {
        RpcMessage::parse(Bytes::copy_from_slice(text.as_bytes()))
    }

    #[test]
    fn messages_survive_byte_for_byte() {
        for text in [
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","a":1.50,"b":1e3}}"#,
            r#"{"jsonrpc":"2.0","id":"1","method":"vendor/unknown","params":[1,2],"trace":{"a":[]}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/odd","params":{"é":"é"},"x":0}"#,
            r#"{"jsonrpc":"2.0","id":12345678901234567890123,"result":{"z":1,"a":2},"took":3}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"m","data":null,"more":true}}"#,
            r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"m"}}"#,
        ] {
            assert_eq!(&parse(text).unwrap().to_bytes()[..], text.as_bytes());
        }
    }

    #[test]
    fn parameters_are_read_in_the_same_pass_or_not_at_all() {
        let parsed = |text: &'static str| RpcMessage::parse_with_params(Bytes::from_static(text.as_bytes())).unwrap();
        let params = |text: &'static str| parsed(text).params;
        for text in [
            r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":1,"_meta":{"b":2}}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":1,"_m\u0065ta":{"b":2}}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"x","par\u0061ms":{"_meta":{"b":2}}}"#,
        ] {
            assert_eq!(parsed(text).meta.unwrap().raw().as_str(), r#"{"b":2}"#, "{text}");
        }
        assert!(parsed(r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":{"b":2,"b":3}}}"#).meta.is_none());
        assert!(parsed(r#"{"jsonrpc":"2.0","id":1,"result":{"_meta":{}}}"#).meta.is_none());
        for text in [
            r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":1}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"x","par\u0061ms":{"a":1}}"#,
            r#"{"jsonrpc":"2.0","method":"x","params":{"a":1}}"#,
        ] {
            assert_eq!(params(text).unwrap().raw().as_str(), r#"{"a":1}"#, "{text}");
        }
        assert!(params(r#"{"jsonrpc":"2.0","id":1,"method":"x"}"#).unwrap().is_empty());
        assert!(params(r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":1,"a":2}}"#).is_none());
        assert!(params(r#"{"jsonrpc":"2.0","id":1,"method":"x","params":[1]}"#).is_none());
        assert!(params(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#).is_none());
    }

    #[test]
    fn what_is_no_message_says_why() {
        for text in [
            "1",
            "[]",
            "{}",
            r#"{"jsonrpc":"1.0","method":"x"}"#,
            r#"{"jsonrpc":"2.0","id":null,"method":"x"}"#,
            r#"{"jsonrpc":"2.0","id":{},"method":"x"}"#,
            r#"{"jsonrpc":"2.0","id":1}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":1,"error":{"code":1,"message":""}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"x","result":1}"#,
            r#"{"jsonrpc":"2.0","id":1,"id":2,"result":1}"#,
            r#"{"jsonrpc":"2.0","method":5}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":"no"}"#,
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_null_error_beside_a_result_is_no_error() {
        let message = parse(r#"{"jsonrpc":"2.0","id":1,"result":{},"error":null}"#).unwrap();
        assert!(matches!(message, RpcMessage::Response(RpcResponse { body: ResponsePayload::Result(_), .. })));
    }
}

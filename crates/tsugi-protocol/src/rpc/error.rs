//! A JSON-RPC error object, kept as it was written.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::json::{JsonObject, ObjectWriter, RawJson};

/// The `error` member of a response. One that a server sent is passed on byte for byte.
#[derive(Debug, Clone)]
pub struct RpcError {
    object: JsonObject,
    code: i64,
}

impl RpcError {
    /// An error of our own.
    pub fn new(code: i64, message: &str) -> Self {
        Self::with_data(code, message, None)
    }

    /// An error of our own with data.
    pub fn with_data(code: i64, message: &str, data: Option<&RawJson>) -> Self {
        let mut splice = ObjectWriter::with_capacity(64 + message.len());
        splice.raw("code", &RawJson::from_value(&code)).string("message", message);
        if let Some(data) = data {
            splice.raw("data", data);
        }
        Self { object: splice.finish_object(), code }
    }

    /// An error as a peer wrote it. A code that is not an integer reads as an internal error,
    /// but is still passed on as written.
    pub fn from_raw(raw: &RawJson) -> Option<Self> {
        let object = JsonObject::of(raw)?;
        let code = object.get("code").and_then(|code| code.to().ok()).unwrap_or(super::code::INTERNAL_ERROR);
        Some(Self { object, code })
    }

    pub fn code(&self) -> i64 {
        self.code
    }

    /// The message; empty when the peer sent none.
    pub fn message(&self) -> String {
        self.object.get_lossy("message").unwrap_or_default()
    }

    /// The data, when there is any.
    pub fn data(&self) -> Option<RawJson> {
        self.object.get("data")
    }

    /// The error for programs that do not know JSON-RPC: `jsonrpcCode`, and beside it the fields of the data.
    pub fn details(&self) -> Value {
        let mut details = json!({"jsonrpcCode": self.code});
        match self.data().and_then(|data| data.to::<Value>().ok()) {
            Some(Value::Object(fields)) => {
                for (key, value) in fields.into_iter().filter(|(key, _)| key != "jsonrpcCode") {
                    details[key.as_str()] = value;
                }
            }
            Some(other) => details["data"] = other,
            None => {}
        }
        details
    }

    /// The data as an object, when it is one.
    pub fn data_object(&self) -> Option<JsonObject> {
        self.object.get_object("data")
    }

    /// The error object as JSON.
    pub fn raw(&self) -> RawJson {
        self.object.raw()
    }

    /// The same error with another number; everything else stays as written.
    pub fn with_code(&self, code: i64) -> Self {
        let mut splice = ObjectWriter::with_capacity(self.object.bytes().len());
        splice.raw("code", &RawJson::from_value(&code)).members_except(&self.object, &["code"]);
        Self { object: splice.finish_object(), code }
    }

    /// The same error with other data.
    pub fn replace_data(&self, data: &RawJson) -> Self {
        let mut splice = ObjectWriter::with_capacity(self.object.bytes().len() + data.bytes().len());
        splice.members_except(&self.object, &["data"]).raw("data", data);
        Self { object: splice.finish_object(), code: self.code }
    }

    /// The response line that carries this error; without an id when the request's could not be read.
    pub fn response(&self, id: Option<&super::RequestId>) -> Bytes {
        let mut splice = ObjectWriter::with_capacity(self.object.bytes().len() + 48);
        splice.string("jsonrpc", "2.0");
        if let Some(id) = id {
            splice.raw("id", id.raw());
        }
        splice.raw("error", &self.raw());
        splice.finish_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_are_the_number_and_the_fields_of_the_data() {
        let details = |data: Option<Value>| RpcError::with_data(-1, "m", data.map(RawJson::from).as_ref()).details();
        assert_eq!(details(None), json!({"jsonrpcCode": -1}));
        assert_eq!(details(Some(json!({"a": 2, "jsonrpcCode": 3}))), json!({"jsonrpcCode": -1, "a": 2}));
        assert_eq!(details(Some(json!([1]))), json!({"jsonrpcCode": -1, "data": [1]}));
    }

    #[test]
    fn a_peers_error_keeps_members_we_do_not_know() {
        let raw = RawJson::literal(r#"{"code":-32002,"message":"gone","data":{"uri":"a:b"},"vendor":[1]}"#);
        let error = RpcError::from_raw(&raw).unwrap();
        assert_eq!(error.raw(), raw);
        let renumbered = error.with_code(-32602);
        assert_eq!(renumbered.raw().as_str(), r#"{"code":-32602,"message":"gone","data":{"uri":"a:b"},"vendor":[1]}"#);
    }

    #[test]
    fn a_code_that_is_no_whole_number_is_passed_on_as_written() {
        let raw = RawJson::literal(r#"{"code":"E1","message":"odd"}"#);
        let error = RpcError::from_raw(&raw).unwrap();
        assert_eq!(error.code(), super::super::code::INTERNAL_ERROR);
        assert_eq!(error.raw(), raw);
    }
}

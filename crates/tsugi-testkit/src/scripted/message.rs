//! Messages as a scripted server reads and writes them.

use serde_json::{Value, json};

use crate::script::Form;

/// The key under which a modern request says its revision.
pub(super) const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
/// The key under which a modern request says what its client can do.
pub(super) const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
/// The key of the tag that a subscription's notifications carry.
pub(super) const SUBSCRIPTION_KEY: &str = "io.modelcontextprotocol/subscriptionId";

/// A request or a notification.
#[derive(Debug, Clone)]
pub(super) struct Request {
    /// Null for a notification.
    pub(super) id: Value,
    pub(super) method: String,
    pub(super) params: Value,
}

impl Request {
    /// Reads a message that has a method.
    pub(super) fn of(message: &Value) -> Option<Self> {
        let method = message.get("method")?.as_str()?.to_owned();
        let params = message.get("params").cloned().unwrap_or_else(|| json!({}));
        Some(Self { id: message.get("id").cloned().unwrap_or(Value::Null), method, params })
    }

    pub(super) fn meta(&self, key: &str) -> Option<&Value> {
        self.params.get("_meta")?.get(key)
    }

    /// True when it is written as the modern era writes.
    pub(super) fn is_modern(&self) -> bool {
        self.meta(VERSION_KEY).is_some()
    }

    /// The tool that is called.
    pub(super) fn tool(&self) -> Option<&str> {
        (self.method == "tools/call").then(|| self.params.get("name")?.as_str()).flatten()
    }
}

/// The body of an answer: a result as JSON text (it may be larger than a `Value` should be), or an error.
#[derive(Debug, Clone)]
pub(super) enum Body {
    Result(String),
    Error(Value),
}

/// An error body.
pub(super) fn error(code: i64, message: &str) -> Body {
    Body::Error(json!({"code": code, "message": message}))
}

/// An answer in its usual or in a wrong form: one message or several.
pub(super) fn written(id: &Value, body: &Body, form: Option<Form>) -> Vec<String> {
    let usual = || envelope(Some(&id.to_string()), body);
    match form {
        None => vec![usual()],
        Some(Form::Twice) => vec![usual(), usual()],
        Some(Form::UnknownIdFirst) => vec![envelope(Some("987654321"), body), usual()],
        Some(Form::OtherIdType) => vec![envelope(Some(&other_type(id)), body)],
        Some(Form::NullId) => vec![envelope(Some("null"), body)],
        Some(Form::FloatId) => vec![envelope(Some(&format!("{id}.0")), body)],
        Some(Form::NoId) => vec![envelope(None, body)],
        Some(Form::ResultAndError) => {
            vec![format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}},"error":{{"code":-1,"message":"both"}}}}"#)]
        }
        Some(Form::Neither) => vec![format!(r#"{{"jsonrpc":"2.0","id":{id}}}"#)],
        Some(Form::ResultIsText) => vec![format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"text"}}"#)],
        Some(Form::OldJsonRpc) => vec![usual().replacen("2.0", "1.0", 1)],
        Some(Form::InArray) => vec![format!("[{}]", usual())],
        Some(Form::Spaced) => vec![spaced(&usual())],
        Some(Form::Indented) => vec![indented(&usual())],
    }
}

fn envelope(id: Option<&str>, body: &Body) -> String {
    let id = id.map(|id| format!(r#""id":{id},"#)).unwrap_or_default();
    match body {
        Body::Result(result) => format!(r#"{{"jsonrpc":"2.0",{id}"result":{result}}}"#),
        Body::Error(error) => format!(r#"{{"jsonrpc":"2.0",{id}"error":{error}}}"#),
    }
}

fn other_type(id: &Value) -> String {
    match id {
        Value::String(text) if text.parse::<u64>().is_ok() => text.clone(),
        other => Value::String(other.to_string()).to_string(),
    }
}

fn spaced(message: &str) -> String {
    ["\"jsonrpc\":", ",\"id\":", ",\"result\":"]
        .iter()
        .fold(message.to_owned(), |text, key| text.replacen(key, &key.replace(':', ": ").replace(',', ", "), 1))
}

fn indented(message: &str) -> String {
    serde_json::from_str::<Value>(message).map_or_else(|_| message.to_owned(), |value| format!("{value:#}"))
}

/// A notification or a request of the server.
pub(super) fn outgoing(id: Option<u64>, method: &str, params: &Value) -> String {
    let mut message = json!({"jsonrpc": "2.0", "method": method, "params": params});
    if let Some(id) = id {
        message["id"] = id.into();
    }
    message.to_string()
}

//! Asks the client in the middle of a call, which in the modern form means ending it and being called again.

use serde::de::DeserializeOwned;
use serde_json::json;

use crate::answer::InputRequired;
use crate::json::{JsonObject, ObjectWriter, RawJson};
use crate::mcp::{ClientCapabilities, Method};

use super::error::HandlerError;

/// The questions that a handler ends with, and what it wants to be told when it is called again
/// ([MRTR](https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr)).
///
/// The call is over when this is returned. The client may ask again with the answers, ask again with only
/// some of them, or never come back. The state passes through the client: treat what comes back as the
/// client's words, and sign it yourself if it decides anything.
#[derive(Debug, Default)]
pub struct NeedInput {
    questions: Vec<(String, Method, RawJson)>,
    state: Option<String>,
}

impl NeedInput {
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks the user to fill in a form. `schema` is a flat object of strings, numbers, booleans and choices.
    pub fn form(self, key: &str, message: &str, schema: &RawJson) -> Self {
        self.question(
            key,
            Method::Elicit,
            json!({"mode": "form", "message": message, "requestedSchema": schema}).into(),
        )
    }

    /// Asks the user to visit an address.
    pub fn url(self, key: &str, message: &str, url: &str) -> Self {
        self.question(key, Method::Elicit, json!({"mode": "url", "message": message, "url": url}).into())
    }

    /// Asks the client's model. `params` is that of `sampling/createMessage`.
    pub fn sampling(self, key: &str, params: RawJson) -> Self {
        self.question(key, Method::CreateMessage, params)
    }

    /// Asks for the client's roots.
    pub fn roots(self, key: &str) -> Self {
        self.question(key, Method::RootsList, RawJson::literal("{}"))
    }

    /// Asks anything. A second question under the same key replaces the first.
    pub fn question(mut self, key: &str, method: Method, params: RawJson) -> Self {
        self.questions.retain(|(known, ..)| known != key);
        self.questions.push((key.to_owned(), method, params));
        self
    }

    /// Keeps this until the handler is called again.
    pub fn state(mut self, state: impl Into<String>) -> Self {
        self.state = Some(state.into());
        self
    }

    /// Refuses questions that the client did not say it can answer
    /// ([Server Requirements](https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr#server-requirements-basic-workflow)).
    pub(super) fn checked(self, client: &ClientCapabilities) -> Result<Self, HandlerError> {
        let mut missing = Vec::new();
        for (_, method, params) in &self.questions {
            missing.extend(client.missing_for(method, JsonObject::of(params).as_ref()));
        }
        if missing.is_empty() { Ok(self) } else { Err(HandlerError::missing_capability(&merged(&missing))) }
    }

    pub(super) fn into_outcome(self) -> InputRequired {
        let mut requests = ObjectWriter::with_capacity(256);
        for (key, method, params) in &self.questions {
            let mut question = ObjectWriter::with_capacity(params.bytes().len() + 64);
            question.string("method", method.as_str()).raw("params", params);
            requests.raw(key, &question.finish());
        }
        // One of the two must be there; a retry without questions needs at least an empty state.
        let is_bare = self.questions.is_empty();
        let state = self.state.or_else(|| is_bare.then(String::new));
        InputRequired {
            requests: (!is_bare).then(|| Box::new(requests.finish_object())),
            state,
            rest: Box::new(JsonObject::empty()),
            release: None,
        }
    }
}

/// Capabilities such as `{"elicitation":{"form":{}}}` and `{"sampling":{}}` as one object.
fn merged(required: &[RawJson]) -> RawJson {
    let mut all = serde_json::Map::new();
    for raw in required {
        let one: serde_json::Map<String, serde_json::Value> = raw.to().unwrap_or_default();
        for (name, settings) in one {
            match (all.get_mut(&name).and_then(|known| known.as_object_mut()), settings) {
                (Some(known), serde_json::Value::Object(settings)) => known.extend(settings),
                (_, settings) => _ = all.insert(name, settings),
            }
        }
    }
    RawJson::from(serde_json::Value::Object(all))
}

/// What the user did with a form or an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ElicitationAnswer<T> {
    Accepted(T),
    Declined,
    Cancelled,
}

impl<T: DeserializeOwned> ElicitationAnswer<T> {
    /// Reads an answer to an elicitation. The content must fit `T`; for an address, which has none, use `()`.
    pub(super) fn of(answer: &RawJson) -> Result<Self, HandlerError> {
        let answer = JsonObject::of(answer)
            .ok_or_else(|| HandlerError::invalid_params("an input response must be an object"))?;
        match answer.get_str("action").as_deref() {
            Some("accept") => {
                let content = answer.get("content").unwrap_or_else(|| RawJson::literal("null"));
                super::arguments::read(&content).map(ElicitationAnswer::Accepted).map_err(HandlerError::invalid_params)
            }
            Some("decline") => Ok(ElicitationAnswer::Declined),
            Some("cancel") => Ok(ElicitationAnswer::Cancelled),
            _ => Err(HandlerError::invalid_params("an input response to a form lacks its action")),
        }
    }
}

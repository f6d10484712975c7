//! The questions of an `input_required` result and the answers to them, as maps by key.

use crate::answer::InputRequired;
use crate::json::{JsonObject, ObjectWriter, RawJson};
use crate::mcp::Method;

/// One question: what a server asks the client for.
#[derive(Debug, Clone)]
pub struct Question {
    /// The key under which the answer is expected.
    pub key: String,
    /// `elicitation/create`, `sampling/createMessage` or `roots/list`.
    pub method: Method,
    pub params: Option<RawJson>,
}

impl Question {
    /// The parameters as an object.
    pub fn params_object(&self) -> JsonObject {
        self.params.as_ref().and_then(JsonObject::of).unwrap_or_else(JsonObject::empty)
    }

    fn to_raw(&self) -> RawJson {
        let mut question = ObjectWriter::with_capacity(128);
        question.string("method", self.method.as_str());
        if let Some(params) = &self.params {
            question.raw("params", params);
        }
        question.finish()
    }
}

impl InputRequired {
    /// One question under one key.
    pub fn one(key: &str, method: &Method, params: Option<&RawJson>, state: Option<String>) -> Self {
        Self::of([&Question { key: key.to_owned(), method: method.clone(), params: params.cloned() }], state)
    }

    /// These questions, whose keys differ.
    pub fn of<'a>(questions: impl IntoIterator<Item = &'a Question>, state: Option<String>) -> Self {
        let mut requests = ObjectWriter::with_capacity(128);
        for question in questions {
            requests.raw(&question.key, &question.to_raw());
        }
        Self {
            requests: Some(Box::new(requests.finish_object())),
            state,
            rest: Box::new(JsonObject::empty()),
            release: None,
        }
    }

    /// Reads a result with `resultType: "input_required"`. `None` when it asks nothing and keeps no state,
    /// which the specification forbids.
    pub fn from_result(result: &JsonObject) -> Option<Self> {
        let requests = result.get_object("inputRequests").map(Box::new);
        let state = result.get_str("requestState").map(|state| state.into_owned());
        if requests.is_none() && state.is_none() {
            return None;
        }
        let mut rest = ObjectWriter::with_capacity(64);
        rest.members(result, |key| !matches!(key, "resultType" | "inputRequests" | "requestState"));
        Some(Self { requests, state, rest: Box::new(rest.finish_object()), release: None })
    }

    /// The result as a modern server writes it.
    pub fn to_result(&self) -> JsonObject {
        let mut result = ObjectWriter::with_capacity(256);
        result.string("resultType", "input_required");
        if let Some(requests) = &self.requests {
            result.raw("inputRequests", &requests.raw());
        }
        if let Some(state) = &self.state {
            result.string("requestState", state);
        }
        result.all_members(&self.rest);
        result.finish_object()
    }

    /// The questions, in the order they were written. Ones that cannot be read are left out.
    pub fn questions(&self) -> Vec<Question> {
        let Some(requests) = &self.requests else { return Vec::new() };
        requests.members().iter().filter_map(|member| question(requests, *member)).collect()
    }
}

fn question(requests: &JsonObject, member: crate::json::MemberSpan) -> Option<Question> {
    let body = JsonObject::of(&requests.value(member))?;
    let method = Method::from(body.get_str("method")?.as_ref());
    Some(Question { key: requests.key(member).into_owned(), method, params: body.get("params") })
}

/// Collects answers into `inputResponses`.
#[derive(Debug)]
pub struct InputResponses(ObjectWriter);

impl Default for InputResponses {
    fn default() -> Self {
        Self(ObjectWriter::with_capacity(128))
    }
}

impl InputResponses {
    /// Adds the answer to one question.
    pub fn add(&mut self, key: &str, answer: &RawJson) {
        self.0.raw(key, answer);
    }

    pub fn finish(self) -> RawJson {
        self.0.finish()
    }
}

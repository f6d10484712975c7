//! One tool call over REST: from a small JSON object to a plain result.

use std::sync::Arc;

use ::http::StatusCode;
use bytes::Bytes;
use serde_json::{Value, json};
use tsugi_protocol::answer::{Call, Fault, FaultCode, InputRequired, Outcome};
use tsugi_protocol::json::{JsonObject, RawJson};
use tsugi_protocol::mcp::meta::RequestMeta;
use tsugi_protocol::mcp::{ClientCapabilities, ClientProfile, tool};

use super::invalid;
use crate::backend::ToolDirectory;
use crate::face::FaceRequest;
use crate::face::fault::RestFault;
use crate::face::mcp::modern::adopt_trace;
use crate::face::running_call::RunningCall;

/// How a result is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResultForm {
    /// What the tool meant.
    Plain,
    /// The whole MCP result.
    Raw,
}

/// What came of a call.
pub(crate) enum RestOutcome {
    Result(RawJson),
    Failed(RestFault),
}

/// `{server, toolName, input}`, and for a repeated call `inputResponses` and `requestState`.
pub(crate) struct RestCall {
    server: Option<String>,
    tool: String,
    input: Option<RawJson>,
    responses: Option<RawJson>,
    state: Option<String>,
    answer_at: AnswerAt,
}

/// Where a caller answers what the tool asks.
#[derive(Debug, Clone, Copy)]
enum AnswerAt {
    /// `POST /mcp/call`
    Call,
    /// The operation's own address for answers.
    Operation,
}

fn object(bytes: Bytes) -> Result<JsonObject, Fault> {
    JsonObject::parse(bytes).map_err(|error| invalid(&format!("the body is not a JSON object: {error}")))
}

/// A text in a body; `null` counts as absent.
fn text_in(body: &JsonObject, key: &str) -> Result<Option<String>, Fault> {
    match body.get(key).filter(|value| !value.is_null()) {
        None => Ok(None),
        Some(value) => value.as_string().map(Some).ok_or_else(|| invalid(&format!("`{key}` must be a string"))),
    }
}

/// An object in a body; `null` counts as absent.
fn object_in(body: &JsonObject, key: &str) -> Result<Option<RawJson>, Fault> {
    match body.get(key).filter(|value| !value.is_null()) {
        Some(value) if !value.is_object() => Err(invalid(&format!("`{key}` must be an object"))),
        value => Ok(value),
    }
}

impl RestCall {
    /// Reads the body of a call.
    pub(crate) fn read(bytes: Bytes) -> Result<Self, Fault> {
        let body = object(bytes)?;
        let tool = text_in(&body, "toolName")?.ok_or_else(|| invalid("`toolName` is missing"))?;
        Self::with_answers(text_in(&body, "server")?, tool, &body, AnswerAt::Call)
    }

    /// A call whose arguments are the whole body.
    pub(crate) fn of((server, tool): (String, String), bytes: Bytes) -> Result<Self, Fault> {
        // A tool without arguments may be called with an empty body.
        let input = if bytes.is_empty() { JsonObject::empty() } else { object(bytes)? };
        let (server, input) = (Some(server), Some(input.raw()));
        Ok(Self { server, tool, input, responses: None, state: None, answer_at: AnswerAt::Operation })
    }

    /// The same call again, with answers: the body is as that of a call, but for what the address says.
    pub(crate) fn again((server, tool): (String, String), bytes: Bytes) -> Result<Self, Fault> {
        let again = Self::with_answers(Some(server), tool, &object(bytes)?, AnswerAt::Operation)?;
        match (&again.responses, &again.state) {
            // Without either it would be a new call, and the tool would ask again.
            (None, None) => Err(invalid("`inputResponses` and `requestState` are missing")),
            _ => Ok(again),
        }
    }

    fn with_answers(
        server: Option<String>,
        tool: String,
        body: &JsonObject,
        answer_at: AnswerAt,
    ) -> Result<Self, Fault> {
        let input = object_in(body, "input")?;
        let (responses, state) = (object_in(body, "inputResponses")?, text_in(body, "requestState")?);
        Ok(Self { server, tool, input, responses, state, answer_at })
    }

    /// Calls the tool.
    pub(crate) async fn call(
        self,
        directory: &dyn ToolDirectory,
        face_request: &FaceRequest<'_>,
        form: ResultForm,
    ) -> RestOutcome {
        let caller = face_request.principal.caller();
        let found = match directory.find(caller, self.server.as_deref(), &self.tool).await {
            Ok(found) => found,
            Err(fault) => {
                let mut call = Call::tool(&self.tool, None).from_caller(caller.clone());
                call.options = face_request.options("rest");
                // No server is asked, so that no layer below counts it.
                face_request.gateway.metrics().refuse(&call, &fault);
                return RestOutcome::Failed(RestFault::from(&fault));
            }
        };
        // Servers may reject a call without `arguments`.
        let empty = RawJson::literal("{}");
        let mut call = Call::tool(&found.name, Some(self.input.as_ref().unwrap_or(&empty))).from_caller(caller.clone());
        call.meta = RequestMeta::of_client(profile());
        adopt_trace(&face_request.parts.headers, &mut call.meta);
        call.options = face_request.options("rest");
        // The same call again, with the answers to what the tool asked.
        if self.responses.is_some() || self.state.is_some() {
            call = call.retry_with(self.responses.as_ref(), self.state.as_deref());
        }
        let answer = face_request.gateway.at_root(face_request.gateway.rate_limited(found.answer));
        match RunningCall::start(&*answer, call).outcome().await {
            Outcome::Complete(complete) => result(&complete.body, form),
            Outcome::InputRequired(input) => RestOutcome::Failed(questions(&input, self.answer_at)),
            Outcome::Failed(failure) => RestOutcome::Failed(RestFault::from(&failure)),
        }
    }
}

/// A REST caller can be asked anything: it gets the questions and repeats the call with the answers.
fn profile() -> Arc<ClientProfile> {
    static PROFILE: std::sync::LazyLock<Arc<ClientProfile>> = std::sync::LazyLock::new(|| {
        let info = json!({"name": "tsugi-rest", "version": env!("CARGO_PKG_VERSION")});
        let capabilities = ClientCapabilities::all();
        Arc::new(ClientProfile { info: Some(info.into()), capabilities, ..ClientProfile::default() })
    });
    PROFILE.clone()
}

fn result(body: &JsonObject, form: ResultForm) -> RestOutcome {
    if form == ResultForm::Raw {
        return RestOutcome::Result(body.raw());
    }
    if tool::is_error(body) {
        return RestOutcome::Failed(tool_error(body));
    }
    RestOutcome::Result(tool::result::data(body).unwrap_or_else(|| RawJson::literal("[]")))
}

fn tool_error(body: &JsonObject) -> RestFault {
    let content: Value = body.get("content").and_then(|content| content.to_lossy().ok()).unwrap_or_default();
    let mut details = json!({"isError": true, "content": content});
    if let Some(structured) = body.get("structuredContent").and_then(|value| value.to_lossy::<Value>().ok()) {
        details["structuredContent"] = structured;
    }
    RestFault {
        status: StatusCode::INTERNAL_SERVER_ERROR,
        code: "TOOL_EXECUTION_ERROR",
        message: tool::result::failure(body),
        details: Some(details),
        retry_after: None,
        challenge: None,
    }
}

fn questions(input: &InputRequired, answer_at: AnswerAt) -> RestFault {
    let fault = Fault::new(
        FaultCode::InputRequired,
        match answer_at {
            AnswerAt::Call => {
                "the tool asks for input: repeat the call with the same `input`, and with `inputResponses` and `requestState`"
            }
            AnswerAt::Operation => {
                "the tool asks for input: post `{input, inputResponses, requestState}` to the tool's address with `/answer` \
                 after it, where `input` are its arguments as before"
            }
        },
    );
    let requests = input.requests.as_ref().and_then(|requests| requests.raw().to::<Value>().ok());
    let details = json!({"inputRequests": requests, "requestState": input.state});
    RestFault { details: Some(details), ..RestFault::from(&fault) }
}

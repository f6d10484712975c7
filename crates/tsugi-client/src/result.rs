//! A tool's result as an agent wants it: success or failure, data, and how long it took; beside the raw result.

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use tsugi_protocol::answer::{CallFailure, Fault, FaultCode, Outcome};
use tsugi_protocol::json::JsonObject;
use tsugi_protocol::mcp::tool;
use tsugi_protocol::rpc::{RpcError, code};

/// The result of one tool call.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct ToolResult {
    /// Whether the tool did what was asked.
    pub success: bool,
    /// What it gave: structured content, else the text read as JSON, else the text, else the content blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ToolError>,
    /// Facts about the call.
    pub metadata: ResultMetadata,
    /// The MCP result as the server wrote it, when there is one.
    #[serde(skip)]
    pub raw: Option<JsonObject>,
    /// The failure in full, when it was not the tool's own.
    #[serde(skip)]
    pub fault: Option<Fault>,
}

/// Why a tool call failed.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct ToolError {
    /// A stable word, such as `TIMEOUT`.
    pub code: String,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    /// Whether trying again could help.
    pub retryable: bool,
}

/// Facts about a call.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ResultMetadata {
    /// How long it took, in milliseconds.
    pub execution_time: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    pub tool: String,
}

impl ToolResult {
    pub fn new(tool: &str, server: Option<&str>, outcome: Outcome, took: Duration) -> Self {
        let metadata = ResultMetadata {
            execution_time: took.as_secs_f64() * 1000.0,
            server: server.map(str::to_owned),
            tool: tool.to_owned(),
        };
        let blank = Self { success: false, data: None, error: None, metadata, raw: None, fault: None };
        match outcome {
            Outcome::Complete(complete) => blank.complete(complete.body),
            Outcome::Failed(CallFailure::Upstream(error)) => blank.failed(ToolError::of_rpc(&error)),
            Outcome::Failed(CallFailure::Fault(fault)) => {
                let error = ToolError::of_fault(&fault);
                Self { fault: Some(*fault), ..blank.failed(error) }
            }
            Outcome::InputRequired(asked) => {
                let details = asked.to_result().raw().to_lossy().ok();
                let message = "the tool asks for input".to_owned();
                let code = FaultCode::InputRequired.as_str().to_owned();
                blank.failed(ToolError { code, message, details, retryable: true })
            }
        }
    }

    /// A call that failed before it reached a server.
    pub fn failure(tool: &str, fault: Fault, took: Duration) -> Self {
        let server = fault.server.clone();
        Self::new(tool, server.as_deref(), Outcome::fault(fault), took)
    }

    fn complete(self, body: JsonObject) -> Self {
        let is_error = tool::is_error(&body);
        let data = tool::result::data(&body).and_then(|data| data.to_lossy().ok());
        let error = is_error.then(|| ToolError {
            code: FaultCode::ExecutionFailed.as_str().to_owned(),
            message: tool::result::failure(&body),
            details: None,
            retryable: false,
        });
        Self { success: !is_error, data, error, raw: Some(body), ..self }
    }

    fn failed(self, error: ToolError) -> Self {
        Self { error: Some(error), ..self }
    }

    /// The first text of the result, which is all that many programs want.
    pub fn text(&self) -> Option<String> {
        tool::result::first_text(self.raw.as_ref()?)
    }
}

impl ToolError {
    fn of_fault(fault: &Fault) -> Self {
        Self {
            code: fault.code.as_str().to_owned(),
            message: fault.to_string(),
            details: serde_json::to_value(fault).ok(),
            retryable: fault.retryable,
        }
    }

    fn of_rpc(error: &RpcError) -> Self {
        let (code, details) = (code_of_rpc(error), Some(error.details()));
        Self { code: code.as_str().to_owned(), message: error.message(), details, retryable: false }
    }
}

/// The code that a result shows for a server's own error.
pub(crate) fn code_of_rpc(error: &RpcError) -> FaultCode {
    match error.code() {
        code::PARSE_ERROR => FaultCode::InvalidResponse,
        code::INVALID_REQUEST => FaultCode::InvalidRequest,
        code::METHOD_NOT_FOUND => FaultCode::MethodNotFound,
        code::INVALID_PARAMS => FaultCode::InvalidParams,
        code::RESOURCE_NOT_FOUND => FaultCode::ResourceNotFound,
        _ => FaultCode::ExecutionFailed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn result(body: Value) -> ToolResult {
        ToolResult::new("t", Some("s"), Outcome::complete(JsonObject::from(body)), Duration::from_millis(2))
    }

    #[test]
    fn a_result_has_its_data_and_its_first_text() {
        let result = result(json!({"content": [{"type": "text", "text": "1"}], "structuredContent": {"a": 1}}));
        assert!(result.success && result.error.is_none());
        assert_eq!((result.text().as_deref(), result.data), (Some("1"), Some(json!({"a": 1}))));
    }

    #[test]
    fn text_that_was_cut_within_a_character_keeps_the_rest() {
        let texts = r#"{"content":[{"type":"text","text":"first"},{"type":"text","text":"cut \ud83d"}]}"#;
        let body = JsonObject::parse(texts.into()).unwrap();
        let data = ToolResult::new("t", None, Outcome::complete(body), Duration::ZERO).data.unwrap();
        assert_eq!((&data[0]["text"], &data[1]["text"]), (&json!("first"), &json!("cut \u{fffd}")));
    }

    #[test]
    fn a_tools_own_failure_is_a_failure_with_its_words() {
        let result = result(json!({"content": [{"type": "text", "text": "no such file"}], "isError": true}));
        assert!(!result.success);
        assert_eq!(result.error.unwrap().message, "no such file");
    }

    #[test]
    fn a_servers_error_has_the_librarys_word_the_number_and_its_data_beside_it() {
        let said = |data: Option<Value>| {
            let data = data.map(tsugi_protocol::json::RawJson::from);
            let outcome = Outcome::error(RpcError::with_data(-32602, "bad", data.as_ref()));
            let error = ToolResult::new("t", None, outcome, Duration::ZERO).error.unwrap();
            assert_eq!(error.code, "INVALID_PARAMS");
            error.details.unwrap()
        };
        assert_eq!(said(None), json!({"jsonrpcCode": -32602}));
        let fields = json!({"field": "weight_kg", "jsonrpcCode": 1});
        assert_eq!(said(Some(fields)), json!({"jsonrpcCode": -32602, "field": "weight_kg"}));
        assert_eq!(said(Some(json!([1]))), json!({"jsonrpcCode": -32602, "data": [1]}));
    }
}

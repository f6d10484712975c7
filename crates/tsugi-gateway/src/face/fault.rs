//! One failure in the form of each face: the only place where faults become statuses.

use ::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use ::http::{HeaderValue, Response, StatusCode};
use serde_json::{Value, json};
use tsugi_protocol::answer::{Blame, CallFailure, CallStage, Fault, FaultCode, SentState};
use tsugi_protocol::json::{ObjectWriter, RawJson};
use tsugi_protocol::rpc::{RequestId, RpcError, code};

use super::http;
use crate::body::ResponseBody;
use crate::guard::oauth::scope_challenge;
use crate::guard::refusal::HttpRefusal;
use crate::route::ErrorStyle;

/// What a refusal tells a client about getting a token: in the header, and again in the body.
pub(crate) struct RefusalChallenge {
    pub(crate) header: HeaderValue,
    pub(crate) data: Value,
}

/// A request that was turned away before a face could read it.
pub(crate) fn refuse(
    style: ErrorStyle,
    refusal: &HttpRefusal,
    challenge: Option<RefusalChallenge>,
) -> Response<ResponseBody> {
    let (challenge, data) = match challenge {
        Some(challenge) => (Some(challenge.header), Some(challenge.data)),
        // RFC 9110 requires a challenge with every 401.
        None => ((refusal.status == StatusCode::UNAUTHORIZED).then(|| HeaderValue::from_static("Bearer")), None),
    };
    let mut response = match style {
        ErrorStyle::Rpc => {
            let mut fault = refusal.to_fault();
            fault.details = data.map(RawJson::from);
            rpc_error(refusal.status, None, &fault.to_rpc())
        }
        ErrorStyle::Rest => {
            let mut error = json!({"code": refusal_word(refusal), "message": refusal.message});
            if let Some(data) = data {
                error["details"] = data;
            }
            rest_error(refusal.status, &error)
        }
    };
    if let Some(challenge) = challenge {
        response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    }
    set_retry_after(&mut response, refusal.retry_after.map(|time| time.as_millis() as u64));
    response
}

/// Says in the header what a fault says about scopes, so that clients can ask for a better token.
pub(crate) fn set_challenge(response: &mut Response<ResponseBody>, fault: &Fault) {
    if let Some(challenge) = scope_challenge::header_of(fault) {
        response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    }
}

/// Says when to come back, if that is known.
pub(crate) fn set_retry_after(response: &mut Response<ResponseBody>, milliseconds: Option<u64>) {
    if let Some(milliseconds) = milliseconds {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(milliseconds.div_ceil(1000)));
    }
}

fn refusal_word(refusal: &HttpRefusal) -> &'static str {
    match refusal.code {
        FaultCode::InvalidRequest if refusal.status == StatusCode::NOT_FOUND => "NOT_FOUND",
        FaultCode::InvalidRequest if refusal.status == StatusCode::METHOD_NOT_ALLOWED => "METHOD_NOT_ALLOWED",
        FaultCode::InvalidRequest => "VALIDATION_ERROR",
        code => code.as_str(),
    }
}

/// `{"success":false,"error":…}`.
pub(crate) fn rest_error(status: StatusCode, error: &serde_json::Value) -> Response<ResponseBody> {
    let body = json!({"success": false, "error": error}).to_string();
    http::json(status, ResponseBody::one(body.into()))
}

/// A JSON-RPC error response.
pub(crate) fn rpc_error(status: StatusCode, id: Option<&RequestId>, error: &RpcError) -> Response<ResponseBody> {
    http::json(status, ResponseBody::one(error.response(id)))
}

/// A fault of ours as a modern client reads it: a lacking capability is named where the specification wants it.
pub(crate) fn modern_error(fault: &Fault) -> RpcError {
    let error = fault.to_rpc();
    let (FaultCode::MissingCapability, Some(needed), Some(data)) = (fault.code, &fault.details, error.data_object())
    else {
        return error;
    };
    let mut named = ObjectWriter::with_capacity(data.bytes().len() + needed.bytes().len() + 32);
    named.raw("requiredCapabilities", needed).all_members(&data);
    error.replace_data(&named.finish())
}

/// The status of an error that a server returned, or that a face found in a modern request. It is 200 like that of a
/// result, except where the specification fixes another one; clients read `id` and `code` in all cases.
pub(crate) fn modern_status(error: &RpcError) -> StatusCode {
    fixed_status(error.code())
}

fn fixed_status(number: i64) -> StatusCode {
    match number {
        code::METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
        code::HEADER_MISMATCH | code::MISSING_CLIENT_CAPABILITY | code::UNSUPPORTED_VERSION => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}

/// The status of a failure that answers a modern request. The numbers of our own errors are not looked at: a server
/// may use the same numbers for something else.
pub(crate) fn failure_status(failure: &CallFailure) -> StatusCode {
    let fault = match failure {
        CallFailure::Upstream(error) => return modern_status(error),
        CallFailure::Fault(fault) => fault,
    };
    match fault.code {
        // Load balancers repeat a request that got 503, so only a call that was not sent may get it.
        FaultCode::Overloaded | FaultCode::Draining | FaultCode::AuditUnavailable
            if fault.sent == SentState::NotSent =>
        {
            StatusCode::SERVICE_UNAVAILABLE
        }
        FaultCode::RateLimitExceeded => StatusCode::TOO_MANY_REQUESTS,
        FaultCode::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        FaultCode::TaskNotFound => StatusCode::NOT_FOUND,
        // Only ours: an upstream server that refuses its key is not a matter of this caller's permits.
        FaultCode::PermissionDenied if fault.blame == Blame::Caller && fault.stage == CallStage::Validate => {
            StatusCode::FORBIDDEN
        }
        FaultCode::ToolChanged => StatusCode::FORBIDDEN,
        code => fixed_status(code.rpc_code()),
    }
}

/// The fault of a request whose handler panicked; `handler` says which one, for the log.
pub(crate) fn panicked(handler: &str) -> Fault {
    tracing::error!(handler, "a handler panicked");
    Fault::new(FaultCode::InternalError, "a defect of tsugi: the handler of this request panicked")
}

/// Takes out what a server's process wrote to its standard error. It may hold anything, secrets too, and is meant for
/// those who run the server.
pub(crate) fn hide_stderr(fault: &mut Fault) {
    let mut next = Some(fault);
    while let Some(fault) = next {
        if let Some(process) = &mut fault.process {
            process.stderr.clear();
        }
        // The advice may name a path that the server printed, and is meant for the same people.
        if let Some(diagnosis) = fault.diagnosis.as_deref_mut().filter(|diagnosis| diagnosis.quotation.is_some()) {
            (diagnosis.quotation, diagnosis.advice) = (None, String::new());
            fault.hint = None;
        }
        next = fault.cause.as_deref_mut();
    }
}

/// A failure as REST tells it: a word, a status, and details that hold `jsonrpcCode` and the fields of its data.
#[derive(Debug, Clone)]
pub(crate) struct RestFault {
    pub(crate) status: StatusCode,
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) details: Option<Value>,
    pub(crate) retry_after: Option<u64>,
    /// Where a better token comes from, when that would help.
    pub(crate) challenge: Option<HeaderValue>,
}

impl RestFault {
    pub(crate) fn to_json(&self) -> Value {
        let mut error = json!({"code": self.code, "message": self.message});
        if let Some(details) = &self.details {
            error["details"] = details.clone();
        }
        error
    }

    pub(crate) fn response(&self) -> Response<ResponseBody> {
        let mut response = rest_error(self.status, &self.to_json());
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(challenge) = &self.challenge {
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge.clone());
        }
        response
    }
}

impl From<&CallFailure> for RestFault {
    fn from(failure: &CallFailure) -> Self {
        match failure {
            CallFailure::Upstream(error) => Self::from(&**error),
            CallFailure::Fault(fault) => Self::from(&**fault),
        }
    }
}

impl From<&RpcError> for RestFault {
    /// The word and the status for each code.
    fn from(error: &RpcError) -> Self {
        let (status, code, message) = match error.code() {
            code::PARSE_ERROR => {
                let message = "Internal error: Failed to parse MCP Server response".to_owned();
                (StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL_ERROR", message)
            }
            code::INVALID_REQUEST => (StatusCode::BAD_REQUEST, "VALIDATION_ERROR", "Invalid request format".to_owned()),
            code::METHOD_NOT_FOUND => (StatusCode::NOT_FOUND, "TOOL_NOT_FOUND", error.message()),
            code::INVALID_PARAMS => (StatusCode::BAD_REQUEST, "VALIDATION_ERROR", error.message()),
            _ => (StatusCode::INTERNAL_SERVER_ERROR, "TOOL_EXECUTION_ERROR", error.message()),
        };
        // A server gives no hint when to come back.
        Self { status, code, message, details: Some(error.details()), retry_after: None, challenge: None }
    }
}

impl From<&Fault> for RestFault {
    fn from(fault: &Fault) -> Self {
        // Having tried often is no reason by itself: the cause is.
        let cause = match (fault.code, &fault.cause) {
            (FaultCode::MaxRetriesExceeded, Some(cause)) => cause,
            _ => fault,
        };
        let (status, code) = match rest_code(cause.code) {
            // Load balancers repeat a request that got 503, so only a call that was not sent may get it.
            (StatusCode::SERVICE_UNAVAILABLE, code) if fault.sent != SentState::NotSent => {
                (StatusCode::BAD_GATEWAY, code)
            }
            usual => usual,
        };
        let is_temporary = matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
        let retry_after = fault.retry_after_ms.map(|time| time.div_ceil(1000)).or(is_temporary.then_some(1));
        let details = Some(fault.to_rpc().details());
        let challenge = scope_challenge::header_of(fault);
        Self { status, code, message: fault.message.clone(), details, retry_after, challenge }
    }
}

/// The table of the design, library code to REST code and status.
fn rest_code(code: FaultCode) -> (StatusCode, &'static str) {
    use FaultCode::*;
    match code {
        InvalidResponse | ConfigInvalid | InternalError => (StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL_ERROR"),
        InvalidRequest | InvalidParams | StateRejected | CannotExecute | MissingCapability => {
            (StatusCode::BAD_REQUEST, "VALIDATION_ERROR")
        }
        MethodNotFound | ToolNotFound => (StatusCode::NOT_FOUND, "TOOL_NOT_FOUND"),
        ResourceNotFound => (StatusCode::NOT_FOUND, "RESOURCE_NOT_FOUND"),
        TaskNotFound => (StatusCode::NOT_FOUND, "TASK_NOT_FOUND"),
        ExecutionFailed | MaxRetriesExceeded | Cancelled => (StatusCode::INTERNAL_SERVER_ERROR, "TOOL_EXECUTION_ERROR"),
        ServerNotFound => (StatusCode::NOT_FOUND, "SERVER_NOT_FOUND"),
        ServerExists => (StatusCode::CONFLICT, "SERVER_EXISTS"),
        ServerNotRunning => (StatusCode::SERVICE_UNAVAILABLE, "SERVER_NOT_RUNNING"),
        ServerCrashed => (StatusCode::BAD_GATEWAY, "SERVER_CRASHED"),
        ConnectionFailed => (StatusCode::BAD_GATEWAY, "CONNECTION_FAILED"),
        ConnectionLost => (StatusCode::BAD_GATEWAY, "CONNECTION_LOST"),
        Timeout => (StatusCode::GATEWAY_TIMEOUT, "TIMEOUT_ERROR"),
        PermissionDenied => (StatusCode::FORBIDDEN, "PERMISSION_DENIED"),
        AuthRequired => (StatusCode::CONFLICT, "AUTH_REQUIRED"),
        ToolChanged => (StatusCode::FORBIDDEN, "TOOL_CHANGED"),
        RateLimitExceeded => (StatusCode::TOO_MANY_REQUESTS, "RATE_LIMIT_EXCEEDED"),
        Overloaded => (StatusCode::SERVICE_UNAVAILABLE, "OVERLOADED"),
        Draining => (StatusCode::SERVICE_UNAVAILABLE, "DRAINING"),
        AuditUnavailable => (StatusCode::SERVICE_UNAVAILABLE, "AUDIT_UNAVAILABLE"),
        TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "TOO_LARGE"),
        InputRequired => (StatusCode::CONFLICT, "INPUT_REQUIRED"),
    }
}

#[cfg(test)]
mod reference;

#[cfg(test)]
mod tests {
    use super::*;

    fn upstream(code: i64) -> RestFault {
        RestFault::from(&RpcError::new(code, "m"))
    }

    #[test]
    fn a_servers_errors_follow_the_table_of_the_seed() {
        for (code, status, word) in [
            (-32700, 500, "INTERNAL_ERROR"),
            (-32600, 400, "VALIDATION_ERROR"),
            (-32601, 404, "TOOL_NOT_FOUND"),
            (-32602, 400, "VALIDATION_ERROR"),
            (-32603, 500, "TOOL_EXECUTION_ERROR"),
            (-1, 500, "TOOL_EXECUTION_ERROR"),
        ] {
            let fault = upstream(code);
            assert_eq!((fault.status.as_u16(), fault.code), (status, word), "{code}");
        }
    }

    #[test]
    fn details_hold_the_number_and_the_fields_of_the_data() {
        let data = tsugi_protocol::json::RawJson::literal(r#"{"field":"weight_kg"}"#);
        let error = RpcError::with_data(-32602, "Invalid params: weight_kg must be positive", Some(&data));
        let expected = json!({
            "code": "VALIDATION_ERROR",
            "message": "Invalid params: weight_kg must be positive",
            "details": {"jsonrpcCode": -32602, "field": "weight_kg"}
        });
        assert_eq!(RestFault::from(&error).to_json(), expected);
    }

    #[test]
    fn own_faults_follow_the_table_of_the_design() {
        use FaultCode::*;
        for (code, status, word) in [
            (InvalidResponse, 500, "INTERNAL_ERROR"),
            (InvalidRequest, 400, "VALIDATION_ERROR"),
            (ToolNotFound, 404, "TOOL_NOT_FOUND"),
            (InvalidParams, 400, "VALIDATION_ERROR"),
            (ExecutionFailed, 500, "TOOL_EXECUTION_ERROR"),
            (ServerNotFound, 404, "SERVER_NOT_FOUND"),
            (ServerExists, 409, "SERVER_EXISTS"),
            (ServerNotRunning, 503, "SERVER_NOT_RUNNING"),
            (ServerCrashed, 502, "SERVER_CRASHED"),
            (ConnectionFailed, 502, "CONNECTION_FAILED"),
            (ConnectionLost, 502, "CONNECTION_LOST"),
            (Timeout, 504, "TIMEOUT_ERROR"),
            (PermissionDenied, 403, "PERMISSION_DENIED"),
            (AuthRequired, 409, "AUTH_REQUIRED"),
            (ToolChanged, 403, "TOOL_CHANGED"),
            (RateLimitExceeded, 429, "RATE_LIMIT_EXCEEDED"),
            (Overloaded, 503, "OVERLOADED"),
            (AuditUnavailable, 503, "AUDIT_UNAVAILABLE"),
            (InputRequired, 409, "INPUT_REQUIRED"),
        ] {
            let fault = RestFault::from(&Fault::new(code, "m"));
            assert_eq!((fault.status.as_u16(), fault.code), (status, word), "{code:?}");
        }
        let limited = Fault::new(RateLimitExceeded, "m");
        assert_eq!(failure_status(&CallFailure::from(limited)), StatusCode::TOO_MANY_REQUESTS);
        let tried = Fault::new(MaxRetriesExceeded, "gave up").because(Fault::new(Timeout, "late"));
        assert_eq!(RestFault::from(&tried).code, "TIMEOUT_ERROR");
        assert_eq!(RestFault::from(&Fault::new(Overloaded, "m")).retry_after, Some(1));
    }

    #[test]
    fn a_503_means_that_nothing_was_sent() {
        use FaultCode::*;
        for code in [Overloaded, Draining, AuditUnavailable, ServerNotRunning, MaxRetriesExceeded] {
            for sent in [SentState::NotSent, SentState::Failed, SentState::Unknown] {
                let fault = Fault::new(code, "m").sent(sent).because(Fault::new(Overloaded, "m"));
                let statuses = [RestFault::from(&fault).status, failure_status(&CallFailure::from(fault))];
                let is_503 = statuses.contains(&StatusCode::SERVICE_UNAVAILABLE);
                assert!(!is_503 || sent == SentState::NotSent, "{code:?} {sent:?}: {statuses:?}");
            }
        }
        let not_sent = Fault::new(Overloaded, "m");
        assert_eq!(failure_status(&CallFailure::from(not_sent)), StatusCode::SERVICE_UNAVAILABLE);
        // A server's own error may have the number that ours has.
        let upstream = RpcError::new(code::own::OVERLOADED, "busy");
        assert_eq!(failure_status(&CallFailure::Upstream(Box::new(upstream))), StatusCode::OK);
    }
}

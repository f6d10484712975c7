//! A failure of ours or of the way to a server, reported the same way on every face.

mod reason;

use std::fmt;
use std::sync::Arc;

pub use reason::FaultReason;
use serde::{Deserialize, Serialize};

use crate::json::RawJson;
use crate::rpc::{RpcError, code};

/// What went wrong, as a stable word. The command, the log, REST and JSON-RPC all show it. The reference page of errors
/// is made from the comments of the variants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum FaultCode {
    /// The configuration cannot be used.
    ConfigInvalid,
    /// The server's answer was not acceptable.
    InvalidResponse,
    /// The request was not acceptable.
    InvalidRequest,
    /// No server answers this method.
    MethodNotFound,
    /// There is no such tool.
    ToolNotFound,
    /// There is no such resource.
    ResourceNotFound,
    /// The caller has no such task.
    TaskNotFound,
    /// The arguments do not fit.
    InvalidParams,
    /// The tool ran and failed.
    ExecutionFailed,
    /// A program's own check refused the call.
    CannotExecute,
    /// There is no such server.
    ServerNotFound,
    /// A server of this name exists already.
    ServerExists,
    /// The server is stopped, failed or left alone.
    ServerNotRunning,
    /// The server died while it had the call.
    ServerCrashed,
    /// No connection could be made.
    ConnectionFailed,
    /// The connection broke while it had the call.
    ConnectionLost,
    /// The deadline passed.
    Timeout,
    /// Tried as often as allowed; the cause is inside.
    MaxRetriesExceeded,
    /// The caller may not do this.
    PermissionDenied,
    /// The server wants a sign-in that is missing, has ended or is refused.
    AuthRequired,
    /// The server changed the tool since it was pinned.
    ToolChanged,
    /// The caller made too many calls.
    RateLimitExceeded,
    /// Too many calls at once.
    Overloaded,
    /// Larger than a limit.
    TooLarge,
    /// We are shutting down.
    Draining,
    /// The audit log cannot be written, and nothing may happen without it.
    AuditUnavailable,
    /// The tool asks for input and the face cannot.
    InputRequired,
    /// The input asked for came too late, from someone else, or was changed.
    StateRejected,
    /// The server needs a capability that the client lacks.
    MissingCapability,
    /// The caller went away.
    Cancelled,
    /// A defect of tsugi.
    InternalError,
}

impl FaultCode {
    /// Every code, in the order of the definition.
    pub const ALL: [FaultCode; 31] = {
        use FaultCode::*;
        [
            ConfigInvalid,
            InvalidResponse,
            InvalidRequest,
            MethodNotFound,
            ToolNotFound,
            ResourceNotFound,
            TaskNotFound,
            InvalidParams,
            ExecutionFailed,
            CannotExecute,
            ServerNotFound,
            ServerExists,
            ServerNotRunning,
            ServerCrashed,
            ConnectionFailed,
            ConnectionLost,
            Timeout,
            MaxRetriesExceeded,
            PermissionDenied,
            AuthRequired,
            ToolChanged,
            RateLimitExceeded,
            Overloaded,
            TooLarge,
            Draining,
            AuditUnavailable,
            InputRequired,
            StateRejected,
            MissingCapability,
            Cancelled,
            InternalError,
        ]
    };

    pub fn as_str(self) -> &'static str {
        use FaultCode::*;
        match self {
            ConfigInvalid => "CONFIG_INVALID",
            InvalidResponse => "INVALID_RESPONSE",
            InvalidRequest => "INVALID_REQUEST",
            MethodNotFound => "METHOD_NOT_FOUND",
            ToolNotFound => "TOOL_NOT_FOUND",
            ResourceNotFound => "RESOURCE_NOT_FOUND",
            TaskNotFound => "TASK_NOT_FOUND",
            InvalidParams => "INVALID_PARAMS",
            ExecutionFailed => "EXECUTION_FAILED",
            CannotExecute => "CANNOT_EXECUTE",
            ServerNotFound => "SERVER_NOT_FOUND",
            ServerExists => "SERVER_EXISTS",
            ServerNotRunning => "SERVER_NOT_RUNNING",
            ServerCrashed => "SERVER_CRASHED",
            ConnectionFailed => "CONNECTION_FAILED",
            ConnectionLost => "CONNECTION_LOST",
            Timeout => "TIMEOUT",
            MaxRetriesExceeded => "MAX_RETRIES_EXCEEDED",
            PermissionDenied => "PERMISSION_DENIED",
            AuthRequired => "AUTH_REQUIRED",
            ToolChanged => "TOOL_CHANGED",
            RateLimitExceeded => "RATE_LIMIT_EXCEEDED",
            Overloaded => "OVERLOADED",
            TooLarge => "TOO_LARGE",
            Draining => "DRAINING",
            AuditUnavailable => "AUDIT_UNAVAILABLE",
            InputRequired => "INPUT_REQUIRED",
            StateRejected => "STATE_REJECTED",
            MissingCapability => "MISSING_CAPABILITY",
            Cancelled => "CANCELLED",
            InternalError => "INTERNAL_ERROR",
        }
    }

    /// The JSON-RPC number under which a face reports it.
    pub fn rpc_code(self) -> i64 {
        use FaultCode::*;
        match self {
            InvalidRequest => code::INVALID_REQUEST,
            MethodNotFound => code::METHOD_NOT_FOUND,
            ToolNotFound | ResourceNotFound | InvalidParams | StateRejected | CannotExecute | InputRequired => {
                code::INVALID_PARAMS
            }
            TaskNotFound | ServerNotFound | ServerExists => code::INVALID_PARAMS,
            MissingCapability => code::MISSING_CLIENT_CAPABILITY,
            ServerNotRunning | ConnectionFailed | ConfigInvalid => code::own::UPSTREAM_UNAVAILABLE,
            ServerCrashed | ConnectionLost => code::own::UPSTREAM_LOST,
            Timeout => code::own::UPSTREAM_TIMEOUT,
            InvalidResponse => code::own::UPSTREAM_PROTOCOL,
            PermissionDenied => code::own::PERMISSION_DENIED,
            AuthRequired => code::own::AUTH_REQUIRED,
            ToolChanged => code::own::TOOL_CHANGED,
            RateLimitExceeded => code::own::RATE_LIMITED,
            Overloaded => code::own::OVERLOADED,
            TooLarge => code::own::TOO_LARGE,
            Draining => code::own::DRAINING,
            AuditUnavailable => code::own::AUDIT_UNAVAILABLE,
            MaxRetriesExceeded | ExecutionFailed | Cancelled | InternalError => code::INTERNAL_ERROR,
        }
    }
}

/// How far a call had come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum CallStage {
    Config,
    Spawn,
    Connect,
    /// Agreeing on a revision.
    Handshake,
    /// Fetching what the server offers.
    List,
    /// Checking arguments or results.
    Validate,
    Call,
}

/// Who can do something about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Blame {
    /// The one who called.
    Caller,
    /// The server, or the way to it.
    Upstream,
    Tsugi,
}

/// What is known about the call's effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SentState {
    /// No byte of the call reached the server: trying again cannot do it twice.
    NotSent,
    /// The server answered that it failed.
    Failed,
    /// The call was sent and its fate is not known.
    Unknown,
}

/// How a server's process ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase")]
pub struct ProcessEnd {
    /// In words: "exit code 1", "signal 9 (SIGKILL)".
    pub status: String,
    /// The last lines it wrote to standard error, secrets masked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stderr: Vec<String>,
}

/// Why a server cannot be used, named as `tsugi doctor` names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FaultDiagnosis {
    /// The stable word for programs: `needs-variable`, `program-missing` and their like.
    pub cause: &'static str,
    /// What is wrong, in a sentence that any caller may read.
    pub message: String,
    /// What the server printed about it, for those who run it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quotation: Option<String>,
    /// What to try.
    pub advice: String,
}

impl FaultDiagnosis {
    /// The sentence with what the server printed.
    pub fn sentence(&self) -> String {
        match &self.quotation {
            Some(quotation) => format!("{}: {quotation}", self.message),
            None => self.message.clone(),
        }
    }
}

/// A failure with everything a caller can act on. It becomes a response once, at the edge.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fault {
    pub code: FaultCode,
    /// In words, lower case, without a final stop.
    pub message: String,
    /// How far the call had come.
    pub stage: CallStage,
    /// Who can do something about it.
    #[serde(rename = "fault")]
    pub blame: Blame,
    /// Whether trying again could help.
    pub retryable: bool,
    /// What is known about the effect.
    #[serde(rename = "outcome")]
    pub sent: SentState,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// How the process ended, where one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessEnd>,
    /// What exactly failed, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<FaultReason>,
    /// Why its server cannot be used, where that was found out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diagnosis: Option<Box<FaultDiagnosis>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// After how many milliseconds trying again makes sense, where the server said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// Further facts, such as the faults of a validation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<RawJson>,
    /// What lies behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<Box<Fault>>,
    /// The rule of a policy that refused the call, for logs. Callers do not get it.
    #[serde(skip)]
    pub decided_by: Option<Box<DecidingRule>>,
}

/// A rule of a policy that refused something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecidingRule {
    pub name: Arc<str>,
    /// True when it could not be evaluated, which denies too.
    pub is_error: bool,
}

impl Fault {
    /// A fault of this kind, with what usually holds for it; the rest is added by the `with_` functions.
    pub fn new(code: FaultCode, message: impl Into<String>) -> Self {
        // Most callers need no more than the code.
        let (stage, blame, retryable, sent) = usual(code);
        Self {
            code,
            message: message.into(),
            stage,
            blame,
            retryable,
            sent,
            server: None,
            tool: None,
            process: None,
            reason: None,
            diagnosis: None,
            hint: None,
            retry_after_ms: None,
            details: None,
            cause: None,
            decided_by: None,
        }
    }

    pub fn at(mut self, stage: CallStage) -> Self {
        self.stage = stage;
        self
    }

    /// With this knowledge about the effect.
    pub fn sent(mut self, sent: SentState) -> Self {
        self.sent = sent;
        self
    }

    /// Concerning this server, unless one is named already.
    pub fn on_server(mut self, server: &str) -> Self {
        // The innermost layer knows best which server it was.
        self.server.get_or_insert_with(|| server.to_owned());
        self
    }

    /// Concerning this tool, unless one is named already.
    pub fn on_tool(mut self, tool: &str) -> Self {
        self.tool.get_or_insert_with(|| tool.to_owned());
        self
    }

    /// Because of this rule of a policy.
    pub fn by_rule(mut self, rule: DecidingRule) -> Self {
        self.decided_by = Some(Box::new(rule));
        self
    }

    /// With the exact cause.
    pub fn with_reason(mut self, reason: FaultReason) -> Self {
        self.reason = Some(reason);
        self
    }

    /// The exact cause: that of the innermost fault that has one.
    pub fn root_reason(&self) -> Option<FaultReason> {
        // The layer that failed knows more than the one that wrapped its fault.
        self.cause.as_deref().and_then(Fault::root_reason).or(self.reason)
    }

    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// With the end of a process.
    pub fn with_process(mut self, process: ProcessEnd) -> Self {
        self.process = Some(process);
        self
    }

    pub fn with_details(mut self, details: RawJson) -> Self {
        self.details = Some(details);
        self
    }

    /// Because of another fault.
    pub fn because(mut self, cause: Fault) -> Self {
        self.cause = Some(Box::new(cause));
        self
    }

    /// Whether trying again could help, where it differs from the usual.
    pub fn retryable(mut self, retryable: bool) -> Self {
        self.retryable = retryable;
        self
    }

    /// The fault as a JSON-RPC error with all of it in `data`.
    pub fn to_rpc(&self) -> RpcError {
        let mut data = serde_json::to_value(self).expect("a fault is always JSON");
        // Lets a client tell our faults from errors of the server.
        data["origin"] = "tsugi".into();
        data["kind"] = self.code.as_str().into();
        data["sent"] = (self.sent != SentState::NotSent).into();
        if let Some(server) = &self.server {
            data["upstream"] = server.as_str().into();
        }
        if let Some(members) = data.as_object_mut() {
            // The message has its own member in a JSON-RPC error.
            members.remove("message");
        }
        RpcError::with_data(self.code.rpc_code(), &self.message, Some(&RawJson::from(data)))
    }
}

/// Stage, blame, whether to retry and what is known about the effect, as they usually are for a code.
fn usual(code: FaultCode) -> (CallStage, Blame, bool, SentState) {
    use FaultCode::*;
    use SentState::*;
    match code {
        ConfigInvalid => (CallStage::Config, Blame::Caller, false, NotSent),
        // Refused before any server was asked.
        InvalidParams | InvalidRequest | ToolNotFound | ResourceNotFound | TaskNotFound | MethodNotFound
        | ServerNotFound | ServerExists | CannotExecute | StateRejected | MissingCapability | InputRequired
        | TooLarge => (CallStage::Validate, Blame::Caller, false, NotSent),
        PermissionDenied => (CallStage::Validate, Blame::Caller, false, NotSent),
        AuthRequired => (CallStage::Connect, Blame::Upstream, false, NotSent),
        ToolChanged => (CallStage::Validate, Blame::Upstream, false, NotSent),
        RateLimitExceeded => (CallStage::Validate, Blame::Caller, true, NotSent),
        ServerNotRunning => (CallStage::Connect, Blame::Upstream, true, NotSent),
        ConnectionFailed => (CallStage::Connect, Blame::Upstream, true, NotSent),
        // It may have been done before the connection broke.
        ServerCrashed | ConnectionLost => (CallStage::Call, Blame::Upstream, true, Unknown),
        // The server may still be working on it.
        Timeout => (CallStage::Call, Blame::Upstream, true, Unknown),
        InvalidResponse => (CallStage::Call, Blame::Upstream, false, Unknown),
        ExecutionFailed => (CallStage::Call, Blame::Upstream, false, Failed),
        // Retried already. Another round would multiply the attempts.
        MaxRetriesExceeded => (CallStage::Call, Blame::Upstream, false, Unknown),
        // Shed before anything was sent, so a balancer may try elsewhere.
        Overloaded | Draining | AuditUnavailable => (CallStage::Call, Blame::Tsugi, true, NotSent),
        Cancelled => (CallStage::Call, Blame::Caller, false, Unknown),
        InternalError => (CallStage::Call, Blame::Tsugi, false, Unknown),
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(server) = &self.server {
            write!(f, "{server}: ")?;
        }
        f.write_str(&self.message)?;
        // How the process ended is often the whole explanation.
        if let Some(process) = &self.process {
            write!(f, " ({})", process.status)?;
        }
        Ok(())
    }
}

impl std::error::Error for Fault {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.as_deref().map(|cause| cause as &dyn std::error::Error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_of_the_innermost_fault_is_the_root() {
        let refused = Fault::new(FaultCode::ConnectionFailed, "refused").with_reason(FaultReason::ConnectionRefused);
        let starting = Fault::new(FaultCode::ServerNotRunning, "starting").with_reason(FaultReason::StillStarting);
        assert_eq!(starting.root_reason(), Some(FaultReason::StillStarting));
        let both = starting.because(Fault::new(FaultCode::InternalError, "why").because(refused));
        assert_eq!(both.root_reason(), Some(FaultReason::ConnectionRefused));
        let data: serde_json::Value = both.to_rpc().data().unwrap().to().unwrap();
        assert_eq!(data["reason"], "STILL_STARTING");
        let status = serde_json::to_value(FaultReason::HttpStatus(503)).unwrap();
        assert_eq!(status, serde_json::json!({"HTTP_STATUS": 503}));
    }

    #[test]
    fn a_fault_says_in_json_rpc_where_it_comes_from_and_whether_it_was_sent() {
        let fault = Fault::new(FaultCode::ServerCrashed, "the server died during the call")
            .on_server("files")
            .on_tool("read")
            .with_process(ProcessEnd { status: "exit code 3".into(), stderr: vec!["boom".into()] });
        let error = fault.to_rpc();
        assert_eq!(error.code(), code::own::UPSTREAM_LOST);
        let data: serde_json::Value = error.data().unwrap().to().unwrap();
        assert_eq!(data["origin"], "tsugi");
        assert_eq!(data["kind"], "SERVER_CRASHED");
        assert_eq!(data["outcome"], "unknown");
        assert_eq!(data["sent"], true);
        assert_eq!(data["upstream"], "files");
        assert_eq!(data["process"]["stderr"][0], "boom");
    }
}

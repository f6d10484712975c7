//! How a handler ends without a result: it failed, it must ask, or the request itself was wrong.

use crate::answer::{Fault, Outcome};
use crate::json::{ObjectWriter, RawJson};
use crate::rpc::{RpcError, code};

use super::input::NeedInput;
use super::output::ToolOutput;

/// Why a handler has no result.
#[derive(Debug)]
pub enum HandlerError {
    /// The work failed in a way that the caller can act on. A tool tells it to the model as a result
    /// with `isError`; prompts, resources and completions tell it as an invalid-params error.
    Failed(Box<ToolOutput>),
    /// The user, the client's model or its roots must be asked first.
    NeedInput(NeedInput),
    /// A JSON-RPC error, given to the caller as it is.
    Rpc(Box<RpcError>),
    /// A failure with everything a caller can act on.
    Fault(Box<Fault>),
}

impl HandlerError {
    /// The work failed for this reason.
    pub fn failed(reason: impl std::fmt::Display) -> Self {
        HandlerError::Failed(Box::new(ToolOutput::error(reason.to_string())))
    }

    /// The parameters do not fit.
    pub fn invalid_params(reason: impl std::fmt::Display) -> Self {
        RpcError::new(code::INVALID_PARAMS, &reason.to_string()).into()
    }

    /// Something broke that is not the caller's doing. The text is for the caller; keep secrets out of it.
    pub fn internal(reason: impl std::fmt::Display) -> Self {
        RpcError::new(code::INTERNAL_ERROR, &reason.to_string()).into()
    }

    /// There is no such resource
    /// ([Error Handling](https://modelcontextprotocol.io/specification/2026-07-28/server/resources#error-handling)).
    pub fn resource_not_found(uri: &str) -> Self {
        let mut data = ObjectWriter::with_capacity(uri.len() + 16);
        data.string("uri", uri);
        RpcError::with_data(code::INVALID_PARAMS, "resource not found", Some(&data.finish())).into()
    }

    /// The client did not declare a capability that the request needs; `required` is written as the client
    /// would have to declare it, such as `{"elicitation":{"form":{}}}`.
    pub fn missing_capability(required: &RawJson) -> Self {
        let mut data = ObjectWriter::with_capacity(64);
        data.raw("requiredCapabilities", required);
        let message = "the client lacks a capability that this request needs";
        RpcError::with_data(code::MISSING_CLIENT_CAPABILITY, message, Some(&data.finish())).into()
    }

    /// The outcome outside of tools, where there is no `isError`.
    pub(super) fn into_outcome(self) -> Outcome {
        match self {
            HandlerError::Failed(output) => Outcome::error(RpcError::new(code::INVALID_PARAMS, &output.first_text())),
            HandlerError::NeedInput(input) => Outcome::InputRequired(input.into_outcome()),
            HandlerError::Rpc(error) => Outcome::error(*error),
            HandlerError::Fault(fault) => Outcome::fault(*fault),
        }
    }
}

impl From<NeedInput> for HandlerError {
    fn from(input: NeedInput) -> Self {
        HandlerError::NeedInput(input)
    }
}

impl From<RpcError> for HandlerError {
    fn from(error: RpcError) -> Self {
        HandlerError::Rpc(Box::new(error))
    }
}

impl From<Fault> for HandlerError {
    fn from(fault: Fault) -> Self {
        HandlerError::Fault(Box::new(fault))
    }
}

impl From<String> for HandlerError {
    fn from(reason: String) -> Self {
        HandlerError::failed(reason)
    }
}

impl From<&str> for HandlerError {
    fn from(reason: &str) -> Self {
        HandlerError::failed(reason)
    }
}

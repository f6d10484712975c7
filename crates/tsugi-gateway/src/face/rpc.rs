//! Bare JSON-RPC: one POST, one JSON answer, no session and no headers. What a script needs.

use std::sync::Arc;

use ::http::header::WWW_AUTHENTICATE;
use ::http::{HeaderValue, Response, StatusCode};
use bytes::Bytes;
use tsugi_protocol::answer::{Answer, Call, CallFailure, Fault, FaultCode, Outcome};
use tsugi_protocol::era::to_legacy;
use tsugi_protocol::json::RawJson;
use tsugi_protocol::mcp::meta::RequestMeta;
use tsugi_protocol::mcp::{ClientProfile, Method, ProtocolVersion};
use tsugi_protocol::rpc::{self, RpcError, RpcMessage, RpcRequest, code};

use super::legacy_session::batch;
use super::mcp::modern::{adopt_trace, invalid, outcome_of, read_meta, refuse_gone};
use super::mcp::{names_revision, unreadable};
use super::running_call::RunningCall;
use super::{FaceRequest, fault, http, legacy_session};
use crate::backend::Endpoint;
use crate::body::ResponseBody;
use crate::guard::oauth::scope_challenge;

pub(crate) async fn post(face_request: FaceRequest<'_>, endpoint: Endpoint, bytes: Bytes) -> Response<ResponseBody> {
    if batch::is_batch(&bytes) {
        let error = RpcError::new(code::INVALID_REQUEST, "one message at a time");
        return fault::rpc_error(StatusCode::BAD_REQUEST, None, &error);
    }
    let request = match RpcMessage::parse(bytes) {
        Ok(RpcMessage::Request(request)) => request,
        Ok(_) => return http::empty(StatusCode::ACCEPTED),
        Err(error) => return unreadable(&error),
    };
    let answered = match request.method {
        Method::Ping => Ok(RawJson::literal("{}")),
        Method::Initialize => return initialize(&face_request, endpoint.answer, &request).await,
        _ => call(&face_request, endpoint.answer, &request).await,
    };
    match answered {
        Ok(result) => {
            http::json(StatusCode::OK, ResponseBody::one(rpc::RpcResponse::result(request.id, result).to_bytes()))
        }
        Err(RpcFailure::Error(error)) => fault::rpc_error(StatusCode::OK, Some(&request.id), &error),
        Err(RpcFailure::Scope(refusal)) => {
            let (error, challenge) = *refusal;
            let mut response = fault::rpc_error(StatusCode::FORBIDDEN, Some(&request.id), &error);
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
            response
        }
    }
}

/// Why a call has no result.
enum RpcFailure {
    Error(RpcError),
    /// Its token lacks a scope, which HTTP reports, too.
    Scope(Box<(RpcError, HeaderValue)>),
}

impl From<RpcError> for RpcFailure {
    fn from(error: RpcError) -> Self {
        Self::Error(error)
    }
}

/// Greets like a session would, but keeps none.
async fn initialize(
    face_request: &FaceRequest<'_>,
    answer: Arc<dyn Answer>,
    request: &RpcRequest,
) -> Response<ResponseBody> {
    let caller = face_request.principal.caller().clone();
    let options = face_request.options("rpc");
    match legacy_session::begin(answer, caller, &face_request.gateway.config().limits, request, options).await {
        Ok((_, response)) => http::json(StatusCode::OK, ResponseBody::one(response)),
        Err(error) => fault::rpc_error(StatusCode::OK, Some(&request.id), &error),
    }
}

async fn call(
    face_request: &FaceRequest<'_>,
    answer: Arc<dyn Answer>,
    request: &RpcRequest,
) -> Result<RawJson, RpcFailure> {
    let params = request.params_object().ok_or_else(|| invalid("the parameters must be an object"))?;
    let own = params.get_object("_meta");
    let is_modern = names_revision(Some(&params));
    let mut meta = match &own {
        Some(own) if is_modern => read_meta(own)?,
        own => RequestMeta::from_legacy(own.as_ref(), Arc::new(ClientProfile::default()), None),
    };
    adopt_trace(&face_request.parts.headers, &mut meta);
    refuse_gone(&request.method)?;
    if request.method == Method::Listen {
        return Err(Fault::new(FaultCode::MethodNotFound, "one answer cannot carry a subscription").to_rpc().into());
    }
    let mut call =
        Call::new(request.method.clone(), params.without("_meta")).from_caller(face_request.principal.caller().clone());
    call.meta = meta;
    call.options = face_request.options("rpc");
    let outcome = RunningCall::start(&*answer, call).outcome().await;
    if let Outcome::Failed(CallFailure::Fault(fault)) = &outcome
        && let Some(challenge) = scope_challenge::header_of(fault)
    {
        return Err(RpcFailure::Scope(Box::new((fault.to_rpc(), challenge))));
    }
    match (&outcome, is_modern) {
        (_, true) => Ok(outcome_of(&request.method, &outcome)?.raw()),
        (Outcome::Complete(complete), false) => {
            Ok(to_legacy::result(complete, &request.method, ProtocolVersion::LATEST_LEGACY).raw())
        }
        (Outcome::Failed(failure), false) => Err(failure.to_rpc().into()),
        (Outcome::InputRequired(input), false) => {
            let fault = Fault::new(FaultCode::InputRequired, "the server asks for input; say so in a modern request");
            Err(fault.with_details(input.to_result().raw()).to_rpc().into())
        }
    }
}

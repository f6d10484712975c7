//! Bare JSON-RPC: one POST, one JSON answer, no session and no headers. What a script needs.

use std::sync::Arc;

use ::http::{Response, StatusCode};
use bytes::Bytes;
use tsugi_protocol::answer::{Answer, Call, Fault, FaultCode, Outcome};
use tsugi_protocol::era::to_legacy;
use tsugi_protocol::json::Raw;
use tsugi_protocol::mcp::meta::RequestMeta;
use tsugi_protocol::mcp::{ClientProfile, Method, Version};
use tsugi_protocol::rpc::{self, Message, Request, RpcError, code};

use super::legacy::batch;
use super::mcp::modern::{adopt_trace, invalid, outcome_of, read_meta, refuse_gone};
use super::mcp::{names_revision, unreadable};
use super::running::Running;
use super::{Asked, fault, http, legacy};
use crate::backend::Endpoint;
use crate::body::Body;

/// Answers one message.
pub(crate) async fn post(asked: Asked<'_>, endpoint: Endpoint, bytes: Bytes) -> Response<Body> {
    if batch::is_batch(&bytes) {
        let error = RpcError::new(code::INVALID_REQUEST, "one message at a time");
        return fault::rpc_error(StatusCode::BAD_REQUEST, None, &error);
    }
    let request = match Message::parse(bytes) {
        Ok(Message::Request(request)) => request,
        Ok(_) => return http::empty(StatusCode::ACCEPTED),
        Err(error) => return unreadable(&error),
    };
    let answered = match request.method {
        Method::Ping => Ok(Raw::literal("{}")),
        Method::Initialize => return initialize(&asked, endpoint.answer, &request).await,
        _ => call(&asked, endpoint.answer, &request).await,
    };
    match answered {
        Ok(result) => http::json(StatusCode::OK, Body::one(rpc::Response::result(request.id, result).to_bytes())),
        Err(error) => fault::rpc_error(StatusCode::OK, Some(&request.id), &error),
    }
}

/// Greets like a session would, but keeps none.
async fn initialize(asked: &Asked<'_>, answer: Arc<dyn Answer>, request: &Request) -> Response<Body> {
    let caller = asked.principal.caller().clone();
    match legacy::begin(answer, caller, &asked.gateway.config().limits, request).await {
        Ok((_, response)) => http::json(StatusCode::OK, Body::one(response)),
        Err(error) => fault::rpc_error(StatusCode::OK, Some(&request.id), &error),
    }
}

async fn call(asked: &Asked<'_>, answer: Arc<dyn Answer>, request: &Request) -> Result<Raw, RpcError> {
    let params = request.params_object().ok_or_else(|| invalid("the parameters must be an object"))?;
    let own = params.get_object("_meta");
    let is_modern = names_revision(Some(&params));
    let mut meta = match &own {
        Some(own) if is_modern => read_meta(own)?,
        own => RequestMeta::from_legacy(own.as_ref(), Arc::new(ClientProfile::default()), None),
    };
    adopt_trace(&asked.parts.headers, &mut meta);
    refuse_gone(&request.method)?;
    if request.method == Method::Listen {
        return Err(Fault::new(FaultCode::MethodNotFound, "one answer cannot carry a subscription").to_rpc());
    }
    let mut call =
        Call::new(request.method.clone(), params.without("_meta")).from_caller(asked.principal.caller().clone());
    call.meta = meta;
    call.options = asked.options("rpc");
    let outcome = Running::start(&*answer, call).outcome().await;
    match (&outcome, is_modern) {
        (_, true) => outcome_of(&request.method, &outcome).map(|result| result.raw()),
        (Outcome::Complete(complete), false) => {
            Ok(to_legacy::result(complete, &request.method, Version::LATEST_LEGACY).raw())
        }
        (Outcome::Failed(failure), false) => Err(failure.to_rpc()),
        (Outcome::InputRequired(input), false) => {
            let fault = Fault::new(FaultCode::InputRequired, "the server asks for input; say so in a modern request");
            Err(fault.with_details(input.to_result().raw()).to_rpc())
        }
    }
}

//! One failure, told in each face's own words: the only place where faults become statuses.

use ::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use ::http::{HeaderValue, Response, StatusCode};
use serde_json::json;
use tsugi_protocol::answer::{Fault, FaultCode};
use tsugi_protocol::json::Splice;
use tsugi_protocol::rpc::{Id, RpcError, code};

use super::http;
use crate::body::Body;
use crate::guard::refusal::Refusal;
use crate::route::Style;

/// A request that was turned away before a face could read it.
pub(crate) fn refuse(style: Style, refusal: &Refusal) -> Response<Body> {
    let mut response = match style {
        Style::Rpc => rpc_error(refusal.status, None, &refusal.to_fault().to_rpc()),
        Style::Rest => {
            let error = json!({"code": refusal_word(refusal), "message": refusal.message});
            rest_error(refusal.status, &error)
        }
    };
    if refusal.status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if let Some(time) = refusal.retry_after {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(time.as_millis().div_ceil(1000) as u64));
    }
    response
}

fn refusal_word(refusal: &Refusal) -> &'static str {
    match refusal.code {
        FaultCode::InvalidRequest if refusal.status == StatusCode::NOT_FOUND => "NOT_FOUND",
        FaultCode::InvalidRequest if refusal.status == StatusCode::METHOD_NOT_ALLOWED => "METHOD_NOT_ALLOWED",
        FaultCode::InvalidRequest => "VALIDATION_ERROR",
        code => code.as_str(),
    }
}

/// `{"success":false,"error":…}`.
pub(crate) fn rest_error(status: StatusCode, error: &serde_json::Value) -> Response<Body> {
    let body = json!({"success": false, "error": error}).to_string();
    http::json(status, Body::one(body.into()))
}

/// A JSON-RPC error response.
pub(crate) fn rpc_error(status: StatusCode, id: Option<&Id>, error: &RpcError) -> Response<Body> {
    http::json(status, Body::one(error.response(id)))
}

/// A fault of ours as a modern client reads it: a lacking capability is named where the specification wants it.
pub(crate) fn modern_error(fault: &Fault) -> RpcError {
    let error = fault.to_rpc();
    let (FaultCode::MissingCapability, Some(needed), Some(data)) = (fault.code, &fault.details, error.data_object())
    else {
        return error;
    };
    let mut named = Splice::with_capacity(data.bytes().len() + needed.bytes().len() + 32);
    named.raw("requiredCapabilities", needed).members(&data, |_| true);
    error.replace_data(&named.finish())
}

/// The status of an error that answers a modern request. Errors that a server returned are 200 like results,
/// except those whose status the specification fixes; clients then read `id` and `code` in all cases.
pub(crate) fn modern_status(error: &RpcError) -> StatusCode {
    match error.code() {
        code::METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
        code::HEADER_MISMATCH | code::MISSING_CLIENT_CAPABILITY | code::UNSUPPORTED_VERSION => StatusCode::BAD_REQUEST,
        code::own::OVERLOADED | code::own::DRAINING => StatusCode::SERVICE_UNAVAILABLE,
        code::own::RATE_LIMITED => StatusCode::TOO_MANY_REQUESTS,
        code::own::TOO_LARGE => StatusCode::PAYLOAD_TOO_LARGE,
        _ => StatusCode::OK,
    }
}

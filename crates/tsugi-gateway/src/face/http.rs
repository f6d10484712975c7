//! The few HTTP responses that all faces are made of, and the checks on what comes in.

use ::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use ::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use bytes::Bytes;
use http_body::Body as _;
use tsugi_protocol::answer::FaultCode;

use crate::body::{BodyChunks, ResponseBody};
use crate::guard::refusal::HttpRefusal;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-cache, no-store");
const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// How many headers a usual request has: hyper reads a connection's next request into the map of its last response,
/// which need not grow then.
const NEXT_REQUEST: usize = 12;

pub(crate) fn json(status: StatusCode, body: ResponseBody) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = HeaderMap::with_capacity(NEXT_REQUEST);
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

/// A response of plain text.
pub(crate) fn text(status: StatusCode, text: impl Into<Bytes>) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::one(text.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, TEXT);
    response
}

/// A response without a body.
pub(crate) fn empty(status: StatusCode) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::empty());
    *response.status_mut() = status;
    response
}

/// The same response without its body, for a HEAD request.
pub(crate) fn head_of(mut response: Response<ResponseBody>) -> Response<ResponseBody> {
    let body = std::mem::replace(response.body_mut(), ResponseBody::empty());
    if let Some(length) = body.size_hint().exact() {
        response.headers_mut().insert(CONTENT_LENGTH, length.into());
    }
    response
}

/// A stream of events that answers one call and ends with it.
pub(crate) fn events(chunks: impl BodyChunks + 'static) -> Response<ResponseBody> {
    event_response(ResponseBody::Stream(Box::new(chunks)))
}

/// A stream of events that stays open as long as the client listens, most of the time without an event.
pub(crate) fn long_events(chunks: impl BodyChunks + 'static) -> Response<ResponseBody> {
    event_response(ResponseBody::LongStream(Box::new(chunks)))
}

/// A stream of events that no proxy should hold back.
fn event_response(body: ResponseBody) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, EVENTS);
    headers.insert(CACHE_CONTROL, NO_STORE);
    headers.insert(X_ACCEL_BUFFERING, HeaderValue::from_static("no"));
    response
}

/// Refuses a body that is not plain JSON: a web page can send anything else without being asked.
pub(crate) fn expect_json(headers: &HeaderMap) -> Result<(), HttpRefusal> {
    let unsupported =
        |message| HttpRefusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, FaultCode::InvalidRequest, message);
    let mut kinds = headers.get_all(CONTENT_TYPE).iter();
    match (kinds.next(), kinds.next()) {
        (Some(kind), None) if is_json(kind) => {}
        _ => return Err(unsupported("the Content-Type must be application/json")),
    }
    match headers.get(CONTENT_ENCODING) {
        None => Ok(()),
        Some(encoding) if encoding.as_bytes().eq_ignore_ascii_case(b"identity") => Ok(()),
        Some(_) => Err(unsupported("the body must not be compressed")),
    }
}

fn is_json(kind: &HeaderValue) -> bool {
    let kind = kind.as_bytes();
    if kind == b"application/json" {
        return true;
    }
    let Ok(kind) = std::str::from_utf8(kind) else { return false };
    let (essence, parameters) = kind.split_once(';').unwrap_or((kind, ""));
    let charset = parameters.trim().to_ascii_lowercase();
    essence.trim().eq_ignore_ascii_case("application/json")
        && (!charset.starts_with("charset=") || charset.trim_start_matches("charset=").trim_matches('"') == "utf-8")
}

/// True when the client takes a stream of events.
pub(crate) fn accepts_events(headers: &HeaderMap) -> bool {
    accepted(headers).any(|kind| matches!(kind, "text/event-stream" | "text/*" | "*/*"))
}

/// True when the client names a stream of events before anything else.
pub(crate) fn prefers_events(headers: &HeaderMap) -> bool {
    accepted(headers).next() == Some("text/event-stream")
}

fn accepted(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(|kind| kind.split(';').next().unwrap_or(kind).trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(pairs: &[(&'static str, &'static str)]) -> bool {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        expect_json(&headers).is_ok()
    }

    #[test]
    fn only_plain_json_is_taken() {
        for kind in ["application/json", "Application/JSON; charset=UTF-8", "application/json;charset=\"utf-8\""] {
            assert!(checked(&[("content-type", kind)]), "{kind}");
        }
        let others = [
            "text/plain",
            "application/x-www-form-urlencoded",
            "application/jsonx",
            "application/json; charset=utf-16",
        ];
        for kind in others {
            assert!(!checked(&[("content-type", kind)]), "{kind}");
        }
        assert!(!checked(&[]));
        assert!(!checked(&[("content-type", "application/json"), ("content-type", "text/plain")]));
        assert!(!checked(&[("content-type", "application/json"), ("content-encoding", "gzip")]));
        assert!(checked(&[("content-type", "application/json"), ("content-encoding", "identity")]));
    }
}

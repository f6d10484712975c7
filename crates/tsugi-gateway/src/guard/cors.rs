//! The headers that browsers need before they let a web page of another origin read our answers. Only pages that the
//! configuration names get them ([Fetch](https://fetch.spec.whatwg.org/#http-cors-protocol)).

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method};

static REQUEST_PRIVATE_NETWORK: HeaderName = HeaderName::from_static("access-control-request-private-network");
static ALLOW_PRIVATE_NETWORK: HeaderName = HeaderName::from_static("access-control-allow-private-network");

/// The headers of ours that a page may read beside those it always may.
const EXPOSED: HeaderValue =
    HeaderValue::from_static("mcp-session-id, mcp-protocol-version, retry-after, www-authenticate, allow");
const VERBS: HeaderValue = HeaderValue::from_static("GET, POST, DELETE");
/// How many seconds a browser may remember that it may ask.
const REMEMBERED: HeaderValue = HeaderValue::from_static("600");

/// True when a browser asks whether a page may send something, before it does.
pub(crate) fn is_preflight(parts: &Parts) -> bool {
    parts.method == Method::OPTIONS && parts.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// Says to a page that the configuration names that it may ask, and with which headers: whichever it wants.
pub(crate) fn allow(asked: &HeaderMap, answer: &mut HeaderMap) {
    answer.insert(ACCESS_CONTROL_ALLOW_METHODS, VERBS);
    answer.insert(ACCESS_CONTROL_MAX_AGE, REMEMBERED);
    if let Some(wanted) = asked.get(ACCESS_CONTROL_REQUEST_HEADERS) {
        answer.insert(ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
    }
    if asked.contains_key(&REQUEST_PRIVATE_NETWORK) {
        answer.insert(&ALLOW_PRIVATE_NETWORK, HeaderValue::from_static("true"));
    }
}

/// Lets a page of this origin read an answer. Cookies stay out of it: a key is sent in a header.
pub(crate) fn expose(origin: HeaderValue, answer: &mut HeaderMap) {
    answer.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    answer.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    answer.append(VARY, HeaderValue::from_name(ORIGIN));
}

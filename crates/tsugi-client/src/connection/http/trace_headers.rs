//! The trace of a call as HTTP headers, for proxies in front of a server: they do not read `_meta`.

use http::{HeaderMap, HeaderName, HeaderValue};
use tsugi_protocol::answer::Call;

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
const BAGGAGE: HeaderName = HeaderName::from_static("baggage");

/// Longer values are not sent: servers refuse large headers.
const LONGEST: usize = 4096;

/// Adds what `_meta` says about the trace, in the form of the [W3C](https://www.w3.org/TR/trace-context/). What has
/// another form is left where it is.
pub(super) fn add(headers: &mut HeaderMap, call: &Call) {
    let meta = &call.meta.rest;
    if meta.is_empty() {
        return;
    }
    if let Some(parent) = meta.get_str("traceparent").filter(|parent| is_parent(parent)) {
        insert(headers, TRACEPARENT, &parent);
        // A `tracestate` without its `traceparent` means nothing.
        if let Some(state) = meta.get_str("tracestate") {
            insert(headers, TRACESTATE, &state);
        }
    }
    if let Some(baggage) = meta.get_str("baggage") {
        insert(headers, BAGGAGE, &baggage);
    }
}

fn insert(headers: &mut HeaderMap, name: HeaderName, text: &str) {
    let is_plain = text.len() <= LONGEST && text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    if let Some(value) = HeaderValue::from_str(text).ok().filter(|_| is_plain && !text.trim().is_empty()) {
        headers.insert(name, value);
    }
}

/// `version-trace-parent-flags`, all in lower-case hexadecimal digits, neither id all zeros. Only a later version than
/// ours may have more parts.
fn is_parent(text: &str) -> bool {
    let is_hex = |part: &str, length: usize| {
        part.len() == length && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_id = |part: &str, length: usize| is_hex(part, length) && part.bytes().any(|byte| byte != b'0');
    let parts: Vec<&str> = text.split('-').collect();
    let [version, trace, parent, flags, more @ ..] = &parts[..] else { return false };
    let may_have_more = *version != "00";
    is_hex(version, 2)
        && *version != "ff"
        && is_id(trace, 32)
        && is_id(parent, 16)
        && is_hex(flags, 2)
        && (more.is_empty() || may_have_more)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use tsugi_protocol::json::JsonObject;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";

    fn headers(meta: Value) -> Vec<(String, String)> {
        let mut call = Call::tool("t", None);
        call.meta.rest = JsonObject::from(meta);
        let mut headers = HeaderMap::new();
        add(&mut headers, &call);
        let text = |value: &HeaderValue| value.to_str().unwrap().to_owned();
        headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect()
    }

    fn expected(all: &[(&str, &str)]) -> Vec<(String, String)> {
        all.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    }

    #[test]
    fn the_trace_of_a_call_becomes_headers() {
        let meta = json!({"traceparent": PARENT, "tracestate": "a=1,b=2", "baggage": "user=ann", "other": "x"});
        let all = [("traceparent", PARENT), ("tracestate", "a=1,b=2"), ("baggage", "user=ann")];
        assert_eq!(headers(meta), expected(&all));
        let later = format!("cc{}-what-comes", &PARENT[2..]);
        assert_eq!(headers(json!({"traceparent": later})), expected(&[("traceparent", &later)]));
    }

    #[test]
    fn what_has_another_form_is_no_header() {
        let long = "x".repeat(LONGEST + 1);
        for parent in [
            "",
            "00-1",
            &PARENT.to_uppercase(),
            &format!("{PARENT}-more"),
            &format!("ff{}", &PARENT[2..]),
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        ] {
            assert_eq!(headers(json!({"traceparent": parent, "tracestate": "a=1"})), [], "{parent}");
        }
        for bad in [json!("a\r\nx: y"), json!("käse"), json!(""), json!(7), json!(long)] {
            assert_eq!(headers(json!({"baggage": bad})), [], "{bad}");
        }
    }
}

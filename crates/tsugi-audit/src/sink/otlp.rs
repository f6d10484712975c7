//! OTLP logs over HTTP in the JSON encoding of the OpenTelemetry protocol specification.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

use super::{LineSink, SinkError, SinkReply, tls};
use crate::follow::FollowedLine;
use crate::timestamp::AuditTime;

/// The specification wants a limit; 4 MiB is its suggestion.
const LARGEST_ANSWER: usize = 4 << 20;
/// `SEVERITY_NUMBER_INFO` and `SEVERITY_NUMBER_WARN`.
const INFO: u8 = 9;
const WARN: u8 = 13;

/// A collector that takes logs at `{url}/v1/logs`.
pub struct OtlpSink {
    uri: Uri,
    headers: HeaderMap,
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

impl OtlpSink {
    pub fn new(url: &str, headers: &[(String, String)], ca: Option<&Path>) -> Result<Self, String> {
        let uri: Uri = format!("{}/v1/logs", url.trim_end_matches('/'))
            .parse()
            .map_err(|_| "the address of the OTLP sink cannot be read".to_owned())?;
        let mut given = HeaderMap::new();
        for (name, value) in headers {
            let name = HeaderName::try_from(name).map_err(|_| format!("{name:?} cannot be the name of a header"))?;
            // The value may be a token and is not repeated.
            let mut value = HeaderValue::try_from(value).map_err(|_| format!("the header {name} cannot be sent"))?;
            value.set_sensitive(true);
            given.insert(name, value);
        }
        let connector = hyper_rustls::HttpsConnectorBuilder::new()
            .with_tls_config(tls::client_config(ca)?)
            .https_or_http()
            .enable_http1()
            .build();
        Ok(Self { uri, headers: given, client: Client::builder(TokioExecutor::new()).build(connector) })
    }

    async fn post(&self, lines: &[FollowedLine]) -> Result<(), SinkError> {
        let mut request = Request::post(self.uri.clone())
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(payload(lines).to_string())))
            .map_err(|error| SinkError::Rejected(error.to_string()))?;
        request.headers_mut().extend(self.headers.clone());
        let response = self.client.request(request).await.map_err(SinkError::unavailable)?;
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, LARGEST_ANSWER).collect().await;
        verdict(parts.status, &parts.headers, body.ok().map(|body| body.to_bytes()))
    }
}

/// What an answer means: *OTLP/HTTP Response* of the specification.
fn verdict(status: StatusCode, headers: &HeaderMap, body: Option<Bytes>) -> Result<(), SinkError> {
    match status.as_u16() {
        200..=299 => {
            let value: Value = body.and_then(|body| serde_json::from_slice(&body).ok()).unwrap_or_default();
            let partial = &value["partialSuccess"];
            // Numbers of 64 bits are text in this encoding.
            let rejected = partial["rejectedLogRecords"].as_str().and_then(|count| count.parse().ok());
            match rejected.or(partial["rejectedLogRecords"].as_u64()).unwrap_or(0) {
                0_u64 => Ok(()),
                // A partial success must not be retried.
                count => Err(SinkError::Rejected(format!("the collector refused {count} records of a batch"))),
            }
        }
        429 | 502 | 503 | 504 => {
            let seconds = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
            let reason = format!("the collector answered {status}");
            Err(SinkError::Unavailable { reason, retry_after: seconds.map(Duration::from_secs) })
        }
        _ => Err(SinkError::Rejected(format!("the collector answered {status}"))),
    }
}

impl LineSink for OtlpSink {
    fn send<'a>(&'a mut self, lines: &'a [FollowedLine]) -> SinkReply<'a> {
        Box::pin(self.post(lines))
    }
}

fn payload(lines: &[FollowedLine]) -> Value {
    let records: Vec<Value> = lines.iter().map(record).collect();
    json!({"resourceLogs": [{
        "resource": {"attributes": [attribute("service.name", "tsugi")]},
        "scopeLogs": [{"scope": {"name": "tsugi.audit"}, "logRecords": records}],
    }]})
}

/// One line. The body is the line itself, so that the chain can be verified from what the collector has.
fn record(line: &FollowedLine) -> Value {
    let value: Value = serde_json::from_str(&line.text).unwrap_or_default();
    let time = value["time"].as_str().and_then(AuditTime::parse).map_or(0, AuditTime::micros);
    let nanos = (u128::from(time) * 1000).to_string();
    let kind = value["kind"].as_str().unwrap_or_default();
    let is_warning = matches!(kind, "denied" | "signin.failed" | "audit.gap");
    let mut attributes = vec![json!({"key": "tsugi.audit.seq", "value": {"intValue": line.seq.to_string()}})];
    for name in ["kind", "identity", "tenant", "action", "server", "name", "outcome", "code"] {
        if let Some(text) = value[name].as_str() {
            attributes.push(attribute(&format!("tsugi.audit.{name}"), text));
        }
    }
    let mut record = json!({
        "timeUnixNano": nanos,
        "observedTimeUnixNano": nanos,
        "severityNumber": if is_warning { WARN } else { INFO },
        "severityText": if is_warning { "WARN" } else { "INFO" },
        "body": {"stringValue": line.text},
        "attributes": attributes,
    });
    if let Some(trace) = value["traceId"].as_str() {
        record["traceId"] = trace.into();
    }
    record
}

fn attribute(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_becomes_a_log_record_of_the_protocol() {
        let text = r#"{"identity":"key:ann","kind":"denied","seq":7,"time":"1970-01-01T00:00:01.000002Z","traceId":"5b8efff798038103d269b633813fc60c"}"#;
        let payload = payload(&[FollowedLine { seq: 7, text: text.to_owned() }]);
        let record = &payload["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0];
        assert_eq!(record["timeUnixNano"], "1000002000");
        assert_eq!(record["severityNumber"], 13);
        assert_eq!(record["body"]["stringValue"], text);
        assert_eq!(record["traceId"], "5b8efff798038103d269b633813fc60c");
        assert_eq!(record["attributes"][0]["value"]["intValue"], "7");
    }

    #[test]
    fn only_what_the_protocol_calls_retryable_is_sent_again() {
        let answer = |status: u16, body: &'static str| {
            let headers: HeaderMap = [(RETRY_AFTER, HeaderValue::from_static("7"))].into_iter().collect();
            verdict(StatusCode::from_u16(status).unwrap(), &headers, Some(Bytes::from_static(body.as_bytes())))
        };
        assert!(answer(200, "{}").is_ok());
        assert!(answer(200, r#"{"partialSuccess":{}}"#).is_ok());
        assert!(matches!(answer(200, r#"{"partialSuccess":{"rejectedLogRecords":"3"}}"#), Err(SinkError::Rejected(_))));
        for status in [429, 502, 503, 504] {
            let Err(SinkError::Unavailable { retry_after, .. }) = answer(status, "") else { panic!("{status}") };
            assert_eq!(retry_after, Some(Duration::from_secs(7)));
        }
        for status in [400, 401, 404, 500, 501] {
            assert!(matches!(answer(status, ""), Err(SinkError::Rejected(_))), "{status}");
        }
    }
}

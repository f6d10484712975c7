//! The actions of golden cases of the era translation: JSON in, JSON out.

use std::sync::Arc;

use serde_json::{Value, json};
use tsugi_protocol::answer::{Call, CompletedResult, InputRequired};
use tsugi_protocol::era::detect::{EraVerdict, HttpEraVerdict};
use tsugi_protocol::era::{detect, notification, round_trip, session, to_legacy, to_modern};
use tsugi_protocol::json::{JsonObject, RawJson};
use tsugi_protocol::mcp::input::Question;
use tsugi_protocol::mcp::log::LogLevel;
use tsugi_protocol::mcp::meta::RequestMeta;
use tsugi_protocol::mcp::subscription::{SubscriptionFilter, tagged};
use tsugi_protocol::mcp::{Era, Method, ProtocolVersion, ServerIdentity};
use tsugi_protocol::rpc::{RequestId, ResponsePayload, RpcError, RpcMessage, RpcNotification, RpcRequest, RpcResponse};

/// What a case gives, and in which revision it must be valid.
pub(crate) type Action = fn(&Value, ProtocolVersion) -> Value;

/// Every action by name, with the revisions that it is done for.
pub(crate) const ACTIONS: &[(&str, Audience, Action)] = &[
    ("request to a modern server", Audience::Modern, request_to_modern),
    ("request to a legacy server", Audience::Legacy, request_to_legacy),
    ("result to a modern client", Audience::Modern, result_to_modern),
    ("result to a legacy client", Audience::Legacy, result_to_legacy),
    ("error to a modern client", Audience::Modern, error_to_modern),
    ("error to a legacy client", Audience::Legacy, error_to_legacy),
    ("note to a modern client", Audience::Modern, note_to_modern),
    ("change to a modern client", Audience::Modern, change_to_modern),
    ("change to a legacy client", Audience::Legacy, change_to_legacy),
    ("progress under another token", Audience::All, progress),
    ("cancellation", Audience::All, cancellation),
    ("listen", Audience::Modern, listen),
    ("end of a subscription", Audience::Modern, end_of_listening),
    ("question to a modern client", Audience::Modern, question_to_modern),
    ("question to a legacy client", Audience::Legacy, question_to_legacy),
    ("answer to a modern server", Audience::Modern, answer_to_modern),
    ("answer to a legacy server", Audience::Legacy, answer_to_legacy),
    ("addresses to visit first", Audience::Modern, url_required),
    ("initialize for a legacy server", Audience::Legacy, initialize_params),
    ("initialize of a legacy client", Audience::Nobody, read_initialize),
    ("answer to initialize", Audience::Legacy, initialize_result),
    ("answer to initialize, read", Audience::Nobody, read_initialize_result),
    ("answer to discover", Audience::Modern, discover_result),
    ("probe", Audience::Nobody, probe),
];

/// For which revisions an action is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Audience {
    /// 2026-07-28.
    Modern,
    /// Each legacy revision.
    Legacy,
    /// Each revision.
    All,
    /// What is read, not written.
    Nobody,
}

fn object(value: &Value) -> JsonObject {
    JsonObject::of(&RawJson::from(value.clone())).unwrap_or_else(JsonObject::empty)
}

fn raw(value: &Value) -> RawJson {
    RawJson::from(value.clone())
}

fn value(raw: &RawJson) -> Value {
    raw.to().unwrap()
}

fn message(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

fn method(input: &Value) -> Method {
    Method::from(input["method"].as_str().expect("a case names its method"))
}

fn notification(input: &Value) -> RpcNotification {
    RpcNotification::new(method(input), input.get("params").map(raw))
}

fn token_of(call: &Call) -> Option<u64> {
    call.meta.progress_token.as_ref().map(|_| 7)
}

/// The call that a face makes of a request: `_meta` apart from the parameters.
fn call(input: &Value, meta: impl FnOnce(Option<&JsonObject>) -> RequestMeta) -> Call {
    let mut params = input["params"].clone();
    let old = params.as_object_mut().and_then(|params| params.shift_remove("_meta")).map(|meta| object(&meta));
    let mut call = Call::new(method(input), object(&params));
    call.meta = meta(old.as_ref());
    call
}

fn request_to_modern(input: &Value, _: ProtocolVersion) -> Value {
    let (_, client) = session::read_initialize(&object(&input["initialize"]));
    let level = input["level"].as_str().and_then(LogLevel::parse);
    let call = call(&input["request"], |meta| RequestMeta::from_legacy(meta, Arc::new(client), level));
    let params = to_modern::params(&call, token_of(&call));
    message(&RpcRequest::new(RequestId::number(7), call.into_parts().method, Some(params)).to_bytes())
}

fn request_to_legacy(input: &Value, _: ProtocolVersion) -> Value {
    let call = call(input, |meta| RequestMeta::from_modern(meta.unwrap()).unwrap());
    let params = to_legacy::params(&call, token_of(&call));
    message(&RpcRequest::new(RequestId::number(7), call.into_parts().method, params).to_bytes())
}

fn complete(input: &Value, era: Era) -> CompletedResult {
    let server = input.get("server").map(|answer| match era {
        Era::Legacy => session::read_initialize_result(&object(answer)).unwrap(),
        Era::Modern => session::read_discover_result(&object(answer)).unwrap(),
    });
    CompletedResult { body: object(&input["result"]), era, server: server.map(Arc::new) }
}

fn result_to_modern(input: &Value, _: ProtocolVersion) -> Value {
    value(&to_modern::result(&complete(input, Era::Legacy), &method(input)).raw())
}

fn result_to_legacy(input: &Value, version: ProtocolVersion) -> Value {
    let era = if input["written"] == "legacy" { Era::Legacy } else { Era::Modern };
    value(&to_legacy::result(&complete(input, era), &method(input), version).raw())
}

fn error_message(error: RpcError) -> Value {
    message(&RpcResponse::error(Some(RequestId::number(7)), error).to_bytes())
}

fn error(input: &Value) -> RpcError {
    RpcError::from_raw(&raw(&input["error"])).unwrap()
}

fn error_to_modern(input: &Value, _: ProtocolVersion) -> Value {
    error_message(to_modern::error(&error(input), &method(input)))
}

fn error_to_legacy(input: &Value, version: ProtocolVersion) -> Value {
    error_message(to_legacy::error(&error(input), &method(input), version))
}

fn note_to_modern(input: &Value, _: ProtocolVersion) -> Value {
    to_modern::note(&notification(input)).map_or(Value::Null, |note| message(&note.to_bytes()))
}

fn change_to_modern(input: &Value, _: ProtocolVersion) -> Value {
    let note = to_modern::note(&notification(input)).unwrap();
    message(&tagged(&note, &raw(&input["subscription"])).to_bytes())
}

fn change_to_legacy(input: &Value, _: ProtocolVersion) -> Value {
    message(&notification::to_legacy(&notification(input)).to_bytes())
}

fn progress(input: &Value, _: ProtocolVersion) -> Value {
    let note = notification(input);
    assert!(notification::progress_token(&note).is_some());
    message(&notification::progress_with_token(&note, &raw(&input["token"])).to_bytes())
}

fn cancellation(input: &Value, _: ProtocolVersion) -> Value {
    let id = RequestId::from_raw(raw(&input["id"])).unwrap();
    let note = notification::cancelled(&id, input["reason"].as_str());
    assert_eq!(notification::cancelled_id(&note).unwrap(), id);
    message(&note.to_bytes())
}

fn filter(input: &Value) -> SubscriptionFilter {
    SubscriptionFilter::from_object(&object(input))
}

fn listen(input: &Value, _: ProtocolVersion) -> Value {
    let call = Call::new(Method::Listen, notification::listen_params(&filter(input)));
    message(&RpcRequest::new(RequestId::number(7), Method::Listen, Some(to_modern::params(&call, None))).to_bytes())
}

fn end_of_listening(input: &Value, _: ProtocolVersion) -> Value {
    value(&notification::listen_result(&raw(&input["subscription"])).raw())
}

fn question_to_modern(input: &Value, _: ProtocolVersion) -> Value {
    let Ok(RpcMessage::Request(request)) = RpcMessage::parse(raw(input).bytes().clone()) else {
        panic!("not a request")
    };
    let Some(question) = round_trip::question(&request) else { return Value::Null };
    let asked = InputRequired::one(&question.key, &question.method, question.params.as_ref(), Some("sealed".into()));
    value(&asked.to_result().raw())
}

fn question_to_legacy(input: &Value, version: ProtocolVersion) -> Value {
    let question = Question { key: "k".into(), method: method(input), params: input.get("params").map(raw) };
    let request = round_trip::to_request(&question, RequestId::number(7), version);
    request.map_or(Value::Null, |request| message(&request.to_bytes()))
}

fn body(input: &Value) -> ResponsePayload {
    match input.get("error") {
        Some(_) => ResponsePayload::Error(error(input)),
        None => ResponsePayload::Result(raw(&input["result"])),
    }
}

fn answer_to_modern(input: &Value, _: ProtocolVersion) -> Value {
    round_trip::answer_to_modern(&method(input), &body(input)).map_or(Value::Null, |answer| value(&answer))
}

fn answer_to_legacy(input: &Value, version: ProtocolVersion) -> Value {
    value(&round_trip::answer_to_legacy(&method(input), &raw(&input["answer"]), version))
}

fn url_required(input: &Value, _: ProtocolVersion) -> Value {
    round_trip::url_required(&error(input)).map_or(Value::Null, |asked| value(&asked.to_result().raw()))
}

fn initialize_params(input: &Value, version: ProtocolVersion) -> Value {
    let (_, client) = session::read_initialize(&object(input));
    let params = session::initialize_params(&client, version);
    message(&RpcRequest::new(RequestId::number(7), Method::Initialize, Some(params)).to_bytes())
}

fn read_initialize(input: &Value, _: ProtocolVersion) -> Value {
    let (version, client) = session::read_initialize(&object(input));
    json!({
        "version": version.as_str(),
        "info": client.info.map(|info| value(&info)),
        "capabilities": value(&client.capabilities.raw()),
    })
}

fn identity(input: &Value) -> ServerIdentity {
    let answer = object(input);
    session::read_initialize_result(&answer).or_else(|_| session::read_discover_result(&answer)).unwrap()
}

fn show(identity: &ServerIdentity) -> Value {
    json!({
        "version": identity.version.as_str(),
        "info": identity.info.as_ref().map(value),
        "capabilities": value(&identity.capabilities.raw()),
        "instructions": identity.instructions,
        "supported": identity.supported_versions,
    })
}

fn initialize_result(input: &Value, version: ProtocolVersion) -> Value {
    value(&session::initialize_result(&identity(input), version))
}

fn read_initialize_result(input: &Value, _: ProtocolVersion) -> Value {
    match session::read_initialize_result(&object(input)) {
        Ok(identity) => show(&identity),
        Err(reason) => json!({"refused": reason}),
    }
}

fn discover_result(input: &Value, _: ProtocolVersion) -> Value {
    value(&session::discover_result(&identity(input)).raw())
}

fn probe(input: &Value, _: ProtocolVersion) -> Value {
    let body = (input.get("result").is_some() || input.get("error").is_some()).then(|| body(input));
    let Some(status) = input["status"].as_u64() else {
        return show_verdict(detect::of_probe(&body.expect("a stream answers with something")));
    };
    match detect::of_http(status as u16, body.as_ref()) {
        HttpEraVerdict::Modern(identity) => json!({"modern": show(&identity)}),
        HttpEraVerdict::ModernOther { supported } => json!({"modern, other versions": supported}),
        HttpEraVerdict::Legacy => json!("legacy"),
        HttpEraVerdict::MaybeSse => json!("legacy, perhaps the two-endpoint transport"),
        HttpEraVerdict::Refused => json!("refused"),
    }
}

fn show_verdict(verdict: EraVerdict) -> Value {
    match verdict {
        EraVerdict::Modern(identity) => json!({"modern": show(&identity)}),
        EraVerdict::ModernOther { supported } => json!({"modern, other versions": supported}),
        EraVerdict::Legacy => json!("legacy"),
    }
}

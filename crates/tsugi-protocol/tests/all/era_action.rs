//! What a golden case can ask the era translation to do: JSON in, JSON out.

use std::sync::Arc;

use serde_json::{Value, json};
use tsugi_protocol::answer::{Call, Complete, InputRequired};
use tsugi_protocol::era::detect::{HttpVerdict, Verdict};
use tsugi_protocol::era::{change, detect, round_trip, session, to_legacy, to_modern};
use tsugi_protocol::json::{Object, Raw};
use tsugi_protocol::mcp::input::Question;
use tsugi_protocol::mcp::log::LogLevel;
use tsugi_protocol::mcp::meta::RequestMeta;
use tsugi_protocol::mcp::subscription::{Filter, acknowledgment, tagged};
use tsugi_protocol::mcp::{Era, Method, ServerCapabilities, ServerIdentity, Version};
use tsugi_protocol::rpc::{Body, Id, Message, Notification, Request, Response, RpcError};

/// What a case gives, and in which revision it must be valid.
pub(crate) type Action = fn(&Value, Version) -> Value;

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
    ("level for a legacy server", Audience::Legacy, set_level),
    ("listen", Audience::Modern, listen),
    ("acknowledgment for a legacy server", Audience::Modern, acknowledged),
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

fn object(value: &Value) -> Object {
    Object::of(&Raw::from(value.clone())).unwrap_or_else(Object::empty)
}

fn raw(value: &Value) -> Raw {
    Raw::from(value.clone())
}

fn value(raw: &Raw) -> Value {
    raw.to().unwrap()
}

fn message(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

fn method(input: &Value) -> Method {
    Method::from(input["method"].as_str().expect("a case names its method"))
}

fn notification(input: &Value) -> Notification {
    Notification::new(method(input), input.get("params").map(raw))
}

fn token_of(call: &Call) -> Option<u64> {
    call.meta.progress_token.as_ref().map(|_| 7)
}

/// The call that a face makes of a request: `_meta` apart from the parameters.
fn call(input: &Value, meta: impl FnOnce(Option<&Object>) -> RequestMeta) -> Call {
    let mut params = input["params"].clone();
    let old = params.as_object_mut().and_then(|params| params.shift_remove("_meta")).map(|meta| object(&meta));
    let mut call = Call::new(method(input), object(&params));
    call.meta = meta(old.as_ref());
    call
}

fn request_to_modern(input: &Value, _: Version) -> Value {
    let (_, client) = session::read_initialize(&object(&input["initialize"]));
    let level = input["level"].as_str().and_then(LogLevel::parse);
    let call = call(&input["request"], |meta| RequestMeta::from_legacy(meta, Arc::new(client), level));
    let params = to_modern::params(&call, token_of(&call));
    message(&Request::new(Id::number(7), call.into_parts().method, Some(params)).to_bytes())
}

fn request_to_legacy(input: &Value, _: Version) -> Value {
    let call = call(input, |meta| RequestMeta::from_modern(meta.unwrap()).unwrap());
    let params = to_legacy::params(&call, token_of(&call));
    message(&Request::new(Id::number(7), call.into_parts().method, params).to_bytes())
}

fn complete(input: &Value, era: Era) -> Complete {
    let server = input.get("server").map(|answer| match era {
        Era::Legacy => session::read_initialize_result(&object(answer)).unwrap(),
        Era::Modern => session::read_discover_result(&object(answer)).unwrap(),
    });
    Complete { body: object(&input["result"]), era, server: server.map(Arc::new) }
}

fn result_to_modern(input: &Value, _: Version) -> Value {
    value(&to_modern::result(&complete(input, Era::Legacy), &method(input)).raw())
}

fn result_to_legacy(input: &Value, version: Version) -> Value {
    let era = if input["written"] == "legacy" { Era::Legacy } else { Era::Modern };
    value(&to_legacy::result(&complete(input, era), &method(input), version).raw())
}

fn error_message(error: RpcError) -> Value {
    message(&Response::error(Some(Id::number(7)), error).to_bytes())
}

fn error(input: &Value) -> RpcError {
    RpcError::from_raw(&raw(&input["error"])).unwrap()
}

fn error_to_modern(input: &Value, _: Version) -> Value {
    error_message(to_modern::error(&error(input), &method(input)))
}

fn error_to_legacy(input: &Value, version: Version) -> Value {
    error_message(to_legacy::error(&error(input), &method(input), version))
}

fn note_to_modern(input: &Value, _: Version) -> Value {
    to_modern::note(&notification(input)).map_or(Value::Null, |note| message(&note.to_bytes()))
}

fn change_to_modern(input: &Value, _: Version) -> Value {
    let note = to_modern::note(&notification(input)).unwrap();
    message(&tagged(&note, &raw(&input["subscription"])).to_bytes())
}

fn change_to_legacy(input: &Value, _: Version) -> Value {
    message(&change::to_legacy(&notification(input)).to_bytes())
}

fn progress(input: &Value, _: Version) -> Value {
    let note = notification(input);
    assert!(change::progress_token(&note).is_some());
    message(&change::progress_with_token(&note, &raw(&input["token"])).to_bytes())
}

fn cancellation(input: &Value, _: Version) -> Value {
    let id = Id::from_raw(raw(&input["id"])).unwrap();
    let note = change::cancelled(&id, input["reason"].as_str());
    assert_eq!(change::cancelled_id(&note).unwrap(), id);
    message(&note.to_bytes())
}

fn set_level(input: &Value, _: Version) -> Value {
    let level = LogLevel::parse(input["level"].as_str().unwrap()).unwrap();
    let params = change::set_level_params(level);
    assert_eq!(change::read_set_level(&Object::of(&params).unwrap()), Some(level));
    message(&Request::new(Id::number(7), Method::SetLevel, Some(params)).to_bytes())
}

fn filter(input: &Value) -> Filter {
    Filter::from_object(&object(input))
}

fn listen(input: &Value, _: Version) -> Value {
    let call = Call::new(Method::Listen, change::listen_params(&filter(input)));
    message(&Request::new(Id::number(7), Method::Listen, Some(to_modern::params(&call, None))).to_bytes())
}

fn acknowledged(input: &Value, _: Version) -> Value {
    let capabilities = ServerCapabilities::from_object(object(&input["capabilities"]));
    let honoured = change::honoured(&change::read_filter(&object(&input["params"])), &capabilities);
    message(&acknowledgment(&honoured, &raw(&input["subscription"])).to_bytes())
}

fn end_of_listening(input: &Value, _: Version) -> Value {
    value(&change::listen_result(&raw(&input["subscription"])).raw())
}

fn question_to_modern(input: &Value, _: Version) -> Value {
    let Ok(Message::Request(request)) = Message::parse(raw(input).bytes().clone()) else { panic!("not a request") };
    let Some(question) = round_trip::question(&request) else { return Value::Null };
    let asked = InputRequired::one(&question.key, &question.method, question.params.as_ref(), Some("sealed".into()));
    value(&asked.to_result().raw())
}

fn question_to_legacy(input: &Value, version: Version) -> Value {
    let question = Question { key: "k".into(), method: method(input), params: input.get("params").map(raw) };
    let request = round_trip::to_request(&question, Id::number(7), version);
    request.map_or(Value::Null, |request| message(&request.to_bytes()))
}

fn body(input: &Value) -> Body {
    match input.get("error") {
        Some(_) => Body::Error(error(input)),
        None => Body::Result(raw(&input["result"])),
    }
}

fn answer_to_modern(input: &Value, _: Version) -> Value {
    round_trip::answer_to_modern(&method(input), &body(input)).map_or(Value::Null, |answer| value(&answer))
}

fn answer_to_legacy(input: &Value, version: Version) -> Value {
    let answer = input.get("answer").map(raw);
    match round_trip::answer_to_legacy(&method(input), answer.as_ref(), version) {
        Body::Result(result) => value(&result),
        Body::Error(error) => json!({"error": value(&error.raw())}),
    }
}

fn url_required(input: &Value, _: Version) -> Value {
    round_trip::url_required(&error(input)).map_or(Value::Null, |asked| value(&asked.to_result().raw()))
}

fn initialize_params(input: &Value, version: Version) -> Value {
    let (_, client) = session::read_initialize(&object(input));
    let params = session::initialize_params(&client, version);
    message(&Request::new(Id::number(7), Method::Initialize, Some(params)).to_bytes())
}

fn read_initialize(input: &Value, _: Version) -> Value {
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

fn initialize_result(input: &Value, version: Version) -> Value {
    value(&session::initialize_result(&identity(input), version))
}

fn read_initialize_result(input: &Value, _: Version) -> Value {
    match session::read_initialize_result(&object(input)) {
        Ok(identity) => show(&identity),
        Err(reason) => json!({"refused": reason}),
    }
}

fn discover_result(input: &Value, _: Version) -> Value {
    value(&session::discover_result(&identity(input)).raw())
}

fn probe(input: &Value, _: Version) -> Value {
    let body = (input.get("result").is_some() || input.get("error").is_some()).then(|| body(input));
    let Some(status) = input["status"].as_u64() else {
        return show_verdict(detect::of_probe(&body.expect("a stream answers with something")));
    };
    match detect::of_http(status as u16, body.as_ref()) {
        HttpVerdict::Modern(identity) => json!({"modern": show(&identity)}),
        HttpVerdict::ModernOther { supported } => json!({"modern, other versions": supported}),
        HttpVerdict::Legacy => json!("legacy"),
        HttpVerdict::MaybeSse => json!("legacy, perhaps the two-endpoint transport"),
        HttpVerdict::Refused => json!("refused"),
    }
}

fn show_verdict(verdict: Verdict) -> Value {
    match verdict {
        Verdict::Modern(identity) => json!({"modern": show(&identity)}),
        Verdict::ModernOther { supported } => json!({"modern, other versions": supported}),
        Verdict::Legacy => json!("legacy"),
    }
}

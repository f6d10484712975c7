//! The era translation on any JSON: nothing breaks, nothing is lost, and each era gets its own form.

#![no_main]

use std::sync::Arc;

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use tsugi_protocol::answer::{Call, CompletedResult, InputRequired};
use tsugi_protocol::era::{notification, detect, round_trip, session, to_legacy, to_modern};
use tsugi_protocol::json::{JsonObject, RawJson};
use tsugi_protocol::mcp::meta::{RequestMeta, SUBSCRIPTION_ID};
use tsugi_protocol::mcp::subscription::tagged;
use tsugi_protocol::mcp::{Era, Method, ProtocolVersion};
use tsugi_protocol::rpc::{ResponsePayload, RequestId, RpcNotification, RpcRequest, RpcError};

fuzz_target!(|data: &[u8]| {
    let Some((head, rest)) = data.split_at_checked(2) else { return };
    let method = Method::KNOWN[usize::from(head[0]) % Method::KNOWN.len()].clone();
    let version = ProtocolVersion::ALL[usize::from(head[1]) % 4];
    let Ok(object) = JsonObject::parse(Bytes::copy_from_slice(rest)) else { return };
    results(&object, &method, version);
    requests(&object, &method);
    errors(&object, &method, version);
    notifications(&object, &method);
    questions(&object, &method, version);
    sessions(&object, version);
    detection(&object, head[1]);
});

/// The members that neither era rewrites are still there, byte for byte.
fn keeps(before: &JsonObject, after: &JsonObject, is_rewritten: impl Fn(&str) -> bool) {
    for member in before.members() {
        let key = before.key(*member);
        if !is_rewritten(&key) {
            let kept = after.find(&key).unwrap_or_else(|| panic!("{key} is lost"));
            assert_eq!(after.written(kept), before.written(*member));
        }
    }
}

fn results(body: &JsonObject, method: &Method, version: ProtocolVersion) {
    let legacy = CompletedResult { body: body.clone(), era: Era::Legacy, server: None };
    let modern = to_modern::result(&legacy, method);
    assert_eq!(modern.get_str("resultType").as_deref(), Some("complete"));
    assert_eq!(method.is_cacheable(), method.is_cacheable() && modern.has("ttlMs") && modern.has("cacheScope"));
    let is_modern = |key: &str| matches!(key, "resultType" | "ttlMs" | "cacheScope" | "_meta");
    keeps(body, &modern, is_modern);
    let modern = CompletedResult { body: modern, era: Era::Modern, server: None };
    let back = to_legacy::result(&modern, method, version);
    assert!(!back.has("resultType"));
    let is_changed =
        |key: &str| is_modern(key) || matches!(key, "tools" | "content" | "structuredContent" | "messages");
    keeps(body, &back, is_changed);
    let twice = CompletedResult { body: back.clone(), era: Era::Modern, server: None };
    assert_eq!(to_legacy::result(&twice, method, version).raw(), back.raw());
    to_legacy::result(&legacy, method, version);
}

fn requests(params: &JsonObject, method: &Method) {
    let is_ours = |key: &str| matches!(key, "_meta" | "inputResponses" | "requestState");
    let mut call = Call::new(method.clone(), params.clone());
    if let Some(meta) = params.get_object("_meta") {
        call.meta = RequestMeta::from_legacy(Some(&meta), Arc::default(), None);
    }
    let modern = JsonObject::of(&to_modern::params(&call, Some(7))).expect("parameters are an object");
    keeps(params, &modern, |key| key == "_meta");
    let meta = modern.get_object("_meta").expect("a modern request has _meta");
    call.meta = RequestMeta::from_modern(&meta).expect("our own _meta can be read");
    if let Some(legacy) = to_legacy::params(&call, None) {
        keeps(params, &JsonObject::of(&legacy).expect("parameters are an object"), is_ours);
    }
}

fn errors(error: &JsonObject, method: &Method, version: ProtocolVersion) {
    let Some(error) = RpcError::from_raw(&error.raw()) else { return };
    let modern = to_modern::error(&error, method);
    assert!(modern.code() != -32002 && modern.code() != -32042);
    assert_eq!(to_modern::error(&modern, method).raw(), modern.raw());
    assert_eq!(modern.data(), error.data());
    let legacy = to_legacy::error(&error, method, version);
    assert!(!(-32022..=-32020).contains(&legacy.code()));
    if let Some(asked) = round_trip::url_required(&error) {
        check_questions(&asked);
    }
}

fn check_questions(asked: &InputRequired) {
    let again = InputRequired::from_result(&asked.to_result()).expect("our own questions can be read");
    assert_eq!(again.questions().len(), asked.questions().len());
}

fn subscription_of(note: &RpcNotification) -> Option<RawJson> {
    JsonObject::of(note.params.as_ref()?)?.get_object("_meta")?.get(SUBSCRIPTION_ID)
}

fn notifications(params: &JsonObject, method: &Method) {
    let note = RpcNotification::new(method.clone(), Some(params.raw()));
    let _ = to_modern::note(&note);
    let _ = (notification::cancelled_id(&note), notification::read_filter(params), notification::read_set_level(params));
    let with_tag = tagged(&note, &RawJson::string("s"));
    assert_eq!(subscription_of(&with_tag), Some(RawJson::string("s")));
    assert!(subscription_of(&notification::to_legacy(&with_tag)).is_none());
    let progress = notification::progress_with_token(&note, &RawJson::string("t"));
    assert_eq!(notification::progress_token(&progress).is_some(), notification::progress_token(&note).is_some());
}

fn questions(params: &JsonObject, method: &Method, version: ProtocolVersion) {
    let request = RpcRequest::new(RequestId::number(3), method.clone(), Some(params.raw()));
    if let Some(question) = round_trip::question(&request) {
        let asked = InputRequired::one(&question.key, &question.method, question.params.as_ref(), None);
        check_questions(&asked);
        round_trip::to_request(&question, RequestId::number(4), version);
        round_trip::to_request(&question, RequestId::number(4), ProtocolVersion::V2025_11_25).expect("2025-11-25 can ask everything");
    }
    round_trip::answer_to_legacy(method, &params.raw(), version);
    round_trip::answer_to_modern(method, &ResponsePayload::Result(params.raw()));
}

fn sessions(object: &JsonObject, version: ProtocolVersion) {
    let (chosen, client) = session::read_initialize(object);
    assert_eq!(chosen.era(), Era::Legacy);
    let params = session::initialize_params(&client, version);
    let (again, _) = session::read_initialize(&JsonObject::of(&params).expect("parameters are an object"));
    assert_eq!(again, version);
    for identity in
        [session::read_initialize_result(object), session::read_discover_result(object)].into_iter().flatten()
    {
        session::read_discover_result(&session::discover_result(&identity)).expect("our own answer can be read");
        let answer = JsonObject::of(&session::initialize_result(&identity, version)).expect("a result is an object");
        session::read_initialize_result(&answer).expect("our own answer can be read");
    }
}

fn detection(object: &JsonObject, status: u8) {
    let result = ResponsePayload::Result(object.raw());
    let _ = (detect::of_probe(&result), detect::of_http(200, Some(&result)));
    if let Some(error) = RpcError::from_raw(&object.raw()) {
        let _ = detect::of_http(u16::from(status) * 2, Some(&ResponsePayload::Error(error)));
    }
}

//! What no revision defines survives legacy → modern → legacy byte for byte, wherever it stands.

use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use tsugi_protocol::answer::{Call, CompletedResult};
use tsugi_protocol::era::{notification, round_trip, session, to_legacy, to_modern};
use tsugi_protocol::json::{JsonObject, RawJson};
use tsugi_protocol::mcp::meta::RequestMeta;
use tsugi_protocol::mcp::subscription::tagged;
use tsugi_protocol::mcp::{ClientProfile, Era, Method, ProtocolVersion, ServerIdentity};
use tsugi_protocol::rpc::{RequestId, ResponsePayload, RpcError, RpcMessage, RpcNotification, RpcRequest};

use crate::json_property::{json_text, object_text, unknown_members};

fn object(text: &str) -> JsonObject {
    JsonObject::parse(Bytes::copy_from_slice(text.as_bytes())).unwrap()
}

fn raw(text: &str) -> RawJson {
    RawJson::parse(Bytes::copy_from_slice(text.as_bytes())).unwrap()
}

fn member(key: &str, value: &str) -> String {
    format!("\"{key}\":{value}")
}

/// A member list with `_meta`, which the eras own, in front; absent when it would be empty.
fn with_meta(meta: Vec<String>, members: Vec<String>) -> Vec<String> {
    let meta = (!meta.is_empty()).then(|| member("_meta", &object_text(meta)));
    meta.into_iter().chain(members).collect()
}

fn call(method: Method, params: &JsonObject, meta: impl FnOnce(Option<&JsonObject>) -> RequestMeta) -> Call {
    let mut plain = tsugi_protocol::json::ObjectWriter::with_capacity(64);
    plain.members_except(params, &["_meta"]);
    let mut call = Call::new(method, plain.finish_object());
    call.meta = meta(params.get_object("_meta").as_ref());
    call
}

/// Through a modern server's eyes and back.
fn round_trip_of_params(method: &Method, params: &JsonObject) -> Option<RawJson> {
    let client = Arc::new(ClientProfile::default());
    let first = call(method.clone(), params, |meta| RequestMeta::from_legacy(meta, client, None));
    let token = |call: &Call| call.meta.progress_token.as_ref().map(|_| 7);
    let modern = JsonObject::of(&to_modern::params(&first, token(&first))).unwrap();
    let second = call(method.clone(), &modern, |meta| RequestMeta::from_modern(meta.unwrap()).unwrap());
    to_legacy::params(&second, token(&second))
}

fn server() -> Arc<ServerIdentity> {
    let answer =
        object(r#"{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}"#);
    Arc::new(session::read_initialize_result(&answer).unwrap())
}

fn round_trip_of_result(method: &Method, result: &JsonObject, version: ProtocolVersion) -> JsonObject {
    let legacy = CompletedResult { body: result.clone(), era: Era::Legacy, server: Some(server()) };
    let modern = CompletedResult { body: to_modern::result(&legacy, method), era: Era::Modern, server: Some(server()) };
    to_legacy::result(&modern, method, version)
}

fn methods() -> impl Strategy<Value = Method> {
    let names = ["tools/call", "tools/list", "resources/read", "prompts/get", "completion/complete", "vendor/x"];
    prop::sample::select(names.to_vec()).prop_map(Method::from)
}

fn legacy_versions() -> impl Strategy<Value = ProtocolVersion> {
    prop::sample::select(ProtocolVersion::ALL[..4].to_vec())
}

/// A block of text with unknown members in it and in its annotations.
fn block() -> impl Strategy<Value = String> {
    (unknown_members("b"), unknown_members("n")).prop_map(|(unknown, annotations)| {
        let known = [member("type", "\"text\""), member("text", "\"t\\u0041\"")];
        let annotations = [member("annotations", &object_text(annotations))];
        object_text(known.into_iter().chain(annotations).chain(unknown))
    })
}

/// A tool with unknown members in it, its annotations and its schema.
fn tool() -> impl Strategy<Value = String> {
    (unknown_members("t"), unknown_members("a"), unknown_members("s")).prop_map(|(unknown, annotations, schema)| {
        let schema = object_text([member("type", "\"object\"")].into_iter().chain(schema));
        let known = [
            member("name", "\"t\""),
            member("inputSchema", &schema),
            member("outputSchema", &schema),
            member("annotations", &object_text(annotations)),
        ];
        object_text(known.into_iter().chain(unknown))
    })
}

fn array(items: &[String]) -> String {
    format!("[{}]", items.join(","))
}

/// The known members of a method's result.
fn known_members(method: &Method, blocks: &[String], tools: &[String], structured: Option<String>) -> Vec<String> {
    match method {
        Method::ToolsCall => {
            let structured = structured.map(|members| member("structuredContent", &members));
            [member("content", &array(blocks))].into_iter().chain(structured).collect()
        }
        Method::ToolsList => vec![member("tools", &array(tools))],
        Method::PromptsGet => {
            let messages: Vec<String> = blocks
                .iter()
                .map(|block| object_text([member("role", "\"user\""), member("content", block), member("m", "1.0")]))
                .collect();
            vec![member("messages", &array(&messages))]
        }
        _ => vec![member("contents", "[ ]")],
    }
}

proptest! {
    #[test]
    fn unknown_members_of_a_request_survive(
        method in methods(), meta in unknown_members("m"), params in unknown_members("p"), has_token in any::<bool>(),
    ) {
        let token = has_token.then(|| member("progressToken", "7"));
        let meta = token.into_iter().chain(meta).collect();
        let members = with_meta(meta, params);
        let text = object_text(members.clone());
        let back = round_trip_of_params(&method, &object(&text));
        match members.is_empty() {
            true => prop_assert!(back.is_none()),
            false => prop_assert_eq!(back.unwrap().to_string(), text),
        }
    }

    #[test]
    fn unknown_members_of_a_result_survive(
        method in methods(),
        version in legacy_versions(),
        meta in unknown_members("m"),
        unknown in unknown_members("r"),
        blocks in prop::collection::vec(block(), 1..3),
        tools in prop::collection::vec(tool(), 0..3),
        structured in prop::option::of(unknown_members("c").prop_map(object_text)),
    ) {
        let known = known_members(&method, &blocks, &tools, structured);
        let text = object_text(with_meta(meta, known.into_iter().chain(unknown).collect()));
        let back = round_trip_of_result(&method, &object(&text), version);
        prop_assert_eq!(back.raw().to_string(), text);
    }

    #[test]
    fn a_result_between_two_legacy_peers_is_the_same_bytes(
        method in methods(), unknown in unknown_members("r"), value in json_text(),
    ) {
        let odd = [member("resultType", &value), member("ttlMs", &value), member("structuredContent", &value)];
        let body = object(&object_text(odd.into_iter().chain(unknown)));
        let complete = CompletedResult { body: body.clone(), era: Era::Legacy, server: Some(server()) };
        for version in [ProtocolVersion::V2025_06_18, ProtocolVersion::V2025_11_25] {
            let given = to_legacy::result(&complete, &method, version);
            prop_assert_eq!(given.bytes(), body.bytes());
        }
    }

    #[test]
    fn unknown_members_of_an_error_survive(unknown in unknown_members("e"), data in unknown_members("d")) {
        let data = object_text([member("uri", "\"a:b\"")].into_iter().chain(data));
        let known = [member("code", "-32002"), member("message", "\"gone\""), member("data", &data)];
        let text = object_text(known.into_iter().chain(unknown));
        let modern = to_modern::error(&RpcError::from_raw(&raw(&text)).unwrap(), &Method::ResourcesRead);
        prop_assert_eq!(modern.code(), -32602);
        let back = to_legacy::error(&modern, &Method::ResourcesRead, ProtocolVersion::V2025_11_25);
        prop_assert_eq!(back.raw().to_string(), text);
    }

    #[test]
    fn unknown_members_of_a_notification_survive(
        meta in unknown_members("m"), params in unknown_members("p"), envelope in unknown_members("e"),
    ) {
        let params = with_meta(meta, params);
        let params = (!params.is_empty()).then(|| member("params", &object_text(params)));
        let method = member("method", "\"notifications/tools/list_changed\"");
        let head = [member("jsonrpc", "\"2.0\""), method];
        let text = object_text(head.into_iter().chain(params).chain(envelope));
        let RpcMessage::Notification(note) = RpcMessage::parse(Bytes::from(text.clone())).unwrap() else { panic!() };
        let modern = tagged(&to_modern::note(&note).unwrap(), &RawJson::string("s"));
        prop_assert_eq!(notification::to_legacy(&modern).to_bytes(), text.as_bytes());
    }

    #[test]
    fn progress_changes_its_token_alone(before in unknown_members("b"), after in unknown_members("a")) {
        let with = |token: &str| {
            let token = [member("progressToken", token)];
            object_text(before.iter().cloned().chain(token).chain(after.iter().cloned()))
        };
        let note = RpcNotification::new(Method::Progress, Some(raw(&with("7"))));
        let theirs = notification::progress_with_token(&note, &RawJson::string("theirs"));
        prop_assert_eq!(theirs.params.unwrap().to_string(), with("\"theirs\""));
    }

    #[test]
    fn unknown_members_of_a_question_survive(
        meta in unknown_members("m"), unknown in unknown_members("q"), schema in unknown_members("s"), block in block(),
    ) {
        let message = object_text([member("role", "\"user\""), member("content", &block), member("x", "1e3")]);
        let cases = [
            (Method::Elicit, vec![member("message", "\"?\""), member("requestedSchema", &object_text(schema))]),
            (Method::CreateMessage, vec![member("maxTokens", "1"), member("messages", &array(&[message]))]),
            (Method::RootsList, vec![]),
        ];
        for (method, known) in cases {
            let members = with_meta(meta.clone(), known.into_iter().chain(unknown.clone()).collect());
            let params = (!members.is_empty()).then(|| raw(&object_text(members)));
            let asked = RpcRequest::new(RequestId::number(3), method, params.clone());
            let question = round_trip::question(&asked).unwrap();
            let back = round_trip::to_request(&question, RequestId::number(4), ProtocolVersion::V2025_11_25).unwrap();
            prop_assert_eq!(back.params, params);
        }
    }

    #[test]
    fn unknown_members_of_an_answer_survive(unknown in unknown_members("u")) {
        let answer = raw(&object_text(unknown));
        for method in [Method::Elicit, Method::CreateMessage, Method::RootsList] {
            let modern = round_trip::answer_to_modern(&method, &ResponsePayload::Result(answer.clone())).unwrap();
            let back = round_trip::answer_to_legacy(&method, &modern, ProtocolVersion::V2024_11_05);
            prop_assert_eq!(&back, &answer);
        }
    }
}

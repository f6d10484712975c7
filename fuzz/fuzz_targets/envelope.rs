//! The scanner and the envelope against `serde_json`, on any bytes.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};
use tsugi_protocol::json::{JsonObject, ScanErrorKind, scan};
use tsugi_protocol::rpc::{ResponsePayload, RpcMessage, RpcResponse, response_id};

fuzz_target!(|data: &[u8]| {
    proves_what_serde_json_accepts(data);
    finds_the_members_that_serde_json_finds(data);
    if let Ok(message) = RpcMessage::parse(Bytes::copy_from_slice(data)) {
        survives_being_written(&message);
        agrees_about_the_parts(&message, data);
        agrees_with_the_peek(&message, data);
    }
});

fn proves_what_serde_json_accepts(data: &[u8]) {
    let theirs = std::str::from_utf8(data).is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok());
    match scan::validate(data) {
        Ok(()) => assert!(theirs),
        // serde_json follows ignored values to any depth; we do not.
        Err(error) => assert!(!theirs || error.kind == ScanErrorKind::TooDeep),
    }
}

fn finds_the_members_that_serde_json_finds(data: &[u8]) {
    let Ok(object) = JsonObject::parse(Bytes::copy_from_slice(data)) else { return };
    let Ok(map) = serde_json::from_slice::<Map<String, Value>>(data) else { return };
    assert_eq!(object.members().len(), map.len());
    for (member, (key, value)) in object.members().iter().zip(&map) {
        assert_eq!(object.key(*member), key.as_str());
        assert_eq!(&object.value(*member).to::<Value>().unwrap(), value);
        assert_eq!(object.get(key).unwrap(), object.value(*member));
    }
}

fn survives_being_written(message: &RpcMessage) {
    let written = message.to_bytes();
    assert!(!written.contains(&b'\n') && !written.contains(&b'\r'));
    let again = RpcMessage::parse(written.clone()).expect("what we write can be read");
    assert_eq!(again.to_bytes(), written);
}

fn agrees_about_the_parts(message: &RpcMessage, data: &[u8]) {
    let Ok(value) = serde_json::from_slice::<Value>(data) else { return };
    match message {
        RpcMessage::Request(request) => {
            assert_eq!(value["method"], request.method.as_str());
            assert_eq!(value["id"], request.id.raw().to::<Value>().unwrap());
            assert_eq!(value.get("params").is_some(), request.params.is_some());
        }
        RpcMessage::Notification(note) => {
            assert_eq!(value["method"], note.method.as_str());
            assert!(value.get("id").is_none());
        }
        RpcMessage::Response(RpcResponse { body, .. }) => match body {
            ResponsePayload::Result(result) => assert_eq!(value["result"], result.to::<Value>().unwrap()),
            ResponsePayload::Error(error) => assert_eq!(value["error"], error.raw().to::<Value>().unwrap()),
        },
    }
}

fn agrees_with_the_peek(message: &RpcMessage, data: &[u8]) {
    let Some(peeked) = response_id::response_id(data) else { return };
    match message {
        RpcMessage::Response(response) => {
            assert_eq!(response.id.as_ref().and_then(|id| id.as_u64()), Some(peeked));
        }
        _ => panic!("the response_id took a request for a response"),
    }
}

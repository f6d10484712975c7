//! Headers that mirror arguments, and the base64 sentinel around values that cannot stand in a header.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use tsugi_schema::header_param::{HeaderParams, decode, encode_text};

fuzz_target!(|data: &[u8]| {
    decoding_is_steady(data);
    if let Ok(text) = std::str::from_utf8(data) {
        text_reads_back(text);
    }
    let mut parts = data.splitn(3, |byte| *byte == 0xff);
    let (schema, arguments, received) = (parts.next(), parts.next(), parts.next());
    if let (Some(schema), Some(arguments)) = (schema.and_then(json), arguments.and_then(json)) {
        mirrors_agree(&schema, &arguments, received);
    }
});

fn json(bytes: &[u8]) -> Option<Value> {
    serde_json::from_slice(bytes).ok()
}

/// Any text can be sent, as bytes that a header may have, and comes back.
fn text_reads_back(text: &str) {
    let written = encode_text(text);
    assert!(written.bytes().all(|byte| matches!(byte, b'\t' | 0x20..=0x7e)), "{written:?}");
    assert_eq!(written.trim_matches([' ', '\t']), written);
    assert_eq!(decode(written.as_bytes()).as_deref(), Ok(text));
}

/// What was read from a header reads the same when it is sent on.
fn decoding_is_steady(received: &[u8]) {
    if let Ok(text) = decode(received) {
        assert_eq!(decode(encode_text(&text).as_bytes()), Ok(text));
    }
}

/// The headers we send for arguments are the ones we accept with them.
fn mirrors_agree(schema: &Value, arguments: &Value, received: Option<&[u8]>) {
    let Ok(params) = HeaderParams::of(schema) else { return };
    for param in params.iter() {
        let _ = param.compare(received, arguments);
        if let Ok(value) = param.encode(arguments) {
            assert_eq!(param.compare(value.as_ref().map(|value| value.as_bytes()), arguments), Ok(()));
        }
    }
}

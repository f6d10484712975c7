//! The scanner against `serde_json`, and generated JSON text that the other properties are built from.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use serde::de::IgnoredAny;
use tsugi_protocol::json::{JsonObject, scan};

/// JSON text as no serialiser writes it: odd numbers, escapes, white space inside.
pub(crate) fn json_text() -> impl Strategy<Value = String> {
    let number = prop::sample::select(vec!["0", "-0", "1.50", "1e3", "-1.25E-7", "12345678901234567890123", "0.0"]);
    let word = prop::sample::select(vec!["true", "false", "null"]);
    let string = prop::sample::select(vec![
        r#""""#,
        r#""plain""#,
        r#""\u0041\n\"\\\/""#,
        r#""é日本""#,
        r#""\ud83d\ude00""#,
        "\"},{\"",
        r#""\ud800""#,
    ]);
    let leaf = prop_oneof![number, word, string].prop_map(str::to_owned);
    leaf.prop_recursive(4, 24, 5, |inner| {
        let space = prop::sample::select(vec!["", " ", "  ", "\t"]);
        let array = (vec(inner.clone(), 0..4), space.clone())
            .prop_map(|(items, space)| format!("[{space}{}{space}]", items.join(&format!("{space},"))));
        let object = (vec(inner, 0..4), space).prop_map(|(values, space)| {
            let members: Vec<String> =
                values.iter().enumerate().map(|(index, value)| format!("\"k{index}\"{space}:{space}{value}")).collect();
            format!("{{{space}{}{space}}}", members.join(","))
        });
        prop_oneof![array, object]
    })
}

/// Members that no revision defines: `"key":value` pairs with keys that differ from each other.
pub(crate) fn unknown_members(prefix: &'static str) -> impl Strategy<Value = Vec<String>> {
    vec(json_text(), 0..4).prop_map(move |values| {
        let keys = ["", "é", "\\u0041", " space"];
        values.iter().zip(keys).map(|(value, key)| format!("\"{prefix}{key}\":{value}")).collect()
    })
}

/// An object of these members, in this order.
pub(crate) fn object_text(members: impl IntoIterator<Item = String>) -> String {
    format!("{{{}}}", members.into_iter().collect::<Vec<_>>().join(","))
}

fn agrees(bytes: &[u8]) -> bool {
    let ours = scan::validate(bytes).is_ok();
    let theirs = std::str::from_utf8(bytes).is_ok_and(|text| serde_json::from_str::<IgnoredAny>(text).is_ok());
    ours == theirs
}

proptest! {
    #[test]
    fn the_scanner_accepts_every_json_text(text in json_text()) {
        prop_assert!(scan::validate(text.as_bytes()).is_ok(), "{text}");
        prop_assert!(agrees(text.as_bytes()));
    }

    #[test]
    fn the_scanner_and_serde_json_agree_about_text_that_is_nearly_json(
        text in json_text(),
        place in any::<prop::sample::Index>(),
        put in prop::option::of(prop::sample::select(b"\"\\{}[],: 0-.eE+tfnu\x00\n\x1f\x7f\xff".to_vec())),
        take in 0..3usize,
    ) {
        let mut bytes = text.into_bytes();
        let at = place.index(bytes.len());
        let end = (at + take).min(bytes.len());
        bytes.splice(at..end, put);
        prop_assert!(agrees(&bytes), "{}", String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn the_scanner_and_serde_json_agree_about_any_bytes(bytes in vec(any::<u8>(), 0..64)) {
        prop_assert!(agrees(&bytes));
    }

    #[test]
    fn an_object_gives_back_the_members_it_was_written_with(members in unknown_members("x")) {
        let text = object_text(members.clone());
        let object = JsonObject::parse(Bytes::from(text.clone())).unwrap();
        let written: Vec<&[u8]> = object.members().iter().map(|member| object.written(*member)).collect();
        prop_assert_eq!(written, members.iter().map(|member| member.as_bytes()).collect::<Vec<_>>());
        prop_assert_eq!(object.raw().to_string(), text);
    }
}

//! JSON objects in which no member occurs twice, so that two readers cannot see two different values.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// The object in these bytes; `None` when they are not exactly one JSON object, or when a member occurs twice in it or in
/// anything inside it.
pub fn parse_object(bytes: &[u8]) -> Option<Map<String, Value>> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = UniqueMembers.deserialize(&mut reader).ok()?;
    // Something after the object would be seen by one reader and skipped by another.
    reader.end().ok()?;
    match value {
        Value::Object(object) => Some(object),
        _ => None,
    }
}

/// Reads any value and fails on an object with the same member twice.
struct UniqueMembers;

impl<'de> DeserializeSeed<'de> for UniqueMembers {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for UniqueMembers {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON without duplicate members")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("not a finite number"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(UniqueMembers)? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            let value = members.next_value_seed(UniqueMembers)?;
            if object.insert(name, value).is_some() {
                return Err(A::Error::custom("a member occurs twice"));
            }
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::parse_object;

    #[test]
    fn an_object_with_a_member_twice_is_refused_at_any_depth() {
        for text in [
            r#"{"a":1,"a":1}"#,
            r#"{"a":{"b":1,"b":2}}"#,
            r#"{"a":[{"b":1,"\u0062":2}]}"#,
            r#"{"a":1} {}"#,
            "[]",
            "null",
            "",
        ] {
            assert!(parse_object(text.as_bytes()).is_none(), "{text}");
        }
    }

    #[test]
    fn an_object_is_read_as_serde_json_reads_it() {
        let text = r#"{"a":[1,-2,3.5,"x",null,true],"b":{"a":{}},"n":18446744073709551616}"#;
        let read = parse_object(text.as_bytes()).unwrap();
        assert_eq!(serde_json::Value::Object(read), serde_json::from_str::<serde_json::Value>(text).unwrap());
    }

    #[test]
    fn nesting_is_bounded() {
        let text = format!("{{\"a\":{}{}}}", "[".repeat(10_000), "]".repeat(10_000));
        assert!(parse_object(text.as_bytes()).is_none());
    }
}

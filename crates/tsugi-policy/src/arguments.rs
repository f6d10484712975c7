//! The arguments of a call as conditions read them: bounded, and without two readings.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// More bytes are not read: a condition sees `context.truncated` then.
pub const LARGEST: usize = 64 << 10;

/// The most values that arguments may consist of. It bounds how long a condition that goes through a list can take.
pub const MOST_VALUES: usize = 4096;

/// What is known of the arguments of a call.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum CallArguments {
    /// There are none to ask about, as in a list.
    #[default]
    Absent,
    Known(Value),
    /// Too large to be looked at.
    Truncated,
    /// They can be read in more than one way, or not at all. What a condition would see need not be what the server
    /// sees.
    Ambiguous(String),
}

impl CallArguments {
    /// Reads the text of an object. Absent arguments count as an empty one.
    pub fn read(text: Option<&str>) -> Self {
        let Some(text) = text else { return CallArguments::Known(Value::Object(Map::new())) };
        if text.len() > LARGEST {
            return CallArguments::Truncated;
        }
        let mut budget = MOST_VALUES;
        let mut deserializer = serde_json::Deserializer::from_str(text);
        match (ValueSeed { budget: &mut budget }).deserialize(&mut deserializer) {
            Ok(value) => CallArguments::Known(value),
            Err(_) if budget == 0 => CallArguments::Truncated,
            Err(error) => CallArguments::Ambiguous(error.to_string()),
        }
    }

    pub fn is_truncated(&self) -> bool {
        matches!(self, CallArguments::Truncated)
    }
}

/// Reads a value and counts it. A member that comes twice is an error: parsers differ in which of the two they take.
struct ValueSeed<'budget> {
    budget: &'budget mut usize,
}

impl<'de> DeserializeSeed<'de> for ValueSeed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        *self.budget = self.budget.saturating_sub(1);
        match *self.budget {
            0 => Err(D::Error::custom("too many values")),
            _ => deserializer.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for ValueSeed<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
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

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(ValueSeed { budget: &mut *self.budget })? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = members.next_key::<String>()? {
            let value = members.next_value_seed(ValueSeed { budget: &mut *self.budget })?;
            if map.insert(key, value).is_some() {
                return Err(A::Error::custom("a member is there twice"));
            }
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_are_read_as_they_are() {
        let text = r#"{"a": [1, -2, 1.5, true, null, "x"], "b": {}}"#;
        let expected = json!({"a": [1, -2, 1.5, true, null, "x"], "b": {}});
        assert_eq!(CallArguments::read(Some(text)), CallArguments::Known(expected));
        assert_eq!(CallArguments::read(None), CallArguments::Known(json!({})));
    }

    #[test]
    fn a_member_that_comes_twice_is_not_decided_on() {
        for text in [r#"{"a": 1, "a": 2}"#, r#"{"a": {"b": 1, "b": 1}}"#, r#"{"a": 1, "\u0061": 2}"#, "{", "nul"] {
            assert!(matches!(CallArguments::read(Some(text)), CallArguments::Ambiguous(_)), "{text}");
        }
    }

    #[test]
    fn arguments_that_are_too_large_are_not_looked_at() {
        let text = |bytes: usize| format!(r#"{{"a": "{}"}}"#, "x".repeat(bytes - 9));
        assert!(!CallArguments::read(Some(&text(LARGEST))).is_truncated());
        assert!(CallArguments::read(Some(&text(LARGEST + 1))).is_truncated());
        let list = |items: usize| format!("[{}]", vec!["1"; items].join(","));
        assert!(!CallArguments::read(Some(&list(MOST_VALUES - 2))).is_truncated());
        assert!(CallArguments::read(Some(&list(MOST_VALUES))).is_truncated());
    }
}

//! Argument values as they were typed, so that numbers keep every digit.

use bytes::Bytes;
use serde_json::{Map, Value};
use tsugi_protocol::json::{JsonObject, ObjectWriter, RawJson};

use crate::failure::UsageError;

/// One value: JSON as the user wrote it, or put together from several words.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ArgumentValue {
    Json(RawJson),
    Items(Vec<ArgumentValue>),
    Members(ArgumentObject),
}

/// The members of an object, in the order in which they were given.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ArgumentObject(Vec<(String, ArgumentValue)>);

impl ArgumentValue {
    /// The value of JSON text.
    pub(crate) fn parse(text: &str) -> Result<Self, serde_json::Error> {
        // serde_json's messages are better than the scanner's, and it accepts everything that can be checked.
        serde_json::from_str::<Value>(text)?;
        RawJson::parse(Bytes::copy_from_slice(text.as_bytes()))
            .map(ArgumentValue::Json)
            .map_err(serde::de::Error::custom)
    }

    pub(crate) fn to_raw(&self) -> RawJson {
        match self {
            ArgumentValue::Json(raw) => raw.clone(),
            ArgumentValue::Items(items) => RawJson::array(&items.iter().map(ArgumentValue::to_raw).collect::<Vec<_>>()),
            // Nested objects are written in the order of the words.
            ArgumentValue::Members(members) => members.to_raw(),
        }
    }

    /// For validation, with numbers rounded to floats.
    pub(crate) fn to_value(&self) -> Value {
        self.to_raw().to_lossy().expect("what was written was read as JSON before")
    }

    /// The items, where this is an array.
    pub(super) fn items_mut(&mut self) -> Option<&mut Vec<ArgumentValue>> {
        // Taken apart only when another word adds to it, so that untouched JSON keeps its spelling.
        if let ArgumentValue::Json(raw) = self {
            *self = ArgumentValue::Items(raw.items()?.into_iter().map(ArgumentValue::Json).collect());
        }
        if let ArgumentValue::Items(items) = self { Some(items) } else { None }
    }

    /// The members, where this is an object.
    pub(super) fn members_mut(&mut self) -> Option<&mut ArgumentObject> {
        if let ArgumentValue::Json(raw) = self {
            *self = ArgumentValue::Members(ArgumentObject::of(&JsonObject::of(raw)?));
        }
        if let ArgumentValue::Members(members) = self { Some(members) } else { None }
    }
}

impl From<Value> for ArgumentValue {
    fn from(value: Value) -> Self {
        ArgumentValue::Json(RawJson::from(value))
    }
}

impl ArgumentObject {
    fn of(object: &JsonObject) -> Self {
        let member = |member| (object.key(member).into_owned(), ArgumentValue::Json(object.value(member)));
        ArgumentObject(object.members().iter().copied().map(member).collect())
    }

    /// Reads an object from JSON text.
    pub(super) fn parse(text: &str) -> Result<Self, UsageError> {
        let bytes = Bytes::copy_from_slice(text.as_bytes());
        let object = JsonObject::parse(bytes)
            .map_err(|error| UsageError::new(format!("the arguments are not JSON: {error}")))?;
        Ok(ArgumentObject::of(&object))
    }

    pub(crate) fn contains(&self, key: &str) -> bool {
        self.0.iter().any(|(known, _)| known == key)
    }

    pub(super) fn get_mut(&mut self, key: &str) -> Option<&mut ArgumentValue> {
        self.0.iter_mut().find(|(known, _)| known == key).map(|(_, value)| value)
    }

    /// The value under a key, which is made where it is not there.
    pub(super) fn entry(&mut self, key: &str, absent: impl FnOnce() -> ArgumentValue) -> &mut ArgumentValue {
        let index = self.0.iter().position(|(known, _)| known == key).unwrap_or_else(|| {
            self.0.push((key.to_owned(), absent()));
            self.0.len() - 1
        });
        &mut self.0[index].1
    }

    /// Sets a value, replacing an existing one.
    pub(crate) fn insert(&mut self, key: &str, value: ArgumentValue) {
        match self.get_mut(key) {
            Some(place) => *place = value,
            None => self.0.push((key.to_owned(), value)),
        }
    }

    /// Adds all of these, replacing existing ones.
    pub(crate) fn extend(&mut self, others: ArgumentObject) {
        others.0.into_iter().for_each(|(key, value)| self.insert(&key, value));
    }

    /// Every key with its value.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &ArgumentValue)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// As they are sent.
    pub(crate) fn to_raw(&self) -> RawJson {
        let mut object = ObjectWriter::with_capacity(64);
        for (key, value) in &self.0 {
            object.raw(key, &value.to_raw());
        }
        object.finish()
    }
}

impl From<Map<String, Value>> for ArgumentObject {
    fn from(map: Map<String, Value>) -> Self {
        ArgumentObject(map.into_iter().map(|(key, value)| (key, value.into())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_together_keeps_every_digit() {
        let mut members =
            ArgumentObject::parse(r#"{"a": {"n":12345678901234567890123}, "l": [0.10000000000000000001]}"#).unwrap();
        let nested = members.get_mut("a").unwrap().members_mut().unwrap();
        nested.insert("m", ArgumentValue::parse("1.50").unwrap());
        members.get_mut("l").unwrap().items_mut().unwrap().push(Value::from("x").into());
        let written = r#"{"a":{"n":12345678901234567890123,"m":1.50},"l":[0.10000000000000000001,"x"]}"#;
        assert_eq!(members.to_raw().as_str(), written);
    }

    #[test]
    fn what_is_no_array_and_no_object_has_neither_items_nor_members() {
        let mut number = ArgumentValue::parse("5").unwrap();
        assert!(number.items_mut().is_none() && number.members_mut().is_none());
        assert_eq!(number.to_raw().as_str(), "5");
    }
}

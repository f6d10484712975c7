//! A JSON value as the bytes it came in, validated once.

use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::lone_surrogate::replace_lone_surrogates;
use super::scan::{self, ScanError};

/// One JSON value in UTF-8. Cloning and slicing share the buffer it arrived in.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RawJson(Bytes);

impl RawJson {
    /// Proves `bytes` and keeps them, without the white space around the value.
    pub fn parse(bytes: Bytes) -> Result<Self, ScanError> {
        scan::validate_utf8(&bytes)?;
        let start = scan::skip_space(&bytes, 0);
        let end = scan::skip_value(&bytes, start)?;
        scan::expect_end(&bytes, end)?;
        // White space around the value is not part of it.
        Ok(Self(bytes.slice(start..end)))
    }

    /// Keeps bytes that the caller has already validated as exactly one value, or has just written.
    pub(crate) fn from_validated(bytes: Bytes) -> Self {
        // Checked in debug builds only: every caller has validated these bytes.
        debug_assert!(scan::validate(&bytes).is_ok(), "not JSON: {}", String::from_utf8_lossy(&bytes));
        Self(bytes)
    }

    /// A constant that is known to be JSON.
    pub fn literal(text: &'static str) -> Self {
        Self::from_validated(Bytes::from_static(text.as_bytes()))
    }

    /// Writes a value of our own as JSON. Maps with keys that are not strings cannot be written.
    pub fn from_value<T: Serialize + ?Sized>(value: &T) -> Self {
        Self(Bytes::from(serde_json::to_vec(value).expect("our own types are written without failing")))
    }

    pub fn string(text: &str) -> Self {
        Self::from_value(text)
    }

    /// Reads the value as a type. Fails with the reason serde gives.
    pub fn to<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.0)
    }

    /// Reads the value to be shown: half a surrogate pair, as servers send it that cut text in the middle of a
    /// character, is read as U+FFFD and does not take the rest with it.
    pub fn to_lossy<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        self.to().or_else(|error| {
            replace_lone_surrogates(&self.0).map_or(Err(error), |bytes| serde_json::from_slice(&bytes))
        })
    }

    /// The string this value is, unescaped; `None` when it is not a string.
    pub fn as_string(&self) -> Option<String> {
        // Looks at one byte before it parses.
        if self.0.first() != Some(&b'"') {
            return None;
        }
        self.to().ok()
    }

    /// An array of these values.
    pub fn array(items: &[RawJson]) -> Self {
        let size = items.iter().map(|item| item.0.len() + 1).sum::<usize>();
        let mut out = BytesMut::with_capacity(size + 2);
        out.put_u8(b'[');
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                out.put_u8(b',');
            }
            out.put_slice(&item.0);
        }
        out.put_u8(b']');
        Self::from_validated(out.freeze())
    }

    /// The items of an array, sharing its buffer; `None` when the value is not an array.
    pub fn items(&self) -> Option<Vec<RawJson>> {
        let bytes = &self.0;
        if bytes.first() != Some(&b'[') {
            return None;
        }
        let mut items = Vec::new();
        let mut at = scan::skip_space(bytes, 1);
        while bytes.get(at) != Some(&b']') {
            // Items share the buffer of the array.
            let end = scan::skip_value(bytes, at).ok()?;
            items.push(RawJson::from_validated(bytes.slice(at..end)));
            at = scan::skip_space(bytes, end);
            if bytes.get(at) == Some(&b',') {
                at = scan::skip_space(bytes, at + 1);
            }
        }
        Some(items)
    }

    /// The bytes, exactly as they arrived.
    pub fn bytes(&self) -> &Bytes {
        &self.0
    }

    /// The text, exactly as it arrived.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("a raw value was validated as UTF-8")
    }

    /// True when the value is an object.
    pub fn is_object(&self) -> bool {
        self.0.first() == Some(&b'{')
    }

    /// True when the value is `null`.
    pub fn is_null(&self) -> bool {
        &self.0[..] == b"null"
    }
}

impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for RawJson {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serde_json::from_slice::<&serde_json::value::RawValue>(&self.0)
            .map_err(serde::ser::Error::custom)?
            .serialize(serializer)
    }
}

impl<'de> serde::Deserialize<'de> for RawJson {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<serde_json::value::RawValue>::deserialize(deserializer)?;
        Ok(Self(Bytes::from(String::from(Box::<str>::from(raw)))))
    }
}

impl From<serde_json::Value> for RawJson {
    fn from(value: serde_json::Value) -> Self {
        Self::from_value(&value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_found_without_touching_them() {
        let array = RawJson::literal("[ 1 , {\"a\": [1,2]},\"],\" ,[] ]");
        let items: Vec<String> = array.items().unwrap().iter().map(RawJson::to_string).collect();
        assert_eq!(items, ["1", "{\"a\": [1,2]}", "\"],\"", "[]"]);
        assert!(RawJson::literal("[]").items().unwrap().is_empty());
        assert!(RawJson::literal("{}").items().is_none());
    }

    #[test]
    fn a_text_that_was_cut_within_a_character_is_shown_all_the_same() {
        let cut = RawJson::literal(r#"["first", "cut \ud83d"]"#);
        assert!(cut.to::<Vec<String>>().is_err());
        assert_eq!(cut.to_lossy::<Vec<String>>().unwrap(), ["first", "cut \u{fffd}"]);
        assert!(RawJson::literal("[1]").to_lossy::<Vec<String>>().is_err());
    }

    #[test]
    fn an_array_is_its_items_as_they_were_written() {
        let items = [RawJson::literal("1.0"), RawJson::literal("{ }"), RawJson::literal("[]")];
        assert_eq!(RawJson::array(&items).as_str(), "[1.0,{ },[]]");
        assert_eq!(RawJson::array(&[]).as_str(), "[]");
    }
}

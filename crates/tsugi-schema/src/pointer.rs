//! JSON Pointers (RFC 6901), which say where a violation or a loss is.

use serde_json::Value;
use std::fmt;

/// A place in a JSON document, written as a JSON Pointer; the empty pointer is the whole document.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(transparent)]
pub struct JsonPointer(String);

impl JsonPointer {
    pub fn root() -> Self {
        Self::default()
    }

    /// The place one step below this one; `~` and `/` in the step are escaped.
    pub fn child(&self, step: impl fmt::Display) -> Self {
        let step = step.to_string().replace('~', "~0").replace('/', "~1");
        Self(format!("{}/{step}", self.0))
    }

    /// The pointer as text, `""` for the whole document.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The unescaped steps from the root to this place.
    pub fn steps(&self) -> impl Iterator<Item = String> {
        self.0.split('/').skip(1).map(unescape)
    }

    /// Finds this place in `document`.
    pub fn find<'a>(&self, document: &'a Value) -> Option<&'a Value> {
        document.pointer(&self.0)
    }
}

impl From<&str> for JsonPointer {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Display for JsonPointer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

fn unescape(step: &str) -> String {
    step.replace("~1", "/").replace("~0", "~")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_escaped_and_found_again() {
        let pointer = JsonPointer::root().child("a/b").child("m~n").child(0);
        assert_eq!(pointer.as_str(), "/a~1b/m~0n/0");
        assert_eq!(pointer.steps().collect::<Vec<_>>(), ["a/b", "m~n", "0"]);
        let document = serde_json::json!({"a/b": {"m~n": [7]}});
        assert_eq!(pointer.find(&document), Some(&Value::from(7)));
    }
}

//! Reads arguments as a type, with errors that name the argument that does not fit.

use std::collections::HashMap;

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::json::RawJson;
use crate::json::write::on_one_line;

/// Reads `arguments`; the error names the argument and what was expected of it.
pub(super) fn read<T: DeserializeOwned>(arguments: &RawJson) -> Result<T, String> {
    arguments.to().map_err(|error| {
        let text = on_one_line(arguments.bytes());
        // Read again on one line, so that the column of the error is its offset.
        let error = serde_json::from_slice::<T>(&text).err().unwrap_or(error);
        explain(std::str::from_utf8(&text).unwrap_or_default(), &error)
    })
}

fn explain(text: &str, error: &serde_json::Error) -> String {
    let full = error.to_string();
    let reason = full.split(" at line ").next().unwrap_or(&full);
    match path_at(text, error.column()) {
        path if path.is_empty() => format!("invalid arguments: {reason}"),
        path => format!("invalid argument `{path}`: {reason}"),
    }
}

/// The path of the innermost value that covers the byte before `offset`, such as `items[2].name`.
fn path_at(text: &str, offset: usize) -> String {
    let mut path = String::new();
    let mut inner = text;
    while let Some((step, value)) = child_at(text, inner, offset) {
        path.push_str(&step);
        inner = value;
    }
    path.trim_start_matches('.').to_owned()
}

fn child_at<'a>(whole: &str, inner: &'a str, offset: usize) -> Option<(String, &'a str)> {
    let covers = |value: &&'a RawValue| {
        let start = value.get().as_ptr() as usize - whole.as_ptr() as usize;
        start < offset && offset <= start + value.get().len()
    };
    if inner.starts_with('{') {
        let members: HashMap<String, &'a RawValue> = serde_json::from_str(inner).ok()?;
        return members
            .into_iter()
            .find(|(_, value)| covers(value))
            .map(|(key, value)| (format!(".{key}"), value.get()));
    }
    let items: Vec<&'a RawValue> = serde_json::from_str(inner).ok()?;
    let found = items.into_iter().enumerate().find(|(_, value)| covers(value));
    found.map(|(index, value)| (format!("[{index}]"), value.get()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    #[allow(dead_code, reason = "only read to see what serde says")]
    struct Order {
        count: u8,
        #[serde(default)]
        items: Vec<Item>,
    }

    #[derive(Debug, serde::Deserialize)]
    #[allow(dead_code, reason = "only read to see what serde says")]
    struct Item {
        name: String,
    }

    #[track_caller]
    fn check(arguments: &'static str, expected: &str) {
        assert_eq!(read::<Order>(&RawJson::literal(arguments)).unwrap_err(), expected);
    }

    #[test]
    fn an_error_names_the_argument() {
        check("{}", "invalid arguments: missing field `count`");
        check(r#"{"count":"two"}"#, r#"invalid argument `count`: invalid type: string "two", expected u8"#);
        check("{\n \"count\": 300\n}", "invalid argument `count`: invalid value: integer `300`, expected u8");
        check(
            r#"{"count":1,"items":[{"name":"a"},{"name":5}]}"#,
            "invalid argument `items[1].name`: invalid type: integer `5`, expected a string",
        );
        check(r#"{"count":1,"items":[{"name":"a"},{}]}"#, "invalid argument `items[1]`: missing field `name`");
    }
}

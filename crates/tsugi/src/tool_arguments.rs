//! Turns words on the command line into a tool's arguments, typed by the tool's schema.

mod assign;
mod check;
mod shape;
mod typed;
mod value;

use serde_json::Value;

use crate::failure::UsageError;

pub(crate) use shape::{ArgumentShape, ValueChoice, ValueKind, text_of};
pub(crate) use typed::value as typed_value;
pub(crate) use value::{ArgumentObject, ArgumentValue};

/// The arguments that a tool takes.
pub(crate) struct ToolArguments {
    /// The schema as the server wrote it, to check against.
    written: Value,
    plain: ArgumentShape,
}

/// A required argument that is not given.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MissingArgument {
    pub(crate) name: String,
    pub(crate) shape: ArgumentShape,
}

impl ToolArguments {
    pub(crate) fn new(schema: Value) -> Self {
        let plain = ArgumentShape::of(&schema);
        ToolArguments { written: schema, plain }
    }

    /// Reads `key=value` words.
    pub(crate) fn read(&self, words: &[String]) -> Result<ArgumentObject, UsageError> {
        assign::read(words, &self.plain)
    }

    /// The required arguments that are not given.
    pub(crate) fn missing(&self, given: &ArgumentObject) -> Vec<MissingArgument> {
        let names = self.plain.required().filter(|name| !given.contains(name));
        names
            .map(|name| MissingArgument { name: name.to_owned(), shape: self.plain.property(name).unwrap_or_default() })
            .collect()
    }

    /// Checks the arguments against the schema as written. An unusable schema accepts everything.
    pub(crate) fn check(&self, given: &ArgumentObject) -> Result<(), Vec<UsageError>> {
        check::check(&self.written, &ArgumentValue::Members(given.clone()).to_value())
    }
}

/// Reads an object from JSON text.
pub(crate) fn from_json(text: &str) -> Result<ArgumentObject, UsageError> {
    match serde_json::from_str(text) {
        Ok(Value::Object(_)) => ArgumentObject::parse(text),
        Ok(other) => {
            let hint = r#"write it as {"key": value}"#;
            Err(UsageError::new(format!("the arguments must be a JSON object, but this is {}", kind_of(&other)))
                .with_hint(hint))
        }
        Err(error) => Err(UsageError::new(format!("the arguments are not JSON: {error}"))),
    }
}

/// The kind of a value, with its article.
pub(crate) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

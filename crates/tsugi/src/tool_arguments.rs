//! From words on the command line to the arguments of a tool, typed by the tool's own schema.

mod assign;
mod check;
mod shape;
mod typed;
mod value;

use std::fmt;

use serde_json::Value;

pub(crate) use shape::{SchemaShape, ValueChoice, ValueKind, text_of};
pub(crate) use typed::value as typed_value;
pub(crate) use value::{ArgumentObject, ArgumentValue};

/// The arguments of a tool: the plain form of its schema, and how it wants to be called.
pub(crate) struct ToolArguments {
    /// The schema as the server wrote it, to check against.
    written: Value,
    plain: SchemaShape,
}

/// What is wrong with the words, in the order they were given.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ArgumentError {
    /// What is wrong, lower case, without a final stop.
    pub(crate) message: String,
    /// What to try.
    pub(crate) hint: Option<String>,
}

/// One argument that is required and not given.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MissingArgument {
    pub(crate) name: String,
    pub(crate) shape: SchemaShape,
}

impl ToolArguments {
    /// For a tool with this schema.
    pub(crate) fn new(schema: Value) -> Self {
        let plain = SchemaShape::of(&schema);
        ToolArguments { written: schema, plain }
    }

    /// Reads `key=value` words.
    pub(crate) fn read(&self, words: &[String]) -> Result<ArgumentObject, ArgumentError> {
        assign::read(words, &self.plain)
    }

    /// The arguments that are required and not among these.
    pub(crate) fn missing(&self, given: &ArgumentObject) -> Vec<MissingArgument> {
        let names = self.plain.required().filter(|name| !given.contains(name));
        names
            .map(|name| MissingArgument { name: name.to_owned(), shape: self.plain.property(name).unwrap_or_default() })
            .collect()
    }

    /// Checks the arguments against the schema as written. A schema that cannot be used checks nothing.
    pub(crate) fn check(&self, given: &ArgumentObject) -> Result<(), Vec<ArgumentError>> {
        check::check(&self.written, &ArgumentValue::Members(given.clone()).to_value())
    }
}

impl ArgumentError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        ArgumentError { message: message.into(), hint: None }
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for ArgumentError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

/// Reads an object from JSON text.
pub(crate) fn from_json(text: &str) -> Result<ArgumentObject, ArgumentError> {
    match serde_json::from_str(text) {
        Ok(Value::Object(_)) => ArgumentObject::parse(text),
        Ok(other) => {
            let hint = r#"write it as {"key": value}"#;
            Err(ArgumentError::new(format!("the arguments must be a JSON object, but this is {}", kind_of(&other)))
                .with_hint(hint))
        }
        Err(error) => Err(ArgumentError::new(format!("the arguments are not JSON: {error}"))),
    }
}

/// What a value is, for people.
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

//! `x-mcp-header`: which arguments of a tool are mirrored into HTTP headers, and how their values are written and compared.
//!
//! The rules are those of the 2026-07-28 revision, "Custom Headers from Tool Parameters".

mod find;
mod value;

pub use find::find;
pub use value::{HeaderValueError, decode, encode_text};

use crate::error::SchemaError;
use crate::pointer::JsonPointer;
use serde_json::Value;

/// What all these headers begin with.
pub const PREFIX: &str = "Mcp-Param-";

/// The types a mirrored argument may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderParamKind {
    /// `"type": "string"`.
    String,
    /// `"type": "integer"`.
    Integer,
    /// `"type": "boolean"`.
    Boolean,
}

/// One argument that is mirrored into a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderParam {
    /// The part of the header's name after `Mcp-Param-`, as the server wrote it.
    pub name: String,
    /// Property names from the arguments' root to the value.
    pub path: Vec<String>,
    /// The type that the schema gives the value.
    pub kind: HeaderParamKind,
    /// Where in the schema the annotation stands.
    pub pointer: JsonPointer,
}

/// The mirrored arguments of one tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeaderParams(Vec<HeaderParam>);

impl HeaderParam {
    /// The whole name of the header.
    pub fn header_name(&self) -> String {
        format!("{PREFIX}{}", self.name)
    }

    /// The argument's value, or nothing when it is absent or `null`: then no header is sent.
    pub fn value<'a>(&self, arguments: &'a Value) -> Option<&'a Value> {
        let mut value = arguments;
        for step in &self.path {
            value = value.as_object()?.get(step)?;
        }
        (!value.is_null()).then_some(value)
    }

    /// The header's value for these arguments, or nothing when no header is to be sent.
    pub fn encode(&self, arguments: &Value) -> Result<Option<String>, HeaderValueError> {
        self.value(arguments).map(value::encode).transpose()
    }

    /// Checks a received header, or its absence, against the arguments in the body.
    pub fn compare(&self, received: Option<&[u8]>, arguments: &Value) -> Result<(), HeaderValueError> {
        value::compare(received, self.value(arguments))
    }
}

impl HeaderParams {
    /// Reads the annotations of a tool's input schema, or says why the tool is invalid.
    pub fn of(input_schema: &Value) -> Result<Self, SchemaError> {
        find(input_schema).map(Self)
    }

    /// The mirrored arguments in the order of the schema.
    pub fn iter(&self) -> impl Iterator<Item = &HeaderParam> {
        self.0.iter()
    }

    /// Whether the tool mirrors nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many arguments are mirrored.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Names and values of all headers to send with these arguments.
    pub fn headers(&self, arguments: &Value) -> Result<Vec<(String, String)>, HeaderValueError> {
        let mut headers = Vec::with_capacity(self.0.len());
        for param in &self.0 {
            if let Some(value) = param.encode(arguments)? {
                headers.push((param.header_name(), value));
            }
        }
        Ok(headers)
    }
}

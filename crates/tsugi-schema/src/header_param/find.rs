//! Finds the `x-mcp-header` annotations of a schema and refuses those the specification forbids.

use serde_json::{Map, Value};
use std::collections::HashSet;

use super::{HeaderParam, HeaderParamKind};
use crate::keyword::inner_schemas;
use crate::pointer::JsonPointer;

const KEYWORD: &str = "x-mcp-header";
/// Deeper schemas are refused elsewhere too; this keeps the walk off the end of the stack.
const MAX_DEPTH: usize = 128;

/// Why a tool with these annotations is invalid and must be left out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HeaderParamError {
    /// The annotation is not text.
    #[error("{pointer}: x-mcp-header is not a string")]
    NotText { pointer: JsonPointer },
    /// The annotation is the empty string.
    #[error("{pointer}: x-mcp-header is empty")]
    Empty { pointer: JsonPointer },
    /// The annotation is not an HTTP field-name token.
    #[error("{pointer}: x-mcp-header {name:?} is not an HTTP header token")]
    NotToken { pointer: JsonPointer, name: String },
    /// Two annotations give the same name, ignoring case.
    #[error("{pointer}: x-mcp-header {name:?} is used twice (upper and lower case are the same)")]
    Duplicate {
        /// Where the second one stands.
        pointer: JsonPointer,
        name: String,
    },
    /// The parameter is neither a string, an integer nor a boolean.
    #[error("{pointer}: x-mcp-header needs a parameter of type string, integer or boolean")]
    NotPrimitive { pointer: JsonPointer },
    /// The annotation is not on a chain of `properties` from the root.
    #[error("{pointer}: x-mcp-header is only allowed on properties reached through properties alone")]
    NotReachable { pointer: JsonPointer },
    /// The schema is nested too deeply to look through.
    #[error("{pointer}: schema is nested too deeply")]
    TooDeep {
        /// Where the search stopped.
        pointer: JsonPointer,
    },
}

/// Lists the mirrored parameters of an input schema, or says why the tool is invalid.
pub fn find(input_schema: &Value) -> Result<Vec<HeaderParam>, HeaderParamError> {
    let mut search = AnnotationSearch::default();
    // The path is `Some` while only `properties` led here.
    search.visit(input_schema, &JsonPointer::root(), Some(Vec::new()), 0)?;
    Ok(search.found)
}

#[derive(Default)]
struct AnnotationSearch {
    found: Vec<HeaderParam>,
    names: HashSet<String>,
}

impl AnnotationSearch {
    /// `path` is the chain of properties that led here; nothing once another keyword was passed.
    fn visit(
        &mut self,
        schema: &Value,
        pointer: &JsonPointer,
        path: Option<Vec<String>>,
        depth: usize,
    ) -> Result<(), HeaderParamError> {
        let Some(schema) = schema.as_object() else {
            return Ok(());
        };
        if depth > MAX_DEPTH {
            return Err(HeaderParamError::TooDeep { pointer: pointer.clone() });
        }
        if let Some(annotation) = schema.get(KEYWORD) {
            self.accept(annotation, schema, pointer, path.as_deref())?;
        }
        for inner in inner_schemas(schema, pointer) {
            // Below any other keyword the value has no fixed place in the arguments.
            let path = (inner.keyword == "properties").then(|| extended(path.as_deref(), &inner.pointer)).flatten();
            self.visit(inner.schema, &inner.pointer, path, depth + 1)?;
        }
        Ok(())
    }

    fn accept(
        &mut self,
        annotation: &Value,
        schema: &Map<String, Value>,
        pointer: &JsonPointer,
        path: Option<&[String]>,
    ) -> Result<(), HeaderParamError> {
        let pointer = pointer.clone();
        let name = checked_name(annotation, &pointer)?;
        let path = match path {
            // An empty path is the arguments object itself.
            Some(path) if !path.is_empty() => path.to_vec(),
            _ => return Err(HeaderParamError::NotReachable { pointer }),
        };
        let Some(kind) = kind(schema) else {
            return Err(HeaderParamError::NotPrimitive { pointer });
        };
        // HTTP header names ignore case.
        if !self.names.insert(name.to_ascii_lowercase()) {
            return Err(HeaderParamError::Duplicate { pointer, name });
        }
        self.found.push(HeaderParam { name, path, kind, pointer });
        Ok(())
    }
}

fn extended(path: Option<&[String]>, pointer: &JsonPointer) -> Option<Vec<String>> {
    let mut path = path?.to_vec();
    path.push(pointer.steps().last()?);
    Some(path)
}

fn checked_name(annotation: &Value, pointer: &JsonPointer) -> Result<String, HeaderParamError> {
    let pointer = pointer.clone();
    let Some(name) = annotation.as_str() else {
        return Err(HeaderParamError::NotText { pointer });
    };
    let name = name.to_owned();
    if name.is_empty() {
        return Err(HeaderParamError::Empty { pointer });
    }
    if !name.bytes().all(is_token_byte) {
        return Err(HeaderParamError::NotToken { pointer, name });
    }
    Ok(name)
}

/// `tchar` of RFC 9110, section 5.6.2.
fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// An optional parameter may be written `["string", "null"]`: `null` sends no header, so the type is still one.
fn kind(schema: &Map<String, Value>) -> Option<HeaderParamKind> {
    match schema.get("type")? {
        Value::String(name) => named_kind(name),
        Value::Array(names) => {
            // `["string", "null"]` is still one type.
            let mut others = names.iter().filter(|name| *name != "null");
            let kind = named_kind(others.next()?.as_str()?)?;
            others.next().is_none().then_some(kind)
        }
        _ => None,
    }
}

fn named_kind(name: &str) -> Option<HeaderParamKind> {
    match name {
        "string" => Some(HeaderParamKind::String),
        "integer" => Some(HeaderParamKind::Integer),
        "boolean" => Some(HeaderParamKind::Boolean),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn reason(schema: Value) -> HeaderParamError {
        find(&schema).expect_err("the tool should be invalid")
    }

    fn one(annotation: Value) -> Value {
        json!({"type": "object", "properties": {"p": {"type": "string", "x-mcp-header": annotation}}})
    }

    #[test]
    fn annotations_on_nested_properties_are_found_with_their_path() {
        let found = find(&json!({
            "type": "object",
            "properties": {
                "region": {"type": "string", "x-mcp-header": "Region"},
                "where": {"type": "object", "properties": {
                    "row": {"type": "integer", "x-mcp-header": "Row"}
                }}
            }
        }))
        .unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(found[1].path, ["where", "row"]);
        assert_eq!(found[1].kind, HeaderParamKind::Integer);
        assert_eq!(found[1].header_name(), "Mcp-Param-Row");
    }

    #[test]
    fn names_must_be_tokens() {
        for bad in ["a b", "a:b", "é", "a\r\nb", "(x)"] {
            assert!(matches!(reason(one(json!(bad))), HeaderParamError::NotToken { .. }));
        }
        assert!(matches!(reason(one(json!(""))), HeaderParamError::Empty { .. }));
        assert!(matches!(reason(one(json!(7))), HeaderParamError::NotText { .. }));
    }

    #[test]
    fn names_are_unique_ignoring_case() {
        let schema = json!({"properties": {
            "a": {"type": "string", "x-mcp-header": "Key"},
            "b": {"type": "object", "properties": {"c": {"type": "string", "x-mcp-header": "KEY"}}}
        }});
        assert!(matches!(reason(schema), HeaderParamError::Duplicate { .. }));
    }

    #[test]
    fn only_strings_integers_and_booleans_are_mirrored() {
        for bad in [json!("number"), json!("object"), json!("array"), json!("null"), json!(["string", "integer"])] {
            let schema = json!({"properties": {"p": {"type": bad, "x-mcp-header": "P"}}});
            assert!(matches!(reason(schema), HeaderParamError::NotPrimitive { .. }));
        }
        let untyped = json!({"properties": {"p": {"x-mcp-header": "P"}}});
        assert!(matches!(reason(untyped), HeaderParamError::NotPrimitive { .. }));
        let optional = json!({"properties": {"p": {"type": ["integer", "null"], "x-mcp-header": "P"}}});
        assert_eq!(find(&optional).unwrap()[0].kind, HeaderParamKind::Integer);
    }

    #[test]
    fn any_other_place_makes_the_tool_invalid() {
        let leaf = json!({"type": "string", "x-mcp-header": "P"});
        for schema in [
            leaf.clone(),
            json!({"items": leaf}),
            json!({"properties": {"a": {"items": {"properties": {"b": leaf}}}}}),
            json!({"anyOf": [{"properties": {"b": leaf}}]}),
            json!({"if": {"properties": {"b": leaf}}}),
            json!({"$defs": {"d": leaf}}),
            json!({"additionalProperties": leaf}),
            json!({"patternProperties": {"^a": leaf}}),
        ] {
            assert!(matches!(reason(schema), HeaderParamError::NotReachable { .. }));
        }
    }

    #[test]
    fn a_property_that_is_called_like_the_annotation_is_not_one() {
        let schema = json!({"properties": {"x-mcp-header": {"type": "string"}}, "required": ["x-mcp-header"]});
        assert_eq!(find(&schema), Ok(Vec::new()));
    }
}

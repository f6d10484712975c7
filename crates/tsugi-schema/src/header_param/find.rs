//! Finds the `x-mcp-header` annotations of a schema and refuses those the specification forbids.

use serde_json::{Map, Value};
use std::collections::HashSet;

use super::{HeaderParam, HeaderParamKind};
use crate::error::{AnnotationReason, SchemaError};
use crate::keyword::inner_schemas;
use crate::pointer::JsonPointer;

const KEYWORD: &str = "x-mcp-header";
/// Deeper schemas are refused elsewhere too; this keeps the walk off the end of the stack.
const MAX_DEPTH: usize = 128;

/// Lists the mirrored parameters of an input schema, or says why the tool is invalid.
pub fn find(input_schema: &Value) -> Result<Vec<HeaderParam>, SchemaError> {
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
    ) -> Result<(), SchemaError> {
        let Some(schema) = schema.as_object() else {
            return Ok(());
        };
        if depth > MAX_DEPTH {
            return Err(SchemaError::TooCostly { what: "its nesting", limit: MAX_DEPTH });
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
    ) -> Result<(), SchemaError> {
        let pointer = pointer.clone();
        let name = checked_name(annotation, &pointer)?;
        let path = match path {
            // An empty path is the arguments object itself.
            Some(path) if !path.is_empty() => path.to_vec(),
            _ => return Err(forbidden(pointer, AnnotationReason::NotReachable)),
        };
        let Some(kind) = kind(schema) else {
            return Err(forbidden(pointer, AnnotationReason::NotPrimitive));
        };
        // HTTP header names ignore case.
        if !self.names.insert(name.to_ascii_lowercase()) {
            return Err(forbidden(pointer, AnnotationReason::Duplicate(name)));
        }
        self.found.push(HeaderParam { name, path, kind, pointer });
        Ok(())
    }
}

fn forbidden(pointer: JsonPointer, reason: AnnotationReason) -> SchemaError {
    SchemaError::Annotation { pointer, reason }
}

fn extended(path: Option<&[String]>, pointer: &JsonPointer) -> Option<Vec<String>> {
    let mut path = path?.to_vec();
    path.push(pointer.steps().last()?);
    Some(path)
}

fn checked_name(annotation: &Value, pointer: &JsonPointer) -> Result<String, SchemaError> {
    let pointer = pointer.clone();
    let Some(name) = annotation.as_str() else {
        return Err(forbidden(pointer, AnnotationReason::NotText));
    };
    let name = name.to_owned();
    if name.is_empty() {
        return Err(forbidden(pointer, AnnotationReason::Empty));
    }
    if !name.bytes().all(is_token_byte) {
        return Err(forbidden(pointer, AnnotationReason::NotToken(name)));
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

    #[track_caller]
    fn reason(schema: Value) -> AnnotationReason {
        match find(&schema) {
            Err(SchemaError::Annotation { reason, .. }) => reason,
            other => panic!("the annotation should be refused, not {other:?}"),
        }
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
            assert!(matches!(reason(one(json!(bad))), AnnotationReason::NotToken(_)));
        }
        assert_eq!(reason(one(json!(""))), AnnotationReason::Empty);
        assert_eq!(reason(one(json!(7))), AnnotationReason::NotText);
    }

    #[test]
    fn names_are_unique_ignoring_case() {
        let schema = json!({"properties": {
            "a": {"type": "string", "x-mcp-header": "Key"},
            "b": {"type": "object", "properties": {"c": {"type": "string", "x-mcp-header": "KEY"}}}
        }});
        assert!(matches!(reason(schema), AnnotationReason::Duplicate(_)));
    }

    #[test]
    fn only_strings_integers_and_booleans_are_mirrored() {
        for bad in [json!("number"), json!("object"), json!("array"), json!("null"), json!(["string", "integer"])] {
            let schema = json!({"properties": {"p": {"type": bad, "x-mcp-header": "P"}}});
            assert_eq!(reason(schema), AnnotationReason::NotPrimitive);
        }
        let untyped = json!({"properties": {"p": {"x-mcp-header": "P"}}});
        assert_eq!(reason(untyped), AnnotationReason::NotPrimitive);
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
            assert_eq!(reason(schema), AnnotationReason::NotReachable);
        }
    }

    #[test]
    fn a_property_that_is_called_like_the_annotation_is_not_one() {
        let schema = json!({"properties": {"x-mcp-header": {"type": "string"}}, "required": ["x-mcp-header"]});
        assert_eq!(find(&schema), Ok(Vec::new()));
    }
}

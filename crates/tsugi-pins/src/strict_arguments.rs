//! Which arguments a pinned schema names: others are refused although the schema would let them pass.

use std::collections::BTreeSet;

use serde_json::Value;

/// How far references and combinations are followed.
const DEEPEST: usize = 16;

/// The arguments that a tool takes by its pinned schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamedArguments {
    /// These and no others.
    Only(BTreeSet<String>),
    /// The schema describes arguments whose names it does not know, such as a map of texts.
    Open,
}

impl NamedArguments {
    /// Those of an input schema.
    pub fn of(schema: &Value) -> Self {
        let mut names = BTreeSet::new();
        match collect(schema, schema, &mut names, DEEPEST) {
            true => NamedArguments::Open,
            false => NamedArguments::Only(names),
        }
    }

    /// Whether an argument of this name is taken.
    pub fn takes(&self, name: &str) -> bool {
        match self {
            NamedArguments::Only(names) => names.contains(name),
            NamedArguments::Open => true,
        }
    }
}

/// Collects the names of a schema and of what it is combined from; true when it describes names that it does not know.
fn collect(root: &Value, schema: &Value, names: &mut BTreeSet<String>, depth: usize) -> bool {
    let Some(members) = schema.as_object().filter(|_| depth > 0) else { return false };
    if let Some(Value::Object(properties)) = members.get("properties") {
        names.extend(properties.keys().cloned());
    }
    // `true` and `{}` let anything pass without a word about it: that is what is refused here.
    let describes = |key: &str| members.get(key).and_then(Value::as_object).is_some_and(|schema| !schema.is_empty());
    let mut is_open = describes("additionalProperties") || describes("patternProperties");
    if let Some(target) = members.get("$ref").and_then(Value::as_str).and_then(|pointer| pointer.strip_prefix('#')) {
        is_open |= root.pointer(target).is_some_and(|target| collect(root, target, names, depth - 1));
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        for part in members.get(key).and_then(Value::as_array).into_iter().flatten() {
            is_open |= collect(root, part, names, depth - 1);
        }
    }
    for key in ["if", "then", "else"] {
        if let Some(part) = members.get(key) {
            is_open |= collect(root, part, names, depth - 1);
        }
    }
    is_open
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_named_arguments_pass_unless_the_schema_describes_others() {
        for (schema, name, takes) in [
            (json!({"properties": {"a": {}}}), "a", true),
            (json!({"properties": {"a": {}}}), "b", false),
            (json!({"properties": {"a": {}}, "additionalProperties": true}), "b", false),
            (json!({"properties": {"a": {}}, "additionalProperties": {}}), "b", false),
            (json!({"type": "object"}), "b", false),
            (json!({"additionalProperties": {"type": "string"}}), "b", true),
            (json!({"patternProperties": {"^x-": {}}}), "x-b", true),
            (json!({"$ref": "#/$defs/t", "$defs": {"t": {"properties": {"a": {}}}}}), "a", true),
            (json!({"anyOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]}), "b", true),
            (json!({"$ref": "#"}), "b", false),
        ] {
            assert_eq!(NamedArguments::of(&schema).takes(name), takes, "{schema} {name}");
        }
    }
}

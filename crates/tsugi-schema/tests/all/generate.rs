//! Strategies: any JSON, schemas right and wrong, and schemas together with a value that fits.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Any JSON value, small.
pub(crate) fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        (-1e6..1e6f64).prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((".{0,6}", inner), 0..4)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

const KEYWORDS: &[&str] = &[
    "type",
    "enum",
    "const",
    "properties",
    "required",
    "additionalProperties",
    "patternProperties",
    "propertyNames",
    "items",
    "prefixItems",
    "additionalItems",
    "contains",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "anyOf",
    "oneOf",
    "allOf",
    "not",
    "if",
    "then",
    "else",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
    "$ref",
    "$defs",
    "definitions",
    "$anchor",
    "$id",
    "$schema",
    "$dynamicRef",
    "description",
    "title",
    "default",
    "examples",
    "nullable",
    "x-order",
    "x-mcp-header",
    "unevaluatedProperties",
    "deprecated",
];

const REFERENCES: &[&str] = &[
    "#",
    "#/$defs/a",
    "#/$defs/b",
    "#/definitions/a",
    "#a",
    "#/properties/a",
    "#/allOf/0",
    "http://sink/x",
    "#/none",
    "",
];

/// Something that looks like a schema: familiar keywords, values of the right kind or of any.
pub(crate) fn any_schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(true)),
        Just(json!(false)),
        Just(json!({})),
        prop::sample::select(vec!["string", "integer", "number", "object", "array", "null", "boolean"])
            .prop_map(|name| json!({"type": name})),
        prop::sample::select(REFERENCES.to_vec()).prop_map(|reference| json!({"$ref": reference})),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        let entry = (prop::sample::select(KEYWORDS.to_vec()), keyword_value(inner));
        prop::collection::vec(entry, 0..6).prop_map(|entries| {
            let entries = entries.into_iter().map(|(keyword, value)| (keyword.to_owned(), value));
            Value::Object(entries.collect())
        })
    })
}

fn keyword_value(schema: impl Strategy<Value = Value> + Clone + 'static) -> impl Strategy<Value = Value> {
    let names = prop::sample::select(vec!["a", "b", "a b", "x-y", "é"]);
    prop_oneof![
        3 => schema.clone(),
        3 => prop::collection::vec(schema.clone(), 0..3).prop_map(Value::from),
        3 => prop::collection::vec((names.clone(), schema), 0..4).prop_map(|entries| {
            Value::Object(entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
        }),
        1 => prop::collection::vec(names, 0..3).prop_map(|names| json!(names)),
        1 => prop::sample::select(REFERENCES.to_vec()).prop_map(Value::from),
        1 => prop::sample::select(vec!["string", "object", "^a+$", "(?=a)b", "("]).prop_map(Value::from),
        1 => (0..9i32).prop_map(Value::from),
        2 => any_json(),
    ]
}

/// A schema and a value that fits it.
pub(crate) type Pair = (Value, Value);

/// Pairs for one parameter.
pub(crate) fn pair() -> impl Strategy<Value = Pair> {
    let leaf = prop_oneof![
        ".{0,8}".prop_map(|text| (json!({"type": "string", "maxLength": 99}), json!(text))),
        any::<i32>().prop_map(|number| (json!({"type": "integer"}), json!(number))),
        (-1e6..1e6f64).prop_map(|number| (json!({"type": "number"}), json!(number))),
        any::<bool>().prop_map(|flag| (json!({"type": "boolean"}), json!(flag))),
        prop::sample::select(vec![json!("a"), json!(2), json!(true)])
            .prop_map(|choice| (json!({"enum": ["a", 2, true]}), choice)),
        any_json().prop_map(|value| (json!({}), value)),
        any_json().prop_map(|value| (json!({"description": "anything"}), value)),
        Just((json!({"type": ["string", "null"]}), Value::Null)),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            2 => object(inner.clone()),
            1 => inner.clone().prop_map(|(schema, value)| {
                (json!({"type": "array", "items": schema}), json!([value, value]))
            }),
            1 => (inner.clone(), inner.clone()).prop_map(|((first, one), (second, other))| {
                (json!({"type": "array", "prefixItems": [first, second], "items": false}), json!([one, other]))
            }),
            1 => (inner.clone(), object(inner.clone())).prop_map(|((schema, value), (other, _))| {
                (json!({"anyOf": [schema, other]}), value)
            }),
            1 => inner.prop_map(|(schema, value)| {
                (json!({"type": "object", "additionalProperties": schema}), json!({"k": value}))
            }),
        ]
    })
}

/// Pairs for the arguments of a tool.
pub(crate) fn object(inner: impl Strategy<Value = Pair> + 'static) -> impl Strategy<Value = Pair> {
    let name = prop_oneof!["[a-z]{1,4}", ".{0,6}", Just("file path".to_owned()), "[a-z.]{60,70}"];
    let field = (name, inner, any::<bool>(), any::<bool>());
    (prop::collection::vec(field, 0..5), any::<bool>()).prop_map(|(fields, is_closed)| {
        let (mut properties, mut required, mut value) = (Map::new(), Vec::new(), Map::new());
        for (name, (schema, member), is_required, is_present) in fields {
            if properties.contains_key(&name) {
                continue;
            }
            properties.insert(name.clone(), schema);
            if is_required {
                required.push(name.clone());
            }
            if is_required || is_present {
                value.insert(name, member);
            }
        }
        let mut schema = json!({"type": "object", "properties": properties, "required": required});
        if is_closed {
            schema["additionalProperties"] = json!(false);
        }
        (schema, Value::Object(value))
    })
}

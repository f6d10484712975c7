//! A model's arguments turned back into the tool's, where the schema is nested or recursive.

use serde_json::{Value, json};
use tsugi_schema::dialect::{SchemaDialect, convert_tool};
use tsugi_schema::validate::{ValidationLimits, Validator};

/// Checks that what a model writes is restored to `expected`, and that the tool takes it.
#[track_caller]
fn check(dialect: SchemaDialect, schema: &Value, written: Value, expected: Value) {
    let converted = convert_tool("tool", "", schema, dialect);
    let restored = converted.plan.restore(written);
    assert_eq!(restored, expected, "{}", converted.declaration);
    let validator = Validator::compile(schema, ValidationLimits::default()).expect("the schema compiles");
    assert!(validator.validate(&restored).is_ok(), "{restored}");
}

#[test]
fn names_inside_nested_unions_are_mapped_back() {
    let named = |name: &str| json!({"type": "object", "properties": {name: {"type": "string"}}, "required": [name]});
    let schema = json!({"type": "object", "properties": {"target": {"anyOf": [
        {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]},
        {"oneOf": [named("file name"), named("page title")]},
        {"type": "string"}
    ]}}});
    for (shown, own) in [("file_name", "file name"), ("page_title", "page title")] {
        let (written, expected) = (json!({"target": {shown: "x"}}), json!({"target": {own: "x"}}));
        check(SchemaDialect::Anthropic, &schema, written.clone(), expected.clone());
        check(SchemaDialect::Gemini, &schema, written, expected);
    }
    check(SchemaDialect::Anthropic, &schema, json!({"target": {"id": 1}}), json!({"target": {"id": 1}}));
    check(SchemaDialect::Anthropic, &schema, json!({"target": "file_name"}), json!({"target": "file_name"}));
}

#[test]
fn names_of_a_union_beside_properties_are_mapped_back() {
    let schema = json!({"type": "object", "properties": {"filter": {
        "type": "object",
        "properties": {"sort by": {"type": "string"}},
        "anyOf": [
            {"properties": {"from date": {"type": "string"}}, "required": ["from date"]},
            {"properties": {"last days": {"type": "integer"}}, "required": ["last days", "sort by"]}
        ]
    }}});
    let written = json!({"filter": {"sort_by": "age", "last_days": 3}});
    check(SchemaDialect::Anthropic, &schema, written, json!({"filter": {"sort by": "age", "last days": 3}}));
    let shown = convert_tool("tool", "", &schema, SchemaDialect::Anthropic).declaration;
    let branches = &shown["input_schema"]["properties"]["filter"]["anyOf"];
    assert_eq!(branches[1]["required"], json!(["last_days", "sort_by"]), "one object has one set of names");
}

#[test]
fn the_tag_of_a_union_decides_which_names_are_meant() {
    let tagged = |tag: &str, inner: &str| {
        let at = json!({"type": "object", "properties": {inner: {"type": "integer"}}});
        json!({"type": "object", "properties": {"kind": {"const": tag}, "at": at}, "required": ["kind"]})
    };
    let schema = json!({"type": "object", "properties": {
        "shape": {"oneOf": [tagged("point", "x y"), tagged("row", "x_y"), tagged("line", "x-y z")]}
    }});
    let check = |kind: &str, written: &str, own: &str| {
        let arguments = |name: &str| json!({"shape": {"kind": kind, "at": {name: 1}}});
        check(SchemaDialect::Anthropic, &schema, arguments(written), arguments(own));
    };
    check("point", "x_y", "x y");
    check("row", "x_y", "x_y");
    check("line", "x_y_z", "x-y z");
}

#[test]
fn a_required_recursive_property_that_a_model_leaves_out_is_filled_in() {
    let schema = json!({
        "type": "object",
        "properties": {"tree": {"$ref": "#/$defs/Node"}},
        "required": ["tree"],
        "$defs": {"Node": {
            "type": "object",
            "properties": {
                "label": {"type": "string"},
                "next": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]},
                "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
                "by name": {"type": "object", "additionalProperties": {"$ref": "#/$defs/Node"}}
            },
            "required": ["label", "next", "children", "by name"]
        }}
    });
    let leaf = |label: &str| json!({"label": label, "next": null, "children": [], "by name": {}});
    check(SchemaDialect::Gemini, &schema, json!({"tree": {"label": "a"}}), json!({"tree": leaf("a")}));
    // What the model leaves out may also be written as `null`.
    check(
        SchemaDialect::Gemini,
        &schema,
        json!({"tree": {"label": "a", "children": null}}),
        json!({"tree": leaf("a")}),
    );
    let nested = json!({"label": "a", "next": {"label": "b"}, "children": [{"label": "c"}]});
    let mut expected = leaf("a");
    expected["next"] = leaf("b");
    expected["children"] = json!([leaf("c")]);
    check(SchemaDialect::Gemini, &schema, json!({"tree": nested}), json!({"tree": expected}));
}

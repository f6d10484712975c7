//! Values that fit, values that do not, and the messages about them.

use serde_json::{Value, json};
use tsugi_schema::error::SchemaError;
use tsugi_schema::validate::{ValidationLimits, Validator};

fn compile(schema: Value) -> Validator {
    Validator::compile(&schema, ValidationLimits::default()).expect("the schema compiles")
}

fn faults(schema: Value, value: Value) -> String {
    let faults = compile(schema).validate(&value);
    faults.expect_err("the value does not fit").to_string()
}

#[test]
fn faults_read_well() {
    let schema = json!({
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer", "minimum": 1, "maximum": 14},
            "unit": {"enum": ["C", "F"]},
            "code": {"type": "string", "pattern": "^[A-Z]{3}$"},
            "tags": {"type": "array", "items": {"type": "string", "maxLength": 3}, "uniqueItems": true},
            "flag": {"type": ["boolean", "null"]},
            "kind": {"const": "x"}
        },
        "required": ["city"],
        "additionalProperties": false
    });
    for (value, text) in [
        (json!({"city": 5}), "/city: expected a string, got 5"),
        (json!({}), "\"city\" is missing"),
        (json!({"city": "", "days": 0}), "/days: expected at least 1, got 0"),
        (json!({"city": "", "unit": "K"}), "/unit: expected one of \"C\", \"F\", got \"K\""),
        (json!({"city": "", "code": "ab"}), "/code: \"ab\" does not match the pattern ^[A-Z]{3}$"),
        (json!({"city": "", "tags": ["a", "long"]}), "/tags/1: expected at most 3 characters, got \"long\""),
        (json!({"city": "", "tags": ["a", "a"]}), "/tags: has an item twice"),
        (json!({"city": "", "flag": {}}), "/flag: expected null or true or false, got an object with 0 properties"),
        (json!({"city": "", "kind": 1}), "/kind: expected \"x\", got 1"),
        (json!({"city": "", "extra": 1}), "has unknown property \"extra\""),
        (json!([1]), "expected an object, got an array of 1 items"),
    ] {
        assert_eq!(faults(schema.clone(), value), text);
    }
}

#[test]
fn a_union_names_the_branch_that_came_nearest() {
    let schema = json!({"anyOf": [
        {"type": "string"},
        {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    ]});
    assert_eq!(
        faults(schema, json!({"a": "x"})),
        "matches none of the allowed forms; nearest: /a: expected an integer, got \"x\""
    );
}

#[test]
fn a_fault_has_both_pointers() {
    let validator = compile(json!({"properties": {"a/b": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "integer"}}}));
    let faults = validator.validate(&json!({"a/b": "x"})).unwrap_err();
    assert_eq!(faults.list[0].instance.as_str(), "/a~1b");
    assert_eq!(faults.list[0].schema.as_str(), "/$defs/n/type");
}

#[test]
fn faults_are_limited_in_number_and_length() {
    let validator = compile(json!({"items": {"type": "integer"}}));
    let values: Vec<Value> = (0..1000).map(|_| json!("x".repeat(10_000))).collect();
    let faults = validator.validate(&Value::Array(values)).unwrap_err();
    assert_eq!(faults.list.len(), 10);
    assert!(faults.has_more && !faults.is_undecided);
    assert!(faults.to_string().len() < 2_000, "{}", faults.to_string().len());
}

#[test]
fn formats_are_not_asserted() {
    let validator = compile(json!({"type": "string", "format": "email"}));
    assert!(validator.validate(&json!("not an address")).is_ok());
}

#[test]
fn each_draft_is_recognised() {
    let old = |draft: &str| json!({"$schema": draft, "type": "array", "items": [{"type": "integer"}], "additionalItems": false});
    for draft in [
        "http://json-schema.org/draft-04/schema#",
        "http://json-schema.org/draft-06/schema#",
        "http://json-schema.org/draft-07/schema#",
        "https://json-schema.org/draft/2019-09/schema",
    ] {
        let validator = compile(old(draft));
        assert!(validator.validate(&json!([1])).is_ok(), "{draft}");
        assert!(validator.validate(&json!([1, 2])).is_err(), "{draft}");
    }
    let four =
        compile(json!({"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 1, "exclusiveMinimum": true}));
    assert!(four.validate(&json!(1)).is_err());
    let new = compile(json!({"type": "array", "prefixItems": [{"type": "integer"}], "items": false}));
    assert!(new.validate(&json!([1, 2])).is_err());
}

#[test]
fn old_keywords_without_a_draft_are_read_as_old() {
    let bounds = compile(json!({"minimum": 1, "exclusiveMinimum": true}));
    assert!(bounds.validate(&json!(1)).is_err());
    let tuple = compile(json!({"items": [{"type": "integer"}], "additionalItems": false}));
    assert!(tuple.validate(&json!([1, 2])).is_err());
}

#[test]
fn an_unknown_dialect_is_ignored() {
    for dialect in [json!("https://example.com/my-schema"), json!(7)] {
        let validator = compile(json!({"$schema": dialect, "type": "string"}));
        assert!(validator.validate(&json!(1)).is_err());
    }
}

#[test]
fn recursive_schemas_work() {
    let validator = compile(json!({
        "$ref": "#/$defs/node",
        "$defs": {"node": {"type": "object", "properties": {
            "value": {"type": "integer"},
            "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}
        }, "required": ["value"]}}
    }));
    assert!(validator.validate(&json!({"value": 1, "children": [{"value": 2}]})).is_ok());
    let faults = validator.validate(&json!({"value": 1, "children": [{"value": "x"}]})).unwrap_err();
    assert_eq!(faults.to_string(), "/children/0/value: expected an integer, got \"x\"");
}

#[test]
fn patterns_with_look_around_still_work() {
    let validator = compile(json!({
        "properties": {"p": {"pattern": "^(?!admin)[a-z]+$"}},
        "patternProperties": {"^(?!x)y": {"type": "integer"}}
    }));
    assert!(validator.validate(&json!({"p": "user", "y1": 1})).is_ok());
    assert!(validator.validate(&json!({"p": "administrator"})).is_err());
    assert!(validator.validate(&json!({"y1": "no"})).is_err());
}

#[test]
fn a_schema_may_still_be_text() {
    let schema = r#"{"type":"object","required":["a"]}"#;
    let validator = Validator::compile_text(schema, ValidationLimits::default()).unwrap();
    assert!(validator.validate(&json!({"a": 1})).is_ok());
    assert!(validator.validate(&json!({})).is_err());
    assert!(matches!(Validator::compile_text("{", ValidationLimits::default()), Err(SchemaError::NotJson(_))));
}

#[test]
fn boolean_schemas_work() {
    assert!(compile(json!(true)).validate(&json!(1)).is_ok());
    assert_eq!(faults(json!(false), json!(1)), "is not allowed here");
}

#[test]
fn a_validator_is_shared_between_threads() {
    let validator = compile(json!({"type": "integer"}));
    let threads: Vec<_> = (0..4)
        .map(|number| {
            let validator = validator.clone();
            std::thread::spawn(move || validator.validate(&json!(number)).is_ok())
        })
        .collect();
    assert!(threads.into_iter().all(|thread| thread.join().unwrap()));
}

//! Schemas and values made to hurt: each must cost one tool, not the server.

use std::net::TcpStream;
use std::time::Duration;

use jsonschema::{PatternOptions, Retrieve, Uri};
use serde_json::{Map, Value, json};
use tsugi_schema::error::SchemaError;
use tsugi_schema::validate::{ValidationLimits, Validator};

fn refused(schema: &Value) -> SchemaError {
    Validator::compile(schema, ValidationLimits::default()).expect_err("the schema should be refused")
}

fn compile(schema: &Value) -> Validator {
    Validator::compile(schema, ValidationLimits::default()).expect("the schema compiles")
}

/// A validator without any care: it fetches what a schema points at, and tries every way in which a pattern can be read.
fn careless(schema: &Value) -> jsonschema::Validator {
    struct Fetches;
    impl Retrieve for Fetches {
        fn retrieve(&self, uri: &Uri<String>) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
            TcpStream::connect(uri.authority().ok_or("no host")?.as_str())?;
            Ok(json!(true))
        }
    }
    let options = jsonschema::options().with_retriever(Fetches);
    let options = options.with_pattern_options(PatternOptions::fancy_regex().backtrack_limit(usize::MAX));
    options.build(schema).expect("it takes every schema")
}

/// `levels` definitions, each made from the next by `step`; the last is `leaf`.
fn ladder(levels: usize, leaf: Value, step: impl Fn(Value) -> Value) -> Value {
    let mut definitions = Map::new();
    for level in 0..levels {
        let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
        definitions.insert(format!("d{level}"), step(next));
    }
    definitions.insert(format!("d{levels}"), leaf);
    json!({"$ref": "#/$defs/d0", "$defs": definitions})
}

/// `{"x": {"x": … }}`.
fn nested(levels: usize) -> Value {
    (0..levels).fold(json!({}), |inner, _| json!({"x": inner}))
}

#[test]
fn composition_that_doubles_thirty_times_is_refused() {
    for keyword in ["anyOf", "oneOf", "allOf"] {
        for leaf in [json!({"type": "string"}), json!(false), json!({})] {
            let schema = ladder(30, leaf, |next| json!({keyword: [next, next]}));
            assert!(matches!(refused(&schema), SchemaError::TooCostly { .. }));
        }
    }
    let nested = ladder(30, json!(false), |next| json!({"not": next, "if": next, "then": next}));
    assert!(matches!(refused(&nested), SchemaError::TooCostly { .. }));
    let dependent = ladder(30, json!(false), |next| json!({"dependentSchemas": {"a": next, "b": next}}));
    assert!(matches!(refused(&dependent), SchemaError::TooCostly { .. }));
}

#[test]
fn references_that_never_end_are_refused() {
    for schema in [
        json!({"$ref": "#"}),
        json!({"allOf": [{"$ref": "#"}]}),
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"not": {"$ref": "#/$defs/a"}}}}),
        json!({"$id": "https://e.x/", "anyOf": [{"$ref": "https://e.x/#"}]}),
        json!({"$dynamicAnchor": "n", "allOf": [{"$dynamicRef": "#n"}]}),
        json!({"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"a": {"$ref": "#/definitions/a"}}, "$ref": "#/definitions/a"}),
    ] {
        assert!(matches!(refused(&schema), SchemaError::EndlessReference { .. }), "{schema}");
    }
}

#[test]
fn references_that_leave_the_document_are_refused_without_a_look() {
    let sink = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    sink.set_nonblocking(true).unwrap();
    let address = sink.local_addr().unwrap();
    let file = std::env::temp_dir().join("tsugi-schema-absent.json");
    for reference in [
        format!("http://{address}/schema.json"),
        format!("http://{address}/schema.json#/a"),
        format!("file://{}", file.display()),
        "other.json".to_owned(),
        "//127.0.0.1/x".to_owned(),
    ] {
        for keyword in ["$ref", "$dynamicRef", "$recursiveRef"] {
            let schema = json!({"properties": {"a": {keyword: reference}}});
            let error = refused(&schema);
            assert!(matches!(error, SchemaError::ReferenceLeaves { .. }), "{error}");
        }
    }
    assert!(sink.accept().is_err(), "nobody may have connected");
    let dangling = refused(&json!({"$ref": "#/$defs/none"}));
    assert!(matches!(dangling, SchemaError::ReferenceDangles { .. }));
}

#[test]
fn t15_the_control_fetches_what_a_schema_points_at() {
    let sink = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    sink.set_nonblocking(true).unwrap();
    let schema = json!({"$ref": format!("http://{}/schema.json", sink.local_addr().unwrap())});
    refused(&schema);
    assert!(sink.accept().is_err(), "ours asked somebody");
    careless(&schema);
    assert!(sink.accept().is_ok(), "the control asked nobody");
}

#[test]
fn t15_the_control_never_finishes_reading_a_pattern() {
    let (schema, text) = (json!({"pattern": "^((a)|(aa))+\\2$"}), json!(format!("{}!", "a".repeat(60))));
    assert!(compile(&schema).validate(&text).is_err());
    let (done, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(careless(&schema).is_valid(&text)));
    assert!(ended.recv_timeout(Duration::from_secs(2)).is_err(), "the control came to an end");
}

#[test]
fn a_schema_that_only_names_a_foreign_dialect_fetches_nothing() {
    let sink = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    sink.set_nonblocking(true).unwrap();
    let address = sink.local_addr().unwrap();
    compile(&json!({"$schema": format!("http://{address}/dialect"), "type": "string"}));
    assert!(sink.accept().is_err());
}

#[test]
fn catastrophic_patterns_cost_little() {
    let text = format!("{}!", "a".repeat(50_000));
    for pattern in ["(a+)+$", "^(a|a)*$", "^(a|aa)+$", "(.*)*x", "([a-z]+)*\\d$"] {
        let validator = compile(&json!({"pattern": pattern}));
        assert!(validator.validate(&json!(text)).is_err(), "{pattern}");
    }
    for pattern in ["^(?=(a+)+$)b", "(a+)+\\1$", "^(?!(a|aa)+$)(a|aa)+$"] {
        let validator = compile(&json!({"pattern": pattern}));
        assert!(validator.validate(&json!(text)).is_err(), "{pattern}");
        let names = compile(&json!({"patternProperties": {pattern: false}, "additionalProperties": false}));
        assert!(names.validate(&json!({text.clone(): 1})).is_err(), "{pattern}");
    }
}

#[test]
fn a_pattern_that_compiles_to_something_huge_is_skipped_with_the_true_reason_and_the_rest_is_checked() {
    let huge = "((a{1,1000}){1,1000}){1,1000}";
    let validator = compile(&json!({"properties": {"a": {"pattern": huge}, "b": {"pattern": "^x$"}}}));
    assert!(validator.validate(&json!({"a": "no"})).is_ok());
    assert!(validator.validate(&json!({"b": "no"})).is_err());
    let [(pointer, reason)] = validator.skipped() else { panic!("one is skipped: {:?}", validator.skipped()) };
    assert_eq!(pointer.as_str(), "/properties/a/pattern");
    assert!(reason.contains("more than 8388608 bytes"), "{reason}");
    let broken = compile(&json!({"pattern": "(("}));
    assert!(broken.skipped()[0].1.contains("not a regular expression"), "{:?}", broken.skipped());
    let error = refused(&json!({"patternProperties": {huge: true}, "additionalProperties": false}));
    assert!(error.to_string().contains("more than 8388608 bytes"), "{error}");
}

#[test]
fn ordinary_patterns_are_checked_also_where_they_are_large() {
    for (pattern, right, wrong) in
        [("^(?!-)[\\w-]{1,64}$", "a-b", "-a"), ("^.{1,5000}$", "x", ""), ("^\\p{L}{1,100}$", "\u{e4}b", "a1")]
    {
        let validator = compile(&json!({"pattern": pattern}));
        assert_eq!(validator.skipped(), [], "{pattern}");
        assert!(validator.validate(&json!(right)).is_ok(), "{pattern}");
        assert!(validator.validate(&json!(wrong)).is_err(), "{pattern}");
    }
}

/// 4,500 of these took 15 seconds and 1.75 GB before their sizes were counted together.
#[test]
fn the_patterns_of_a_schema_have_one_budget_together() {
    let property = |index: usize| (format!("p{index}"), json!({"pattern": format!("^[a-z]{{8000}}{index}$")}));
    let properties: serde_json::Map<String, Value> = (0..4500).map(property).collect();
    let validator = compile(&json!({"properties": properties}));
    assert!(validator.skipped().len() > 4450, "{}", validator.skipped().len());
    assert!(validator.skipped()[0].1.contains("together"), "{:?}", validator.skipped()[0]);
    let names: serde_json::Map<String, Value> =
        (0..4500).map(|index| (format!("^[a-z]{{8000}}{index}$"), json!(true))).collect();
    assert!(refused(&json!({"patternProperties": names})).to_string().contains("together"));
}

#[test]
fn branching_on_each_level_of_the_value_is_stopped() {
    let doubling = json!({
        "anyOf": [
            {"properties": {"x": {"$ref": "#"}}, "required": ["y"]},
            {"properties": {"x": {"$ref": "#"}}, "required": ["z"]}
        ]
    });
    let doubled = Value::Object(Map::from_iter(
        (0..2).map(|branch| (format!("k{branch}"), json!({"properties": {"x": {"$ref": "#"}}}))),
    ));
    let dependent = json!({"allOf": [{"properties": {"x": {"$ref": "#/$defs/a"}}}, {"properties": {"x": {"$ref": "#/$defs/a"}}}],
        "$defs": {"a": {"allOf": [{"properties": {"x": {"$ref": "#/$defs/b"}}}, {"properties": {"x": {"$ref": "#/$defs/b"}}}]},
                  "b": {"allOf": [{"properties": {"x": {"$ref": "#/$defs/a"}}}, {"properties": {"x": {"$ref": "#/$defs/a"}}}]}}});
    let unevaluated = json!({"allOf": [{"properties": {"x": {"$ref": "#"}}}], "unevaluatedProperties": false});
    for schema in
        [doubling, json!({"dependentSchemas": doubled, "properties": {"x": {"$ref": "#"}}}), dependent, unevaluated]
    {
        let validator = compile(&schema);
        // Whatever the verdict is, it comes.
        let _ = validator.validate(&nested(100));
    }
}

#[test]
fn explosion_without_references_to_the_same_value_is_reported_as_undecided() {
    // Inline copies instead of references: nothing the library could remember from one branch to the next.
    let schema = (0..13).fold(json!({"type": "string"}), |inner, _| {
        json!({"anyOf": [
            {"properties": {"x": inner}, "required": ["x"]},
            {"properties": {"x": inner}, "minProperties": 1}
        ]})
    });
    let limits = ValidationLimits { schema_bytes: 8 << 20, subschemas: 1 << 20, ..ValidationLimits::default() };
    let tight = ValidationLimits { work: 10_000, ..limits };
    let faults = Validator::compile(&schema, tight).unwrap().validate(&nested(20)).unwrap_err();
    assert!(faults.is_undecided, "{faults}");
}

#[test]
fn wide_values_against_wide_schemas_are_stopped() {
    let silent = ladder(11, json!(false), |next| json!({"anyOf": [next, next]}));
    let mut schema = silent.clone();
    schema["items"] = json!({"$ref": "#/$defs/d0"});
    schema.as_object_mut().unwrap().shift_remove("$ref");
    let items = Value::Array(vec![json!(1); 200_000]);
    assert!(compile(&schema).validate(&items).is_err());

    let options: Vec<Value> = (0..9_000).map(|number| json!(format!("option {number}"))).collect();
    let choice = compile(&json!({"items": {"enum": options}}));
    let wide = Value::Array(vec![json!("option 8999"); 200_000]);
    let _ = choice.validate(&wide);

    let unique = compile(&json!({"items": {"uniqueItems": true}, "uniqueItems": true}));
    let _ = unique.validate(&Value::Array((0..100_000).map(|number| json!([number, {"a": number}])).collect()));
}

#[test]
fn size_depth_and_number_of_schemas_are_limited() {
    let wide: Map<String, Value> = (0..10_001).map(|number| (number.to_string(), json!({}))).collect();
    let deep = (0..80).fold(json!({}), |inner, _| json!({"not": inner}));
    let chain = ladder(5_000, json!({}), |next| next);
    let chain_of_parts = ladder(3_000, json!({}), |next| json!({"properties": {"x": next}}));
    let long = json!({"description": "x".repeat(300 * 1024)});
    for schema in [json!({"properties": wide}), deep, chain, long] {
        assert!(matches!(refused(&schema), SchemaError::TooCostly { .. }));
    }
    let validator = compile(&chain_of_parts);
    assert!(validator.validate(&nested(100)).is_ok());
}

#[test]
fn values_nested_without_end_are_refused() {
    let validator = compile(&json!({"properties": {"x": {"$ref": "#"}}}));
    assert!(validator.validate(&nested(127)).is_ok());
    assert!(validator.validate(&nested(200)).is_err());
}

#[test]
fn documents_nested_without_end_are_refused() {
    let deep = (0..400).fold(json!(1), |inner, _| json!([inner]));
    let error = refused(&json!({"default": deep}));
    assert!(matches!(error, SchemaError::TooCostly { .. }));
}

#[test]
fn a_stopped_check_leaves_the_next_one_alone() {
    let schema = json!({"items": {"type": "integer"}});
    let tight = ValidationLimits { work: 50, ..ValidationLimits::default() };
    let validator = Validator::compile(&schema, tight).unwrap();
    let long = Value::Array(vec![json!(1); 1000]);
    for _ in 0..3 {
        assert!(validator.validate(&long).unwrap_err().is_undecided);
        assert!(validator.validate(&json!([1])).is_ok());
    }
}

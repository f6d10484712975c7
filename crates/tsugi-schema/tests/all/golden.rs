//! Each fixture in each dialect, compared with reviewed files. `UPDATE_GOLDEN=1` rewrites them.

use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use tsugi_schema::dialect::{
    ConvertedTool, DialectOptions, NamedTool, OpenAiStyle, SchemaDialect, convert_tool, tools_for,
};
use tsugi_schema::validate::{ValidationLimits, Validator};

use crate::rules;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn read(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All fixtures with their names.
fn fixtures() -> Vec<(String, Value)> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder())
        .expect("the folder of fixtures exists")
        .map(|entry| entry.expect("an entry of the folder").path())
        .filter(|path| !path.to_string_lossy().ends_with(".expected.json"))
        .collect();
    paths.sort();
    assert!(paths.len() >= 40, "only {} fixtures", paths.len());
    let name = |path: &PathBuf| path.file_stem().expect("a file name").to_string_lossy().into_owned();
    paths.iter().map(|path| (name(path), read(path))).collect()
}

fn convert(fixture: &Value, dialect: SchemaDialect) -> ConvertedTool {
    let text = |key: &str| fixture[key].as_str().expect("text");
    convert_tool(text("name"), text("description"), &fixture["inputSchema"], dialect)
}

fn outcome(fixture: &Value) -> Value {
    let mut outcome = Map::new();
    for dialect in SchemaDialect::ALL {
        let converted = convert(fixture, dialect);
        let losses: Vec<String> = converted.losses.iter().map(ToString::to_string).collect();
        outcome.insert(dialect.name().to_owned(), json!({"declaration": converted.declaration, "losses": losses}));
    }
    Value::Object(outcome)
}

/// Long outcomes are written without line breaks: nobody reads a thousand lines of choices.
fn written(outcome: &Value) -> String {
    let pretty = serde_json::to_string_pretty(outcome).expect("JSON");
    let text = if pretty.len() > 32_000 { outcome.to_string() } else { pretty };
    text + "\n"
}

#[test]
fn every_fixture_gives_what_its_golden_file_says() {
    let is_update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut different = Vec::new();
    for (name, fixture) in fixtures() {
        let path = folder().join(format!("{name}.expected.json"));
        let outcome = outcome(&fixture);
        if is_update {
            let text = written(&outcome);
            std::fs::write(&path, text).expect("the golden file can be written");
        } else if !path.exists() || read(&path) != outcome {
            different.push(name);
        }
    }
    assert!(different.is_empty(), "look at these, then run with UPDATE_GOLDEN=1: {different:?}");
}

#[test]
fn every_fixture_keeps_the_rules_of_its_dialect() {
    for (name, fixture) in fixtures() {
        for dialect in SchemaDialect::ALL {
            let converted = convert(&fixture, dialect);
            let broken = rules::broken(dialect, &converted.declaration);
            assert_eq!(broken, Vec::<String>::new(), "{name} for {}", dialect.name());
        }
    }
}

#[test]
fn arguments_come_back_as_they_were_and_fit_what_the_model_was_told() {
    let mut checked = 0;
    for (name, fixture) in fixtures() {
        for arguments in fixture["arguments"].as_array().expect("a list") {
            for dialect in SchemaDialect::ALL {
                let converted = convert(&fixture, dialect);
                let shown = converted.plan.show(arguments.clone());
                let back = converted.plan.restore(shown.clone());
                assert_eq!(back, *arguments, "{name} for {}: {shown}", dialect.name());
                if let Some(schema) = rules::json_schema(dialect, &converted.declaration) {
                    let told = Validator::compile(schema, ValidationLimits::default()).expect("what we tell compiles");
                    let fits = told.validate(&shown);
                    assert!(fits.is_ok(), "{name} for {}: {shown}: {fits:?}", dialect.name());
                }
                checked += 1;
            }
        }
    }
    assert!(checked > 300, "only {checked}");
}

#[test]
fn the_arguments_of_the_fixtures_fit_their_own_schemas() {
    for (name, fixture) in fixtures() {
        let Ok(validator) = Validator::compile(&fixture["inputSchema"], ValidationLimits::default()) else {
            let is_hostile = name.starts_with("hostile") || name.starts_with("reference") || name == "root_null";
            assert!(is_hostile, "{name} does not compile");
            continue;
        };
        for arguments in fixture["arguments"].as_array().expect("a list") {
            assert!(validator.validate(arguments).is_ok(), "{name}: {arguments}");
        }
    }
}

#[test]
fn what_a_model_writes_is_turned_back() {
    let schema = json!({"type": "object", "properties": {
        "file path": {"type": "string"}, "limit": {"type": "integer"}, "any": {}
    }, "required": ["file path"]});
    for (dialect, written) in [
        (SchemaDialect::Gemini, json!({"file_path": "x", "limit": null, "any": [1]})),
        (SchemaDialect::GeminiClassic, json!({"file_path": "x", "any": "[1]"})),
        (SchemaDialect::Anthropic, json!({"file_path": "x", "any": [1]})),
        (SchemaDialect::OpenApi, json!({"file path": "x", "any": [1]})),
    ] {
        let converted = convert_tool("t", "", &schema, dialect);
        assert_eq!(converted.plan.restore(written), json!({"file path": "x", "any": [1]}));
    }
    let strict =
        json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": ["a"]});
    let converted = convert_tool("t", "", &strict, SchemaDialect::OpenAi);
    assert_eq!(converted.declaration["strict"], json!(true));
    assert_eq!(converted.plan.restore(json!({"a": "x", "b": null})), json!({"a": "x"}));
}

#[test]
fn text_that_is_no_json_is_taken_as_it_stands() {
    let schema = json!({"type": "object", "properties": {"any": {}}});
    let plan = convert_tool("t", "", &schema, SchemaDialect::GeminiClassic).plan;
    assert_eq!(plan.restore(json!({"any": "hello there"})), json!({"any": "hello there"}));
}

#[test]
fn tools_are_framed_as_each_sdk_takes_them() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let tools = [NamedTool { name: "one", description: "First.", input_schema: &schema }];
    let framed = |dialect, options| tools_for(dialect, &tools, options).0;
    let plain = DialectOptions::default();
    let chat = DialectOptions { openai_style: OpenAiStyle::Chat, ..plain };
    assert_eq!(framed(SchemaDialect::Gemini, plain)["functionDeclarations"][0]["name"], "one");
    assert_eq!(framed(SchemaDialect::OpenAi, plain)[0]["name"], "one");
    assert_eq!(framed(SchemaDialect::OpenAi, chat)[0]["function"]["name"], "one");
    assert_eq!(framed(SchemaDialect::Anthropic, plain)[0]["input_schema"]["type"], "object");
    assert_eq!(framed(SchemaDialect::OpenApi, plain)["paths"]["/one"]["post"]["operationId"], "one");
    assert_eq!(tools_for(SchemaDialect::Gemini, &[], plain).0, json!({"functionDeclarations": []}));
}

#[test]
fn long_descriptions_are_cut_where_asked() {
    let schema = json!({"type": "object", "additionalProperties": false});
    let long = "é".repeat(2000);
    let tools = [NamedTool { name: "one", description: &long, input_schema: &schema }];
    let options = DialectOptions { description_limit: Some(1024), ..DialectOptions::default() };
    let (framed, converted) = tools_for(SchemaDialect::OpenAi, &tools, options);
    assert_eq!(framed[0]["description"].as_str().unwrap().chars().count(), 1024);
    assert_eq!(converted[0].losses[0].keyword, "description");
}

#[test]
fn what_is_said_of_a_root_without_properties_stands_in_the_description_of_a_classic_tool() {
    for (schema, words) in [
        (json!({"type": "object", "additionalProperties": {"type": "integer"}}), "integer"),
        (json!({"type": "object", "minProperties": 1}), "1"),
        (json!({"type": "object", "description": "any settings"}), "any settings"),
    ] {
        let converted = convert_tool("set", "Sets.", &schema, SchemaDialect::GeminiClassic);
        let description = converted.declaration["description"].as_str().unwrap_or_default();
        assert!(description.starts_with("Sets.") && description.contains(words), "{schema}: {description:?}");
    }
}

#[test]
fn an_open_root_is_closed_for_openai_only_with_a_word_and_never_if_it_must_have_members() {
    for schema in [json!({}), json!(true), json!({"type": "object"})] {
        let converted = convert_tool("set", "", &schema, SchemaDialect::OpenAi);
        assert_eq!(converted.declaration["strict"], true, "{schema}");
        assert!(converted.losses.iter().any(|loss| loss.keyword == "additionalProperties"), "{schema}");
    }
    let closed =
        convert_tool("set", "", &json!({"type": "object", "additionalProperties": false}), SchemaDialect::OpenAi);
    assert_eq!(closed.losses, []);
    let needy = convert_tool("set", "", &json!({"type": "object", "minProperties": 1}), SchemaDialect::OpenAi);
    assert_eq!(needy.declaration["strict"], false);
    assert_ne!(needy.declaration["parameters"]["additionalProperties"], false);
}

#[test]
fn choices_of_several_types_beside_a_union_that_nothing_fits_keep_the_rules() {
    let schema = json!({"type": "object", "properties": {"a": {"enum": [true, {}], "anyOf": [false]}}});
    for dialect in SchemaDialect::ALL {
        let declaration = convert_tool("t", "", &schema, dialect).declaration;
        assert_eq!(rules::broken(dialect, &declaration), Vec::<String>::new(), "{declaration}");
    }
}

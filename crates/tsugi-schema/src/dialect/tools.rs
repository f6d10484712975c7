//! Puts declarations into the frame that each provider's SDK takes as it is.

use serde_json::{Map, Value, json};

use super::{Converted, Dialect, OpenAiStyle, Options, Parameters, convert_tool_with, words};

/// A tool to be offered to a model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NamedTool<'a> {
    /// The public name.
    pub name: &'a str,
    /// What it does.
    pub description: &'a str,
    /// What it takes.
    pub input_schema: &'a Value,
}

/// Says all tools in a dialect, together as the SDK takes them:
/// Gemini one `Tool` with all functions, OpenAI and Anthropic the `tools` list, OpenAPI a document. The conversions come in the order of the tools.
pub fn tools_for(dialect: Dialect, tools: &[NamedTool<'_>], options: Options) -> (Value, Vec<Converted>) {
    let convert =
        |tool: &NamedTool<'_>| convert_tool_with(tool.name, tool.description, tool.input_schema, dialect, options);
    let converted: Vec<Converted> = tools.iter().map(convert).collect();
    let declarations = converted.iter().map(|tool| tool.declaration.clone());
    let together = match dialect {
        Dialect::Gemini | Dialect::GeminiClassic => json!({"functionDeclarations": declarations.collect::<Vec<_>>()}),
        Dialect::OpenAi | Dialect::Anthropic => declarations.collect(),
        Dialect::OpenApi => super::openapi::document(declarations),
    };
    (together, converted)
}

/// One declaration.
pub(super) fn frame(
    name: &str,
    description: &str,
    parameters: &Parameters,
    dialect: Dialect,
    options: Options,
) -> Value {
    let schema = &parameters.schema;
    match dialect {
        Dialect::Gemini => {
            let mut declaration = named(name, description);
            declaration.insert("parametersJsonSchema".to_owned(), schema.clone());
            Value::Object(declaration)
        }
        Dialect::GeminiClassic => gemini_classic(name, description, schema),
        Dialect::OpenAi => openai(name, description, parameters, options.openai_style),
        Dialect::Anthropic => {
            let mut declaration = named(name, description);
            declaration.insert("input_schema".to_owned(), schema.clone());
            Value::Object(declaration)
        }
        Dialect::OpenApi => super::openapi::operation(name, description, schema),
    }
}

/// An OBJECT without properties is refused there, so a tool without parameters has no `parameters` at all;
/// what would have been said in them is said about the tool.
fn gemini_classic(name: &str, description: &str, schema: &Value) -> Value {
    let is_empty = schema["properties"].as_object().is_none_or(Map::is_empty);
    if is_empty {
        return Value::Object(named(name, &with_parameters_in_words(description, schema)));
    }
    let mut declaration = named(name, description);
    declaration.insert("parameters".to_owned(), schema.clone());
    Value::Object(declaration)
}

fn with_parameters_in_words(description: &str, schema: &Value) -> String {
    let bounds = ["minProperties", "maxProperties"]
        .into_iter()
        .filter_map(|keyword| schema.get(keyword).map(|value| words::words(keyword, value)));
    let told = schema["description"].as_str().map(str::to_owned).into_iter().chain(bounds);
    let told: Vec<String> = told.filter(|text| !text.is_empty()).collect();
    match (description.is_empty(), told.is_empty()) {
        (_, true) => description.to_owned(),
        (true, false) => format!("Arguments: {}", told.join("; ")),
        (false, false) => format!("{description}\n\nArguments: {}", told.join("; ")),
    }
}

fn openai(name: &str, description: &str, parameters: &Parameters, style: OpenAiStyle) -> Value {
    let mut function = named(name, description);
    function.insert("parameters".to_owned(), parameters.schema.clone());
    function.insert("strict".to_owned(), Value::from(parameters.is_strict));
    match style {
        OpenAiStyle::Chat => json!({"type": "function", "function": function}),
        OpenAiStyle::Responses => {
            let mut declaration = Map::from_iter([("type".to_owned(), json!("function"))]);
            declaration.extend(function);
            Value::Object(declaration)
        }
    }
}

fn named(name: &str, description: &str) -> Map<String, Value> {
    let mut declaration = Map::from_iter([("name".to_owned(), Value::from(name))]);
    if !description.is_empty() {
        declaration.insert("description".to_owned(), Value::from(description));
    }
    declaration
}

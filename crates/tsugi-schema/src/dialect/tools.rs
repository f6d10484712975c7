//! Wraps declarations in the form that each provider's SDK expects.

use serde_json::{Map, Value, json};

use super::{
    ConvertedTool, DeclarationParts, DialectOptions, OpenAiStyle, SchemaDialect, convert_tool_with, loss_notes,
};

/// A tool to be offered to a model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NamedTool<'a> {
    pub name: &'a str,
    pub description: &'a str,
    pub input_schema: &'a Value,
}

/// Says all tools in a dialect, together as the SDK takes them:
/// Gemini one `Tool` with all functions, OpenAI and Anthropic the `tools` list, OpenAPI a document. The conversions come in the order of the tools.
pub fn tools_for(
    dialect: SchemaDialect,
    tools: &[NamedTool<'_>],
    options: DialectOptions,
) -> (Value, Vec<ConvertedTool>) {
    let convert =
        |tool: &NamedTool<'_>| convert_tool_with(tool.name, tool.description, tool.input_schema, dialect, options);
    let converted: Vec<ConvertedTool> = tools.iter().map(convert).collect();
    let declarations = converted.iter().map(|tool| tool.declaration.clone());
    let together = match dialect {
        SchemaDialect::Gemini | SchemaDialect::GeminiClassic => {
            json!({"functionDeclarations": declarations.collect::<Vec<_>>()})
        }
        SchemaDialect::OpenAi | SchemaDialect::Anthropic => declarations.collect(),
        SchemaDialect::OpenApi => super::openapi::document(declarations),
    };
    (together, converted)
}

pub(super) fn frame(
    name: &str,
    description: &str,
    parameters: &DeclarationParts,
    dialect: SchemaDialect,
    options: DialectOptions,
) -> Value {
    let schema = &parameters.schema;
    match dialect {
        SchemaDialect::Gemini => {
            let mut declaration = named(name, description);
            declaration.insert("parametersJsonSchema".to_owned(), schema.clone());
            Value::Object(declaration)
        }
        SchemaDialect::GeminiClassic => gemini_classic(name, description, schema),
        SchemaDialect::OpenAi => openai(name, description, parameters, options.openai_style),
        SchemaDialect::Anthropic => {
            let mut declaration = named(name, description);
            declaration.insert("input_schema".to_owned(), schema.clone());
            Value::Object(declaration)
        }
        SchemaDialect::OpenApi => super::openapi::operation(name, description, schema),
    }
}

/// An OBJECT without properties is refused there, so a tool without parameters has no `parameters` at all;
/// their text goes into the description of the tool.
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
        .filter_map(|keyword| schema.get(keyword).map(|value| loss_notes::words(keyword, value)));
    let told = schema["description"].as_str().map(str::to_owned).into_iter().chain(bounds);
    let told: Vec<String> = told.filter(|text| !text.is_empty()).collect();
    match (description.is_empty(), told.is_empty()) {
        (_, true) => description.to_owned(),
        (true, false) => format!("Arguments: {}", told.join("; ")),
        (false, false) => format!("{description}\n\nArguments: {}", told.join("; ")),
    }
}

fn openai(name: &str, description: &str, parameters: &DeclarationParts, style: OpenAiStyle) -> Value {
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

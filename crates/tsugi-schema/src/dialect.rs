//! Writes a tool in the format of one model provider, and turns the model's arguments back into what the tool takes.

mod anthropic;
mod emit;
mod gemini;
mod gemini_classic;
mod google;
mod loss_notes;
mod openai;
mod openapi;
mod plan;
mod root;
mod tools;
mod types;
mod union;

pub use plan::ArgumentPlan;
pub use tools::{NamedTool, tools_for};

use serde_json::Value;

use crate::loss::{LossFate, SchemaLoss};
use crate::pointer::JsonPointer;
use crate::tool_name;

/// A provider's taste in schemas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SchemaDialect {
    /// Gemini's `parametersJsonSchema`.
    Gemini,
    /// Gemini's older `parameters`, the `types.Schema` of its SDK.
    GeminiClassic,
    /// OpenAI functions, strict where the schema allows it.
    OpenAi,
    /// Anthropic tools, not strict: strict tools share one grammar of limited size per request.
    Anthropic,
    /// OpenAPI 3.1 operations.
    OpenApi,
}

impl SchemaDialect {
    /// All of them, for tables and tests.
    pub const ALL: [Self; 5] = [Self::Gemini, Self::GeminiClassic, Self::OpenAi, Self::Anthropic, Self::OpenApi];

    /// The dialect of this name, as used on the command line.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dialect| dialect.name() == name)
    }

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gemini => "gemini",
            Self::GeminiClassic => "gemini-classic",
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
            Self::OpenApi => "openapi",
        }
    }

    /// Longest tool name the provider takes. Anthropic says 128, but its older models took 64.
    pub fn longest_name(self) -> usize {
        tool_name::MAX_NAME
    }
}

/// How OpenAI functions are wrapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OpenAiStyle {
    /// Responses API: `{"type": "function", "name": …}`.
    #[default]
    Responses,
    /// Chat Completions API: `{"type": "function", "function": {"name": …}}`.
    Chat,
}

/// Whether OpenAI functions may be strict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OpenAiStrictness {
    /// Strict where the schema allows it.
    #[default]
    WherePossible,
    Never,
}

/// Choices a caller may make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DialectOptions {
    /// How OpenAI functions are wrapped.
    pub openai_style: OpenAiStyle,
    /// Whether OpenAI functions may be strict.
    pub strictness: OpenAiStrictness,
    /// Longest description of a tool, in characters; some deployments cap it at 1024.
    pub description_limit: Option<usize>,
}

/// A tool in one dialect.
#[derive(Debug, Clone, PartialEq)]
pub struct ConvertedTool {
    /// The declaration, as the provider's SDK takes it.
    pub declaration: Value,
    /// What the declaration does not say.
    pub losses: Vec<SchemaLoss>,
    /// How to turn the model's arguments back.
    pub plan: ArgumentPlan,
}

/// The parts of a declaration before they are put in the provider's frame.
#[derive(Debug, Clone, PartialEq)]
struct DeclarationParts {
    schema: Value,
    losses: Vec<SchemaLoss>,
    plan: ArgumentPlan,
    is_strict: bool,
}

/// Says one tool in a dialect. Total: any JSON may come as `input_schema`.
pub fn convert_tool(name: &str, description: &str, input_schema: &Value, dialect: SchemaDialect) -> ConvertedTool {
    convert_tool_with(name, description, input_schema, dialect, DialectOptions::default())
}

/// As [`convert_tool`], with choices.
pub fn convert_tool_with(
    name: &str,
    description: &str,
    input_schema: &Value,
    dialect: SchemaDialect,
    options: DialectOptions,
) -> ConvertedTool {
    // Losses of the name and the description join those of the parameters.
    let mut parameters = convert_parameters(input_schema, dialect, options);
    let name = fitting_name(name, &mut parameters.losses);
    let description = fitting_description(description, options, &mut parameters.losses);
    let declaration = tools::frame(&name, &description, &parameters, dialect, options);
    ConvertedTool { declaration, losses: parameters.losses, plan: parameters.plan }
}

fn convert_parameters(schema: &Value, dialect: SchemaDialect, options: DialectOptions) -> DeclarationParts {
    match dialect {
        // No wildcard: a new dialect has to choose its conversion here.
        SchemaDialect::Gemini => gemini::convert(schema),
        SchemaDialect::GeminiClassic => gemini_classic::convert(schema),
        SchemaDialect::OpenAi => openai::convert(schema, options.strictness),
        SchemaDialect::Anthropic => anthropic::convert(schema),
        SchemaDialect::OpenApi => openapi::convert(schema),
    }
}

/// Names come from [`tool_name::NameMap`] and fit; any other is made to fit, and said so.
fn fitting_name(name: &str, losses: &mut Vec<SchemaLoss>) -> String {
    if tool_name::is_safe(name) {
        return name.to_owned();
    }
    let fitting = tool_name::fit(name);
    // Reported at the root, since the name belongs to no part of the schema.
    let note = format!("the name became {fitting}");
    losses.push(SchemaLoss::new(&JsonPointer::root(), "name", LossFate::Changed, note));
    fitting
}

fn fitting_description(description: &str, options: DialectOptions, losses: &mut Vec<SchemaLoss>) -> String {
    let limit = options.description_limit.unwrap_or(usize::MAX);
    // By characters: a cut inside of one would panic.
    let Some((end, _)) = description.char_indices().nth(limit) else {
        return description.to_owned();
    };
    let note = format!("cut after {limit} characters");
    losses.push(SchemaLoss::new(&JsonPointer::root(), "description", LossFate::Changed, note));
    description[..end].to_owned()
}

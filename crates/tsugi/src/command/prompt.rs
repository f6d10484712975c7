//! `tsugi prompt`: a prompt rendered like a slash command, ready to be given to a model.

use serde_json::{Map, Value, json};
use tsugi_protocol::answer::Call;
use tsugi_protocol::json::JsonObject;
use tsugi_protocol::mcp::Method;
use tsugi_protocol::mcp::prompt::PromptDescription;

use super::input::CallFlags;
use super::result_text::{self, ResultReader};
use crate::app::App;
use crate::failure::CommandFailure;
use crate::interactive_call::InteractiveCall;
use crate::locate::{LocatedOffer, OfferKind, locate};
use crate::output::OutputFormat;
use crate::report::exit::CommandExit;
use crate::terminal::{self, form::FormField};
use crate::tool_arguments::{ArgumentObject, ArgumentValue, MissingArgument, ToolArguments, kind_of};

/// Render a prompt, like a slash command
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = "Examples:\n  tsugi prompt demo/explain-bmi bmi=22.86\n  tsugi prompt explain-bmi bmi=31 reader=\"a child\" --json"
)]
pub(crate) struct PromptArgs {
    /// The prompt: its name, or server/name
    prompt: String,
    /// Its arguments; `-` reads them from stdin as a JSON object
    #[arg(value_name = "KEY=VALUE")]
    arguments: Vec<String>,
    #[command(flatten)]
    flags: CallFlags,
}

impl PromptArgs {
    /// Whether only data is to be printed.
    pub(crate) fn is_json(&self) -> bool {
        self.flags.is_json()
    }
}

pub(crate) async fn run(app: &App, args: PromptArgs) -> Result<CommandExit, CommandFailure> {
    let (object, words) = args.flags.split(args.arguments)?;
    let roots = args.flags.roots(app)?;
    let loaded = app.calling_configuration(args.flags.gateway_use()).await?;
    // `/name` is how clients show prompts.
    let word = args.prompt.trim_start_matches('/');
    let found = locate(app, &loaded, OfferKind::Prompt, word, &roots).await?;
    let talk = InteractiveCall::new(app).with_roots(roots).with_timeout(args.flags.timeout);
    let arguments = complete(&talk, &found, object, &words).await?;
    let params = JsonObject::from(json!({"name": found.name, "arguments": texts(&arguments)?}));
    let complete = talk.run_to_result(&found.server, &found.subject(), Call::new(Method::PromptsGet, params)).await?;
    match app.output.form() {
        OutputFormat::Json => app.output.data(complete.body.raw().as_str())?,
        OutputFormat::Text => app.output.data(&messages(&complete.body, ResultReader::of(&app.output)))?,
    }
    Ok(CommandExit::Success)
}

/// The arguments, after asking for missing ones.
async fn complete(
    talk: &InteractiveCall<'_>,
    found: &LocatedOffer,
    mut object: ArgumentObject,
    words: &[String],
) -> Result<ArgumentObject, CommandFailure> {
    let prompt = found.catalog.prompts.items.iter().find(|prompt| prompt.name() == found.name);
    let arguments = ToolArguments::new(prompt.map(schema_of).unwrap_or_default());
    object.extend(arguments.read(words)?);
    let missing = arguments.missing(&object);
    if missing.is_empty() {
        return Ok(object);
    }
    // A script gets an error instead of a prompt that hangs.
    if !talk.is_interactive() {
        return Err(super::call::lacking(&found.subject(), &missing));
    }
    let field = |missing: MissingArgument| FormField { name: missing.name, shape: missing.shape, is_required: true };
    let fields: Vec<FormField> = missing.into_iter().map(field).collect();
    object.extend(terminal::blocking(move || terminal::ask(&fields)).await?.into());
    Ok(object)
}

/// Prompt arguments are text in MCP. A number is sent with the digits that were typed.
fn texts(arguments: &ArgumentObject) -> Result<Map<String, Value>, CommandFailure> {
    arguments.iter().map(|(name, value)| Ok((name.to_owned(), text(name, value)?.into()))).collect()
}

fn text(name: &str, value: &ArgumentValue) -> Result<String, CommandFailure> {
    match value.to_value() {
        Value::String(text) => Ok(text),
        Value::Number(_) | Value::Bool(_) => Ok(value.to_raw().to_string()),
        other => {
            let message = format!("`{name}` must be text, and this is {}", kind_of(&other));
            Err(CommandFailure::usage(message).with_hint("the arguments of prompts are texts"))
        }
    }
}

/// A prompt's arguments as a schema: all of them are text.
fn schema_of(prompt: &PromptDescription) -> Value {
    let arguments = prompt.arguments();
    // Everything is text here, so only the description matters.
    let property = |argument: &tsugi_protocol::mcp::prompt::PromptArgument| {
        let mut property = json!({"type": "string"});
        if let Some(description) = &argument.description {
            property["description"] = description.as_str().into();
        }
        (argument.name.clone(), property)
    };
    let required: Vec<&str> =
        arguments.iter().filter(|argument| argument.required).map(|argument| argument.name.as_str()).collect();
    let properties: Map<String, Value> = arguments.iter().map(property).collect();
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

/// The text of the messages; roles are shown only if there are several.
fn messages(body: &JsonObject, reader: ResultReader) -> String {
    let messages: Vec<Value> = body.get("messages").and_then(|messages| messages.to_lossy().ok()).unwrap_or_default();
    // A single speaker needs no label.
    let is_alone = messages.iter().all(|message| message["role"] == "user");
    let shown = |block: &Value| result_text::text_of_block(block, reader);
    let text = |message: &Value| {
        let content = match &message["content"] {
            Value::Array(blocks) => blocks.iter().map(shown).collect::<Vec<_>>().join("\n"),
            block => shown(block),
        };
        if is_alone { content } else { format!("{}: {content}", message["role"].as_str().unwrap_or_default()) }
    };
    messages.iter().map(text).collect::<Vec<_>>().join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(messages: Value) -> String {
        super::messages(&JsonObject::from(json!({"messages": messages})), ResultReader::Person)
    }

    #[test]
    fn arguments_are_texts_and_what_has_none_is_refused() {
        let sent = |text: &str| texts(&crate::tool_arguments::from_json(text).unwrap()).ok().map(Value::Object);
        assert_eq!(
            sent(r#"{"a b": 5, "c": 1.50, "d": true, "e": "x"}"#),
            Some(json!({"a b": "5", "c": "1.50", "d": "true", "e": "x"}))
        );
        assert!(sent(r#"{"a": {}}"#).is_none() && sent(r#"{"a": null}"#).is_none());
    }

    #[test]
    fn who_speaks_is_said_only_where_several_do() {
        let say = |role: &str, text: &str| json!({"role": role, "content": {"type": "text", "text": text}});
        assert_eq!(shown(json!([say("user", "one"), say("user", "two")])), "one\n\ntwo");
        assert_eq!(shown(json!([say("user", "one"), say("assistant", "two")])), "user: one\n\nassistant: two");
    }
}

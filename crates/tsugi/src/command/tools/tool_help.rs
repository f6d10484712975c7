//! The page of one tool: what it does, its arguments as a table, and a line to copy.

use serde_json::Value;
use tsugi_protocol::mcp::tool::ToolDescription;

use crate::app::App;
use crate::failure::CommandFailure;
use crate::output::printable;
use crate::output::table::TextTable;
use crate::tool_arguments::{ArgumentShape, ValueKind, text_of};

/// Prints the page of the tool that is called as `subject`.
pub(super) fn print(app: &App, subject: &str, tool: &ToolDescription) -> Result<(), CommandFailure> {
    let schema: Value = tool.input_schema().and_then(|schema| schema.to_lossy().ok()).unwrap_or_default();
    let shape = ArgumentShape::of(&schema);
    app.output.painted(|paint| {
        let title = tool.title().filter(|title| title != tool.name()).map(|title| format!("  {title}"));
        let hints = hints(tool).map(|hints| paint.faint(format!("  ({hints})"))).unwrap_or_default();
        printable_head(&paint.strong(subject), title.as_deref(), &hints)
    })?;
    if let Some(description) = tool.description() {
        app.output.data(&format!("\n{}", printable_block(&description)))?;
    }
    app.output.data("")?;
    match arguments(&shape) {
        Some(table) => {
            app.output.table(&table)?;
            app.output.painted(|paint| paint.faint("* required"))?;
        }
        None => app.output.data("It takes no arguments.")?,
    }
    app.output.data(&format!("\nExample:\n  {}", example(subject, &shape)))?;
    Ok(())
}

fn printable_head(subject: &str, title: Option<&str>, hints: &str) -> String {
    format!("{subject}{}{hints}", title.map(printable).unwrap_or_default())
}

/// A text of several lines, without control characters.
fn printable_block(text: &str) -> String {
    text.trim().lines().map(printable).collect::<Vec<_>>().join("\n")
}

/// What the tool says about its effects.
fn hints(tool: &ToolDescription) -> Option<String> {
    let annotations: Value = tool.annotations().and_then(|annotations| annotations.to_lossy().ok())?;
    let is = |key: &str| annotations[key] == true;
    let words = [("readOnlyHint", "read-only"), ("destructiveHint", "destructive"), ("idempotentHint", "idempotent")];
    let said: Vec<&str> = words.into_iter().filter(|(key, _)| is(key)).map(|(_, word)| word).collect();
    (!said.is_empty()).then(|| said.join(", "))
}

/// The arguments, required ones first.
fn arguments(shape: &ArgumentShape) -> Option<TextTable> {
    let required: Vec<&str> = shape.required().collect();
    let mut names = shape.names();
    names.sort_by_key(|name| !required.contains(&name.as_str()));
    names.dedup();
    if names.is_empty() {
        return None;
    }
    let mut table = TextTable::new(["argument", "type", "default", "description"]);
    for name in names {
        let argument = shape.property(&name).unwrap_or_default();
        let mark = if required.contains(&name.as_str()) { "*" } else { "" };
        let default = argument.default().map(text_of).unwrap_or_default();
        let description = argument.description().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
        table.row([format!("{name}{mark}"), argument.describe(), default, description]);
    }
    Some(table)
}

/// A call with every required argument, or with the first one if none is required.
fn example(subject: &str, shape: &ArgumentShape) -> String {
    let mut names: Vec<String> = shape.required().map(str::to_owned).collect();
    if names.is_empty() {
        names.extend(shape.names().into_iter().next());
    }
    let words = names.iter().map(|name| assignment(name, &shape.property(name).unwrap_or_default()));
    let words: Vec<String> = std::iter::once(format!("tsugi call {subject}")).chain(words).collect();
    words.join(" ")
}

fn assignment(name: &str, shape: &ArgumentShape) -> String {
    // An array is given by repeating the argument, so one item is an example.
    let is_array = shape.kinds().contains(&ValueKind::Array);
    let value = if is_array { sample(&shape.items()) } else { sample(shape) };
    shell_word(&format!("{name}={value}"))
}

/// A value that fits: an example, the default, a choice, or one made up for its kind.
fn sample(shape: &ArgumentShape) -> String {
    if let Some(value) = shape.example().or_else(|| shape.default()).filter(|value| !value.is_null()) {
        return text_of(value);
    }
    if let Some(choice) = shape.choices().first() {
        return text_of(&choice.value);
    }
    let kinds = shape.kinds();
    let is = |kind: ValueKind| kinds.contains(&kind);
    match () {
        () if shape.format() == Some("uri") => "https://example.com".to_owned(),
        () if shape.format() == Some("date") => "2026-01-31".to_owned(),
        () if is(ValueKind::String) => "text".to_owned(),
        () if is(ValueKind::Integer) || is(ValueKind::Number) => shape.minimum().unwrap_or_else(|| "1".to_owned()),
        () if is(ValueKind::Boolean) => "true".to_owned(),
        () => "{}".to_owned(),
    }
}

/// A word as a shell takes it.
fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "=_-./:,@%+".contains(c);
    if word.chars().all(is_plain) { word.to_owned() } else { format!("'{}'", printable(word).replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_example_gives_every_required_argument_a_value_that_fits() {
        let shape = ArgumentShape::of(&json!({
            "type": "object",
            "required": ["path", "count", "mode", "tags", "note"],
            "properties": {
                "path": {"type": "string"},
                "count": {"type": "integer", "minimum": 3},
                "mode": {"enum": ["fast", "slow"]},
                "tags": {"type": "array", "items": {"type": "string"}},
                "note": {"type": "string", "default": "it's"},
                "rest": {"type": "string"},
            },
        }));
        let line = example("files/read", &shape);
        assert_eq!(line, "tsugi call files/read path=text count=3 mode=fast tags=text 'note=it'\\''s'");
        assert_eq!(example("a/b", &ArgumentShape::of(&json!({"type": "object"}))), "tsugi call a/b");
    }
}

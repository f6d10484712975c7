//! Reads a JSON array of tools from stdin and prints what a provider's SDK takes: `convert --for gemini < tools.json`.
//!
//! With `--lines` it prints one line per tool, `{"name", "tools", "losses"}`, which the check with the real SDKs reads.
#![allow(clippy::print_stdout)]

use serde_json::{Value, json};
use std::io::Read;
use tsugi_schema::dialect::{DialectOptions, NamedTool, OpenAiStyle, SchemaDialect, tools_for};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let name = arguments
        .iter()
        .position(|argument| argument == "--for")
        .and_then(|index| arguments.get(index + 1))
        .ok_or("usage: convert --for gemini|gemini-classic|openai|anthropic|openapi [--chat] [--lines]")?;
    let dialect = SchemaDialect::from_name(name).ok_or_else(|| format!("unknown dialect {name:?}"))?;
    let openai_style = if has("--chat") { OpenAiStyle::Chat } else { OpenAiStyle::Responses };
    let options = DialectOptions { openai_style, ..DialectOptions::default() };
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let tools: Vec<Value> = serde_json::from_str(&text)?;
    let named: Vec<NamedTool<'_>> = tools.iter().map(named).collect();
    if has("--lines") {
        print_lines(dialect, &named, options);
    } else {
        let (together, _) = tools_for(dialect, &named, options);
        println!("{}", serde_json::to_string_pretty(&together)?);
    }
    Ok(())
}

fn print_lines(dialect: SchemaDialect, tools: &[NamedTool<'_>], options: DialectOptions) {
    for tool in tools {
        let (together, converted) = tools_for(dialect, &[*tool], options);
        let losses = &converted[0].losses;
        println!("{}", json!({"name": tool.name, "tools": together, "losses": losses}));
    }
}

fn named(tool: &Value) -> NamedTool<'_> {
    NamedTool {
        name: tool["name"].as_str().unwrap_or("unnamed"),
        description: tool["description"].as_str().unwrap_or_default(),
        input_schema: &tool["inputSchema"],
    }
}

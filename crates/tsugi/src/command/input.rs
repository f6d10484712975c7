//! The flags of commands that make one call: arguments, timeout and roots.

use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use crate::app::App;
use crate::app::running_gateway::GatewayUse;
use crate::config::parse;
use crate::failure::CommandFailure;
use crate::tool_arguments::{self, ArgumentObject};

const STDIN: &str = "-";

/// Flags of a command that makes one call.
#[derive(Debug, clap::Args)]
pub(crate) struct CallFlags {
    /// Print only the raw MCP result; a JSON object after the flag gives the arguments
    #[arg(long, value_name = "OBJECT", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub(crate) json: Vec<String>,
    /// How long the server may be silent, such as 90s, 5m or 500ms; progress restarts the clock
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) timeout: Option<Duration>,
    /// A directory for servers that ask for roots [default without a value: the current directory]
    #[arg(long = "root", value_name = "DIR", num_args = 0..=1, require_equals = true, default_missing_value = ".")]
    pub(crate) roots: Vec<PathBuf>,
    #[command(flatten)]
    gateway_use: GatewayUse,
}

impl CallFlags {
    pub(crate) fn is_json(&self) -> bool {
        !self.json.is_empty()
    }

    /// Whether the running gateway may be used. The directories of `--root` are for servers that are started here.
    pub(crate) fn gateway_use(&self) -> GatewayUse {
        GatewayUse { alone: self.gateway_use.alone || !self.roots.is_empty() }
    }

    /// The directories of `--root`, in full.
    pub(crate) fn roots(&self, app: &App) -> Result<Vec<PathBuf>, CommandFailure> {
        let full = |path: &PathBuf| {
            let path = app.context.directory.join(path);
            std::fs::canonicalize(&path)
                .ok()
                .filter(|path| path.is_dir())
                .ok_or_else(|| CommandFailure::usage(format!("`{}` of --root is not a directory", path.display())))
        };
        self.roots.iter().map(full).collect()
    }

    /// The arguments given as JSON, with the flag or on stdin, and the words that are left.
    pub(crate) fn split(&self, words: Vec<String>) -> Result<(ArgumentObject, Vec<String>), CommandFailure> {
        let mut object = ArgumentObject::default();
        for text in self.json.iter().filter(|text| !text.is_empty()) {
            object.extend(tool_arguments::from_json(text)?);
        }
        let (stdin, words): (Vec<String>, Vec<String>) = words.into_iter().partition(|word| word == STDIN);
        if !stdin.is_empty() {
            object.extend(tool_arguments::from_json(&read_stdin()?)?);
        }
        Ok((object, words))
    }
}

pub(crate) fn read_stdin() -> Result<String, CommandFailure> {
    let mut text = String::new();
    match std::io::stdin().read_to_string(&mut text) {
        Ok(_) => Ok(text),
        Err(error) => Err(CommandFailure::usage(format!("stdin cannot be read: {error}"))),
    }
}

/// A duration with its unit. The configuration takes a bare number as milliseconds; people who type `--timeout 30` mean
/// seconds, so the command line takes neither.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    if text.parse::<f64>().is_ok() {
        return Err(format!("expected a unit, such as {text}s or {text}ms"));
    }
    parse::positive_duration(text).map_err(|expected| format!("expected {}", expected.what))
}

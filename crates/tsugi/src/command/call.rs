//! `tsugi call`: calls one tool with checked arguments and prints its result.

use std::path::PathBuf;

use serde_json::{Map, Value};
use tsugi_protocol::answer::Call;

use super::input::CallFlags;
use super::result_text;
use crate::app::{App, offers};
use crate::failure::CommandFailure;
use crate::interactive_call::InteractiveCall;
use crate::locate::{LocatedOffer, OfferKind, locate};
use crate::output::OutputFormat;
use crate::report::exit::CommandExit;
use crate::terminal::{self, form::FormField};
use crate::tool_arguments::{ArgumentObject, MissingArgument, ToolArguments};

const EXAMPLES: &str = "\
Arguments are typed by the tool's schema:
  name=text  weight_kg=70  dry_run=true    text, numbers, booleans
  tags=a tags=b  tags='[\"a\",\"b\"]'          arrays, by repeating or as JSON
  address.city=Ōtsu  address='{…}'         objects, by dots or as JSON
  count:=5                                 JSON as written, regardless of the schema

On a terminal, missing arguments are prompted for, and so are the questions of the server.

The content blocks of the result are printed in order, each on a new line: text unchanged (on a
terminal, JSON is indented), images and audio as type and size, or as files with -o DIR, links as
addresses. Without blocks, the structured content is printed. --json prints the raw result.

Examples:
  tsugi call demo/calculate-bmi weight_kg=70 height_m=1.75
  tsugi call calculate-bmi --json '{\"weight_kg\": 70, \"height_m\": 1.75}'
  tsugi call shop/chart -o pictures
  echo '{\"message\": \"hi\"}' | tsugi call demo/echo -
  tsugi call --command \"uvx mcp-server-time\" get_current_time timezone=Asia/Tokyo";

/// Call a tool
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct CallArgs {
    /// The tool: its name, or server/name
    pub(crate) tool: String,
    /// The tool's arguments; `-` reads a JSON object from stdin
    #[arg(value_name = "KEY=VALUE")]
    arguments: Vec<String>,
    #[command(flatten)]
    flags: CallFlags,
    /// Write the images, sounds and files of the result into this directory
    #[arg(short = 'o', long = "output", value_name = "DIR")]
    output: Option<PathBuf>,
}

impl CallArgs {
    pub(crate) fn is_json(&self) -> bool {
        self.flags.is_json()
    }
}

pub(crate) async fn run(app: &App, args: CallArgs) -> Result<CommandExit, CommandFailure> {
    let (object, words) = args.flags.split(args.arguments)?;
    let roots = args.flags.roots(app)?;
    let loaded = app.calling_configuration(args.flags.gateway_use()).await?;
    let found = locate(app, &loaded, OfferKind::Tool, &args.tool, &roots).await?;
    offers(&loaded, found.server.name(), &found.name)?;
    let talk = InteractiveCall::new(app).with_roots(roots).with_timeout(args.flags.timeout);
    let arguments = complete(&talk, &found, object, &words).await?;
    let call = Call::tool(&found.name, Some(&arguments.to_raw()));
    let complete = talk.run_to_result(&found.server, &found.subject(), call).await?;
    let is_error = complete.is_tool_error();
    let kept = args.output.as_deref().map(|directory| result_text::keep_files(directory, &found.name, &complete.body));
    let kept = kept.transpose()?.unwrap_or_default();
    match app.output.form() {
        OutputFormat::Json => app.output.data(complete.body.raw().as_str())?,
        OutputFormat::Text if is_error => {
            app.output.message(|paint| result_text::tool_error(&found.subject(), &complete.body, paint))
        }
        OutputFormat::Text => result_text::tool_result(&app.output, &complete.body, &kept)?,
    }
    Ok(if is_error { CommandExit::Failed } else { CommandExit::Success })
}

/// The checked arguments, after asking for missing ones.
async fn complete(
    talk: &InteractiveCall<'_>,
    found: &LocatedOffer,
    mut object: ArgumentObject,
    words: &[String],
) -> Result<ArgumentObject, CommandFailure> {
    let tool = found.catalog.tool(&found.name);
    let schema: Value =
        tool.and_then(|tool| tool.input_schema()).and_then(|schema| schema.to_lossy().ok()).unwrap_or_default();
    let arguments = ToolArguments::new(schema);
    object.extend(arguments.read(words)?);
    let missing = arguments.missing(&object);
    if !missing.is_empty() {
        if !talk.is_interactive() {
            return Err(lacking(&found.subject(), &missing));
        }
        object.extend(ask(missing).await?.into());
    }
    arguments.check(&object).map_err(|misfits| {
        let details = misfits.iter().map(ToString::to_string).collect();
        CommandFailure::usage(format!("the arguments do not fit {}", found.subject())).with_details(details)
    })?;
    Ok(object)
}

async fn ask(missing: Vec<MissingArgument>) -> Result<Map<String, Value>, CommandFailure> {
    let field = |missing: MissingArgument| FormField { name: missing.name, shape: missing.shape, is_required: true };
    let fields: Vec<FormField> = missing.into_iter().map(field).collect();
    terminal::blocking(move || terminal::ask(&fields)).await
}

/// Lists the missing arguments, each with its type and description.
pub(super) fn lacking(subject: &str, missing: &[MissingArgument]) -> CommandFailure {
    let width = missing.iter().map(|missing| missing.name.len()).max().unwrap_or_default();
    let line = |missing: &MissingArgument| {
        let takes = missing.shape.describe();
        let description =
            missing.shape.description().map(|text| format!("  {}", text.replace('\n', " "))).unwrap_or_default();
        crate::output::printable(&format!("{:width$}  {takes}{description}", missing.name))
    };
    let words: Vec<String> = missing.iter().map(|missing| format!("{}=…", missing.name)).collect();
    let count = match missing.len() {
        1 => "one more argument".to_owned(),
        count => format!("{count} more arguments"),
    };
    CommandFailure::usage(format!("{subject} needs {count}"))
        .with_details(missing.iter().map(line).collect())
        .with_hint(format!("add {}", words.join(" ")))
}

//! `tsugi prompts`: lists prompts with their arguments.

use serde_json::{Value, json};
use tsugi_protocol::mcp::prompt::{PromptArgument, PromptDescription};

use super::first_line;
use crate::app::App;
use crate::app::running_gateway::GatewayUse;
use crate::failure::CommandFailure;
use crate::locate::reach_all;
use crate::output::OutputFormat;
use crate::output::table::TextTable;
use crate::report::exit::CommandExit;

/// List prompts
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:\n  tsugi prompts\n  tsugi prompt demo/explain-bmi bmi=22.86")]
pub(crate) struct PromptsArgs {
    /// Print data only
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    gateway_use: GatewayUse,
}

pub(crate) async fn run(app: &App, args: &PromptsArgs) -> Result<CommandExit, CommandFailure> {
    let loaded = app.calling_configuration(args.gateway_use).await?;
    let (ready, exit) = reach_all(app, &loaded, |_| true).await?;
    let prompts =
        ready.iter().flat_map(|(server, catalog)| catalog.prompts.items.iter().map(|prompt| (server.name(), prompt)));
    match app.output.form() {
        OutputFormat::Json => {
            let prompts: Vec<Value> = prompts.map(|(server, prompt)| described(server, prompt)).collect();
            app.output.json(&json!({"prompts": prompts}))?;
        }
        OutputFormat::Text => {
            let mut table = TextTable::new(["server", "prompt", "arguments", "description"]);
            for (server, prompt) in prompts {
                let arguments = prompt.arguments().iter().map(written).collect::<Vec<_>>().join(" ");
                table.row([server.to_owned(), prompt.name().to_owned(), arguments, first_line(prompt.description())]);
            }
            app.output.table(&table)?;
        }
    }
    Ok(exit)
}

fn described(server: &str, prompt: &PromptDescription) -> Value {
    let mut described: Value = prompt.object().raw().to_lossy().unwrap_or_default();
    described["server"] = server.into();
    described
}

/// Optional ones in brackets, as in a manual.
fn written(argument: &PromptArgument) -> String {
    if argument.required { argument.name.clone() } else { format!("[{}]", argument.name) }
}

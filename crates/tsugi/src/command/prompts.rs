//! `tsugi prompts`: the prompts there are, with the arguments each takes.

use serde_json::{Value, json};
use tsugi_protocol::mcp::prompt::{Prompt, PromptArgument};

use super::first_line;
use crate::app::App;
use crate::failure::Failure;
use crate::find::reach_all;
use crate::output::Form;
use crate::output::table::Table;
use crate::report::exit::Exit;

/// List the prompts of the servers
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  tsugi prompts\n  tsugi prompt demo/explain-bmi bmi=22.86")]
pub(crate) struct Args {
    /// Print data only
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(app: &App, _: &Args) -> Result<Exit, Failure> {
    let loaded = app.configuration()?;
    let (ready, exit) = reach_all(app, &loaded, |_| true).await?;
    let prompts =
        ready.iter().flat_map(|(server, catalog)| catalog.prompts.items.iter().map(|prompt| (server.name(), prompt)));
    match app.output.form() {
        Form::Json => {
            let prompts: Vec<Value> = prompts.map(|(server, prompt)| described(server, prompt)).collect();
            app.output.json(&json!({"prompts": prompts}))?;
        }
        Form::Text => {
            let mut table = Table::new(["server", "prompt", "arguments", "description"]);
            for (server, prompt) in prompts {
                let arguments = prompt.arguments().iter().map(written).collect::<Vec<_>>().join(" ");
                table.row([server.to_owned(), prompt.name().to_owned(), arguments, first_line(prompt.description())]);
            }
            app.output.table(&table)?;
        }
    }
    Ok(exit)
}

fn described(server: &str, prompt: &Prompt) -> Value {
    let mut described: Value = prompt.object().raw().to_shown().unwrap_or_default();
    described["server"] = server.into();
    described
}

/// Optional ones in brackets, as in a manual.
fn written(argument: &PromptArgument) -> String {
    if argument.required { argument.name.clone() } else { format!("[{}]", argument.name) }
}

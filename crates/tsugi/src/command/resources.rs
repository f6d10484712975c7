//! `tsugi resources`: what there is to read, and the patterns of what could be.

use serde_json::{Value, json};
use tsugi_protocol::mcp::resource::Resource;

use super::first_line;
use crate::app::App;
use crate::failure::Failure;
use crate::find::reach_all;
use crate::output::Form;
use crate::output::table::Table;
use crate::report::exit::Exit;

/// List the resources and resource templates of the servers
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Addresses with {braces} are templates: fill them in to read one.\n\nExamples:\n  tsugi resources\n  tsugi read demo://about\n  tsugi read demo://bmi/70/1.75"
)]
pub(crate) struct Args {
    /// Print data only
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(app: &App, _: &Args) -> Result<Exit, Failure> {
    let loaded = app.configuration()?;
    let (ready, exit) = reach_all(app, &loaded, |_| true).await?;
    let (mut resources, mut templates) = (Vec::new(), Vec::new());
    for (server, catalog) in &ready {
        resources.extend(catalog.resources.items.iter().map(|resource| (server.name(), resource)));
        templates.extend(catalog.templates.items.iter().map(|template| (server.name(), template)));
    }
    match app.output.form() {
        Form::Json => {
            app.output.json(&json!({"resources": described(&resources), "resourceTemplates": described(&templates)}))?
        }
        Form::Text => {
            let mut table = Table::new(["server", "uri", "name", "type", "description"]);
            for (server, resource) in resources.iter().chain(&templates) {
                table.row([
                    (*server).to_owned(),
                    resource.uri().to_owned(),
                    resource.name().unwrap_or_default(),
                    resource.mime_type().unwrap_or_default(),
                    first_line(resource.description()),
                ]);
            }
            app.output.table(&table)?;
        }
    }
    Ok(exit)
}

fn described(resources: &[(&str, &Resource)]) -> Vec<Value> {
    let describe = |(server, resource): &(&str, &Resource)| {
        let mut described: Value = resource.object().raw().to_shown().unwrap_or_default();
        described["server"] = (*server).into();
        described
    };
    resources.iter().map(describe).collect()
}

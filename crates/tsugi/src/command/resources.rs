//! `tsugi resources`: lists resources and resource templates.

use serde_json::{Value, json};
use tsugi_protocol::mcp::resource::ResourceDescription;

use super::first_line;
use crate::app::App;
use crate::app::running_gateway::GatewayUse;
use crate::failure::CommandFailure;
use crate::locate::reach_all;
use crate::output::OutputFormat;
use crate::output::table::TextTable;
use crate::report::exit::CommandExit;

/// List resources and resource templates
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = "Addresses with {braces} are templates: fill them in to read one.\n\nExamples:\n  tsugi resources\n  tsugi read demo://about\n  tsugi read demo://bmi/70/1.75"
)]
pub(crate) struct ResourcesArgs {
    /// Print data only
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    gateway_use: GatewayUse,
}

pub(crate) async fn run(app: &App, args: &ResourcesArgs) -> Result<CommandExit, CommandFailure> {
    let loaded = app.calling_configuration(args.gateway_use).await?;
    let (ready, exit) = reach_all(app, &loaded, |_| true).await?;
    let (mut resources, mut templates) = (Vec::new(), Vec::new());
    for (server, catalog) in &ready {
        resources.extend(catalog.resources.items.iter().map(|resource| (server.name(), resource)));
        templates.extend(catalog.templates.items.iter().map(|template| (server.name(), template)));
    }
    match app.output.form() {
        OutputFormat::Json => {
            app.output.json(&json!({"resources": described(&resources), "resourceTemplates": described(&templates)}))?
        }
        OutputFormat::Text => {
            let mut table = TextTable::new(["server", "uri", "name", "type", "description"]);
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

fn described(resources: &[(&str, &ResourceDescription)]) -> Vec<Value> {
    let describe = |(server, resource): &(&str, &ResourceDescription)| {
        let mut described: Value = resource.object().raw().to_lossy().unwrap_or_default();
        described["server"] = (*server).into();
        described
    };
    resources.iter().map(describe).collect()
}

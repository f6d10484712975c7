//! `tsugi tools`: lists tools for people, for programs, or in the format of a model provider.

mod tool_help;

use std::sync::Arc;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::{Value, json};
use tsugi_client::Server;
use tsugi_client::catalog::{Catalog, OmittedEntry};
use tsugi_protocol::mcp::tool::ToolDescription;
use tsugi_schema::dialect::{self, ConvertedTool, NamedTool, OpenAiStyle, SchemaDialect};
use tsugi_schema::tool_name::{NameMap, ToolNaming, ToolTarget};

use super::first_sentence;
use crate::app::running_gateway::GatewayUse;
use crate::app::{App, is_offered, offers, shown};
use crate::config::layer::{ConfigOrigin, LoadedConfig};
use crate::failure::CommandFailure;
use crate::locate::{OfferKind, locate, reach_all};
use crate::output::table::TextTable;
use crate::output::{OutputFormat, printable};
use crate::report::exit::CommandExit;

const EXAMPLES: &str = "\
Examples:
  tsugi tools
  tsugi tools files/read_text_file             one tool with its arguments and an example
  tsugi tools files                            the tools of one server
  tsugi tools --for openai > tools.json        for the parameter `tools` of the SDK
  tsugi tools --for gemini > tool.json         one `Tool` with every function: `tools: [it]`
  tsugi tools --for openai --report            reports on stderr what the format cannot express";

/// List tools, optionally in the format of a model provider
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct ToolsArgs {
    /// Show one tool with its arguments, or the tools of one server [default: list all tools]
    #[arg(value_name = "TOOL|SERVER", conflicts_with = "dialect")]
    name: Option<String>,
    /// Print data only
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the format of this provider's SDK
    #[arg(long = "for", value_name = "PROVIDER", value_parser = dialects())]
    dialect: Option<SchemaDialect>,
    /// With --for: report on stderr what the format cannot express
    #[arg(long, requires = "dialect")]
    report: bool,
    /// With --for openai: for the Chat Completions API instead of the Responses API
    #[arg(long, requires = "dialect")]
    chat: bool,
    #[command(flatten)]
    gateway_use: GatewayUse,
}

fn dialects() -> impl TypedValueParser<Value = SchemaDialect> {
    PossibleValuesParser::new(SchemaDialect::ALL.map(SchemaDialect::name))
        .try_map(|name| SchemaDialect::from_name(&name).ok_or("it is not known"))
}

struct ListedTool {
    server: Server,
    /// The server's own name for it.
    own: String,
    /// As the configuration shows it.
    tool: ToolDescription,
}

pub(crate) async fn run(app: &App, args: &ToolsArgs) -> Result<CommandExit, CommandFailure> {
    let mut loaded = app.calling_configuration(args.gateway_use).await?;
    if let Some(name) = &args.name {
        if !loaded.settings.servers.iter().any(|server| server.name == *name) {
            return show(app, &loaded, name).await;
        }
        loaded.settings.servers.retain(|server| server.name == *name);
    }
    // A missing server makes the list incomplete, not useless.
    let (ready, exit) = reach_all(app, &loaded, |_| true).await?;
    warn_left_out(app, &ready);
    let offered = offered(&loaded, &ready);
    match (args.dialect, app.output.form()) {
        (Some(dialect), _) => convert(app, args, dialect, &loaded, &offered)?,
        (None, OutputFormat::Json) => {
            let tools: Vec<Value> = offered.iter().map(described).collect();
            app.output.json(&json!({"tools": tools}))?;
        }
        (None, OutputFormat::Text) => app.output.table(&table(&offered))?,
    }
    Ok(exit)
}

/// One tool with its arguments.
async fn show(app: &App, loaded: &LoadedConfig, name: &str) -> Result<CommandExit, CommandFailure> {
    let found = locate(app, loaded, OfferKind::Tool, name, &[]).await?;
    offers(loaded, found.server.name(), &found.name)?;
    let Some(tool) = found.catalog.tool(&found.name) else {
        return Err(CommandFailure::usage(format!("{} is not described", found.subject())));
    };
    let tool = shown(loaded, found.server.name(), tool);
    match app.output.form() {
        OutputFormat::Json => {
            app.output.json(&described(&ListedTool { server: found.server.clone(), own: found.name.clone(), tool }))?
        }
        OutputFormat::Text => {
            let subject = printable(&format!("{}/{}", found.server.name(), tool.name()));
            tool_help::print(app, &subject, &tool)?;
        }
    }
    Ok(CommandExit::Success)
}

/// Warns of tools that cannot be shown.
fn warn_left_out(app: &App, ready: &[(Server, Arc<Catalog>)]) {
    for (server, catalog) in ready {
        for OmittedEntry { name, reason } in &catalog.tools.left_out {
            let subject = printable(&format!("{}/{name}", server.name()));
            app.output
                .message(|paint| format!("{}: {subject} is left out: {}", paint.warning("warning"), printable(reason)));
        }
    }
}

fn offered(loaded: &LoadedConfig, ready: &[(Server, Arc<Catalog>)]) -> Vec<ListedTool> {
    let mut offered = Vec::new();
    for (server, catalog) in ready {
        let tools = catalog.tools.items.iter().filter(|tool| is_offered(loaded, server.name(), tool.name()));
        offered.extend(tools.map(|tool| ListedTool {
            server: server.clone(),
            own: tool.name().to_owned(),
            tool: shown(loaded, server.name(), tool),
        }));
    }
    offered
}

fn table(offered: &[ListedTool]) -> TextTable {
    let mut table = TextTable::new(["server", "tool", "description"]);
    for ListedTool { server, tool, .. } in offered {
        table.row([server.name().to_owned(), tool.name().to_owned(), first_sentence(tool.description())]);
    }
    table
}

/// The tool as shown, with its server and timeout.
fn described(offered: &ListedTool) -> Value {
    let mut described: Value = offered.tool.object().raw().to_lossy().unwrap_or_default();
    described["server"] = offered.server.name().into();
    let config = offered.server.config();
    // The tool's own timeout wins over the server's.
    let own = config.tools.get(&offered.own).and_then(|tool| tool.timeout);
    described["timeout"] = own.or(config.timeout).map(|timeout| timeout.as_millis() as u64).into();
    described
}

/// The file's naming for the server, or for all. Ad-hoc servers keep their own names where these are unique.
fn naming(loaded: &LoadedConfig, server: &str) -> ToolNaming {
    // Nothing is configured for these, so the shortest unambiguous names are best.
    if matches!(loaded.origin, ConfigOrigin::AdHoc | ConfigOrigin::Variable) {
        return ToolNaming::PrefixOnConflict;
    }
    let own = loaded.settings.servers.iter().find(|settings| settings.name == server).and_then(|own| own.naming);
    own.unwrap_or(loaded.settings.gateway.naming)
}

fn convert(
    app: &App,
    args: &ToolsArgs,
    dialect: SchemaDialect,
    loaded: &LoadedConfig,
    offered: &[ListedTool],
) -> Result<(), CommandFailure> {
    let target = |offered: &ListedTool| ToolTarget::new(offered.server.name(), offered.tool.name());
    let named = offered.iter().map(|offered| (target(offered), naming(loaded, offered.server.name())));
    // Long names are shortened to what the provider accepts.
    let names = NameMap::build_each(named, dialect.longest_name());
    let schemas: Vec<Value> = offered.iter().map(|offered| schema_of(&offered.tool)).collect();
    let descriptions: Vec<String> =
        offered.iter().map(|offered| offered.tool.description().unwrap_or_default()).collect();
    let named: Vec<NamedTool<'_>> = (0..offered.len())
        .map(|index| NamedTool {
            // Every target was put in above; the fallback is for the compiler.
            name: names.name(&target(&offered[index])).unwrap_or_else(|| offered[index].tool.name()),
            description: &descriptions[index],
            input_schema: &schemas[index],
        })
        .collect();
    let openai_style = if args.chat { OpenAiStyle::Chat } else { OpenAiStyle::Responses };
    let options = dialect::DialectOptions { openai_style, ..dialect::DialectOptions::default() };
    // The whole list at once: some providers want one object around all tools.
    let (together, converted) = dialect::tools_for(dialect, &named, options);
    if args.report {
        report_losses(app, dialect, &named, &converted);
    }
    Ok(app.output.json(&together)?)
}

fn schema_of(tool: &ToolDescription) -> Value {
    tool.input_schema().and_then(|schema| schema.to_lossy().ok()).unwrap_or_else(|| json!({"type": "object"}))
}

fn report_losses(app: &App, dialect: SchemaDialect, named: &[NamedTool<'_>], converted: &[ConvertedTool]) {
    for (tool, converted) in named.iter().zip(converted) {
        for loss in &converted.losses {
            app.output.message(|paint| format!("{} {loss}", paint.strong(format!("{}:", tool.name))));
        }
    }
    let count: usize = converted.iter().map(|converted| converted.losses.len()).sum();
    let name = dialect.name();
    app.output.message(|paint| match count {
        0 => paint.good(format!("{name}: nothing is lost")),
        1 => format!("{name}: 1 difference"),
        count => format!("{name}: {count} differences"),
    });
}

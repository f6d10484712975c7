//! `tsugi read`: prints one resource, found by its URI.

use std::sync::Arc;

use serde_json::{Value, json};
use tsugi_client::Server;
use tsugi_client::catalog::Catalog;
use tsugi_protocol::answer::{Call, CompletedResult};
use tsugi_protocol::json::JsonObject;
use tsugi_protocol::mcp::Method;

use super::input::duration;
use super::result_text;
use crate::app::App;
use crate::app::running_gateway::GatewayUse;
use crate::config::layer::LoadedConfig;
use crate::failure::CommandFailure;
use crate::interactive_call::InteractiveCall;
use crate::locate::reach_all;
use crate::output::OutputFormat;
use crate::report::exit::CommandExit;

/// Read a resource
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = "Binary contents are written unchanged to a pipe or file; on a terminal only type and size are shown.\n\nExamples:\n  tsugi read demo://about\n  tsugi read --server files file:///tmp/picture.png > picture.png"
)]
pub(crate) struct ReadArgs {
    /// The URI, or server/URI
    uri: String,
    /// Print only the raw MCP result
    #[arg(long)]
    pub(crate) json: bool,
    /// How long the server may be silent, such as 90s, 5m or 500ms
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    timeout: Option<std::time::Duration>,
    #[command(flatten)]
    gateway_use: GatewayUse,
}

pub(crate) async fn run(app: &App, args: ReadArgs) -> Result<CommandExit, CommandFailure> {
    let mut loaded = app.calling_configuration(args.gateway_use).await?;
    let (server, uri) = split(&args.uri, &loaded);
    let (server, uri) = (server.map(str::to_owned), uri.to_owned());
    if let Some(name) = server {
        loaded.settings.servers.retain(|server| server.name == name);
    }
    let (ready, _) = reach_all(app, &loaded, |catalog| lists(catalog, &uri) || fits(catalog, &uri)).await?;
    let talk = InteractiveCall::new(app).with_timeout(args.timeout);
    let complete = read(&talk, &holders(&ready, &uri), &uri).await?;
    match app.output.form() {
        OutputFormat::Json => app.output.data(complete.body.raw().as_str())?,
        OutputFormat::Text => print(app, &complete.body)?,
    }
    Ok(CommandExit::Success)
}

/// Splits `server/URI`, if the left side is a configured server and what follows has a scheme.
fn split<'a>(word: &'a str, loaded: &LoadedConfig) -> (Option<&'a str>, &'a str) {
    let is_server = |name: &str| loaded.settings.servers.iter().any(|server| server.name == name);
    match word.split_once('/') {
        Some((server, uri)) if is_server(server) && uri.contains(':') => (Some(server), uri),
        _ => (None, word),
    }
}

/// The servers to ask, the likeliest first: those that list the URI; else those with a matching template prefix, then
/// all others with resources.
fn holders(ready: &[(Server, Arc<Catalog>)], uri: &str) -> Vec<Server> {
    let listing: Vec<Server> =
        ready.iter().filter(|(_, catalog)| lists(catalog, uri)).map(|(server, _)| server.clone()).collect();
    if !listing.is_empty() {
        return listing;
    }
    let able = ready.iter().filter(|(_, catalog)| catalog.identity.capabilities.has("resources"));
    let mut able: Vec<&(Server, Arc<Catalog>)> = able.collect();
    able.sort_by_key(|(_, catalog)| !fits(catalog, uri));
    able.into_iter().map(|(server, _)| server.clone()).collect()
}

fn lists(catalog: &Catalog, uri: &str) -> bool {
    catalog.resources.items.iter().any(|resource| resource.uri() == uri)
}

fn fits(catalog: &Catalog, uri: &str) -> bool {
    catalog.templates.items.iter().any(|template| begins_alike(template.uri(), uri))
}

/// Whether an address begins as a template does before its first variable.
fn begins_alike(template: &str, uri: &str) -> bool {
    let fixed = template.split('{').next().unwrap_or_default();
    !fixed.is_empty() && uri.starts_with(fixed)
}

/// Asks one server after the other. Reading has no effects, so asking the wrong one is harmless.
async fn read(talk: &InteractiveCall<'_>, servers: &[Server], uri: &str) -> Result<CompletedResult, CommandFailure> {
    let mut failure = None;
    for server in servers {
        let call = Call::new(Method::ResourcesRead, JsonObject::from(json!({"uri": uri})));
        let subject = format!("{}: {uri}", server.name());
        match talk.run_to_result(server, &subject, call).await {
            Ok(complete) => return Ok(complete),
            Err(CommandFailure::Interrupted) => return Err(CommandFailure::Interrupted),
            Err(first) => _ = failure.get_or_insert(first),
        }
    }
    Err(failure.unwrap_or_else(|| {
        CommandFailure::usage("no server has resources").with_hint("`tsugi servers` shows how they stand")
    }))
}

fn print(app: &App, body: &JsonObject) -> Result<(), CommandFailure> {
    let parts: Vec<Value> = body.get("contents").and_then(|contents| contents.to_lossy().ok()).unwrap_or_default();
    for part in &parts {
        match result_text::bytes_of_contents(part).filter(|_| !app.output.is_data_watched()) {
            Some(bytes) => app.output.bytes(&bytes)?,
            None => app.output.data(&result_text::text_of_contents(part))?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_recognised_by_its_beginning() {
        assert!(begins_alike("demo://bmi/{weight}/{height}", "demo://bmi/70/1.75"));
        assert!(!begins_alike("demo://bmi/{weight}", "demo://about"));
        assert!(!begins_alike("{+any}", "demo://about"));
    }
}

//! How a server's settings show its tools to commands: which of them, under which names, with which words.

use globset::{Glob, GlobSet, GlobSetBuilder};
use tsugi_client::catalog::Catalog;
use tsugi_protocol::answer::{Fault, FaultCode};
use tsugi_protocol::json::{JsonObject, ObjectWriter, RawJson};
use tsugi_protocol::mcp::tool::ToolDescription;

use crate::config::layer::LoadedConfig;
use crate::config::settings::{ServerSettings, ToolSettings};

/// Whether the configuration offers this tool of this server.
pub(crate) fn is_offered(loaded: &LoadedConfig, server: &str, tool: &str) -> bool {
    settings(loaded, server).is_none_or(|settings| lets_through(settings, tool))
}

/// The name under which a tool is shown.
pub(crate) fn shown_name<'a>(loaded: &'a LoadedConfig, server: &str, own: &'a str) -> &'a str {
    tool_settings(loaded, server, own).and_then(|tool| tool.rename.as_deref()).unwrap_or(own)
}

/// The server's own name for what `word` names: a tool that is shown so, or else one that is really called so.
pub(crate) fn own_name(loaded: &LoadedConfig, server: &str, catalog: &Catalog, word: &str) -> Option<String> {
    let own = |is_it: &dyn Fn(&str) -> bool| {
        catalog.tools.items.iter().map(ToolDescription::name).find(|name| is_it(name)).map(str::to_owned)
    };
    own(&|name| is_shown_as(loaded, server, name, word)).or_else(|| own(&|name| name == word))
}

/// Whether a tool is offered under this name.
pub(crate) fn is_shown_as(loaded: &LoadedConfig, server: &str, own: &str, word: &str) -> bool {
    shown_name(loaded, server, own) == word && is_offered(loaded, server, own)
}

/// The tool with the name and the words that the configuration gives it.
pub(crate) fn shown(loaded: &LoadedConfig, server: &str, tool: &ToolDescription) -> ToolDescription {
    let Some(settings) = tool_settings(loaded, server, tool.name()) else { return tool.clone() };
    let renamed = settings.rename.as_ref().map_or_else(|| tool.object().raw(), |name| tool.renamed(name));
    let described = match &settings.description {
        Some(description) => with_description(&renamed, description),
        None => renamed,
    };
    ToolDescription::from_raw(&described).unwrap_or_else(|| tool.clone())
}

fn with_description(tool: &RawJson, description: &str) -> RawJson {
    let Some(object) = JsonObject::of(tool) else { return tool.clone() };
    let mut described = ObjectWriter::with_capacity(tool.bytes().len() + description.len());
    described.members_except(&object, &["description"]).string("description", description);
    described.finish()
}

fn settings<'a>(loaded: &'a LoadedConfig, server: &str) -> Option<&'a ServerSettings> {
    loaded.settings.servers.iter().find(|settings| settings.name == server)
}

fn tool_settings<'a>(loaded: &'a LoadedConfig, server: &str, own: &str) -> Option<&'a ToolSettings> {
    settings(loaded, server)?.tools.get(own)
}

/// As [`is_offered`], as a refusal.
pub(crate) fn offers(loaded: &LoadedConfig, server: &str, tool: &str) -> Result<(), Fault> {
    if is_offered(loaded, server, tool) {
        return Ok(());
    }
    let fault = Fault::new(FaultCode::PermissionDenied, "the configuration does not offer this tool");
    Err(fault.on_server(server).on_tool(tool).with_hint("see `allow`, `deny` and `hidden` in the server's entry"))
}

fn lets_through(settings: &ServerSettings, tool: &str) -> bool {
    let is_hidden = settings.tools.get(tool).is_some_and(|settings| settings.hidden);
    !is_hidden && set(&settings.filter.allow).is_match(tool) && !set(&settings.filter.deny).is_match(tool)
}

/// The globs were checked when the configuration was read.
fn set(globs: &[String]) -> GlobSet {
    let mut builder = GlobSetBuilder::new();
    globs.iter().filter_map(|glob| Glob::new(glob).ok()).for_each(|glob| _ = builder.add(glob));
    builder.build().unwrap_or_default()
}

//! The tools of all servers under public names; without it two tools with one name would hide each other.

use std::collections::HashSet;
use std::sync::Arc;

use tsugi_client::Server;
use tsugi_client::catalog::Catalog;
use tsugi_pins::PinKind;
use tsugi_protocol::json::{JsonObject, ObjectWriter, RawJson};
use tsugi_protocol::mcp::tool::ToolDescription;
use tsugi_schema::header_param::HeaderParams;
use tsugi_schema::tool_name::{MAX_NAME, NameMap, ToolNaming, ToolTarget};

use super::{KnownCatalogs, PublicEntry, PublicNames};
use crate::hub::HubConfig;
use crate::hub::app;
use crate::hub::extension::ExtensionDirectory;
use crate::hub::presentation::ServerPresentation;
use crate::telemetry::GatewayMetrics;

/// A tool that is not shown as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NameClash {
    pub(crate) server: String,
    /// What is the matter with it.
    pub(crate) text: String,
}

/// A tool that is shown, under this name of its server's.
struct OfferedTool<'a> {
    server: &'a Server,
    tool: &'a ToolDescription,
    shape: &'a ServerPresentation,
    local: String,
}

/// The tools of all servers, and what is the matter with their names.
pub(super) fn tools(
    known: &KnownCatalogs<'_>,
    unknown: &[&Server],
    config: &HubConfig,
    metrics: &GatewayMetrics,
    extensions: &ExtensionDirectory,
    has_several: bool,
) -> (PublicNames, Vec<NameClash>) {
    let plain = ServerPresentation::default();
    let (mut all, mut clashes) = (Vec::new(), Vec::new());
    for (server, catalog) in known {
        let shape = config.presentations.get(server.name()).unwrap_or(&plain);
        all.extend(offered(server, catalog, shape, &mut clashes));
    }
    let target = |offered: &OfferedTool<'_>| ToolTarget::new(offered.server.name(), &offered.local);
    let offered = all.iter().map(|offered| (target(offered), config.naming_of(offered.server.name())));
    let map = NameMap::build_each(offered.chain(reserved(unknown, PinKind::Tool, config)), MAX_NAME);
    let mut names = PublicNames::default();
    for offered in &all {
        let Some(name) = map.name(&target(offered)) else { continue };
        if config.listing.reserves(name) {
            let text = format!("its tool {:?} is not shown: tool search has that name", offered.tool.name());
            clashes.push(NameClash { server: offered.server.name().to_owned(), text });
            continue;
        }
        let mut entry = entry(offered, name, metrics, extensions);
        if has_several {
            entry.shown = app::with_public_page(entry.shown, offered.server.name());
        }
        names.push(name.to_owned(), entry);
    }
    (names, clashes)
}

/// The pinned names of servers that do not tell what they have: no other server takes them until they do.
pub(super) fn reserved<'a>(
    unknown: &'a [&Server],
    kind: PinKind,
    config: &'a HubConfig,
) -> impl Iterator<Item = (ToolTarget, ToolNaming)> + 'a {
    unknown.iter().flat_map(move |server| {
        let (name, naming) = (server.name().to_owned(), config.naming_of(server.name()));
        server.pinned_names(kind).into_iter().map(move |own| (ToolTarget::new(&name, own), naming))
    })
}

/// The tools of one server that are shown, each once and under a unique name.
fn offered<'a>(
    server: &'a Server,
    catalog: &'a Catalog,
    shape: &'a ServerPresentation,
    clashes: &mut Vec<NameClash>,
) -> impl Iterator<Item = OfferedTool<'a>> {
    let mut clash = |text| clashes.push(NameClash { server: server.name().to_owned(), text });
    let (mut seen, mut tools) = (HashSet::new(), Vec::new());
    for tool in catalog.tools.items.iter().filter(|tool| shape.allows(tool.name())) {
        match seen.insert(tool.name()) {
            true => tools.push(tool),
            false => clash(format!("it lists the tool {:?} more than once: the first is shown", tool.name())),
        }
    }
    let locals = shape.names(&tools.iter().map(|tool| tool.name()).collect::<Vec<_>>());
    for (tool, local) in tools.iter().zip(&locals).filter(|(tool, local)| shape.name(tool.name()) != *local) {
        let (own, taken) = (tool.name(), shape.name(tool.name()));
        clash(format!("its tool {own:?} is shown as {local:?}: another one is called {taken:?} already"));
    }
    tools.into_iter().zip(locals).map(move |(tool, local)| OfferedTool { server, tool, shape, local })
}

fn entry(
    offered: &OfferedTool<'_>,
    name: &str,
    metrics: &GatewayMetrics,
    extensions: &ExtensionDirectory,
) -> PublicEntry {
    let OfferedTool { server, tool, shape, local } = offered;
    PublicEntry {
        server: (*server).clone(),
        own: tool.name().to_owned(),
        local: (local != tool.name()).then(|| local.clone()),
        shown: describe(tool, name, shape.description(tool.name())),
        header_params: header_params(tool),
        meter: Some(metrics.meter(server.name(), tool.name())),
        extensions: extensions.of(server.name()).cloned(),
    }
}

fn describe(tool: &ToolDescription, name: &str, description: Option<&str>) -> RawJson {
    let renamed = if tool.name() == name { tool.object().raw() } else { tool.renamed(name) };
    describe_as(renamed, description)
}

/// The same tool with this description, where there is one.
pub(in crate::hub) fn describe_as(tool: RawJson, description: Option<&str>) -> RawJson {
    let (Some(description), Some(object)) = (description, JsonObject::of(&tool)) else { return tool };
    let mut described = ObjectWriter::with_capacity(tool.bytes().len() + description.len());
    described.members_except(&object, &["description"]).string("description", description);
    described.finish()
}

fn header_params(tool: &ToolDescription) -> Option<Arc<HeaderParams>> {
    let params = HeaderParams::of(&tool.input_schema()?.to().ok()?).ok()?;
    (!params.is_empty()).then(|| Arc::new(params))
}

//! Which tools a server's settings let through.

use globset::{Glob, GlobSet, GlobSetBuilder};
use tsugi_protocol::answer::{Fault, FaultCode};

use crate::config::layer::Loaded;
use crate::config::settings::ServerSettings;

/// Whether the configuration offers this tool of this server.
pub(crate) fn is_offered(loaded: &Loaded, server: &str, tool: &str) -> bool {
    let settings = loaded.settings.servers.iter().find(|settings| settings.name == server);
    settings.is_none_or(|settings| lets_through(settings, tool))
}

/// As [`is_offered`], as a refusal.
pub(crate) fn offers(loaded: &Loaded, server: &str, tool: &str) -> Result<(), Fault> {
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

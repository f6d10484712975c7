//! Which of the configured servers a command uses.

use crate::config::key::nearest;
use crate::config::layer::{ConfigOrigin, LoadedConfig};
use crate::config::settings::ServerSettings;
use crate::failure::CommandFailure;

/// The servers of these names; all that are switched on where none is named.
pub(crate) fn select<'a>(
    loaded: &'a LoadedConfig,
    names: &[String],
) -> Result<Vec<&'a ServerSettings>, CommandFailure> {
    if !names.is_empty() {
        return names.iter().map(|name| named(loaded, name)).collect();
    }
    let servers: Vec<&ServerSettings> = loaded.settings.servers.iter().filter(|server| server.enabled).collect();
    if servers.is_empty() { Err(none(loaded)) } else { Ok(servers) }
}

/// The server of this name.
pub(crate) fn named<'a>(loaded: &'a LoadedConfig, name: &str) -> Result<&'a ServerSettings, CommandFailure> {
    let servers = &loaded.settings.servers;
    match servers.iter().find(|server| server.name == name) {
        Some(server) if server.enabled => Ok(server),
        Some(_) => Err(CommandFailure::usage(format!("the server `{name}` is switched off"))
            .with_hint("take `disabled` (or `enabled: false`) out of its entry")),
        None => Err(unknown(name, servers)),
    }
}

fn unknown(name: &str, servers: &[ServerSettings]) -> CommandFailure {
    let names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
    let failure = CommandFailure::usage(format!("there is no server `{name}`"));
    match nearest(name, names.iter().copied()) {
        Some(near) => failure.with_hint(format!("did you mean `{near}`?")),
        None if names.is_empty() => failure,
        None => failure.with_hint(format!("there are {}", names.join(", "))),
    }
}

fn none(loaded: &LoadedConfig) -> CommandFailure {
    let place = match &loaded.origin {
        ConfigOrigin::Named(path) | ConfigOrigin::WorkingDirectory(path) | ConfigOrigin::User(path) => {
            format!("`{}`", path.display())
        }
        _ => "the configuration".to_owned(),
    };
    let message = match loaded.settings.servers.is_empty() {
        true => format!("{place} has no servers"),
        false => format!("every server of {place} is switched off"),
    };
    CommandFailure::usage(message).with_hint("give one on the command line: --command \"npx …\" or --url https://…")
}

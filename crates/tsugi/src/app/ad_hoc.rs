//! What flags add to a server given by `--command` or `--url`: its name, headers and variables.

use http::{HeaderName, HeaderValue};

use crate::cli::GlobalFlags;
use crate::config::env::Environment;
use crate::config::layer::{ConfigOrigin, LoadedConfig};
use crate::config::parse;
use crate::config::secret::{MaskedText, header_secrets, is_secret_name, is_secret_value, is_secret_variable};
use crate::config::settings::{CommandTarget, RemoteTarget, ServerTarget};
use crate::failure::CommandFailure;

/// Puts the flags where they belong, or says why they belong nowhere.
pub(super) fn apply(
    loaded: &mut LoadedConfig,
    common: &GlobalFlags,
    environment: &Environment,
) -> Result<(), CommandFailure> {
    if !common.headers.is_empty() {
        add_headers(loaded, &common.headers)?;
    }
    if !common.env.is_empty() {
        add_variables(loaded, &common.env, environment)?;
    }
    match (&loaded.origin, common.servers.as_slice()) {
        (ConfigOrigin::AdHoc, [name]) => rename(loaded, name),
        (ConfigOrigin::AdHoc, [_, _, ..]) => {
            Err(CommandFailure::usage("a server given by --command or --url cannot have several names"))
        }
        _ => Ok(()),
    }
}

fn rename(loaded: &mut LoadedConfig, name: &str) -> Result<(), CommandFailure> {
    let name = parse::name(name).map_err(|expected| {
        CommandFailure::usage(format!("`{name}` cannot be a server's name: expected {}", expected.what))
    })?;
    if let Some(server) = loaded.settings.servers.first_mut() {
        server.name = name;
    }
    Ok(())
}

fn add_headers(loaded: &mut LoadedConfig, headers: &[String]) -> Result<(), CommandFailure> {
    let is_ours = matches!(loaded.origin, ConfigOrigin::AdHoc | ConfigOrigin::Variable);
    let pairs: Vec<(String, MaskedText)> =
        headers.iter().map(|header| read_header(header)).collect::<Result<_, _>>()?;
    let mut remotes = remotes(loaded).filter(|_| is_ours).peekable();
    if remotes.peek().is_none() {
        return Err(CommandFailure::usage("--header needs a server given by --url")
            .with_hint("use it with --url; the headers of other servers stand in the configuration"));
    }
    remotes.for_each(|remote| remote.headers.extend(pairs.iter().cloned()));
    loaded.settings.secrets.extend(pairs.iter().flat_map(|(name, value)| header_secrets(name, &value.expose())));
    Ok(())
}

fn remotes(loaded: &mut LoadedConfig) -> impl Iterator<Item = &mut RemoteTarget> {
    loaded.settings.servers.iter_mut().filter_map(|server| match &mut server.target {
        ServerTarget::Remote(remote) => Some(remote),
        _ => None,
    })
}

/// `Name: value`. The value is not repeated in a complaint: it is where secrets are.
fn read_header(header: &str) -> Result<(String, MaskedText), CommandFailure> {
    let (name, value) = header.split_once(':').unwrap_or((header, ""));
    let (name, value) = (name.trim(), value.trim());
    if HeaderName::try_from(name).is_err() || HeaderValue::try_from(value).is_err() || !header.contains(':') {
        let hint = "write it as --header \"Name: value\"";
        return Err(CommandFailure::usage("this is not a header").with_hint(hint));
    }
    Ok((name.to_owned(), MaskedText::plain(value).into_secret()))
}

fn add_variables(loaded: &mut LoadedConfig, words: &[String], environment: &Environment) -> Result<(), CommandFailure> {
    let pairs: Vec<(String, MaskedText)> =
        words.iter().map(|word| variable(word, environment)).collect::<Result<_, _>>()?;
    let secrets: Vec<_> = pairs.iter().flat_map(|(_, value)| value.secrets().cloned()).collect();
    let Some(command) = spot_command(loaded) else {
        return Err(CommandFailure::usage("--env needs a program given by --command")
            .with_hint("use it with --command; the variables of other servers stand in the configuration"));
    };
    command.env.retain(|(known, _)| pairs.iter().all(|(name, _)| name != known));
    command.env.extend(pairs);
    loaded.settings.secrets.extend(secrets);
    Ok(())
}

fn spot_command(loaded: &mut LoadedConfig) -> Option<&mut CommandTarget> {
    let is_spot = loaded.origin == ConfigOrigin::AdHoc;
    match loaded.settings.servers.first_mut().filter(|_| is_spot).map(|server| &mut server.target) {
        Some(ServerTarget::Command(command)) => Some(command),
        _ => None,
    }
}

fn variable(word: &str, environment: &Environment) -> Result<(String, MaskedText), CommandFailure> {
    let (name, value) = match word.split_once('=') {
        Some((name, value)) => (name, value),
        // A value from the environment is masked as in a file. One that was typed is masked only if it looks secret.
        None => {
            let value = environment
                .get(word)
                .ok_or_else(|| CommandFailure::usage(format!("the variable `{word}` of --env is not set")))?;
            let text = MaskedText::plain(value);
            let text = if is_secret_variable(word, value) { text.into_secret() } else { text };
            return Ok((word.to_owned(), text));
        }
    };
    if name.is_empty() {
        return Err(CommandFailure::usage("--env needs a name").with_hint("write it as NAME=VALUE, or NAME"));
    }
    Ok((name.to_owned(), hidden(name, value)))
}

fn hidden(name: &str, value: &str) -> MaskedText {
    let text = MaskedText::plain(value);
    if is_secret_name(name) || is_secret_value(value) { text.into_secret() } else { text }
}

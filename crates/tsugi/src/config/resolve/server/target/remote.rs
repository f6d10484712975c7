//! A server that runs elsewhere: its address, transport and headers.

use url::Url;

use super::{SettingsReader, SettingsSection, without_effect};
use crate::config::document::{ConfigNode, NodeEntry};
use crate::config::key::SettingKey;
use crate::config::resolve::tls::read_server_tls;
use crate::config::resolve::{EntryTrust, credentials};
use crate::config::secret::{self, MASK, MaskedText, Secret};
use crate::config::settings::{
    RemoteTarget, RemoteTransport, ServerTlsSettings, UpstreamAuthMode, UpstreamAuthSettings, server,
};

/// Reads the address and what belongs to it.
pub(super) fn read(reader: &mut SettingsReader<'_>, section: &SettingsSection<'_>) -> Option<RemoteTarget> {
    let local: [&'static SettingKey; 5] =
        [&server::ARGS, &server::ENV, &server::ENV_FILE, &server::CWD, &server::SANDBOX];
    without_effect(reader, section, "url", &local);
    let node = section.get(&server::URL)?;
    let transport = reader.or_default(section, &server::TRANSPORT);
    // A client cannot take the guard off its own server.
    let is_guarded = reader.or_default(section, &server::GUARDED) || reader.trust != EntryTrust::Own;
    let headers = headers(reader, section);
    let text = reader.text(node)?;
    let Some(url) = Url::parse(&text.expose()).ok().filter(is_reachable) else {
        let shown = secret::conceal(&text.to_string());
        let expected = "expected an address that begins with http://, https://, ws:// or wss://";
        reader.problem(node, format!("`url` cannot be `{shown}`: {expected}"));
        return None;
    };
    let transport = fit_transport(reader, node, section, &url, transport)?;
    let shown = showable(reader, &text, &url);
    let guard = is_guarded.then(|| reader.outbound.clone());
    let tls = tls(reader, section, &url);
    let auth = auth(reader, section, transport);
    Some(RemoteTarget { shown, url, headers, transport, guard, tls, auth })
}

/// How tsugi signs in. MCP defines OAuth for its HTTP wires alone.
fn auth(
    reader: &mut SettingsReader<'_>,
    section: &SettingsSection<'_>,
    transport: RemoteTransport,
) -> Option<UpstreamAuthSettings> {
    let node = section.get(&server::AUTH)?;
    let settings = credentials::read(reader, node)?;
    let is_header = settings.mode == UpstreamAuthMode::Header;
    if transport == RemoteTransport::Websocket && !is_header {
        reader.problem(node, "a WebSocket has no sign-in: give a key in `headers`");
    }
    let names_header = |entry: &NodeEntry| entry.key.eq_ignore_ascii_case("authorization");
    let headers = section.get(&server::HEADERS).and_then(ConfigNode::entries).unwrap_or_default();
    if !is_header && headers.iter().any(names_header) {
        reader.problem(node, "`auth` and the header `Authorization` exclude each other; one of them must go");
    }
    Some(settings)
}

/// How the connection is secured. An address without TLS cannot have any of it: that would be a false sense of safety.
fn tls(reader: &mut SettingsReader<'_>, section: &SettingsSection<'_>, url: &Url) -> ServerTlsSettings {
    let Some(node) = section.get(&server::TLS) else { return ServerTlsSettings::default() };
    if !matches!(url.scheme(), "https" | "wss") {
        reader.problem(node, format!("`tls` does not fit an address that begins with {}://", url.scheme()));
    }
    read_server_tls(reader, node)
}

fn is_reachable(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https" | "ws" | "wss") && url.host_str().is_some_and(|host| !host.is_empty())
}

/// The transport must be one that the address can carry; `ws://` says it all by itself.
fn fit_transport(
    reader: &mut SettingsReader<'_>,
    node: &ConfigNode,
    section: &SettingsSection<'_>,
    url: &Url,
    transport: RemoteTransport,
) -> Option<RemoteTransport> {
    let is_websocket = matches!(url.scheme(), "ws" | "wss");
    match (is_websocket, transport) {
        (true, RemoteTransport::Auto | RemoteTransport::Websocket) => Some(RemoteTransport::Websocket),
        (false, RemoteTransport::Websocket) | (true, _) => {
            let place = section.get(&server::TRANSPORT).unwrap_or(node);
            let message = format!("this transport does not fit an address that begins with {}://", url.scheme());
            reader.problem(place, message);
            None
        }
        (false, _) => Some(transport),
    }
}

fn headers(reader: &mut SettingsReader<'_>, section: &SettingsSection<'_>) -> Vec<(String, MaskedText)> {
    let Some(node) = section.get(&server::HEADERS) else { return Vec::new() };
    for entry in node.entries().unwrap_or_default() {
        let is_name = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        if entry.key.is_empty() || !entry.key.chars().all(is_name) {
            let problem = reader.source.problem(entry.key_span, format!("`{}` is not a header's name", entry.key));
            reader.problems.push(problem);
        }
    }
    let pairs: Vec<(String, MaskedText)> =
        reader.pairs("headers", node).into_iter().map(|(name, value)| (name, value.into_secret())).collect();
    for (name, value) in &pairs {
        reader.secrets.extend(secret::header_secrets(name, &value.expose()));
    }
    // A line break would let a value add headers of its own.
    if pairs.iter().any(|(_, value)| value.expose().contains(['\r', '\n', '\0'])) {
        reader.problem(node, "a header's value must be a single line");
    }
    pairs
}

/// The address without its password, the values of secret parameters, segments that look like tokens, and what came from
/// variables. What is left out is masked everywhere else too.
fn showable(reader: &mut SettingsReader<'_>, text: &MaskedText, url: &Url) -> String {
    reader.secrets.extend(url.password().map(Secret::new));
    let parameters = url.query_pairs().filter(|(name, value)| is_hidden(name, value));
    reader.secrets.extend(parameters.map(|(_, value)| Secret::new(value)));
    let segments = url.path_segments().into_iter().flatten().filter(|segment| secret::looks_like_token(segment));
    reader.secrets.extend(segments.map(Secret::new));
    match Url::parse(&text.to_string()) {
        Ok(shown) => masked(shown).to_string(),
        Err(_) => secret::conceal(&text.to_string()),
    }
}

fn is_hidden(name: &str, value: &str) -> bool {
    secret::is_secret_name(name) || secret::is_secret_value(value)
}

fn masked(mut url: Url) -> Url {
    let segments = url.path().split('/').map(|segment| if secret::looks_like_token(segment) { MASK } else { segment });
    let path = segments.collect::<Vec<_>>().join("/");
    url.set_path(&path);
    if url.password().is_some() {
        url.set_password(Some(MASK)).expect("an address with a password can have another one");
    }
    let pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
    if pairs.iter().any(|(name, value)| is_hidden(name, value)) {
        let shown = pairs.iter().map(|(name, value)| (name, if is_hidden(name, value) { MASK } else { value }));
        url.query_pairs_mut().clear().extend_pairs(shown);
    }
    url
}

//! How tsugi signs in to remote servers, and where that is kept, checked before anything starts.

use std::path::PathBuf;

use tsugi_auth::endpoint::{PlainHttp, parse_endpoint};
use tsugi_auth::issuer_metadata::discovery_addresses;
use tsugi_vault::seal::VaultKey;

use super::EntryTrust;
use super::gateway::{read_secret, required};
use super::reader::{SettingsReader, SettingsSection};
use crate::config::document::ConfigNode;
use crate::config::key::{Setting, SettingKey};
use crate::config::secret::Secret;
use crate::config::secret_command::SecretCommand;
use crate::config::settings::{
    UpstreamAuthMode, UpstreamAuthSettings, UpstreamClientSettings, UpstreamProviderSettings, VaultSettings,
    secret_command, secrets, upstream_auth, upstream_client, upstream_provider, vault,
};

/// Reads `secrets`, before anything may refer to it.
pub(super) fn read_secrets(reader: &mut SettingsReader<'_>, node: Option<&ConfigNode>) {
    let section = SettingsSection::open(reader, node, &secrets::TABLE);
    let Some(commands) = section.get(&secrets::COMMANDS) else { return };
    let Some(entries) = commands.entries() else {
        reader.problem(commands, format!("`commands` must be a map, but this is {}", commands.kind()));
        return;
    };
    for entry in entries {
        let section = SettingsSection::open(reader, Some(&entry.node), &secret_command::TABLE);
        let run = reader.optional_list(&section, &secret_command::RUN).unwrap_or_default();
        let ttl = reader.or_default(&section, &secret_command::TTL);
        if run.is_empty() {
            reader.problem(
                &entry.node,
                "`run` is missing here: the program and its arguments, such as `[pass, show, x]`",
            );
        }
        reader.expander.add_command(&entry.key, SecretCommand { run, ttl });
    }
}

/// Reads `vault`.
pub(super) fn read_vault(reader: &mut SettingsReader<'_>, node: Option<&ConfigNode>) -> VaultSettings {
    let section = SettingsSection::open(reader, node, &vault::TABLE);
    let settings = VaultSettings {
        file: path(reader, &section, &vault::FILE),
        url: section.get(&vault::URL).and_then(|node| read_secret(reader, node)),
        key: vault_key(reader, &section, &vault::KEY),
        previous_key: vault_key(reader, &section, &vault::PREVIOUS_KEY),
    };
    if let (Some(node), true) = (section.get(&vault::URL), settings.key.is_none() || settings.file.is_some()) {
        reader.problem(node, "`url` needs `key`, and takes the place of `file`");
    }
    let is_database =
        |url: &Secret| url.expose().starts_with("postgres://") || url.expose().starts_with("postgresql://");
    if let (Some(node), Some(false)) = (section.get(&vault::URL), settings.url.as_ref().map(is_database)) {
        reader.problem(node, "`url` must begin with postgres://");
    }
    if let (Some(node), None) = (section.get(&vault::PREVIOUS_KEY), section.get(&vault::KEY)) {
        reader.problem(node, "`previousKey` needs `key`: without it the key stands in a file, which has both");
    }
    settings
}

fn vault_key(
    reader: &mut SettingsReader<'_>,
    section: &SettingsSection<'_>,
    key: &'static SettingKey,
) -> Option<Secret> {
    let node = section.get(key)?;
    let secret = read_secret(reader, node)?;
    match VaultKey::parse(secret.expose()) {
        Ok(_) => Some(secret),
        Err(problem) => {
            reader.problem(node, problem.to_string());
            None
        }
    }
}

/// Reads `servers[].auth`.
pub(super) fn read(reader: &mut SettingsReader<'_>, node: &ConfigNode) -> Option<UpstreamAuthSettings> {
    // It names files of ours, and who we are to others.
    if reader.trust != EntryTrust::Own {
        reader.problem(node, "`auth` cannot come over the network: write the server into the configuration");
        return None;
    }
    let section = SettingsSection::open(reader, Some(node), &upstream_auth::TABLE);
    node.entries()?;
    let mode = reader.or_default(&section, &upstream_auth::MODE);
    let client = section.get(&upstream_auth::CLIENT);
    let metadata_url = client.and_then(|node| read_metadata_url(reader, node));
    let client = client.and_then(|node| read_client(reader, node, metadata_url.is_some()));
    let provider = section.get(&upstream_auth::PROVIDER).and_then(|node| read_provider(reader, node));
    let settings = UpstreamAuthSettings {
        mode,
        scopes: reader.list_or_default(&section, &upstream_auth::SCOPES),
        issuer: issuer(reader, node, &section, &upstream_auth::ISSUER),
        client,
        metadata_url,
        token_file: path(reader, &section, &upstream_auth::TOKEN_FILE),
        provider,
        quirks: reader.list_or_default(&section, &upstream_auth::QUIRKS),
        legacy_discovery: reader.or_default(&section, &upstream_auth::LEGACY_DISCOVERY),
    };
    check_mode(reader, node, &settings);
    Some(settings)
}

/// What each way of signing in cannot do without.
fn check_mode(reader: &mut SettingsReader<'_>, node: &ConfigNode, settings: &UpstreamAuthSettings) {
    let client = settings.client.as_ref();
    let has_proof = client.is_some_and(|client| client.secret.is_some() || client.key.is_some());
    let missing = match settings.mode {
        UpstreamAuthMode::Oauth | UpstreamAuthMode::Header => None,
        _ if client.is_none() => Some("this mode needs `client.id`: the authorization server must know tsugi already"),
        UpstreamAuthMode::ClientCredentials if !has_proof => {
            Some("`mode: clientCredentials` needs `client.secret` or `client.key`")
        }
        UpstreamAuthMode::Workload if settings.token_file.is_none() => Some("`mode: workload` needs `tokenFile`"),
        UpstreamAuthMode::Enterprise if settings.provider.is_none() => Some("`mode: enterprise` needs `provider`"),
        _ => None,
    };
    if let Some(missing) = missing {
        reader.problem(node, missing);
    }
}

fn read_metadata_url(reader: &mut SettingsReader<'_>, node: &ConfigNode) -> Option<String> {
    let found = node.get(upstream_client::METADATA_URL.name)?;
    let text = reader.value(upstream_client::METADATA_URL.name, found, upstream_client::METADATA_URL.value.parse)?;
    let is_usable = parse_endpoint(&text, PlainHttp::Refused).is_some_and(|url| url.path() != "/");
    if !is_usable {
        reader.problem(found, "`metadataUrl` must be an https address with a path");
    }
    Some(text)
}

/// A client by its identifier; `None` for one that is described by a document alone.
fn read_client(
    reader: &mut SettingsReader<'_>,
    node: &ConfigNode,
    has_document: bool,
) -> Option<UpstreamClientSettings> {
    let section = SettingsSection::open(reader, Some(node), &upstream_client::TABLE);
    node.entries()?;
    if section.get(&upstream_client::ID).is_none() && has_document {
        return None;
    }
    let id = required(reader, node, &section, &upstream_client::ID);
    let secret = section.get(&upstream_client::SECRET).and_then(|node| read_secret(reader, node));
    let key = path(reader, &section, &upstream_client::KEY);
    if secret.is_some() && key.is_some() {
        reader.problem(node, "a client has `secret` or `key`, not both");
    }
    Some(UpstreamClientSettings {
        secret,
        key,
        key_id: reader.optional(&section, &upstream_client::KEY_ID),
        algorithm: reader.or_default(&section, &upstream_client::ALGORITHM),
        issuer: issuer(reader, node, &section, &upstream_client::ISSUER),
        id: id?,
    })
}

fn read_provider(reader: &mut SettingsReader<'_>, node: &ConfigNode) -> Option<UpstreamProviderSettings> {
    let section = SettingsSection::open(reader, Some(node), &upstream_provider::TABLE);
    node.entries()?;
    let (issuer, client_id) = (
        required(reader, node, &section, &upstream_provider::ISSUER),
        required(reader, node, &section, &upstream_provider::CLIENT_ID),
    );
    let token_file = path(reader, &section, &upstream_provider::TOKEN_FILE);
    if section.get(&upstream_provider::TOKEN_FILE).is_none() {
        reader.problem(node, "`tokenFile` is missing here");
    }
    Some(UpstreamProviderSettings {
        client_secret: section.get(&upstream_provider::CLIENT_SECRET).and_then(|node| read_secret(reader, node)),
        issuer: issuer?,
        client_id: client_id?,
        token_file: token_file?,
    })
}

fn issuer(
    reader: &mut SettingsReader<'_>,
    node: &ConfigNode,
    section: &SettingsSection<'_>,
    key: &'static Setting<String>,
) -> Option<String> {
    let found = reader.optional(section, key)?;
    // Whether plain http is allowed is decided when it is used.
    if discovery_addresses(&found, PlainHttp::LoopbackOnly).is_none() {
        reader.problem(node, "`issuer` must be an https address without query and fragment");
    }
    Some(found)
}

fn path(reader: &mut SettingsReader<'_>, section: &SettingsSection<'_>, key: &'static SettingKey) -> Option<PathBuf> {
    section.get(key).and_then(|node| reader.path(node))
}

//! How the servers are offered to callers.

use std::time::SystemTime;

use tsugi_gateway::guard::api_key::{KeyRole, SecretDigest};

use super::reader::{SettingsReader, SettingsSection};
use super::{certificates, oauth};
use crate::config::document::ConfigNode;
use crate::config::key::Setting;
use crate::config::secret::Secret;
use crate::config::settings::{
    ADMIN, AdminSettings, AuthSettings, GatewaySettings, KeySettings, LimitSettings, OptionSettings, ToolFilter, admin,
    api_key, auth, gateway, limits, previous_key,
};

/// As long as the key that is made of it.
const SHORTEST_STATE_KEY: usize = 32;

/// What `tsugi key add` makes is far longer; this keeps out words.
const SHORTEST_API_KEY: usize = 20;

/// Reads `gateway`.
pub(super) fn read(
    reader: &mut SettingsReader<'_>,
    node: Option<&ConfigNode>,
    options: &OptionSettings,
) -> GatewaySettings {
    let section = SettingsSection::open(reader, node, &gateway::TABLE);
    let settings = gateway(reader, &section, options);
    if let (None, false, Some(node)) = (&settings.public_url, settings.auth.oauth.is_off(), section.get(&gateway::AUTH))
    {
        let message = "`auth.issuers` needs `gateway.publicUrl`: tokens are issued for that address";
        let problem = reader.source.problem(node.span, message);
        reader
            .problems
            .push(problem.with_hint("write `publicUrl: https://…`, the address under which clients know the gateway"));
    }
    let asks_for_certificates = settings.tls.as_ref().is_some_and(|tls| tls.client_auth.is_some());
    if let (Some(_), false, Some(node)) =
        (&settings.auth.certificates, asks_for_certificates, section.get(&gateway::AUTH))
    {
        let problem = reader.source.problem(node.span, "`auth.certificates` needs `gateway.tls.clientAuth`");
        let hint = "write `tls: {clientAuth: required, clientCa: ca.pem, …}`, so that callers are asked for one";
        reader.problems.push(problem.with_hint(hint));
    }
    settings
}

pub(in crate::config) fn read_auth(reader: &mut SettingsReader<'_>, node: &ConfigNode) -> AuthSettings {
    let section = SettingsSection::open(reader, Some(node), &auth::TABLE);
    let keys = section.get(&auth::KEYS).map(|node| read_keys(reader, node)).unwrap_or_default();
    let oauth = oauth::read(reader, &section);
    let certificates = section.get(&auth::CERTIFICATES).map(|node| certificates::read(reader, node));
    let ways = [&auth::KEYS.key, &auth::ADMIN_KEY.key, &auth::ISSUERS.key, &auth::CERTIFICATES.key];
    if ways.into_iter().all(|key| section.get(key).is_none()) {
        reader.problem(
            node,
            "`auth` lets no client in: it has neither `keys` nor `adminKey` nor `issuers` nor `certificates`",
        );
    }
    let admin_key = section.get(&auth::ADMIN_KEY).and_then(|node| read_api_key(reader, node));
    if admin_key.is_some() && keys.iter().any(|key| key.name == ADMIN) {
        reader.problem(node, format!("a key is called `{ADMIN}`, and so is `adminKey`: give that key another name"));
    }
    AuthSettings { keys, admin_key, oauth, certificates }
}

fn read_keys(reader: &mut SettingsReader<'_>, node: &ConfigNode) -> Vec<KeySettings> {
    match node.items() {
        Some(items) => {
            let keys = items.iter().filter_map(|item| read_key(reader, item)).collect();
            reader.reject_duplicates(node, "key");
            keys
        }
        None => {
            reader.problem(node, format!("`keys` must be a list, but this is {}", node.kind()));
            Vec::new()
        }
    }
}

pub(super) fn read_secret(reader: &mut SettingsReader<'_>, node: &ConfigNode) -> Option<Secret> {
    let text = reader.text(node)?;
    if text.is_empty() {
        reader.problem(node, "a key must not be empty");
        return None;
    }
    reader.hide(text).secrets().next().cloned()
}

/// The secret of a caller. A short one could be found by trying; of a hash nothing is known, so it is trusted.
fn read_api_key(reader: &mut SettingsReader<'_>, node: &ConfigNode) -> Option<Secret> {
    let secret = read_secret(reader, node)?;
    if secret.expose().chars().count() < SHORTEST_API_KEY {
        let message = format!("a key must have at least {SHORTEST_API_KEY} characters: shorter ones can be guessed");
        let problem = reader.source.problem(node.span, message);
        reader.problems.push(problem.with_hint("`tsugi key add --print NAME` makes a key and its hash"));
    }
    Some(secret)
}

/// A key that can be guessed would let a caller make up states of its own.
pub(in crate::config) fn read_state_key(reader: &mut SettingsReader<'_>, node: &ConfigNode) -> Option<Secret> {
    let secret = read_secret(reader, node)?;
    if secret.expose().len() < SHORTEST_STATE_KEY {
        let message = format!("`stateKey` must have at least {SHORTEST_STATE_KEY} characters");
        let problem = reader.source.problem(node.span, message).with_hint("`openssl rand -hex 32` makes one");
        reader.problems.push(problem);
    }
    Some(secret)
}

fn read_key(reader: &mut SettingsReader<'_>, node: &ConfigNode) -> Option<KeySettings> {
    let section = SettingsSection::open(reader, Some(node), &api_key::TABLE);
    node.entries()?;
    let name = required(reader, node, &section, &api_key::NAME);
    let key = section.get(&api_key::KEY).and_then(|node| read_api_key(reader, node));
    let hash = section.get(&api_key::HASH).and_then(|node| read_hash(reader, node));
    if section.get(&api_key::KEY).is_some() == section.get(&api_key::HASH).is_some() {
        reader.problem(node, "an API key has exactly one of `key` and `hash`");
    }
    Some(KeySettings {
        role: read_role(reader, &section),
        filter: ToolFilter {
            allow: reader.list_or_default(&section, &api_key::ALLOW),
            deny: reader.list_or_default(&section, &api_key::DENY),
        },
        tenant: reader.optional(&section, &api_key::TENANT),
        expires: reader.optional(&section, &api_key::EXPIRES),
        previous: section.get(&api_key::PREVIOUS).and_then(|node| read_previous(reader, node)),
        per_minute: reader.optional(&section, &api_key::PER_MINUTE),
        max_in_flight: reader.optional(&section, &api_key::MAX_IN_FLIGHT),
        name: name?,
        digest: key.map(|key| SecretDigest::of(key.expose())).or(hash)?,
    })
}

fn read_previous(reader: &mut SettingsReader<'_>, node: &ConfigNode) -> Option<(SecretDigest, SystemTime)> {
    let section = SettingsSection::open(reader, Some(node), &previous_key::TABLE);
    node.entries()?;
    let key = section.get(&previous_key::KEY).and_then(|node| read_api_key(reader, node));
    let hash = section.get(&previous_key::HASH).and_then(|node| read_hash(reader, node));
    if section.get(&previous_key::KEY).is_some() == section.get(&previous_key::HASH).is_some() {
        reader.problem(node, "the previous key has exactly one of `key` and `hash`");
    }
    if section.get(&previous_key::UNTIL).is_none() {
        // Without an end, an old key would stay valid for ever.
        reader.problem(node, "`until` is missing here");
    }
    let until = reader.optional(&section, &previous_key::UNTIL);
    Some((key.map(|key| SecretDigest::of(key.expose())).or(hash)?, until?))
}

fn read_hash(reader: &mut SettingsReader<'_>, node: &ConfigNode) -> Option<SecretDigest> {
    let hash = read_secret(reader, node)?;
    let digest = SecretDigest::parse(hash.expose());
    if digest.is_none() {
        let problem = reader.source.problem(node.span, "`hash` is not a SHA-256 of 64 hexadecimal digits");
        reader.problems.push(problem.with_hint("`tsugi key add --print` makes a key and its hash"));
    }
    digest
}

fn read_role(reader: &mut SettingsReader<'_>, section: &SettingsSection<'_>) -> KeyRole {
    let is_admin = reader.or_default(section, &api_key::ADMIN);
    let is_reader = reader.or_default(section, &api_key::READ_ONLY);
    if let (true, true, Some(node)) = (is_admin, is_reader, section.get(&api_key::READ_ONLY)) {
        reader.problem(node, "a key that only looks cannot be one that controls: take out `readOnly` or `admin`");
    }
    match (is_reader, is_admin) {
        (true, _) => KeyRole::Reader,
        (false, true) => KeyRole::Admin,
        (false, false) => KeyRole::User,
    }
}

/// The text of a key that must be there.
pub(super) fn required(
    reader: &mut SettingsReader<'_>,
    node: &ConfigNode,
    section: &SettingsSection<'_>,
    key: &'static Setting<String>,
) -> Option<String> {
    if section.get(key).is_none() {
        reader.problem(node, format!("`{}` is missing here", key.name));
    }
    reader.optional(section, key)
}

pub(in crate::config) fn read_limits(reader: &mut SettingsReader<'_>, node: Option<&ConfigNode>) -> LimitSettings {
    let section = SettingsSection::open(reader, node, &limits::TABLE);
    limits(reader, &section)
}

pub(in crate::config) fn read_admin(reader: &mut SettingsReader<'_>, node: Option<&ConfigNode>) -> AdminSettings {
    let section = SettingsSection::open(reader, node, &admin::TABLE);
    admin(reader, &section)
}

//! How people sign in at the dashboard through an issuer, checked before anything starts.

use tsugi_auth::scope::is_scope;
use tsugi_gateway::guard::api_key::KeyRole;

use super::gateway::{read_secret, required};
use super::reader::{SettingsReader, SettingsSection};
use crate::config::document::ConfigNode;
use crate::config::settings::{SignInSettings, sign_in};

/// Reads `signIn` of an issuer, whose name is the label unless there is one.
pub(super) fn read(reader: &mut SettingsReader<'_>, node: &ConfigNode, issuer: Option<&str>) -> Option<SignInSettings> {
    let section = SettingsSection::open(reader, Some(node), &sign_in::TABLE);
    node.entries()?;
    let client_id = required(reader, node, &section, &sign_in::CLIENT_ID);
    let scopes = reader.list_or_default(&section, &sign_in::SCOPES);
    if let Some(wrong) = scopes.iter().find(|scope| !is_scope(scope)) {
        reader.problem(node, format!("`{wrong}` is not a scope: scopes are printable ASCII without spaces and quotes"));
    }
    if !scopes.iter().any(|scope| scope == "openid") {
        reader.problem(node, "`scopes` must hold `openid`: without it the provider sends no ID token");
    }
    let default_role: Option<String> = reader.optional(&section, &sign_in::DEFAULT_ROLE);
    let default_role = default_role.and_then(|text| match text.as_str() {
        "user" => Some(KeyRole::User),
        "readOnly" => Some(KeyRole::Reader),
        _ => {
            let message = format!("`{text}` cannot be the default role: it is `user` or `readOnly`");
            let hint = "an administrator is named by a claim: see `claims.roles` and `roles`";
            reader.problems.push(reader.source.problem(node.span, message).with_hint(hint));
            None
        }
    });
    Some(SignInSettings {
        client_secret: section.get(&sign_in::CLIENT_SECRET).and_then(|node| read_secret(reader, node)),
        label: reader.optional(&section, &sign_in::LABEL).or(issuer.map(str::to_owned)).unwrap_or_default(),
        scopes,
        default_role,
        idle_timeout: reader.or_default(&section, &sign_in::IDLE_TIMEOUT),
        max_age: reader.or_default(&section, &sign_in::MAX_AGE),
        client_id: client_id?,
    })
}

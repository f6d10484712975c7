//! Certificates and keys: which files, and what is expected of a server.

use super::EntryTrust;
use super::reader::{SettingsReader, SettingsSection};
use crate::config::document::ConfigNode;
use crate::config::key::SettingKey;
use crate::config::settings::{
    AcmeChallenge, AcmeSettings, ClientAuthSettings, ClientAuthWord, KeyPairSettings, ListenerTlsSettings,
    ServerTlsSettings, acme, certificate, listener_tls, server_tls,
};

/// Reads `gateway.tls`.
pub(in crate::config) fn read_tls(reader: &mut SettingsReader<'_>, node: &ConfigNode) -> Option<ListenerTlsSettings> {
    let section = SettingsSection::open(reader, Some(node), &listener_tls::TABLE);
    let first = pair(reader, node, &section, &listener_tls::CERT, &listener_tls::KEY);
    let redirect = reader.optional(&section, &listener_tls::REDIRECT);
    let client_auth = client_auth(reader, node, &section);
    let acme = section.get(&listener_tls::ACME).and_then(|node| read_acme(reader, node));
    if let Some(acme) = &acme {
        check_reachable(reader, node, acme, redirect.is_some(), client_auth.as_ref());
        if first.is_some() {
            reader.problem(node, "`acme` takes the place of `cert` and `key`: more pairs belong in `certificates`");
        }
    }
    let ordered = acme.as_ref().map(AcmeSettings::certificate_file);
    let ordered = ordered.map(|file| KeyPairSettings { cert: file.clone(), key: file });
    let mut certificates: Vec<KeyPairSettings> = ordered.into_iter().chain(first).collect();
    if let Some(list) = section.get(&listener_tls::CERTIFICATES) {
        certificates.extend(more_pairs(reader, list));
    }
    if certificates.is_empty()
        && section.get(&listener_tls::ACME).is_none()
        && section.get(&listener_tls::CERT).is_none()
        && section.get(&listener_tls::KEY).is_none()
    {
        reader.problem(node, "`tls` needs `cert` and `key`, or `acme`");
    }
    (!certificates.is_empty()).then_some(ListenerTlsSettings { certificates, redirect, acme, client_auth })
}

/// Reads `gateway.tls.acme`.
fn read_acme(reader: &mut SettingsReader<'_>, node: &ConfigNode) -> Option<AcmeSettings> {
    if !cfg!(feature = "acme") {
        reader.problem(node, "this program was built without ACME; build it with `--features acme`");
        return None;
    }
    let section = SettingsSection::open(reader, Some(node), &acme::TABLE);
    let domains = reader.list_or_default(&section, &acme::DOMAINS);
    if domains.is_empty() {
        reader.problem(node, "`acme` needs `domains`: the names that the certificate is for");
    }
    let is_host = |name: &String| !name.contains('*') && crate::config::parse::server_name(name).is_ok();
    if let Some(name) = domains.iter().find(|name| !is_host(name)) {
        reader.problem(node, format!("`{name}` is not a name that these challenges can prove"));
    }
    if !reader.or_default(&section, &acme::ACCEPT_TERMS) {
        reader.problem(node, "read the terms of service of the authority, then say `acceptTerms: true`");
    }
    let directory = reader.or_default(&section, &acme::DIRECTORY);
    if !directory.starts_with("https://") {
        reader.problem(node, "`directory` is an https address");
    }
    let storage = match section.get(&acme::STORAGE) {
        Some(node) => reader.path(node)?,
        None => reader.beside_file("acme"),
    };
    Some(AcmeSettings {
        domains,
        directory,
        email: reader.optional(&section, &acme::EMAIL),
        challenge: reader.or_default(&section, &acme::CHALLENGE),
        ca: reader.paths(&section, &acme::CA).unwrap_or_default(),
        storage,
    })
}

/// Complains of settings with which the authority could not see a proof.
fn check_reachable(
    reader: &mut SettingsReader<'_>,
    node: &ConfigNode,
    acme: &AcmeSettings,
    has_redirect: bool,
    client_auth: Option<&ClientAuthSettings>,
) {
    match acme.challenge {
        AcmeChallenge::Http if !has_redirect => {
            reader.problem(node, "`challenge: http-01` needs `redirect`: the plain address that the authority asks");
        }
        AcmeChallenge::TlsAlpn if client_auth.is_some_and(|auth| auth.is_required) => {
            reader
                .problem(node, "the authority shows no certificate: `clientAuth: required` needs `challenge: http-01`");
        }
        _ => {}
    }
}

/// Whose certificates are believed. A list of authorities without `clientAuth` would look like protection.
fn client_auth(
    reader: &mut SettingsReader<'_>,
    node: &ConfigNode,
    section: &SettingsSection<'_>,
) -> Option<ClientAuthSettings> {
    let mode = reader.or_default(section, &listener_tls::CLIENT_AUTH);
    let settings = ClientAuthSettings {
        is_required: mode == ClientAuthWord::Required,
        ca: reader.paths(section, &listener_tls::CLIENT_CA).unwrap_or_default(),
        crl: reader.paths(section, &listener_tls::CLIENT_CRL).unwrap_or_default(),
        names: reader.list_or_default(section, &listener_tls::CLIENT_NAMES),
        trust_domain: reader.optional(section, &listener_tls::TRUST_DOMAIN),
    };
    if mode == ClientAuthWord::Off {
        let unused = [&listener_tls::CLIENT_CA.key, &listener_tls::CLIENT_CRL.key, &listener_tls::TRUST_DOMAIN.key];
        if let Some(key) = unused.into_iter().find(|key| section.get(key).is_some()) {
            let message = format!("`{}` needs `clientAuth: optional` or `clientAuth: required`", key.name);
            reader.problem(node, message);
        }
        return None;
    }
    if settings.ca.is_empty() {
        reader.problem(node, "`clientAuth` needs `clientCa`: the authorities of callers' certificates");
    }
    if settings.names.is_empty() {
        reader.problem(node, "`clientNames` is empty: no certificate could name a caller");
    }
    let is_domain = |domain: &String| {
        let is_letter = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'-' | b'_');
        !domain.is_empty() && domain.bytes().all(is_letter)
    };
    if settings.trust_domain.as_ref().is_some_and(|domain| !is_domain(domain)) {
        reader.problem(node, "`trustDomain` is a domain alone, in small letters, such as `corp.example`");
    }
    Some(settings)
}

fn more_pairs(reader: &mut SettingsReader<'_>, list: &ConfigNode) -> Vec<KeyPairSettings> {
    let Some(items) = list.items() else {
        reader.problem(list, format!("`certificates` must be a list, but this is {}", list.kind()));
        return Vec::new();
    };
    let mut pairs = Vec::with_capacity(items.len());
    for item in items {
        let section = SettingsSection::open(reader, Some(item), &certificate::TABLE);
        let found = pair(reader, item, &section, &certificate::CERT, &certificate::KEY);
        if found.is_none() && section.get(&certificate::CERT).is_none() {
            reader.problem(item, "a pair has both `cert` and `key`");
        }
        pairs.extend(found);
    }
    pairs
}

/// Both files of a pair; one without the other is a problem.
fn pair(
    reader: &mut SettingsReader<'_>,
    node: &ConfigNode,
    section: &SettingsSection<'_>,
    cert: &'static SettingKey,
    key: &'static SettingKey,
) -> Option<KeyPairSettings> {
    match (section.get(cert), section.get(key)) {
        (Some(cert), Some(key)) => {
            let (cert, key) = (reader.path(cert), reader.path(key));
            Some(KeyPairSettings { cert: cert?, key: key? })
        }
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => {
            reader.problem(node, "`cert` and `key` belong together: one of them is missing");
            None
        }
    }
}

/// Reads `servers[].tls`.
pub(in crate::config) fn read_server_tls(reader: &mut SettingsReader<'_>, node: &ConfigNode) -> ServerTlsSettings {
    let section = SettingsSection::open(reader, Some(node), &server_tls::TABLE);
    let names_files = [&server_tls::CA.key, &server_tls::CERT.key, &server_tls::KEY.key];
    // A client that adds a server must not make us open files of our machine.
    if reader.trust != EntryTrust::Own && names_files.into_iter().any(|key| section.get(key).is_some()) {
        reader.problem(node, "files are not read for entries that come over the network");
        return ServerTlsSettings::default();
    }
    let settings = ServerTlsSettings {
        ca: reader.paths(&section, &server_tls::CA).unwrap_or_default(),
        only: reader.or_default(&section, &server_tls::ONLY),
        client: pair(reader, node, &section, &server_tls::CERT, &server_tls::KEY),
        server_name: reader.optional(&section, &server_tls::SERVER_NAME),
        pin: reader.list_or_default(&section, &server_tls::PIN),
    };
    if settings.only && settings.ca.is_empty() {
        reader.problem(node, "`only` trusts `ca` alone, and there is no `ca`");
    }
    settings
}

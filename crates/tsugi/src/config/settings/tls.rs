//! Settings of TLS: certificates of the gateway, and what is expected of one server.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::Serialize;
use tsugi_tls::client_auth::{ClientAuthFiles, ClientAuthMode, NameSource};
use tsugi_tls::key_pair::KeyPairFiles;

use crate::config::key::settings;
use crate::config::key::shape::SchemaShape::*;
use crate::config::key::value::{ADDRESS, CERTIFICATE_NAME, CERTIFICATE_PARTS, FLAG, PINS, TEXT, by_hand, keyword};
#[allow(unused_imports, reason = "the maps below are read by hand")]
use crate::config::resolve::reader::{SettingsReader, SettingsSection};

settings! {
    listener_tls at "gateway.tls": "Certificates, with which the gateway speaks HTTPS. Changed files are used for new connections at once; if they cannot be used, the old ones stay."
    keys {
        CERT: () = "cert", by_hand(Path), "", "The certificate chain, as a PEM file: its own certificate first.";
        KEY: () = "key", by_hand(Path), "", "The private key of `cert`, as a PEM file.";
        CERTIFICATES: () = "certificates", by_hand(Tables("gateway.tls.certificates[]")), "[]", "More pairs. The host that a client names decides which one it sees; `cert` is for all others.";
        REDIRECT: SocketAddr = "redirect", ADDRESS, "", "A plain address, such as `0.0.0.0:80`, that answers `GET` with a redirect to HTTPS and refuses everything else.";
        CLIENT_AUTH: ClientAuthWord = "clientAuth", keyword(), "off", "Whether callers are asked for a certificate. With `optional`, callers without one need a key or a token. A key or token in a request comes before the certificate. `auth.certificates` says what their holders may do.";
        CLIENT_CA: () = "clientCa", by_hand(Paths), "[]", "The authorities of callers' certificates, as PEM files; needed with `clientAuth`. Changed files are used at once, and connections whose certificate is not trusted any more lose their rights.";
        CLIENT_CRL: () = "clientCrl", by_hand(Paths), "[]", "Lists of revoked certificates, as PEM files. When there are any, each authority needs a current one.";
        CLIENT_NAMES: CertificatePart = "clientNames", CERTIFICATE_PARTS, "[\"uri\", \"dns\", \"key\"]", "Which part of a certificate names the caller: the first of these that it has. `uri` and `dns` are alternative names, `cn` is of the subject, `key` the SHA-256 of the public key.";
        TRUST_DOMAIN: String = "trustDomain", TEXT, "", "Only SPIFFE IDs of this domain name callers, in place of `clientNames`.";
    }
}

settings! {
    certificate at "gateway.tls.certificates[]": "One more pair of certificate and key."
    keys {
        CERT: () = "cert", by_hand(Path), "", "The certificate chain, as a PEM file.";
        KEY: () = "key", by_hand(Path), "", "Its private key, as a PEM file.";
    }
}

settings! {
    server_tls at "servers[].tls": "How connections to an `https` or `wss` address are secured. Verification cannot be switched off."
    keys {
        CA: () = "ca", by_hand(Paths), "[]", "Authorities that are trusted beside those of the system, as PEM files.";
        ONLY: bool = "only", FLAG, "false", "Trust `ca` alone.";
        CERT: () = "cert", by_hand(Path), "", "The certificate that is shown to the server, as a PEM file.";
        KEY: () = "key", by_hand(Path), "", "The private key of `cert`, as a PEM file.";
        SERVER_NAME: String = "serverName", CERTIFICATE_NAME, "", "The name that the server's certificate must have. Default: the host of `url`.";
        PIN: String = "pin", PINS, "[]", "The SHA-256 of the server's public key, as `sha256//` and base64 or as hexadecimal digits. The certificate must be trusted as well. Several are for the time of a change.";
    }
}

/// Certificates of the gateway.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListenerTlsSettings {
    /// At least one.
    pub(crate) certificates: Vec<KeyPairSettings>,
    pub(crate) redirect: Option<SocketAddr>,
    /// Absent when callers are not asked for a certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) client_auth: Option<ClientAuthSettings>,
}

/// Whether callers are asked for a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ClientAuthWord {
    Off,
    Optional,
    Required,
}

/// A part of a certificate that can name its holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CertificatePart {
    Uri,
    Dns,
    Cn,
    Key,
}

/// Whose certificates are believed, and what names their holders.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClientAuthSettings {
    pub(crate) is_required: bool,
    pub(crate) ca: Vec<PathBuf>,
    pub(crate) crl: Vec<PathBuf>,
    pub(crate) names: Vec<CertificatePart>,
    pub(crate) trust_domain: Option<String>,
}

impl ClientAuthSettings {
    pub(crate) fn files(&self) -> ClientAuthFiles {
        let source = |part: &CertificatePart| match part {
            CertificatePart::Uri => NameSource::Uri,
            CertificatePart::Dns => NameSource::Dns,
            CertificatePart::Cn => NameSource::CommonName,
            CertificatePart::Key => NameSource::Key,
        };
        ClientAuthFiles {
            mode: if self.is_required { ClientAuthMode::Required } else { ClientAuthMode::Optional },
            ca: self.ca.clone(),
            crl: self.crl.clone(),
            names: self.names.iter().map(source).collect(),
            trust_domain: self.trust_domain.clone(),
        }
    }
}

/// Where a certificate and its key are.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct KeyPairSettings {
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
}

impl KeyPairSettings {
    pub(crate) fn files(&self) -> KeyPairFiles {
        KeyPairFiles { cert: self.cert.clone(), key: self.key.clone() }
    }
}

/// How connections to one server are secured.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServerTlsSettings {
    pub(crate) ca: Vec<PathBuf>,
    pub(crate) only: bool,
    pub(crate) client: Option<KeyPairSettings>,
    pub(crate) server_name: Option<String>,
    pub(crate) pin: Vec<String>,
}

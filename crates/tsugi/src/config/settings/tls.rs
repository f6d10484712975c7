//! Settings of TLS: certificates of the gateway, and what is expected of one server.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::Serialize;
use tsugi_tls::client_auth::{ClientAuthFiles, ClientAuthMode, NameSource};
use tsugi_tls::key_pair::KeyPairFiles;

use crate::config::key::settings;
use crate::config::key::shape::SchemaShape::*;
use crate::config::key::value::{ADDRESS, CERTIFICATE_NAME, CERTIFICATE_PARTS, FLAG, PINS, TEXT, TEXTS, keyword};
#[allow(unused_imports, reason = "the maps below are read by hand")]
use crate::config::resolve::reader::{SettingsReader, SettingsSection};

settings! {
    /// Certificates, with which the gateway speaks HTTPS. Changed files are used for new connections at once; if they
    /// cannot be used, the old ones stay.
    listener_tls at "gateway.tls"
    keys {
        /// The certificate chain, as a PEM file: its own certificate first.
        CERT = key("cert") shape(Path);
        /// The private key of `cert`, as a PEM file.
        KEY = key("key") shape(Path);
        /// More pairs. The host that a client names decides which one it sees; `cert` is for all others.
        CERTIFICATES = key("certificates") shape(Tables("gateway.tls.certificates[]")) default("[]");
        /// Get the certificate from an ACME authority such as Let's Encrypt, in place of `cert` and `key`. Needs a build
        /// with the feature `acme`.
        ACME = key("acme") shape(Table("gateway.tls.acme"));
        /// A plain address, such as `0.0.0.0:80`, that answers `GET` with a redirect to HTTPS and refuses everything
        /// else.
        REDIRECT: SocketAddr = key("redirect") value(ADDRESS);
        /// Whether callers are asked for a certificate. With `optional`, callers without one need a key or a token. A
        /// key or token in a request comes before the certificate. `auth.certificates` says what their holders may do.
        CLIENT_AUTH: ClientAuthWord = key("clientAuth") value(keyword()) default("off");
        /// The authorities of callers' certificates, as PEM files; needed with `clientAuth`. Changed files are used at
        /// once, and connections whose certificate is not trusted any more lose their rights.
        CLIENT_CA = key("clientCa") shape(Paths) default("[]");
        /// Lists of revoked certificates, as PEM files. When there are any, each authority needs a current one.
        CLIENT_CRL = key("clientCrl") shape(Paths) default("[]");
        /// Which part of a certificate names the caller: the first of these that it has. `uri` and `dns` are
        /// alternative names, `cn` is of the subject, `key` the SHA-256 of the public key.
        CLIENT_NAMES: CertificatePart =
            key("clientNames") value(CERTIFICATE_PARTS) default("[\"uri\", \"dns\", \"key\"]");
        /// Only SPIFFE IDs of this domain name callers, in place of `clientNames`.
        TRUST_DOMAIN: String = key("trustDomain") value(TEXT);
    }
}

settings! {
    /// A certificate that an ACME authority (RFC 8555) issues and that is renewed by itself.
    acme at "gateway.tls.acme"
    keys {
        /// The names that the certificate is for. Wildcards are not possible.
        DOMAINS: String = key("domains") value(TEXTS) default("[]");
        /// The directory of the authority.
        DIRECTORY: String =
            key("directory") value(TEXT) default("\"https://acme-v02.api.letsencrypt.org/directory\"");
        /// Whether you accept the terms of service of the authority. Without it nothing is ordered.
        ACCEPT_TERMS: bool = key("acceptTerms") value(FLAG) default("false");
        /// Where the authority can reach you.
        EMAIL: String = key("email") value(TEXT);
        /// How the authority sees that a name is yours: on port 443 by TLS, or on port 80 by HTTP, which needs
        /// `redirect`.
        CHALLENGE: AcmeChallenge = key("challenge") value(keyword()) default("tls-alpn-01");
        /// Authorities that are trusted for connections to `directory`, beside those of the system, as PEM files.
        CA = key("ca") shape(Paths) default("[]");
        /// A folder for the account and the certificate, which only its owner can read.
        STORAGE = key("storage") shape(Path) default("acme");
    }
}

settings! {
    /// One more pair of certificate and key.
    certificate at "gateway.tls.certificates[]"
    keys {
        /// The certificate chain, as a PEM file.
        CERT = key("cert") shape(Path);
        /// Its private key, as a PEM file.
        KEY = key("key") shape(Path);
    }
}

settings! {
    /// How connections to an `https` or `wss` address are secured. Verification cannot be switched off.
    server_tls at "servers[].tls"
    keys {
        /// Authorities that are trusted beside those of the system, as PEM files.
        CA = key("ca") shape(Paths) default("[]");
        /// Trust `ca` alone.
        ONLY: bool = key("only") value(FLAG) default("false");
        /// The certificate that is shown to the server, as a PEM file.
        CERT = key("cert") shape(Path);
        /// The private key of `cert`, as a PEM file.
        KEY = key("key") shape(Path);
        /// The name that the server's certificate must have. Default: the host of `url`.
        SERVER_NAME: String = key("serverName") value(CERTIFICATE_NAME);
        /// The SHA-256 of the server's public key, as `sha256//` and base64 or as hexadecimal digits. The certificate
        /// must be trusted as well. Several are for the time of a change.
        PIN: String = key("pin") value(PINS) default("[]");
    }
}

/// Certificates of the gateway.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListenerTlsSettings {
    /// At least one.
    pub(crate) certificates: Vec<KeyPairSettings>,
    pub(crate) redirect: Option<SocketAddr>,
    /// Where the first of the certificates comes from, if not from an operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) acme: Option<AcmeSettings>,
    /// Absent when callers are not asked for a certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) client_auth: Option<ClientAuthSettings>,
}

/// A certificate that an ACME authority issues.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AcmeSettings {
    pub(crate) domains: Vec<String>,
    pub(crate) directory: String,
    pub(crate) email: Option<String>,
    pub(crate) challenge: AcmeChallenge,
    pub(crate) ca: Vec<PathBuf>,
    pub(crate) storage: PathBuf,
}

impl AcmeSettings {
    /// The file that holds both key and chain, so that they always fit.
    pub(crate) fn certificate_file(&self) -> PathBuf {
        self.storage.join("certificate.pem")
    }
}

/// How an ACME authority sees that a name is ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) enum AcmeChallenge {
    #[serde(rename = "tls-alpn-01")]
    TlsAlpn,
    #[serde(rename = "http-01")]
    Http,
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

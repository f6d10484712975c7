//! How the wire to PostgreSQL is protected: not at all on request, or by TLS with a certificate that is checked.

use std::sync::Arc;

use deadpool_postgres::{Manager, ManagerConfig};
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres::config::SslMode;
use tokio_postgres::{Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::domain::fault::PmFault;

/// What the address asks for. A server's certificate is always checked where there is one: without that, TLS keeps
/// out only those who listen and do nothing.
#[derive(Clone)]
pub(super) enum PostgresTls {
    /// None: the usual case, a server on the same machine or network.
    Plain,
    /// `sslmode=require`: never without.
    Checked(MakeRustlsConnect),
}

impl PostgresTls {
    /// What a configuration asks for. `prefer`, the default of the library, means plain here: it would let anyone who
    /// sits between us and the server say no for it.
    pub(super) fn of(config: &Config) -> Result<Self, PmFault> {
        match config.get_ssl_mode() {
            SslMode::Disable | SslMode::Prefer => Ok(Self::Plain),
            _ => Ok(Self::Checked(MakeRustlsConnect::new(checked()?))),
        }
    }

    pub(super) fn manager(&self, config: &Config, how: ManagerConfig) -> Manager {
        match self {
            Self::Plain => Manager::from_config(config.clone(), NoTls, how),
            Self::Checked(tls) => Manager::from_config(config.clone(), tls.clone(), how),
        }
    }
}

/// Trusts the system's certificates, or those that `SSL_CERT_FILE` names.
fn checked() -> Result<ClientConfig, PmFault> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        return Err(PmFault::invalid("sslmode=require: this machine trusts no certificate authority")
            .hint("name a file of certificates in SSL_CERT_FILE"));
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| PmFault::internal(error.to_string()))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

/// The same address in the words that the library knows: to check the certificate is what `require` means here.
pub(super) fn plain_words(address: &str) -> String {
    address.replace("sslmode=verify-full", "sslmode=require").replace("sslmode=verify-ca", "sslmode=require")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_address_that_requires_it_gets_tls() {
        for (query, expected) in
            [("", false), ("?sslmode=prefer", false), ("?sslmode=disable", false), ("?sslmode=verify-full", true)]
        {
            let config: Config = plain_words(&format!("postgres://u@db.example{query}")).parse().unwrap();
            assert_eq!(!matches!(config.get_ssl_mode(), SslMode::Disable | SslMode::Prefer), expected, "{query}");
        }
    }
}

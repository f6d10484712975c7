//! What can be wrong with a file of certificates or keys, told by its path.

use std::path::PathBuf;

use crate::certificate::CertificateReadError;

/// Why files cannot be used for TLS. Nothing that was in use before is affected by it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsFileError {
    /// The file cannot be read.
    #[error("{} cannot be read: {error}", path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        error: std::io::Error,
    },
    /// The file holds no PEM block of the kind that is needed there, or one that is cut off.
    #[error("{} holds no {what} in PEM form", path.display())]
    Missing { path: PathBuf, what: PemContent },
    /// A certificate cannot be parsed.
    #[error("{}: {error}", path.display())]
    Certificate {
        path: PathBuf,
        #[source]
        error: CertificateReadError,
    },
    /// The certificate's time is over, or has not begun.
    #[error("the certificate in {} is {}", path.display(), if *is_over { "expired" } else { "not valid yet" })]
    OutOfTime { path: PathBuf, is_over: bool },
    /// The private key belongs to another certificate.
    #[error("the key in {} does not fit the certificate in {}", key.display(), cert.display())]
    KeyMismatch { cert: PathBuf, key: PathBuf },
    /// The private key is of a kind that cannot be used.
    #[error("the key in {} cannot be used: {error}", path.display())]
    Key {
        path: PathBuf,
        #[source]
        error: rustls::Error,
    },
    /// An authority or a revocation list is not accepted.
    #[error("{} cannot be used: {error}", path.display())]
    Authority {
        path: PathBuf,
        #[source]
        error: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The system gave no random bytes for the key that seals resumption tickets.
    #[error("no key for resumption tickets: {0}")]
    Tickets(#[source] rustls::Error),
    /// The certificate and its key are missing.
    #[error("TLS needs a certificate and its key")]
    NoPair,
}

/// What is looked for in a PEM file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PemContent {
    Certificate,
    PrivateKey,
    RevocationList,
}

impl std::fmt::Display for PemContent {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            PemContent::Certificate => "certificate",
            PemContent::PrivateKey => "private key",
            PemContent::RevocationList => "certificate revocation list",
        })
    }
}

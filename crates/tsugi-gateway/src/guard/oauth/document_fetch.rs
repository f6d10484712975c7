//! Fetching a document of an issuer, without knowing over which connection.

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::HeaderValue;

/// What is fetched. Each kind has its own limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentKind {
    Metadata,
    KeySet,
}

/// A document that came with any status.
#[derive(Debug, Clone)]
pub struct FetchedDocument {
    pub status: u16,
    pub body: Bytes,
    /// How many seconds it may be kept, if its answer says so.
    pub max_age: Option<u64>,
}

/// Why a document did not come or cannot be used. The reason is logged where it is known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct DocumentFailure {
    /// The status, if there was an answer.
    pub status: Option<u16>,
    pub reason: String,
}

impl DocumentFailure {
    pub(super) fn unusable(reason: impl ToString) -> Self {
        Self { status: None, reason: reason.to_string() }
    }
}

/// Fetches documents, within limits and from permitted addresses only.
pub trait DocumentFetch: Send + Sync {
    fn get<'a>(
        &'a self,
        address: &'a str,
        kind: DocumentKind,
    ) -> BoxFuture<'a, Result<FetchedDocument, DocumentFailure>>;

    /// Asks an issuer about a token (RFC 7662 §2.1), as the client with these credentials. Without an implementation no
    /// issuer can be asked.
    fn introspect<'a>(
        &'a self,
        _address: &'a str,
        _token: &'a str,
        _authorization: &'a HeaderValue,
    ) -> BoxFuture<'a, Result<FetchedDocument, DocumentFailure>> {
        let failure = DocumentFailure { status: None, reason: "no issuer can be asked about tokens here".to_owned() };
        std::future::ready(Err(failure)).boxed()
    }
}

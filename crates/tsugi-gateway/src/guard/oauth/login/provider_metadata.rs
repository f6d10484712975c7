//! What a provider says about itself, fetched when the first person wants to sign in, and kept for a while.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;
use tsugi_auth::endpoint::PlainHttp;
use tsugi_auth::issuer_metadata::{IssuerMetadata, discovery_addresses};

use crate::guard::oauth::document_fetch::{DocumentFetch, DocumentKind};

/// How long a document is used.
const FRESH: Duration = Duration::from_secs(60 * 60);
/// How long after a failure no new attempt is made: strangers must not make us ask at their pace.
const PAUSE: Duration = Duration::from_secs(5);

/// The metadata of one provider. One fetch runs at a time, and all who wait get its result.
pub struct ProviderMetadata {
    issuer: String,
    plain: PlainHttp,
    fetch: Arc<dyn DocumentFetch>,
    found: Mutex<Option<(Instant, Option<Arc<IssuerMetadata>>)>>,
}

impl ProviderMetadata {
    pub fn new(issuer: impl Into<String>, plain: PlainHttp, fetch: Arc<dyn DocumentFetch>) -> Self {
        Self { issuer: issuer.into(), plain, fetch, found: Mutex::default() }
    }

    /// The document; `None` when it cannot be had, which is logged.
    pub(super) async fn get(&self) -> Option<Arc<IssuerMetadata>> {
        // Held while the document is fetched, so that the others wait for it.
        let mut found = self.found.lock().await;
        match &*found {
            Some((at, Some(metadata))) if at.elapsed() < FRESH => return Some(metadata.clone()),
            Some((at, None)) if at.elapsed() < PAUSE => return None,
            _ => {}
        }
        let fetched = self.fetch().await.map(Arc::new);
        let before = found.take().and_then(|(_, before)| before);
        // An old document is better than none: what it says changes once in years.
        let metadata = fetched.or(before);
        *found = Some((Instant::now(), metadata.clone()));
        metadata
    }

    /// Asks where OpenID Connect Discovery §4 says, then at the other addresses of RFC 8414.
    async fn fetch(&self) -> Option<IssuerMetadata> {
        let addresses = discovery_addresses(&self.issuer, self.plain)?;
        for address in addresses.iter().rev() {
            let document = match self.fetch.get(address.as_str(), DocumentKind::Metadata).await {
                Ok(document) if document.status == 200 => document,
                Ok(document) if (400..500).contains(&document.status) => continue,
                Err(failure) if failure.status.is_some_and(|status| (400..500).contains(&status)) => continue,
                Ok(document) => {
                    self.warn(&format!("{address} answers with the status {}", document.status));
                    return None;
                }
                Err(failure) => {
                    self.warn(&format!("{address}: {failure}"));
                    return None;
                }
            };
            return match IssuerMetadata::parse(&document.body, &self.issuer, self.plain) {
                Ok(metadata) => Some(metadata),
                Err(problem) => {
                    self.warn(&format!("{address}: {problem}"));
                    None
                }
            };
        }
        self.warn("no address of its metadata has a document");
        None
    }

    fn warn(&self, reason: &str) {
        tracing::warn!(issuer = self.issuer, reason, "the metadata of a provider could not be fetched");
    }
}

//! The keys of one issuer: found by its metadata, fetched by one task at a time, and kept while the issuer is away.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use tokio::time::Instant;
use tsugi_auth::endpoint::PlainHttp;
use tsugi_auth::issuer_metadata::{IssuerMetadata, discovery_addresses};
use tsugi_auth::jose::key_set::KeySet;
use tsugi_auth::key_cache::{KeyCache, KeyDecision};

use super::document_fetch::{DocumentFailure, DocumentFetch, DocumentKind, FetchedDocument};

/// Stands for the key of tokens whose header names none.
const UNNAMED: &str = "";

/// Fetches and keeps the keys of one issuer.
pub struct IssuerKeys {
    issuer: String,
    plain: PlainHttp,
    fetch: Arc<dyn DocumentFetch>,
    /// Times are seconds since then.
    started: Instant,
    state: Mutex<KeyState>,
    /// The generation of the keys, readable without the lock.
    generation: AtomicU64,
}

#[derive(Default)]
struct KeyState {
    cache: KeyCache,
    /// The fetch that runs now. All tokens that need it wait for the same one.
    running: Option<RunningFetch>,
    /// Where the key set is, from the issuer's metadata.
    key_set_address: Option<String>,
}

impl KeyState {
    /// Whether a fetch runs. One that has ended without clearing itself panicked.
    fn is_fetching(&self) -> bool {
        self.running.as_ref().is_some_and(|running| running.peek().is_none())
    }
}

type RunningFetch = Shared<BoxFuture<'static, ()>>;

impl IssuerKeys {
    /// Nothing is fetched before a token asks for it: a gateway starts without its issuer.
    pub fn new(issuer: impl Into<String>, plain: PlainHttp, fetch: Arc<dyn DocumentFetch>) -> Self {
        Self {
            issuer: issuer.into(),
            plain,
            fetch,
            started: Instant::now(),
            state: Mutex::default(),
            generation: AtomicU64::new(0),
        }
    }

    /// Which keys are used now. A token that was verified with older ones is verified again.
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// What to do with a token that names this key, without waiting, and the generation of the keys that it is decided
    /// by. Starts a refresh that is due.
    pub(super) fn decide(self: &Arc<Self>, key_id: Option<&str>) -> (KeyDecision, u64) {
        let (decision, generation) = {
            let state = self.state.lock();
            let decision = match state.cache.decide(key_id, self.now()) {
                // The fetch that runs may bring the key: join it instead of refusing.
                KeyDecision::Unknown | KeyDecision::Unavailable { .. } if state.is_fetching() => KeyDecision::Fetch,
                decision => decision,
            };
            (decision, state.cache.generation())
        };
        if let KeyDecision::UseAndRefresh(set) = decision {
            drop(self.begin_fetch(None));
            return (KeyDecision::Use(set), generation);
        }
        (decision, generation)
    }

    /// Waits for a fetch and decides again.
    pub(super) async fn fetch_and_decide(self: &Arc<Self>, key_id: Option<&str>) -> (KeyDecision, u64) {
        self.begin_fetch(key_id).await;
        let state = self.state.lock();
        (state.cache.decide_after_fetch(key_id, self.now()), state.cache.generation())
    }

    /// Whether a token that names no key, and that no known key has signed, may cause a fetch. It is limited like those of
    /// unknown key ids, of which it counts as one.
    pub(super) fn may_fetch_for_unnamed(self: &Arc<Self>) -> bool {
        matches!(self.decide(Some(UNNAMED)).0, KeyDecision::Fetch)
    }

    /// Waits for that fetch, and gives the keys that are known then.
    pub(super) async fn fetch_for_unnamed(self: &Arc<Self>) -> (KeyDecision, u64) {
        self.begin_fetch(Some(UNNAMED)).await;
        let state = self.state.lock();
        (state.cache.decide_after_fetch(None, self.now()), state.cache.generation())
    }

    fn now(&self) -> u64 {
        self.started.elapsed().as_secs()
    }

    /// Joins the fetch that runs, or starts one. It is a task, so that it ends even if the request that caused it is gone.
    fn begin_fetch(self: &Arc<Self>, key_id: Option<&str>) -> RunningFetch {
        let mut state = self.state.lock();
        if let Some(running) = state.running.as_ref().filter(|_| state.is_fetching()) {
            return running.clone();
        }
        state.cache.begin(key_id, self.now());
        let (keys, key_id) = (self.clone(), key_id.map(str::to_owned));
        let task = tokio::spawn(async move { keys.fetch(key_id.as_deref()).await });
        let running = task.map(drop).boxed().shared();
        state.running = Some(running.clone());
        running
    }

    async fn fetch(&self, key_id: Option<&str>) {
        let fetched = self.fetch_key_set().await;
        let mut state = self.state.lock();
        state.running = None;
        match fetched {
            Ok((set, max_age)) => {
                let (keys, ignored) = (set.len(), set.ignored());
                state.cache.store(set, max_age, key_id, self.now());
                self.generation.store(state.cache.generation(), Ordering::Release);
                tracing::debug!(issuer = self.issuer, keys, ignored, "fetched the keys of an issuer");
            }
            Err(failure) => {
                // Looked for again next time: the issuer may have moved its keys.
                state.key_set_address = None;
                let has_keys = state.cache.has_keys();
                drop(state);
                tracing::warn!(issuer = self.issuer, reason = %failure, has_keys, "the keys of an issuer could not be fetched");
            }
        }
    }

    async fn fetch_key_set(&self) -> Result<(KeySet, Option<u64>), DocumentFailure> {
        let known = self.state.lock().key_set_address.clone();
        let address = match known {
            Some(address) => address,
            None => self.find_key_set().await?,
        };
        let document = expect_success(self.fetch.get(&address, DocumentKind::KeySet).await?)?;
        let set = KeySet::parse(&document.body).map_err(DocumentFailure::unusable)?;
        self.state.lock().key_set_address = Some(address);
        Ok((set, document.max_age))
    }

    async fn find_key_set(&self) -> Result<String, DocumentFailure> {
        let metadata = find_metadata(&self.issuer, self.plain, &*self.fetch).await?;
        metadata.key_set.map(String::from).ok_or_else(|| DocumentFailure::unusable("its metadata has no `jwks_uri`"))
    }
}

/// Asks the addresses of an issuer's metadata in the order that MCP gives. Only "not here" leads to the next one.
pub(super) async fn find_metadata(
    issuer: &str,
    plain: PlainHttp,
    fetch: &dyn DocumentFetch,
) -> Result<IssuerMetadata, DocumentFailure> {
    let addresses = discovery_addresses(issuer, plain)
        .ok_or_else(|| DocumentFailure::unusable("the issuer is not an address that has metadata"))?;
    for address in addresses {
        let document = match fetch.get(address.as_str(), DocumentKind::Metadata).await {
            Ok(document) if is_absent(document.status) => continue,
            Err(failure) if failure.status.is_some_and(is_absent) => continue,
            answer => expect_success(answer?)?,
        };
        return IssuerMetadata::parse(&document.body, issuer, plain).map_err(DocumentFailure::unusable);
    }
    Err(DocumentFailure::unusable("no address of its metadata has a document"))
}

fn is_absent(status: u16) -> bool {
    (400..500).contains(&status)
}

fn expect_success(document: FetchedDocument) -> Result<FetchedDocument, DocumentFailure> {
    match document.status {
        200 => Ok(document),
        status => Err(DocumentFailure {
            status: Some(status),
            ..DocumentFailure::unusable(format!("the answer has the status {status}"))
        }),
    }
}

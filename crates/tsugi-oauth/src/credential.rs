//! The credentials of one server and one owner: found, obtained, kept, refreshed and put on requests.

mod attempts;
mod obtain;
pub mod options;

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::future::BoxFuture;
use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use tsugi_auth::challenge::{AuthChallenge, parse_challenges};
use tsugi_auth::scope::ScopeSet;
use tsugi_transport::TransportError;
use tsugi_transport::guarded_fetch::GuardedFetch;
use tsugi_transport::http::{
    CredentialHeaders, CredentialRefusal, CredentialStanding, RefusalVerdict, RequestCredential,
};
use url::Url;
use zeroize::Zeroizing;

use crate::client_auth::ClientKey;
use crate::discovery::discover;
use crate::dpop::{DpopKey, NONCE_HEADER, PROOF_HEADER};
use crate::failure::OauthFailure;
use crate::record::{CredentialRecord, TokenKind};
use crate::revocation::revoke;
use crate::store::CredentialStore;
use attempts::SignInAttempts;
use options::{GrantChoice, OauthOptions, SignInNeed, SignInWay};

/// A token that is refused this soon was not refused for its age.
const FRESH: Duration = Duration::from_secs(30);
/// How long a refusal stands that only a change elsewhere can end.
const REFUSED_FOR: Duration = Duration::from_secs(30);
/// How long the old token is used without another try after a provider in trouble did not renew it.
const RENEWAL_PAUSE: Duration = Duration::from_secs(10);

/// The credentials for one server.
pub struct OauthCredential {
    options: OauthOptions,
    fetch: GuardedFetch,
    store: Arc<dyn CredentialStore>,
    label: String,
    state: Mutex<CredentialState>,
    /// One change at a time in this process; the store's lock does the same among processes.
    changing: tokio::sync::Mutex<()>,
    /// Itself, for work that must outlive the request that began it.
    own: Weak<Self>,
}

#[derive(Default)]
struct CredentialState {
    record: Option<Arc<CredentialRecord>>,
    is_loaded: bool,
    /// The key of the record's token, parsed once.
    dpop: Option<Arc<DpopKey>>,
    /// The last nonce of the server.
    nonce: Option<String>,
    /// When this process got the record's token.
    obtained: Option<Instant>,
    attempts: SignInAttempts,
    /// When renewing failed for a reason that may pass.
    delayed: Option<Instant>,
    refusal: Option<(Instant, OauthFailure)>,
}

/// How a sign-in stands, without anything secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignInStatus {
    NeedsSignIn,
    /// `until` is the end of the access token; where it can be refreshed the sign-in lasts longer.
    SignedIn {
        issuer: String,
        until: Option<u64>,
        can_refresh: bool,
        scope: ScopeSet,
    },
}

/// What signing out has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignOutResult {
    /// There was no sign-in.
    Nothing,
    /// The provider confirmed that the tokens are worth nothing now.
    Revoked,
    /// The tokens are gone from here; the provider offers no revocation, or did not confirm it.
    Forgotten,
}

impl SignInStatus {
    pub fn of(record: Option<&CredentialRecord>) -> Self {
        let Some((record, tokens)) = record.and_then(|record| Some((record, record.tokens.as_ref()?))) else {
            return Self::NeedsSignIn;
        };
        let can_refresh = tokens.refresh.is_some();
        if !can_refresh && tokens.expires.is_some_and(|end| end <= crate::now()) {
            return Self::NeedsSignIn;
        }
        let scope = tokens.granted.clone().unwrap_or_else(|| record.requested.clone());
        Self::SignedIn { issuer: record.issuer.clone(), until: tokens.expires, can_refresh, scope }
    }
}

impl OauthCredential {
    pub fn new(options: OauthOptions, fetch: GuardedFetch, store: Arc<dyn CredentialStore>) -> Arc<Self> {
        let label = label(&options);
        let (state, changing) = (Mutex::default(), tokio::sync::Mutex::default());
        Arc::new_cyclic(|own| Self { options, fetch, store, label, state, changing, own: own.clone() })
    }

    /// How the sign-in stands in the store.
    pub async fn status(&self) -> Result<SignInStatus, OauthFailure> {
        let record = self.read().await?;
        Ok(SignInStatus::of(record.as_ref()))
    }

    /// Signs in now, whatever the store has: a person asked for it. `refusal` has the headers of the server's 401, where
    /// it refused a request without credentials.
    pub async fn sign_in(&self, refusal: Option<&HeaderMap>) -> Result<SignInStatus, OauthFailure> {
        let _changing = self.changing.lock().await;
        let known = self.current().await?;
        self.obtain_anew(known, refusal.and_then(oauth_challenge).as_ref()).await?;
        self.status().await
    }

    /// Finds out whether a sign-in could succeed, as far as that shows without one.
    pub async fn examine(&self, refusal: Option<&HeaderMap>) -> Result<(), OauthFailure> {
        self.examine_issuer(refusal.and_then(oauth_challenge).as_ref()).await
    }

    /// Has the store read again with the next request: it has changed.
    pub fn reload(&self) {
        self.state.lock().is_loaded = false;
    }

    /// Revokes the tokens and forgets everything.
    pub async fn sign_out(&self) -> Result<SignOutResult, OauthFailure> {
        let _changing = self.changing.lock().await;
        if self.read().await?.is_none() {
            return Ok(SignOutResult::Nothing);
        }
        let _lock = self.lock().await?;
        let Some(record) = self.read().await? else { return Ok(SignOutResult::Nothing) };
        let is_revoked = revoke(&self.fetch, &record, self.client_key()).await;
        // Even without a confirmation: the person wants the tokens gone from here.
        self.store.write(&self.options.key, None).await.map_err(store_failed)?;
        *self.state.lock() = CredentialState { is_loaded: true, ..CredentialState::default() };
        Ok(if is_revoked { SignOutResult::Revoked } else { SignOutResult::Forgotten })
    }

    fn client_key(&self) -> Option<&ClientKey> {
        self.options.client.configured.as_ref().and_then(|client| client.key.as_ref())
    }

    /// The record as this process knows it, from the store the first time.
    async fn current(&self) -> Result<Option<Arc<CredentialRecord>>, OauthFailure> {
        {
            let state = self.state.lock();
            if state.is_loaded {
                return Ok(state.record.clone());
            }
        }
        let record = self.read().await?;
        let mut state = self.state.lock();
        if !state.is_loaded {
            state.is_loaded = true;
            state.adopt(record);
        }
        Ok(state.record.clone())
    }

    async fn read(&self) -> Result<Option<CredentialRecord>, OauthFailure> {
        let bytes = self.store.read(&self.options.key).await.map_err(store_failed)?;
        Ok(bytes.and_then(|bytes| CredentialRecord::parse(&bytes)))
    }

    async fn lock(&self) -> Result<Box<dyn crate::store::StoreLock>, OauthFailure> {
        self.store.lock(&self.options.key).await.map_err(store_failed)
    }

    /// Takes over what another task or process has written since `generation`. `true` when there was something.
    async fn catch_up(&self, generation: u64) -> Result<bool, OauthFailure> {
        let stored = self.read().await?;
        let is_newer = stored.as_ref().is_some_and(|record| record.generation != generation);
        if is_newer {
            self.state.lock().adopt(stored);
        }
        Ok(is_newer)
    }

    /// Writes a record with the next generation. The store's lock is held.
    async fn save(&self, mut record: CredentialRecord, before: u64) -> Result<(), OauthFailure> {
        // By the clock, so that a sign-in after a sign-out differs from the one before it.
        record.generation = (before + 1).max(crate::now_millis());
        self.store.write(&self.options.key, Some(record.to_bytes())).await.map_err(store_failed)?;
        let mut state = self.state.lock();
        let has_tokens = record.tokens.is_some();
        state.adopt(Some(record));
        state.obtained = has_tokens.then(Instant::now);
        Ok(())
    }

    async fn headers_for(&self, method: &Method, url: &Url) -> Result<CredentialHeaders, OauthFailure> {
        let mut record = self.current().await?;
        if let Some(due) = record.as_ref().filter(|record| self.is_due(record)) {
            match self.renew(due.generation).await {
                Ok(()) => {}
                // The server decides whether the old token still holds.
                Err(failure) => {
                    self.state.lock().delayed = failure.is_transient().then(Instant::now);
                    tracing::warn!(server = %self.options.key.server, %failure, "a token was not renewed");
                }
            }
            record = self.current().await?;
        }
        let Some(record) = record else { return Ok(CredentialHeaders::default()) };
        let mut headers = HeaderMap::new();
        if let Some(tokens) = &record.tokens {
            let token = tokens.access.expose();
            let scheme = match tokens.kind {
                TokenKind::Bearer => "Bearer",
                TokenKind::Dpop => "DPoP",
            };
            headers.insert(AUTHORIZATION, secret_header(format!("{scheme} {token}"))?);
            if tokens.kind == TokenKind::Dpop {
                let (key, nonce) = {
                    let state = self.state.lock();
                    (state.dpop.clone(), state.nonce.clone())
                };
                let key = key.ok_or(OauthFailure::NotSigned)?;
                let proof = key.prove(method, url, nonce.as_deref(), Some(token))?;
                headers.insert(PROOF_HEADER, secret_header(proof)?);
            }
        }
        Ok(CredentialHeaders { headers, generation: record.generation })
    }

    fn is_due(&self, record: &CredentialRecord) -> bool {
        let Some(tokens) = &record.tokens else { return false };
        let can_renew = tokens.refresh.is_some() || !self.options.grant.is_sign_in();
        let is_delayed = self.state.lock().delayed.is_some_and(|at| at.elapsed() < RENEWAL_PAUSE);
        can_renew && !is_delayed && tokens.renew.is_some_and(|at| at <= crate::now())
    }

    /// Gets a new token before the old one ends: one request over all tasks and processes.
    async fn renew(&self, generation: u64) -> Result<(), OauthFailure> {
        self.finish(move |own| async move { own.renew_once(generation).await }).await
    }

    /// Does work that does not end with the caller: an issuer that rotates has given a new token away by then, and the
    /// old one is worth nothing.
    async fn finish<T, F>(&self, work: impl FnOnce(Arc<Self>) -> F) -> Result<T, OauthFailure>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, OauthFailure>> + Send + 'static,
    {
        let own = self.own.upgrade().ok_or(OauthFailure::TokenUnreachable)?;
        tokio::spawn(work(own)).await.unwrap_or(Err(OauthFailure::TokenUnreachable))
    }

    async fn renew_once(&self, generation: u64) -> Result<(), OauthFailure> {
        let _changing = self.changing.lock().await;
        let _lock = self.lock().await?;
        if self.catch_up(generation).await? {
            return Ok(());
        }
        let Some(record) = self.read().await? else {
            self.state.lock().adopt(None);
            return Err(OauthFailure::NeedsSignIn);
        };
        self.renew_record(record).await
    }

    async fn judge(&self, refusal: CredentialRefusal<'_>) -> Result<RefusalVerdict, OauthFailure> {
        let challenge = oauth_challenge(refusal.headers);
        if self.learns_nonce(&refusal, challenge.as_ref()) {
            return Ok(RefusalVerdict::TryAgain);
        }
        let error = challenge.as_ref().and_then(|challenge| challenge.parameter("error"));
        if refusal.status == StatusCode::FORBIDDEN {
            // More scope is the only thing that a sign-in can change about a 403.
            if error != Some("insufficient_scope") || !self.options.grant.is_sign_in() {
                return Ok(RefusalVerdict::GiveUp);
            }
        }
        let _changing = self.changing.lock().await;
        let known = self.current().await?;
        let generation = known.as_ref().map_or(0, |record| record.generation);
        // Another task got new credentials while this request was under way, or another process did.
        if generation != refusal.generation || self.catch_up(generation).await? {
            return Ok(RefusalVerdict::TryAgain);
        }
        let names_metadata = challenge.as_ref().is_some_and(|one| one.parameter("resource_metadata").is_some());
        if self.options.need == SignInNeed::WhenAsked && known.is_none() && !names_metadata {
            // Perhaps it wants a key and knows nothing of OAuth.
            return Ok(RefusalVerdict::GiveUp);
        }
        let is_scope = refusal.status == StatusCode::FORBIDDEN;
        if !is_scope {
            self.check_refusal()?;
        }
        let obtained = self.obtain(known, refusal.status, challenge.as_ref()).await;
        if let Err(failure) = &obtained
            && (self.is_elsewhere() || !self.options.grant.is_sign_in())
            && !failure.is_transient()
            && !is_scope
        {
            self.state.lock().refusal = Some((Instant::now(), failure.clone()));
        }
        obtained.map(|()| RefusalVerdict::TryAgain)
    }

    /// A failure as one of a request, with what a person can do about it here.
    fn to_transport(&self, failure: &OauthFailure) -> TransportError {
        let hint = match (failure, &self.options.advice) {
            (OauthFailure::NeedsSignIn | OauthFailure::SignInEnded, Some(advice)) => Some(advice.clone()),
            (OauthFailure::NeedsScope(scope), Some(advice)) => Some(format!("{advice} --scope '{scope}'")),
            _ => failure.hint().map(str::to_owned),
        };
        failure.to_transport(hint)
    }

    /// Whether only another process can sign in.
    fn is_elsewhere(&self) -> bool {
        matches!(self.options.grant, GrantChoice::SignIn(SignInWay::Elsewhere))
    }

    /// A grant that the issuer refused is not tried again at once: nothing has changed.
    fn check_refusal(&self) -> Result<(), OauthFailure> {
        match &self.state.lock().refusal {
            Some((at, failure)) if at.elapsed() < REFUSED_FOR => Err(failure.clone()),
            _ => Ok(()),
        }
    }

    /// RFC 9449 §9: the server wants its nonce in the proof.
    fn learns_nonce(&self, refusal: &CredentialRefusal<'_>, challenge: Option<&AuthChallenge>) -> bool {
        let asks = challenge.is_some_and(|challenge| challenge.parameter("error") == Some("use_dpop_nonce"));
        let Some(given) = refusal.headers.get(NONCE_HEADER).and_then(|value| value.to_str().ok()) else { return false };
        let mut state = self.state.lock();
        let is_new = state.nonce.as_deref() != Some(given);
        state.nonce = Some(given.to_owned());
        asks && is_new
    }
}

impl CredentialState {
    fn adopt(&mut self, record: Option<CredentialRecord>) {
        let generation = |record: Option<&CredentialRecord>| record.map(|record| record.generation);
        let is_known = self.is_loaded || self.record.is_some();
        self.is_loaded = true;
        if is_known && generation(record.as_ref()) == generation(self.record.as_deref()) {
            return;
        }
        let key = record.as_ref().and_then(|record| record.tokens.as_ref()?.dpop_key.as_ref());
        let key = key.and_then(|key| DpopKey::from_document(Zeroizing::new(key.to_vec())).ok());
        self.dpop = key.map(Arc::new);
        self.record = record.map(Arc::new);
        (self.obtained, self.refusal, self.delayed) = (None, None, None);
    }
}

impl RequestCredential for OauthCredential {
    fn label(&self) -> &str {
        &self.label
    }

    fn standing(&self) -> CredentialStanding {
        let state = self.state.lock();
        let tokens = state.record.as_ref().map(|record| record.tokens.as_ref());
        match (&state.refusal, tokens) {
            (Some(_), _) | (None, Some(None)) => CredentialStanding::Needed,
            (None, Some(Some(tokens))) => {
                let is_renewed = tokens.refresh.is_some() || !self.options.grant.is_sign_in();
                CredentialStanding::SignedIn { until: tokens.expires, is_renewed }
            }
            (None, None) => CredentialStanding::Unknown,
        }
    }

    fn authorize<'a>(
        &'a self,
        method: &'a Method,
        url: &'a Url,
    ) -> BoxFuture<'a, Result<CredentialHeaders, TransportError>> {
        Box::pin(async move { self.headers_for(method, url).await.map_err(|failure| self.to_transport(&failure)) })
    }

    fn refused<'a>(&'a self, refusal: CredentialRefusal<'a>) -> BoxFuture<'a, Result<RefusalVerdict, TransportError>> {
        Box::pin(async move { self.judge(refusal).await.map_err(|failure| self.to_transport(&failure)) })
    }
}

/// Two credentials with the same label do the same. Secrets count, and are not in it.
fn label(options: &OauthOptions) -> String {
    let client = options.client.configured.as_ref();
    let secret = client.and_then(|client| client.secret.as_ref()).map_or("", |secret| secret.expose());
    let key_id = client.and_then(|client| client.key.as_ref()?.key_id.as_deref());
    let rest = (
        client.map(|client| (&client.id, &client.issuer)),
        secret,
        key_id,
        (&options.client.document, &options.discovery.issuer, options.discovery.legacy),
        options.scopes.as_ref().map(ScopeSet::to_string),
        options.quirks,
        options.need,
    );
    let digest = URL_SAFE_NO_PAD.encode(digest(&SHA256, format!("{rest:?}").as_bytes()));
    format!("{} {} {digest}", options.key, options.grant.name())
}

/// The challenge of a server that wants an OAuth token: of all headers, the one that says most.
fn oauth_challenge(headers: &HeaderMap) -> Option<AuthChallenge> {
    let values = headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok());
    let all: Vec<AuthChallenge> = values.filter_map(|value| parse_challenges(value).ok()).flatten().collect();
    let mut fitting: Vec<AuthChallenge> =
        all.into_iter().filter(|one| one.is_scheme("Bearer") || one.is_scheme("DPoP")).collect();
    let best = fitting.iter().position(|one| one.parameter("resource_metadata").is_some()).unwrap_or(0);
    (!fitting.is_empty()).then(|| fitting.swap_remove(best))
}

fn secret_header(text: String) -> Result<HeaderValue, OauthFailure> {
    let text = Zeroizing::new(text);
    let mut value =
        HeaderValue::from_str(&text).map_err(|_| OauthFailure::TokenMalformed("the token cannot stand in a header"))?;
    value.set_sensitive(true);
    Ok(value)
}

fn store_failed(problem: crate::store::StoreProblem) -> OauthFailure {
    OauthFailure::Store(problem.0)
}

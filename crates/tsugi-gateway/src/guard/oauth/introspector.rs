//! Asking an issuer about a token (RFC 7662): opaque tokens, and signed ones whose revocation must be noticed.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use http::HeaderValue;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tsugi_auth::endpoint::PlainHttp;
use tsugi_auth::introspection;
use tsugi_auth::secret::SecretText;
use tsugi_auth::token::{TokenRefusal, TokenRules, VerifiedToken};

use super::document_fetch::DocumentFetch;
use super::issuer_keys::find_metadata;
use super::token_cache::DigestCache;
use crate::guard::api_key::SecretDigest;

/// How long an answer may be used at most: a token that is revoked ends within this time.
pub const LONGEST_FRESH: Duration = Duration::from_secs(30);
/// How long a refused token is not asked about again.
const REFUSED_FOR: Duration = Duration::from_secs(10);
/// Questions to one issuer at the same time. A flood of invented tokens must not become a flood at the issuer.
const IN_FLIGHT: usize = 64;

/// Which tokens of an issuer it is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IntrospectionMode {
    /// Those that are not signed JWTs.
    Opaque,
    /// All of them.
    Always,
}

/// How an issuer is asked.
pub struct IntrospectionTerms {
    pub mode: IntrospectionMode,
    /// Where; without one, where the issuer's metadata says.
    pub endpoint: Option<String>,
    pub client_id: String,
    pub client_secret: SecretText,
    /// How the opaque tokens of this issuer begin. Needed where several issuers have opaque tokens.
    pub prefix: Option<String>,
    /// How long an answer is used; at most [`LONGEST_FRESH`].
    pub fresh: Duration,
}

/// Asks one issuer about tokens. Requests that bring the same token share one question.
pub struct TokenIntrospector {
    terms: IntrospectionTerms,
    rules: TokenRules,
    plain: PlainHttp,
    fetch: Arc<dyn DocumentFetch>,
    authorization: HeaderValue,
    found: Mutex<Option<String>>,
    refused: DigestCache<(TokenRefusal, Instant)>,
    running: Mutex<HashMap<SecretDigest, RunningQuestion>>,
    room: Semaphore,
}

type RunningQuestion = Shared<BoxFuture<'static, Result<IntrospectionAnswer, IntrospectionFailure>>>;

/// What an issuer says of a token that is good.
#[derive(Debug, Clone)]
pub(super) enum IntrospectionAnswer {
    Claims(Arc<VerifiedToken>),
    /// The token is signed and has its claims itself.
    Active,
}

impl IntrospectionAnswer {
    fn claims(token: VerifiedToken) -> Self {
        Self::Claims(Arc::new(token))
    }
}

/// Why a token cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IntrospectionFailure {
    Refused(TokenRefusal),
    /// The issuer did not give an answer that can be used. The reason is in the log.
    Unavailable,
}

impl fmt::Debug for TokenIntrospector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TokenIntrospector").field("issuer", &self.rules.issuer).finish_non_exhaustive()
    }
}

impl TokenIntrospector {
    /// Nothing is asked before a token comes.
    pub fn new(
        terms: IntrospectionTerms,
        rules: TokenRules,
        plain: PlainHttp,
        fetch: Arc<dyn DocumentFetch>,
    ) -> Arc<Self> {
        let basic = introspection::basic_credentials(&terms.client_id, terms.client_secret.expose());
        // Base64 is always a header value.
        let mut authorization = HeaderValue::try_from(basic.expose()).unwrap_or(HeaderValue::from_static("Basic"));
        authorization.set_sensitive(true);
        Arc::new(Self {
            found: Mutex::new(terms.endpoint.clone()),
            terms,
            rules,
            plain,
            fetch,
            authorization,
            refused: DigestCache::default(),
            running: Mutex::default(),
            room: Semaphore::new(IN_FLIGHT),
        })
    }

    pub(super) fn mode(&self) -> IntrospectionMode {
        self.terms.mode
    }

    pub(super) fn prefix(&self) -> Option<&str> {
        self.terms.prefix.as_deref()
    }

    /// Until when an answer of now may be used.
    pub(super) fn fresh_until(&self) -> Instant {
        Instant::now() + self.terms.fresh.min(LONGEST_FRESH)
    }

    /// What the issuer says of a token.
    pub(super) async fn introspect(
        self: &Arc<Self>,
        token: &str,
        digest: SecretDigest,
    ) -> Result<IntrospectionAnswer, IntrospectionFailure> {
        if let Some((refusal, until)) = self.refused.find(digest)
            && Instant::now() < until
        {
            return Err(IntrospectionFailure::Refused(refusal));
        }
        self.join(token, digest).await
    }

    /// Joins the question about this token that runs, or begins one.
    fn join(self: &Arc<Self>, token: &str, digest: SecretDigest) -> RunningQuestion {
        let mut running = self.running.lock();
        // One that has ended without taking itself out panicked.
        if let Some(question) = running.get(&digest).filter(|question| question.peek().is_none()) {
            return question.clone();
        }
        let (introspector, token) = (self.clone(), SecretText::new(token));
        // A task: a request that goes away must not leave its question in the table.
        let task = tokio::spawn(async move {
            let answered = introspector.ask(token.expose(), digest).await;
            introspector.running.lock().remove(&digest);
            answered
        });
        let question = task.map(|ended| ended.unwrap_or(Err(IntrospectionFailure::Unavailable))).boxed().shared();
        running.insert(digest, question.clone());
        question
    }

    async fn ask(&self, token: &str, digest: SecretDigest) -> Result<IntrospectionAnswer, IntrospectionFailure> {
        let Ok(_room) = self.room.try_acquire() else {
            return Err(self.unavailable("too many questions are under way"));
        };
        let endpoint = self.endpoint().await?;
        let answer = match self.fetch.introspect(&endpoint, token, &self.authorization).await {
            Ok(answer) if answer.status == 200 => answer,
            Ok(answer) => {
                self.forget_endpoint();
                return Err(self.unavailable(&format!("the answer has the status {}", answer.status)));
            }
            Err(failure) => {
                self.forget_endpoint();
                return Err(self.unavailable(&failure.reason));
            }
        };
        let now = super::verifier::seconds_now();
        let checked = match self.terms.mode {
            IntrospectionMode::Opaque => {
                introspection::check_answer(&answer.body, &self.rules, now).map(IntrospectionAnswer::claims)
            }
            // The claims of a signed token are in the token, and some issuers repeat only a few of them.
            IntrospectionMode::Always => {
                introspection::check_active(&answer.body, &self.rules).and_then(|claims| match is_signed(token) {
                    true => Ok(IntrospectionAnswer::Active),
                    false => introspection::check_claims(claims, &self.rules, now).map(IntrospectionAnswer::claims),
                })
            }
        };
        checked.map_err(|refusal| {
            self.refused.insert(digest, (refusal, Instant::now() + REFUSED_FOR));
            IntrospectionFailure::Refused(refusal)
        })
    }

    async fn endpoint(&self) -> Result<String, IntrospectionFailure> {
        if let Some(known) = self.found.lock().clone() {
            return Ok(known);
        }
        let metadata = match find_metadata(&self.rules.issuer, self.plain, &*self.fetch).await {
            Ok(metadata) => metadata,
            Err(failure) => return Err(self.unavailable(&failure.to_string())),
        };
        let Some(endpoint) = metadata.introspection.map(String::from) else {
            return Err(self.unavailable("its metadata has no `introspection_endpoint`"));
        };
        *self.found.lock() = Some(endpoint.clone());
        Ok(endpoint)
    }

    /// The issuer may have moved. An address of the configuration stays.
    fn forget_endpoint(&self) {
        self.found.lock().clone_from(&self.terms.endpoint);
    }

    fn unavailable(&self, reason: &str) -> IntrospectionFailure {
        tracing::warn!(issuer = self.rules.issuer, reason, "an issuer could not be asked about a token");
        IntrospectionFailure::Unavailable
    }
}

/// A signed token has three parts, and its header begins with `{"`.
pub(super) fn is_signed(token: &str) -> bool {
    token.starts_with("ey") && token.bytes().filter(|byte| *byte == b'.').count() == 2
}

//! Where a token of another issuer comes from: a workload's identity, or a person's sign-in elsewhere.

use std::path::PathBuf;

use futures_util::future::BoxFuture;
use tsugi_auth::secret::SecretText;

use crate::failure::OauthFailure;

/// The largest token that is read from a file.
const MAX_ASSERTION: u64 = 64 * 1024;

/// Gives a signed token whenever one is needed.
pub trait AssertionSource: Send + Sync {
    fn assertion(&self) -> BoxFuture<'_, Result<SecretText, OauthFailure>>;
}

/// A file that another program keeps fresh. It is read each time.
pub struct AssertionFile(pub PathBuf);

impl AssertionSource for AssertionFile {
    fn assertion(&self) -> BoxFuture<'_, Result<SecretText, OauthFailure>> {
        Box::pin(async {
            let unreadable = |_| OauthFailure::NoAssertion;
            let size = tokio::fs::metadata(&self.0).await.map_err(unreadable)?.len();
            if size == 0 || size > MAX_ASSERTION {
                return Err(OauthFailure::NoAssertion);
            }
            let text = tokio::fs::read_to_string(&self.0).await.map_err(unreadable)?;
            Ok(SecretText::new(text.trim()))
        })
    }
}

/// A function of the embedding program.
pub struct AssertionFn<F>(pub F);

impl<F: Fn() -> Option<SecretText> + Send + Sync> AssertionSource for AssertionFn<F> {
    fn assertion(&self) -> BoxFuture<'_, Result<SecretText, OauthFailure>> {
        let found = (self.0)().ok_or(OauthFailure::NoAssertion);
        Box::pin(async { found })
    }
}

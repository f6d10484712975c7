//! What puts credentials on requests to one server, and gets others when the server refuses them.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use http::{HeaderMap, Method, StatusCode};
use url::Url;

use crate::error::TransportError;

/// The credentials for one server. Every request asks for headers; a refusal (401, 403) may get better ones.
pub trait RequestCredential: Send + Sync {
    /// Which credentials these are. Two with the same label are the same, so a server is not connected again for them.
    fn label(&self) -> &str;

    /// The headers of the next request to `url`; none while there are no credentials.
    fn authorize<'a>(
        &'a self,
        method: &'a Method,
        url: &'a Url,
    ) -> BoxFuture<'a, Result<CredentialHeaders, TransportError>>;

    /// How the sign-in behind them stands, as far as this process knows.
    fn standing(&self) -> CredentialStanding {
        CredentialStanding::Unknown
    }

    /// The server refused a request. An error ends it with that error instead of the server's answer.
    fn refused<'a>(&'a self, refusal: CredentialRefusal<'a>) -> BoxFuture<'a, Result<RefusalVerdict, TransportError>>;
}

/// How a sign-in stands, without anything secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CredentialStanding {
    /// There is none, and the server did not ask for one.
    Unknown,
    /// The server wants one that is not there.
    Needed,
    SignedIn {
        /// The end of the token, in seconds since 1970. Where it is renewed the sign-in lasts longer.
        until: Option<u64>,
        is_renewed: bool,
    },
}

/// What is wrong with credentials that could not be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CredentialDefect {
    /// There is no sign-in.
    Missing,
    /// There was one, and it has ended.
    Ended,
    /// It lacks a scope.
    Scope,
    /// It cannot be made or used.
    Refused,
}

/// The credentials of one request.
#[derive(Default)]
pub struct CredentialHeaders {
    pub headers: HeaderMap,
    /// Which credentials were used; 0 for none.
    pub generation: u64,
}

/// The answer of a server that refused a request for its credentials.
pub struct CredentialRefusal<'a> {
    pub status: StatusCode,
    pub headers: &'a HeaderMap,
    /// The generation that the request had.
    pub generation: u64,
}

/// What to do after a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalVerdict {
    /// There are other credentials now.
    TryAgain,
    /// The refusal stands.
    GiveUp,
}

/// The credentials of a target, compared by their label.
#[derive(Clone)]
pub struct TargetCredential(Arc<dyn RequestCredential>);

impl TargetCredential {
    pub fn new(credential: Arc<dyn RequestCredential>) -> Self {
        Self(credential)
    }
}

impl std::ops::Deref for TargetCredential {
    type Target = dyn RequestCredential;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl PartialEq for TargetCredential {
    fn eq(&self, other: &Self) -> bool {
        self.0.label() == other.0.label()
    }
}

impl Eq for TargetCredential {}

impl fmt::Debug for TargetCredential {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("TargetCredential")
    }
}

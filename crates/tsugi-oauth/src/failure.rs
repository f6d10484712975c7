//! Why there is no token, as types: what failed, and what to do about it.

use tsugi_auth::code_flow::ResponseDefect;
use tsugi_auth::issuer_metadata::MetadataProblem;
use tsugi_auth::resource_metadata::ResourceProblem;
use tsugi_auth::scope::ScopeSet;
use tsugi_transport::TransportError;
use tsugi_transport::http::CredentialDefect;

use crate::token_endpoint::TokenErrorCode;

/// Why a server cannot be used with OAuth now. No variant holds text that a server wrote, except short codes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OauthFailure {
    #[error("the server needs a sign-in")]
    NeedsSignIn,
    #[error("the sign-in has ended: its provider takes neither token any more")]
    SignInEnded,
    #[error("the sign-in lacks the scope `{0}`")]
    NeedsScope(ScopeSet),
    #[error("the metadata of the protected resource is not used: {0}")]
    Resource(ResourceProblem),
    #[error("the metadata of the protected resource could not be fetched")]
    ResourceUnreachable,
    #[error("the server names no authorization server, and its own origin offers none")]
    NoAuthorizationServer,
    #[error("the configured issuer is not among the authorization servers that the server names")]
    IssuerNotListed,
    #[error("the metadata of the authorization server is not used: {0}")]
    Issuer(MetadataProblem),
    #[error("the authorization server has no metadata at any of its addresses")]
    NoIssuerMetadata,
    #[error("the metadata of the authorization server could not be fetched")]
    IssuerUnreachable,
    #[error("the authorization server does not say that it supports PKCE with S256")]
    NoPkce,
    #[error("the authorization server has no {0} endpoint")]
    NoEndpoint(&'static str),
    #[error("the authorization endpoint already has the parameter `{0}`")]
    EndpointParameter(&'static str),
    #[error("there is no client for this authorization server, and it registers none")]
    NoClient,
    #[error("the configured client belongs to another authorization server")]
    ClientOfOtherIssuer,
    #[error("the authorization server did not register a client: {0}")]
    NotRegistered(TokenErrorCode),
    #[error("the configured client has no secret and no key for this grant")]
    NoClientSecret,
    #[error("the answer of the sign-in is not one to the request: {0}")]
    ForgedResponse(ResponseDefect),
    #[error("the authorization server refused the sign-in: {0}")]
    SignInRefused(TokenErrorCode),
    #[error("the sign-in did not end: {0}")]
    SignInAborted(&'static str),
    #[error("the token endpoint refused: {0}")]
    TokenRefused(TokenErrorCode),
    #[error("the token endpoint could not be reached")]
    TokenUnreachable,
    #[error("the answer of the token endpoint is not used: {0}")]
    TokenMalformed(&'static str),
    #[error("the server still refuses after {attempts} sign-ins with the scope `{scope}`")]
    ScopeRefused { scope: ScopeSet, attempts: usize },
    #[error("the assertion could not be read")]
    NoAssertion,
    #[error("the key could not sign")]
    NotSigned,
    #[error("the credential store failed: {0}")]
    Store(String),
    #[error("the system has no random numbers")]
    NoRandom,
}

impl OauthFailure {
    /// Whether the same attempt may succeed a moment later.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::ResourceUnreachable | Self::IssuerUnreachable | Self::TokenUnreachable | Self::Store(_))
    }

    /// What to do, where there is something.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::NeedsSignIn => "sign in to the server",
            Self::SignInEnded => "sign in to the server again",
            Self::SignInRefused(TokenErrorCode::InvalidTarget) | Self::TokenRefused(TokenErrorCode::InvalidTarget) => {
                "if the provider does not know the parameter `resource`, set `quirks: [noResource]`"
            }
            Self::NeedsScope(_) => "sign in to the server again, for more scopes",
            Self::NoPkce => "if the provider supports PKCE and does not say so, set `quirks: [assumePkce]`",
            Self::NoClient => "register a client with the provider and set `client.id`",
            Self::ClientOfOtherIssuer => {
                "the server changed its provider; register a client there and set `client.id` and `client.issuer`"
            }
            Self::NoClientSecret => "set `client.secret` or `client.key`",
            Self::IssuerNotListed => "remove `issuer`, or set one that the server names",
            Self::ScopeRefused { .. } => "the account may lack the right to do this; ask its administrator",
            Self::ResourceUnreachable | Self::IssuerUnreachable | Self::TokenUnreachable => {
                "the log names the rule or the cause; a private address must be in `outbound.allow`"
            }
            _ => return None,
        })
    }

    /// What it means for the server, as a type.
    fn defect(&self) -> CredentialDefect {
        match self {
            Self::NeedsSignIn => CredentialDefect::Missing,
            Self::SignInEnded => CredentialDefect::Ended,
            Self::NeedsScope(_) | Self::ScopeRefused { .. } => CredentialDefect::Scope,
            _ => CredentialDefect::Refused,
        }
    }

    /// The failure as one of a request.
    pub(crate) fn to_transport(&self, hint: Option<String>) -> TransportError {
        match self.is_transient() {
            true => TransportError::credential_delayed(self.to_string(), hint),
            false => TransportError::credential(self.to_string(), hint, self.defect()),
        }
    }
}

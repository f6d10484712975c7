//! Why a sign-in ended without a session: one variant per rule, and what the person is shown of it.

use crate::code_flow::ResponseDefect;
use crate::token::TokenRefusal;

/// The first rule that a sign-in broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LoginRefusal {
    #[error("no provider has this name")]
    UnknownProvider,
    #[error("this browser has begun no sign-in here: its login cookie is missing, of another gateway or changed")]
    NoTransaction,
    #[error("the response came to the address of another provider than the one that this browser went to")]
    OtherProvider,
    #[error("`state` is not the one of the sign-in that this browser began")]
    OtherState,
    #[error("the sign-in took longer than ten minutes")]
    Expired,
    #[error("this sign-in was completed before")]
    Replayed,
    #[error("a parameter of the response occurs twice")]
    RepeatedParameter,
    #[error("`iss` of the response names another issuer than the one that was asked")]
    OtherIssuer,
    #[error("the response has no `iss`, although the provider says that it sends it")]
    NoIssuer,
    #[error("the provider or the person refused the sign-in")]
    Denied,
    #[error("the provider reports an error")]
    ProviderError,
    #[error("the response has neither a code nor an error")]
    NoCode,
    #[error("the metadata of the provider has no `{0}`")]
    NoEndpoint(&'static str),
    #[error("the provider says which kinds of PKCE it supports, and S256 is not among them")]
    NoPkce,
    #[error("the authorization endpoint already has the parameter `{0}`")]
    EndpointParameter(&'static str),
    #[error("the provider could not be reached, or its answer could not be used")]
    Unreachable,
    #[error("the token endpoint did not accept the code")]
    CodeRefused,
    #[error("the answer of the token endpoint has no ID token")]
    NoIdToken,
    #[error("the ID token is refused: {0}")]
    IdToken(TokenRefusal),
    #[error("no value of the roles claim has a role here, and `signIn.defaultRole` is not set")]
    NoRole,
}

/// What the person can do about it. The page shows one text for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginProblem {
    /// Begin again.
    StartAgain,
    /// Sign in with another account, or allow it.
    Denied,
    /// Ask an administrator for a role.
    NoRole,
    /// Try later, or ask an administrator to look into the log.
    Provider,
}

impl LoginRefusal {
    /// True when the sign-in was one of ours and the provider was asked about it.
    pub fn cost_a_request(&self) -> bool {
        matches!(self, Self::Unreachable | Self::CodeRefused | Self::NoIdToken | Self::IdToken(_))
    }

    /// A word for logs and metrics that stays the same when the sentence changes.
    pub fn rule(self) -> &'static str {
        match self {
            Self::UnknownProvider => "provider",
            Self::NoTransaction => "cookie",
            Self::OtherProvider => "callback",
            Self::OtherState => "state",
            Self::Expired => "age",
            Self::Replayed => "replay",
            Self::RepeatedParameter => "repeated",
            Self::OtherIssuer | Self::NoIssuer => "iss",
            Self::Denied => "denied",
            Self::ProviderError => "error",
            Self::NoCode => "code",
            Self::NoEndpoint(_) | Self::NoPkce | Self::EndpointParameter(_) => "metadata",
            Self::Unreachable => "unreachable",
            Self::CodeRefused => "exchange",
            Self::NoIdToken => "id_token",
            Self::IdToken(refusal) => refusal.rule(),
            Self::NoRole => "role",
        }
    }

    pub fn problem(self) -> LoginProblem {
        match self {
            Self::NoTransaction | Self::OtherProvider | Self::OtherState | Self::Expired | Self::Replayed => {
                LoginProblem::StartAgain
            }
            Self::Denied => LoginProblem::Denied,
            Self::NoRole => LoginProblem::NoRole,
            _ => LoginProblem::Provider,
        }
    }
}

impl From<ResponseDefect> for LoginRefusal {
    fn from(defect: ResponseDefect) -> Self {
        match defect {
            ResponseDefect::OtherAddress => Self::OtherProvider,
            ResponseDefect::DuplicateParameter => Self::RepeatedParameter,
            ResponseDefect::State => Self::OtherState,
            ResponseDefect::IssuerMissing => Self::NoIssuer,
            ResponseDefect::IssuerDiffers => Self::OtherIssuer,
            ResponseDefect::NoCode => Self::NoCode,
        }
    }
}

impl LoginProblem {
    /// The name by which the page knows it.
    pub fn name(self) -> &'static str {
        match self {
            Self::StartAgain => "again",
            Self::Denied => "denied",
            Self::NoRole => "role",
            Self::Provider => "provider",
        }
    }

    /// What a reader without JavaScript is shown.
    pub fn text(self) -> &'static str {
        match self {
            Self::StartAgain => "This sign-in has ended or began in another browser. Start again.",
            Self::Denied => "The provider did not sign you in.",
            Self::NoRole => {
                "You are signed in at the provider, but you have no role at this gateway. Ask its operator."
            }
            Self::Provider => "The provider could not sign you in. The log of the gateway says why.",
        }
    }
}

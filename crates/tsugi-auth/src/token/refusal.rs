//! Why a token is refused: one variant per rule, so that logs and `tsugi auth check` can name the rule that decided.

/// The first rule that a token breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum TokenRefusal {
    #[error("the token is longer than 16 KiB")]
    TooLong,
    #[error("the token is not a signed JWT: it does not have three parts")]
    NotThreeParts,
    #[error("a part of the token is not base64url")]
    NotBase64Url,
    #[error("the header is not one JSON object without duplicate members")]
    HeaderNotStrict,
    #[error("the header asks for an extension that is not supported (`crit`, `b64`)")]
    CriticalExtension,
    #[error("the algorithm of the signature is not accepted from this issuer")]
    AlgorithmNotAllowed,
    #[error("the header's `typ` is not that of the token that is expected here")]
    TypeNotAllowed,
    #[error("the claims are not one JSON object without duplicate members")]
    ClaimsNotStrict,
    #[error("the issuer is not configured")]
    UnknownIssuer,
    #[error("the header names no key, and the issuer has more than one that fits")]
    NoKeyId,
    #[error("the issuer has no key with the id in the header")]
    UnknownKey,
    #[error("the key with this id is of another kind than the algorithm, or is meant for another use")]
    KeyDoesNotFit,
    #[error("the signature is wrong")]
    BadSignature,
    #[error("the claim `{0}` is missing or has no acceptable value")]
    BadClaim(&'static str),
    #[error("the token has expired")]
    Expired,
    #[error("the token is not valid yet (`nbf` or `iat` is in the future)")]
    NotYetValid,
    #[error("the token was not issued for this address (`aud`)")]
    WrongAudience,
    #[error("the token is bound to a key of its client (`cnf`) and cannot be used as a bearer token")]
    SenderConstrained,
    #[error("this is an ID token, a refresh token or a logout token, not an access token")]
    NotAnAccessToken,
    #[error("the issuer says that the token is not active")]
    Inactive,
    #[error("the ID token was issued for another sign-in (`nonce`)")]
    OtherNonce,
    #[error("the ID token was issued to another client (`azp`)")]
    OtherClient,
}

impl TokenRefusal {
    /// A word for logs and metrics that stays the same when the sentence changes.
    pub fn rule(self) -> &'static str {
        match self {
            Self::TooLong => "size",
            Self::NotThreeParts => "parts",
            Self::NotBase64Url => "encoding",
            Self::HeaderNotStrict => "header",
            Self::CriticalExtension => "crit",
            Self::AlgorithmNotAllowed => "alg",
            Self::TypeNotAllowed => "typ",
            Self::ClaimsNotStrict => "claims",
            Self::UnknownIssuer => "iss",
            Self::NoKeyId | Self::UnknownKey => "kid",
            Self::KeyDoesNotFit => "key",
            Self::BadSignature => "signature",
            Self::BadClaim(name) => name,
            Self::Expired => "exp",
            Self::NotYetValid => "nbf",
            Self::WrongAudience => "aud",
            Self::SenderConstrained => "cnf",
            Self::NotAnAccessToken => "kind",
            Self::Inactive => "active",
            Self::OtherNonce => "nonce",
            Self::OtherClient => "azp",
        }
    }

    /// What an operator can do about it.
    pub fn hint(self) -> &'static str {
        match self {
            Self::TooLong => "ask the provider for fewer claims; groups are the usual cause",
            Self::NotThreeParts => "an opaque token needs `introspect` on its issuer; an API key is checked as a key",
            Self::NotBase64Url | Self::HeaderNotStrict | Self::ClaimsNotStrict => {
                "the token was cut or changed on its way; copy it whole"
            }
            Self::CriticalExtension => "configure the provider to issue plain signed tokens",
            Self::AlgorithmNotAllowed => "sign with RS256, PS256, ES256, ES384 or EdDSA, and list it in `algorithms`",
            Self::TypeNotAllowed | Self::NotAnAccessToken => "send the access token, not the ID or refresh token",
            Self::UnknownIssuer => {
                "compare `iss` with `gateway.auth.issuers[].issuer`: they must be equal byte for byte"
            }
            Self::NoKeyId => "configure the provider to write `kid` into the header",
            Self::UnknownKey => "the issuer rotated its keys, or the token is from another issuer",
            Self::KeyDoesNotFit => "the `alg` of the token and the `kty`, `crv`, `alg` or `use` of the key differ",
            Self::BadSignature => "the token was changed, or was signed by another issuer",
            Self::BadClaim(_) => "configure the provider to issue this claim",
            Self::Expired => "get a new token; if the token is new, compare the clocks",
            Self::NotYetValid => "compare the clocks of issuer and gateway; `skew` may be up to 300 s",
            Self::WrongAudience => {
                "ask for a token with `resource` set to the address of the gateway, or list the audience in `audiences`"
            }
            Self::SenderConstrained => "ask the provider for a token without DPoP or certificate binding",
            Self::Inactive => "the token was revoked or has expired; sign in again",
            Self::OtherNonce => "sign in again; if it happens each time, the provider does not copy `nonce`",
            Self::OtherClient => "compare `clientId` with the client that the provider issues the token to",
        }
    }
}

//! The signature algorithms that tokens may use.

use jsonwebtoken::Algorithm;

/// A signature algorithm with a public key. There is no variant for `none` or for a shared secret, so a token that names
/// one of them cannot get past its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SigningAlgorithm {
    Rs256,
    Ps256,
    Es256,
    Es384,
    EdDsa,
}

impl SigningAlgorithm {
    pub const ALL: [SigningAlgorithm; 5] = [Self::Rs256, Self::Ps256, Self::Es256, Self::Es384, Self::EdDsa];

    /// The algorithm of this name, compared exactly: names are case-sensitive (RFC 7515 §4.1.1).
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Ps256 => "PS256",
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::EdDsa => "EdDSA",
        }
    }

    pub(crate) fn of_library(self) -> Algorithm {
        match self {
            Self::Rs256 => Algorithm::RS256,
            Self::Ps256 => Algorithm::PS256,
            Self::Es256 => Algorithm::ES256,
            Self::Es384 => Algorithm::ES384,
            Self::EdDsa => Algorithm::EdDSA,
        }
    }
}

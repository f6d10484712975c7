//! Proof that the code is redeemed by the client that asked for it (PKCE, RFC 7636).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use zeroize::Zeroize;

/// The secret of one authorization request. It has no `Debug`: until the code is redeemed it is worth as much as the code.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PkceVerifier(String);

impl PkceVerifier {
    /// From 32 random bytes: 43 characters, as RFC 7636 §4.1 recommends.
    pub fn new(random: [u8; 32]) -> Self {
        Self(URL_SAFE_NO_PAD.encode(random))
    }

    /// What the authorization request shows of it. The method is always `S256`: `plain` would show the secret.
    pub fn challenge(&self) -> String {
        URL_SAFE_NO_PAD.encode(digest(&SHA256, self.0.as_bytes()))
    }

    /// The secret itself, for the token request.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl Drop for PkceVerifier {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use super::PkceVerifier;

    #[test]
    fn the_challenge_is_the_one_of_rfc_7636_appendix_b() {
        let random = [
            116, 24, 223, 180, 151, 153, 224, 37, 79, 250, 96, 125, 216, 173, 187, 186, 22, 212, 37, 77, 105, 214, 191,
            240, 91, 88, 5, 88, 83, 132, 141, 121,
        ];
        let verifier = PkceVerifier::new(random);
        assert_eq!(verifier.expose(), "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
        assert_eq!(verifier.challenge(), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }
}

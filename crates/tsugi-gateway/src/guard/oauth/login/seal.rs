//! Seals the transaction of a sign-in into a cookie: the browser that keeps it can neither read nor change it.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use serde::{Deserialize, Serialize};
use tsugi_auth::login::LoginTransaction;

use crate::guard::sign_in::SignInId;

/// What is sealed here can be opened by nothing else that has the same key.
const PURPOSE: &[u8] = b"tsugi login transaction";
/// Browsers keep 4 KiB.
const LONGEST: usize = 4096;

/// What the browser keeps of a sign-in that is under way.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SealedLogin {
    pub(super) transaction: LoginTransaction,
    /// The sign-in that the browser has now. It must be known from the beginning: when the provider sends the browser
    /// back, the browser keeps its session cookie to itself, since that is `SameSite=Strict`.
    pub(super) replaces: Option<SignInId>,
}

/// The key of one process. A cookie of another gateway, or of this one before a restart, does not open.
pub(super) struct LoginSealer(LessSafeKey);

impl LoginSealer {
    pub(super) fn new() -> Self {
        let key = UnboundKey::new(&AES_256_GCM, &rand::random::<[u8; 32]>()).expect("a key of 32 bytes");
        Self(LessSafeKey::new(key))
    }

    pub(super) fn seal(&self, login: &SealedLogin) -> String {
        let mut sealed = serde_json::to_vec(login).expect("a transaction is plain data");
        // Random nonces repeat after 2³² sign-ins of one process with a chance of 2⁻³³: far beyond any gateway.
        let nonce: [u8; NONCE_LEN] = rand::random();
        let place = Nonce::assume_unique_for_key(nonce);
        self.0.seal_in_place_append_tag(place, Aad::from(PURPOSE), &mut sealed).expect("a transaction is short");
        BASE64_URL_SAFE_NO_PAD.encode([&nonce[..], &sealed].concat())
    }

    /// The sign-in in a cookie; `None` when it was not sealed here.
    pub(super) fn open(&self, cookie: &str) -> Option<SealedLogin> {
        if cookie.len() > LONGEST {
            return None;
        }
        let mut bytes = BASE64_URL_SAFE_NO_PAD.decode(cookie).ok()?;
        let (nonce, sealed) = bytes.split_first_chunk_mut::<NONCE_LEN>()?;
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let opened = self.0.open_in_place(nonce, Aad::from(PURPOSE), sealed).ok()?;
        serde_json::from_slice(opened).ok()
    }
}

#[cfg(test)]
mod tests {
    use tsugi_auth::login::ReturnPlace;

    use super::*;

    #[test]
    fn only_what_was_sealed_here_and_not_changed_opens() {
        let transaction = LoginTransaction::begin("corp", ReturnPlace::PlainBoard, [[1; 32], [2; 32], [3; 32]], 1_000);
        let login = SealedLogin { transaction, replaces: None };
        let sealer = LoginSealer::new();
        let cookie = sealer.seal(&login);
        assert!(sealer.open(&cookie).is_some_and(|opened| opened == login));
        assert_ne!(cookie, sealer.seal(&login));
        assert!(LoginSealer::new().open(&cookie).is_none(), "of another gateway");
        for position in 0..cookie.len() {
            let mut changed = cookie.clone().into_bytes();
            changed[position] = if changed[position] == b'A' { b'B' } else { b'A' };
            assert!(sealer.open(std::str::from_utf8(&changed).unwrap()).is_none(), "changed at {position}");
        }
        for bad in ["", "x", &cookie[..20], &"A".repeat(5000)] {
            assert!(sealer.open(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn the_largest_transaction_fits_into_a_cookie() {
        let view = format!("view=/{}", "x".repeat(511));
        let transaction = LoginTransaction::begin(&"p".repeat(64), ReturnPlace::parse(&view), [[1; 32]; 3], 1_000);
        let replaces = Some(SignInId::of_cookie("x"));
        assert!(LoginSealer::new().seal(&SealedLogin { transaction, replaces }).len() < 2_000);
    }
}

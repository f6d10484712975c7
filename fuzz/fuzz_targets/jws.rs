//! Tokens: no bytes are accepted without a signature of the key, whatever header and claims they have.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tsugi_auth::introspection::check_answer;
use tsugi_auth::jose::algorithm::SigningAlgorithm;
use tsugi_auth::jose::key_set::KeySet;
use tsugi_auth::token::{TokenRules, UnverifiedToken};

/// The public keys of RFC 7515 A.3 and RFC 8037 A.4. The tokens that are published for them are not access tokens, so
/// nothing that the fuzzer can know is accepted.
static KEYS: LazyLock<KeySet> = LazyLock::new(|| {
    let document = br#"{"keys":[
        {"kty":"EC","kid":"a","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"},
        {"kty":"OKP","kid":"b","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}
    ]}"#;
    KeySet::parse(document).expect("two keys")
});

fuzz_target!(|data: &[u8]| {
    let rules = TokenRules { issuer: "joe".to_owned(), algorithms: SigningAlgorithm::ALL.to_vec(), skew: 60 };
    if let Ok(token) = check_answer(data, &rules, 1_300_000_000) {
        assert!(token.for_audience(|_| false).is_err());
        assert!(!token.has_expired(1_300_000_000, 60));
    }
    let Ok(text) = std::str::from_utf8(data) else { return };
    // The same text as the parts of a token between tabs, so that the fuzzer need not learn base64.
    let encode = |part: &str| base64::Engine::encode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, part);
    let assembled = text.split('\t').map(encode).collect::<Vec<_>>().join(".");
    for token in [text, &assembled] {
        if let Ok(parsed) = UnverifiedToken::parse(token) {
            assert!(parsed.verify(&rules, &KEYS, 1_300_000_000).is_err(), "{token:?}");
        }
    }
});

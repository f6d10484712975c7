//! Introspection and scopes: only `active: true` is active, and no text makes more scopes than it has words.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tsugi_auth::introspection::{basic_credentials, check_active, check_answer};
use tsugi_auth::scope::{ScopeImplications, ScopeSet, is_scope};
use tsugi_auth::token::TokenRules;

const NOW: u64 = 1_300_000_000;

fuzz_target!(|data: &[u8]| {
    let rules = TokenRules { issuer: "joe".to_owned(), algorithms: Vec::new(), skew: 60 };
    let is_active = check_active(data, &rules).is_ok();
    if is_active {
        let answer: serde_json::Value = serde_json::from_slice(data).expect("what is active is JSON");
        assert_eq!(answer["active"], true);
        assert!(answer.get("iss").is_none_or(|issuer| issuer == "joe"));
    }
    if let Ok(token) = check_answer(data, &rules, NOW) {
        assert!(is_active && !token.has_expired(NOW, 60));
        assert!(token.for_audience(|_| false).is_err());
    }
    let Ok(text) = std::str::from_utf8(data) else { return };
    let scopes = ScopeSet::parse(text);
    assert!(scopes.iter().all(is_scope) && scopes.iter().count() <= text.split(' ').count());
    assert_eq!(ScopeSet::parse(&scopes.to_string()), scopes, "a challenge reads back as it was written");
    let (first, rest) = text.split_once('\t').unwrap_or((text, ""));
    let implied = ScopeImplications::new([(first.to_owned(), ScopeSet::parse(rest))]);
    let all = implied.expand(scopes.clone());
    assert!(scopes.missing_from(&all).is_empty(), "implications take nothing away");
    // Whatever the two halves are, exactly one colon is between them, and no byte can end a header.
    let basic = basic_credentials(first, rest);
    let encoded = basic.expose().strip_prefix("Basic ").expect("the scheme");
    let joined = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, encoded).expect("base64");
    assert_eq!(joined.iter().filter(|byte| **byte == b':').count(), 1);
    assert!(joined.iter().all(u8::is_ascii_graphic));
});

//! Signatures that others made: the examples of the RFCs, and Project Wycheproof's where its files are at hand.

use serde_json::{Value, json};
use tsugi_auth::jose::algorithm::SigningAlgorithm;
use tsugi_auth::jose::jws::CompactJws;
use tsugi_auth::jose::key_set::KeySet;
use tsugi_auth::token::TokenRefusal;

fn keys(key: &Value) -> KeySet {
    KeySet::parse(json!({"keys": [key]}).to_string().as_bytes()).unwrap()
}

/// The payload, if the signature is right.
fn verify(token: &str, keys: &KeySet) -> Result<Vec<u8>, TokenRefusal> {
    CompactJws::parse(token)?.verify(keys).map(<[u8]>::to_vec)
}

/// The token with one bit of each of its characters' groups changed, one at a time.
fn damaged(token: &str) -> impl Iterator<Item = String> {
    let change = |character: char| if character == 'A' { 'B' } else { 'A' };
    token.char_indices().step_by(7).map(move |(at, character)| {
        let mut copy = token.to_owned();
        copy.replace_range(at..at + character.len_utf8(), &change(character).to_string());
        copy
    })
}

fn check(token: &str, key: &Value, payload: &str) {
    let keys = keys(key);
    assert_eq!(verify(token, &keys).as_deref(), Ok(payload.as_bytes()));
    for copy in damaged(token).filter(|copy| copy != token) {
        assert!(verify(&copy, &keys).is_err(), "{copy}");
    }
}

const FRODO: &str = "SXTigJlzIGEgZGFuZ2Vyb3VzIGJ1c2luZXNzLCBGcm9kbywgZ29pbmcgb3V0IHlvdXIgZG9vci4gWW91IHN0ZXAgb250byB0aGUgcm9hZCwgYW5kIGlmIHlvdSBkb24ndCBrZWVwIHlvdXIgZmVldCwgdGhlcmXigJlzIG5vIGtub3dpbmcgd2hlcmUgeW91IG1pZ2h0IGJlIHN3ZXB0IG9mZiB0by4";

fn bilbo() -> Value {
    json!({
        "kty": "RSA", "kid": "bilbo.baggins@hobbiton.example", "use": "sig", "e": "AQAB",
        "n": "n4EPtAOCc9AlkeQHPzHStgAbgs7bTZLwUBZdR8_KuKPEHLd4rHVTeT-O-XV2jRojdNhxJWTDvNd7nqQ0VEiZQHz_AJmSCpMaJMRBSFKrKb2wqVwGU_NsYOYL-QtiWN2lbzcEe6XC0dApr5ydQLrHqkHHig3RBordaZ6Aj-oBHqFEHYpPe7Tpe-OfVfHd1E6cS6M1FZcD1NNLYD5lFHpPI9bTwJlsde3uhGqC0ZCuEHg8lhzwOHrtIQbS0FVbb9k3-tVTU4fg_3L_vniUFAKwuCLqKnS2BYwdq_mzSnbLY7h_qixoR7jig3__kRhuaxwUkRz5iaiQkqgc5gHdrNP5zw",
    })
}

#[test]
fn rfc_7515_appendix_a_3_es256() {
    let key = json!({
        "kty": "EC", "crv": "P-256",
        "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
    });
    let token = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";
    check(token, &key, "{\"iss\":\"joe\",\r\n \"exp\":1300819380,\r\n \"http://example.com/is_root\":true}");
}

#[test]
fn rfc_7520_section_4_1_rs256() {
    let token = format!(
        "eyJhbGciOiJSUzI1NiIsImtpZCI6ImJpbGJvLmJhZ2dpbnNAaG9iYml0b24uZXhhbXBsZSJ9.{FRODO}.MRjdkly7_-oTPTS3AXP41iQIGKa80A0ZmTuV5MEaHoxnW2e5CZ5NlKtainoFmKZopdHM1O2U4mwzJdQx996ivp83xuglII7PNDi84wnB-BDkoBwA78185hX-Es4JIwmDLJK3lfWRa-XtL0RnltuYv746iYTh_qHRD68BNt1uSNCrUCTJDt5aAE6x8wW1Kt9eRo4QPocSadnHXFxnt8Is9UzpERV0ePPQdLuW3IS_de3xyIrDaLGdjluPxUAhb6L2aXic1U12podGU0KLUQSE_oI-ZnmKJ3F4uOZDnd6QZWJushZ41Axf_fcIe8u9ipH84ogoree7vjbU5y18kDquDg"
    );
    let payload = "It\u{2019}s a dangerous business, Frodo, going out your door. You step onto the road, and if you don't keep your feet, there\u{2019}s no knowing where you might be swept off to.";
    check(&token, &bilbo(), payload);
}

#[test]
fn rfc_7520_section_4_2_ps384_is_an_algorithm_that_we_do_not_offer() {
    let token = format!(
        "eyJhbGciOiJQUzM4NCIsImtpZCI6ImJpbGJvLmJhZ2dpbnNAaG9iYml0b24uZXhhbXBsZSJ9.{FRODO}.cu22eBqkYDKgIlTpzDXGvaFfz6WGoz7fUDcfT0kkOy42miAh2qyBzk1xEsnk2IpN6-tPid6VrklHkqsGqDqHCdP6O8TTB5dDDItllVo6_1OLPpcbUrhiUSMxbbXUvdvWXzg-UD8biiReQFlfz28zGWVsdiNAUf8ZnyPEgVFn442ZdNqiVJRmBqrYRXe8P_ijQ7p8Vdz0TTrxUeT3lm8d9shnr2lfJT8ImUjvAA2Xez2Mlp8cBE5awDzT0qI0n6uiP1aCN_2_jLAeQTlqRHtfa64QQSUmFAAjVKPbByi7xho0uTOcbH510a6GYmJUAfmWjwZ6oD4ifKo8DYM-X72Eaw"
    );
    assert_eq!(verify(&token, &keys(&bilbo())), Err(TokenRefusal::AlgorithmNotAllowed));
}

#[test]
fn rfc_8037_appendix_a_4_ed25519() {
    let key = json!({"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"});
    let token = "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg";
    check(token, &key, "Example of Ed25519 signing");
}

/// `TSUGI_WYCHEPROOF` names `json_web_signature_test.json` of Project Wycheproof, which is not kept here.
#[test]
fn wycheproof_signatures_have_the_results_that_wycheproof_gives_them() {
    let Some(path) = std::env::var_os("TSUGI_WYCHEPROOF") else {
        println!("skipped: TSUGI_WYCHEPROOF is not set");
        return;
    };
    let file: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let (mut accepted, mut refused) = (0, 0);
    for group in file["testGroups"].as_array().unwrap() {
        // Groups without a public key are about shared secrets, which we do not take.
        let keys = keys(group.get("public").unwrap_or(&json!({})));
        for test in group["tests"].as_array().unwrap() {
            let Some(token) = test["jws"].as_str() else { continue };
            let result = verify(token, &keys);
            let name = format!("{} {}: {result:?}", test["tcId"], test["comment"]);
            match test["result"].as_str().unwrap() {
                "valid" if is_ours(token) => {
                    assert!(result.is_ok(), "{name}");
                    accepted += 1;
                }
                // Valid for others: another algorithm, a shared secret, or an empty payload, which is not a token.
                "valid" => assert!(result.is_err(), "{name}"),
                _ => {
                    assert!(result.is_err(), "{name}");
                    refused += 1;
                }
            }
        }
    }
    println!("{accepted} accepted, {refused} refused");
    assert!(accepted > 5 && refused > 250, "{accepted} accepted, {refused} refused");
}

fn is_ours(token: &str) -> bool {
    let parsed = CompactJws::parse(token);
    parsed
        .is_ok_and(|jws| SigningAlgorithm::ALL.contains(&jws.header.algorithm) && !jws.unverified_payload().is_empty())
}

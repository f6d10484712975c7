//! Forged and misused tokens, each beside the good one from which it differs in one thing.

use serde_json::{Value, json};
use tsugi_auth::jose::algorithm::SigningAlgorithm;
use tsugi_auth::jose::key_set::{KeySet, KeySetProblem};
use tsugi_auth::token::{TokenClaims, TokenRefusal, TokenRules, UnverifiedToken};
use tsugi_testkit::token_forge::{ForgeKey, encode, key_set};

const ISSUER: &str = "https://login.example";
const RESOURCE: &str = "https://mcp.example/mcp";
const NOW: u64 = 1_800_000_000;

fn claims() -> Value {
    json!({"iss": ISSUER, "aud": RESOURCE, "sub": "alice", "exp": NOW + 600, "iat": NOW, "scope": "mcp files.read", "client_id": "app"})
}

fn with(name: &str, value: Value) -> Value {
    let mut claims = claims();
    claims[name] = value;
    claims
}

fn without(name: &str) -> Value {
    let mut claims = claims();
    claims.as_object_mut().unwrap().remove(name);
    claims
}

fn published(keys: &[&ForgeKey]) -> KeySet {
    KeySet::parse(key_set(keys.iter().copied()).to_string().as_bytes()).unwrap()
}

fn rules() -> TokenRules {
    TokenRules { issuer: ISSUER.to_owned(), algorithms: SigningAlgorithm::ALL.to_vec(), skew: 60 }
}

fn verify_at(token: &str, keys: &KeySet, now: u64) -> Result<TokenClaims, TokenRefusal> {
    let verified = UnverifiedToken::parse(token)?.verify(&rules(), keys, now)?;
    verified.for_audience(|audience| [RESOURCE, "https://mcp.example"].contains(&audience)).cloned()
}

fn verify(token: &str, keys: &KeySet) -> Result<TokenClaims, TokenRefusal> {
    verify_at(token, keys, NOW)
}

/// What a token with these claims is refused for, when everything else about it is right.
fn refusal(claims: &Value) -> Option<TokenRefusal> {
    let key = ForgeKey::es256("k1");
    verify(&key.token(claims), &published(&[&key])).err()
}

#[test]
fn a_good_token_is_accepted_with_every_algorithm() {
    for key in [ForgeKey::es256("a"), ForgeKey::es384("b"), ForgeKey::ed25519("c"), ForgeKey::rsa("d")] {
        let found = verify(&key.token(&claims()), &published(&[&key])).unwrap();
        assert_eq!((found.subject.as_str(), found.client.as_deref()), ("alice", Some("app")));
        assert_eq!((found.scopes.to_string().as_str(), found.expires), ("files.read mcp", NOW + 600));
    }
    let rsa = ForgeKey::rsa("d");
    let token = rsa.sign(&json!({"alg": "PS256", "kid": "d"}), &claims());
    assert!(verify(&token, &published(&[&rsa])).is_ok());
}

#[test]
fn n01_unsigned_tokens_and_confused_algorithms_are_refused() {
    let (rsa, ec) = (ForgeKey::rsa("rsa"), ForgeKey::es256("ec"));
    let keys = published(&[&rsa, &ec]);
    assert!(verify(&rsa.token(&claims()), &keys).is_ok());
    for alg in ["none", "None", "NONE", "nOnE", "", "HS256", "HS512", "RS512", "ES512", "rs256", "RS256 "] {
        let header = json!({"alg": alg, "kid": "rsa"}).to_string();
        let unsigned = format!("{}.{}.", encode(&header), encode(&claims().to_string()));
        assert!(verify(&unsigned, &keys).is_err(), "{alg}");
        let signed = rsa.sign(&json!({"alg": alg, "kid": "rsa"}), &claims());
        assert_eq!(verify(&signed, &keys).err(), Some(TokenRefusal::AlgorithmNotAllowed), "{alg}");
    }
    for (alg, kid) in [("ES256", "rsa"), ("RS256", "ec"), ("ES384", "ec"), ("EdDSA", "ec"), ("PS256", "ec")] {
        let token = ec.sign(&json!({"alg": alg, "kid": kid}), &claims());
        assert_eq!(verify(&token, &keys).err(), Some(TokenRefusal::KeyDoesNotFit), "{alg} with {kid}");
    }
}

/// The classic confusion: the public RSA key is not secret, so a verifier that takes it as an HMAC key accepts what
/// anyone can sign. The control shows that such a signature is made correctly here.
#[test]
fn n01_a_token_that_is_signed_with_the_public_key_as_a_secret_is_refused() {
    let rsa = ForgeKey::rsa("rsa");
    let secret = rsa.jwk().to_string();
    let message =
        format!("{}.{}", encode(&json!({"alg": "HS256", "kid": "rsa"}).to_string()), encode(&claims().to_string()));
    let hmac = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret.as_bytes());
    let tag = ring::hmac::sign(&hmac, message.as_bytes());
    assert!(ring::hmac::verify(&hmac, message.as_bytes(), tag.as_ref()).is_ok(), "a careless verifier accepts it");
    let token = format!("{message}.{}", base64::Engine::encode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, tag));
    assert_eq!(verify(&token, &published(&[&rsa])).err(), Some(TokenRefusal::AlgorithmNotAllowed));
}

#[test]
fn n02_keys_come_from_the_issuer_and_not_from_the_token() {
    let (ours, attackers) = (ForgeKey::es256("k1"), ForgeKey::es256("k1"));
    let keys = published(&[&ours]);
    for (name, value) in [
        ("jwk", attackers.jwk()),
        ("jku", json!("https://evil.example/jwks")),
        ("x5u", json!("https://evil.example/cert")),
        ("x5c", json!(["AAAA"])),
    ] {
        let mut header = json!({"alg": "ES256", "kid": "k1"});
        header[name] = value;
        assert_eq!(
            verify(&attackers.sign(&header, &claims()), &keys).err(),
            Some(TokenRefusal::BadSignature),
            "{name}"
        );
        // The member itself is not read, so it does not spoil a good token either.
        assert!(verify(&ours.sign(&header, &claims()), &keys).is_ok(), "{name}");
    }
    let other = ForgeKey::es256("k2");
    assert_eq!(verify(&other.token(&claims()), &keys).err(), Some(TokenRefusal::UnknownKey));
    let claimed = other.sign(&json!({"alg": "ES256", "kid": "k1"}), &claims());
    assert_eq!(verify(&claimed, &keys).err(), Some(TokenRefusal::BadSignature));
}

#[test]
fn without_a_key_id_only_a_single_fitting_key_is_used() {
    let (first, second, rsa) = (ForgeKey::es256("a"), ForgeKey::es256("b"), ForgeKey::rsa("c"));
    let token = first.sign(&json!({"alg": "ES256"}), &claims());
    assert!(verify(&token, &published(&[&first, &rsa])).is_ok());
    assert_eq!(verify(&token, &published(&[&first, &second])).err(), Some(TokenRefusal::NoKeyId));
}

#[test]
fn n03_the_audience_must_be_one_of_ours_as_a_whole() {
    assert_eq!(refusal(&claims()), None);
    assert_eq!(refusal(&with("aud", json!(["https://other.example", RESOURCE]))), None);
    assert_eq!(refusal(&without("aud")), Some(TokenRefusal::BadClaim("aud")));
    for aud in [
        json!("https://other.example"),
        json!("https://mcp.example/mc"),
        json!("https://mcp.example/mcp/"),
        json!("https://mcp.example/mcp-evil"),
        json!("https://mcp.example/servers/a/mcp"),
        json!("HTTPS://mcp.example/mcp"),
        json!(format!("{RESOURCE} https://other.example")),
        json!(["https://other.example"]),
        json!([]),
        json!(""),
    ] {
        assert_eq!(refusal(&with("aud", aud.clone())), Some(TokenRefusal::WrongAudience), "{aud}");
    }
    for aud in [json!(7), json!(null), json!({"a": RESOURCE}), json!([RESOURCE, 7])] {
        assert_eq!(refusal(&with("aud", aud.clone())), Some(TokenRefusal::BadClaim("aud")), "{aud}");
    }
}

#[test]
fn n04_the_issuer_is_compared_byte_for_byte() {
    for iss in [
        "https://login.example/",
        "https://LOGIN.example",
        "https://login.example:443",
        "http://login.example",
        "login.example",
        "",
    ] {
        assert_eq!(refusal(&with("iss", json!(iss))), Some(TokenRefusal::UnknownIssuer), "{iss}");
    }
    assert_eq!(refusal(&with("iss", json!([ISSUER]))), Some(TokenRefusal::UnknownIssuer));
    assert_eq!(refusal(&without("iss")), Some(TokenRefusal::UnknownIssuer));
}

#[test]
fn n05_times_count_to_the_second() {
    let key = ForgeKey::es256("k1");
    let keys = published(&[&key]);
    let at = |claims: &Value, now: u64| verify_at(&key.token(claims), &keys, now).err();
    // Valid until `exp` plus the skew of 60 s.
    assert_eq!(at(&claims(), NOW + 659), None);
    assert_eq!(at(&claims(), NOW + 660), Some(TokenRefusal::Expired));
    assert_eq!(at(&with("nbf", json!(NOW + 60)), NOW), None);
    assert_eq!(at(&with("nbf", json!(NOW + 61)), NOW), Some(TokenRefusal::NotYetValid));
    assert_eq!(at(&with("iat", json!(NOW + 61)), NOW), Some(TokenRefusal::NotYetValid));
    assert_eq!(at(&with("exp", json!(NOW as f64 + 600.5)), NOW), None);
    for exp in [json!("1900000000"), json!(-1), json!(1e300), json!(null), json!(true), json!([NOW + 600])] {
        assert_eq!(at(&with("exp", exp.clone()), NOW), Some(TokenRefusal::BadClaim("exp")), "{exp}");
    }
    let huge = claims().to_string().replace(&(NOW + 600).to_string(), "18446744073709551616");
    let token = key.sign_raw(&json!({"alg": "ES256", "kid": "k1"}).to_string(), &huge);
    assert_eq!(verify(&token, &keys).err(), Some(TokenRefusal::BadClaim("exp")));
    assert_eq!(refusal(&without("exp")), Some(TokenRefusal::BadClaim("exp")));
    assert_eq!(refusal(&with("nbf", json!("soon"))), Some(TokenRefusal::BadClaim("nbf")));
}

#[test]
fn a_configured_skew_is_bounded() {
    let key = ForgeKey::es256("k1");
    let token = key.token(&claims());
    let rules = TokenRules { skew: u64::MAX, ..rules() };
    let at = |now| UnverifiedToken::parse(&token).unwrap().verify(&rules, &published(&[&key]), now).err();
    assert_eq!(at(NOW + 899), None);
    assert_eq!(at(NOW + 900), Some(TokenRefusal::Expired));
}

#[test]
fn n06_other_things_that_an_issuer_signs_are_not_access_tokens() {
    let key = ForgeKey::es256("k1");
    let keys = published(&[&key]);
    let typed =
        |typ: &str| verify(&key.sign(&json!({"alg": "ES256", "kid": "k1", "typ": typ}), &claims()), &keys).err();
    for typ in ["at+jwt", "JWT", "jwt", "application/at+jwt", "AT+JWT"] {
        assert_eq!(typed(typ), None, "{typ}");
    }
    for typ in ["dpop+jwt", "oauth-id-jag+jwt", "logout+jwt", "id+jwt", "entity-statement+jwt", "", "at+jwt2"] {
        assert_eq!(typed(typ), Some(TokenRefusal::TypeNotAllowed), "{typ}");
    }
    for (name, value) in [
        ("at_hash", json!("x")),
        ("c_hash", json!("x")),
        ("nonce", json!("x")),
        ("token_use", json!("id")),
        ("typ", json!("ID")),
        ("typ", json!("Refresh")),
        ("events", json!({"http://schemas.openid.net/event/backchannel-logout": {}})),
    ] {
        assert_eq!(refusal(&with(name, value)), Some(TokenRefusal::NotAnAccessToken), "{name}");
    }
    assert_eq!(refusal(&with("token_use", json!("access"))), None);
    assert_eq!(refusal(&with("typ", json!("Bearer"))), None);
    // Keycloak before 24 puts the nonce of the sign-in into access tokens.
    let mut keycloak = with("typ", json!("Bearer"));
    keycloak["nonce"] = json!("x");
    assert_eq!(refusal(&keycloak), None);
}

#[test]
fn n14_a_token_that_is_bound_to_a_key_is_not_a_bearer_token() {
    for cnf in [json!({"jkt": "x"}), json!({"x5t#S256": "x"}), json!({}), json!(null)] {
        assert_eq!(refusal(&with("cnf", cnf.clone())), Some(TokenRefusal::SenderConstrained), "{cnf}");
    }
}

#[test]
fn subjects_are_present_short_and_printable() {
    for sub in [json!(""), json!("a".repeat(256)), json!("a\nb"), json!("a\u{0}"), json!(7), json!(null)] {
        assert_eq!(refusal(&with("sub", sub.clone())), Some(TokenRefusal::BadClaim("sub")), "{sub}");
    }
    assert_eq!(refusal(&without("sub")), Some(TokenRefusal::BadClaim("sub")));
    assert_eq!(refusal(&with("sub", json!("ä".repeat(255)))), None);
}

#[test]
fn duplicate_members_extensions_and_odd_headers_are_refused() {
    let key = ForgeKey::es256("k1");
    let keys = published(&[&key]);
    let header = |text: &str| verify(&key.sign_raw(text, &claims().to_string()), &keys).err();
    assert_eq!(header(r#"{"alg":"ES256","kid":"k1"}"#), None);
    assert_eq!(header(r#"{"alg":"ES256","kid":"k1","alg":"ES256"}"#), Some(TokenRefusal::HeaderNotStrict));
    assert_eq!(header(r#"{"alg":"none","kid":"k1","\u0061lg":"ES256"}"#), Some(TokenRefusal::HeaderNotStrict));
    assert_eq!(header(r#"{"alg":"ES256","kid":"k1","x":{"y":1,"y":2}}"#), Some(TokenRefusal::HeaderNotStrict));
    assert_eq!(header(r#"{"alg":"ES256","kid":7}"#), Some(TokenRefusal::HeaderNotStrict));
    assert_eq!(header(r#"{"alg":["ES256"],"kid":"k1"}"#), Some(TokenRefusal::HeaderNotStrict));
    assert_eq!(header(r#"{"kid":"k1"}"#), Some(TokenRefusal::AlgorithmNotAllowed));
    assert_eq!(header(r#"{"alg":"ES256","kid":"k1","crit":["exp"]}"#), Some(TokenRefusal::CriticalExtension));
    assert_eq!(header(r#"{"alg":"ES256","kid":"k1","crit":[]}"#), Some(TokenRefusal::CriticalExtension));
    assert_eq!(header(r#"{"alg":"ES256","kid":"k1","b64":true}"#), Some(TokenRefusal::CriticalExtension));
    assert_eq!(header("[]"), Some(TokenRefusal::HeaderNotStrict));
    let doubled = claims().to_string().replacen('{', "{\"sub\":\"root\",", 1);
    let token = key.sign_raw(r#"{"alg":"ES256","kid":"k1"}"#, &doubled);
    assert_eq!(verify(&token, &keys).err(), Some(TokenRefusal::ClaimsNotStrict));
}

#[test]
fn only_three_canonical_parts_are_a_token() {
    let key = ForgeKey::es256("k1");
    let keys = published(&[&key]);
    let token = key.token(&claims());
    let parts: Vec<&str> = token.split('.').collect();
    for text in
        ["", ".", "..", "...", "a.b", parts[0], &parts[..2].join("."), &format!("{token}."), &format!("{token}.x")]
    {
        assert_eq!(verify(text, &keys).err(), Some(TokenRefusal::NotThreeParts), "{text}");
    }
    for text in [
        format!("{token}="),
        format!("{token} "),
        format!(" {token}"),
        token.replacen('e', "+", 1),
        format!("{token}\n"),
    ] {
        assert_eq!(verify(&text, &keys).err(), Some(TokenRefusal::NotBase64Url), "{text}");
    }
    let long = key.token(&with("groups", json!("g".repeat(20_000))));
    assert_eq!(verify(&long, &keys).err(), Some(TokenRefusal::TooLong));
}

#[test]
fn keys_of_the_wrong_kind_use_or_size_are_not_in_the_set() {
    let rsa = ForgeKey::rsa("k");
    let usable = |change: &dyn Fn(&mut Value)| {
        let mut key = rsa.jwk();
        change(&mut key);
        KeySet::parse(json!({"keys": [key]}).to_string().as_bytes()).unwrap().len()
    };
    assert_eq!(usable(&|_| {}), 1);
    assert_eq!(usable(&|key| key["alg"] = json!("PS256")), 1);
    assert_eq!(usable(&|key| key["key_ops"] = json!(["verify"])), 1);
    assert_eq!(usable(&|key| key["use"] = json!("enc")), 0);
    assert_eq!(usable(&|key| key["key_ops"] = json!(["encrypt"])), 0);
    assert_eq!(usable(&|key| key["alg"] = json!("RSA-OAEP")), 0);
    assert_eq!(usable(&|key| key["alg"] = json!("ES256")), 0);
    assert_eq!(usable(&|key| key["e"] = json!("AQ")), 0);
    assert_eq!(usable(&|key| key["e"] = json!("")), 0);
    assert_eq!(usable(&|key| key["kty"] = json!("oct")), 0);
    assert_eq!(usable(&|key| key["kid"] = json!(7)), 0);
    // 1024 and 16384 bits.
    for bytes in [128, 2048] {
        let number = base64::Engine::encode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, vec![0xff; bytes]);
        assert_eq!(usable(&|key| key["n"] = json!(number)), 0, "{bytes}");
    }
    let short = json!({"keys": [{"kty": "EC", "crv": "P-256", "x": "AAAA", "y": "AAAA"}, {"kty": "EC", "crv": "secp256k1"}, 7]});
    assert_eq!(KeySet::parse(short.to_string().as_bytes()).unwrap().len(), 0);
    assert_eq!(KeySet::parse(b"[]").err(), Some(KeySetProblem::NotAnObject));
    assert_eq!(KeySet::parse(b"{}").err(), Some(KeySetProblem::NoKeys));
    let many = json!({"keys": vec![json!({}); 300]}).to_string();
    assert_eq!(KeySet::parse(many.as_bytes()).err(), Some(KeySetProblem::TooManyKeys));
    assert_eq!(KeySet::parse(&vec![b' '; 600 * 1024]).err(), Some(KeySetProblem::TooLarge));
}

#[test]
fn an_issuer_may_allow_fewer_algorithms() {
    let key = ForgeKey::es256("k1");
    let token = key.token(&claims());
    let rules = TokenRules { algorithms: vec![SigningAlgorithm::Rs256], ..rules() };
    let result = UnverifiedToken::parse(&token).unwrap().verify(&rules, &published(&[&key]), NOW);
    assert_eq!(result.err(), Some(TokenRefusal::AlgorithmNotAllowed));
}

#[test]
fn scopes_are_found_where_providers_write_them() {
    let key = ForgeKey::es256("k1");
    let scopes = |claims: &Value| verify(&key.token(claims), &published(&[&key])).unwrap().scopes.to_string();
    assert_eq!(scopes(&with("scope", json!("b a"))), "a b");
    let mut entra = without("scope");
    entra["scp"] = json!("x y");
    assert_eq!(scopes(&entra), "x y");
    entra["scp"] = json!(["y", "z"]);
    assert_eq!(scopes(&entra), "y z");
    assert_eq!(scopes(&without("scope")), "");
}

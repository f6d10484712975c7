//! The authorization code flow as data: what is asked, what comes back, and ID tokens forged in every way that a careless
//! client would accept.

use serde_json::{Value, json};
use tsugi_auth::code_flow::AuthorizationResponse;
use tsugi_auth::endpoint::PlainHttp;
use tsugi_auth::id_token::{IdTokenRules, UnverifiedIdToken};
use tsugi_auth::issuer_metadata::IssuerMetadata;
use tsugi_auth::jose::algorithm::SigningAlgorithm;
use tsugi_auth::jose::key_set::KeySet;
use tsugi_auth::login::token_exchange::{TokenExchange, error_name, read_answer};
use tsugi_auth::login::{LoginClient, LoginRefusal, LoginTransaction, ReturnPlace, logout_address};
use tsugi_auth::secret::SecretText;
use tsugi_auth::token::{TokenRefusal, TokenRules};
use tsugi_testkit::token_forge::{ForgeKey, key_set};

const ISSUER: &str = "https://login.example";
const NOW: u64 = 1_800_000_000;

fn metadata(changes: Value) -> IssuerMetadata {
    let mut document = json!({
        "issuer": ISSUER, "authorization_endpoint": "https://login.example/authorize", "token_endpoint": "https://login.example/token",
        "end_session_endpoint": "https://login.example/logout",
    });
    document.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    IssuerMetadata::parse(document.to_string().as_bytes(), ISSUER, PlainHttp::Refused).unwrap()
}

fn client(secret: Option<&str>) -> LoginClient {
    let redirect = "https://mcp.example/auth/callback/corp".to_owned();
    let scopes = vec!["openid".to_owned(), "profile".to_owned()];
    LoginClient { id: "dash board".to_owned(), secret: secret.map(SecretText::new), redirect, scopes }
}

fn transaction() -> LoginTransaction {
    LoginTransaction::begin("corp", ReturnPlace::parse(""), [[1; 32], [2; 32], [3; 32]], NOW)
}

fn redeem(query: &str, metadata: &IssuerMetadata, now: u64) -> Result<String, LoginRefusal> {
    let response = AuthorizationResponse::parse(query)?;
    transaction().redeem(&response, metadata, now).map(str::to_owned)
}

#[test]
fn the_request_has_a_state_a_nonce_and_a_challenge_and_no_verifier() {
    let address = transaction().authorization_address(&metadata(json!({})), &client(None)).unwrap();
    let asked: Vec<(String, String)> = address.query_pairs().into_owned().collect();
    let names: Vec<&str> = asked.iter().map(|(name, _)| name.as_str()).collect();
    let expected = [
        "response_type",
        "client_id",
        "redirect_uri",
        "code_challenge",
        "code_challenge_method",
        "state",
        "nonce",
        "scope",
    ];
    assert_eq!(names, expected);
    let values: std::collections::HashSet<&String> = [3, 5, 6].map(|at| &asked[at].1).into_iter().collect();
    assert!(values.len() == 3 && values.iter().all(|value| value.len() == 43), "{values:?}");
    let without = metadata(json!({"authorization_endpoint": null}));
    let refused = transaction().authorization_address(&without, &client(None)).err();
    assert_eq!(refused, Some(LoginRefusal::NoEndpoint("authorization_endpoint")));
    // An endpoint that brings a parameter of ours would leave it open which of the two counts.
    let rigged = metadata(json!({"authorization_endpoint": "https://login.example/authorize?nonce=known"}));
    let refused = transaction().authorization_address(&rigged, &client(None)).err();
    assert_eq!(refused, Some(LoginRefusal::EndpointParameter("nonce")));
    let plain = metadata(json!({"code_challenge_methods_supported": ["plain"]}));
    assert_eq!(transaction().authorization_address(&plain, &client(None)).err(), Some(LoginRefusal::NoPkce));
}

#[test]
fn only_an_answer_to_this_transaction_from_this_issuer_gives_a_code() {
    let (quiet, promising) =
        (metadata(json!({})), metadata(json!({"authorization_response_iss_parameter_supported": true})));
    let state = transaction().state().to_owned();
    let good = format!("code=c&state={state}");
    let named = format!("{good}&iss=https%3A%2F%2Flogin.example&session_state=x");
    assert_eq!(redeem(&good, &quiet, NOW).as_deref(), Ok("c"));
    assert_eq!(redeem(&named, &quiet, NOW).as_deref(), Ok("c"));
    assert_eq!(redeem(&named, &promising, NOW + 599).as_deref(), Ok("c"));
    for (query, now, refusal) in [
        ("code=c".to_owned(), NOW, LoginRefusal::OtherState),
        ("code=c&state=".to_owned(), NOW, LoginRefusal::OtherState),
        (format!("code=c&state={state}x"), NOW, LoginRefusal::OtherState),
        (named.clone(), NOW + 600, LoginRefusal::Expired),
        (good.clone(), NOW, LoginRefusal::NoIssuer),
        (format!("{good}&iss=https%3A%2F%2Fevil.example"), NOW, LoginRefusal::OtherIssuer),
        (format!("error=access_denied&state={state}&iss=https%3A%2F%2Fevil.example"), NOW, LoginRefusal::OtherIssuer),
        (format!("{named}&code=d"), NOW, LoginRefusal::RepeatedParameter),
        (format!("{named}&iss=https%3A%2F%2Flogin.example"), NOW, LoginRefusal::RepeatedParameter),
        (format!("{named}&error=access_denied"), NOW, LoginRefusal::Denied),
        (format!("{named}&error=server_error"), NOW, LoginRefusal::ProviderError),
        (named.replace("code=c&", ""), NOW, LoginRefusal::NoCode),
        (named.replace("code=c&", "code=&"), NOW, LoginRefusal::NoCode),
    ] {
        assert_eq!(redeem(&query, &promising, now), Err(refusal), "{query}");
    }
    // A client that does not look at the state would redeem a code that an attacker has put there.
    let mut careless = transaction();
    let planted = AuthorizationResponse::parse("code=planted&state=attacker").unwrap();
    assert!(careless.redeem(&planted, &quiet, NOW).is_err());
    careless = serde_json::from_value({
        let mut value = serde_json::to_value(&careless).unwrap();
        value["state"] = json!("attacker");
        value
    })
    .unwrap();
    assert_eq!(careless.redeem(&planted, &quiet, NOW), Ok("planted"));
}

#[test]
fn the_client_authenticates_as_the_provider_wants() {
    let exchange = |secret, changes| {
        let request = TokenExchange::new(&transaction(), "c", &metadata(changes), &client(secret)).unwrap();
        let form: Vec<String> = request.form.iter().map(|(name, value)| format!("{name}={}", value.as_str())).collect();
        (form, request.authorization.map(|value| value.expose().to_owned()))
    };
    let verifier = "code_verifier=AwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwM";
    let common =
        ["grant_type=authorization_code", "code=c", "redirect_uri=https://mcp.example/auth/callback/corp", verifier];
    // `dash+board:a%3Ab`, in base64.
    let basic = Some("Basic ZGFzaCtib2FyZDphJTNBYg==".to_owned());
    assert_eq!(exchange(Some("a:b"), json!({})), (common.map(str::to_owned).to_vec(), basic.clone()));
    let both = json!({"token_endpoint_auth_methods_supported": ["client_secret_post", "client_secret_basic"]});
    assert_eq!(exchange(Some("a:b"), both).1, basic);
    let (form, header) =
        exchange(Some("a:b"), json!({"token_endpoint_auth_methods_supported": ["client_secret_post"]}));
    assert_eq!((&form[4..], header), (&["client_id=dash board".to_owned(), "client_secret=a:b".to_owned()][..], None));
    let (form, header) = exchange(None, json!({}));
    assert_eq!((&form[4..], header), (&["client_id=dash board".to_owned()][..], None));
}

#[test]
fn an_answer_without_an_id_token_signs_nobody_in() {
    let read = |status, body: &str| read_answer(status, body.as_bytes()).map(|token| token.expose().to_owned());
    assert_eq!(read(200, r#"{"id_token":"t","access_token":"a"}"#).as_deref(), Ok("t"));
    assert_eq!(read(200, r#"{"access_token":"a"}"#), Err(LoginRefusal::NoIdToken));
    assert_eq!(read(200, r#"{"id_token":["t"]}"#), Err(LoginRefusal::NoIdToken));
    assert_eq!(read(200, r#"{"id_token":"t","id_token":"u"}"#), Err(LoginRefusal::Unreachable));
    assert_eq!(read(400, r#"{"error":"invalid_grant","id_token":"t"}"#), Err(LoginRefusal::CodeRefused));
    assert_eq!(error_name(br#"{"error":"invalid_client"}"#).as_deref(), Some("invalid_client"));
    assert_eq!(error_name(b"{\"error\":\"a\\nforged line\"}"), None, "nothing but a name gets into a log");
}

#[test]
fn signing_out_leads_to_the_provider_where_it_has_such_a_page() {
    let address =
        |token: &str| logout_address(&metadata(json!({})), &client(None), token, "https://mcp.example/").unwrap();
    assert!(
        address("t")
            .ends_with("?client_id=dash+board&post_logout_redirect_uri=https%3A%2F%2Fmcp.example%2F&id_token_hint=t")
    );
    assert!(!address(&"t".repeat(5_000)).contains("id_token_hint"), "too long for an address");
    let none = metadata(json!({"end_session_endpoint": null}));
    assert_eq!(logout_address(&none, &client(None), "t", "https://mcp.example/"), None);
}

#[test]
fn a_return_place_is_a_view_of_our_own_page() {
    let address = |query: &str| ReturnPlace::parse(query).address();
    assert_eq!(address("view=/calls%3Fserver=up"), "/#/calls?server=up");
    assert_eq!(address("page=board&view=/x"), "/board.html");
    for query in [
        "",
        "view=",
        "view=https://evil.example",
        "view=%5C%5Cevil",
        "view=/%22",
        "view=/%3Cb%3E",
        "view=/%0a",
        "page=x",
    ] {
        assert_eq!(address(query), "/", "{query}");
    }
    assert_eq!(address(&format!("view=/{}", "x".repeat(512))), "/");
}

fn claims() -> Value {
    json!({"iss": ISSUER, "aud": "us", "sub": "alice", "iat": NOW, "exp": NOW + 300, "nonce": "n", "groups": ["a"]})
}

/// What a careless client would check: nothing but the signature.
fn is_signed(token: &str, keys: &KeySet) -> bool {
    tsugi_auth::jose::jws::CompactJws::parse(token).is_ok_and(|jws| jws.verify(keys).is_ok())
}

fn verify(token: &str, keys: &KeySet) -> Result<String, TokenRefusal> {
    let issuer = TokenRules { issuer: ISSUER.to_owned(), algorithms: SigningAlgorithm::ALL.to_vec(), skew: 60 };
    let trusted = ["partner".to_owned()];
    let rules = IdTokenRules { issuer: &issuer, client: "us", trusted_audiences: &trusted, nonce: "n" };
    UnverifiedIdToken::parse(token)?.verify(&rules, keys, NOW).map(|claims| claims.subject)
}

#[test]
fn an_id_token_is_for_us_for_this_sign_in_and_for_now() {
    let key = ForgeKey::es256("k1");
    let keys = KeySet::parse(key_set([&key]).to_string().as_bytes()).unwrap();
    let token = |changes: &[(&str, Value)]| {
        let mut claims = claims();
        for (name, value) in changes {
            claims[*name] = value.clone();
        }
        key.sign(&json!({"alg": "ES256", "kid": "k1", "typ": "JWT"}), &claims)
    };
    assert_eq!(verify(&token(&[]), &keys).as_deref(), Ok("alice"));
    assert_eq!(verify(&token(&[("azp", json!("us"))]), &keys).as_deref(), Ok("alice"));
    let both = ("aud", json!(["us", "partner"]));
    assert_eq!(verify(&token(&[both.clone(), ("azp", json!("us"))]), &keys).as_deref(), Ok("alice"));
    for (name, value, refusal) in [
        ("nonce", json!("m"), TokenRefusal::OtherNonce),
        ("nonce", Value::Null, TokenRefusal::OtherNonce),
        ("aud", json!("them"), TokenRefusal::WrongAudience),
        ("aud", json!([]), TokenRefusal::WrongAudience),
        ("aud", json!(["us", "them"]), TokenRefusal::WrongAudience),
        ("aud", json!(["us", "partner"]), TokenRefusal::OtherClient),
        ("azp", json!("them"), TokenRefusal::OtherClient),
        ("azp", json!(7), TokenRefusal::OtherClient),
        ("iss", json!("https://login.example/"), TokenRefusal::UnknownIssuer),
        ("exp", json!(NOW - 60), TokenRefusal::Expired),
        ("iat", json!(NOW + 61), TokenRefusal::NotYetValid),
        ("sub", Value::Null, TokenRefusal::BadClaim("sub")),
        ("events", json!({}), TokenRefusal::BadClaim("events")),
    ] {
        let forged = token(&[(name, value.clone())]);
        assert_eq!(verify(&forged, &keys), Err(refusal), "{name} = {value}");
        assert!(is_signed(&forged, &keys), "a client that only checks the signature accepts {name} = {value}");
    }
    let access = key.sign(&json!({"alg": "ES256", "kid": "k1", "typ": "at+jwt"}), &claims());
    assert_eq!(verify(&access, &keys), Err(TokenRefusal::TypeNotAllowed));
    assert_eq!(
        verify(&ForgeKey::es256("k1").sign(&json!({"alg": "ES256", "kid": "k1"}), &claims()), &keys),
        Err(TokenRefusal::BadSignature)
    );
    assert_eq!(verify(&key.sign(&json!({"alg": "none"}), &claims()), &keys), Err(TokenRefusal::AlgorithmNotAllowed));
}

//! Opaque tokens, and signed ones whose issuer is asked, with the issuer's journal as a second witness.

use futures_util::future::join_all;
use serde_json::{Value, json};
use tsugi_gateway::guard::api_key::ApiKey;
use tsugi_gateway::guard::oauth::introspector::IntrospectionMode;

use super::{ISSUER, OauthGateway, PUBLIC, Setup, claims, now, until_async, with};

fn asked(mode: IntrospectionMode) -> Setup {
    Setup { introspection: Some(mode), ..Setup::default() }
}

fn active() -> Value {
    json!({"active": true, "sub": "alice", "client_id": "app", "aud": format!("{PUBLIC}/mcp"), "exp": now() + 600, "scope": "mcp"})
}

fn active_with(name: &str, value: Value) -> Value {
    let mut answer = active();
    answer[name] = value;
    answer
}

#[tokio::test]
async fn n13_an_opaque_token_is_as_good_as_what_its_issuer_says_of_it() {
    let world = OauthGateway::new(asked(IntrospectionMode::Opaque)).await;
    world.site.answer("good", 200, &active());
    assert_eq!((world.call("good").await.status, world.reached()), (200, 1));
    let seen = world.journal.lock().clone();
    assert!(seen.is_empty(), "taken by `reached`");
    for (name, status, answer) in [
        ("revoked", 200, json!({"active": false})),
        ("text", 200, active_with("active", json!("true"))),
        ("number", 200, active_with("active", json!(1))),
        ("silent", 200, json!({})),
        ("expired", 200, active_with("exp", json!(now() - 61))),
        ("endless", 200, active_with("exp", Value::Null)),
        ("audience", 200, active_with("aud", json!("https://other.example"))),
        ("open", 200, active_with("aud", Value::Null)),
        ("issuer", 200, active_with("iss", json!("https://evil.example"))),
        ("bound", 200, active_with("cnf", json!({"jkt": "x"}))),
        ("dpop", 200, active_with("token_type", json!("DPoP"))),
        ("unnamed", 200, active_with("sub", Value::Null)),
    ] {
        world.site.answer(name, status, &answer);
        let got = world.call(name).await;
        assert_eq!((got.status, world.reached()), (401, 0), "{name}: {got:?}");
        assert!(got.header("www-authenticate").unwrap().contains("invalid_token"), "{name}: {got:?}");
    }
    let asked = world.site.introspected.lock().clone();
    assert!(asked.iter().all(|(address, _)| *address == format!("{ISSUER}/introspect")), "{asked:?}");
}

#[tokio::test]
async fn n13_an_issuer_that_fails_refuses_for_now_and_keys_go_on() {
    let (secret, key) = ApiKey::generate("ann");
    let world = OauthGateway::new(Setup { keys: vec![key], ..asked(IntrospectionMode::Opaque) }).await;
    for (name, status) in [("broken", 500), ("closed", 401), ("moved", 302)] {
        world.site.answer(name, status, &active());
        let got = world.call(name).await;
        assert_eq!((got.status, world.reached()), (503, 0), "{name}: {got:?}");
        assert!(got.header("retry-after").is_some() && got.header("www-authenticate").is_none(), "{name}: {got:?}");
    }
    world.site.set_down(true);
    assert_eq!((world.call("down").await.status, world.reached()), (503, 0));
    assert_eq!(world.call(&secret).await.status, 200);
    world.site.set_down(false);
    // A failure is not remembered: the token is good once the issuer is there.
    world.site.answer("down", 200, &active());
    assert_eq!(world.call("down").await.status, 200);
}

#[tokio::test]
async fn n13_a_revoked_token_ends_when_its_answer_is_old_and_a_refusal_is_kept() {
    let world = OauthGateway::new(asked(IntrospectionMode::Opaque)).await;
    world.site.answer("t", 200, &active());
    // Many at once share one question, and the answer is used for a while.
    let answers = join_all((0..20).map(|_| world.call("t"))).await;
    assert!(answers.iter().all(|got| got.status == 200), "{answers:?}");
    let questions = world.site.questions("t");
    assert!((1..20).contains(&questions), "{questions}");
    world.site.answer("t", 200, &json!({"active": false}));
    until_async(async || world.call("t").await.status == 401).await;
    world.reached();
    let questions = world.site.questions("t");
    assert_eq!((world.call("t").await.status, world.reached()), (401, 0));
    assert_eq!(world.site.questions("t"), questions, "asked once in ten seconds");
}

#[tokio::test]
async fn n13_with_always_a_signed_token_needs_its_issuers_word_too() {
    let world = OauthGateway::new(asked(IntrospectionMode::Always)).await;
    let token = world.key.token(&claims());
    assert_eq!((world.call(&token).await.status, world.reached()), (401, 0), "the issuer does not know it");
    let other = world.key.token(&with("sub", json!("bob")));
    world.site.answer(&other, 200, &json!({"active": true}));
    assert_eq!((world.call(&other).await.status, world.reached()), (200, 1));
    world.site.answer(&other, 200, &json!({"active": false}));
    until_async(async || world.call(&other).await.status == 401).await;
    // A forged token is not shown to the issuer, whatever that would say.
    let forged = tsugi_testkit::token_forge::ForgeKey::es256("k1").token(&claims());
    world.site.answer(&forged, 200, &json!({"active": true}));
    world.reached();
    assert_eq!((world.call(&forged).await.status, world.reached()), (401, 0));
    assert_eq!(world.site.questions(&forged), 0);
    // The careless gateway asks about opaque tokens only: the revoked one goes on.
    let careless = OauthGateway::new(asked(IntrospectionMode::Opaque)).await;
    let revoked = careless.key.token(&claims());
    careless.site.answer(&revoked, 200, &json!({"active": false}));
    assert_eq!((careless.call(&revoked).await.status, careless.reached()), (200, 1));
}

#[tokio::test]
async fn only_what_may_be_a_token_is_shown_to_an_issuer() {
    let (secret, key) = ApiKey::generate("ann");
    let world = OauthGateway::new(Setup { keys: vec![key], ..asked(IntrospectionMode::Opaque) }).await;
    let (unknown, _) = ApiKey::generate("gone");
    assert_eq!(world.call(&secret).await.status, 200);
    assert_eq!(world.call(&unknown).await.status, 401, "a key that was revoked");
    assert_eq!(world.call("not a token").await.status, 401);
    assert_eq!(world.call_with("/mcp", &[("X-Api-Key", "opaque-in-another-header")]).await.status, 401);
    assert_eq!(world.call_with("/mcp", &[("Authorization", "Basic b3BhcXVl")]).await.status, 401);
    assert_eq!(*world.site.introspected.lock(), Vec::new());
    assert_eq!(world.call("opaque").await.status, 401);
    assert_eq!(world.site.questions("opaque"), 1);
}

//! Hostile servers and issuers. The verdict is what reached whom.

use std::sync::Arc;

use serde_json::{Value, json};
use tsugi_oauth::registration::ConfiguredClient;
use tsugi_oauth::store::MemoryStore;

use crate::site::{Site, SiteAnswer, SiteRequest};
use crate::world::{SignInWorld, start_issuer};

#[tokio::test]
async fn metadata_of_another_resource_starts_no_sign_in() {
    for change in [
        (|document| document["resource"] = json!("https://evil.example/mcp")) as fn(&mut Value),
        |document| document["resource"] = json!(document["resource"].as_str().unwrap().replace("/mcp", "/mcp-evil")),
        |document| document["resource"] = json!(document["resource"].as_str().unwrap().replace("/mcp", "/mcp/below")),
        |document| document["resource"] = json!("http://mcp.example/mcp"),
        |document| document["authorization_servers"] = json!(["javascript:alert(1)"]),
        |document| document["authorization_servers"] = json!(["http://login.example"]),
        |document| document["authorization_servers"] = json!([]),
    ] {
        let world = SignInWorld::start().await;
        world.change(|plan| plan.resource = change);
        assert!(world.call(&world.usual()).await.is_err());
        assert!(world.issuer.requests().is_empty(), "{:?}", world.issuer.requests());
    }
}

#[tokio::test]
async fn an_issuer_that_lies_about_itself_gets_no_code_and_no_client() {
    for change in [
        (|document| document["issuer"] = json!("https://honest.example")) as fn(&mut Value),
        |document| document["issuer"] = json!(format!("{}/", document["issuer"].as_str().unwrap())),
        |document| document["authorization_endpoint"] = json!("javascript:alert(1)"),
        |document| document["token_endpoint"] = json!("http://login.example/token"),
        |document| document["token_endpoint"] = json!("file:///etc/passwd"),
        |document| document["registration_endpoint"] = json!("https://user:pass@login.example/register"),
    ] {
        let world = SignInWorld::start().await;
        world.change(|plan| plan.metadata = change);
        assert!(world.call(&world.usual()).await.is_err());
        assert_eq!((world.issuer.count("/authorize"), world.issuer.count("/register")), (0, 0));
    }
}

#[tokio::test]
async fn an_issuer_without_pkce_is_not_visited() {
    let world = SignInWorld::start().await;
    world.change(|plan| plan.metadata = |document| document["code_challenge_methods_supported"] = json!(["plain"]));
    let refused = world.call(&world.usual()).await.unwrap_err();
    assert!(refused.contains("PKCE"), "{refused}");
    assert_eq!((world.issuer.count("/authorize"), world.issuer.count("/token")), (0, 0));
}

#[tokio::test]
async fn nothing_of_the_old_issuer_reaches_the_new_one() {
    let world = SignInWorld::start().await;
    let credential = world.usual();
    assert_eq!(world.call(&credential).await, Ok(200));
    let second = start_issuer(world.plan.clone(), "b").await;
    world.change(|plan| {
        plan.issuer = second.url.clone();
        plan.token_prefix = "token-b".to_owned();
    });
    let before = world.issuer.requests().len();
    assert_eq!(world.call(&credential).await, Ok(200));
    assert_eq!(second.count("/register"), 1);
    for request in second.requests() {
        for secret in ["client-a", "secret-a", "refresh-a", "token-a", "code-a"] {
            assert!(!request.text().contains(secret), "{secret} reached the new issuer: {request:?}");
        }
    }
    assert_eq!(world.issuer.requests().len(), before, "and the old one was not asked");
}

#[tokio::test]
async fn a_configured_client_does_not_move_to_another_issuer() {
    let world = SignInWorld::start().await;
    let mut options = world.options();
    let secret = tsugi_auth::secret::SecretText::new("s3cret");
    options.client.configured =
        Some(ConfiguredClient { id: "mine".to_owned(), secret: Some(secret), key: None, issuer: None });
    let credential = world.credential(options, Arc::new(MemoryStore::default()));
    assert_eq!(world.call(&credential).await, Ok(200));
    let second = start_issuer(world.plan.clone(), "b").await;
    world.change(|plan| {
        plan.issuer = second.url.clone();
        plan.token_prefix = "token-b".to_owned();
    });
    let refused = world.call(&credential).await.unwrap_err();
    assert!(refused.contains("another authorization server"), "{refused}");
    assert_eq!((second.count("/authorize"), second.count("/token"), second.count("/register")), (0, 0, 0));
}

#[tokio::test]
async fn endless_refusals_end_after_three_sign_ins() {
    let world = SignInWorld::start().await;
    world.change(|plan| {
        plan.judge = |_| {
            let challenge = "Bearer error=\"insufficient_scope\", scope=\"mcp:basic\"";
            Some(SiteAnswer::json(403, &json!({})).with("www-authenticate", challenge))
        };
    });
    let credential = world.usual();
    for _ in 0..5 {
        let refused = world.call(&credential).await.unwrap_err();
        assert!(refused.contains("still refuses after 3 sign-ins"), "{refused}");
    }
    assert_eq!(world.issuer.count("/authorize"), 3);
}

#[tokio::test]
async fn a_server_that_refuses_every_token_asks_for_three_sign_ins_at_most() {
    let world = SignInWorld::start().await;
    world.change(|plan| plan.token_prefix = "none".to_owned());
    let credential = world.usual();
    for _ in 0..5 {
        assert!(world.call(&credential).await.is_err());
    }
    assert_eq!(world.issuer.count("/authorize"), 3);
}

#[tokio::test]
async fn a_403_that_scope_would_not_change_is_passed_on() {
    let world = SignInWorld::start().await;
    world.change(|plan| plan.judge = |_| Some(SiteAnswer::json(403, &json!({}))));
    assert_eq!(world.call(&world.usual()).await, Ok(403));
    assert_eq!(world.issuer.count("/authorize"), 1);
}

/// The token endpoint answers with `answer`; returns what the call said and how many requests reached `sink`.
async fn with_token_answer(make: impl Fn(&str) -> SiteAnswer) -> (Result<u16, String>, usize) {
    let sink = Site::start(|_| {
        |_: &SiteRequest| SiteAnswer::json(200, &json!({"access_token": "token-x", "token_type": "Bearer"}))
    })
    .await;
    let world = SignInWorld::start().await;
    let answer = make(&sink.url);
    world.change(|plan| plan.token = Arc::new(move |_| Some(answer.clone())));
    (world.call(&world.usual()).await, sink.requests().len())
}

#[tokio::test]
async fn a_token_endpoint_that_redirects_or_answers_no_token_gives_none() {
    let redirect =
        |status| move |sink: &str| SiteAnswer::json(status, &json!({})).with("location", format!("{sink}/token"));
    for status in [301, 302, 303, 307, 308] {
        let (called, reached) = with_token_answer(redirect(status)).await;
        assert!(called.is_err(), "{status}");
        assert_eq!(reached, 0, "a form with a code went on to another host");
    }
    for answer in [
        SiteAnswer::html(200),
        SiteAnswer::json(200, &json!({"access_token": "token-x"})),
        SiteAnswer::json(200, &json!({"access_token": "token-x", "token_type": "mac"})),
        SiteAnswer::json(200, &json!({"access_token": "token-x", "token_type": "DPoP"})),
        SiteAnswer::json(200, &json!({"access_token": "a\r\nx-evil: 1", "token_type": "Bearer"})),
        SiteAnswer::json(200, &json!({"token_type": "Bearer"})),
        SiteAnswer::json(200, &json!({"access_token": "x".repeat(100_000), "token_type": "Bearer"})),
        SiteAnswer::json(500, &json!({"error": "server_error"})),
    ] {
        let (called, _) = with_token_answer(|_| answer.clone()).await;
        assert!(called.is_err(), "{answer:?}");
    }
    let good = SiteAnswer::json(200, &json!({"access_token": "token-x", "token_type": "bearer", "expires_in": "60"}));
    assert_eq!(with_token_answer(|_| good.clone()).await.0, Ok(200));
}

#[tokio::test]
async fn what_an_issuer_writes_is_not_repeated_in_errors() {
    let evil = json!({"error": "<script>", "error_description": "<script>alert(1)</script>"});
    let (called, _) = with_token_answer(|_| SiteAnswer::json(400, &evil)).await;
    let text = called.unwrap_err();
    assert!(!text.contains('<'), "{text}");
}

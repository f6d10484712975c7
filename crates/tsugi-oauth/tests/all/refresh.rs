//! Refreshing: once for all, under one lock, and what happens when it fails.

use std::sync::Arc;

use serde_json::json;
use tsugi_oauth::credential::SignInStatus;
use tsugi_oauth::credential::options::{GrantChoice, SignInWay};
use tsugi_oauth::record::CredentialRecord;
use tsugi_oauth::store::{CredentialStore, MemoryStore};

use crate::site::SiteAnswer;
use crate::world::SignInWorld;

/// A world in which someone has signed in, with a token that is due.
async fn signed_in(store: &Arc<MemoryStore>) -> SignInWorld {
    let world = SignInWorld::start().await;
    assert_eq!(world.call(&world.credential(world.options(), store.clone())).await, Ok(200));
    make_due(&world, store).await;
    world
}

/// Time passes: the token in the store must be refreshed.
async fn make_due(world: &SignInWorld, store: &MemoryStore) {
    let key = world.options().key;
    let mut record = CredentialRecord::parse(&store.read(&key).await.unwrap().unwrap()).unwrap();
    record.tokens.as_mut().unwrap().renew = Some(0);
    store.write(&key, Some(record.to_bytes())).await.unwrap();
}

/// A process that never signs in by itself.
fn background(world: &SignInWorld, store: &Arc<MemoryStore>) -> Arc<tsugi_oauth::credential::OauthCredential> {
    let mut options = world.options();
    options.grant = GrantChoice::SignIn(SignInWay::Elsewhere);
    world.credential(options, store.clone())
}

#[tokio::test]
async fn twenty_users_of_one_rotating_token_refresh_it_once() {
    let store = Arc::new(MemoryStore::default());
    let world = signed_in(&store).await;
    world.change(|plan| plan.rotates = true);
    let all: Vec<_> = (0..20).map(|_| background(&world, &store)).collect();
    let answers = futures_util::future::join_all(all.iter().map(|one| world.call(one))).await;
    assert!(answers.iter().all(|answer| *answer == Ok(200)), "{answers:?}");
    let refreshes = world.issuer.requests_to("/token").into_iter().filter(|one| one.body.contains("refresh_token"));
    assert_eq!(refreshes.count(), 1);
}

#[tokio::test]
async fn an_answer_without_a_refresh_token_keeps_the_old_one() {
    let store = Arc::new(MemoryStore::default());
    let world = signed_in(&store).await;
    for _ in 0..3 {
        assert_eq!(world.call(&background(&world, &store)).await, Ok(200));
        make_due(&world, &store).await;
    }
    let sent: Vec<String> = world
        .issuer
        .requests_to("/token")
        .iter()
        .filter_map(|request| request.form().get("refresh_token").cloned())
        .collect();
    assert_eq!(sent, ["refresh-a1"; 3]);
}

#[tokio::test]
async fn a_refused_refresh_token_ends_the_sign_in_and_is_not_sent_again() {
    let store = Arc::new(MemoryStore::default());
    let world = signed_in(&store).await;
    world.change(|plan| {
        plan.token_prefix = "token-b".to_owned();
        plan.token = Arc::new(|_| Some(SiteAnswer::json(400, &json!({"error": "invalid_grant"}))));
    });
    let credential = background(&world, &store);
    for _ in 0..3 {
        let refused = world.call(&credential).await.unwrap_err();
        assert!(refused.contains("sign-in has ended"), "{refused}");
    }
    assert_eq!(credential.status().await.unwrap(), SignInStatus::NeedsSignIn);
    assert_eq!(world.issuer.count("/token"), 2, "the first sign-in and one refresh");
}

#[tokio::test]
async fn an_issuer_in_trouble_changes_nothing() {
    let store = Arc::new(MemoryStore::default());
    let world = signed_in(&store).await;
    world.change(|plan| plan.token = Arc::new(|_| Some(SiteAnswer::json(503, &json!({})))));
    let credential = background(&world, &store);
    assert_eq!(world.call(&credential).await, Ok(200), "the old token still holds");
    world.change(|plan| plan.token = Arc::new(|_| None));
    // This process asks again a little later; another one has not asked yet.
    assert_eq!(world.call(&credential).await, Ok(200));
    assert_eq!(world.issuer.count("/token"), 2, "the sign-in and one refresh");
    assert_eq!(world.call(&background(&world, &store)).await, Ok(200));
    assert_eq!(world.server.requests_to("/mcp").last().unwrap().header("authorization"), Some("Bearer token-a2"));
}

#[tokio::test]
async fn a_token_that_the_server_refuses_early_is_refreshed() {
    let store = Arc::new(MemoryStore::default());
    let world = SignInWorld::start().await;
    assert_eq!(world.call(&world.credential(world.options(), store.clone())).await, Ok(200));
    world.change(|plan| plan.token_prefix = "token-a2".to_owned());
    assert_eq!(world.call(&background(&world, &store)).await, Ok(200));
    assert_eq!(world.issuer.count("/authorize"), 1);
}

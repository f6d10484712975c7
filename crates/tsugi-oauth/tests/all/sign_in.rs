//! Signing in: the whole way, step-up, sign-out, and the window on this machine.

use std::sync::{Arc, Mutex};

use serde_json::json;
use tsugi_oauth::browser::SignInBrowser;
use tsugi_oauth::credential::{SignInStatus, SignOutResult};
use tsugi_oauth::loopback::{LoopbackBrowser, PageOpener};
use tsugi_oauth::store::MemoryStore;
use url::Url;

use crate::site::{SiteAnswer, visit};
use crate::world::{REDIRECT, SignInWorld};

#[tokio::test]
async fn a_refused_call_signs_in_and_is_sent_again_with_the_token() {
    let world = SignInWorld::start().await;
    let credential = world.usual();
    assert_eq!(world.call(&credential).await, Ok(200));
    let calls = world.server.requests_to("/mcp");
    assert_eq!((calls.len(), calls[0].header("authorization")), (2, None));
    assert_eq!(calls[1].header("authorization"), Some("Bearer token-a1"));

    let query = world.issuer.requests_to("/authorize")[0].query();
    assert_eq!((query["client_id"].as_str(), query["scope"].as_str()), ("client-a", "mcp:basic"));
    assert_eq!((query["resource"].as_str(), query["code_challenge_method"].as_str()), (world.url().as_str(), "S256"));
    let exchange = &world.issuer.requests_to("/token")[0];
    let form = exchange.form();
    assert_eq!((form["code"].as_str(), form["redirect_uri"].as_str()), ("code-a", REDIRECT));
    assert_eq!(form["resource"], world.url().as_str());
    assert!(form["code_verifier"].len() >= 43);
    assert!(exchange.header("authorization").unwrap().starts_with("Basic "));
    let registration: serde_json::Value = serde_json::from_str(&world.issuer.requests_to("/register")[0].body).unwrap();
    assert_eq!(registration["application_type"], "native");
    assert_eq!(registration["grant_types"], json!(["authorization_code", "refresh_token"]));

    // The next call has the token at once.
    assert_eq!(world.call(&credential).await, Ok(200));
    assert_eq!((world.server.count("/mcp"), world.issuer.count("/token")), (3, 1));
}

#[tokio::test]
async fn many_calls_at_once_sign_in_once() {
    let world = SignInWorld::start().await;
    let credential = world.usual();
    let calls = (0..20).map(|_| world.call(&credential));
    let answers = futures_util::future::join_all(calls).await;
    assert!(answers.iter().all(|answer| *answer == Ok(200)), "{answers:?}");
    assert_eq!((world.issuer.count("/authorize"), world.issuer.count("/register")), (1, 1));
}

#[tokio::test]
async fn a_step_up_asks_for_the_old_scopes_and_the_new_one() {
    let world = SignInWorld::start().await;
    world.change(|plan| {
        plan.judge = |request| {
            (request.header("authorization") == Some("Bearer token-a1")).then(|| {
                SiteAnswer::json(403, &json!({}))
                    .with("www-authenticate", "Bearer error=\"insufficient_scope\", scope=\"mcp:write\"")
            })
        };
    });
    assert_eq!(world.call(&world.usual()).await, Ok(200));
    let scopes: Vec<String> =
        world.issuer.requests_to("/authorize").iter().map(|request| request.query()["scope"].clone()).collect();
    assert_eq!(scopes, ["mcp:basic", "mcp:basic mcp:write"]);
    assert_eq!(world.issuer.count("/register"), 1, "the client is still the same");
}

#[tokio::test]
async fn a_metadata_document_is_the_client_where_the_issuer_takes_it() {
    let world = SignInWorld::start().await;
    world.change(|plan| plan.metadata = |document| document["client_id_metadata_document_supported"] = json!(true));
    let mut options = world.options();
    options.client.document = Some("https://tsugi.example/client.json".to_owned());
    assert_eq!(world.call(&world.credential(options, Arc::new(MemoryStore::default()))).await, Ok(200));
    assert_eq!(world.issuer.count("/register"), 0);
    assert_eq!(world.issuer.requests_to("/token")[0].form()["client_id"], "https://tsugi.example/client.json");
}

#[tokio::test]
async fn signing_out_revokes_and_forgets() {
    let world = SignInWorld::start().await;
    let credential = world.usual();
    assert_eq!(credential.status().await.unwrap(), SignInStatus::NeedsSignIn);
    world.call(&credential).await.unwrap();
    assert!(matches!(credential.status().await.unwrap(), SignInStatus::SignedIn { can_refresh: true, .. }));
    assert_eq!(credential.sign_out().await, Ok(SignOutResult::Revoked));
    let revoked: Vec<_> = world.issuer.requests_to("/revoke").iter().map(|request| request.form()).collect();
    let named: Vec<_> = revoked.iter().map(|form| (form["token"].as_str(), form["token_type_hint"].as_str())).collect();
    assert_eq!(named, [("refresh-a1", "refresh_token"), ("token-a1", "access_token")]);
    assert_eq!(credential.status().await.unwrap(), SignInStatus::NeedsSignIn);
    assert_eq!(credential.sign_out().await, Ok(SignOutResult::Nothing));
}

/// Keeps the page that it was to open, and pastes what it is given.
#[derive(Default)]
struct NotingOpener(Arc<Mutex<Option<Url>>>, Option<String>);

impl PageOpener for NotingOpener {
    fn open(&self, page: &Url) {
        *self.0.lock().unwrap() = Some(page.clone());
    }

    fn pasted(&self) -> futures_util::future::BoxFuture<'static, Option<String>> {
        match self.1.clone() {
            Some(text) => Box::pin(async { Some(text) }),
            None => Box::pin(std::future::pending()),
        }
    }
}

#[tokio::test]
async fn the_window_takes_only_a_request_with_its_own_state() {
    let window = LoopbackBrowser::new(Arc::new(NotingOpener::default())).prepare().await.unwrap();
    let redirect: Url = window.redirect_uri().parse().unwrap();
    let at = |target: &str| redirect.join(target).unwrap();
    let waiting = tokio::spawn(window.visit("https://login.example/authorize?state=right".parse().unwrap()));
    for forged in ["/callback?state=wrong&code=evil", "/callback?code=evil", "/other?state=right&code=evil", "/"] {
        assert_eq!(visit(&at(forged)).await.0, 404, "{forged}");
    }
    assert_eq!(visit(&at("/callback?state=right&code=good")).await.0, 200);
    assert_eq!(waiting.await.unwrap().unwrap(), at("/callback?state=right&code=good").as_str());
}

#[tokio::test]
async fn an_address_that_is_pasted_back_ends_the_wait() {
    let opener = NotingOpener(Arc::default(), Some("http://127.0.0.1:1/callback?code=x".to_owned()));
    let window = LoopbackBrowser::new(Arc::new(opener)).prepare().await.unwrap();
    let answer = window.visit("https://login.example/authorize?state=s".parse().unwrap()).await;
    assert_eq!(answer.unwrap(), "http://127.0.0.1:1/callback?code=x");
}

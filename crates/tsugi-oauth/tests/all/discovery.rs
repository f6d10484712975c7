//! Where the authorization server is looked for, in which order, and when the search ends.

use std::sync::Arc;

use serde_json::{Value, json};
use tsugi_oauth::store::MemoryStore;

use crate::site::{Site, SiteAnswer, SiteRequest};
use crate::world::SignInWorld;

#[tokio::test]
async fn without_a_hint_the_path_is_asked_before_the_root() {
    let world = SignInWorld::start().await;
    world.change(|plan| plan.names_metadata = false);
    assert_eq!(world.call(&world.usual()).await, Ok(200));
    assert_eq!(world.server.count("/.well-known/oauth-protected-resource/mcp"), 1);
    assert_eq!(world.server.count("/.well-known/oauth-protected-resource"), 0);
}

#[tokio::test]
async fn a_configured_issuer_must_be_listed() {
    let world = SignInWorld::start().await;
    let mut options = world.options();
    options.discovery.issuer = Some("https://other.example".to_owned());
    let refused = world.call(&world.credential(options, Arc::new(MemoryStore::default()))).await.unwrap_err();
    assert!(refused.contains("configured issuer"), "{refused}");
    assert!(world.issuer.requests().is_empty());
}

/// A server of 2025-03-26, which is its own authorization server, with or without metadata.
async fn old_server(has_metadata: bool, resource_status: u16) -> Site {
    Site::start(|url| {
        move |request: &SiteRequest| match request.path() {
            "/mcp" if request.header("authorization") == Some("Bearer old") => SiteAnswer::json(200, &json!({})),
            "/mcp" => SiteAnswer::new(401),
            "/.well-known/oauth-authorization-server" if has_metadata => SiteAnswer::json(
                200,
                &json!({"issuer": url, "authorization_endpoint": format!("{url}/oauth/authorize"),
                        "token_endpoint": format!("{url}/oauth/token"),
                        "registration_endpoint": format!("{url}/oauth/register"),
                        "code_challenge_methods_supported": ["S256"]}),
            ),
            path if path.starts_with("/.well-known/oauth-protected-resource") => SiteAnswer::html(resource_status),
            path => match path.strip_prefix(if has_metadata { "/oauth" } else { "" }) {
                Some("/register") => SiteAnswer::json(201, &json!({"client_id": "old-client"})),
                Some("/authorize") => {
                    let query = request.query();
                    let back = format!("{}?code=c&state={}", query["redirect_uri"], query["state"]);
                    SiteAnswer::new(302).with("location", back)
                }
                Some("/token") => SiteAnswer::json(200, &json!({"access_token": "old", "token_type": "bearer"})),
                _ => SiteAnswer::html(404),
            },
        }
    })
    .await
}

async fn call_old(site: &Site, legacy: bool) -> Result<u16, String> {
    let mut world = SignInWorld::start().await;
    world.server = site.clone();
    let mut options = world.options();
    options.discovery.legacy = legacy;
    world.call(&world.credential(options, Arc::new(MemoryStore::default()))).await
}

#[tokio::test]
async fn a_server_of_2025_03_26_is_its_own_authorization_server() {
    assert_eq!(call_old(&old_server(true, 404).await, true).await, Ok(200));
    assert_eq!(call_old(&old_server(false, 404).await, true).await, Ok(200), "the fixed paths");
}

#[tokio::test]
async fn the_old_way_can_be_switched_off() {
    let site = old_server(true, 404).await;
    assert!(call_old(&site, false).await.is_err());
    assert_eq!(site.count("/.well-known/oauth-authorization-server"), 0);
}

#[tokio::test]
async fn a_server_in_trouble_is_no_reason_to_look_elsewhere() {
    let site = old_server(true, 503).await;
    assert!(call_old(&site, true).await.is_err());
    assert_eq!(site.count("/.well-known/oauth-protected-resource"), 0);
    assert_eq!(site.count("/.well-known/oauth-authorization-server"), 0);
}

#[tokio::test]
async fn metadata_that_the_challenge_names_and_that_is_missing_ends_the_search() {
    let world = SignInWorld::start().await;
    world.change(|plan| plan.resource = |document| *document = Value::Null);
    assert!(world.call(&world.usual()).await.is_err());
    assert_eq!(world.server.count("/.well-known/oauth-protected-resource"), 0);
    assert!(world.issuer.requests().is_empty());
}

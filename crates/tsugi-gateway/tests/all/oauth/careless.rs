//! A careless verifier beside the real one: every attack of the table passes it, so each of them is one.

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::request::Parts;
use serde_json::{Value, json};
use tsugi_client::{ConnectTarget, Manager, ManagerOptions, ServerConfig};
use tsugi_gateway::guard::AccessGuard;
use tsugi_gateway::guard::authority::Authority;
use tsugi_gateway::guard::credential::{CredentialCheck, CredentialVerifier};
use tsugi_gateway::{Gateway, GatewayConfig, Hub, HubConfig};
use tsugi_protocol::answer::Identity;
use tsugi_testkit::token_forge::{ForgeKey, encode};

use super::{ISSUER, Journal, OauthGateway, PUBLIC, Setup, claims, now, server, with};
use crate::faults::tool_call;
use crate::world::*;

/// Believes what a token says.
struct CarelessVerifier;

impl CredentialVerifier for CarelessVerifier {
    fn recognizes(&self, _: &str) -> bool {
        true
    }

    fn verify<'a>(&'a self, secret: &'a str, _: &'a Parts) -> CredentialCheck<'a> {
        let payload = secret.split('.').nth(1).and_then(|part| BASE64_URL_SAFE_NO_PAD.decode(part).ok());
        let claims: Value = payload.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
        let subject = claims["sub"].as_str().unwrap_or("unknown").to_owned();
        CredentialCheck::Ready(Ok(Arc::new(Authority::new(Identity::subject("careless", subject)))))
    }

    fn still_holds<'a>(&'a self, _: &'a str) -> BoxFuture<'a, bool> {
        std::future::ready(true).boxed()
    }

    fn closes_gateway(&self) -> bool {
        true
    }
}

/// Tokens that no gateway may accept at `/mcp`, by the row of the table that they belong to.
fn attacks(key: &ForgeKey) -> Vec<(&'static str, String)> {
    let unsigned =
        |alg: &str| format!("{}.{}.", encode(&json!({"alg": alg}).to_string()), encode(&claims().to_string()));
    let header = |alg: &str| key.sign(&json!({"alg": alg, "kid": "k1"}), &claims());
    let typed = |typ: &str| key.sign(&json!({"alg": "ES256", "kid": "k1", "typ": typ}), &claims());
    let claimed = |name: &str, value: Value| key.token(&with(name, value));
    let stranger = ForgeKey::es256("evil");
    let jku = json!({"alg": "ES256", "kid": "evil", "jku": "https://evil.example/keys", "jwk": stranger.jwk()});
    vec![
        ("n01 none", unsigned("none")),
        ("n01 None", unsigned("None")),
        ("n01 HS256", header("HS256")),
        ("n01 RS256 with an EC key", header("RS256")),
        ("n01 another key", ForgeKey::es256("k1").token(&claims())),
        ("n02 jku", stranger.sign(&jku, &claims())),
        ("n02 kid of no key", stranger.token(&claims())),
        ("n03 no aud", claimed("aud", Value::Null)),
        ("n03 other aud", claimed("aud", json!("https://other.example"))),
        ("n03 part of ours", claimed("aud", json!(format!("{PUBLIC}/mc")))),
        ("n03 array without ours", claimed("aud", json!(["a", format!("{PUBLIC}/servers/up/mcp")]))),
        ("n04 slash", claimed("iss", json!(format!("{ISSUER}/")))),
        ("n04 case", claimed("iss", json!("https://LOGIN.example"))),
        ("n05 expired", claimed("exp", json!(now() - 61))),
        ("n05 exp as text", claimed("exp", json!("9999999999"))),
        (
            "n05 exp past 64 bits",
            key.sign_raw(
                &json!({"alg": "ES256", "kid": "k1"}).to_string(),
                &claims().to_string().replace(&claims()["exp"].to_string(), "18446744073709551616"),
            ),
        ),
        ("n05 nbf", claimed("nbf", json!(now() + 120))),
        ("n06 ID token", claimed("at_hash", json!("x"))),
        ("n06 proof", typed("dpop+jwt")),
        ("n06 ID-JAG", typed("oauth-id-jag+jwt")),
        ("n06 logout", typed("logout+jwt")),
        ("n14 cnf", claimed("cnf", json!({"x5t#S256": "x"}))),
    ]
}

async fn careless_gateway(journal: &Journal) -> (Client, Box<dyn Send>) {
    let config = GatewayConfig::on_free_port();
    let guard = AccessGuard::new(&config).with_verifier(Arc::new(CarelessVerifier));
    let manager = Manager::new(ManagerOptions::default());
    let target = ConnectTarget::InProcess(server("up", journal.clone()));
    manager.register(ServerConfig::new("up", target)).unwrap().ready(std::time::Duration::from_secs(60)).await.unwrap();
    let hub = Hub::new(manager.clone(), HubConfig::default(), Arc::new(guard));
    let handle = Gateway::serve(config, Arc::new(hub)).await.unwrap();
    (Client::of(&handle), Box::new((manager, handle)))
}

#[tokio::test]
async fn every_attack_opens_a_careless_gateway_and_not_this_one() {
    let (careless_journal, world) =
        (Journal::default(), OauthGateway::new(Setup { is_proxied: true, ..Setup::default() }).await);
    let (careless, _running) = careless_gateway(&careless_journal).await;
    for (number, (name, token)) in attacks(&world.key).into_iter().enumerate() {
        let bearer = format!("Bearer {token}");
        // Each from another client of the proxy, so that none is refused for the number of its guesses.
        let address = format!("192.0.2.{number}");
        let refused = world.call_with("/mcp", &[("Authorization", &bearer), ("X-Forwarded-For", &address)]).await;
        assert_eq!((refused.status, world.reached()), (401, 0), "{name}: {refused:?}");
        assert_eq!(world.call(&world.key.token(&claims())).await.status, 200, "beside {name}");
        assert_eq!(world.reached(), 1, "beside {name}");
        let message = tool_call(json!(1), "up__echo", json!({}));
        let own = modern_headers(&message);
        let mut headers: Vec<(&str, &str)> = own.iter().map(|(name, value)| (*name, value.as_str())).collect();
        headers.push(("Authorization", &bearer));
        let got = careless.send("POST", "/mcp", &headers, &message.to_string()).await;
        let reached = std::mem::take(&mut *careless_journal.lock()).len();
        assert_eq!((got.status, reached), (200, 1), "{name} is an attack: {got:?}");
    }
}

//! Grants without a browser: the client itself, a workload, an organization's identity provider, another device.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use tsugi_auth::jose::algorithm::SigningAlgorithm;
use tsugi_auth::jose::signer::JwsSigner;
use tsugi_auth::secret::SecretText;
use tsugi_oauth::assertion::AssertionFn;
use tsugi_oauth::browser::DeviceDisplay;
use tsugi_oauth::client_auth::ClientKey;
use tsugi_oauth::credential::options::{EnterpriseLogin, GrantChoice, OauthOptions, SignInWay};
use tsugi_oauth::device::DeviceCode;
use tsugi_oauth::registration::ConfiguredClient;
use tsugi_oauth::store::MemoryStore;

use crate::site::{Site, SiteAnswer, SiteRequest};
use crate::world::SignInWorld;

fn configured(secret: Option<&str>, key: Option<ClientKey>) -> Option<ConfiguredClient> {
    Some(ConfiguredClient { id: "robot".to_owned(), secret: secret.map(SecretText::new), key, issuer: None })
}

async fn call(world: &SignInWorld, options: OauthOptions) -> Result<u16, String> {
    world.call(&world.credential(options, Arc::new(MemoryStore::default()))).await
}

fn claims(token: &str, part: usize) -> Value {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(token.split('.').nth(part).unwrap()).unwrap()).unwrap()
}

#[tokio::test]
async fn a_client_with_a_secret_gets_a_token_for_itself() {
    for (methods, is_basic) in [(json!(["client_secret_basic"]), true), (json!(["client_secret_post"]), false)] {
        let world = SignInWorld::start().await;
        match is_basic {
            true => {}
            false => world.change(|plan| {
                plan.metadata = |document| {
                    document["token_endpoint_auth_methods_supported"] = json!(["client_secret_post"]);
                };
            }),
        }
        let mut options = world.options();
        options.grant = GrantChoice::ClientCredentials;
        options.client.configured = configured(Some("s:cret"), None);
        assert_eq!(call(&world, options).await, Ok(200), "{methods}");
        let request = &world.issuer.requests_to("/token")[0];
        let form = request.form();
        assert_eq!((form["grant_type"].as_str(), form["scope"].as_str()), ("client_credentials", "mcp:basic"));
        // `robot:s%3Acret`: both parts are encoded before they are joined.
        let basic = is_basic.then_some("Basic cm9ib3Q6cyUzQWNyZXQ=");
        assert_eq!(request.header("authorization"), basic);
        assert_eq!(form.get("client_secret").map(String::as_str), (!is_basic).then_some("s:cret"));
        assert_eq!((world.issuer.count("/register"), world.issuer.count("/authorize")), (0, 0));
    }
}

#[tokio::test]
async fn a_client_with_a_key_signs_an_assertion_for_the_issuer() {
    let world = SignInWorld::start().await;
    let signer = JwsSigner::from_pkcs8(&JwsSigner::generate().unwrap(), SigningAlgorithm::Es256).unwrap();
    let key = ClientKey { signer: Arc::new(signer), key_id: Some("k1".to_owned()) };
    let mut options = world.options();
    options.grant = GrantChoice::ClientCredentials;
    options.client.configured = configured(None, Some(key));
    assert_eq!(call(&world, options).await, Ok(200));
    let form = world.issuer.requests_to("/token")[0].form();
    let assertion = &form["client_assertion"];
    assert_eq!((&claims(assertion, 0)["alg"], &claims(assertion, 0)["kid"]), (&json!("ES256"), &json!("k1")));
    let body = claims(assertion, 1);
    assert_eq!(
        (&body["iss"], &body["sub"], &body["aud"]),
        (&json!("robot"), &json!("robot"), &json!(world.issuer.url))
    );
    assert!(body["exp"].as_u64().unwrap() - body["iat"].as_u64().unwrap() <= 60);
    assert!(!form.contains_key("client_id") && !form.contains_key("client_secret"));
}

#[tokio::test]
async fn a_client_that_acts_for_itself_does_not_step_up() {
    let world = SignInWorld::start().await;
    world.change(|plan| {
        plan.judge = |_| {
            let challenge = "Bearer error=\"insufficient_scope\", scope=\"more\"";
            Some(SiteAnswer::json(403, &json!({})).with("www-authenticate", challenge))
        };
    });
    let mut options = world.options();
    options.grant = GrantChoice::ClientCredentials;
    options.client.configured = configured(Some("s"), None);
    assert_eq!(call(&world, options).await, Ok(403));
    assert_eq!(world.issuer.count("/token"), 1);
}

#[tokio::test]
async fn a_workload_shows_its_own_token_once_and_tries_nothing_else() {
    let world = SignInWorld::start().await;
    let mut options = world.options();
    options.client.configured = configured(None, None);
    options.grant = GrantChoice::Workload(Arc::new(AssertionFn(|| Some(SecretText::new("w0rkload.jwt.x")))));
    assert_eq!(call(&world, options).await, Ok(200));
    let form = world.issuer.requests_to("/token")[0].form();
    assert_eq!(form["grant_type"], "urn:ietf:params:oauth:grant-type:jwt-bearer");
    assert_eq!((form["assertion"].as_str(), form["client_id"].as_str()), ("w0rkload.jwt.x", "robot"));

    let world = SignInWorld::start().await;
    world.change(|plan| plan.token = Arc::new(|_| Some(SiteAnswer::json(400, &json!({"error": "invalid_grant"})))));
    let mut options = world.options();
    options.client.configured = configured(None, None);
    options.grant = GrantChoice::Workload(Arc::new(AssertionFn(|| Some(SecretText::new("expired")))));
    let credential = world.credential(options, Arc::new(MemoryStore::default()));
    for _ in 0..3 {
        assert!(world.call(&credential).await.is_err());
    }
    assert_eq!((world.issuer.count("/token"), world.issuer.count("/authorize")), (1, 0));
}

/// An identity provider that answers every exchange with a token of this type.
async fn provider(kind: &'static str) -> Site {
    Site::start(|url| {
        move |request: &SiteRequest| match request.path() {
            "/.well-known/openid-configuration" => {
                SiteAnswer::json(200, &json!({"issuer": url, "token_endpoint": format!("{url}/token")}))
            }
            "/token" => SiteAnswer::json(
                200,
                &json!({"access_token": "id.jag.x", "issued_token_type": kind, "token_type": "N_A"}),
            ),
            _ => SiteAnswer::html(404),
        }
    })
    .await
}

fn enterprise(world: &SignInWorld, provider: &Site) -> OauthOptions {
    let mut options = world.options();
    options.client.configured = configured(Some("s"), None);
    options.grant = GrantChoice::Enterprise(Arc::new(EnterpriseLogin {
        issuer: provider.url.clone(),
        client_id: "at-provider".to_owned(),
        client_secret: None,
        subject: Arc::new(AssertionFn(|| Some(SecretText::new("id.token.x")))),
    }));
    options
}

#[tokio::test]
async fn an_organizations_sign_in_becomes_an_assertion_for_the_servers_issuer() {
    let world = SignInWorld::start().await;
    let provider = provider("urn:ietf:params:oauth:token-type:id-jag").await;
    assert_eq!(call(&world, enterprise(&world, &provider)).await, Ok(200));
    let form = provider.requests_to("/token")[0].form();
    assert_eq!(form["grant_type"], "urn:ietf:params:oauth:grant-type:token-exchange");
    assert_eq!(form["requested_token_type"], "urn:ietf:params:oauth:token-type:id-jag");
    assert_eq!(form["subject_token_type"], "urn:ietf:params:oauth:token-type:id_token");
    assert_eq!(
        (form["audience"].as_str(), form["resource"].as_str()),
        (world.issuer.url.as_str(), world.url().as_str())
    );
    assert_eq!(form["client_id"], "at-provider");
    let request = &world.issuer.requests_to("/token")[0];
    assert_eq!(request.form()["assertion"], "id.jag.x");
    assert!(!request.text().contains("id.token.x"), "the ID token went to the other issuer");
}

#[tokio::test]
async fn an_exchanged_token_of_another_type_is_not_passed_on() {
    let world = SignInWorld::start().await;
    let provider = provider("urn:ietf:params:oauth:token-type:access_token").await;
    assert!(call(&world, enterprise(&world, &provider)).await.is_err());
    assert_eq!(world.issuer.count("/token"), 0);
}

#[derive(Default)]
struct NotingDisplay(Mutex<Vec<String>>);

impl DeviceDisplay for NotingDisplay {
    fn show(&self, code: &DeviceCode) {
        self.0.lock().unwrap().push(format!("{} at {}", code.user_code, code.verification));
    }
}

#[tokio::test]
async fn a_person_types_the_code_in_on_another_device() {
    let world = SignInWorld::start().await;
    let polls = AtomicUsize::new(0);
    world.change(|plan| {
        plan.token = Arc::new(move |_| {
            let is_first = polls.fetch_add(1, Ordering::SeqCst) == 0;
            is_first.then(|| SiteAnswer::json(400, &json!({"error": "authorization_pending"})))
        });
    });
    let display = Arc::new(NotingDisplay::default());
    let mut options = world.options();
    options.grant = GrantChoice::SignIn(SignInWay::Device(display.clone()));
    assert_eq!(call(&world, options).await, Ok(200));
    assert_eq!(display.0.lock().unwrap().as_slice(), [format!("ABCD-EFGH at {}/go", world.issuer.url)]);
    let forms: Vec<_> = world.issuer.requests_to("/token").iter().map(SiteRequest::form).collect();
    assert_eq!(forms.len(), 2);
    assert_eq!(forms[1]["grant_type"], "urn:ietf:params:oauth:grant-type:device_code");
    assert_eq!(forms[1]["device_code"], "d3vice");
}

#[tokio::test]
async fn a_bound_token_is_shown_with_a_new_proof_each_time_and_with_both_nonces() {
    let world = SignInWorld::start().await;
    world.change(|plan| {
        plan.metadata = |document| document["dpop_signing_alg_values_supported"] = json!(["ES256"]);
        plan.token = Arc::new(|request| {
            let nonce = claims(request.header("dpop").unwrap(), 1)["nonce"].clone();
            Some(match nonce == "as-nonce" {
                true => SiteAnswer::json(200, &json!({"access_token": "token-d", "token_type": "DPoP"})),
                false => SiteAnswer::json(400, &json!({"error": "use_dpop_nonce"})).with("dpop-nonce", "as-nonce"),
            })
        });
        plan.judge = |request| {
            let nonce = claims(request.header("dpop").unwrap(), 1)["nonce"].clone();
            (nonce != "rs-nonce").then(|| {
                SiteAnswer::json(401, &json!({}))
                    .with("www-authenticate", "DPoP error=\"use_dpop_nonce\"")
                    .with("dpop-nonce", "rs-nonce")
            })
        };
    });
    // The server's first challenge must be one for DPoP.
    let plan = world.plan.clone();
    let server = Site::start(|url| {
        move |request: &SiteRequest| {
            let plan = plan.lock().unwrap();
            match (request.path(), request.header("authorization")) {
                ("/mcp", Some("DPoP token-d")) => {
                    (plan.judge)(request).unwrap_or_else(|| SiteAnswer::json(200, &json!({})))
                }
                ("/mcp", _) => SiteAnswer::new(401).with("www-authenticate", "DPoP algs=\"ES256\""),
                ("/.well-known/oauth-protected-resource/mcp", _) => SiteAnswer::json(
                    200,
                    &json!({"resource": format!("{url}/mcp"), "authorization_servers": [plan.issuer]}),
                ),
                _ => SiteAnswer::html(404),
            }
        }
    })
    .await;
    let world = SignInWorld { server, ..world };
    let credential = world.usual();
    assert_eq!((world.call(&credential).await, world.call(&credential).await), (Ok(200), Ok(200)));
    assert_eq!((world.issuer.count("/authorize"), world.issuer.count("/token")), (1, 2));
    let proofs: Vec<Value> = [world.server.requests_to("/mcp"), world.issuer.requests_to("/token")]
        .concat()
        .iter()
        .filter_map(|request| request.header("dpop").map(|proof| claims(proof, 1)))
        .collect();
    let ids: std::collections::HashSet<&str> = proofs.iter().map(|proof| proof["jti"].as_str().unwrap()).collect();
    assert_eq!((proofs.len(), ids.len()), (5, 5));
    assert_eq!((&proofs[0]["htm"], &proofs[0]["htu"]), (&json!("POST"), &json!(world.url().as_str())));
    assert!(proofs[0]["ath"].is_string());
}

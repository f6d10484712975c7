//! Access tokens through the whole program: settings, a provider on a loopback address, and the scripted server's own
//! journal as the witness.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tsugi_testkit::fake::{Fake, reply};
use tsugi_testkit::script::Script;
use tsugi_testkit::scripted::Scripted;
use tsugi_testkit::token_forge::{ForgeKey, key_set};

use crate::world::{Serving, World};

const PUBLIC: &str = "https://mcp.example";

/// A provider that publishes one key, at the address that it is asked at.
fn provider(key: &Arc<ForgeKey>) -> Fake {
    let key = key.clone();
    Fake::start(move |request| {
        let issuer = format!("http://{}", request.header("host").unwrap_or_default());
        match request.path.as_str() {
            "/.well-known/openid-configuration" => {
                reply::json(&json!({"issuer": issuer, "jwks_uri": format!("{issuer}/keys")}).to_string())
            }
            "/keys" => reply::json(&key_set([&*key]).to_string()),
            _ => reply::status(404, &[], ""),
        }
    })
}

fn serve(world: &World, scripted: &Scripted, issuer: &str) -> Serving {
    let args: Vec<String> = scripted.args().iter().map(|arg| arg.replace('$', "$$")).collect();
    let env: serde_json::Map<String, Value> =
        scripted.env().into_iter().map(|(name, value)| (name, value.into())).collect();
    let config = json!({
        "servers": [{"name": "up", "command": scripted.program(), "args": args, "env": env}],
        "gateway": {
            "publicUrl": PUBLIC,
            "auth": {
                "issuers": [{"name": "corp", "issuer": issuer, "insecureLoopback": true}],
                "scopes": {"base": ["mcp"], "implies": {"all": "mcp"}},
            },
        },
    });
    let config = world.write("tsugi.json", &config.to_string());
    world.serve(&["--config", config.to_str().unwrap()])
}

#[test]
fn tokens_of_a_configured_provider_open_the_gateway_and_others_do_not() {
    let key = Arc::new(ForgeKey::es256("k1"));
    let (world, scripted, provider) = (World::new(), Scripted::new(Script::modern()), provider(&key));
    let issuer = format!("http://{}", provider.address());
    let serving = serve(&world, &scripted, &issuer);
    let expires = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() + 600;
    let claims = json!({"iss": issuer, "aud": PUBLIC, "sub": "alice", "exp": expires, "scope": "all"});
    let call = |token: &str| {
        let bearer = format!("Bearer {token}");
        let (head, _) = serving.ask("POST", "/tools/up/count", &[("Authorization", &bearer)], "{}");
        head.split(' ').nth(1).unwrap().to_owned()
    };
    let with = |name: &str, value: Value| {
        let mut changed = claims.clone();
        changed[name] = value;
        key.token(&changed)
    };
    assert_eq!(serving.ask("POST", "/tools/up/count", &[], "{}").0.split(' ').nth(1), Some("401"));
    assert_eq!(call(&ForgeKey::es256("k1").token(&claims)), "401");
    assert_eq!(call(&with("aud", json!("https://other.example"))), "401");
    assert_eq!(call(&with("exp", json!(expires - 900))), "401");
    assert_eq!(call(&with("scope", json!("other"))), "403");
    assert_eq!(scripted.journal().effects("count"), 0, "nothing went through");
    assert_eq!(call(&key.token(&claims)), "200");
    assert_eq!(scripted.journal().effects("count"), 1);
    let (_, metadata) = serving.ask("GET", "/.well-known/oauth-protected-resource/mcp", &[], "");
    let metadata: Value = serde_json::from_str(&metadata).unwrap();
    assert_eq!(metadata["resource"], format!("{PUBLIC}/mcp"));
    assert_eq!(metadata["authorization_servers"], json!([issuer]));
    serving.wait_for("rule=aud");
}

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

/// A provider that also answers introspection: `ref-7f3a9c` is active, and only for the client `tsugi:pass word`.
fn introspecting_provider(key: &Arc<ForgeKey>) -> Fake {
    let key = key.clone();
    Fake::start(move |request| {
        let issuer = format!("http://{}", request.header("host").unwrap_or_default());
        match request.path.as_str() {
            "/.well-known/openid-configuration" => reply::json(
                &json!({
                    "issuer": issuer, "jwks_uri": format!("{issuer}/keys"),
                    "introspection_endpoint": format!("{issuer}/introspect"),
                })
                .to_string(),
            ),
            "/keys" => reply::json(&key_set([&*key]).to_string()),
            "/introspect" if request.header("authorization") != Some("Basic dHN1Z2k6cGFzcyt3b3Jk") => {
                reply::status(401, &[("Content-Type", "application/json")], "{\"error\":\"invalid_client\"}")
            }
            "/introspect" => {
                let body = String::from_utf8_lossy(&request.body).into_owned();
                let is_active = body == "token=ref-7f3a9c&token_type_hint=access_token";
                let expires = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() + 600;
                let claims = json!({"active": true, "sub": "alice", "aud": PUBLIC, "exp": expires, "scope": "mcp"});
                reply::json(&if is_active { claims } else { json!({"active": false}) }.to_string())
            }
            _ => reply::status(404, &[], ""),
        }
    })
}

/// The settings of a gateway whose `count` needs a scope of its own, with keys and opaque tokens.
fn scoped_config(world: &World, scripted: &Scripted, issuer: &str) -> String {
    let args: Vec<String> = scripted.args().iter().map(|arg| arg.replace('$', "$$")).collect();
    let env: serde_json::Map<String, Value> =
        scripted.env().into_iter().map(|(name, value)| (name, value.into())).collect();
    let config = json!({
        "servers": [{"name": "up", "command": scripted.program(), "args": args, "env": env}],
        "gateway": {
            "publicUrl": PUBLIC,
            "auth": {
                "keys": [{"name": "ann", "key": "a-key-that-is-long-enough", "deny": ["up/secret"]}],
                "issuers": [{
                    "name": "corp", "issuer": issuer, "insecureLoopback": true,
                    "introspection": {"clientId": "tsugi", "clientSecret": "pass word"},
                }],
                "scopes": {"base": ["mcp"], "rules": [{"match": "up/count", "scopes": ["counting"]}]},
            },
        },
    });
    world.write("tsugi.json", &config.to_string()).to_str().unwrap().to_owned()
}

fn claims_of(issuer: &str, scope: &str) -> Value {
    let expires = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() + 600;
    json!({"iss": issuer, "aud": PUBLIC, "sub": "alice", "exp": expires, "scope": scope})
}

#[test]
fn scopes_of_a_tool_and_opaque_tokens_work_through_the_whole_program() {
    let key = Arc::new(ForgeKey::es256("k1"));
    let (world, scripted, provider) = (World::new(), Scripted::new(Script::modern()), introspecting_provider(&key));
    let issuer = format!("http://{}", provider.address());
    let config = scoped_config(&world, &scripted, &issuer);
    let serving = world.serve(&["--config", &config]);
    let call = |token: &str| {
        let bearer = format!("Bearer {token}");
        serving.ask("POST", "/tools/up/count", &[("Authorization", &bearer)], "{}").0
    };
    let refused = call(&key.token(&claims_of(&issuer, "mcp")));
    assert!(refused.contains(" 403 ") && refused.contains("scope=\"counting mcp\""), "{refused}");
    // Active, and without the scope of the tool.
    let opaque = call("ref-7f3a9c");
    assert!(opaque.contains(" 403 ") && opaque.contains("insufficient_scope"), "{opaque}");
    assert!(call("invented").contains(" 401 "));
    assert_eq!(scripted.journal().effects("count"), 0, "nothing went through");
    assert!(call(&key.token(&claims_of(&issuer, "mcp counting"))).contains(" 200 "));
    assert!(call("a-key-that-is-long-enough").contains(" 200 "), "keys need no scopes");
    assert_eq!(scripted.journal().effects("count"), 2);
    serving.wait_for("rule=active");
    serving.wait_for("rule=\"scope\"");
}

/// What `tsugi auth check` says about a credential, and its exit code. Standard input is not a terminal.
fn explain(world: &World, config: &str, credential: &str, flags: &[&str]) -> (Option<i32>, Value) {
    world.write("credential.txt", credential);
    let args = [&["auth", "check", "--json", "--config", config, "--from-file", "credential.txt"], flags].concat();
    let output = world.run(&args);
    let (out, errors) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(!out.contains(credential) && !errors.contains(credential), "it must not be printed: {out} {errors}");
    let verdict = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out} {errors}"));
    (output.status.code(), verdict)
}

#[test]
fn auth_check_names_the_rule_that_decides_and_never_prints_the_credential() {
    let key = Arc::new(ForgeKey::es256("k1"));
    let (world, scripted, provider) = (World::new(), Scripted::new(Script::modern()), introspecting_provider(&key));
    let issuer = format!("http://{}", provider.address());
    let config = scoped_config(&world, &scripted, &issuer);
    let with = |name: &str, value: Value| {
        let mut claims = claims_of(&issuer, "mcp");
        claims[name] = value;
        key.token(&claims)
    };
    let good = key.token(&claims_of(&issuer, "mcp"));
    let counting = key.token(&claims_of(&issuer, "mcp counting"));
    for (credential, flags, code, rule) in [
        (good.as_str(), &[][..], 0, None),
        (&good, &["--call", "up/other"], 0, None),
        (&good, &["--call", "up/count"], 5, Some("scope")),
        (&counting, &["--call", "up/count"], 0, None),
        (&format!("Authorization: Bearer {good}\n"), &[], 0, None),
        (&ForgeKey::es256("k1").token(&claims_of(&issuer, "mcp")), &[], 5, Some("signature")),
        (&ForgeKey::es256("k9").token(&claims_of(&issuer, "mcp")), &[], 5, Some("kid")),
        (&with("aud", json!("https://other.example")), &[], 5, Some("aud")),
        (&with("aud", json!(format!("{PUBLIC}/mcp"))), &[], 0, None),
        (&with("aud", json!(format!("{PUBLIC}/mcp"))), &["--at", "/servers/up/mcp"], 5, Some("aud")),
        (&with("exp", json!(1_000_000)), &[], 5, Some("exp")),
        (&with("iss", json!("https://evil.example")), &[], 5, Some("iss")),
        (&with("scope", json!("other")), &[], 5, Some("scope")),
        (&with("cnf", json!({"jkt": "x"})), &[], 5, Some("cnf")),
        ("ref-7f3a9c", &[], 0, None),
        ("invented", &[], 5, Some("active")),
        ("a-key-that-is-long-enough", &[], 0, None),
        ("a-key-that-is-long-enough", &["--call", "up/secret"], 5, Some("permit")),
        ("not a key at all", &[], 5, Some("key")),
    ] {
        let (exit, verdict) = explain(&world, &config, credential, flags);
        assert_eq!((exit, verdict["rule"].as_str()), (Some(code), rule), "{flags:?}: {verdict}");
        let word = if code == 0 { "accepted" } else { "refused" };
        assert_eq!(verdict["verdict"], word, "{verdict}");
        assert_eq!(verdict["reason"].is_string() && verdict["hint"].is_string(), code != 0, "{verdict}");
    }
    let (_, verdict) = explain(&world, &config, &good, &[]);
    assert_eq!(verdict["identity"], "subject:corp:alice");
    // An issuer that is away is another matter than a bad token.
    drop(provider);
    assert_eq!(explain(&world, &config, &good, &[]).0, Some(3));
}

//! Sign-in at the dashboard through the whole program: settings, a provider on a loopback address, and the audit log.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tsugi_testkit::fake::{Fake, reply};
use tsugi_testkit::token_forge::{ForgeKey, key_set};

use crate::world::{Serving, World};

/// The nonce that the next code stands for: the test is the browser and reads it from the address.
type NextNonce = Arc<Mutex<String>>;

/// A provider that signs the same person in for any code, with these groups.
fn provider(groups: Value) -> (Fake, NextNonce) {
    let (key, nonce) = (ForgeKey::es256("k1"), NextNonce::default());
    let known = nonce.clone();
    let fake = Fake::start(move |request| {
        let issuer = format!("http://{}", request.header("host").unwrap_or_default());
        let at = |path: &str| format!("{issuer}{path}");
        match request.path.as_str() {
            "/.well-known/openid-configuration" => reply::json(
                &json!({"issuer": issuer, "jwks_uri": at("/keys"), "authorization_endpoint": at("/authorize"), "token_endpoint": at("/token")})
                    .to_string(),
            ),
            "/keys" => reply::json(&key_set([&key]).to_string()),
            "/token" => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
                let claims = json!({
                    "iss": issuer, "aud": "dashboard", "sub": "alice", "iat": now, "exp": now + 300,
                    "nonce": *known.lock().unwrap(), "groups": groups,
                });
                let token = key.sign(&json!({"alg": "ES256", "kid": "k1"}), &claims);
                reply::json(&json!({"access_token": "unused", "token_type": "Bearer", "id_token": token}).to_string())
            }
            _ => reply::status(404, &[], ""),
        }
    });
    (fake, nonce)
}

fn config(issuer: &str) -> String {
    json!({
        "servers": [{"name": "demo", "builtin": "demo"}],
        "audit": {"file": "audit.jsonl"},
        "gateway": {
            "publicUrl": "http://127.0.0.1:7600",
            "auth": {"issuers": [{
                "name": "corp", "issuer": issuer, "insecureLoopback": true,
                "claims": {"roles": "/groups"}, "roles": {"mcp-admins": "admin"},
                "signIn": {"clientId": "dashboard", "clientSecret": "very-secret-word"},
            }]},
        },
    })
    .to_string()
}

fn cookies(head: &str) -> HashMap<String, String> {
    let lines = head.lines().filter_map(|line| line.split_once(": "));
    let set = lines.filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie"));
    let pairs = set.filter_map(|(_, value)| value.split(';').next()?.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn header<'a>(head: &'a str, wanted: &str) -> &'a str {
    let mut lines = head.lines().filter_map(|line| line.split_once(": "));
    lines.find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value).unwrap()
}

/// A browser goes to the provider and comes back; gives the head of the last answer.
fn sign_in(serving: &Serving, nonce: &NextNonce) -> String {
    let (head, _) = serving.ask("GET", "/auth/login/corp", &[], "");
    let address = url::Url::parse(header(&head, "location")).unwrap();
    let asked: HashMap<String, String> = address.query_pairs().into_owned().collect();
    nonce.lock().unwrap().clone_from(&asked["nonce"]);
    let cookie = format!("tsugi_login={}", cookies(&head)["tsugi_login"]);
    serving.ask("GET", &format!("/auth/callback/corp?code=c&state={}", asked["state"]), &[("Cookie", &cookie)], "").0
}

#[test]
fn a_person_signs_in_by_the_settings_and_the_audit_log_has_both_ends() {
    let (world, (fake, nonce)) = (World::new(), provider(json!(["mcp-admins"])));
    let path = world.write("tsugi.json", &config(&format!("http://{}", fake.address())));
    let serving = world.serve(&["--config", path.to_str().unwrap()]);
    let head = sign_in(&serving, &nonce);
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let cookie = format!("tsugi_session={}", cookies(&head)["tsugi_session"]);
    let (_, told) = serving.ask("GET", "/api/session", &[("Cookie", &cookie)], "");
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!((&told["role"], &told["name"]), (&json!("admin"), &json!("alice")));
    let word = told["csrf"].as_str().unwrap();
    serving.ask("DELETE", "/api/session", &[("Cookie", &cookie), ("X-Tsugi-Csrf", word)], "");
    let token = fake.recorded().into_iter().find(|request| request.path == "/token").unwrap();
    assert_eq!(token.header("authorization"), Some("Basic ZGFzaGJvYXJkOnZlcnktc2VjcmV0LXdvcmQ="));
    let log = std::fs::read_to_string(world.path().join("audit.jsonl")).unwrap();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of_alice: Vec<&Value> = lines.iter().filter(|line| line["identity"] == "subject:corp:alice").collect();
    let ends: Vec<(&Value, &Value)> = of_alice.iter().map(|line| (&line["kind"], &line["action"])).collect();
    let (kind, begun, ended) = (json!("signin"), json!("in"), json!("out"));
    assert_eq!(ends, [(&kind, &begun), (&kind, &ended)], "{log}");
}

#[test]
fn a_person_without_a_role_stays_outside_and_the_log_names_the_rule() {
    let (world, (fake, nonce)) = (World::new(), provider(json!(["others"])));
    let path = world.write("tsugi.json", &config(&format!("http://{}", fake.address())));
    let serving = world.serve(&["--config", path.to_str().unwrap()]);
    let head = sign_in(&serving, &nonce);
    assert!(head.starts_with("HTTP/1.1 403") && !cookies(&head).contains_key("tsugi_session"), "{head}");
    serving.wait_for("rule=role");
    let log = std::fs::read_to_string(world.path().join("audit.jsonl")).unwrap();
    assert!(log.contains("\"signin.failed\"") && !log.contains("very-secret-word"), "{log}");
}

#[test]
fn settings_that_would_let_everyone_or_no_one_in_are_problems() {
    let world = World::new();
    for (change, message) in [
        (r#""signIn":{"label":"x"}"#, "`clientId` is missing here"),
        (r#""signIn":{"clientId":"x"}"#, "`signIn` lets no one in"),
        (r#""signIn":{"clientId":"x","defaultRole":"admin"}"#, "`admin` cannot be the default role"),
        (r#""signIn":{"clientId":"x","defaultRole":"user","scopes":["profile"]}"#, "`scopes` must hold `openid`"),
    ] {
        let issuer = format!(r#"{{"name":"corp","issuer":"https://login.example",{change}}}"#);
        let text = format!(r#"{{"gateway":{{"publicUrl":"https://mcp.example","auth":{{"issuers":[{issuer}]}}}}}}"#);
        let path = world.write("tsugi.json", &text);
        let output = world.run(&["serve", "--config", path.to_str().unwrap()]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(message), "{message}: {said}");
    }
}

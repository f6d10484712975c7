//! Sign-in to remote servers through the whole program: the command, the vault, the gateway, several processes.

mod provider;

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Output, Stdio};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tsugi_testkit::fake::{Fake, Step, reply};
use url::Url;

use crate::world::{LONG, Serving, World, until};
use provider::{CANARY, Provider};

/// A world whose configuration has the server `remote`, and a browser that writes down what it is to open.
struct SignInWorld {
    world: World,
    provider: Provider,
    browser: PathBuf,
}

impl SignInWorld {
    fn new() -> Self {
        let (world, provider) = (World::new(), Provider::start());
        world.write("tsugi.yaml", &provider.config());
        let script = "#!/bin/sh\nprintf '%s\\n' \"$#\" \"$@\" > \"$0.draft\" && mv \"$0.draft\" \"$0.opened\"\n";
        let browser = world.write("browser", script);
        std::fs::set_permissions(&browser, std::fs::Permissions::from_mode(0o755)).unwrap();
        Self { world, provider, browser }
    }

    /// Runs the command to its end.
    fn run(&self, args: &[&str]) -> Ran {
        Ran::of(self.world.run(args))
    }

    /// Starts `tsugi login`.
    fn login(&self, args: &[&str]) -> Child {
        let _ = std::fs::remove_file(self.opened_file());
        let mut command = self.world.command(&[&["login"], args].concat());
        command.env("BROWSER", &self.browser).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    fn opened_file(&self) -> PathBuf {
        self.browser.with_file_name("browser.opened")
    }

    /// The arguments that the browser was started with.
    fn opened(&self) -> Vec<String> {
        until(|| self.opened_file().exists(), || "no browser was started".to_owned());
        let text = std::fs::read_to_string(self.opened_file()).unwrap();
        text.lines().skip(1).map(str::to_owned).collect()
    }

    /// Signs in as a person who agrees.
    fn sign_in(&self) -> Ran {
        let child = self.login(&["remote"]);
        let page: Url = self.opened()[0].parse().unwrap();
        visit(&answer_to(&page, "c0de"));
        Ran::of(child.wait_with_output().unwrap())
    }

    fn call(&self) -> Ran {
        self.run(&["call", "remote/touch"])
    }
}

/// How a command ended.
#[derive(Debug)]
struct Ran {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Ran {
    fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let ran = Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) };
        assert_clean(&format!("{ran:?}"));
        ran
    }

    #[track_caller]
    fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        self
    }
}

/// No token is in a text, neither plain nor in the encodings that logs and traces use.
#[track_caller]
fn assert_clean(text: &str) {
    let hexadecimal: String = CANARY.bytes().map(|byte| format!("{byte:02x}")).collect();
    // Three offsets, since a token may stand anywhere in what was encoded; the ends depend on what is around it.
    let base64 = (0..3).map(|offset| {
        let encoded = STANDARD.encode(format!("{}{CANARY}", &"xxx"[..offset]));
        encoded[4..encoded.len() - 4].to_owned()
    });
    let forms: Vec<String> = [CANARY.to_owned(), hexadecimal].into_iter().chain(base64).collect();
    let found = forms.iter().find(|form| text.contains(form.as_str()));
    assert!(found.is_none(), "a token is shown as {found:?}: {text}");
}

#[test]
fn no_token_is_logged_even_where_everything_is() {
    let world = SignInWorld::new();
    let mut child = world.world.command(&["login", "remote", "-vv"]);
    child.env("BROWSER", &world.browser).env("TSUGI_LOG", "trace");
    let child = child.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    visit(&answer_to(&world.opened()[0].parse().unwrap(), "c0de"));
    Ran::of(child.wait_with_output().unwrap()).expect(0);
    let mut serve = world.world.command(&["serve", "--listen", "127.0.0.1:0"]);
    serve.env("TSUGI_LOG", "trace").stdin(Stdio::null()).stderr(Stdio::piped());
    let serving = Serving::of(serve.spawn().unwrap());
    serving.connected("remote");
    world.provider.expire();
    let call = json!({"server": "remote", "toolName": "touch", "input": {}}).to_string();
    let (head, _) = serving.ask("POST", "/mcp/call", &[], &call);
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    world.provider.revoke();
    let (head, body) = serving.ask("POST", "/mcp/call", &[], &call);
    assert!(head.starts_with("HTTP/1.1 409"), "{head}");
    assert_clean(&body);
    for path in ["/servers", "/metrics", "/healthz"] {
        let (head, body) = serving.ask("GET", path, &[], "");
        assert_clean(&(head + &body));
    }
    let arguments = std::fs::read(format!("/proc/{}/cmdline", serving.child.id())).unwrap();
    let environment = std::fs::read(format!("/proc/{}/environ", serving.child.id())).unwrap();
    assert_clean(&String::from_utf8_lossy(&[arguments, environment].concat()));
    let talk = serving.talk();
    assert!(talk.contains("TRACE") || talk.contains("DEBUG"), "the log shows everything: {talk}");
    assert_clean(&talk);
}

fn query(page: &Url) -> HashMap<String, String> {
    page.query_pairs().into_owned().collect()
}

/// Where the provider sends the browser of a person who agreed.
fn answer_to(page: &Url, code: &str) -> Url {
    let asked = query(page);
    let mut back: Url = asked["redirect_uri"].parse().unwrap();
    let issuer = page.origin().ascii_serialization();
    back.query_pairs_mut().append_pair("code", code).append_pair("state", &asked["state"]).append_pair("iss", &issuer);
    back
}

/// One GET; gives the status.
fn visit(address: &Url) -> u16 {
    let mut stream = TcpStream::connect((address.host_str().unwrap(), address.port().unwrap())).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let target = &address[url::Position::BeforePath..];
    write!(stream, "GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text.split(' ').nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_person_signs_in_calls_outlives_an_expiry_and_signs_out() {
    let world = SignInWorld::new();
    let refused = world.call().expect(5);
    assert!(refused.stderr.contains("tsugi login remote"), "{refused:?}");
    let listed = world.run(&["servers"]).expect(5);
    assert!(listed.stdout.contains("needs-sign-in"), "{listed:?}");
    let signed_in = world.sign_in().expect(0);
    assert!(signed_in.stderr.contains("signed in to remote"), "{signed_in:?}");
    assert_eq!(world.opened().len(), 1, "one argument, no shell");
    let page: Url = world.opened()[0].parse().unwrap();
    let asked = query(&page);
    assert_eq!((asked["code_challenge_method"].as_str(), asked["scope"].as_str()), ("S256", "mcp"));
    assert_eq!(asked["resource"], world.provider.url());
    assert!(world.call().expect(0).stdout.contains("touched"));
    world.provider.expire();
    assert!(world.call().expect(0).stdout.contains("touched"), "the token is renewed");
    assert_eq!(world.provider.grants("refresh_token").len(), 1);
    let vault = world.world.path().join(".local/state/tsugi/vault.json");
    assert_eq!(std::fs::metadata(&vault).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!std::fs::read_to_string(&vault).unwrap().contains(CANARY), "the vault is sealed");
    let signed_out = world.run(&["logout", "remote"]).expect(0);
    assert!(signed_out.stderr.contains("revoked"), "{signed_out:?}");
    assert_eq!(world.provider.requests_to("/revoke").len(), 2, "both tokens");
    world.call().expect(5);
    assert!(world.run(&["logout", "--all"]).expect(0).stderr.contains("no sign-in"));
}

#[test]
fn a_server_that_does_not_take_the_token_is_reported_with_the_sign_in() {
    let world = SignInWorld::new();
    let other = json!({"access_token": "of-another-audience", "token_type": "Bearer", "expires_in": 3600}).to_string();
    world.provider.answer_token_once(reply::json(&other));
    let signed_in = world.sign_in().expect(0);
    assert!(signed_in.stderr.contains("does not take the sign-in"), "{signed_in:?}");
    assert!(!world.sign_in().expect(0).stderr.contains("does not take"), "the good case");
}

#[test]
fn a_sign_in_that_the_provider_ended_is_said_to_have_ended() {
    let world = SignInWorld::new();
    world.sign_in().expect(0);
    world.provider.revoke();
    let refused = world.call().expect(5);
    assert!(refused.stderr.contains("has ended") && refused.stderr.contains("tsugi login remote"), "{refused:?}");
    let before = world.provider.requests_to("/token").len();
    world.call().expect(5);
    assert_eq!(world.provider.requests_to("/token").len(), before, "the provider is not asked again");
    world.sign_in().expect(0);
    world.call().expect(0);
}

#[test]
fn without_a_browser_the_address_is_printed_and_the_last_one_is_pasted() {
    let world = SignInWorld::new();
    let mut child = world.login(&["remote", "--no-browser"]);
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let page: Url = lines.find_map(|line| Url::parse(line.trim()).ok()).expect("an address is printed");
    let back = answer_to(&page, "c0de");
    writeln!(child.stdin.take().unwrap(), "what do I do here?\n{back}").unwrap();
    let rest: Vec<String> = lines.collect();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{rest:?}");
    assert!(!world.opened_file().exists(), "no browser is started");
    world.call().expect(0);
}

#[test]
fn a_code_is_typed_in_on_another_device() {
    let world = SignInWorld::new();
    world.provider.approve_device();
    let mut child = world.login(&["remote", "--device"]);
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{text}");
    assert!(text.contains("ABCD-EFGH"), "{text}");
    world.call().expect(0);
}

#[test]
fn forged_answers_sign_no_one_in() {
    let world = SignInWorld::new();
    let child = world.login(&["remote"]);
    let page: Url = world.opened()[0].parse().unwrap();
    let good = answer_to(&page, "c0de");
    let with = |name: &str, value: &str| {
        let mut forged = good.clone();
        let pairs: Vec<(String, String)> = good.query_pairs().into_owned().collect();
        let pairs = pairs.into_iter().map(|(key, old)| if key == name { (key, value.to_owned()) } else { (key, old) });
        forged.query_pairs_mut().clear().extend_pairs(pairs);
        forged
    };
    // A page that guesses the port does not end the wait.
    assert_eq!(visit(&with("state", "guessed")), 404);
    // With the right state, another issuer is an attack.
    visit(&with("iss", "https://evil.example"));
    let refused = Ran::of(child.wait_with_output().unwrap()).expect(5);
    assert!(refused.stderr.contains("`iss` is another issuer"), "{refused:?}");
    assert!(world.provider.requests_to("/token").is_empty(), "the code is not redeemed");
    world.call().expect(5);
}

#[test]
fn an_address_of_a_provider_is_one_argument_or_is_refused() {
    type MetadataAttack = (fn(&mut Value), bool);
    let attacks: [MetadataAttack; 4] = [
        (|document| document["authorization_endpoint"] = json!("javascript:alert(1)"), false),
        (|document| document["authorization_endpoint"] = json!("--version"), false),
        (|document| document["authorization_endpoint"] = json!("file:///etc/passwd"), false),
        (
            |document| {
                let origin = document["issuer"].as_str().unwrap().to_owned();
                let harmful = format!("{origin}/$(touch evil)/`touch evil`?a=1;touch evil&b='\"$(touch evil)");
                document["authorization_endpoint"] = json!(harmful);
            },
            true,
        ),
    ];
    for (attack, is_opened) in attacks {
        let world = SignInWorld::new();
        world.provider.change_metadata(attack);
        let child = world.login(&["remote"]);
        if is_opened {
            let opened = world.opened();
            assert_eq!(opened.len(), 1, "{opened:?}");
            visit(&answer_to(&opened[0].parse().unwrap(), "c0de"));
            Ran::of(child.wait_with_output().unwrap()).expect(0);
        } else {
            Ran::of(child.wait_with_output().unwrap()).expect(5);
            assert!(!world.opened_file().exists());
        }
        assert!(!world.world.path().join("evil").exists());
    }
}

/// N19 and N20: a server or a provider that lies about who it is.
#[test]
fn metadata_of_others_signs_no_one_in() {
    let resources: [fn(&mut Value); 4] = [
        |document| document["resource"] = json!("https://elsewhere.example/mcp"),
        |document| document["resource"] = json!(format!("{}-evil", document["resource"].as_str().unwrap())),
        |document| document["authorization_servers"] = json!(["http://login.example"]),
        |document| document["authorization_servers"] = json!([]),
    ];
    let issuers: [fn(&mut Value); 4] = [
        |document| document["issuer"] = json!("https://honest.example"),
        |document| document["issuer"] = json!(format!("{}/", document["issuer"].as_str().unwrap())),
        |document| document["token_endpoint"] = json!("http://login.example/token"),
        |document| document["code_challenge_methods_supported"] = json!(["plain"]),
    ];
    let lies = resources.map(|lie| (true, lie)).into_iter().chain(issuers.map(|lie| (false, lie)));
    for (index, (is_resource, lie)) in lies.enumerate() {
        let world = SignInWorld::new();
        match is_resource {
            true => world.provider.change_resource(lie),
            false => world.provider.change_metadata(lie),
        }
        let refused = Ran::of(world.login(&["remote"]).wait_with_output().unwrap());
        assert!(refused.code.is_some_and(|code| code != 0), "lie {index}: {refused:?}");
        assert!(!world.opened_file().exists(), "lie {index}: a browser was started");
        assert!(world.provider.requests_to("/token").is_empty(), "lie {index}");
    }
}

/// N26: a token endpoint that leads elsewhere, or answers with anything but tokens.
#[test]
fn a_hostile_token_endpoint_gives_no_sign_in_and_gets_no_code_carried_on() {
    let sink = Fake::start(|_| reply::json(&json!({"access_token": "x", "token_type": "Bearer"}).to_string()));
    let huge = json!({"access_token": "x".repeat(1 << 20), "token_type": "Bearer"}).to_string();
    let answers = [
        reply::redirect(307, &sink.url()),
        reply::redirect(302, &sink.url()),
        reply::status(200, &[("Content-Type", "text/html")], "<script>alert(1)</script>"),
        reply::json(&huge),
        reply::endless_body(),
        reply::json(&json!({"access_token": "a\r\nX-Evil: 1", "token_type": "Bearer"}).to_string()),
        reply::status(
            400,
            &[("Content-Type", "application/json")],
            r#"{"error":"<b>","error_description":"<script>"}"#,
        ),
    ];
    for (index, answer) in answers.into_iter().enumerate() {
        let world = SignInWorld::new();
        world.provider.answer_token_once(answer);
        let refused = world.sign_in();
        assert!(refused.code.is_some_and(|code| code != 0), "answer {index}: {refused:?}");
        assert!(!refused.stderr.contains('<'), "answer {index}: {refused:?}");
        world.call().expect(5);
    }
    assert_eq!(sink.requests(), 0, "a code was sent on");
}

#[test]
fn an_interrupted_sign_in_leaves_nothing() {
    let world = SignInWorld::new();
    let child = world.login(&["remote"]);
    let page: Url = world.opened()[0].parse().unwrap();
    tsugi_testkit::process::send(child.id(), rustix::process::Signal::INT);
    Ran::of(child.wait_with_output().unwrap()).expect(130);
    let redirect: Url = query(&page)["redirect_uri"].parse().unwrap();
    assert!(TcpStream::connect(("127.0.0.1", redirect.port().unwrap())).is_err(), "the port is closed");
    assert!(!world.world.path().join(".local/state/tsugi/vault.json").exists());
    world.world.assert_empty();
}

#[test]
fn a_gateway_waits_for_a_sign_in_without_asking_and_takes_it_at_once() {
    let world = SignInWorld::new();
    let serving = world.world.serve(&[]);
    let state = || serving.servers().into_iter().find(|server| server["name"] == "remote").unwrap();
    until(|| state()["state"] == "needs-sign-in", || format!("{}", state()));
    let (head, body) = serving.ask(
        "POST",
        "/mcp/call",
        &[],
        &json!({"server": "remote", "toolName": "touch", "input": {}}).to_string(),
    );
    let answer: Value = serde_json::from_str(&body).unwrap();
    assert!(head.starts_with("HTTP/1.1 409"), "{head}");
    assert_eq!(answer["error"]["code"], "AUTH_REQUIRED", "{answer}");
    assert_eq!(answer["error"]["details"]["jsonrpcCode"], -31010, "{answer}");
    assert!(answer["error"]["details"]["hint"].as_str().unwrap().contains("tsugi login remote"), "{answer}");
    let asked = world.provider.fake.requests();
    for _ in 0..50 {
        serving.ask(
            "POST",
            "/mcp/call",
            &[],
            &json!({"server": "remote", "toolName": "touch", "input": {}}).to_string(),
        );
    }
    assert!(world.provider.fake.requests() <= asked + 1, "calls ask a server that waits for a sign-in");
    let shown = Ran::of(world.world.run(&["status", "--gateway", &serving.url])).expect(0);
    assert!(shown.stdout.contains("needs sign-in"), "{shown:?}");

    world.sign_in().expect(0);
    serving.connected("remote");
    let (head, body) = serving.ask(
        "POST",
        "/mcp/call",
        &[],
        &json!({"server": "remote", "toolName": "touch", "input": {}}).to_string(),
    );
    assert!(head.starts_with("HTTP/1.1 200"), "{head} {body}");
    let shown = Ran::of(world.world.run(&["status", "--gateway", &serving.url])).expect(0);
    assert!(shown.stdout.contains("signed in, renewed by itself"), "{shown:?}");
    assert!(!serving.talk().contains(CANARY) && !serving.servers().iter().any(|one| one.to_string().contains(CANARY)));
    // What the server offered stays listed when its sign-in ends.
    drop(serving);
    world.provider.revoke();
    let serving = world.world.serve(&[]);
    let state = || serving.servers().into_iter().find(|server| server["name"] == "remote").unwrap();
    until(|| state()["state"] == "needs-sign-in", || format!("{}", state()));
    assert_eq!(state()["tools"], 1, "{}", state());
}

#[test]
fn doctor_names_the_quirk_that_a_provider_needs() {
    let world = SignInWorld::new();
    let found = |world: &SignInWorld| -> Value {
        let ran = Ran::of(world.world.run(&["doctor", "--json"])).expect(5);
        serde_json::from_str::<Value>(&ran.stdout).unwrap()["servers"][0].clone()
    };
    let plain = found(&world);
    assert_eq!(
        (&plain["cause"], &plain["advice"]),
        (&json!("oauth-required"), &json!("tsugi login remote")),
        "{plain}"
    );
    world.provider.change_metadata(|document| {
        document.as_object_mut().unwrap().remove("code_challenge_methods_supported");
    });
    let quirky = found(&world);
    assert_eq!(quirky["cause"], "sign-in-refused", "{quirky}");
    assert!(quirky["advice"].as_str().unwrap().contains("assumePkce"), "{quirky}");
    world.provider.change_metadata(|document| {
        document.as_object_mut().unwrap().remove("registration_endpoint");
    });
    let unknown = found(&world);
    assert!(unknown["advice"].as_str().unwrap().contains("client.id"), "{unknown}");
}

#[test]
fn a_process_that_is_killed_while_it_renews_leaves_the_old_sign_in() {
    let world = SignInWorld::new();
    world.sign_in().expect(0);
    world.provider.expire();
    world.provider.answer_token_once(vec![Step::Hold]);
    let mut child = world.world.spawn(&["call", "remote/touch"]);
    until(|| world.provider.grants("refresh_token").len() == 1, || "no refresh".to_owned());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(world.call().expect(0).stdout.contains("touched"), "the provider still takes the old refresh token");
    assert_eq!(world.provider.grants("refresh_token").len(), 2);
}

#[test]
fn a_provider_in_trouble_is_not_taken_for_a_sign_in_that_ended() {
    let world = SignInWorld::new();
    world.sign_in().expect(0);
    world.provider.expire();
    for trouble in [reply::status(503, &[], ""), reply::status(200, &[("Content-Type", "text/html")], "<p>Sorry")] {
        // The command tries again a few times; each try meets the same.
        (0..8).for_each(|_| world.provider.answer_token_once(trouble.clone()));
        let failed = world.call().expect(3);
        assert!(!failed.stderr.contains("tsugi login"), "{failed:?}");
    }
    world.provider.forget_answers();
    world.call().expect(0);
}

#[test]
fn a_vault_gets_a_new_key_under_a_running_gateway() {
    let world = SignInWorld::new();
    world.sign_in().expect(0);
    let serving = world.world.serve(&[]);
    serving.connected("remote");
    let key = world.world.path().join(".local/state/tsugi/vault.key");
    let before = std::fs::read(&key).unwrap();
    let resealed = world.run(&["vault", "rekey", "--json"]).expect(0);
    assert_eq!(serde_json::from_str::<Value>(&resealed.stdout).unwrap(), json!({"resealed": 1}));
    assert_ne!(std::fs::read(&key).unwrap(), before);
    world.provider.expire();
    let call = json!({"server": "remote", "toolName": "touch", "input": {}}).to_string();
    let (head, body) = serving.ask("POST", "/mcp/call", &[], &call);
    assert!(head.starts_with("HTTP/1.1 200"), "{head} {body}");
    world.call().expect(0);
    assert_eq!(world.provider.grants("refresh_token").len(), 1);
}

#[test]
fn a_secret_that_changes_in_its_file_or_program_is_used_without_a_restart() {
    let world = World::new();
    let fake = Fake::start(|request| match request.json()["method"].as_str() {
        Some("tools/list") => {
            reply::json(&json!({"jsonrpc": "2.0", "id": request.json()["id"], "result": {"tools": []}}).to_string())
        }
        _ => reply::json(&json!({"jsonrpc": "2.0", "id": request.json()["id"], "result": {}}).to_string()),
    });
    let (token, key) = (world.write("token", "file-secret-1\n"), world.write("key", "program-secret-1\n"));
    let config = json!({
        "secrets": {"commands": {"key": {"run": ["cat", key], "ttl": "1s"}}},
        "servers": [{"name": "s", "url": fake.url(), "transport": "rpc", "headers": {
            "Authorization": format!("Bearer ${{file:{}}}", token.display()), "X-Key": "${command:key}",
        }}],
    });
    world.write("tsugi.yaml", &config.to_string());
    let serving = world.serve(&["--config", "tsugi.yaml"]);
    let sent = |header: &str, value: &str| fake.recorded().iter().any(|request| request.header(header) == Some(value));
    until(|| sent("x-key", "program-secret-1") && sent("authorization", "Bearer file-secret-1"), || serving.talk());
    world.write("token", "file-secret-2\n");
    until(|| sent("authorization", "Bearer file-secret-2"), || serving.talk());
    world.write("key", "program-secret-2\n");
    until(|| sent("x-key", "program-secret-2"), || serving.talk());
    let shown = format!("{}{:?}", serving.talk(), serving.servers());
    for secret in ["file-secret", "program-secret"] {
        assert!(!shown.contains(secret), "{shown}");
    }
}

#[test]
fn a_configuration_that_is_only_found_runs_no_programs() {
    let world = World::new();
    let config = json!({
        "secrets": {"commands": {"evil": {"run": ["touch", "ran"]}}},
        "servers": [{"name": "s", "url": "http://127.0.0.1:1/", "headers": {"X-Key": "${command:evil}"}}],
    });
    world.write("tsugi.yaml", &config.to_string());
    for args in [&["check"] as &[&str], &["doctor"], &["tools"], &["login", "s"], &["status"], &["config", "schema"]] {
        world.run(args);
        assert!(!world.path().join("ran").exists(), "{args:?}");
    }
    let refused = Ran::of(world.run(&["check"])).expect(2);
    assert!(refused.stderr.contains("--config"), "{refused:?}");
    world.run(&["check", "--config", "tsugi.yaml"]);
    assert!(world.path().join("ran").exists(), "the good case");
}

#[test]
fn a_server_that_came_over_the_network_gets_no_sign_in() {
    let world = SignInWorld::new();
    world.sign_in().expect(0);
    let config = json!({
        "servers": [{"name": "remote", "url": world.provider.url()}],
        "outbound": {"insecureLoopback": true},
        "gateway": {"adminApi": {"enabled": true}},
    });
    world.world.write("tsugi.yaml", &config.to_string());
    let serving = world.world.serve(&[]);
    serving.connected("remote");
    let before = world.provider.requests_to("/mcp").len();
    let sneaky = json!({"name": "sneaky", "url": world.provider.url()}).to_string();
    let (head, body) = serving.ask("POST", "/servers", &[], &sneaky);
    assert!(head.starts_with("HTTP/1.1 20"), "{head} {body}");
    let state = || serving.servers().into_iter().find(|server| server["name"] == "sneaky").unwrap();
    until(|| state()["state"] == "needs-sign-in", || format!("{}", state()));
    let asked = world.provider.requests_to("/mcp").split_off(before);
    assert!(!asked.is_empty() && asked.iter().all(|request| request.header("authorization").is_none()), "{asked:?}");
}

/// The commands of the guide, in their order, against a provider on this machine.
#[test]
fn the_steps_of_the_guide_work() {
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/remote-servers.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let first = guide.split("\n## Without a browser here").next().unwrap();
    let blocks = first.split("```sh").skip(1).filter_map(|block| block.split_once('\n')?.1.split("```").next());
    let lines: Vec<&str> = blocks.flat_map(str::lines).filter(|line| line.starts_with("tsugi ")).collect();
    assert_eq!(lines.len(), 5, "{lines:?}");
    let world = SignInWorld::new();
    world.world.write("tsugi.yaml", "outbound: { insecureLoopback: true }\nservers: []\n");
    for line in lines {
        let words: Vec<String> = line
            .split(' ')
            .skip(1)
            .map(|word| word.replace("https://mcp.linear.app/mcp", &world.provider.url()))
            .collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        if words[0] == "login" {
            let child = world.login(&words[1..]);
            visit(&answer_to(&world.opened()[0].parse().unwrap(), "c0de"));
            Ran::of(child.wait_with_output().unwrap()).expect(0);
        } else {
            let ran = world.run(&words).expect(0);
            assert!(words[0] != "tools" || ran.stdout.contains("touch"), "{ran:?}");
        }
    }
    assert_eq!(world.provider.requests_to("/revoke").len(), 2);
}

/// A `tsugi stdio` that is connected and has made one call.
struct StdioClient {
    child: Child,
    lines: Box<dyn Iterator<Item = String> + Send>,
}

impl StdioClient {
    fn start(world: &SignInWorld) -> Self {
        let mut child = world.world.spawn(&["stdio", "--server", "remote"]);
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut client = Self { child, lines: Box::new(output.lines().map_while(Result::ok)) };
        let params =
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        client.send(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}));
        client.answer();
        client.call(1);
        let answer = client.answer();
        assert_eq!(answer["result"]["content"][0]["text"], "touched", "{answer}");
        client
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    fn call(&mut self, id: u64) {
        self.send(
            &json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "touch", "arguments": {}}}),
        );
    }

    /// The next message that answers a request.
    fn answer(&mut self) -> Value {
        let mut messages = (&mut self.lines).map(|line| serde_json::from_str::<Value>(&line).unwrap());
        messages.find(|message| !message["id"].is_null()).expect("an answer")
    }
}

impl Drop for StdioClient {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_thousand_calls_of_twenty_processes_at_an_expiry_refresh_once_and_all_succeed() {
    const PROCESSES: usize = 20;
    const CALLS: u64 = 50;
    let world = SignInWorld::new();
    world.sign_in().expect(0);
    let mut clients: Vec<StdioClient> = (0..PROCESSES).map(|_| StdioClient::start(&world)).collect();
    world.provider.expire();
    for client in &mut clients {
        (2..CALLS + 2).for_each(|id| client.call(id));
    }
    for client in &mut clients {
        for _ in 0..CALLS {
            let answer = client.answer();
            assert_eq!(answer["result"]["content"][0]["text"], "touched", "{answer}");
        }
    }
    assert_eq!(world.provider.grants("refresh_token").len(), 1);
    assert_eq!(world.provider.reused(), 0);
    assert_eq!(world.provider.calls(), PROCESSES * (CALLS as usize + 1), "every call arrived once");
}

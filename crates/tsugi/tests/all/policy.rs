//! Policies of a real gateway: files that change, rules that cannot be used, what log, audit and the command say.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::world::{Serving, World, until};

/// A server outside the gateway, whose journal is the witness of every effect.
struct Upstream {
    url: String,
    journal: Arc<Mutex<Vec<String>>>,
}

impl Upstream {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let journal: Arc<Mutex<Vec<String>>> = Arc::default();
        let shared = journal.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let journal = shared.clone();
                std::thread::spawn(move || serve(stream, &journal));
            }
        });
        Self { url, journal }
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.journal.lock().unwrap())
    }
}

/// JSON-RPC over HTTP, until the connection ends.
fn serve(mut stream: TcpStream, journal: &Mutex<Vec<String>>) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let request: Value = serde_json::from_slice(&body).ok()?;
        let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
        let result = match request["method"].as_str()? {
            "tools/list" => json!({"tools": [tool("read"), tool("write")]}),
            "tools/call" => {
                journal.lock().unwrap().push(request["params"]["name"].as_str()?.to_owned());
                json!({"content": [{"type": "text", "text": "done"}]})
            }
            _ => json!({}),
        };
        let answer = json!({"jsonrpc": "2.0", "id": request["id"], "result": result}).to_string();
        let head =
            format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n", answer.len());
        stream.write_all((head + &answer).as_bytes()).ok()?;
    }
}

const RULES: &str = "rules:
  - permit: reads
    resources: [up/read]
  - permit: public-writes
    actions: [callTool]
    resources: [up/write]
    when: context.arguments.path.startsWith(\"/pub/\")
  - permit: operators
    principals: ['key:root', 'key:admin']
    actions: ['*']
...
";

const KEY: &str = "a-key-of-more-than-twenty-signs";

fn configure(world: &World, upstream: &Upstream, policy: &str, more: &str) -> String {
    let text = format!(
        "servers: [{{name: up, url: {}, transport: rpc}}]\npolicy: {{{policy}}}\naudit: {{file: audit.jsonl}}\ngateway: {{auth: {{keys: [{{name: ann, key: {KEY}{more}}}, {{name: root, admin: true, key: another-{KEY}}}]}}}}\n",
        upstream.url
    );
    world.write("tsugi.yaml", &text).display().to_string()
}

fn call(serving: &Serving, tool: &str, input: Value) -> String {
    let body = json!({"server": "up", "toolName": tool, "input": input}).to_string();
    let (head, _) = serving.ask("POST", "/mcp/call", &[("X-Api-Key", KEY)], &body);
    head.split(' ').nth(1).unwrap_or_default().to_owned()
}

fn denied(world: &World) -> Vec<Value> {
    let text = std::fs::read_to_string(world.path().join("audit.jsonl")).unwrap();
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|line| line["kind"] == "denied").collect()
}

/// N38: the good case, the bad arguments, the error and the large arguments, with log and audit.
#[test]
fn calls_are_decided_by_rules_and_log_and_audit_name_the_one_that_decided() {
    let (world, upstream) = (World::new(), Upstream::start());
    world.write("policy.yaml", RULES);
    let config = configure(&world, &upstream, "files: [policy.yaml]", "");
    let serving = world.serve(&["--config", &config]);
    assert!(call(&serving, "read", json!({})).contains("200"));
    assert!(call(&serving, "write", json!({"path": "/pub/a"})).contains("200"));
    assert_eq!(upstream.take(), ["read", "write"]);
    let large = json!({"path": "/pub/a", "padding": "x".repeat(1 << 20)});
    for arguments in [json!({"path": "/etc/a"}), json!({}), large] {
        assert!(call(&serving, "write", arguments).contains("403"));
    }
    assert_eq!(upstream.take(), Vec::<String>::new());
    until(|| denied(&world).len() == 3, || serving.talk());
    let decisions: Vec<Value> = denied(&world).iter().map(|line| line["decision"].clone()).collect();
    assert_eq!(decisions[0], json!({"by": "policy", "policies": ["default"]}));
    assert_eq!(decisions[1], json!({"by": "policy.error", "policies": ["public-writes"]}));
    assert_eq!(decisions[2], json!({"by": "policy.error", "policies": ["public-writes"]}));
    let talk = serving.talk();
    assert!(talk.contains("the arguments are too large") && talk.contains("public-writes"), "{talk}");
}

/// N38: rules that cannot be used do not start, and say where the mistake is.
#[test]
fn rules_that_cannot_be_used_do_not_start() {
    let (world, upstream) = (World::new(), Upstream::start());
    for (text, expected) in [
        (RULES.replace("context.arguments.path", "context.argument.path"), "did you mean `context.arguments"),
        (RULES.replace("resources: [up/read]", "resources: []"), "the rule can never match"),
        (RULES.replace("...", ""), "three dots"),
        (RULES.replace("permit: reads", "permt: reads"), "did you mean `permit`?"),
    ] {
        world.write("policy.yaml", &text);
        let config = configure(&world, &upstream, "files: [policy.yaml]", "");
        for command in [&["serve", "--listen", "127.0.0.1:0"][..], &["policy", "check"], &["check"]] {
            let ran = world.run(&[command, &["--config", &config]].concat());
            let told = String::from_utf8_lossy(&ran.stderr).into_owned();
            assert_eq!(ran.status.code(), Some(2), "{command:?} {told}");
            assert!(told.contains(expected) && told.contains("policy.yaml:"), "{command:?} {told}");
        }
    }
    let config = configure(&world, &upstream, "files: []", "");
    assert_eq!(world.run(&["check", "--config", &config]).status.code(), Some(2));
    assert_eq!(upstream.take(), Vec::<String>::new());
}

/// N38: a file that is half written, and one that is wrong, leave the rules that hold.
#[test]
fn rules_are_replaced_as_a_whole_or_not_at_all() {
    let (world, upstream) = (World::new(), Upstream::start());
    world.write("policy.yaml", RULES);
    let config = configure(&world, &upstream, "files: [policy.yaml]", "");
    let serving = world.serve(&["--config", &config]);
    assert!(call(&serving, "write", json!({"path": "/etc/a"})).contains("403"));
    // Cut where everything before it is valid YAML: the condition of the last rule would be missing.
    let half = RULES.split("    when:").next().unwrap();
    world.write("policy.yaml", half);
    serving.wait_for("nothing was changed");
    assert!(call(&serving, "write", json!({"path": "/etc/a"})).contains("403"));
    assert!(call(&serving, "write", json!({"path": "/pub/a"})).contains("200"));
    assert_eq!(upstream.take(), ["write"]);
    world.write("policy.yaml", &RULES.replace("/pub/", "/etc/"));
    until(|| call(&serving, "write", json!({"path": "/etc/a"})).contains("200"), || serving.talk());
    assert!(call(&serving, "write", json!({"path": "/pub/a"})).contains("403"));
    let shadow = configure(&world, &upstream, "files: [policy.yaml], mode: shadow", "");
    assert_eq!(shadow, config);
    until(|| call(&serving, "write", json!({"path": "/pub/a"})).contains("200"), || serving.talk());
    let headers = [("X-Api-Key", "another-a-key-of-more-than-twenty-signs")];
    let metrics = serving.ask("GET", "/metrics", &headers, "").1;
    assert!(metrics.contains("tsugi_policy_shadow_denied_total{policy=\"default\"}"), "{metrics}");
}

/// N38: an empty permit of a key opens nothing, whatever a policy permits.
#[test]
fn a_policy_does_not_widen_what_a_key_may_use() {
    let (world, upstream) = (World::new(), Upstream::start());
    world.write("policy.yaml", "rules:\n  - permit: all\n    actions: ['*']\n...\n");
    for (permit, expected) in [(", allow: []", "403"), (", deny: [up/read]", "403"), ("", "200")] {
        let config = configure(&world, &upstream, "files: [policy.yaml]", permit);
        let mut serving = world.serve(&["--config", &config]);
        assert!(call(&serving, "read", json!({})).contains(expected), "{permit}");
        assert_eq!(upstream.take().len(), usize::from(expected == "200"), "{permit}");
        serving.signal(Signal::TERM);
        serving.exit_code();
    }
}

#[test]
fn the_command_checks_explains_and_replays() {
    let (world, upstream) = (World::new(), Upstream::start());
    world.write("policy.yaml", RULES);
    let config = configure(&world, &upstream, "files: [policy.yaml]", "");
    let run = |args: &[&str]| {
        let ran = world.run(&[args, &["--config", &config]].concat());
        (ran.status.code().unwrap(), String::from_utf8(ran.stdout).unwrap())
    };
    let (code, told) = run(&["policy", "check"]);
    assert!(code == 0 && told.contains("3 rules in 1 files can be used; 2 findings"), "{told}");
    assert_eq!(run(&["policy", "check", "--strict"]).0, 1);
    let (code, told) =
        run(&["policy", "explain", "--as", "key:ann", "--call", "up/write", "--args", "{\"path\":\"/pub/x\"}"]);
    assert!(code == 0 && told.starts_with("permitted by public-writes\n"), "{told}");
    world.write("a.json", "{\"path\": \"/etc/x\"}");
    let file = format!("@{}", world.path().join("a.json").display());
    let (code, told) = run(&["policy", "explain", "--as", "corp:alice", "--call", "up/write", "--args", &file]);
    assert!(code == 5 && told.starts_with("refused by default: no rule permits it\n"), "{told}");
    assert!(
        told.contains("permit public-writes: does not hold")
            && told.contains("permit operators: does not apply (another principal)"),
        "{told}"
    );
    let (code, told) = run(&["policy", "explain", "--as", "corp:alice", "--call", "up/write", "--json"]);
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!((code, &told["permitted"], &told["decidedBy"]), (5, &json!(false), &json!("public-writes")));
    assert_eq!(told["error"], "there is no `path`");
    assert_eq!(run(&["policy", "explain", "--as", "key:ann", "--action", "see", "--call", "up/read"]).0, 0);

    let mut serving = world.serve(&["--config", &config]);
    for (tool, arguments) in [("read", json!({})), ("write", json!({"path": "/pub/a"})), ("read", json!({}))] {
        assert!(call(&serving, tool, arguments).contains("200"));
    }
    serving.signal(Signal::TERM);
    serving.exit_code();
    let log = world.path().join("audit.jsonl").display().to_string();
    let (code, told) = run(&["policy", "replay", "--audit", &log]);
    assert!(
        code == 0 && told.contains("3 calls: 2 permitted, 0 refused, 1 cannot be decided from the log; 0 would change"),
        "{told}"
    );
    world.write("policy.yaml", "rules:\n  - forbid: no-reads\n    resources: [up/READ]\n  - permit: all\n...\n");
    let (code, told) = run(&["policy", "replay", "--audit", &log, "--json"]);
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!((code, &told["changes"], &told["refusedBy"]), (1, &json!(2), &json!({"no-reads": 2})));
    assert_eq!(told["changed"][0]["identity"], "key:ann");
}

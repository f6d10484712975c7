//! The audit log of a running gateway: written before the effect, whole after `kill -9`, and read by the command.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::world::{Serving, World};

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

    fn effects(&self) -> Vec<String> {
        self.journal.lock().unwrap().clone()
    }
}

/// JSON-RPC over HTTP, until the connection ends.
fn serve(stream: TcpStream, journal: &Mutex<Vec<String>>) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut stream = stream;
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
        let result = match request["method"].as_str()? {
            "tools/list" => json!({"tools": [{"name": "touch", "inputSchema": {"type": "object"}}]}),
            "tools/call" => {
                journal.lock().unwrap().push(request["params"]["arguments"]["id"].as_str()?.to_owned());
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

fn configure(world: &World, upstream: &Upstream, audit: &str) -> String {
    let text = format!(
        "servers: [{{name: up, url: {}, transport: rpc}}]\naudit: {{file: audit/audit.jsonl, arguments: fields, fields: {{up/touch: [/id]}}{audit}}}\n",
        upstream.url
    );
    world.write("tsugi.yaml", &text).display().to_string()
}

fn call(serving: &Serving, id: &str) -> Option<(String, Value)> {
    let body = json!({"server": "up", "toolName": "touch", "input": {"id": id}}).to_string();
    let host = serving.url.trim_start_matches("http://");
    // The gateway may be killed at any point, which is not a failure of the test.
    let mut stream = TcpStream::connect(host).ok()?;
    let head = format!(
        "POST /mcp/call HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.to_owned(), serde_json::from_str(body).ok()?))
}

/// Every line of the log that is one.
fn lines(world: &World) -> Vec<Value> {
    let mut files: Vec<_> =
        std::fs::read_dir(world.path().join("audit")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|ending| ending == "jsonl"));
    files.sort();
    let text: Vec<Vec<u8>> = files.iter().map(|path| std::fs::read(path).unwrap()).collect();
    text.concat().split(|&byte| byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect()
}

fn stop(mut serving: Serving) {
    serving.signal(Signal::TERM);
    assert_eq!(serving.exit_code(), Some(0), "{}", serving.talk());
}

/// N39: many kills under load. The witness is the upstream's journal.
#[test]
fn every_effect_upstream_has_its_line_although_the_gateway_is_killed() {
    // A number above one is how many; `TSUGI_LONG=1` means all of them.
    let long = std::env::var("TSUGI_LONG").ok();
    let kills = long.map_or(4, |text| text.parse().ok().filter(|kills| *kills > 1).unwrap_or(10_000));
    let (world, upstream) = (World::new(), Upstream::start());
    let config = configure(&world, &upstream, "");
    for kill in 0..kills {
        let mut serving = world.serve(&["--config", &config]);
        let before = upstream.effects().len();
        std::thread::scope(|scope| {
            for client in 0..4 {
                let serving = &serving;
                scope.spawn(move || {
                    for number in 0.. {
                        if call(serving, &format!("{kill}-{client}-{number}")).is_none() {
                            return;
                        }
                    }
                });
            }
            crate::world::until(|| upstream.effects().len() > before + 5 + kill * 7 % 40, || serving.talk());
            serving.signal(Signal::KILL);
        });
        serving.child.wait().unwrap();
    }
    // A last start closes what the kill left open, and a stop signs it.
    stop(world.serve(&["--config", &config]));
    let verified = world.run(&["audit", "verify", "--config", &config, "--key", "audit/audit.jsonl.key.pub"]);
    assert_eq!(verified.status.code(), Some(0), "{}", String::from_utf8_lossy(&verified.stdout));
    let begun: HashSet<String> = lines(&world)
        .iter()
        .filter(|line| line["kind"] == "call.begun")
        .filter_map(|line| Some(line["args"]["fields"]["/id"].as_str()?.to_owned()))
        .collect();
    let effects = upstream.effects();
    let missing: Vec<_> = effects.iter().filter(|effect| !begun.contains(*effect)).collect();
    assert!(effects.len() > 5 * kills && missing.is_empty(), "{} effects, without a line: {missing:?}", effects.len());
}

/// N39: a full disk refuses with 503, nothing reaches the server, and what was written stays whole.
#[test]
#[expect(clippy::disallowed_methods, reason = "the shell becomes the gateway, which `Serving` ends")]
fn a_full_disk_refuses_calls_and_loses_nothing() {
    let (world, upstream) = (World::new(), Upstream::start());
    let config = configure(&world, &upstream, "");
    // The limit on the size of files stands for the disk: 8 KiB, of which the log soon has used all.
    let program = world.command(&[]).get_program().to_owned();
    let mut command = world.command(&[]);
    let mut limited = std::process::Command::new("sh");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 16; exec \"$0\" \"$@\""]).arg(program);
    limited.args(["serve", "--listen", "127.0.0.1:0", "--config", &config]).current_dir(world.path()).env_clear();
    for (name, value) in command.get_envs() {
        limited.env(name, value.unwrap_or_default());
    }
    command.stdin(Stdio::null());
    let serving = Serving::of(limited.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap());
    let mut refused = None;
    for number in 0..1000 {
        let (status, answer) = call(&serving, &format!("n{number}")).unwrap();
        if status != "200" {
            refused = Some((status, answer, number));
            break;
        }
    }
    let (status, answer, number) = refused.expect("the disk never filled");
    assert_eq!((status.as_str(), &answer["error"]["code"]), ("503", &json!("AUDIT_UNAVAILABLE")), "{answer}");
    assert_eq!(answer["error"]["details"]["jsonrpcCode"], -31012, "{answer}");
    assert!(!upstream.effects().contains(&format!("n{number}")), "a refused call must not run");
    assert_eq!(upstream.effects().len(), number);
    drop(serving);
}

#[test]
fn the_command_verifies_and_shows_the_log_and_names_what_was_changed() {
    let (world, upstream) = (World::new(), Upstream::start());
    let config = configure(&world, &upstream, "");
    let serving = world.serve(&["--config", &config]);
    for id in ["one", "two"] {
        assert_eq!(call(&serving, id).unwrap().0, "200");
    }
    // While it runs the end is not signed, which is fine.
    assert_eq!(world.run(&["audit", "verify", "--config", &config]).status.code(), Some(0));
    stop(serving);
    let verify = |extra: &[&str]| {
        let ran = world.run(&[&["audit", "verify", "--config", &config], extra].concat());
        (ran.status.code().unwrap(), String::from_utf8(ran.stdout).unwrap())
    };
    let (code, text) = verify(&["--json"]);
    let whole: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, &whole["verdict"]), (0, &json!("whole")), "{text}");
    let shown = world.run(&["audit", "show", "--config", &config, "--kind", "call", "--upstream", "up", "--json"]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert_eq!(shown.lines().count(), 4, "{shown}");
    let table = world.run(&["audit", "show", "--config", &config, "--since", "1h", "--kind", "call.ended"]);
    let table = String::from_utf8(table.stdout).unwrap();
    assert!(table.contains("up/touch") && table.contains("ok"), "{table}");
    let file = world.path().join("audit/audit.jsonl");
    let good = std::fs::read_to_string(&file).unwrap();
    let checkpoint = whole["chain"]["checkpoint"].to_string();
    std::fs::write(&file, good.replacen("touch", "tough", 1)).unwrap();
    let (code, text) = verify(&[]);
    assert!(code == 1 && text.starts_with("broken at seq 3 "), "{text}");
    // The whole tail removed back to a line: nothing is half, and still it shows.
    let cut: String = good.split_inclusive('\n').take(5).collect();
    std::fs::write(&file, cut).unwrap();
    assert_eq!(verify(&[]).0, 2);
    assert_eq!(verify(&["--from", &checkpoint]).0, 2);
    std::fs::write(&file, good).unwrap();
    assert_eq!(verify(&["--from", &checkpoint]).0, 0);
}

/// N41, the part of the log: secrets in every place that a caller or an operator can put one.
#[test]
fn no_secret_reaches_the_log() {
    let (world, upstream) = (World::new(), Upstream::start());
    let canary = "canary-7f3a9c-secret";
    let text = format!(
        "servers: [{{name: up, url: {}, transport: rpc, headers: {{Authorization: Bearer {canary}}}}}]\n\
         gateway: {{auth: {{adminKey: {canary}-admin-key}}}}\n\
         audit: {{file: audit/audit.jsonl, arguments: digest}}\n",
        upstream.url
    );
    let config = world.write("tsugi.yaml", &text).display().to_string();
    let serving = world.serve(&["--config", &config]);
    let admin = format!("{canary}-admin-key");
    let body = json!({"server": "up", "toolName": "touch", "input": {"id": "x", "password": canary}}).to_string();
    let (head, _) = serving.ask("POST", "/mcp/call", &[("X-Api-Key", &admin)], &body);
    assert!(head.contains(" 200 "), "{head}");
    let bearer = format!("Bearer {canary}-wrong");
    serving.ask("POST", "/mcp/call", &[("Authorization", &bearer)], &body);
    serving.ask("POST", &format!("/mcp/call?token={canary}"), &[("Cookie", &format!("a={canary}"))], &body);
    stop(serving);
    let log = lines(&world).iter().map(Value::to_string).collect::<String>();
    assert!(log.contains("call.ended") && log.contains("signin.failed"), "{log}");
    assert!(log.contains("\"digest\""), "{log}");
    let hex: String = canary.bytes().map(|byte| format!("{byte:02x}")).collect();
    let percent: String = canary.bytes().map(|byte| format!("%{byte:02x}")).collect();
    for form in [canary.to_owned(), hex, percent, "Y2FuYXJ5LTdmM2E5Yy1zZWNyZXQ".to_owned()] {
        assert!(!log.contains(&form), "{form} is in the log");
    }
}

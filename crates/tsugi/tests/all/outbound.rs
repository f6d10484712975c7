//! Servers that are added over HTTP stay out of private networks; what reaches a listening socket decides.

use std::net::TcpListener;

use serde_json::{Value, json};

use crate::world::{Serving, World, until};

const SPELLINGS: &str = include_str!("../../../tsugi-outbound/tests/spellings.txt");
const DEMO: &str = "servers: [{name: demo, builtin: demo}]\n";

/// Spellings that need no lookup that only a test can answer.
fn spellings() -> impl Iterator<Item = &'static str> {
    SPELLINGS.lines().filter(|line| !line.starts_with('#') && !line.is_empty() && !line.ends_with(".test"))
}

fn sink() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

fn is_reached(sink: &TcpListener) -> bool {
    sink.accept().is_ok()
}

fn serve(world: &World, text: &str) -> Serving {
    let config = world.write("tsugi.yaml", text);
    world.serve(&["--config", config.to_str().unwrap()])
}

fn post(serving: &Serving, url: &str, transport: &str) -> (String, Value) {
    let definition = json!({"name": "far", "url": url, "transport": transport, "guarded": false});
    let (head, body) = serving.ask("POST", "/servers", &[], &definition.to_string());
    (head, serde_json::from_str(&body).unwrap_or_default())
}

#[test]
fn n27_no_spelling_of_a_private_address_can_be_added_over_http_by_any_transport() {
    let world = World::new();
    let serving = serve(&world, DEMO);
    serving.connected("demo");
    let (sink, port) = sink();
    let mut texts = Vec::new();
    for host in spellings() {
        for (scheme, transport) in [
            ("https", "auto"),
            ("http", "auto"),
            ("https", "http"),
            ("https", "sse"),
            ("https", "rpc"),
            ("wss", "websocket"),
            ("ws", "auto"),
        ] {
            let (head, body) = post(&serving, &format!("{scheme}://{host}:{port}/mcp"), transport);
            assert!(head.starts_with("HTTP/1.1 4"), "{scheme}://{host} by {transport}: {head} {body}");
            texts.push(body["error"].clone());
        }
    }
    assert!(texts.len() > 400, "{}", texts.len());
    assert!(!is_reached(&sink));
    assert_eq!(serving.servers().len(), 1, "nothing was added");
    // One sentence for all that are addresses at all: what stands behind a name stays unknown.
    texts.retain(|text| text.to_string().contains("not allowed for a server"));
    texts.dedup();
    assert_eq!(texts.len(), 1, "{texts:?}");
    let talk = serving.talk();
    assert!(talk.contains("rule=\"metadata\"") && talk.contains("rule=\"network\""), "the log names the rule: {talk}");
}

#[test]
fn an_address_that_the_operator_allows_can_be_added_and_the_file_keeps_its_guard() {
    let world = World::new();
    let (sink, port) = sink();
    let url = format!("http://127.0.0.1:{port}/mcp");
    let mut serving = serve(&world, &format!("{DEMO}outbound: {{insecureLoopback: true}}\n"));
    let (head, body) = post(&serving, &url, "auto");
    assert!(head.starts_with("HTTP/1.1 200"), "{head} {body}");
    until(|| is_reached(&sink), || serving.talk());
    serving.signal(rustix::process::Signal::TERM);
    serving.exit_code();
    let written = std::fs::read_to_string(world.path().join("tsugi.yaml")).unwrap();
    assert!(written.contains(r#""guarded":true"#), "{written}");
    while is_reached(&sink) {}
    // The same file without the permission: the server is there, and no connection is made to it.
    let serving = serve(&world, &written.replace("insecureLoopback: true", "insecureLoopback: false"));
    let fault = || serving.servers().into_iter().find(|server| server["name"] == "far").unwrap()["fault"].to_string();
    until(|| fault().contains("the address is not allowed"), || format!("{} {}", fault(), serving.talk()));
    assert!(!is_reached(&sink));
}

/// The careless control: the same address in the operator's own file is reached.
#[test]
fn an_address_of_the_operators_own_file_is_free() {
    let world = World::new();
    let (sink, port) = sink();
    let serving = serve(&world, &format!("servers: [{{name: far, url: 'http://127.0.0.1:{port}/mcp'}}]\n"));
    until(|| is_reached(&sink), || serving.talk());
}

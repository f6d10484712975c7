//! No secret leaves by a page, an interface or a command, however harmless its name is.

use std::process::Stdio;

use serde_json::json;
use tsugi_testkit::fake::{Fake, refused, reply};

use crate::world::{Serving, World, until};

/// The secrets, one of each origin. None has a name that sounds secret, and none looks like a token of a known service.
const HEADER: &str = "canary-header-blue";
const HEADER_PART: &str = "canary-header-part";
const VARIABLE: &str = "canary-variable-red";
const ARGUMENT: &str = "canary-argument-green";
const FROM_FILE: &str = "canary-envfile-white";
const FROM_OWN_FILE: &str = "canary-server-envfile";
const SEGMENT: &str = "canaryQ7dE5fG7hJ9kLm2";
const REFERENCED: &str = "canary-file-reference";

/// A remote server that works, one that refuses, and programs that print all they have and die.
struct Secretive {
    world: World,
    fake: Fake,
}

impl Secretive {
    fn new() -> Self {
        let world = World::new();
        let fake = Fake::start(|request| match request.json()["method"].as_str() {
            // Echoed by a careless server in the text of an error.
            Some("initialize" | "server/discover") => reply::status(
                500,
                &[],
                &format!("broken: {} {}", request.header("x-team").unwrap_or_default(), request.path),
            ),
            _ => reply::status(404, &[], "nothing"),
        });
        let url = fake.url();
        let print = "echo \"$$PLACE $$COLOUR $$SHADE $$1\" >&2; exit 3";
        world.write("more.env", &format!("SHADE={FROM_OWN_FILE}\n"));
        world.write("reference", REFERENCED);
        world.write("my.env", &format!("PAINT={FROM_FILE}\n"));
        let config = json!({
            "envFile": "my.env",
            "servers": [
                {"name": "far", "url": format!("{url}/t/{SEGMENT}/mcp"), "transport": "http",
                 "headers": {"X-Team": HEADER, "X-Two": format!("Token {HEADER_PART}"), "X-Three": "${file:reference}"}},
                {"name": "gone", "url": format!("http://{}/t/{SEGMENT}/mcp", refused()), "headers": {"X-Team": HEADER}},
                {"name": "dies", "command": "sh", "args": ["-c", print, "sh", "${ARGUMENT_OF_OURS}"],
                 "env": {"PLACE": "${PLACE_OF_OURS}", "COLOUR": "${PAINT}"}, "envFile": "more.env"},
            ],
        });
        world.write("tsugi.json", &config.to_string());
        Self { world, fake }
    }

    fn variables() -> [(&'static str, &'static str); 2] {
        [("PLACE_OF_OURS", VARIABLE), ("ARGUMENT_OF_OURS", ARGUMENT)]
    }

    /// Everything that a command prints.
    fn run(&self, words: &[&str]) -> String {
        let mut command = self.world.command(words);
        let output = command.envs(Self::variables()).stdin(Stdio::null()).output().unwrap();
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat()
    }

    fn serve(&self) -> Serving {
        let mut command = self.world.command(&["serve", "--listen", "127.0.0.1:0", "-vv"]);
        Serving::of(command.envs(Self::variables()).stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap())
    }
}

#[track_caller]
fn check_masked(what: &str, text: &str) {
    for secret in [HEADER, HEADER_PART, VARIABLE, ARGUMENT, FROM_FILE, FROM_OWN_FILE, SEGMENT, REFERENCED, "canary"] {
        assert!(!text.contains(secret), "{what} shows {secret}:\n{text}");
    }
}

#[test]
fn commands_show_no_header_no_variable_no_secrets_file_and_no_segment_that_looks_like_a_token() {
    let secretive = Secretive::new();
    for words in [
        &["check"][..],
        &["check", "--json"],
        &["doctor", "--timeout", "20s"],
        &["doctor", "--json", "--timeout", "20s"],
        &["servers"],
        &["servers", "--json"],
        &["tools", "-v"],
        &["call", "dies/x", "-vv"],
        &["call", "far/x", "--json"],
    ] {
        let text = secretive.run(words);
        assert!(text.contains("far") || text.contains("dies"), "{words:?} is about the servers: {text}");
        check_masked(&words.join(" "), &text);
    }
    // The control: the server did get them, and a careless program would have printed them.
    let sent = secretive.fake.recorded();
    assert!(sent.iter().any(|request| request.header("x-team") == Some(HEADER)), "{sent:?}");
    assert!(sent.iter().any(|request| request.path.contains(SEGMENT)), "{sent:?}");
    assert!(sent.iter().any(|request| request.header("x-three") == Some(REFERENCED)), "{sent:?}");
}

#[test]
fn the_interfaces_of_a_gateway_and_its_log_show_none_of_them_either() {
    let secretive = Secretive::new();
    let serving = secretive.serve();
    let is_tried = || {
        let servers = serving.servers();
        servers.len() == 3 && servers.iter().all(|server| !server["fault"].is_null())
    };
    until(is_tried, || format!("{:?}", serving.servers()));
    for path in [
        "/servers",
        "/api/overview",
        "/api/servers/far",
        "/api/servers/gone",
        "/api/servers/dies",
        "/servers/dies/logs",
        "/api/calls",
        "/openapi.json",
        "/metrics",
    ] {
        let (_, body) = serving.ask("GET", path, &[], "");
        check_masked(path, &body);
    }
    for server in ["far", "gone", "dies"] {
        let body = json!({"server": server, "toolName": "x", "input": {}}).to_string();
        let (_, answer) = serving.ask("POST", "/mcp/call", &[], &body);
        check_masked(&format!("a call of {server}"), &answer);
    }
    let (_, shown) = serving.ask("GET", "/api/servers/dies", &[], "");
    assert!(shown.contains("***"), "the page shows the settings, masked: {shown}");
    check_masked("the log", &serving.talk());
}

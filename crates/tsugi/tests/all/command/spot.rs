//! Servers without a configuration file: a program, an address, or `MCP_URLS`.

use serde_json::json;
use tsugi_testkit::script::{Http, Script};
use tsugi_testkit::scripted::{HttpServer, Scripted};

use super::world::{World, line};

#[test]
fn a_program_on_the_spot_is_split_as_a_shell_would_and_no_shell_runs() {
    let scripted = Scripted::new(Script::legacy());
    let world = World::new();
    let command = line(&scripted);
    let ran = world.run(&["call", "--command", &command, "echo", "message=hi; $(touch pwned)"]).expect(0);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("hi; $(touch pwned)\n", ""));
    assert!(!world.work().join("pwned").exists());
}

#[test]
fn the_program_gets_the_variables_it_is_given_and_no_others_of_ours() {
    let scripted = Scripted::new(Script::legacy());
    let world = World::new();
    let command = line(&scripted);
    let variables = [("MY_TOKEN", "from-us-12345"), ("OTHER", "x")];
    let seen = |variable: &str, flags: &[&str]| {
        let variable = format!("variable={variable}");
        let words = [&["call", "--command", &command, "about", &variable, "--json"], flags].concat();
        world.run_with(&variables, &words).expect(0).json()["structuredContent"]["variable"].clone()
    };
    assert_eq!(seen("MY_TOKEN", &[]), json!(null));
    assert_eq!(seen("MY_TOKEN", &["--env", "MY_TOKEN"]), "from-us-12345");
    assert_eq!(seen("OTHER", &["--env", "OTHER=y=z"]), "y=z");
}

#[test]
fn a_server_on_the_spot_can_be_named() {
    let scripted = Scripted::new(Script::legacy());
    let world = World::new();
    let ran = world.run(&["tools", "--command", &line(&scripted), "--server", "mine"]).expect(0);
    assert!(ran.stdout.contains("mine    echo"), "{}", ran.stdout);
}

#[test]
fn an_address_on_the_spot_gets_its_headers() {
    let http = Http { token: Some("canary-token-1".into()), ..Http::default() };
    let server = HttpServer::start(&Script { http, ..Script::modern() });
    let world = World::new();
    let words = ["call", "--url", &server.url(), "echo", "message=hi"];
    let ran = world.run(&words).expect(5);
    assert!(ran.stderr.contains("PERMISSION_DENIED"), "{}", ran.stderr);
    let header = ["--header", "Authorization: Bearer canary-token-1"];
    assert_eq!(world.run(&[&words[..], &header].concat()).expect(0).stdout, "hi\n");
}

#[test]
fn flags_that_belong_nowhere_are_refused() {
    let world = World::new();
    let said = |words: &[&str]| world.run(words).expect(2).stderr;
    assert!(said(&["tools", "--header", "A: b"]).contains("--header needs a server given by --url"));
    assert!(said(&["tools", "--url", "http://x/", "--header", "canary"]).contains("write it as --header"));
    assert!(!said(&["tools", "--url", "http://x/", "--header", "canary"]).contains("canary"));
    assert!(said(&["tools", "--env", "A=b"]).contains("--env needs a program given by --command"));
    assert!(said(&["tools", "--command", "x", "--env", "NOT_SET_HERE"]).contains("is not set"));
    assert!(said(&["tools", "--command", "x 'open"]).contains("a quote that is not closed"));
    assert!(said(&["tools", "--command", "x", "--url", "http://x"]).contains("cannot be used with"));
}

#[test]
fn the_addresses_of_mcp_urls_are_a_configuration_of_their_own() {
    let one = HttpServer::start(&Script::modern());
    let two = HttpServer::start(&Script {
        tools: vec![json!({"name": "only_here", "inputSchema": {"type": "object"}})],
        ..Script::only("2024-11-05")
    });
    let world = World::new();
    let urls = format!("{},{}", one.url(), two.sse_url());
    let variables = [("MCP_URLS", urls.as_str())];
    let servers = world.run_with(&variables, &["servers", "--json"]).expect(0).json();
    assert_eq!(servers["servers"].as_array().unwrap().len(), 2);
    assert_eq!(world.run_with(&variables, &["call", "only_here", "x=1"]).expect(0).stdout, "{\"x\":1}\n");
    let declared = world.run_with(&variables, &["tools", "--for", "gemini"]).expect(0).json();
    let names: Vec<String> = declared["functionDeclarations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap().to_owned())
        .collect();
    assert!(names.contains(&"only_here".to_owned()), "{names:?}");
    let prefixed = names.iter().find(|name| name.ends_with("__echo")).unwrap();
    assert_eq!(world.run_with(&variables, &["call", prefixed, "message=hi"]).expect(0).stdout, "hi\n");
}

#[test]
fn a_program_on_the_spot_that_is_missing_is_not_named_to_the_doctor() {
    let ran = World::new().run(&["tools", "--command", "no-such-program"]).expect(3);
    assert!(ran.stderr.ends_with("hint: install it, or give its full path\n"), "{}", ran.stderr);
}

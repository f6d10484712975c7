//! What servers offer, listed for people and for programs, and read.

use serde_json::json;
use tsugi_testkit::script::Script;
use tsugi_testkit::scripted::Scripted;

use super::world::{World, entry, golden};

#[test]
fn without_a_configuration_there_is_something_to_try() {
    let world = World::new();
    for (command, file) in [("tools", "tools"), ("prompts", "prompts"), ("resources", "resources")] {
        golden().check(&format!("demo/{file}.txt"), &world.run(&[command]).expect(0).shown());
    }
    golden().check(
        "demo/bmi.txt",
        &world.run(&["call", "calculate-bmi", "weight_kg=70", "height_m=1.75"]).expect(0).shown(),
    );
    golden().check(
        "demo/prompt.txt",
        &world.run(&["prompt", "/demo/explain-bmi", "bmi=31", "reader=a child"]).expect(0).shown(),
    );
    golden().check("demo/prompt-missing.txt", &world.run(&["prompt", "demo/explain-bmi"]).expect(2).shown());
    golden().check("demo/read.txt", &world.run(&["read", "demo://about"]).expect(0).shown());
    golden().check("demo/read-template.txt", &world.run(&["read", "demo://bmi/70/1.75"]).expect(0).shown());
    golden().check("demo/read-nothing.txt", &world.run(&["read", "demo://nothing"]).expect(1).shown());
}

#[test]
fn lists_for_programs_carry_everything_the_server_said_and_whose_it_is() {
    let world = World::new();
    let tools = world.run(&["tools", "--json"]).expect(0).json();
    let bmi = &tools["tools"][0];
    assert_eq!(
        (bmi["server"].as_str(), bmi["name"].as_str(), bmi["timeout"].as_u64()),
        (Some("demo"), Some("calculate-bmi"), Some(30000))
    );
    assert_eq!(bmi["annotations"]["readOnlyHint"], true);
    assert_eq!(
        bmi["inputSchema"]["properties"]["weight_kg"],
        json!({"type": "number", "description": "Weight in kilograms"})
    );
    assert_eq!(world.run(&["prompts", "--json"]).expect(0).json()["prompts"][0]["server"], "demo");
    let resources = world.run(&["resources", "--json"]).expect(0).json();
    assert_eq!(resources["resourceTemplates"][0]["uriTemplate"], "demo://bmi/{weight_kg}/{height_m}");
}

#[test]
fn tools_are_said_in_the_words_of_each_provider() {
    let world = World::new();
    for provider in ["gemini", "gemini-classic", "openai", "anthropic"] {
        let ran = world.run(&["tools", "--for", provider, "-q"]).expect(0);
        golden().check_json(&format!("for/{provider}.json"), &ran.json());
        assert_eq!(ran.stderr, "");
    }
    let ran = world.run(&["tools", "--for", "openai", "--report", "-q"]).expect(0);
    golden().check("for/openai-report.txt", &ran.stderr);
    world.run(&["tools", "--for", "nobody"]).expect(2);
}

#[test]
fn a_name_that_a_model_was_given_can_be_called() {
    let world = World::new();
    let declared = world.run(&["tools", "--for", "anthropic", "-q"]).expect(0).json();
    let name = declared[1]["name"].as_str().unwrap().to_owned();
    assert_eq!(world.run(&["call", &name, "message=x"]).expect(0).stdout, "x\n");
}

#[test]
fn a_bad_server_stops_nobody_and_is_said_with_what_to_try() {
    let good = Scripted::new(Script::legacy());
    let world = World::with_servers(json!([
        {"name": "gone", "command": "/no/such/program"},
        entry("good", &good),
        {"name": "refused", "url": "http://127.0.0.1:1/mcp"},
    ]));
    let ran = world.run(&["tools"]).expect(3);
    assert!(ran.stdout.contains("good    echo"), "{}", ran.stdout);
    golden().check("bad-servers.txt", &ran.stderr);
    assert_eq!(world.run(&["call", "add", "a=1", "b=2"]).expect(0).stdout, "3\n");
}

#[test]
fn when_no_server_answers_the_command_fails() {
    let world = World::with_servers(json!([{"name": "gone", "command": "/no/such/program"}]));
    let ran = world.run(&["tools", "--json"]).expect(3);
    assert_eq!(ran.stdout, "");
    assert!(ran.stderr.starts_with("error: gone:"), "{}", ran.stderr);
}

#[test]
fn every_page_of_a_list_is_there() {
    let scripted = Scripted::new(Script { extra_tools: 250, page_size: 7, ..Script::modern() });
    let world = World::with_servers(json!([entry("many", &scripted)]));
    let tools = world.run(&["tools", "--json"]).expect(0).json();
    let names: Vec<&str> = tools["tools"].as_array().unwrap().iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert!(names.contains(&"tool_0") && names.contains(&"tool_249") && names.len() >= 260, "{}", names.len());
}

#[test]
fn a_configuration_that_cannot_be_used_starts_nothing() {
    let scripted = Scripted::new(Script::modern());
    let mut server = entry("s", &scripted);
    server["timout"] = json!(5);
    let world = World::with_servers(json!([server]));
    let ran = world.run(&["tools"]).expect(2);
    assert!(
        ran.stderr.contains("unknown key `timout`") && ran.stderr.contains("did you mean `timeout`?"),
        "{}",
        ran.stderr
    );
    assert_eq!(scripted.journal().launches(), 0);
}

#[test]
fn lists_and_reads_do_not_wait_for_a_server_that_hangs_and_name_it() {
    let slow = Scripted::new(Script { start_delay_ms: 120_000, ..Script::modern() });
    let world = World::with_servers(json!([{"name": "demo", "builtin": "demo"}, entry("slow", &slow)]));
    let hung = "slow: still initializing and not waited for any longer";
    let listed = world.run(&["tools"]).expect(4);
    assert!(listed.stdout.contains("calculate-bmi") && listed.stderr.contains(hung), "{}", listed.shown());
    let read = world.run(&["read", "demo://about"]).expect(0);
    assert!(!read.stdout.is_empty() && read.stderr.contains(hung), "{}", read.shown());
}

#[test]
fn a_server_starts_in_the_directory_of_its_configuration() {
    let world = World::new();
    let config = "servers: [{name: a, command: sh, args: [-c, 'pwd > here.txt']}]\n";
    world.write("sub/tsugi.yaml", config);
    world.run(&["tools", "--config", "sub/tsugi.yaml"]);
    assert!(world.work().join("sub/here.txt").is_file() && !world.work().join("here.txt").exists());
    world.run(&["tools", "--command", "sh -c 'pwd > here.txt'"]);
    assert!(world.work().join("here.txt").is_file(), "an ad-hoc server starts where the caller is");
}

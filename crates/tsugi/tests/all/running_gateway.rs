//! Commands that call use the running gateway of their configuration, and say so.

use std::process::Output;

use serde_json::{Value, json};

use crate::world::{Serving, World};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The calls that a gateway has seen, by tool.
fn seen(gateway: &Serving, headers: &[(&str, &str)]) -> Vec<String> {
    let (_, body) = gateway.ask("GET", "/api/calls", headers, "");
    let page: Value = serde_json::from_str(&body).unwrap();
    page["calls"].as_array().unwrap().iter().map(|call| call["tool"].as_str().unwrap().to_owned()).collect()
}

fn expect(output: &Output, code: i32) -> (String, String) {
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{stdout}\n{stderr}");
    (stdout, stderr)
}

const BMI: [&str; 3] = ["s/calculate-bmi", "weight_kg=70", "height_m=1.75"];

#[test]
fn a_call_goes_through_the_gateway_of_its_configuration_which_is_named_once() {
    let world = World::new();
    world.write("tsugi.yaml", &format!("servers: [{}]\n", world.entry("s")));
    let gateway = world.serve(&[]);
    gateway.connected("s");
    let before = world.mark.processes().len();
    let (stdout, stderr) = expect(&world.run(&[&["call"], &BMI[..]].concat()), 0);
    assert!(stdout.contains("22.86"), "{stdout}");
    assert_eq!(stderr.matches(&format!("gateway {}", gateway.url)).count(), 1, "{stderr}");
    assert_eq!(seen(&gateway, &[]), ["calculate-bmi"]);
    assert_eq!(world.mark.processes().len(), before, "nothing was started");
    // Programs read data only, and quiet is quiet.
    for args in [&["call", "--json"][..], &["call", "--quiet"]] {
        let (_, stderr) = expect(&world.run(&[args, &BMI[..]].concat()), 0);
        assert_eq!(stderr, "");
    }
    // Lists, prompts and resources come from it too.
    for args in [&["tools"][..], &["prompts"], &["resources"], &["read", "s/demo://about"], &["tools", "s/echo"]] {
        let (_, stderr) = expect(&world.run(args), 0);
        assert!(stderr.contains(&gateway.url), "{args:?}: {stderr}");
    }
}

#[test]
fn a_server_that_the_gateway_cannot_start_is_named_with_its_cause() {
    let world = World::new();
    let broken = "{name: broken, command: no-such-program-here}";
    world.write("tsugi.yaml", &format!("servers: [{}, {broken}]\n", world.entry("s")));
    let gateway = world.serve(&[]);
    gateway.connected("s");
    gateway.wait_for("no-such-program-here");
    let output = world.run(&["tools"]);
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(stdout.contains("calculate-bmi") && stderr.contains(&gateway.url), "{stdout}\n{stderr}");
    assert!(stderr.contains("program `no-such-program-here` not found"), "{stderr}");
}

#[test]
fn alone_starts_the_servers_here_and_so_do_roots_and_other_configurations() {
    let world = World::new();
    world.write("tsugi.yaml", &format!("servers: [{}]\n", world.entry("s")));
    let other = world.write("other.yaml", "servers: [{name: s, builtin: demo}]\n");
    let gateway = world.serve(&[]);
    for args in [&["call", "--alone"][..], &["call", "--root=."], &["call", "--config", other.to_str().unwrap()]] {
        let (stdout, stderr) = expect(&world.run(&[args, &BMI[..]].concat()), 0);
        assert!(stdout.contains("22.86") && !stderr.contains("gateway"), "{args:?}: {stderr}");
    }
    assert!(seen(&gateway, &[]).is_empty());
}

#[test]
fn a_key_that_may_not_call_a_tool_is_refused_by_the_gateway_and_not_helped_by_the_command() {
    let world = World::new();
    let keys = json!([
        {"name": "ann", "key": "anns-key-of-20-characters", "allow": ["s/echo"]},
        {"name": "boss", "key": "boss-key-of-20-characters", "admin": true},
    ]);
    let auth = json!({"keys": keys});
    let servers = json!([{"name": "s", "builtin": "demo"}]);
    world.write("tsugi.json", &json!({"servers": servers, "gateway": {"auth": auth}}).to_string());
    let gateway = world.serve(&[]);
    let run = |key: Option<&str>, args: &[&str]| {
        let mut command = world.command(args);
        if let Some(key) = key {
            command.env("TSUGI_KEY", key);
        }
        command.output().unwrap()
    };
    let call = [&["call"], &BMI[..]].concat();
    // Without a key the owner of the file uses it as if no gateway ran.
    let (_, stderr) = expect(&run(None, &call), 0);
    assert!(stderr.contains("needs a key (TSUGI_KEY)"), "{stderr}");
    let ann = Some("anns-key-of-20-characters");
    let (stdout, stderr) = expect(&run(ann, &["call", "s/echo", "message=hi"]), 0);
    assert!(stdout.contains("hi") && stderr.contains(&gateway.url), "{stderr}");
    let refused = run(ann, &call);
    assert!(!refused.status.success() && !text(&refused.stdout).contains("22.86"), "{refused:?}");
    let boss = ("Authorization", "Bearer boss-key-of-20-characters");
    assert_eq!(seen(&gateway, &[boss]), ["echo"]);
}

#[test]
fn one_tool_is_shown_with_its_arguments_and_a_line_that_works() {
    let world = World::new();
    world.write("tsugi.yaml", "servers: [{name: s, builtin: demo}]\n");
    let (page, _) = expect(&world.run(&["tools", "calculate-bmi"]), 0);
    assert!(page.starts_with("s/calculate-bmi"), "{page}");
    let row = page.lines().find(|line| line.starts_with("weight_kg*")).unwrap_or_else(|| panic!("{page}"));
    assert!(row.contains("number"), "{row}");
    let example = page.lines().find(|line| line.trim().starts_with("tsugi call s/calculate-bmi ")).unwrap();
    let words: Vec<&str> = example.split_whitespace().skip(1).collect();
    expect(&world.run(&words), 0);
    let (list, _) = expect(&world.run(&["tools", "s"]), 0);
    assert!(list.contains("calculate-bmi") && list.starts_with("SERVER"), "{list}");
    let (_, stderr) = expect(&world.run(&["tools", "calculate-bm"]), 2);
    assert!(stderr.contains("did you mean `s/calculate-bmi`"), "{stderr}");
}

#[test]
fn completions_know_servers_tools_and_arguments_without_starting_anything() {
    let world = World::new();
    world.write("tsugi.yaml", &format!("servers: [{}]\n", world.entry("shop")));
    let complete = |words: &[&str]| {
        let (stdout, _) = expect(&world.run(&[&["complete", "--"], words].concat()), 0);
        stdout.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(complete(&["call", "shop/"]), Vec::<String>::new(), "nothing is known yet");
    world.assert_empty();
    expect(&world.run(&["tools"]), 0);
    assert!(complete(&["call", "shop/ca"]).contains(&"shop/calculate-bmi".to_owned()));
    assert_eq!(complete(&["call", "shop/calculate-bmi", "wei"]), ["weight_kg="]);
    assert_eq!(complete(&["logs", "s"]), ["shop"]);
    assert_eq!(complete(&["tools", "--server", ""]), ["shop"]);
    world.assert_empty();
    let (script, _) = expect(&world.run(&["completions", "bash"]), 0);
    let script = world.write("completion.bash", &script);
    // The shell itself: what follows `tsugi call shop/calc`.
    let typed = "COMP_WORDS=(tsugi call shop/calc); COMP_CWORD=2; _tsugi_names tsugi; echo \"${COMPREPLY[@]}\"";
    let folder = std::path::Path::new(crate::world::TSUGI).parent().unwrap().display().to_string();
    let line = format!("export PATH={folder}:$PATH; source {}; {typed}", script.display());
    #[expect(clippy::disallowed_methods, reason = "the shell whose completion is tested")]
    let ran = std::process::Command::new("bash")
        .args(["--norc", "-c", &line])
        .current_dir(world.path())
        .env_clear()
        .env("HOME", world.path())
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .output()
        .unwrap();
    assert_eq!(text(&ran.stdout).trim(), "shop/calculate-bmi", "{}", text(&ran.stderr));
}

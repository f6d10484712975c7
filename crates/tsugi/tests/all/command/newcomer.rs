//! What somebody new meets who types something almost right: each refusal names what to type instead.

use serde_json::json;

use super::world::World;
use crate::world;

#[test]
fn an_address_that_cannot_be_used_is_not_written() {
    let world = World::with_servers(json!([{"name": "demo", "builtin": "demo"}]));
    let before = std::fs::read(world.work().join("tsugi.json")).unwrap();
    let ran = world.run(&["add", "x", "--url", "notaurl"]).expect(2);
    assert!(ran.stderr.contains("`url`"), "{}", ran.stderr);
    assert_eq!(std::fs::read(world.work().join("tsugi.json")).unwrap(), before);
    // A variable may be set later.
    let ran = world.run(&["add", "y", "--url", "http://127.0.0.1/${LATER}"]).expect(0);
    assert!(ran.stderr.contains("`LATER` is not set"), "{}", ran.stderr);
    assert!(std::fs::read_to_string(world.work().join("tsugi.json")).unwrap().contains("LATER"));
}

#[test]
fn the_two_dashes_before_a_program_are_asked_for_where_they_go() {
    let ran = World::new().run(&["add", "fs", "npx", "-y", "foo"]).expect(2);
    assert!(ran.stderr.contains("put -- before the program: tsugi add fs -- npx -y foo"), "{}", ran.stderr);
}

#[test]
fn commands_without_servers_neither_show_nor_take_the_flags_that_choose_them() {
    let world = World::new();
    for words in [
        &["pm", "board"][..],
        &["key", "list"],
        &["import"],
        &["man"],
        &["completions", "bash"],
        &["status"],
        &["logs", "x"],
        &["restart", "x"],
        &["init"],
        &["undo-init"],
        &["remove", "x"],
        &["export", "claude"],
    ] {
        let help = world.run(&[words, &["--help"]].concat()).expect(0).stdout;
        assert!(!help.contains("--header") && help.contains("--verbose"), "{words:?}: {help}");
        for flag in [["--url", "http://x"], ["--command", "x"], ["--header", "A: b"], ["--env", "A=b"]] {
            let ran = world.run(&[words, &flag].concat()).expect(2);
            let refused = format!("{} has no effect here", flag[0]);
            assert!(ran.stderr.contains(&refused), "{words:?}: {}", ran.stderr);
            let is_gateway = matches!(words[0], "status" | "logs" | "restart");
            assert_eq!(ran.stderr.contains("--gateway URL"), is_gateway, "{words:?}: {}", ran.stderr);
        }
    }
    let ran = world.run(&["--server", "x", "pm", "board"]).expect(2);
    assert!(ran.stderr.contains("--server has no effect here"), "{}", ran.stderr);
    assert!(world.run(&["tools", "--help"]).expect(0).stdout.contains("--header"));
}

#[test]
fn a_missing_program_is_told_without_the_whole_search_path() {
    let world = World::with_servers(json!([{"name": "broken", "command": "no-such"}]));
    let ran = world.run(&["tools"]);
    let hint = "hint: install it, or give its full path; `tsugi doctor broken` says more";
    assert!(ran.stderr.contains(hint) && !ran.stderr.contains("/usr/bin"), "{}", ran.stderr);
}

#[test]
fn a_server_that_was_switched_off_is_spoken_of_where_one_looks_how_things_stand() {
    let world = World::new();
    let server = json!({"mcpServers": {"a": {"command": "true", "env": {"SECRET": "${env:SECRET}"}},
                                       "demo": {"command": "true"}}});
    world.write(".cursor/mcp.json", &server.to_string());
    let ran = world.run(&["init"]).expect(0);
    let told = "a is switched off: the variable `SECRET` is not set; once that is solved, take out `disabled: true`";
    assert!(ran.stderr.contains(told), "{}", ran.stderr);
    let told = "a is switched off: the variable `SECRET` is not set";
    for words in [&["check"][..], &["doctor", "--timeout", "1s"]] {
        let ran = world.run(words);
        assert!(ran.stderr.contains(told), "{words:?}: {}", ran.stderr);
    }
    assert!(!world.run(&["tools"]).stderr.contains("switched off"), "every other command is quiet");
    let ran = world.run_with(&[("SECRET", "1")], &["doctor", "--timeout", "1s"]);
    assert!(
        ran.stderr.contains("a is switched off") && ran.stderr.contains("take out `disabled: true`"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_duration_without_its_unit_is_refused() {
    let world = World::new();
    let ran = world.run(&["call", "demo/echo", "message=x", "--timeout", "30"]).expect(2);
    assert!(ran.stderr.contains("expected a unit, such as 30s or 30ms"), "{}", ran.stderr);
    world.run(&["call", "demo/echo", "message=x", "--timeout", "30s"]).expect(0);
}

#[test]
fn a_short_help_leaves_out_what_the_long_one_says() {
    let world = World::new();
    let (short, long) =
        (world.run(&["tools", "-h"]).expect(0).stdout, world.run(&["tools", "--help"]).expect(0).stdout);
    for word in ["--header", "Examples:", "--log-format"] {
        assert!(!short.contains(word) && long.contains(word), "{word}: {short}");
    }
    assert!(short.contains("--config") && short.contains("--json") && short.lines().count() < 25, "{short}");
}

#[test]
fn a_gateway_at_another_address_is_found_from_its_own_directory() {
    let world = world::World::new();
    let said = |words: &[&str]| {
        let output = world.run(words);
        (output.status.code(), String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    world.write("tsugi.yaml", "servers: [{name: here, builtin: demo}]\n");
    let other = world.write("other.yaml", "servers: [{name: there, builtin: demo}]\n");
    let serving = world.serve(&[]);
    let second = world.serve(&["--config", other.to_str().unwrap()]);
    serving.connected("here");
    second.connected("there");
    for (words, gateway, name) in
        [(&["status"][..], &serving, "here"), (&["status", "--config", "other.yaml"], &second, "there")]
    {
        let (code, table, which) = said(words);
        assert!(code == Some(0) && table.contains(name), "{words:?}: {table}{which}");
        assert!(which.contains(&format!("gateway {} (pid {}", gateway.url, gateway.child.id())), "{which}");
    }
    let (_, answer, _) = said(&["status", "--json"]);
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["gateway"], serving.url);
    assert_eq!(said(&["restart", "here"]).0, Some(0));
    // The gateway of this file is gone, and the other one is not taken for it, although it runs.
    world::until(
        || {
            serving.signal(rustix::process::Signal::KILL);
            said(&["status"]).0 == Some(3)
        },
        || format!("{:?}", said(&["status"])),
    );
    assert!(said(&["status"]).2.contains(&second.url), "what runs is suggested: {:?}", said(&["status"]));
}

#[test]
fn whoever_orders_a_running_gateway_hears_what_came_of_it() {
    let world = world::World::new();
    let config = "servers: [{name: demo, builtin: demo}, {name: broken, command: no-such}]\n";
    let config = world.write("tsugi.yaml", config);
    let serving = world.serve(&["--config", config.to_str().unwrap()]);
    serving.connected("demo");
    // An address without its scheme is one too.
    let gateway = serving.url.trim_start_matches("http://");
    let run = |words: &[&str]| {
        let output = world.run(&[words, &["--gateway", gateway]].concat());
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(run(&["status"]).0, Some(0));
    let (code, said) = run(&["restart", "broken"]);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("program `no-such` not found"), "{said}");
    let (code, said) = run(&["restart", "demo"]);
    assert!(code == Some(0) && said.ends_with("demo: connected\n"), "{said}");
    let (code, said) = run(&["logs", "demo"]);
    assert!(code == Some(0) && said.ends_with("demo has written nothing to its standard error\n"), "{said}");
    for words in [["logs", "nosuch"], ["restart", "nosuch"]] {
        let (code, said) = run(&words);
        assert!(code == Some(2) && said.contains("demo") && said.contains("broken"), "{words:?}: {code:?} {said}");
    }
    let (_, said) = {
        let output = world.run(&["tools", "--url", &serving.url]);
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    assert!(said.contains("a tsugi gateway answers MCP at its address followed by /mcp"), "{said}");
}

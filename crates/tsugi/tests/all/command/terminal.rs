//! A person at a terminal: questions are asked there, and answered with keys.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tsugi_testkit::script::{Action, Rule, Script};
use tsugi_testkit::scripted::Scripted;

use super::world::{World, entry};

/// Runs a command on a terminal of its own: waits for words, sends keys, and tells what was shown and how it ended.
const PLAYER: &str = r#"
import json, os, pty, select, sys, time
play = json.load(sys.stdin)
pid, terminal = pty.fork()
if pid == 0:
    os.chdir(play["folder"])
    os.execve(play["argv"][0], play["argv"], play["env"])
shown, seen, step, end = b"", 0, 0, time.time() + 60
while time.time() < end:
    if select.select([terminal], [], [], 0.05)[0]:
        try: data = os.read(terminal, 65536)
        except OSError: break
        if not data: break
        shown += data
    if step < len(play["steps"]):
        words, keys = play["steps"][step]
        at = shown.find(words.encode(), seen)
        if at >= 0:
            seen, step = at + len(words.encode()), step + 1
            os.write(terminal, keys.encode())
else:
    os.kill(pid, 9)
code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
print(json.dumps({"shown": shown.decode(errors="replace"), "code": code, "steps": step}))
"#;

/// What a person saw.
struct Played {
    shown: String,
    code: i64,
}

/// Plays the steps, each some words to wait for and the keys to press then. `None` without Python, with the reason told.
#[allow(clippy::disallowed_methods, reason = "a terminal needs someone to hold it")]
fn play(world: &World, args: &[&str], steps: &[(&str, &str)]) -> Option<Played> {
    let spawned = Command::new("python3").arg("-c").arg(PLAYER).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let Ok(mut child) = spawned else {
        println!("skipped: python3 is not here, and its pty module would hold the terminal");
        return None;
    };
    let argv: Vec<&str> = [&[env!("CARGO_BIN_EXE_tsugi")], args].concat();
    let env = json!({"PATH": std::env::var("PATH").unwrap(), "HOME": world.home(), "TERM": "xterm", "NO_COLOR": "1"});
    let scene = json!({"argv": argv, "env": env, "folder": world.work(), "steps": steps});
    child.stdin.take().unwrap().write_all(scene.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let played: Value = serde_json::from_slice(&output.stdout).unwrap();
    let shown = played["shown"].as_str().unwrap().to_owned();
    assert_eq!(played["steps"].as_u64(), Some(steps.len() as u64), "not every step was reached: {shown}");
    Some(Played { shown, code: played["code"].as_i64().unwrap() })
}

const ENTER: &str = "\r";
const DOWN_ENTER: &str = "\u{1b}[B\r";
const DOWN_DOWN_ENTER: &str = "\u{1b}[B\u{1b}[B\r";
const CTRL_C: &str = "\u{3}";

#[test]
fn missing_arguments_are_asked_for_until_they_fit() {
    let steps = [
        ("height_m (Height in meters) [number]:", "tall\r"),
        ("`height_m` must be a number, not `tall`", "\u{7f}\u{7f}\u{7f}\u{7f}1.75\r"),
    ];
    let Some(played) = play(&World::new(), &["call", "demo/calculate-bmi", "weight_kg=70"], &steps) else { return };
    assert!(played.code == 0 && played.shown.contains("\"bmi\": 22.86"), "{}", played.shown);
}

#[test]
fn a_form_is_filled_in_field_by_field() {
    let steps = [
        ("demo asks: Who is there?", ENTER),
        ("Name (What you want to be called):", "Ann\r"),
        ("Tone (optional)", DOWN_ENTER),
    ];
    let Some(played) = play(&World::new(), &["call", "greet"], &steps) else { return };
    assert!(played.code == 0 && played.shown.contains("Hello Ann, how lovely!"), "{}", played.shown);
}

#[test]
fn a_question_can_be_declined_or_cancelled() {
    let Some(played) = play(&World::new(), &["call", "greet"], &[("cancel", DOWN_ENTER)]) else { return };
    assert!(played.code == 0 && played.shown.contains("Hello, stranger."), "{}", played.shown);
    let Some(played) = play(&World::new(), &["call", "greet"], &[("cancel", DOWN_DOWN_ENTER)]) else { return };
    assert!(played.code == 1 && played.shown.contains("the greeting was cancelled"), "{}", played.shown);
}

#[test]
fn a_legacy_server_in_mid_call_gets_its_answers_too() {
    let scripted = Scripted::new(Script::legacy());
    let world = World::with_servers(json!([entry("s", &scripted)]));
    let steps = [("First?", ENTER), ("name:", "Ann\r"), ("Second?", ENTER), ("name:", "Bob\r")];
    let Some(played) = play(&world, &["call", "s/ask_twice"], &steps) else { return };
    assert_eq!(played.code, 0, "{}", played.shown);
    let told: Vec<String> = scripted.journal().of("told").iter().map(|told| told.to_string()).collect();
    assert!(told.len() == 2 && told[0].contains("Ann") && told[1].contains("Bob"), "{told:?}");
}

#[test]
fn whoever_only_presses_enter_has_agreed_to_nothing() {
    let properties = json!({"sure": {"type": "boolean"}, "news": {"type": "boolean"}, "size": {"enum": ["s", "l"]}});
    let schema = json!({"type": "object", "properties": properties, "required": ["sure"]});
    let question =
        json!({"method": "elicitation/create", "params": {"message": "Delete it?", "requestedSchema": schema}});
    let asked = json!({"resultType": "input_required", "inputRequests": {"x": question}, "requestState": "s"});
    let scripted = Scripted::new(Script::modern().rule(Rule::on("tools/call").nth(1).act(Action::Result(asked))));
    let world = World::with_servers(json!([entry("s", &scripted)]));
    let steps = [("cancel", ENTER), ("sure:", ENTER), ("news (optional):", ENTER), ("size (optional):", ENTER)];
    let Some(played) = play(&world, &["call", "s/echo", "message=done"], &steps) else { return };
    assert!(played.code == 0 && played.shown.contains("done"), "{}", played.shown);
    let answer = &scripted.journal().received("tools/call")[1]["params"]["inputResponses"]["x"];
    assert_eq!(answer, &json!({"action": "accept", "content": {"sure": false}}));
}

#[test]
fn a_text_without_the_format_that_was_asked_for_is_asked_for_again() {
    let schema =
        json!({"type": "object", "properties": {"mail": {"type": "string", "format": "email"}}, "required": ["mail"]});
    let question =
        json!({"method": "elicitation/create", "params": {"message": "Where to?", "requestedSchema": schema}});
    let asked = json!({"resultType": "input_required", "inputRequests": {"x": question}, "requestState": "s"});
    let scripted = Scripted::new(Script::modern().rule(Rule::on("tools/call").nth(1).act(Action::Result(asked))));
    let world = World::with_servers(json!([entry("s", &scripted)]));
    let steps = [("cancel", ENTER), ("mail:", "ann\r"), ("must be an email address", "ann@example.com\r")];
    let Some(played) = play(&world, &["call", "s/echo", "message=done"], &steps) else { return };
    assert_eq!(played.code, 0, "{}", played.shown);
    let answer = &scripted.journal().received("tools/call")[1]["params"]["inputResponses"]["x"];
    assert_eq!(answer["content"], json!({"mail": "ann@example.com"}));
}

#[test]
fn an_address_is_shown_in_full() {
    let scripted = Scripted::new(Script::modern());
    let world = World::with_servers(json!([entry("s", &scripted)]));
    let Some(played) = play(&world, &["call", "s/ask_url"], &[("Please visit https://example.com/", ENTER)]) else {
        return;
    };
    assert!(played.code == 0 && played.shown.contains("\"accept\""), "{}", played.shown);
}

#[test]
fn ctrl_c_at_a_question_or_during_a_call_interrupts_and_leaves_nothing() {
    let scripted = Scripted::new(Script::legacy());
    let world = World::with_servers(json!([entry("s", &scripted)]));
    for (args, words) in [(["call", "s/ask"], "cancel"), (["call", "s/ask"], "Who are you?")] {
        let Some(played) = play(&world, &args, &[(words, CTRL_C)]) else { return };
        assert!(played.code == 130 && played.shown.contains("interrupted"), "{} {}", played.code, played.shown);
    }
    let Some(played) = play(&World::new(), &["call", "wait", "seconds=60", "steps=600"], &[("2/600", CTRL_C)]) else {
        return;
    };
    assert_eq!(played.code, 130, "{}", played.shown);
    assert_eq!(scripted.mark().count(), 0, "{:?}", scripted.mark().processes());
}

#[test]
fn progress_is_a_bar_and_log_lines_do_not_tear_it() {
    let Some(played) = play(&World::new(), &["call", "wait", "seconds=0.6", "steps=3"], &[("3/3", "")]) else { return };
    assert!(played.code == 0 && played.shown.contains("1/3"), "{}", played.shown);
    assert!(played.shown.contains("info demo/wait: wait: waiting 0.6 seconds"), "{}", played.shown);
}

#[test]
fn nobody_is_asked_who_does_not_want_to_be() {
    let Some(played) = play(&World::new(), &["call", "--no-input", "greet"], &[]) else { return };
    assert!(played.code == 0 && played.shown.contains("declined: prompts are off"), "{}", played.shown);
}

#[test]
fn init_asks_about_each_program_before_it_is_changed() {
    let world = World::new();
    let server = |name: &str| json!({"mcpServers": {name: {"command": "uvx", "args": [name]}}}).to_string();
    let (claude, cursor) = (world.write(".mcp.json", &server("one")), world.write(".cursor/mcp.json", &server("two")));
    // Down and enter declines, enter alone accepts.
    let steps = [("Point Claude Code at tsugi", "\u{1b}[B\r"), ("Point Cursor at tsugi", "\r")];
    let Some(played) = play(&world, &["init", "--write-clients"], &steps) else { return };
    assert_eq!(played.code, 0, "{}", played.shown);
    assert_eq!(std::fs::read_to_string(claude).unwrap(), server("one"));
    assert!(std::fs::read_to_string(cursor).unwrap().contains("tsugi-project"), "{}", played.shown);
}

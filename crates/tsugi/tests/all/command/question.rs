//! What a server asks during a call, when nobody is at a terminal.

use serde_json::{Value, json};
use tsugi_testkit::script::{Action, Rule, Script};
use tsugi_testkit::scripted::Scripted;

use super::world::{World, entry};

fn world(script: Script) -> (Scripted, World) {
    let scripted = Scripted::new(script);
    let world = World::with_servers(json!([entry("s", &scripted)]));
    (scripted, world)
}

/// The answers as the tool echoes them.
fn answers(script: Script, words: &[&str]) -> Value {
    let (_scripted, world) = world(script);
    world.run(words).expect(0).json()
}

#[test]
fn questions_to_the_user_are_declined_and_said_so_in_both_eras() {
    for script in [Script::legacy(), Script::modern()] {
        let (_scripted, world) = world(script);
        let ran = world.run(&["call", "s/ask"]).expect(0);
        assert_eq!(ran.json(), json!([{"action": "decline"}]));
        assert_eq!(ran.stderr, "s asks: Who are you?\ndeclined: prompts are off\n");
    }
}

#[test]
fn every_question_of_a_call_is_answered() {
    let declined = json!([{"action": "decline"}, {"action": "decline"}]);
    assert_eq!(answers(Script::legacy(), &["call", "s/ask_twice"]), declined);
    assert_eq!(answers(Script::modern(), &["call", "s/ask_twice"]), declined);
    assert_eq!(answers(Script::modern(), &["call", "s/ask_url"]), json!([{"action": "decline"}]));
}

#[test]
fn roots_are_told_where_the_command_line_names_them() {
    for script in [Script::legacy(), Script::modern()] {
        let (_scripted, world) = world(script);
        let work = std::fs::canonicalize(world.work()).unwrap();
        let told = world.run(&["call", "s/roots", "--root"]).expect(0).json();
        assert_eq!(told, json!([{"roots": [{"uri": format!("file://{}", work.display()), "name": "project"}]}]));
        let two = world.run(&["call", "s/roots", "--root=.", "--root=/"]).expect(0).json();
        assert_eq!(two[0]["roots"][1], json!({"uri": "file:///", "name": "/"}));
    }
}

#[test]
fn roots_are_told_to_a_server_that_asks_before_anything_is_called() {
    let ask = Action::Ask { method: "roots/list".into(), params: json!({}), wait: false };
    let (scripted, world) = world(Script::legacy().rule(Rule::on("notifications/initialized").act(ask)));
    world.run(&["call", "s/echo", "message=x", "--root"]).expect(0);
    let work = std::fs::canonicalize(world.work()).unwrap();
    let told = scripted.journal().of("told");
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].to_string().contains(&format!("file://{}", work.display())), "{told:?}");
}

#[test]
fn without_roots_a_server_is_not_told_that_it_may_ask_for_them() {
    let (_scripted, world) = world(Script::modern());
    let ran = world.run(&["call", "s/roots"]).expect(1);
    assert!(ran.stderr.contains("hint: name the directories with --root"), "{}", ran.stderr);
}

#[test]
fn a_model_is_never_lent() {
    let (_scripted, world) = world(Script::modern());
    let ran = world.run(&["call", "s/sample"]).expect(1);
    assert!(ran.stderr.contains("hint: the command has no model"), "{}", ran.stderr);
}

/// A modern server whose tools always end with this question.
fn always_asking(question: Value) -> Script {
    let result = json!({"resultType": "input_required", "inputRequests": {"x": question}, "requestState": "s"});
    Script::modern().rule(Rule::on("tools/call").act(Action::Result(result)))
}

#[test]
fn a_server_that_asks_without_being_allowed_to_ends_with_the_code_for_that() {
    let sampling = json!({"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}});
    let (_scripted, world) = world(always_asking(sampling));
    let ran = world.run(&["call", "s/echo", "message=x"]).expect(6);
    assert!(ran.stderr.contains("asks for a model's answer"), "{}", ran.stderr);
}

#[test]
fn a_server_that_never_stops_asking_is_left() {
    let form = json!({"method": "elicitation/create", "params": {"message": "Again?", "requestedSchema": {"type": "object", "properties": {}}}});
    let (_scripted, world) = world(always_asking(form));
    let ran = world.run(&["call", "-q", "s/echo", "message=x"]).expect(1);
    assert!(ran.stderr.contains("the server asks endlessly"), "{}", ran.stderr);
}

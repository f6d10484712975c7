//! The plain operation of a tool that asks in mid-call, in front of a server of each era.

use serde_json::{Value, json};
use tsugi_testkit::script::Script;
use tsugi_testkit::scripted::Scripted;

use crate::world::{Serving, World};

fn serve(world: &World, scripted: &Scripted) -> Serving {
    let args: Vec<String> = scripted.args().iter().map(|arg| arg.replace('$', "$$")).collect();
    let env: serde_json::Map<String, Value> =
        scripted.env().into_iter().map(|(name, value)| (name, value.into())).collect();
    let entry = json!({"name": "asks", "command": scripted.program(), "args": args, "env": env});
    let config = world.write("tsugi.json", &json!({"servers": [entry]}).to_string());
    world.serve(&["--config", config.to_str().unwrap()])
}

/// Posts to the operation or beside it; the status and the answer.
fn post(serving: &Serving, path: &str, body: &Value) -> (String, Value) {
    let (head, answer) = serving.ask("POST", path, &[], &body.to_string());
    (head.split(' ').nth(1).unwrap().to_owned(), serde_json::from_str(&answer).unwrap())
}

fn asks_and_is_answered(script: Script) {
    let (world, scripted) = (World::new(), Scripted::new(script));
    let serving = serve(&world, &scripted);
    let arguments = json!({"requestState": "an argument of that name is the tool's own"});
    let (status, asked) = post(&serving, "/tools/asks/ask", &arguments);
    assert_eq!((status.as_str(), &asked["error"]["code"]), ("409", &json!("INPUT_REQUIRED")), "{asked}");
    let details = &asked["error"]["details"];
    let key = details["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let answer = json!({
        "input": arguments,
        "inputResponses": {key: {"action": "accept", "content": {"name": "Ann"}}},
        "requestState": details["requestState"],
    });
    let (status, told) = post(&serving, "/tools/asks/ask/answer", &answer);
    assert!(status == "200" && told.to_string().contains("Ann"), "{told}");
    assert!(told.get("success").is_none(), "the result alone, as the operation gives it: {told}");
}

#[test]
fn an_operation_of_a_legacy_server_that_asks_goes_on_with_the_answer() {
    asks_and_is_answered(Script::legacy());
}

#[test]
fn an_operation_of_a_modern_server_that_asks_goes_on_with_the_answer() {
    asks_and_is_answered(Script::modern());
}

//! The tools of a scripted server.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};

use super::message::{Body, error, outgoing};
use super::turn::Turn;

/// The tools as they are listed.
pub(super) fn described(more: &[Value], has_extra: bool) -> Vec<Value> {
    let number = json!({"type": "number"});
    let whole = json!({"type": "integer"});
    let text = json!({"type": "string"});
    let mut tools = vec![
        tool("echo", json!({"message": text}), json!({"readOnlyHint": true})),
        tool("add", json!({"a": number, "b": number}), json!({"readOnlyHint": true})),
        tool("sleep", json!({"ms": whole}), json!({"readOnlyHint": true})),
        tool("progress", json!({"steps": whole, "every_ms": whole}), json!({"readOnlyHint": true})),
        tool("count", json!({}), json!({"readOnlyHint": false, "idempotentHint": false})),
        tool("big", json!({"bytes": whole}), json!({"readOnlyHint": true})),
        tool("log", json!({"level": text, "text": text}), json!({})),
        tool("change", json!({"what": text}), json!({})),
        tool("about", json!({"variable": text}), json!({"readOnlyHint": true})),
    ];
    let plain = ["fail", "error", "crash", "ask", "ask_url", "ask_twice", "sample", "roots", "wrong", "unstructured"];
    tools.extend(plain.into_iter().map(|name| tool(name, json!({}), json!({}))));
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    for tool in tools.iter_mut().filter(|tool| tool["name"] == "wrong" || tool["name"] == "unstructured") {
        tool["outputSchema"] = schema.clone();
    }
    tools.extend(more.iter().cloned());
    if has_extra {
        tools.push(tool("extra", json!({}), json!({})));
    }
    tools
}

fn tool(name: &str, properties: Value, annotations: Value) -> Value {
    let schema = json!({"type": "object", "properties": properties});
    json!({"name": name, "description": format!("The tool {name}."), "inputSchema": schema, "annotations": annotations})
}

/// Calls a tool; `None` when nobody will be answered.
pub(super) fn call(turn: &Turn) -> Option<Body> {
    let arguments = &turn.request.params["arguments"];
    let name = turn.request.tool().unwrap_or_default();
    let number = |key: &str| arguments[key].as_u64().unwrap_or(0);
    Some(match name {
        "echo" => text(turn, arguments["message"].as_str().map_or_else(|| arguments.to_string(), str::to_owned)),
        "add" => add(turn, arguments),
        "sleep" => {
            if !turn.work_for(Duration::from_millis(number("ms"))) {
                return None;
            }
            text(turn, "slept".into())
        }
        "progress" => return progress(turn, number("steps") as usize, number("every_ms")),
        "count" => {
            turn.server.journal.write("effect", json!("count"));
            text(turn, turn.server.journal.effects("count").to_string())
        }
        "fail" => turn.result(r#""content":[{"type":"text","text":"it failed"}],"isError":true"#.into()),
        "error" => {
            Body::Error(json!({"code": -32000, "message": "a server's own error", "data": {"why": ["because"]}}))
        }
        "crash" => {
            turn.server.journal.write("effect", json!("crash"));
            turn.end(arguments["code"].as_i64().unwrap_or(1) as i32);
            return None;
        }
        "big" => text(turn, "x".repeat(number("bytes") as usize)),
        "wrong" => turn.result(r#""content":[],"structuredContent":{"n":"not a number"}"#.into()),
        "unstructured" => text(turn, "no structured content".into()),
        "log" => log(turn, arguments),
        "change" => change(turn, arguments["what"].as_str().unwrap_or("tools")),
        "about" => about(turn, arguments["variable"].as_str()),
        "withdraw" => withdraw(turn),
        "ask_both" => ask_both(turn)?,
        "ask" | "ask_url" | "ask_twice" | "sample" | "roots" => return ask(turn, name),
        other if is_listed(turn, other) => text(turn, arguments.to_string()),
        other => error(-32602, &format!("Unknown tool: {other}")),
    })
}

fn is_listed(turn: &Turn, name: &str) -> bool {
    let script = &turn.server.script;
    let is_generated = || {
        name.strip_prefix("tool_")
            .and_then(|number| number.parse().ok())
            .is_some_and(|number: usize| number < script.extra_tools)
    };
    let is_extra = name == "extra" && turn.server.has_extra.load(Ordering::Acquire);
    is_extra || is_generated() || script.tools.iter().any(|tool| tool["name"] == name)
}

fn text(turn: &Turn, text: String) -> Body {
    turn.result(format!(r#""content":[{{"type":"text","text":{}}}]"#, Value::String(text)))
}

fn add(turn: &Turn, arguments: &Value) -> Body {
    let sum = match (arguments["a"].as_i64(), arguments["b"].as_i64()) {
        (Some(a), Some(b)) => json!(a + b),
        _ => json!(arguments["a"].as_f64().unwrap_or(0.0) + arguments["b"].as_f64().unwrap_or(0.0)),
    };
    turn.result(format!(r#""content":[{{"type":"text","text":"{sum}"}}],"structuredContent":{{"sum":{sum}}}"#))
}

fn progress(turn: &Turn, steps: usize, every_ms: u64) -> Option<Body> {
    for done in 1..=steps {
        if !turn.work_for(Duration::from_millis(every_ms)) {
            return None;
        }
        turn.progress(done, Some(steps));
    }
    Some(text(turn, "done".into()))
}

fn log(turn: &Turn, arguments: &Value) -> Body {
    let params = json!({"level": arguments["level"], "logger": "scripted", "data": arguments["text"]});
    turn.voice.note(&outgoing(None, "notifications/message", &params));
    text(turn, "logged".into())
}

fn change(turn: &Turn, what: &str) -> Body {
    if what == "tools" {
        turn.server.has_extra.fetch_xor(true, Ordering::AcqRel);
    }
    turn.server.announce(what);
    text(turn, "changed".into())
}

/// Takes every open question back; whoever waits for its answer goes on without.
fn withdraw(turn: &Turn) -> Body {
    turn.server.withdraw_asks(|id| {
        let params = json!({"requestId": id, "reason": "no longer needed"});
        turn.voice.note(&outgoing(None, "notifications/cancelled", &params));
    });
    text(turn, "withdrawn".into())
}

fn about(turn: &Turn, variable: Option<&str>) -> Body {
    let value = variable.and_then(|name| std::env::var(name).ok());
    let arguments: Vec<String> = std::env::args().collect();
    let about = json!({"pid": std::process::id(), "launch": turn.server.launch, "variable": value, "arguments": arguments,
        "session": turn.session.id, "folder": std::env::current_dir().ok()});
    turn.result(format!(
        r#""content":[{{"type":"text","text":{}}}],"structuredContent":{about}"#,
        Value::String(about.to_string())
    ))
}

/// The questions of one of the tools that ask, in the order in which they are put. `ask` asks with the secret of its
/// arguments, if there is one.
fn questions(name: &str, secret: Option<&str>) -> Vec<(&'static str, &'static str, Value)> {
    let form = |message: &str| {
        let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
        json!({"mode": "form", "message": message, "requestedSchema": schema})
    };
    match name {
        "ask_url" => vec![(
            "visit",
            "elicitation/create",
            json!({"mode": "url", "message": "Please visit.", "url": "https://example.com/", "elicitationId": "e1"}),
        )],
        "ask_twice" => {
            vec![("first", "elicitation/create", form("First?")), ("second", "elicitation/create", form("Second?"))]
        }
        "sample" => {
            let messages = json!([{"role": "user", "content": {"type": "text", "text": "Say something."}}]);
            vec![("model", "sampling/createMessage", json!({"messages": messages, "maxTokens": 100}))]
        }
        "roots" => vec![("roots", "roots/list", json!({}))],
        _ => vec![("who", "elicitation/create", form(secret.unwrap_or("Who are you?")))],
    }
}

fn capability(method: &str) -> &'static str {
    match method {
        "elicitation/create" => "elicitation",
        "sampling/createMessage" => "sampling",
        _ => "roots",
    }
}

fn ask(turn: &Turn, name: &str) -> Option<Body> {
    let arguments = &turn.request.params["arguments"];
    let questions = questions(name, arguments["secret"].as_str());
    if let Some((_, method, _)) = questions.iter().find(|(_, method, _)| !turn.client_can(capability(method))) {
        return Some(match turn.is_modern() {
            true => Body::Error(json!({"code": -32021, "message": "Missing required client capability",
                "data": {"requiredCapabilities": {capability(method): {}}}})),
            false => {
                turn.result(r#""content":[{"type":"text","text":"the client cannot be asked"}],"isError":true"#.into())
            }
        });
    }
    if turn.is_modern() { Some(ask_by_result(turn, &questions)) } else { ask_in_mid_call(turn, &questions) }
}

/// Legacy: one request after the other while the call is open, `ms` after it began. With `steps`, progress follows.
fn ask_in_mid_call(turn: &Turn, questions: &[(&str, &str, Value)]) -> Option<Body> {
    let arguments = &turn.request.params["arguments"];
    if !turn.work_for(Duration::from_millis(arguments["ms"].as_u64().unwrap_or(0))) {
        return None;
    }
    let mut answers = Vec::new();
    for (_, method, params) in questions {
        let answer = turn.ask(method, params, true)?;
        answers.push(answer.get("result").or(answer.get("error")).cloned().unwrap_or_default());
    }
    progress(turn, arguments["steps"].as_u64().unwrap_or(0) as usize, 0)?;
    Some(text(turn, Value::Array(answers).to_string()))
}

/// Legacy: both requests at the same time.
fn ask_both(turn: &Turn) -> Option<Body> {
    let answers = turn.ask_at_once(&questions("ask_twice", None))?;
    let answers =
        answers.iter().map(|answer| answer.get("result").or(answer.get("error")).cloned().unwrap_or_default());
    Some(text(turn, Value::Array(answers.collect()).to_string()))
}

/// Modern: one question per round; the answers so far travel in the state.
fn ask_by_result(turn: &Turn, questions: &[(&str, &str, Value)]) -> Body {
    let state = turn.request.params["requestState"].as_str();
    let mut answers: Vec<Value> = match state.map(serde_json::from_str) {
        None => Vec::new(),
        Some(Ok(answers)) => answers,
        Some(Err(_)) => return error(-32602, "the request state is not ours"),
    };
    let responses = &turn.request.params["inputResponses"];
    if let Some(answer) = questions.get(answers.len()).and_then(|(key, ..)| responses.get(key)) {
        answers.push(answer.clone());
    }
    match questions.get(answers.len()) {
        None => text(turn, Value::Array(answers).to_string()),
        Some((key, method, params)) => {
            let requests = json!({*key: {"method": method, "params": modern_params(params)}});
            let state = Value::Array(answers).to_string();
            Body::Result(
                json!({"resultType": "input_required", "inputRequests": requests, "requestState": state}).to_string(),
            )
        }
    }
}

/// The modern form of a question knows no elicitation ids.
fn modern_params(params: &Value) -> Value {
    let mut params = params.clone();
    if let Some(members) = params.as_object_mut() {
        members.remove("elicitationId");
    }
    params
}

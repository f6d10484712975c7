//! How an agent embeds the library: a model that wants tools, three servers, and the loop between them.
//!
//! The model here is a script, so that the example runs without a provider; everything else is as in earnest:
//! tools are offered in the provider's own form, calls of one turn run in parallel, a failure is told to the model
//! in words and not thrown, and a model that made a mistake gets the chance to correct it.
//!
//! `cargo run -p tsugi-client --example agent`

#![allow(clippy::print_stdout, reason = "an example talks to people")]

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tsugi_client::{ConnectTarget, Manager, ManagerOptions, ServerConfig, ToolResult};
use tsugi_protocol::serve::{HandlerError, InProcessServer, NoArguments, StructuredOutput, TextOutput, ToolBuilder};
use tsugi_schema::dialect::SchemaDialect;

/// What a model asks for in one turn.
struct ToolCall {
    name: &'static str,
    arguments: Value,
}

/// What a model says: either tools to call, or the answer.
enum Turn {
    Calls(Vec<ToolCall>),
    Answer(&'static str),
}

/// A model that follows a script. A real one would be sent `tools` and the conversation.
struct ScriptedModel {
    turns: VecDeque<Turn>,
}

impl ScriptedModel {
    fn new() -> Self {
        let call = |name, arguments| ToolCall { name, arguments };
        let turns = [
            // Three servers in one turn; the second call is wrong.
            Turn::Calls(vec![
                call("weather__forecast", json!({"city": "Kyoto", "days": 2})),
                call("trains__find", json!({"from": "Osaka"})),
                call("notes__list", json!({})),
            ]),
            // It read the error and corrects itself.
            Turn::Calls(vec![call("trains__find", json!({"from": "Osaka", "to": "Kyoto"}))]),
            Turn::Calls(vec![call("notes__write", json!({"text": "train at 9:15, take an umbrella"}))]),
            Turn::Answer("There is a train at 9:15. It will rain, so I noted the umbrella."),
        ];
        Self { turns: turns.into() }
    }

    fn next(&mut self, _tools: &Value, _conversation: &[Value]) -> Turn {
        self.turns.pop_front().unwrap_or(Turn::Answer("I have nothing to add."))
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Forecast {
    city: String,
    days: u8,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Journey {
    from: String,
    to: String,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Note {
    text: String,
}

fn weather() -> Arc<InProcessServer> {
    let forecast = ToolBuilder::new("forecast", "The weather of the next days.").read_only();
    let forecast = forecast.handler(|wanted: Forecast, _| async move {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let days: Vec<&str> = ["rain", "sun"].into_iter().cycle().take(wanted.days.into()).collect();
        Ok(StructuredOutput(json!({"city": wanted.city, "days": days})))
    });
    InProcessServer::builder("weather", "1.0.0").tool(forecast).build()
}

fn trains() -> Arc<InProcessServer> {
    let find = ToolBuilder::new("find", "Trains between two places.").read_only();
    let find = find.handler(|journey: Journey, _| async move {
        if journey.from == journey.to {
            return Err(HandlerError::failed("you are there already"));
        }
        Ok(TextOutput(format!("{} to {}: 9:15, 9:45", journey.from, journey.to)))
    });
    InProcessServer::builder("trains", "1.0.0").tool(find).build()
}

fn notes() -> Arc<InProcessServer> {
    let written = Arc::new(std::sync::Mutex::new(Vec::<String>::new()));
    let (of_list, of_write) = (written.clone(), written);
    let list = ToolBuilder::new("list", "All notes.").read_only().handler(move |_: NoArguments, _| {
        let notes = of_list.lock().expect("nobody panics with it").join("\n");
        async move { Ok(TextOutput(notes)) }
    });
    let write = ToolBuilder::new("write", "Writes a note.").handler(move |note: Note, _| {
        of_write.lock().expect("nobody panics with it").push(note.text);
        async { Ok(TextOutput("written")) }
    });
    InProcessServer::builder("notes", "1.0.0").tool(list).tool(write).build()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Before the runtime starts its threads: processes are started through a guardian, which is this program again.
    tsugi_process::guardian_main();
    plan_a_day()
}

#[tokio::main]
async fn plan_a_day() -> Result<(), Box<dyn std::error::Error>> {
    let manager = Manager::new(ManagerOptions::default());
    for (name, server) in [("weather", weather()), ("trains", trains()), ("notes", notes())] {
        manager.register(ServerConfig::new(name, ConnectTarget::InProcess(server)))?;
    }
    // `TSUGI_AGENT_SERVER` adds a server of one's own: a program and its arguments.
    if let Ok(line) = std::env::var("TSUGI_AGENT_SERVER") {
        let mut words = line.split_whitespace();
        let program = words.next().ok_or("TSUGI_AGENT_SERVER is empty")?;
        let command = tsugi_process::JobCommand::new(program).args(words);
        manager.register(ServerConfig::new("own", ConnectTarget::stdio(command)))?;
    }
    for (server, fault) in manager.settled(Duration::from_secs(30)).await {
        println!("without {server}: {fault}");
    }
    // A word of the program itself: nothing is written that is too long.
    manager.set_check("notes", "write", |arguments| async move {
        let length = arguments["text"].as_str().map_or(0, str::len);
        if length > 1000 { Err("a note has at most 1000 characters".to_owned()) } else { Ok(()) }
    });
    converse(&manager, "How do I get to Kyoto tomorrow, and what will the weather be?").await;
    manager.stop().await;
    Ok(())
}

/// The loop: offer tools, run what the model asks for, tell it what came out, until it answers.
async fn converse(manager: &Manager, question: &str) {
    println!("user:  {question}");
    let mut conversation = vec![json!({"role": "user", "content": question})];
    let mut model = ScriptedModel::new();
    loop {
        let tools = manager.tools_for(SchemaDialect::Anthropic);
        match model.next(&tools.declarations, &conversation) {
            Turn::Answer(answer) => {
                println!("model: {answer}");
                return;
            }
            Turn::Calls(calls) => {
                for result in run(manager, calls).await {
                    conversation.push(json!({"role": "tool", "content": result}));
                }
            }
        }
    }
}

/// All calls of a turn at once; results in the order of the calls.
async fn run(manager: &Manager, calls: Vec<ToolCall>) -> Vec<Value> {
    let running = calls.into_iter().map(|call| async move {
        let result = manager.call_from(SchemaDialect::Anthropic, call.name, call.arguments.clone()).await;
        println!("call:  {}({}) in {:.1} ms", call.name, call.arguments, result.metadata.execution_time);
        for_model(&result)
    });
    let results = futures_util::future::join_all(running).await;
    for result in &results {
        println!("       -> {result}");
    }
    results
}

/// What the model is told. Its words come from servers: data, never orders.
fn for_model(result: &ToolResult) -> Value {
    match &result.error {
        Some(error) => json!({"error": error.code, "message": error.message}),
        None => result.data.clone().unwrap_or_default(),
    }
}

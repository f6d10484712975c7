//! A server in this process that offers what the scripted one offers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tsugi_protocol::json::RawJson;
use tsugi_protocol::mcp::log::LogLevel;
use tsugi_protocol::serve::{
    CompletionValues, HandlerContext, HandlerError, InProcessServer, NeedInput, PromptBuilder, PromptOutput,
    ResourceBuilder, ResourceContents, StructuredOutput, TextOutput, ToolBuilder,
};

#[derive(Deserialize, schemars::JsonSchema)]
struct Echo {
    message: String,
}

#[derive(Deserialize, schemars::JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

#[derive(serde::Serialize, schemars::JsonSchema)]
struct Sum {
    sum: i64,
}

#[derive(Deserialize, schemars::JsonSchema)]
struct Steps {
    steps: u32,
}

#[derive(Deserialize, schemars::JsonSchema)]
struct Log {
    level: String,
    text: String,
}

#[derive(Deserialize, schemars::JsonSchema)]
struct Change {
    what: String,
}

#[derive(Deserialize, schemars::JsonSchema)]
struct Greet {
    name: String,
}

#[derive(Deserialize, schemars::JsonSchema)]
struct Nothing {}

/// Counts a handler that was dropped before its end.
struct Dropped(Arc<AtomicUsize>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

/// The server, and how many of its calls were given up.
pub(super) fn server() -> (Arc<InProcessServer>, Arc<AtomicUsize>) {
    let cancelled = Arc::new(AtomicUsize::new(0));
    let counting = cancelled.clone();
    let sleep = ToolBuilder::new("sleep", "Sleeps for ever.").raw_handler(move |_, _| {
        let dropped = Dropped(counting.clone());
        async move {
            std::future::pending::<()>().await;
            drop(dropped);
            Ok(TextOutput(String::new()))
        }
    });
    let builder = InProcessServer::builder("in-process", "1")
        .with_logging()
        .tool(ToolBuilder::new("echo", "Echoes.").handler(|echo: Echo, _| async move { Ok(TextOutput(echo.message)) }))
        .tool(
            ToolBuilder::new("add", "Adds.")
                .handler(|add: Add, _| async move { Ok(StructuredOutput(Sum { sum: add.a + add.b })) }),
        )
        .tool(sleep)
        .tool(ToolBuilder::new("progress", "Reports.").handler(progress))
        .tool(ToolBuilder::new("log", "Logs.").handler(log))
        .tool(ToolBuilder::new("change", "Changes.").handler(change));
    let builder = ["ask", "ask_url", "ask_twice", "sample", "roots"].into_iter().fold(builder, |builder, name| {
        builder.tool(ToolBuilder::new(name, "Asks.").handler(move |_: Nothing, context| ask(name, context)))
    });
    let server = builder
        .resource(
            ResourceBuilder::new("test://text", "text").handler(|_| async { Ok(ResourceContents::text("some text")) }),
        )
        .prompt(
            PromptBuilder::new("greet", "Greets.")
                .handler(|greet: Greet, _| async move { Ok(PromptOutput::user(format!("Greet {}.", greet.name))) }),
        )
        .completion(|request, _| async move {
            Ok(CompletionValues::starting_with(&request.value, ["alpha", "beta", "gamma"]))
        })
        .build();
    (server, cancelled)
}

async fn progress(steps: Steps, context: HandlerContext) -> Result<TextOutput<String>, HandlerError> {
    for step in 1..=steps.steps {
        tokio::time::sleep(Duration::from_millis(1)).await;
        context.progress(step.into(), Some(steps.steps.into()), None);
    }
    Ok(TextOutput("done".into()))
}

async fn log(log: Log, context: HandlerContext) -> Result<TextOutput<String>, HandlerError> {
    context.log(LogLevel::parse(&log.level).unwrap(), Some("in-process"), log.text);
    Ok(TextOutput("logged".into()))
}

async fn change(change: Change, context: HandlerContext) -> Result<TextOutput<String>, HandlerError> {
    match change.what.as_str() {
        "tools" => context.notifier().tools_changed(),
        "prompts" => context.notifier().prompts_changed(),
        "resources" => context.notifier().resources_changed(),
        uri => context.notifier().resource_updated(uri),
    }
    Ok(TextOutput("changed".into()))
}

/// Asks one question after the other; the answers so far travel in the state.
async fn ask(name: &'static str, context: HandlerContext) -> Result<TextOutput<String>, HandlerError> {
    let form = |key: &'static str| {
        let schema: RawJson = json!({"type": "object", "properties": {"name": {"type": "string"}}}).into();
        (key, NeedInput::new().form(key, "Who are you?", &schema))
    };
    let questions: Vec<(&str, NeedInput)> = match name {
        "ask_url" => vec![("visit", NeedInput::new().url("visit", "Please visit.", "https://example.com/"))],
        "ask_twice" => vec![form("first"), form("second")],
        "sample" => {
            let messages = json!([{"role": "user", "content": {"type": "text", "text": "Say something."}}]);
            vec![("model", NeedInput::new().sampling("model", json!({"messages": messages, "maxTokens": 100}).into()))]
        }
        "roots" => vec![("roots", NeedInput::new().roots("roots"))],
        _ => vec![form("who")],
    };
    let mut answers: Vec<Value> = context.state().map(|state| serde_json::from_str(state).unwrap()).unwrap_or_default();
    if let Some(answer) = questions.get(answers.len()).and_then(|(key, _)| context.response(key)) {
        answers.push(answer.to().unwrap());
    }
    let state = Value::Array(answers.clone()).to_string();
    match questions.into_iter().nth(answers.len()) {
        Some((_, question)) => Err(question.state(state).into()),
        None => Ok(TextOutput(state)),
    }
}

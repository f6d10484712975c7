//! An in-process server, seen through the seam and checked against the official schema.

mod asking;
mod listening;
mod offering;
mod official;

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::answer::{Answer, Call, CallFailure, Outcome, ReplyEvent};
use crate::json::{JsonObject, RawJson};
use crate::mcp::log::LogLevel;
use crate::mcp::{ClientCapabilities, ClientProfile, Method};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Add {
    /// The first number.
    a: i64,
    b: i64,
}

#[derive(serde::Serialize, schemars::JsonSchema)]
struct Sum {
    sum: i64,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Greet {
    /// Whom to greet.
    name: String,
    language: Option<String>,
}

#[derive(serde::Deserialize)]
struct FileAt {
    path: String,
}

fn adding() -> BoundTool {
    ToolBuilder::new("add", "Adds two numbers.")
        .title("Add")
        .read_only()
        .handler(|add: Add, _| async move { Ok(StructuredOutput(Sum { sum: add.a + add.b })) })
}

/// A server with one of everything.
fn server() -> Arc<InProcessServer> {
    InProcessServer::builder("demo", "1.0.0")
        .title("Demo")
        .instructions("Use add.")
        .with_logging()
        .tool(adding())
        .tool(
            ToolBuilder::new("fail", "Fails.")
                .handler(|_: NoArguments, _| async { Err::<TextOutput<&str>, _>("no luck".into()) }),
        )
        .tool(ToolBuilder::new("break", "Breaks.").handler(|_: NoArguments, _| async {
            if true {
                panic!("as asked")
            }
            Ok(TextOutput(""))
        }))
        .tool(ToolBuilder::new("work", "Works and tells.").handler(|_: NoArguments, cx| async move { work(cx).await }))
        .raw_tool("echo", "Echoes.", RawJson::literal(r#"{"type":"object","x":1.0}"#), |arguments, _| async move {
            Ok(ToolOutput::blocks(vec![block::text(arguments.raw().as_str())]))
        })
        .raw_tool(
            "whole",
            "A result of its own.",
            RawJson::literal(r#"{"type":"object"}"#),
            |arguments, _| async move { Ok(ToolOutput::result(arguments)) },
        )
        .resource(
            ResourceBuilder::new("demo://greeting", "greeting")
                .mime_type("text/plain")
                .handler(|_| async { Ok(ResourceContents::text("hello")) }),
        )
        .template(
            TemplateBuilder::new("file:///{+path}", "files")
                .handler(|file: FileAt, _| async move { read_file(&file.path) }),
        )
        .prompt(PromptBuilder::new("greet", "Greets.").handler(|greet: Greet, _| async move {
            Ok(PromptOutput::user(format!("greet {} in {:?}", greet.name, greet.language)))
        }))
        .completion(|request, _| async move {
            Ok(CompletionValues::starting_with(&request.value, ["english", "estonian", "thai"]))
        })
        .build()
}

async fn work(cx: HandlerContext) -> Result<TextOutput<String>, HandlerError> {
    cx.progress(1.0, Some(2.0), Some("half"));
    cx.log(LogLevel::Debug, None, "too quiet");
    tokio::task::yield_now().await;
    cx.log(LogLevel::Warning, Some("worker"), json!({"left": 1}));
    cx.progress(2.0, None, None);
    Ok(TextOutput(format!("done for {}", cx.caller().identity())))
}

fn read_file(path: &str) -> Result<ResourceContents, HandlerError> {
    match path {
        "a b.txt" => Ok(ResourceContents::json(&RawJson::literal("{}"))),
        other => Err(HandlerError::resource_not_found(&format!("file:///{other}"))),
    }
}

fn tool(name: &str, arguments: Value) -> Call {
    Call::tool(name, Some(&RawJson::from(arguments)))
}

fn call(method: Method, params: Value) -> Call {
    Call::new(method, JsonObject::from(params))
}

fn with_client(mut call: Call, capabilities: ClientCapabilities) -> Call {
    call.meta.client = Arc::new(ClientProfile { capabilities, ..ClientProfile::default() });
    call
}

async fn result(server: &InProcessServer, call: Call) -> Value {
    match server.answer(call).outcome().await {
        Outcome::Complete(complete) => complete.body.raw().to().unwrap(),
        other => panic!("{other:?}"),
    }
}

async fn error(server: &InProcessServer, call: Call) -> Value {
    match server.answer(call).outcome().await {
        Outcome::Failed(CallFailure::Upstream(error)) => error.raw().to().unwrap(),
        other => panic!("{other:?}"),
    }
}

async fn note(reply: &mut crate::answer::Reply) -> Value {
    match reply.next().await {
        ReplyEvent::Note(note) => serde_json::from_slice(&note.to_bytes()).unwrap(),
        other => panic!("{other:?}"),
    }
}

/// Polls once: true when there is nothing yet.
fn is_waiting(reply: &mut crate::answer::Reply) -> bool {
    reply.poll_event(&mut std::task::Context::from_waker(std::task::Waker::noop())).is_pending()
}

//! The client that the official conformance suite drives: one scenario per run, named by the environment.
//!
//! `MCP_CONFORMANCE_SCENARIO` says what to do, `MCP_CONFORMANCE_PROTOCOL_VERSION` which revision to speak,
//! `MCP_CONFORMANCE_CONTEXT` with what; the server's address is the last argument.

mod conformance_oauth;

use std::time::Duration;

use serde_json::{Value, json};
use tsugi_client::config::{ValidatePolicy, ValidationMode, own_profile};
use tsugi_client::{ConnectTarget, EraChoice, Manager, ManagerOptions, Server, ServerConfig};
use tsugi_protocol::answer::{Answer, Call, Outcome};
use tsugi_protocol::json::{JsonObject, RawJson};
use tsugi_protocol::mcp::input::InputResponses;
use tsugi_protocol::mcp::meta::RequestMeta;
use tsugi_protocol::mcp::{ClientCapabilities, Era, Method, ProtocolVersion};
use tsugi_transport::http::HttpTarget;

type Failure = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let url = std::env::args().next_back().ok_or("the server's address is missing")?;
    let scenario = std::env::var("MCP_CONFORMANCE_SCENARIO").unwrap_or_default();
    let context: Value =
        serde_json::from_str(&std::env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_default()).unwrap_or(Value::Null);
    let manager = Manager::new(ManagerOptions { profile: profile().into(), ..ManagerOptions::default() });
    let target = HttpTarget::new(url.parse()?, Default::default());
    let target = match scenario.starts_with("auth/") {
        true => target.with_credential(conformance_oauth::credential(&url.parse()?, &scenario, &context)?),
        false => target,
    };
    let mut config = ServerConfig::new("suite", ConnectTarget::Http(target));
    config.era = era();
    // The suite judges what is on the wire, also of arguments that do not fit (null for an absent one).
    config.validate = ValidatePolicy { arguments: ValidationMode::Off, results: ValidationMode::Off };
    let server = manager.register(config)?;
    let outcome = run(&server, &scenario, &context).await;
    manager.stop().await;
    outcome
}

fn profile() -> tsugi_protocol::mcp::ClientProfile {
    own_profile(ClientCapabilities::all())
}

/// The suite says which revision to speak.
fn era() -> EraChoice {
    let version = std::env::var("MCP_CONFORMANCE_PROTOCOL_VERSION").unwrap_or_default();
    match ProtocolVersion::parse(&version).map(ProtocolVersion::era) {
        Some(Era::Modern) => EraChoice::Modern,
        Some(Era::Legacy) => EraChoice::Legacy,
        None => EraChoice::Auto,
    }
}

async fn run(server: &Server, scenario: &str, context: &Value) -> Result<(), Failure> {
    let catalog = server.ready(Duration::from_secs(20)).await?;
    match scenario {
        "initialize" | "json-schema-ref-no-deref" => {}
        "tools_call" => drop(call(server, "add_numbers", json!({"a": 2, "b": 3})).await?),
        "elicitation-sep1034-client-defaults" => {
            drop(call(server, "test_client_elicitation_defaults", json!({})).await?)
        }
        "sse-retry" => drop(call(server, "test_reconnection", json!({})).await?),
        "json-schema-2020-12-preservation" => {
            let tool = catalog.tool("json_schema_2020_12_tool").ok_or("the tool is not listed")?;
            let schema: Value = tool.input_schema().ok_or("the tool has no schema")?.to()?;
            drop(call(server, "json_schema_echo", json!({"schema": schema})).await?);
        }
        "http-custom-headers" => {
            for wanted in context["toolCalls"].as_array().into_iter().flatten() {
                call(server, wanted["name"].as_str().unwrap_or_default(), wanted["arguments"].clone()).await?;
            }
        }
        "http-invalid-tool-headers" => drop(call(server, "valid_tool", json!({"region": "eu"})).await?),
        "sep-2322-client-request-state" => {
            for tool in
                ["test_mrtr_echo_state", "test_mrtr_no_state", "test_mrtr_unrelated", "test_mrtr_no_result_type"]
            {
                call(server, tool, json!({})).await?;
            }
        }
        _ => use_everything(server).await?,
    }
    Ok(())
}

/// Lists everything and uses the first of each.
async fn use_everything(server: &Server) -> Result<(), Failure> {
    let catalog = server.ready(Duration::from_secs(20)).await?;
    if let Some(tool) = catalog.tools.items.first() {
        call(server, tool.name(), json!({})).await?;
    }
    for resource in &catalog.resources.items {
        finish(server, Call::new(Method::ResourcesRead, JsonObject::from(json!({"uri": resource.uri()})))).await?;
    }
    if let Some(prompt) = catalog.prompts.items.first() {
        finish(server, Call::new(Method::PromptsGet, JsonObject::from(json!({"name": prompt.name()})))).await?;
    }
    Ok(())
}

async fn call(server: &Server, tool: &str, arguments: Value) -> Result<JsonObject, Failure> {
    finish(server, Call::tool(tool, Some(&RawJson::from(arguments)))).await
}

/// Runs a call to its end, answering what the server asks on the way.
async fn finish(server: &Server, mut call: Call) -> Result<JsonObject, Failure> {
    call.meta = RequestMeta::of_client(profile().into());
    for _ in 0..10 {
        match server.answer(call.clone()).outcome().await {
            Outcome::Complete(complete) => return Ok(complete.body),
            Outcome::Failed(failure) => return Err(format!("{:?}", failure.to_rpc().raw()).into()),
            Outcome::InputRequired(asked) => {
                let mut answers = InputResponses::default();
                for question in asked.questions() {
                    answers.add(&question.key, &answer(&question.method, &question.params_object()));
                }
                let answers = asked.requests.is_some().then(|| answers.finish());
                call = call.retry_with(answers.as_ref(), asked.state.as_deref());
            }
        }
    }
    Err("the server never stops asking".into())
}

fn answer(method: &Method, params: &JsonObject) -> RawJson {
    match method {
        Method::Elicit => RawJson::from(json!({"action": "accept", "content": defaults(params)})),
        Method::CreateMessage => RawJson::from(json!({
            "role": "assistant", "content": {"type": "text", "text": "test"}, "model": "test", "stopReason": "endTurn"
        })),
        _ => RawJson::from(json!({"roots": []})),
    }
}

/// Every property with its default, and required ones without a default with something that fits.
fn defaults(params: &JsonObject) -> Value {
    let schema: Value = params.get("requestedSchema").and_then(|schema| schema.to().ok()).unwrap_or_default();
    let mut content = serde_json::Map::new();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let value = match &property["default"] {
            Value::Null => match property["type"].as_str() {
                Some("boolean") => json!(true),
                Some("integer" | "number") => json!(1),
                _ => json!("test"),
            },
            default => default.clone(),
        };
        content.insert(name.clone(), value);
    }
    content.into()
}

//! What is refused, what passes with a warning, and that a hostile schema costs one tool.

use super::*;
use crate::config::{ConnectTarget, ServerConfig, ToolConfig, ValidatePolicy};
use crate::tool_table::tests::catalog;
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};
use tsugi_protocol::answer::CallFailure;

/// Answers every call with one result, and counts them.
struct Fixed(Value, AtomicUsize);

impl Answer for Fixed {
    fn answer(&self, _: Call) -> Reply {
        self.1.fetch_add(1, Ordering::SeqCst);
        Reply::ready(Outcome::complete(JsonObject::from(self.0.clone())))
    }
}

struct World {
    fixed: Arc<Fixed>,
    layer: ValidateLayer,
}

fn world(tools: Value, result: Value, policy: ValidatePolicy) -> World {
    let mut config = ServerConfig::new("s", ConnectTarget::InProcess(Arc::new(Fixed(json!({}), AtomicUsize::new(0)))));
    config.validate = policy;
    config.tools.insert("free".into(), ToolConfig { validate: Some(off()), ..ToolConfig::default() });
    let known = ToolTable::new(&config);
    known.fill(&catalog(tools));
    let fixed = Arc::new(Fixed(result, AtomicUsize::new(0)));
    World { layer: ValidateLayer::new(fixed.clone(), "s".into(), Arc::new(known), None), fixed }
}

fn off() -> ValidatePolicy {
    ValidatePolicy { arguments: ValidationMode::Off, results: ValidationMode::Off }
}

fn enforce() -> ValidatePolicy {
    ValidatePolicy { arguments: ValidationMode::Enforce, results: ValidationMode::Enforce }
}

fn adder(name: &str) -> Value {
    let number = json!({"type": "number"});
    json!({
        "name": name,
        "inputSchema": {"type": "object", "properties": {"a": number, "b": number}, "required": ["a", "b"]},
        "outputSchema": {"type": "object", "properties": {"sum": number}, "required": ["sum"]},
    })
}

impl World {
    async fn call(&self, tool: &str, arguments: Value) -> Result<(), Fault> {
        match self.layer.answer(Call::tool(tool, Some(&RawJson::from(arguments)))).outcome().await {
            Outcome::Failed(CallFailure::Fault(fault)) => Err(*fault),
            _ => Ok(()),
        }
    }

    fn calls(&self) -> usize {
        self.fixed.1.load(Ordering::SeqCst)
    }
}

#[tokio::test]
async fn arguments_that_do_not_fit_never_reach_the_server_and_the_fault_says_where() {
    let world = world(json!([adder("add")]), json!({"structuredContent": {"sum": 3}}), enforce());
    assert!(world.call("add", json!({"a": 1, "b": 2})).await.is_ok());
    let fault = world.call("add", json!({"a": "one"})).await.unwrap_err();
    assert_eq!((fault.code, fault.sent), (FaultCode::InvalidParams, SentState::NotSent));
    assert!(fault.message.contains(r#"/a: expected a number, got "one""#), "{}", fault.message);
    assert!(fault.message.contains(r#""b" is missing"#), "{}", fault.message);
    let details: Value = fault.details.unwrap().to().unwrap();
    assert!(details["faults"].as_array().unwrap().iter().any(|fault| fault["instance"] == "/a"), "{details}");
    assert_eq!(world.calls(), 1);
}

#[tokio::test]
async fn missing_arguments_are_checked_as_an_empty_object() {
    let world = world(json!([adder("add")]), json!({"structuredContent": {"sum": 3}}), enforce());
    let outcome = world.layer.answer(Call::tool("add", None)).outcome().await;
    assert!(matches!(outcome, Outcome::Failed(_)));
}

#[tokio::test]
async fn a_result_that_breaks_its_promise_is_refused_or_only_noted() {
    for (body, is_right) in [
        (json!({"structuredContent": {"sum": 3}}), true),
        (json!({"structuredContent": {"sum": "3"}}), false),
        (json!({"content": []}), false),
        (json!({"content": [], "isError": true}), true),
    ] {
        let strict = world(json!([adder("add")]), body.clone(), enforce());
        let result = strict.call("add", json!({"a": 1, "b": 2})).await;
        assert_eq!(result.is_ok(), is_right, "{body}");
        if let Err(fault) = result {
            assert_eq!((fault.code, fault.sent), (FaultCode::InvalidResponse, SentState::Unknown));
        }
        let mild = world(json!([adder("add")]), body, ValidatePolicy::default());
        assert!(mild.call("add", json!({"a": 1, "b": 2})).await.is_ok());
    }
}

#[tokio::test]
async fn what_is_off_for_a_tool_is_not_looked_at() {
    let world = world(json!([adder("add"), adder("free")]), json!({}), enforce());
    assert!(world.call("free", json!({"a": "one"})).await.is_ok());
    assert!(world.call("add", json!({"a": "one"})).await.is_err());
}

/// T15: a hostile schema costs its own tool and nothing else.
#[tokio::test]
async fn a_hostile_schema_costs_one_tool_and_the_fault_says_why() {
    let mut bomb = json!({"type": "string"});
    for _ in 0..30 {
        bomb = json!({"anyOf": [bomb.clone(), {"not": {}}]});
    }
    let mut defs = serde_json::Map::new();
    for level in 0..30 {
        let next = format!("#/$defs/d{}", level + 1);
        defs.insert(format!("d{level}"), json!({"anyOf": [{"$ref": next}, {"$ref": next}]}));
    }
    defs.insert("d30".into(), json!({"type": "string"}));
    let exponential = json!({"$ref": "#/$defs/d0", "$defs": defs});
    let tools = json!([
        {"name": "remote", "inputSchema": {"$ref": "http://127.0.0.1:9/schema"}},
        {"name": "exponential", "inputSchema": exponential},
        {"name": "endless", "inputSchema": {"$ref": "#"}},
        {"name": "careless", "inputSchema": {"type": "anything"}},
        {"name": "deep", "inputSchema": bomb},
        adder("add"),
    ]);
    let world = world(tools, json!({"structuredContent": {"sum": 1}}), enforce());
    for (tool, reason) in [("remote", "leaves the document"), ("exponential", "too costly"), ("endless", "without end")]
    {
        let fault = world.call(tool, json!({"x": 1})).await.expect_err("it cannot be checked");
        assert_eq!((fault.code, fault.sent), (FaultCode::CannotExecute, SentState::NotSent));
        assert!(fault.message.contains(reason), "{}", fault.message);
    }
    let _ = world.call("deep", json!({"x": 1})).await;
    let calls = world.calls();
    assert!(world.call("careless", json!({"x": 1})).await.is_ok());
    assert!(world.call("add", json!({"a": "one"})).await.is_err());
    assert_eq!(world.calls(), calls + 1);
    let unusable = world.layer.tools.unusable();
    let names: Vec<&str> = unusable.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["careless", "endless", "exponential", "remote"]);
}

#[tokio::test]
async fn a_tool_that_did_not_change_is_not_compiled_again() {
    let config = ServerConfig::new("s", ConnectTarget::InProcess(Arc::new(Fixed(json!({}), AtomicUsize::new(0)))));
    let known = ToolTable::new(&config);
    known.fill(&catalog(json!([adder("add"), adder("other")])));
    let before = known.get("add").unwrap();
    let mut other = adder("other");
    other["description"] = json!("new");
    let old_other = known.get("other").unwrap();
    known.fill(&catalog(json!([adder("add"), other])));
    assert!(Arc::ptr_eq(&before, &known.get("add").unwrap()));
    assert!(!Arc::ptr_eq(&old_other, &known.get("other").unwrap()));
}

#[tokio::test]
async fn a_call_that_comes_before_the_list_waits_for_it_where_checking_is_enforced() {
    for (policy, is_checked) in [(enforce(), true), (off(), false)] {
        let fixed = Arc::new(Fixed(json!({"structuredContent": {"sum": 1}}), AtomicUsize::new(0)));
        let mut config = ServerConfig::new("s", ConnectTarget::InProcess(fixed.clone()));
        config.validate = policy;
        let table = Arc::new(ToolTable::new(&config));
        let filled = table.clone();
        let list: ListSource = Arc::new(move |_| {
            filled.fill(&catalog(json!([adder("add")])));
            Box::pin(std::future::ready(Ok(())))
        });
        let layer = ValidateLayer::new(fixed.clone(), "s".into(), table, Some(list));
        let world = World { fixed, layer };
        let refused = world.call("add", json!({"a": "one"})).await;
        assert_eq!((refused.is_err(), world.calls()), (is_checked, usize::from(!is_checked)));
    }
}

#[tokio::test]
async fn a_call_whose_list_cannot_be_had_fails_with_the_reason() {
    let fixed = Arc::new(Fixed(json!({}), AtomicUsize::new(0)));
    let config = ServerConfig::new("s", ConnectTarget::InProcess(fixed.clone()));
    let list: ListSource =
        Arc::new(|_| Box::pin(std::future::ready(Err(Fault::new(FaultCode::ServerNotRunning, "down")))));
    let layer = ValidateLayer::new(fixed.clone(), "s".into(), Arc::new(ToolTable::new(&config)), Some(list));
    let world = World { fixed, layer };
    assert_eq!(world.call("add", json!({})).await.unwrap_err().code, FaultCode::ServerNotRunning);
    assert_eq!(world.calls(), 0);
}

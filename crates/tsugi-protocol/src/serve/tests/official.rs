//! Every kind of result against the official schema of 2026-07-28, where it lies beside the checkout.

use super::*;

pub(super) struct Official(Value);

impl Official {
    /// `None`, said aloud, when the schema is not there.
    pub(super) fn load() -> Option<Self> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/mcp-schema/2026-07-28/schema.json");
        match std::fs::read_to_string(path) {
            Ok(text) => Some(Self(serde_json::from_str(&text).unwrap())),
            Err(_) => {
                eprintln!("skipped: the official schema is not beside the checkout");
                None
            }
        }
    }

    /// The value must be a valid `name`.
    #[track_caller]
    pub(super) fn check(&self, name: &str, value: &Value) {
        let mut schema = self.0.clone();
        schema["$ref"] = format!("#/$defs/{name}").into();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let faults: Vec<String> =
            validator.iter_errors(value).map(|fault| format!("{} at {}", fault, fault.instance_path())).collect();
        assert!(faults.is_empty(), "{name}: {faults:?}\n{value:#}");
    }
}

#[tokio::test]
async fn every_kind_of_result_is_as_the_official_schema_says() {
    let Some(schema) = Official::load() else { return };
    let server = server();
    let complete =
        json!({"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "language", "value": ""}});
    for (name, call) in [
        ("DiscoverResult", Call::bare(Method::Discover)),
        ("ListToolsResult", Call::bare(Method::ToolsList)),
        ("ListResourcesResult", Call::bare(Method::ResourcesList)),
        ("ListResourceTemplatesResult", Call::bare(Method::TemplatesList)),
        ("ListPromptsResult", Call::bare(Method::PromptsList)),
        ("CallToolResult", tool("add", json!({"a": 1, "b": 2}))),
        ("CallToolResult", tool("add", json!({"a": 1}))),
        ("CallToolResult", tool("fail", json!({}))),
        ("ReadResourceResult", call(Method::ResourcesRead, json!({"uri": "demo://greeting"}))),
        ("GetPromptResult", call(Method::PromptsGet, json!({"name": "greet", "arguments": {"name": "x"}}))),
        ("CompleteResult", call(Method::Complete, complete)),
    ] {
        schema.check(name, &result(&server, call).await);
    }
}

#[tokio::test]
async fn notes_are_as_the_official_schema_says() {
    let Some(schema) = Official::load() else { return };
    let mut asking = tool("work", json!({}));
    asking.meta.progress_token = Some(RawJson::literal("7"));
    asking.meta.log_level = Some(LogLevel::Debug);
    let mut notes = Vec::new();
    server().answer(asking).outcome_with(|note| notes.push(note)).await;
    assert_eq!(notes.len(), 4);
    for note in notes {
        let name = if note.method == Method::Progress { "ProgressNotification" } else { "LoggingMessageNotification" };
        schema.check(name, &serde_json::from_slice(&note.to_bytes()).unwrap());
    }
}

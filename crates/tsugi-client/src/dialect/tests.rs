//! Names and arguments there and back again, against real catalogs.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tsugi_protocol::json::RawJson;
use tsugi_protocol::serve::{self, ToolOutput};
use tsugi_schema::dialect::SchemaDialect;

use crate::config::{ValidatePolicy, ValidationMode};
use crate::{ConnectTarget, Manager, ManagerOptions, ServerConfig};

/// A server whose tool gives back the arguments it got.
fn echo(name: &str, tool: &str, schema: Value) -> Arc<serve::InProcessServer> {
    let handler = |arguments: tsugi_protocol::json::JsonObject, _| async move {
        Ok(ToolOutput::structured(RawJson::from(json!({"got": arguments.raw().to::<Value>().unwrap()}))))
    };
    serve::InProcessServer::builder(name, "1").raw_tool(tool, "Gives back.", RawJson::from(schema), handler).build()
}

async fn manager() -> Manager {
    let manager = Manager::new(ManagerOptions::default());
    let schema = json!({
        "type": "object",
        "properties": {
            "user name": {"type": "string"},
            "limit": {"type": "integer", "minimum": 1},
            "filter": {"type": "object", "additionalProperties": {"type": "string"}},
        },
        "required": ["user name"],
        "additionalProperties": false,
    });
    for name in ["one", "two.more"] {
        let target = ConnectTarget::InProcess(echo(name, "get/users", schema.clone()));
        let mut config = ServerConfig::new(name, target);
        if name == "two.more" {
            config.validate = ValidatePolicy { arguments: ValidationMode::Off, results: ValidationMode::Off };
        }
        manager.register(config).unwrap();
    }
    assert!(manager.settled(Duration::from_secs(30)).await.is_empty());
    manager
}

/// The arguments as a model would write them in this dialect.
fn as_shown(manager: &Manager, dialect: SchemaDialect, name: &str, arguments: Value) -> Value {
    manager.tools_for(dialect).tool(name).unwrap().plan.show(arguments)
}

#[tokio::test]
async fn every_tool_can_be_called_back_in_every_dialect_with_the_arguments_it_takes() {
    let manager = manager().await;
    let meant = json!({"user name": "ann", "filter": {"a": "b"}});
    for dialect in SchemaDialect::ALL {
        let spoken = manager.tools_for(dialect);
        let mut names: Vec<&str> = spoken.tools().map(|(name, _)| name).collect();
        names.sort();
        assert_eq!(names, ["one__get_users", "two_more__get_users"], "{dialect:?}");
        for name in names {
            assert!(spoken.declarations.to_string().contains(name), "{dialect:?} {}", spoken.declarations);
            let shown = as_shown(&manager, dialect, name, meant.clone());
            let result = manager.call_from(dialect, name, shown).await;
            assert_eq!(result.data.unwrap_or_default()["got"], meant, "{dialect:?} {:?}", result.error);
            assert_eq!(result.metadata.tool, "get/users");
        }
    }
}

#[tokio::test]
async fn arguments_as_json_text_are_read() {
    let manager = manager().await;
    let shown = as_shown(&manager, SchemaDialect::OpenAi, "one__get_users", json!({"user name": "ann"}));
    let result = manager.call_from(SchemaDialect::OpenAi, "one__get_users", Value::String(shown.to_string())).await;
    assert!(result.success, "{:?}", result.error);
    let broken = manager.call_from(SchemaDialect::OpenAi, "one__get_users", json!("{\"a\":")).await;
    assert_eq!(broken.error.unwrap().code, "INVALID_PARAMS");
}

#[tokio::test]
async fn what_does_not_fit_the_tools_own_schema_is_refused_whatever_the_server_checks() {
    let manager = manager().await;
    for name in ["one__get_users", "two_more__get_users"] {
        let shown = as_shown(&manager, SchemaDialect::Gemini, name, json!({"user name": "ann", "limit": 0}));
        let error = manager.call_from(SchemaDialect::Gemini, name, shown).await.error.unwrap();
        assert_eq!(error.code, "INVALID_PARAMS", "{name}");
        assert!(error.message.contains("/limit: expected at least 1"), "{}", error.message);
    }
}

#[tokio::test]
async fn a_name_that_was_never_offered_is_not_found() {
    let manager = manager().await;
    let error = manager.call_from(SchemaDialect::Gemini, "one__get/users", json!({})).await.error.unwrap();
    assert_eq!(error.code, "TOOL_NOT_FOUND");
}

#[tokio::test]
async fn what_is_said_is_kept_until_a_catalog_changes() {
    let manager = manager().await;
    let first = manager.tools_for(SchemaDialect::Anthropic);
    assert!(Arc::ptr_eq(&first, &manager.tools_for(SchemaDialect::Anthropic)));
    let target = ConnectTarget::InProcess(echo("three", "x", json!({"type": "object"})));
    manager.register(ServerConfig::new("three", target)).unwrap().ready(Duration::from_secs(30)).await.unwrap();
    assert!(manager.tools_for(SchemaDialect::Anthropic).tool("three__x").is_some());
}

#[tokio::test]
async fn a_server_that_replaces_another_of_its_name_is_spoken_of_with_its_own_tools() {
    let manager = Manager::new(ManagerOptions::default());
    let target = |tool: &str| ConnectTarget::InProcess(echo("same", tool, json!({"type": "object"})));
    manager.register(ServerConfig::new("same", target("old"))).unwrap().ready(Duration::from_secs(30)).await.unwrap();
    assert!(manager.tools_for(SchemaDialect::OpenAi).tool("same__old").is_some());
    assert!(manager.remove("same").await);
    manager.register(ServerConfig::new("same", target("new"))).unwrap().ready(Duration::from_secs(30)).await.unwrap();
    let spoken = manager.tools_for(SchemaDialect::OpenAi);
    assert!(spoken.tool("same__old").is_none() && spoken.tool("same__new").is_some());
}

#[tokio::test]
async fn a_model_that_gives_no_arguments_means_none() {
    let manager = Manager::new(ManagerOptions::default());
    let target = ConnectTarget::InProcess(echo("one", "now", json!({"type": "object"})));
    manager.register(ServerConfig::new("one", target)).unwrap();
    assert!(manager.settled(Duration::from_secs(30)).await.is_empty());
    let execution = manager.tools_for(SchemaDialect::Gemini).read_call("one__now", Value::Null).unwrap();
    assert_eq!(execution.arguments.unwrap().to::<Value>().unwrap(), json!({}));
}

//! One client of the official SDK over either wire, in either era, that answers when it is asked.

use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationCapability,
    ErrorData, Implementation, ProgressNotificationParam, ProtocolVersion,
};
use rmcp::service::{NotificationContext, RequestContext, RunningService};
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt, RoleClient};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// Which era the client speaks.
#[derive(Clone, Copy)]
pub(crate) enum Era {
    Legacy,
    Modern,
}

impl Era {
    pub(crate) fn named(name: &str) -> Self {
        match name {
            "legacy" => Era::Legacy,
            "modern" => Era::Modern,
            other => panic!("no era is named {other}"),
        }
    }

    fn lifecycle(self) -> ClientLifecycleMode {
        match self {
            Era::Legacy => ClientLifecycleMode::Initialize,
            Era::Modern => ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] },
        }
    }
}

/// The user, and somebody who hears of progress.
pub(crate) struct User {
    era: Era,
    progress: mpsc::Sender<ProgressNotificationParam>,
}

impl ClientHandler for User {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = Some(ElicitationCapability::new());
        let mut config = ClientConfig::new(capabilities, Implementation::new("rmcp", "3"));
        if let Era::Legacy = self.era {
            config.protocol_version = ProtocolVersion::V_2025_11_25;
        }
        config
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        assert_eq!(value(&request)["message"], "Who are you?");
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(json!({"name": "Ann"})))
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.progress.send(params).await.ok();
    }
}

/// A connected client, with what it hears of progress.
pub(crate) struct Client {
    pub(crate) service: RunningService<RoleClient, User>,
    pub(crate) progress: mpsc::Receiver<ProgressNotificationParam>,
}

impl Client {
    /// Over HTTP.
    pub(crate) async fn of_url(url: &str, era: Era) -> Self {
        let (sender, progress) = mpsc::channel(64);
        let transport = StreamableHttpClientTransport::from_uri(url);
        let service = User { era, progress: sender }.serve_with_lifecycle(transport, era.lifecycle()).await.unwrap();
        Self { service, progress }
    }

    /// Over the standard streams of a program.
    pub(crate) async fn of_program(command: tokio::process::Command, era: Era) -> Self {
        let (sender, progress) = mpsc::channel(64);
        let transport = TokioChildProcess::new(command).unwrap();
        let service = User { era, progress: sender }.serve_with_lifecycle(transport, era.lifecycle()).await.unwrap();
        Self { service, progress }
    }

    /// The whole result of a tool.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Value {
        let params = json!({"name": tool, "arguments": arguments});
        value(&self.service.call_tool(typed(params)).await.unwrap())
    }

    /// The first text of a tool that must succeed.
    pub(crate) async fn said(&self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments).await;
        assert_ne!(result["isError"], true, "{result}");
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }
}

/// What the SDK gives, as it would be written.
pub(crate) fn value(given: &impl Serialize) -> Value {
    serde_json::to_value(given).unwrap()
}

/// What the SDK takes, from how it is written.
pub(crate) fn typed<T: DeserializeOwned>(written: Value) -> T {
    serde_json::from_value(written).unwrap()
}

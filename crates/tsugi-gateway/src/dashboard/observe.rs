//! What the dashboard may know of servers, no matter which part of the gateway keeps them.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use tokio::sync::broadcast;
use tsugi_protocol::answer::FaultDiagnosis;
use tsugi_protocol::json::RawJson;

/// The keeper of the servers, as the dashboard reads it.
pub trait ServerObserver: Send + Sync {
    /// How every server stands, in their order.
    fn states(&self) -> Vec<ServerState>;

    /// Everything about one server; `None` when there is no such server.
    fn detail(&self, name: &str) -> Option<ServerDetail>;

    /// The last lines of a server's standard error, over its restarts.
    fn stderr(&self, name: &str, lines: usize) -> Vec<String>;

    /// The same of its newest process alone, with the line that divides it from its predecessor.
    fn newest_stderr(&self, name: &str, lines: usize) -> Vec<String>;

    /// Follows a server's standard error, while it has a process.
    fn follow_stderr(&self, name: &str) -> Option<broadcast::Receiver<Arc<str>>>;

    /// The same value with every secret of a server's configuration masked.
    fn mask(&self, name: &str, value: Value) -> Value;

    /// Something is told whenever the state or the lists of a server have changed.
    fn changes(&self) -> tokio::sync::watch::Receiver<u64>;
}

/// How a server stands.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerState {
    /// Its name.
    pub name: String,
    /// `connected`, `reconnecting`, `failed`, ….
    pub state: &'static str,
    /// Why it is not as it should be, in words.
    pub reason: Option<String>,
    /// The same as `tsugi doctor` names it, where the cause was found out.
    pub diagnosis: Option<FaultDiagnosis>,
    /// `modern` or `legacy`, when connected.
    pub era: Option<&'static str>,
    /// The revision spoken, when connected.
    pub revision: Option<&'static str>,
    /// The wire.
    pub transport: &'static str,
    /// Since when it is connected, in milliseconds since 1970.
    pub started_at: Option<u64>,
    /// How often it was connected again after a failure.
    pub restarts: u32,
    /// Its process, if it has one.
    pub pid: Option<u32>,
    /// How many tools it offers.
    pub tools: usize,
    /// How many resources it offers.
    pub resources: usize,
    /// How many prompts it offers.
    pub prompts: usize,
    /// How well it is confined; nothing when it is no process of ours.
    pub sandbox: Option<&'static str>,
    /// What an operator should look at.
    #[serde(skip)]
    pub troubles: Vec<ServerTrouble>,
}

/// Something about a server that an operator should look at.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ServerTrouble {
    /// What kind: `failed`, `reconnecting`, `left-alone`, `list`, `names`, `sandbox`, `errors`.
    pub kind: &'static str,
    /// In words.
    pub text: String,
    /// The cause as `tsugi doctor` names it, where it was found out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diagnosis: Option<FaultDiagnosis>,
}

impl ServerTrouble {
    /// A trouble of a kind, in words.
    pub fn new(kind: &'static str, text: impl Into<String>) -> Self {
        Self { kind, text: text.into(), diagnosis: None }
    }
}

impl ServerState {
    /// The same without anything that the server printed: that is for those who run it.
    pub(crate) fn without_output(mut self) -> Self {
        let Some(diagnosis) = self.diagnosis.as_mut().filter(|diagnosis| diagnosis.quotation.is_some()) else {
            return self;
        };
        // The advice may name a path that was read from the output.
        (diagnosis.quotation, diagnosis.advice) = (None, String::new());
        let message = diagnosis.message.clone();
        for trouble in self.troubles.iter_mut().filter(|trouble| trouble.diagnosis.is_some()) {
            (trouble.text, trouble.diagnosis) = (message.clone(), self.diagnosis.clone());
        }
        self.reason = Some(message);
        self
    }
}

/// One server in full.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerDetail {
    /// How it stands.
    #[serde(skip)]
    pub state: ServerState,
    /// The name it gives itself.
    pub title: Option<String>,
    /// What it tells models.
    pub instructions: Option<String>,
    /// What it can do.
    pub capabilities: Option<RawJson>,
    /// Who it says it is.
    pub server_info: Option<RawJson>,
    /// Its living processes.
    pub processes: Vec<ObservedProcess>,
    /// What of its sandbox truly holds, part by part.
    pub sandbox_report: Option<Value>,
    /// The tools as it describes them.
    pub tools: Vec<NamedItem>,
    /// The resources as it describes them.
    pub resources: Vec<NamedItem>,
    /// The templates of resources as it describes them.
    pub templates: Vec<NamedItem>,
    /// The prompts as it describes them.
    pub prompts: Vec<NamedItem>,
}

/// One thing that a server offers, by the name or address under which permits know it.
#[derive(Debug, Clone, Serialize)]
#[serde(transparent)]
pub struct NamedItem {
    /// The name or address.
    #[serde(skip)]
    pub name: String,
    /// As the server describes it.
    pub shown: RawJson,
}

/// A living process.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObservedProcess {
    /// Its id.
    pub pid: u32,
    /// Its parent's id.
    pub parent: u32,
    /// Its command line, secrets masked.
    pub command: String,
    /// Memory it holds.
    pub rss_bytes: u64,
    /// Processor time it has used, in milliseconds.
    pub cpu_ms: u64,
}

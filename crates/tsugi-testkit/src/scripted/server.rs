//! What all turns of a scripted server share.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::message::{Request, SUBSCRIPTION_KEY, outgoing};
use super::output::Voice;
use crate::journal::Writer;
use crate::script::{Action, Rule, Script};

/// A scripted server.
pub(super) struct Server {
    pub(super) script: Script,
    pub(super) launch: u64,
    pub(super) journal: Writer,
    /// What `Exit` and `Signal` mean: the end of the process, or of a server in this process.
    pub(super) host: Host,
    /// Set by the tool `change`: one more tool is there.
    pub(super) has_extra: AtomicBool,
    /// Set by `CloseStdin`, and by scripts that ignore the end of the input.
    pub(super) outlives_input: AtomicBool,
    /// Set when the input has ended: whoever works stops.
    pub(super) is_closing: AtomicBool,
    /// Turns in threads of their own.
    pub(super) turns: AtomicU64,
    /// Set by `Freeze`.
    pub(super) is_frozen: AtomicBool,
    reached: Mutex<HashMap<usize, u64>>,
    asks: Mutex<HashMap<u64, Sender<Value>>>,
    next_ask: AtomicU64,
    cancelled: Mutex<HashSet<String>>,
    pub(super) sessions: Mutex<HashMap<String, Arc<Session>>>,
    listeners: Mutex<Vec<Listener>>,
}

/// Where a server lives.
pub(super) enum Host {
    /// In a process of its own.
    Process,
    /// In threads of a test; the flag ends it.
    Threads(Arc<AtomicBool>),
}

/// A legacy client, and the way to it outside of any request.
#[derive(Default)]
pub(super) struct Session {
    pub(super) id: String,
    pub(super) client: Mutex<Client>,
    pub(super) voice: Mutex<Option<Arc<dyn Voice>>>,
}

/// What a legacy client said of itself.
#[derive(Default, Clone)]
pub(super) struct Client {
    pub(super) version: Option<String>,
    pub(super) capabilities: Value,
    pub(super) watched: HashSet<String>,
}

struct Listener {
    id: Value,
    filter: Value,
    voice: Arc<dyn Voice>,
}

impl Server {
    /// A server that keeps its state in this folder.
    pub(super) fn new(script: &Script, folder: Option<&Path>, host: Host) -> Result<Self, String> {
        let journal = Writer::new(folder).map_err(|error| format!("no journal: {error}"))?;
        journal.write("launch", json!({"parent": std::os::unix::process::parent_id()}));
        let launch = journal.launch();
        let script = script.at_launch(launch)?;
        Ok(Self {
            outlives_input: AtomicBool::new(script.ignores_eof),
            script,
            launch,
            journal,
            host,
            has_extra: AtomicBool::new(false),
            is_closing: AtomicBool::new(false),
            turns: AtomicU64::new(0),
            is_frozen: AtomicBool::new(false),
            reached: Mutex::default(),
            asks: Mutex::default(),
            next_ask: AtomicU64::new(1),
            cancelled: Mutex::default(),
            sessions: Mutex::default(),
            listeners: Mutex::default(),
        })
    }

    /// What is to be done at this point. Asking counts: each point is reached once for each time it is asked.
    pub(super) fn actions_at(&self, point: &str, tool: Option<&str>, after: bool) -> Vec<Action> {
        let mut actions = Vec::new();
        for (index, rule) in self.script.rules.iter().enumerate() {
            if self.is_at(rule, point, tool, after) && self.is_due(index, rule) {
                actions.extend(rule.actions.iter().cloned());
            }
        }
        actions
    }

    fn is_at(&self, rule: &Rule, point: &str, tool: Option<&str>, after: bool) -> bool {
        let is_request = !matches!(point, "start" | "eof" | "GET" | "DELETE") && !point.starts_with("notifications/");
        (rule.on == point || (rule.on == "*" && is_request))
            && rule.after == after
            && (rule.tool.is_none() || rule.tool.as_deref() == tool)
            && rule.launch.is_none_or(|launch| launch == self.launch)
    }

    fn is_due(&self, index: usize, rule: &Rule) -> bool {
        let mut reached = self.reached.lock();
        let count = reached.entry(index).or_default();
        *count += 1;
        rule.nth.is_none_or(|nth| nth == *count) && rule.every.is_none_or(|every| count.is_multiple_of(every.max(1)))
    }

    /// True when something will be done at this point, so that the turn must not hold up others.
    pub(super) fn has_rule_for(&self, request: &Request) -> bool {
        self.script.rules.iter().any(|rule| rule.on == request.method || rule.on == "*")
    }

    /// The number of a question and where its answer will come.
    pub(super) fn new_ask(&self) -> (u64, Receiver<Value>) {
        let id = self.next_ask.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = channel();
        self.asks.lock().insert(id, sender);
        (id, receiver)
    }

    /// A response of the client.
    pub(super) fn told(&self, message: &Value) {
        self.journal.write("told", message.clone());
        let sender = message["id"].as_u64().and_then(|id| self.asks.lock().remove(&id));
        if let Some(sender) = sender {
            sender.send(message.clone()).ok();
        }
    }

    /// Withdraws all open questions: tells of each by its number, and then those who wait for its answer.
    pub(super) fn withdraw_asks(&self, tell: impl Fn(u64)) {
        let asks: Vec<(u64, Sender<Value>)> = self.asks.lock().drain().collect();
        for (id, sender) in asks {
            tell(id);
            sender.send(json!({"result": "withdrawn"})).ok();
        }
    }

    /// The client gives up on a request.
    pub(super) fn cancel(&self, id: &Value) {
        self.journal.write("cancelled", id.clone());
        self.cancelled.lock().insert(id.to_string());
        self.listeners.lock().retain(|listener| listener.id != *id);
    }

    pub(super) fn is_cancelled(&self, id: &Value) -> bool {
        self.cancelled.lock().contains(&id.to_string())
    }

    /// Opens a modern subscription.
    pub(super) fn listen(&self, id: &Value, filter: Value, voice: Arc<dyn Voice>) {
        let params = json!({"notifications": filter, "_meta": {SUBSCRIPTION_KEY: id}});
        voice.note(&outgoing(None, "notifications/subscriptions/acknowledged", &params));
        self.listeners.lock().push(Listener { id: id.clone(), filter, voice });
    }

    /// Tells everyone who wants to know that something changed: a list by name, or a resource by address.
    pub(super) fn announce(&self, what: &str) {
        let (method, params) = match what {
            "tools" | "prompts" | "resources" => (format!("notifications/{what}/list_changed"), json!({})),
            uri => ("notifications/resources/updated".to_owned(), json!({"uri": uri})),
        };
        for session in self.sessions.lock().values() {
            let wants = method.ends_with("list_changed") || session.client.lock().watched.contains(what);
            if let Some(voice) = session.voice.lock().as_ref().filter(|_| wants) {
                voice.note(&outgoing(None, &method, &params));
            }
        }
        self.announce_to_listeners(what, &method, params);
    }

    fn announce_to_listeners(&self, what: &str, method: &str, mut params: Value) {
        let mut listeners = self.listeners.lock();
        listeners.retain(|listener| !listener.voice.is_gone());
        for listener in listeners.iter().filter(|listener| wants(&listener.filter, what)) {
            params["_meta"] = json!({SUBSCRIPTION_KEY: listener.id});
            listener.voice.note(&outgoing(None, method, &params));
        }
    }
}

fn wants(filter: &Value, what: &str) -> bool {
    match what {
        "tools" | "prompts" | "resources" => filter[format!("{what}ListChanged")] == true,
        uri => filter["resourceSubscriptions"].as_array().is_some_and(|uris| uris.iter().any(|known| known == uri)),
    }
}

//! A server in this process that answers one call as it is told and keeps what it was asked, with a wire or without.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tsugi_client::ConnectTarget;
use tsugi_client::config::LinkSource;
use tsugi_protocol::answer::{Answer, Call, CallNote, CallParts, Outcome, Reply};
use tsugi_protocol::json::JsonObject;
use tsugi_protocol::mcp::Method;
use tsugi_protocol::rpc::RpcError;
use tsugi_transport::link::{Inbox, Link, Outbox};

use super::generate::{Ending, Exchange, object_text};
use super::{object, raw, written};

const QUEUE: usize = 64;
const CAPABILITIES: &str = r#""capabilities":{"tools":{},"prompts":{},"resources":{},"completions":{}}"#;
const FRESHNESS: &str = r#""resultType":"complete","ttlMs":0,"cacheScope":"private""#;

/// How the server is reached and what it speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Legacy,
    Modern,
    InProcess,
}

impl Kind {
    /// The members of a result as this kind writes them.
    pub(super) fn result(self, members: &[String]) -> Vec<String> {
        let kind = (self != Kind::Legacy).then(|| r#""resultType":"complete""#.to_owned());
        kind.into_iter().chain(members.iter().cloned()).collect()
    }
}

/// The server.
pub(super) struct Mirror {
    kind: Kind,
    exchange: Exchange,
    received: Mutex<Option<(JsonObject, JsonObject)>>,
}

/// What the mirror says to a request.
enum Answered {
    Result(String),
    Error(String),
}

impl Mirror {
    pub(super) fn new(kind: Kind, exchange: Exchange) -> Self {
        Self { kind, exchange, received: Mutex::default() }
    }

    /// The parameters and the `_meta` of the one call.
    pub(super) fn received(&self) -> (JsonObject, JsonObject) {
        self.received.lock().clone().expect("the call arrived")
    }

    pub(super) fn target(self: &Arc<Self>) -> ConnectTarget {
        if self.kind == Kind::InProcess {
            return ConnectTarget::InProcess(self.clone());
        }
        let mirror = self.clone();
        ConnectTarget::Link(LinkSource::new(move || mirror.clone().connect()))
    }

    fn connect(self: Arc<Self>) -> Link {
        let (to_server, mut from_client) = mpsc::channel::<Bytes>(QUEUE);
        let (to_client, from_server) = mpsc::channel(QUEUE);
        tokio::spawn(async move {
            while let Some(message) = from_client.recv().await {
                for answer in self.hear(&JsonObject::parse(message).unwrap()) {
                    to_client.send(Ok(answer.into())).await.ok();
                }
            }
        });
        Link { outbox: Outbox::Queue(to_server), inbox: Inbox::Queue(from_server), job: None }
    }

    /// What is written in answer to a message.
    fn hear(&self, message: &JsonObject) -> Vec<String> {
        let Some(id) = message.get("id") else { return Vec::new() };
        let method = message.get_str("method").expect("only requests have an id here").into_owned();
        let params = message.get_object("params").unwrap_or_else(JsonObject::empty);
        let mut lines = Vec::new();
        if method == self.exchange.method {
            let meta = params.get_object("_meta").expect("a progress token was sent");
            let token = written(meta.get_bytes("progressToken").expect("a progress token was sent"));
            lines.extend(self.exchange.notes.iter().map(|note| {
                let params = noted(&token, note);
                format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{params}}}"#)
            }));
            *self.received.lock() = Some((params, meta));
        }
        let ending = match self.say(&method) {
            Answered::Result(result) => format!("\"result\":{result}"),
            Answered::Error(error) => format!("\"error\":{error}"),
        };
        lines.push(format!(r#"{{"jsonrpc":"2.0","id":{},{ending}}}"#, id.as_str()));
        lines
    }

    fn say(&self, method: &str) -> Answered {
        let about = r#""serverInfo":{"name":"mirror","version":"1","x-info":1.0}"#;
        let list = |key: &str, items: &str| match self.kind {
            Kind::Legacy => Answered::Result(format!("{{\"{key}\":[{items}]}}")),
            _ => Answered::Result(format!("{{{FRESHNESS},\"{key}\":[{items}]}}")),
        };
        match method {
            "server/discover" if self.kind == Kind::Legacy => {
                Answered::Error(r#"{"code":-32601,"message":"?"}"#.into())
            }
            "server/discover" => {
                let versions = r#""supportedVersions":["2026-07-28"]"#;
                Answered::Result(format!("{{{FRESHNESS},{versions},{CAPABILITIES}}}"))
            }
            "initialize" => Answered::Result(format!("{{\"protocolVersion\":\"2025-11-25\",{CAPABILITIES},{about}}}")),
            "tools/list" => list("tools", &object_text(self.exchange.tool.clone())),
            "prompts/list" => list("prompts", ""),
            "resources/list" => list("resources", ""),
            "resources/templates/list" => list("resourceTemplates", ""),
            method if method == self.exchange.method => self.ending(),
            other => panic!("nobody expects {other}"),
        }
    }

    fn ending(&self) -> Answered {
        match &self.exchange.ending {
            Ending::Result(members) => Answered::Result(object_text(self.kind.result(members))),
            Ending::Error(members) => Answered::Error(object_text(members.clone())),
        }
    }
}

/// The parameters of a note under this token.
fn noted(token: &str, members: &[String]) -> String {
    let token = format!("\"progressToken\":{token}");
    object_text(std::iter::once(token).chain(members.iter().cloned()).collect())
}

impl Answer for Mirror {
    /// Without a wire.
    fn answer(&self, call: Call) -> Reply {
        let outcome = match self.say(&call.method.to_string()) {
            Answered::Result(result) => Outcome::complete(object(&result)),
            Answered::Error(error) => Outcome::error(RpcError::from_raw(&raw(&error)).unwrap()),
        };
        if call.method != Method::from(self.exchange.method) {
            return Reply::ready(outcome);
        }
        let CallParts { params, meta, .. } = call.into_parts();
        let token = meta.progress_token.expect("a progress token was sent");
        *self.received.lock() = Some((params, meta.rest));
        let params = self.exchange.notes.iter().map(|note| raw(&noted(token.as_str(), note)));
        let noted: Vec<CallNote> = params.map(|params| CallNote::new(Method::Progress, Some(params))).collect();
        Reply::from_noted_future(|notes| async move {
            noted.into_iter().for_each(|note| notes.push(note));
            outcome
        })
    }
}

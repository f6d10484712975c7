//! A client that does everything wrong, so that every fault test can be seen to fail.
//!
//! What it does wrong, on purpose: it waits for ever; it takes the next response for the answer, whoever it was
//! meant for; it gives up on the first line that is no JSON, and on one byte that is no UTF-8; it reads lines,
//! pages and bodies without limit; it never reads stderr; it starts a dead server again at once and sends the
//! call a second time; it never tells a server that a call was abandoned; it leaves its child and all
//! grandchildren behind; it follows every redirect with all its headers; it lets one slow call hold up all; it
//! reads nothing while it writes.

mod exchange;
mod pipe;

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tsugi_protocol::answer::{Answer, Call, Fault, FaultCode, Outcome, Reply};
use tsugi_protocol::json::{JsonObject, RawJson};
use tsugi_protocol::rpc::RpcError;

use crate::scripted::Scripted;
use exchange::Exchange;
use pipe::{Pipe, Vice};

/// The careless control. Cheap to clone; an [`Answer`] like anything else, so that a test can take it instead of
/// the code under test.
#[derive(Clone)]
pub struct Careless(Arc<Inner>);

struct Inner {
    wire: Mutex<Wire>,
    is_modern: bool,
}

enum Wire {
    Stdio(Pipe),
    Http(Exchange),
}

impl Careless {
    /// A legacy client of a command.
    pub fn stdio(program: PathBuf, args: Vec<String>, env: Vec<(String, String)>) -> Self {
        Self::new(Wire::Stdio(Pipe::new(program, args, env)))
    }

    /// A legacy client of a scripted server.
    pub fn scripted(server: &Scripted) -> Self {
        Self::stdio(server.program(), server.args(), server.env())
    }

    /// A legacy client of an `http` address.
    pub fn http(url: &str) -> Self {
        Self::new(Wire::Http(Exchange::new(url)))
    }

    fn new(wire: Wire) -> Self {
        Self(Arc::new(Inner { wire: Mutex::new(wire), is_modern: false }))
    }

    /// The same client in the modern era.
    pub fn modern(self) -> Self {
        let inner = Arc::into_inner(self.0).expect("a client is made modern before it is shared");
        Self(Arc::new(Inner { is_modern: true, ..inner }))
    }

    /// The same client of a command, which never starts it again.
    pub fn giving_up(self) -> Self {
        self.with_vice(Vice::GivesUp)
    }

    /// The same client of a command, which keeps all notifications for somebody who never looks at them.
    pub fn queueing(self) -> Self {
        self.with_vice(Vice::queueing())
    }

    fn with_vice(self, vice: Vice) -> Self {
        if let Wire::Stdio(pipe) = &mut *self.0.wire.lock() {
            pipe.set_vice(vice);
        }
        self
    }

    /// Asks and waits for ever.
    pub fn request(&self, method: &str, params: Value) -> Result<Value, String> {
        let mut params = params;
        if self.0.is_modern {
            params["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {}});
        }
        let handshake = !self.0.is_modern;
        let response = match &mut *self.0.wire.lock() {
            Wire::Stdio(pipe) => pipe.request(method, &params, handshake)?,
            Wire::Http(exchange) => exchange.request(method, &params, handshake)?,
        };
        match response.get("result") {
            Some(result) => Ok(result.clone()),
            None => Err(response["error"].to_string()),
        }
    }

    /// Calls a tool.
    pub fn call(&self, tool: &str, arguments: Value) -> Result<Value, String> {
        self.request("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// Calls tools of a command: writes all calls, and only then reads the answers.
    pub fn burst(&self, calls: &[(&str, Value)]) -> Result<Vec<Value>, String> {
        match &mut *self.0.wire.lock() {
            Wire::Stdio(pipe) => pipe.burst(calls),
            Wire::Http(_) => Err("only a command reads and writes side by side".into()),
        }
    }

    /// All tools of all pages, however many.
    pub fn tools(&self) -> Result<Vec<Value>, String> {
        let mut tools = Vec::new();
        let mut params = json!({});
        loop {
            let page = self.request("tools/list", params)?;
            tools.extend(page["tools"].as_array().cloned().unwrap_or_default());
            match page.get("nextCursor") {
                None => return Ok(tools),
                Some(cursor) => params = json!({"cursor": cursor}),
            }
        }
    }
}

impl Answer for Careless {
    /// Starts a thread that nobody waits for. Dropping the reply changes nothing.
    fn answer(&self, call: Call) -> Reply {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let client = self.clone();
        std::thread::spawn(move || {
            let params = call.params.raw().to().unwrap_or_default();
            sender.send(client.request(call.method.as_str(), params)).ok();
        });
        Reply::from_future(async move { outcome(receiver.await.unwrap_or_else(|_| Err("the thread broke".into()))) })
    }
}

fn outcome(result: Result<Value, String>) -> Outcome {
    match result {
        Ok(result) => Outcome::complete(JsonObject::from(result)),
        Err(text) => {
            match serde_json::from_str::<Value>(&text).ok().and_then(|error| RpcError::from_raw(&RawJson::from(error)))
            {
                Some(error) => Outcome::error(error),
                None => Outcome::fault(Fault::new(FaultCode::ExecutionFailed, text)),
            }
        }
    }
}

impl std::fmt::Debug for Careless {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Careless")
    }
}

/// The parameters of `initialize`.
fn hello() -> Value {
    let capabilities = json!({"elicitation": {}, "sampling": {}, "roots": {}});
    json!({"protocolVersion": "2025-06-18", "capabilities": capabilities, "clientInfo": {"name": "careless", "version": "0"}})
}

/// A message; a notification when it has no id.
fn message(id: Option<u64>, method: &str, params: &Value) -> String {
    let mut message = json!({"jsonrpc": "2.0", "method": method, "params": params});
    if let Some(id) = id {
        message["id"] = id.into();
    }
    message.to_string()
}

//! A gateway that does everything wrong, so that every check can be seen to fail.
//!
//! What it does wrong, on purpose: it believes every `Host`, `Origin`, header and content type; it reads heads and
//! bodies without limit; it answers what it cannot read with a web page; it keeps calls in one table by the id that
//! the client gave them; it ends (or never ends) calls when their client leaves, whatever the era; its session ids
//! can be guessed, belong to nobody and are never forgotten; it takes batches of any length, and as many calls at once
//! as come; it takes what a server says though nobody reads it, and tells listeners nothing; it asks for no key, hides
//! nothing and passes on whatever state a call brings; of a name that stands twice it takes the last; one panic breaks
//! it for good; it stops by going away.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tsugi_protocol::answer::{Answer, Call, Outcome};
use tsugi_protocol::json::JsonObject;
use tsugi_protocol::mcp::Method;

/// What it does when a client leaves in mid-call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Goes on for nobody.
    Ignores,
    /// Ends the call.
    Cancels,
}

/// The control. Dropping it ends it.
pub(crate) struct Careless {
    pub(crate) address: SocketAddr,
    accepting: AbortHandle,
}

impl Drop for Careless {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

struct State {
    answer: Arc<dyn Answer>,
    manner: Manner,
    /// Who waits, by the id that the client gave: the newest wins.
    waiting: Mutex<HashMap<String, (oneshot::Sender<Value>, AbortHandle)>>,
    sessions: Mutex<Vec<String>>,
}

impl Careless {
    pub(crate) async fn start(answer: Arc<dyn Answer>, manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State { answer, manner, waiting: Mutex::default(), sessions: Mutex::default() });
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(state.clone(), stream));
            }
        });
        Self { address, accepting: accepting.abort_handle() }
    }
}

/// One request per connection.
async fn serve(state: Arc<State>, mut stream: TcpStream) -> std::io::Result<()> {
    let mut read = Vec::new();
    let head_end = loop {
        if let Some(at) = read.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(&mut read).await? == 0 {
            return Ok(());
        }
    };
    let head = String::from_utf8_lossy(&read[..head_end]).to_lowercase();
    let header = |name: &str| head.lines().filter_map(|line| line.split_once(": ")).find(|(key, _)| *key == name);
    let length: usize = header("content-length").and_then(|(_, length)| length.trim().parse().ok()).unwrap_or(0);
    while read.len() < head_end + length {
        if stream.read_buf(&mut read).await? == 0 {
            return Ok(());
        }
    }
    let body = read[head_end..].to_vec();
    let answered = answer(&state, &body, &mut stream).await;
    stream.write_all(answered.as_bytes()).await
}

async fn answer(state: &Arc<State>, body: &[u8], stream: &mut TcpStream) -> String {
    match serde_json::from_slice::<Value>(body) {
        Ok(Value::Array(messages)) => {
            let mut answers = Vec::new();
            for message in messages {
                answers.push(state.message(message, stream).await);
            }
            response(&json!(answers))
        }
        Ok(message) => {
            let is_first = message["method"] == "initialize";
            let answered = state.message(message, stream).await;
            match is_first {
                true => {
                    response(&answered).replacen("\r\n", &format!("\r\nmcp-session-id: {}\r\n", state.session()), 1)
                }
                false => response(&answered),
            }
        }
        Err(error) => format!("HTTP/1.1 500 Oops\r\ncontent-type: text/html\r\n\r\n<h1>{error}</h1>"),
    }
}

fn response(body: &Value) -> String {
    let body = body.to_string();
    format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

impl State {
    fn session(&self) -> String {
        let mut sessions = self.sessions.lock().unwrap();
        let id = format!("session-{}", sessions.len());
        sessions.push(id.clone());
        id
    }

    async fn message(self: &Arc<Self>, message: Value, stream: &mut TcpStream) -> Value {
        if message["method"] == "notifications/cancelled" {
            let cancelled = self.waiting.lock().unwrap().remove(&message["params"]["requestId"].to_string());
            if let Some((_, call)) = cancelled {
                call.abort();
            }
            return json!({});
        }
        let id = message["id"].clone();
        let (sender, receiver) = oneshot::channel();
        let call = tokio::spawn(self.clone().call(id.to_string(), message));
        self.waiting.lock().unwrap().insert(id.to_string(), (sender, call.abort_handle()));
        let mut byte = [0];
        let result = tokio::select! {
            result = receiver => result,
            _ = stream.read(&mut byte), if self.manner == Manner::Cancels => {
                call.abort();
                return json!({});
            }
        };
        match result {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            // Somebody else took the place in the table.
            Err(_) => std::future::pending().await,
        }
    }

    async fn call(self: Arc<Self>, id: String, message: Value) {
        let method = Method::from(message["method"].as_str().unwrap_or_default());
        let call = Call::new(method, JsonObject::from(json!(message["params"])));
        let mut reply = {
            // A panic in here poisons the table for everybody.
            let _table = self.waiting.lock().unwrap();
            self.answer.answer(call)
        };
        let outcome = loop {
            // It takes whatever the server says, whether anybody reads it or not, and forgets it.
            tokio::task::yield_now().await;
            if let tsugi_protocol::answer::ReplyEvent::Done(outcome) = reply.next().await {
                break outcome;
            }
        };
        let result = match outcome {
            Outcome::Complete(complete) => complete.body.raw().to().unwrap_or_default(),
            Outcome::InputRequired(input) => json!({"resultType": "input_required", "requestState": input.state}),
            _ => Value::Null,
        };
        if let Some((sender, _)) = self.waiting.lock().unwrap().remove(&id) {
            let _ = sender.send(result);
        }
    }
}

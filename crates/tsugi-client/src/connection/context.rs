//! What all connections of one server share: its name, the parked calls, and where changes are told.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tsugi_protocol::answer::{Call, Fault, FaultCode, InputRequired, Outcome, Reply};
use tsugi_protocol::era::round_trip;
use tsugi_protocol::json::Object;
use tsugi_protocol::mcp::Method;
use tsugi_protocol::mcp::input::Question;
use tsugi_protocol::rpc::{Notification, Request, Response, RpcError, code};

use super::parked::{Parked, ParkedCall, Resume};
use crate::config::Options;
use crate::seal::Held;

/// Something a server told outside any call.
#[derive(Debug, Clone)]
pub(crate) enum Notice {
    /// Its tools changed.
    Tools,
    /// Its prompts changed.
    Prompts,
    /// Its resources changed.
    Resources,
    /// One resource changed.
    Updated(String),
    /// It forgot our session and has a new one: what it was asked to tell is forgotten too.
    Renewed,
}

impl Notice {
    /// What a notification tells, when it is a change.
    pub(crate) fn of(notification: &Notification) -> Option<Self> {
        Some(match notification.method {
            Method::ToolsChanged => Notice::Tools,
            Method::PromptsChanged => Notice::Prompts,
            Method::ResourcesChanged => Notice::Resources,
            Method::ResourceUpdated => Notice::Updated(notification.params_object().get_str("uri")?.into_owned()),
            _ => return None,
        })
    }
}

/// Shared by the connections that follow each other to one server.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) server: Arc<str>,
    pub(crate) options: Arc<Options>,
    pub(crate) parked: Parked,
    pub(crate) notices: mpsc::Sender<Notice>,
    pub(crate) noise: Noise,
}

/// How many lines of noise are kept, and how much of each.
const NOISE_LINES: usize = 5;
const NOISE_BYTES: usize = 200;

/// The first lines on the server's output that are no messages: banners, logs, stack traces. Most clients break
/// on them, so whoever looks for a fault wants to see them.
#[derive(Debug, Default)]
pub(crate) struct Noise(Mutex<Vec<String>>);

impl Noise {
    /// Keeps a line, if there is room.
    pub(crate) fn add(&self, line: &[u8]) {
        let text = String::from_utf8_lossy(&line[..line.len().min(NOISE_BYTES)]).trim().to_owned();
        let mut lines = self.0.lock();
        if lines.len() < NOISE_LINES && !text.is_empty() && !lines.contains(&text) {
            lines.push(text);
        }
    }

    /// What was kept.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.lock().clone()
    }
}

impl Context {
    /// A fault about this server.
    pub(crate) fn fault(&self, code: FaultCode, message: impl Into<String>) -> Fault {
        Fault::new(code, message).on_server(&self.server)
    }

    /// Passes a change on. When the queue is full a change of the same kind is almost surely in it.
    pub(crate) fn tell(&self, notice: Notice) {
        let _ = self.notices.try_send(notice);
    }

    /// A legacy server's question as one that this call's client can be asked; the refusal to send back otherwise.
    pub(crate) fn admit(&self, call: &Call, request: &Request) -> Result<Question, Response> {
        let refuse = |error| Response::error(Some(request.id.clone()), error);
        let Some(question) = round_trip::question(request) else {
            return Err(refuse(RpcError::new(code::METHOD_NOT_FOUND, "method not found")));
        };
        let lacking = call.meta.client.capabilities.lacks_for(&question.method, Some(&question.params_object()));
        match lacking {
            None => Ok(question),
            Some(_) => Err(refuse(RpcError::new(
                code::METHOD_NOT_FOUND,
                &format!("the caller of this tool does not support {}", question.method),
            ))),
        }
    }

    /// Ends a call's turn with a question: what remains of the call is kept, and the caller gets the
    /// question with a sealed state that only it can bring back.
    pub(crate) fn park(&self, call: &Call, request: Request, question: Question, rest: Box<dyn Resume>) -> Outcome {
        let lifetime = self.options.input_lifetime;
        let parked = ParkedCall::new(request, question.clone(), rest, lifetime);
        let Some(number) = self.parked.insert(parked) else {
            return Outcome::fault(self.fault(FaultCode::Overloaded, "too many calls wait for input"));
        };
        self.ask(call, &question, number)
    }

    fn ask(&self, call: &Call, question: &Question, number: u64) -> Outcome {
        let state = self.options.sealer.seal(&self.server, call, Held::Parked(number), self.options.input_lifetime);
        let asked = InputRequired::one(&question.key, &question.method, question.params.as_ref(), Some(state));
        Outcome::InputRequired(asked)
    }

    /// A modern server's questions with its state sealed, so that nobody else can bring it back.
    pub(crate) fn seal_state(&self, call: &Call, mut asked: InputRequired) -> InputRequired {
        let lifetime = self.options.input_lifetime;
        asked.state =
            asked.state.map(|state| self.options.sealer.seal(&self.server, call, Held::State(state), lifetime));
        asked
    }

    /// Takes up a call that brings state back: either it goes on where it was parked, or it is to be sent
    /// with the server's own state.
    pub(crate) fn take_up(&self, call: Call) -> Result<Call, Reply> {
        let Some(state) = call.params.get_str("requestState").map(|state| state.into_owned()) else {
            return Ok(call);
        };
        match self.options.sealer.open(&self.server, &call, &state) {
            Ok(Held::State(state)) => {
                let responses = call.params.get("inputResponses");
                Ok(call.retry_with(responses.as_ref(), Some(&state)))
            }
            Ok(Held::Parked(number)) => Err(self.resume(&call, number)),
            Err(rejection) => Err(Reply::fault(self.fault(FaultCode::StateRejected, rejection.to_string()))),
        }
    }

    fn resume(&self, call: &Call, number: u64) -> Reply {
        let Some(parked) = self.parked.take(number) else {
            return Reply::fault(self.fault(FaultCode::StateRejected, "the call no longer waits for input"));
        };
        let responses = call.params.get_object("inputResponses").unwrap_or_else(Object::empty);
        let answer = responses.get(&parked.question.key);
        if answer.is_none() && parked.is_waiting() {
            // Something is missing: the specification says to ask again rather than to fail.
            let question = parked.question.clone();
            return match self.parked.insert(parked) {
                Some(number) => Reply::ready(self.ask(call, &question, number)),
                None => Reply::fault(self.fault(FaultCode::Overloaded, "too many calls wait for input")),
            };
        }
        parked.resume(answer)
    }
}

//! What all connections of one server share: its name, the parked calls, and where changes are told.

use std::sync::Arc;

use parking_lot::Mutex;
use tsugi_protocol::answer::{
    Call, CallFailure, CallStage, Fault, FaultCode, InputRequired, Outcome, Reply, SentState,
};
use tsugi_protocol::era::round_trip;
use tsugi_protocol::json::{JsonObject, RawJson};
use tsugi_protocol::mcp::input::Question;
use tsugi_protocol::mcp::{Era, tool};
use tsugi_protocol::rpc::{RpcError, RpcRequest, RpcResponse, code};

use super::notice::{NoticeInbox, ServerNotice};
use super::parked::{OpenQuestion, ParkedCall, ParkedCalls, ParkedRest};
use crate::config::ManagerOptions;
use crate::layer::deadline::DeadlineLimits;
use crate::seal::SealedState;

/// Shared by the connections that follow each other to one server.
#[derive(Debug)]
pub(crate) struct ConnectionContext {
    pub(crate) server: Arc<str>,
    pub(crate) options: Arc<ManagerOptions>,
    /// How long calls may take.
    pub(crate) limits: DeadlineLimits,
    pub(crate) parked: ParkedCalls,
    pub(crate) notices: Arc<NoticeInbox>,
    pub(crate) noise: OutputNoise,
    /// What the only caller of these connections said of its roots when they changed; `None` before it did, and where
    /// callers share them.
    pub(crate) roots: Mutex<Option<RawJson>>,
}

/// Why a question is not put to a caller.
pub(crate) struct QuestionRefusal {
    /// What the server hears.
    pub(crate) response: RpcResponse,
    /// The capability that the caller would need.
    pub(crate) lacking: Option<RawJson>,
}

/// What a server says about a call that failed.
fn failure_of(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Failed(CallFailure::Upstream(error)) => Some(error.message()),
        Outcome::Complete(complete) if complete.is_tool_error() => Some(tool::result::failure(&complete.body)),
        _ => None,
    }
}

/// How many lines of noise are kept, and how much of each.
const NOISE_LINES: usize = 5;
const NOISE_BYTES: usize = 200;

/// The first lines on the server's output that are no messages: banners, logs, stack traces. Most clients break
/// on them, so whoever looks for a fault wants to see them.
#[derive(Debug, Default)]
pub(crate) struct OutputNoise(Mutex<Vec<String>>);

impl OutputNoise {
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

impl ConnectionContext {
    /// A fault about this server.
    pub(crate) fn fault(&self, code: FaultCode, message: impl Into<String>) -> Fault {
        Fault::new(code, message).on_server(&self.server)
    }

    /// The answer to a question for roots that belongs to no call.
    pub(crate) fn roots(&self) -> RawJson {
        let told = self.roots.lock().clone();
        told.or_else(|| self.options.roots.clone()).unwrap_or_else(|| RawJson::literal(r#"{"roots":[]}"#))
    }

    /// Passes a change on.
    pub(crate) fn publish(&self, notice: ServerNotice) {
        self.notices.publish(notice);
    }

    /// A legacy server's question as one that this call's client can be asked; the refusal to send back otherwise.
    pub(crate) fn admit(&self, call: &Call, request: &RpcRequest) -> Result<Question, QuestionRefusal> {
        let refuse = |message: &str, lacking| {
            let error = RpcError::new(code::METHOD_NOT_FOUND, message);
            Err(QuestionRefusal { response: RpcResponse::error(Some(request.id.clone()), error), lacking })
        };
        let Some(question) = round_trip::question(request) else { return refuse("method not found", None) };
        match call.meta.client.capabilities.missing_for(&question.method, Some(&question.params_object())) {
            None => Ok(question),
            lacking => refuse(&format!("the caller of this tool does not support {}", question.method), lacking),
        }
    }

    /// The end of a call whose server was refused a question. A server that went on without the answer did not need it.
    /// One that failed did, and a modern client hears so in the words of the specification
    /// ([Capabilities](https://modelcontextprotocol.io/specification/2026-07-28/basic#capabilities)); a legacy client
    /// hears what it would hear from the server itself.
    pub(crate) fn explain_lacking(&self, call: &Call, lacking: Option<&RawJson>, outcome: Outcome) -> Outcome {
        let Some(needed) = lacking.filter(|_| call.meta.client.version.era() == Era::Modern) else { return outcome };
        let Some(said) = failure_of(&outcome) else { return outcome };
        let message = format!("the server needs what this client did not declare: {said}");
        let fault = self.fault(FaultCode::MissingCapability, message).with_details(needed.clone());
        Outcome::fault(fault.at(CallStage::Call).sent(SentState::Failed))
    }

    /// Ends a call's turn with its questions: what remains of the call is kept, and the caller gets the
    /// questions with a sealed state that only it can bring back.
    pub(crate) fn park(&self, call: &Call, asked: Vec<OpenQuestion>, rest: Box<dyn ParkedRest>) -> Outcome {
        self.keep(call, ParkedCall::new(asked, rest, self.options.input_lifetime))
    }

    fn keep(&self, call: &Call, parked: ParkedCall) -> Outcome {
        let mut asked = InputRequired::of(parked.questions(), None);
        let Some(number) = self.parked.insert(parked) else {
            return Outcome::fault(self.fault(FaultCode::Overloaded, "too many calls wait for input"));
        };
        let lifetime = self.options.input_lifetime;
        asked.state = Some(self.options.sealer.seal(&self.server, call, SealedState::Parked(number), lifetime));
        Outcome::InputRequired(asked)
    }

    /// A modern server's questions with its state sealed, so that nobody else can bring it back.
    pub(crate) fn seal_state(&self, call: &Call, mut asked: InputRequired) -> InputRequired {
        let lifetime = self.options.input_lifetime;
        asked.state =
            asked.state.map(|state| self.options.sealer.seal(&self.server, call, SealedState::State(state), lifetime));
        asked
    }

    /// Takes up a call that brings state back: either it goes on where it was parked, or it is to be sent
    /// with the server's own state.
    pub(crate) fn resume_or_pass(&self, call: Call) -> Result<Call, Reply> {
        let Some(state) = call.params.get_str("requestState").map(|state| state.into_owned()) else {
            return Ok(call);
        };
        match self.options.sealer.open(&self.server, &call, &state) {
            Ok(SealedState::State(state)) => {
                let responses = call.params.get("inputResponses");
                Ok(call.retry_with(responses.as_ref(), Some(&state)))
            }
            Ok(SealedState::Parked(number)) => Err(self.resume(&call, number)),
            Err(rejection) => Err(Reply::fault(self.fault(FaultCode::StateRejected, rejection.to_string()))),
        }
    }

    fn resume(&self, call: &Call, number: u64) -> Reply {
        let Some(parked) = self.parked.take(number) else {
            return Reply::fault(self.fault(FaultCode::StateRejected, "the call no longer waits for input"));
        };
        let responses = call.params.get_object("inputResponses").unwrap_or_else(JsonObject::empty);
        let has_answer = parked.questions().any(|question| responses.has(&question.key));
        if parked.is_waiting() && !has_answer {
            // Something is missing: the specification says to ask again rather than to fail.
            return Reply::ready(self.keep(call, parked));
        }
        parked.resume(&responses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ConnectTarget, ServerConfig};
    use std::sync::Arc;
    use tsugi_process::JobCommand;
    use tsugi_protocol::answer::CompletedResult;
    use tsugi_protocol::mcp::meta::RequestMeta;
    use tsugi_protocol::mcp::{ClientProfile, ProtocolVersion};

    fn context() -> ConnectionContext {
        let (parked, noise) = (ParkedCalls::default(), OutputNoise::default());
        let (options, config) = (
            Arc::<ManagerOptions>::default(),
            ServerConfig::new("s", ConnectTarget::Stdio(Box::new(JobCommand::new("s")))),
        );
        let limits = DeadlineLimits::of(&config, &options);
        ConnectionContext {
            server: "s".into(),
            options,
            limits,
            parked,
            notices: Arc::default(),
            noise,
            roots: Mutex::default(),
        }
    }

    fn explained(version: ProtocolVersion, outcome: Outcome) -> Outcome {
        let mut call = Call::tool("t", None);
        call.meta = RequestMeta::of_client(Arc::new(ClientProfile { version, ..ClientProfile::default() }));
        context().explain_lacking(&call, Some(&RawJson::literal(r#"{"sampling":{}}"#)), outcome)
    }

    fn result(json: serde_json::Value) -> Outcome {
        Outcome::Complete(CompletedResult { body: JsonObject::from(json), era: Era::Legacy, server: None })
    }

    #[test]
    fn a_modern_caller_hears_which_capability_a_failed_call_needed() {
        let failed = serde_json::json!({"isError": true, "content": [{"type": "text", "text": "no model"}]});
        let refused = Outcome::error(RpcError::new(code::INTERNAL_ERROR, "no model"));
        for outcome in [result(failed), refused] {
            let Outcome::Failed(CallFailure::Fault(fault)) = explained(ProtocolVersion::LATEST, outcome) else {
                panic!("no fault")
            };
            assert_eq!((fault.code, fault.sent), (FaultCode::MissingCapability, SentState::Failed));
            assert_eq!(fault.details.as_ref().unwrap().as_str(), r#"{"sampling":{}}"#);
            assert!(fault.message.ends_with("no model"), "{}", fault.message);
        }
    }

    #[test]
    fn a_call_that_went_on_without_the_answer_and_a_legacy_caller_hear_the_server_itself() {
        let went_on = explained(ProtocolVersion::LATEST, result(serde_json::json!({"content": []})));
        assert!(matches!(went_on, Outcome::Complete(_)));
        let refused = Outcome::error(RpcError::new(code::INTERNAL_ERROR, "no model"));
        assert!(matches!(
            explained(ProtocolVersion::LATEST_LEGACY, refused),
            Outcome::Failed(CallFailure::Upstream(_))
        ));
    }
}

//! The state that all connections of one server share: its name, the parked calls, and the inbox for changes.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tsugi_protocol::answer::session_lifetime::SessionObserver;
use tsugi_protocol::answer::{
    Call, CallFailure, CallStage, Caller, CompletedResult, Fault, FaultCode, InputRelease, InputRequired, Outcome,
    Reply, SentState,
};
use tsugi_protocol::era::round_trip;
use tsugi_protocol::json::{JsonObject, ObjectWriter, RawJson};
use tsugi_protocol::mcp::input::Question;
use tsugi_protocol::mcp::{Era, tool};
use tsugi_protocol::rpc::{RpcError, RpcRequest, RpcResponse, code};

use super::era_cache::AskingRecord;
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
    pub(crate) limits: DeadlineLimits,
    pub(crate) parked: ParkedCalls,
    pub(crate) notices: Arc<NoticeInbox>,
    pub(crate) noise: OutputNoise,
    /// The roots of the only caller of these connections, once it has reported a change; `None` when callers share them.
    pub(crate) roots: Mutex<Option<RawJson>>,
    pub(crate) asking: AskingRecord,
}

/// What becomes of a server's question.
pub(crate) enum QuestionAdmission {
    /// It is put to the caller.
    Ask(Question),
    /// The server gets this answer.
    Refuse { response: RpcResponse, reason: Option<RefusalReason> },
}

/// Why a question was refused, for the caller of a call that fails because of it.
#[derive(Debug, Clone)]
pub(crate) enum RefusalReason {
    /// The client did not declare this capability.
    Lacking(RawJson),
    /// Calls of several clients may have caused the question.
    Unclear,
    /// Too many calls wait for input.
    TooManyParked,
}

/// The server's own words about a call that failed.
fn failure_of(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Failed(CallFailure::Upstream(error)) => Some(error.message()),
        Outcome::Complete(complete) if complete.is_tool_error() => Some(tool::result::failure(&complete.body)),
        _ => None,
    }
}

const UNCLEAR: &str = "the server asked a question while several calls were in flight, and it could not be told which \
    of them it belongs to, so it was refused; such calls take turns from now on, so try again";
const TOO_MANY_PARKED: &str = "the server asked a question, which was refused because too many calls wait for input";

/// A failure with the reason added, in the form in which the server reported it.
fn with_reason(outcome: Outcome, reason: &str) -> Outcome {
    match outcome {
        Outcome::Failed(CallFailure::Upstream(error)) => {
            let message = format!("{} ({reason})", error.message());
            Outcome::error(RpcError::with_data(error.code(), &message, error.data().as_ref()))
        }
        Outcome::Complete(complete) if complete.is_tool_error() => {
            let mut text = ObjectWriter::with_capacity(reason.len() + 32);
            text.string("type", "text").string("text", reason);
            let mut content = complete.body.get("content").and_then(|content| content.items()).unwrap_or_default();
            // After the server's own words: a model reads the content in order.
            content.push(text.finish());
            let mut body = ObjectWriter::with_capacity(complete.body.bytes().len() + reason.len() + 64);
            body.members_except(&complete.body, &["content"]).raw("content", &RawJson::array(&content));
            Outcome::Complete(CompletedResult { body: body.finish_object(), ..complete })
        }
        other => other,
    }
}

/// How many lines of noise are kept, and how much of each.
const NOISE_LINES: usize = 5;
const NOISE_BYTES: usize = 200;

/// The first lines on the server's output that are not messages: banners, logs, stack traces. Most clients break on
/// them, so they help to diagnose.
#[derive(Debug, Default)]
pub(crate) struct OutputNoise(Mutex<Vec<String>>);

impl OutputNoise {
    pub(crate) fn add(&self, line: &[u8]) {
        let text = String::from_utf8_lossy(&line[..line.len().min(NOISE_BYTES)]).trim().to_owned();
        let mut lines = self.0.lock();
        // A server that repeats a line must not push the others out.
        if lines.len() < NOISE_LINES && !text.is_empty() && !lines.contains(&text) {
            lines.push(text);
        }
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.lock().clone()
    }
}

impl SessionObserver for ConnectionContext {
    fn session_ended(&self, caller: &Caller) {
        self.parked.abandon_session(caller);
    }
}

impl ConnectionContext {
    pub(crate) fn fault(&self, code: FaultCode, message: impl Into<String>) -> Fault {
        Fault::new(code, message).on_server(&self.server)
    }

    /// The answer to a request for roots that belongs to no call.
    pub(crate) fn roots(&self) -> RawJson {
        let told = self.roots.lock().clone();
        told.or_else(|| self.options.roots.clone()).unwrap_or_else(|| RawJson::literal(r#"{"roots":[]}"#))
    }

    pub(crate) fn publish(&self, notice: ServerNotice) {
        self.notices.publish(notice);
    }

    /// A legacy server's question in the form in which this call's client is asked, or the refusal for the server.
    pub(crate) fn admit(&self, call: &Call, request: &RpcRequest) -> QuestionAdmission {
        let refuse = |message: &str, lacking: Option<RawJson>| {
            let error = RpcError::new(code::METHOD_NOT_FOUND, message);
            let response = RpcResponse::error(Some(request.id.clone()), error);
            QuestionAdmission::Refuse { response, reason: lacking.map(RefusalReason::Lacking) }
        };
        let Some(question) = round_trip::question(request) else { return refuse("method not found", None) };
        match call.meta.client.capabilities.missing_for(&question.method, Some(&question.params_object())) {
            None => QuestionAdmission::Ask(question),
            lacking => refuse(&format!("the caller of this tool does not support {}", question.method), lacking),
        }
    }

    /// The outcome of a call whose server was refused a question, with the reason when the call failed. A server that
    /// succeeded without the answer did not need it.
    pub(crate) fn explain(&self, call: &Call, refusal: Option<&RefusalReason>, outcome: Outcome) -> Outcome {
        match refusal {
            None => outcome,
            Some(RefusalReason::Lacking(needed)) => self.explain_lacking(call, needed, outcome),
            Some(RefusalReason::Unclear) => with_reason(outcome, UNCLEAR),
            Some(RefusalReason::TooManyParked) => with_reason(outcome, TOO_MANY_PARKED),
        }
    }

    /// A modern client gets the error that the specification demands
    /// ([Capabilities](https://modelcontextprotocol.io/specification/2026-07-28/basic#capabilities)). A legacy client
    /// gets what it would get from the server itself.
    fn explain_lacking(&self, call: &Call, needed: &RawJson, outcome: Outcome) -> Outcome {
        if call.meta.client.version.era() == Era::Legacy {
            return outcome;
        }
        let Some(said) = failure_of(&outcome) else { return outcome };
        let message = format!("the server needs a capability that this client did not declare: {said}");
        let fault = self.fault(FaultCode::MissingCapability, message).with_details(needed.clone());
        Outcome::fault(fault.at(CallStage::Call).sent(SentState::Failed))
    }

    /// Ends a call's turn with its questions. The rest of the call waits, and the caller gets the questions with a sealed
    /// state that only it can bring back.
    pub(crate) fn park(self: &Arc<Self>, call: &Call, asked: Vec<OpenQuestion>, rest: Box<dyn ParkedRest>) -> Outcome {
        // A client that is gone will not answer.
        let observer: Weak<dyn SessionObserver> = Arc::<Self>::downgrade(self);
        call.caller.when_session_ends(observer);
        self.park_again(call, ParkedCall::new(&call.caller, asked, rest, self.options.input_lifetime))
    }

    fn park_again(self: &Arc<Self>, call: &Call, parked: ParkedCall) -> Outcome {
        let mut asked = InputRequired::of(parked.questions(), None);
        let number = self.parked.insert(parked);
        let lifetime = self.options.input_lifetime;
        asked.state = Some(self.options.sealer.seal(&self.server, call, SealedState::Parked(number), lifetime));
        let context = Arc::downgrade(self);
        asked.release = Some(InputRelease::new(move || {
            // Dropping the call abandons it.
            drop(context.upgrade().and_then(|context| context.parked.take(number)));
        }));
        Outcome::InputRequired(asked)
    }

    /// A modern server's questions with its state sealed, so that no other caller can bring it back.
    pub(crate) fn seal_state(&self, call: &Call, mut asked: InputRequired) -> InputRequired {
        let lifetime = self.options.input_lifetime;
        asked.state =
            asked.state.map(|state| self.options.sealer.seal(&self.server, call, SealedState::State(state), lifetime));
        asked
    }

    /// Opens the state that a call brings back. A parked call goes on as the returned reply; any other is to be sent,
    /// with the server's own state.
    pub(crate) fn resume_or_pass(self: &Arc<Self>, call: Call) -> Result<Call, Reply> {
        let Some(state) = call.params.get_str("requestState").map(|state| state.into_owned()) else {
            return Ok(call);
        };
        match self.options.sealer.open(&self.server, &call, &state) {
            Ok(SealedState::State(state)) => {
                let responses = call.params.get("inputResponses");
                Ok(call.retry_with(responses.as_ref(), Some(&state)))
            }
            Ok(SealedState::Parked(number)) => Err(self.resume(&call, number)),
            // Opened further out, where the task is waited for. Here the server no longer has tasks.
            Ok(SealedState::Task(_)) => {
                Err(Reply::fault(self.fault(FaultCode::StateRejected, "the call no longer waits for input")))
            }
            Err(rejection) => Err(Reply::fault(self.fault(FaultCode::StateRejected, rejection.to_string()))),
        }
    }

    fn resume(self: &Arc<Self>, call: &Call, number: u64) -> Reply {
        let Some(parked) = self.parked.take(number) else {
            return Reply::fault(self.fault(FaultCode::StateRejected, "the call no longer waits for input"));
        };
        let responses = call.params.get_object("inputResponses").unwrap_or_else(JsonObject::empty);
        // A call whose questions were all withdrawn waits for nothing but to be fetched.
        let has_answer = parked.questions().any(|question| responses.has(&question.key));
        if parked.is_waiting() && !has_answer {
            // The specification says to ask again rather than to fail when answers are missing.
            return Reply::ready(self.park_again(call, parked));
        }
        parked.resume(call, &responses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ConnectTarget, ServerConfig};
    use crate::connection::era_cache::EraCache;
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
            asking: AskingRecord::open(&Arc::new(EraCache::open(None)), &config.target),
        }
    }

    fn explained(version: ProtocolVersion, outcome: Outcome) -> Outcome {
        let mut call = Call::tool("t", None);
        call.meta = RequestMeta::of_client(Arc::new(ClientProfile { version, ..ClientProfile::default() }));
        let lacking = RefusalReason::Lacking(RawJson::literal(r#"{"sampling":{}}"#));
        context().explain(&call, Some(&lacking), outcome)
    }

    fn result(json: serde_json::Value) -> Outcome {
        Outcome::Complete(CompletedResult { body: JsonObject::from(json), era: Era::Legacy, server: None })
    }

    #[test]
    fn a_modern_caller_learns_which_capability_a_failed_call_needed() {
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
    fn a_call_that_succeeded_anyway_and_a_legacy_caller_get_the_servers_own_answer() {
        let went_on = explained(ProtocolVersion::LATEST, result(serde_json::json!({"content": []})));
        assert!(matches!(went_on, Outcome::Complete(_)));
        let refused = Outcome::error(RpcError::new(code::INTERNAL_ERROR, "no model"));
        assert!(matches!(
            explained(ProtocolVersion::LATEST_LEGACY, refused),
            Outcome::Failed(CallFailure::Upstream(_))
        ));
    }

    #[test]
    fn a_call_that_fails_after_its_question_was_refused_says_why() {
        let explained = |outcome| context().explain(&Call::tool("t", None), Some(&RefusalReason::Unclear), outcome);
        let failed = serde_json::json!({"content": [{"type": "text", "text": "no answer"}], "isError": true, "n": 1});
        let Outcome::Complete(complete) = explained(result(failed)) else { panic!("no result") };
        let body: serde_json::Value = complete.body.raw().to().unwrap();
        assert_eq!((&body["content"][0]["text"], &body["n"]), (&"no answer".into(), &1.into()));
        assert!(body["content"][1]["text"].as_str().unwrap().contains("several calls were in flight"), "{body}");
        let refused = RpcError::with_data(-32000, "no answer", Some(&RawJson::literal("7")));
        let Outcome::Failed(CallFailure::Upstream(error)) = explained(Outcome::error(refused)) else {
            panic!("no error")
        };
        assert_eq!((error.code(), error.data().unwrap().as_str()), (-32000, "7"));
        assert!(error.message().starts_with("no answer (the server asked"), "{}", error.message());
        let good = serde_json::json!({"content": []});
        let Outcome::Complete(complete) = explained(result(good)) else { panic!("no result") };
        assert_eq!(complete.body.raw().as_str(), r#"{"content":[]}"#);
    }
}

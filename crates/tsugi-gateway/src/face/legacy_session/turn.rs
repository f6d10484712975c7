//! One request of a legacy client on its way: notes, questions to the client, and at last its response.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderValue;
use tokio::sync::oneshot;
use tokio::time::Sleep;
use tsugi_protocol::answer::{
    CallFailure, CallOptions, Caller, Fault, FaultCode, InputRelease, InputRequired, Outcome, ReplyEvent,
};
use tsugi_protocol::json::{ObjectWriter, RawJson};
use tsugi_protocol::mcp::Method;
use tsugi_protocol::mcp::input::{InputResponses, Question};
use tsugi_protocol::rpc::{RequestId, ResponsePayload, RpcError, RpcNotification, RpcRequest, RpcResponse};

use super::session::LegacySession;
use crate::face::running_call::{CancelSwitch, RpcResponseBody, RunningCall, TurnOutput};
use crate::guard::oauth::scope_challenge;
use tsugi_protocol::era::{notification, round_trip, to_legacy};

/// A request being answered. Dropping it cancels the call.
pub(crate) struct LegacyTurn {
    conversation: Arc<LegacySession>,
    /// The sender of the request, in this session. A retry keeps it.
    caller: Caller,
    request: RpcRequest,
    /// How it came in, which a retry keeps.
    options: CallOptions,
    state: TurnState,
    rounds: usize,
    /// There once the turn has had to wait: a turn that never waits costs no entry in the table.
    cancel: Option<Arc<CancelSwitch>>,
    outgoing: VecDeque<Bytes>,
}

enum TurnState {
    Calling(RunningCall),
    /// Looks whether there is what the client subscribes to.
    Looking(RunningCall),
    Asking(OpenQuestions),
    Failed(RpcError),
    Over,
}

/// Questions that the client has not all answered yet.
struct OpenQuestions {
    waiting: VecDeque<(Question, u64, oneshot::Receiver<ResponsePayload>)>,
    answers: InputResponses,
    has_answers: bool,
    state: Option<String>,
    /// Gives the call up when the client will not answer.
    release: Option<InputRelease>,
    deadline: Pin<Box<Sleep>>,
}

impl LegacyTurn {
    pub(super) fn start(
        conversation: Arc<LegacySession>,
        caller: Caller,
        request: RpcRequest,
        options: CallOptions,
    ) -> Self {
        let start = |call| RunningCall::start(&*conversation.answer, call);
        let state = match conversation.look(&caller, &request) {
            Some(looking) => looking.map(start).map(TurnState::Looking),
            None => conversation.call(&caller, &request, options.clone()).map(start).map(TurnState::Calling),
        };
        let state = state.unwrap_or_else(TurnState::Failed);
        Self { conversation, caller, request, options, state, rounds: 0, cancel: None, outgoing: VecDeque::new() }
    }

    /// The conversation it belongs to.
    pub(crate) fn conversation(&self) -> &Arc<LegacySession> {
        &self.conversation
    }

    /// The next thing to send.
    pub(crate) async fn next(&mut self) -> TurnOutput {
        std::future::poll_fn(|context| self.poll(context)).await
    }

    /// The next thing to send, as a poll. After a response or silence it is not polled again.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<TurnOutput> {
        let polled = self.step(context);
        // Looked at only while waiting: an answer that is there already wins over a cancellation.
        if polled.is_pending() && self.wait(context) {
            self.withdraw();
            if let Some(message) = self.outgoing.pop_front() {
                return Poll::Ready(TurnOutput::Message(message));
            }
            self.end();
            return Poll::Ready(TurnOutput::Silence);
        }
        polled
    }

    /// Notes that this turn waits; true when it was cancelled.
    fn wait(&mut self, context: &Context<'_>) -> bool {
        // Made on the first wait, since most calls never wait.
        let cancel = self.cancel.get_or_insert_with(|| self.conversation.began(&self.request.id));
        cancel.register(context.waker());
        cancel.is_set()
    }

    fn step(&mut self, context: &mut Context<'_>) -> Poll<TurnOutput> {
        loop {
            if let Some(message) = self.outgoing.pop_front() {
                return Poll::Ready(TurnOutput::Message(message));
            }
            match &mut self.state {
                TurnState::Calling(running) => match ready!(running.poll_event(context)) {
                    ReplyEvent::Note(note) => {
                        return Poll::Ready(TurnOutput::Message(notification::to_legacy(&note).to_bytes()));
                    }
                    // Legacy clients are asked by a request of ours, while theirs stays open.
                    ReplyEvent::Done(Outcome::InputRequired(input)) => self.ask(input),
                    ReplyEvent::Done(outcome) => return Poll::Ready(self.respond(&outcome)),
                },
                TurnState::Looking(running) => {
                    let said = ready!(running.poll_event(context));
                    return Poll::Ready(self.subscribed(&said));
                }
                TurnState::Asking(asking) => match ready!(asking.poll(context)) {
                    Ok(()) => self.retry(),
                    Err(fault) => {
                        self.withdraw();
                        self.fail(fault);
                    }
                },
                TurnState::Failed(error) => {
                    let response = error.response(Some(&self.request.id));
                    self.end();
                    return Poll::Ready(TurnOutput::Response(RpcResponseBody::Whole(response)));
                }
                TurnState::Over => return Poll::Pending,
            }
        }
    }

    fn respond(&mut self, outcome: &Outcome) -> TurnOutput {
        let (method, version) = (&self.request.method, self.conversation.version);
        let response = match outcome {
            Outcome::Complete(complete) => {
                self.conversation.done(&self.request);
                RpcResponseBody::Result(self.request.id.clone(), to_legacy::result(complete, method, version))
            }
            Outcome::Failed(failure) => {
                let response = self.error(failure).response(Some(&self.request.id));
                match challenge_of(failure) {
                    Some(challenge) => RpcResponseBody::Refused(response, challenge),
                    None => RpcResponseBody::Whole(response),
                }
            }
            Outcome::InputRequired(_) => unreachable!("questions are asked before a response is written"),
        };
        self.end();
        TurnOutput::Response(response)
    }

    fn subscribed(&mut self, said: &ReplyEvent) -> TurnOutput {
        let response = match self.conversation.take_subscription(&self.request, said) {
            Ok(()) => RpcResponse::result(self.request.id.clone(), RawJson::literal("{}")).to_bytes(),
            Err(error) => error.response(Some(&self.request.id)),
        };
        self.end();
        TurnOutput::Response(RpcResponseBody::Whole(response))
    }

    fn error(&self, failure: &CallFailure) -> RpcError {
        to_legacy::error(&failure.to_rpc(), &self.request.method, self.conversation.version)
    }

    fn fail(&mut self, fault: Fault) {
        self.state = TurnState::Failed(self.error(&CallFailure::from(fault)));
    }

    /// Puts a server's questions to the client as requests of ours.
    fn ask(&mut self, input: InputRequired) {
        self.rounds += 1;
        let release = input.release.clone();
        let asking = if self.rounds > self.conversation.rounds {
            let message = format!("the server asked for input more than {} times", self.conversation.rounds);
            Err(Fault::new(FaultCode::InvalidResponse, message))
        } else {
            self.questions(input)
        };
        match asking {
            Ok(asking) => self.state = TurnState::Asking(asking),
            Err(fault) => {
                // The server must not wait for answers that will not come.
                release.iter().for_each(InputRelease::release);
                self.fail(fault);
            }
        }
    }

    fn questions(&mut self, input: InputRequired) -> Result<OpenQuestions, Fault> {
        let questions = input.questions();
        for question in &questions {
            // All questions are checked before the first one is sent.
            let lacking =
                self.conversation.client.capabilities.missing_for(&question.method, Some(&question.params_object()));
            if let Some(needed) = lacking {
                return Err(incapable(question, Some(needed)));
            }
        }
        let mut waiting = VecDeque::with_capacity(questions.len());
        for question in questions {
            let (id, answer) = self.conversation.ask();
            let Some(request) = round_trip::to_request(&question, RequestId::number(id), self.conversation.version)
            else {
                self.conversation.forget_question(id);
                return Err(incapable(&question, None));
            };
            self.outgoing.push_back(request.to_bytes());
            waiting.push_back((question, id, answer));
        }
        // One deadline for all questions of a round: people answer them together.
        let deadline = Box::pin(tokio::time::sleep(self.conversation.answer_timeout));
        Ok(OpenQuestions {
            waiting,
            answers: InputResponses::default(),
            has_answers: false,
            state: input.state,
            release: input.release,
            deadline,
        })
    }

    /// Asks again, with the answers.
    fn retry(&mut self) {
        let TurnState::Asking(asking) = std::mem::replace(&mut self.state, TurnState::Over) else { return };
        // Without answers the call is repeated with its state alone.
        let responses = asking.has_answers.then(|| asking.answers.finish());
        self.state = match self.conversation.call(&self.caller, &self.request, self.options.clone()) {
            Ok(call) => {
                let call = call.retry_with(responses.as_ref(), asking.state.as_deref());
                TurnState::Calling(RunningCall::start(&*self.conversation.answer, call))
            }
            Err(error) => TurnState::Failed(error),
        };
    }

    /// Takes back the questions that are not answered: the client need not show them any longer
    /// ([Cancellation](https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/cancellation)).
    fn withdraw(&mut self) {
        let TurnState::Asking(asking) = &mut self.state else { return };
        for (_, id, _) in std::mem::take(&mut asking.waiting) {
            self.conversation.forget_question(id);
            let mut params = ObjectWriter::with_capacity(64);
            params.number("requestId", id).string("reason", "no call waits for the answer any more");
            self.outgoing.push_back(RpcNotification::new(Method::Cancelled, Some(params.finish())).to_bytes());
        }
        // The server's call ends now, so that other callers do not wait for it.
        asking.release.iter().for_each(InputRelease::release);
        self.state = TurnState::Over;
    }

    fn end(&mut self) {
        self.withdraw();
        self.state = TurnState::Over;
        if let Some(cancel) = self.cancel.take() {
            self.conversation.ended(&cancel);
        }
    }
}

impl Drop for LegacyTurn {
    fn drop(&mut self) {
        self.end();
    }
}

impl OpenQuestions {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        while let Some((question, _, answer)) = self.waiting.front_mut() {
            let Poll::Ready(answered) = Pin::new(answer).poll(context) else {
                // Polled last, so that an answer that is there already counts even when it is late.
                ready!(self.deadline.as_mut().poll(context));
                let message = format!("the client did not answer {} in time", question.method);
                return Poll::Ready(Err(Fault::new(FaultCode::Timeout, message)));
            };
            let Ok(body) = answered else {
                return Poll::Ready(Err(Fault::new(FaultCode::Cancelled, "the session ended")));
            };
            match round_trip::answer_to_modern(&question.method, &body) {
                Some(answer) => self.answers.add(&question.key, &answer),
                None => return Poll::Ready(Err(refused(question, &body))),
            }
            self.has_answers = true;
            self.waiting.pop_front();
        }
        Poll::Ready(Ok(()))
    }
}

fn challenge_of(failure: &CallFailure) -> Option<HeaderValue> {
    match failure {
        CallFailure::Fault(fault) => scope_challenge::header_of(fault),
        CallFailure::Upstream(_) => None,
    }
}

fn incapable(question: &Question, needed: Option<RawJson>) -> Fault {
    let message = format!("the server needs {}, which this client does not offer", question.method);
    let fault = Fault::new(FaultCode::MissingCapability, message);
    match needed {
        Some(needed) => fault.with_details(needed),
        None => fault,
    }
}

fn refused(question: &Question, body: &ResponsePayload) -> Fault {
    let (reason, details) = match body {
        ResponsePayload::Error(error) => (error.message(), error.raw()),
        ResponsePayload::Result(result) => ("the answer is no object".to_owned(), result.clone()),
    };
    let message = format!("the client refused {}: {reason}", question.method);
    Fault::new(FaultCode::ExecutionFailed, message).with_details(details)
}

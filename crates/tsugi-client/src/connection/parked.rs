//! Calls of legacy servers that wait for their caller's answer to the server's question.

use std::collections::HashMap;
use std::convert::Infallible;
use std::time::Duration;

use parking_lot::Mutex;
use rand::RngExt;
use tokio::sync::Notify;
use tokio::time::Instant;
use tsugi_protocol::answer::{Call, Caller, Reply};
use tsugi_protocol::era::round_trip;
use tsugi_protocol::json::JsonObject;
use tsugi_protocol::mcp::ProtocolVersion;
use tsugi_protocol::mcp::input::Question;
use tsugi_protocol::rpc::{RequestId, RpcError, RpcRequest, RpcResponse, code};

use super::in_flight::ConnectionId;
use super::question_owner::QuestionClient;

/// The rest of a call that was parked.
pub(crate) trait ParkedRest: Send {
    /// The connection that the call is on. Ids of questions are unique on one connection only.
    fn connection(&self) -> ConnectionId;

    /// The revision that the server speaks, in whose form it gets its answers.
    fn version(&self) -> ProtocolVersion;

    /// The call's key and its client; `None` when it has ended.
    fn identity(&self) -> Option<(u64, QuestionClient)>;

    /// True when other calls wait for their turn until this one has ended.
    fn holds_turn(&self) -> bool;

    /// The server has withdrawn its questions: the call no longer waits for its caller.
    fn withdrawn(&mut self);

    /// Answers the server's questions and goes on with the call, whose caller has made it again as `call`. Questions
    /// without an answer are asked again.
    fn resume(self: Box<Self>, call: &Call, answers: Vec<RpcResponse>, unanswered: Vec<OpenQuestion>) -> Reply;

    /// Sends the server these errors instead of answers, and cancels the call.
    fn abandon(self: Box<Self>, refusals: Vec<RpcResponse>);
}

/// A question that a call waits with.
#[derive(Debug)]
pub(crate) struct OpenQuestion {
    /// As the caller is asked.
    pub(crate) question: Question,
    /// As the server asked.
    pub(crate) request: RpcRequest,
}

/// A call that waits. Dropping it abandons the call.
pub(crate) struct ParkedCall {
    caller: Caller,
    /// Its questions, except those that were withdrawn.
    asked: Vec<OpenQuestion>,
    rest: Option<Box<dyn ParkedRest>>,
    expires: Instant,
}

impl std::fmt::Debug for ParkedCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ParkedCall").field("asked", &self.asked).finish_non_exhaustive()
    }
}

impl ParkedCall {
    pub(crate) fn new(
        caller: &Caller,
        asked: Vec<OpenQuestion>,
        rest: Box<dyn ParkedRest>,
        lifetime: Duration,
    ) -> Self {
        Self { caller: caller.clone(), asked, rest: Some(rest), expires: Instant::now() + lifetime }
    }

    pub(crate) fn questions(&self) -> impl Iterator<Item = &Question> {
        self.asked.iter().map(|asked| &asked.question)
    }

    /// Removes the question with this id, if it is this call's. It must not be answered any more.
    fn withdraw(&mut self, connection: ConnectionId, id: &RequestId) -> bool {
        let Some(rest) = self.rest.as_mut().filter(|rest| rest.connection() == connection) else { return false };
        let Some(index) = self.asked.iter().position(|asked| asked.request.id == *id) else { return false };
        self.asked.remove(index);
        if self.asked.is_empty() {
            rest.withdrawn();
        }
        true
    }

    /// True when the call waits for answers, false when only its outcome has to be fetched.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.asked.is_empty()
    }

    /// Goes on with the call, with its caller's answers.
    pub(crate) fn resume(mut self, call: &Call, answers: &JsonObject) -> Reply {
        let rest = self.rest.take().expect("a parked call is resumed once");
        let version = rest.version();
        let (mut responses, mut unanswered) = (Vec::new(), Vec::new());
        for asked in std::mem::take(&mut self.asked) {
            match answers.get(&asked.question.key) {
                Some(answer) => {
                    let answer = round_trip::answer_to_legacy(&asked.question.method, &answer, version);
                    responses.push(RpcResponse::result(asked.request.id, answer));
                }
                None => unanswered.push(asked),
            }
        }
        rest.resume(call, responses, unanswered)
    }
}

impl Drop for ParkedCall {
    fn drop(&mut self) {
        // Resumed calls have given their rest away.
        let Some(rest) = self.rest.take() else { return };
        let refusal = RpcError::new(code::INTERNAL_ERROR, "the client did not answer in time");
        let asked = std::mem::take(&mut self.asked).into_iter();
        rest.abandon(asked.map(|asked| RpcResponse::error(Some(asked.request.id), refusal.clone())).collect());
    }
}

/// The parked calls of one server, by a number that cannot be guessed.
#[derive(Debug, Default)]
pub(crate) struct ParkedCalls {
    calls: Mutex<HashMap<u64, ParkedCall>>,
    added: Notify,
}

impl ParkedCalls {
    /// Adds a call and returns the number under which it waits.
    pub(crate) fn insert(&self, call: ParkedCall) -> u64 {
        // Random, since it is all that a state names: numbers in a row could be guessed.
        let number = rand::rng().random();
        let replaced = self.calls.lock().insert(number, call);
        drop(replaced);
        self.added.notify_one();
        number
    }

    /// Takes a call out. Of two callers with the same state the second gets `None`.
    pub(crate) fn take(&self, number: u64) -> Option<ParkedCall> {
        let call = self.calls.lock().remove(&number)?;
        // The sweep may be late; an expired call is abandoned here, by dropping it.
        (call.expires > Instant::now()).then_some(call)
    }

    pub(crate) fn has(&self, number: u64) -> bool {
        self.calls.lock().contains_key(&number)
    }

    /// The server on this connection has withdrawn the question with this id. Its call goes on: the caller that comes
    /// back gets its outcome, and the answer to the question is not sent
    /// ([Cancellation](https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/cancellation)).
    pub(crate) fn withdraw(&self, connection: ConnectionId, id: &RequestId) {
        self.calls.lock().values_mut().any(|call| call.withdraw(connection, id));
    }

    /// Takes the questions out of the call of a legacy session with this key, and returns its client. The call waits to
    /// be fetched.
    pub(crate) fn take_questions(
        &self,
        connection: ConnectionId,
        key: u64,
    ) -> Option<(QuestionClient, Vec<OpenQuestion>)> {
        let mut calls = self.calls.lock();
        calls.values_mut().find_map(|call| {
            let rest = call.rest.as_mut().filter(|rest| rest.connection() == connection)?;
            let (_, client) = rest.identity().filter(|(other, _)| *other == key)?;
            let is_session = matches!(client, QuestionClient::Session(_));
            let asked = is_session.then(|| std::mem::take(&mut call.asked)).filter(|asked| !asked.is_empty())?;
            rest.withdrawn();
            Some((client, asked))
        })
    }

    /// Abandons calls when they expire, for as long as it is polled.
    pub(crate) async fn keep_sweeping(&self) -> Infallible {
        loop {
            match self.sweep() {
                Some(next) => tokio::select! {
                    () = tokio::time::sleep_until(next) => {}
                    () = self.added.notified() => {}
                },
                None => self.added.notified().await,
            }
        }
    }

    /// Abandons calls that have expired, and returns when the next one does.
    fn sweep(&self) -> Option<Instant> {
        let now = Instant::now();
        let mut calls = self.calls.lock();
        let late: Vec<u64> = calls.iter().filter(|(_, call)| call.expires <= now).map(|(number, _)| *number).collect();
        let expired: Vec<ParkedCall> = late.iter().filter_map(|number| calls.remove(number)).collect();
        let next = calls.values().map(|call| call.expires).min();
        // Abandoning sends messages and passes turns on: not under the lock.
        drop(calls);
        drop(expired);
        next
    }

    /// Another call waits for a turn that calls of this connection hold while they wait here: they expire after
    /// `patience` at the latest.
    pub(crate) fn hurry(&self, connection: ConnectionId, patience: Duration) {
        let latest = Instant::now() + patience;
        for call in self.calls.lock().values_mut() {
            let rest = call.rest.as_ref();
            if rest.is_some_and(|rest| rest.connection() == connection && rest.holds_turn()) {
                call.expires = call.expires.min(latest);
            }
        }
        self.added.notify_one();
    }

    /// Abandons the calls of a session that has ended.
    pub(crate) fn abandon_session(&self, caller: &Caller) {
        let is_of = |call: &ParkedCall| call.caller == *caller;
        let abandoned: Vec<ParkedCall> =
            self.calls.lock().extract_if(|_, call| is_of(call)).map(|(_, call)| call).collect();
        // Dropped outside the lock: a call that ends may let another one park.
        drop(abandoned);
    }

    pub(crate) fn clear(&self) {
        let all = std::mem::take(&mut *self.calls.lock());
        drop(all);
    }

    pub(crate) fn len(&self) -> usize {
        self.calls.lock().len()
    }
}

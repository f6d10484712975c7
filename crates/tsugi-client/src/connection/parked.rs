//! Calls of legacy servers that wait for an answer to the server's own question.

use std::collections::HashMap;
use std::convert::Infallible;
use std::time::Duration;

use parking_lot::Mutex;
use rand::RngExt;
use tokio::sync::Notify;
use tokio::time::Instant;
use tsugi_protocol::answer::Reply;
use tsugi_protocol::json::JsonObject;
use tsugi_protocol::mcp::input::Question;
use tsugi_protocol::rpc::{RequestId, RpcError, RpcRequest, RpcResponse, code};

/// How many calls of one server may wait at once.
const MAX_PARKED: usize = 1024;

/// What remains of a call that was parked.
pub(crate) trait ParkedRest: Send {
    /// The call's number, on a connection where it may turn out that the question was another call's.
    fn key(&self) -> Option<u64> {
        None
    }

    /// Which connection it is on: its address in memory, for as long as it is there.
    fn connection(&self) -> usize;

    /// The server has taken its questions back: the call no longer waits for its caller.
    fn withdrawn(&mut self);

    /// Answers the server's questions and goes on with the call. What its caller left unanswered is asked again; without
    /// any of both it only goes on.
    fn resume(self: Box<Self>, answers: Vec<RpcResponse>, unanswered: Vec<OpenQuestion>) -> Reply;

    /// Tells the server that nobody will answer, and gives the call up.
    fn abandon(self: Box<Self>, refusals: Vec<RpcResponse>);
}

/// A question that a call waits with.
#[derive(Debug)]
pub(crate) struct OpenQuestion {
    /// As the caller is asked.
    pub(crate) question: Question,
    /// As the server asked.
    pub(crate) request: RpcRequest,
    /// True when the wire does not say whose it is.
    pub(crate) is_guess: bool,
}

/// A call that waits. Dropping it abandons the call.
pub(crate) struct ParkedCall {
    /// Its open questions; those that turned out to be another call's, or were taken back, are gone.
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
    pub(crate) fn new(asked: Vec<OpenQuestion>, rest: Box<dyn ParkedRest>, lifetime: Duration) -> Self {
        Self { asked, rest: Some(rest), expires: Instant::now() + lifetime }
    }

    /// What its caller is asked.
    pub(crate) fn questions(&self) -> impl Iterator<Item = &Question> {
        self.asked.iter().map(|asked| &asked.question)
    }

    /// Forgets the question with this id of the server's, if it is this call's. Nobody answers it any more.
    fn withdraw(&mut self, connection: usize, id: &RequestId) -> bool {
        let Some(rest) = self.rest.as_mut().filter(|rest| rest.connection() == connection) else { return false };
        let Some(index) = self.asked.iter().position(|asked| asked.request.id == *id) else { return false };
        self.asked.remove(index);
        if self.asked.is_empty() {
            rest.withdrawn();
        }
        true
    }

    /// True when the call waits for an answer of its caller, false when it only has to be fetched.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.asked.is_empty()
    }

    /// Goes on with the call; `answers` is what its caller says to the questions.
    pub(crate) fn resume(mut self, answers: &JsonObject) -> Reply {
        let rest = self.rest.take().expect("a parked call is resumed once");
        let (mut responses, mut unanswered) = (Vec::new(), Vec::new());
        for asked in std::mem::take(&mut self.asked) {
            match answers.get(&asked.question.key) {
                Some(answer) => responses.push(RpcResponse::result(asked.request.id, answer)),
                None => unanswered.push(asked),
            }
        }
        rest.resume(responses, unanswered)
    }
}

impl Drop for ParkedCall {
    fn drop(&mut self) {
        let Some(rest) = self.rest.take() else { return };
        let refusal = RpcError::new(code::INTERNAL_ERROR, "nobody answered in time");
        let asked = std::mem::take(&mut self.asked).into_iter();
        rest.abandon(asked.map(|asked| RpcResponse::error(Some(asked.request.id), refusal.clone())).collect());
    }
}

/// The calls of one server that wait, by a number that cannot be guessed.
#[derive(Debug, Default)]
pub(crate) struct ParkedCalls {
    calls: Mutex<HashMap<u64, ParkedCall>>,
    added: Notify,
}

impl ParkedCalls {
    /// Keeps a call; `None` when too many wait, which abandons it.
    pub(crate) fn insert(&self, call: ParkedCall) -> Option<u64> {
        let number = rand::rng().random();
        let mut calls = self.calls.lock();
        let refused = if calls.len() < MAX_PARKED { calls.insert(number, call) } else { Some(call) };
        drop(calls);
        self.added.notify_one();
        refused.is_none().then_some(number)
    }

    /// Takes a call out; the second to ask gets nothing.
    pub(crate) fn take(&self, number: u64) -> Option<ParkedCall> {
        let call = self.calls.lock().remove(&number)?;
        (call.expires > Instant::now()).then_some(call)
    }

    /// Whether a call with this number waits here.
    pub(crate) fn has(&self, number: u64) -> bool {
        self.calls.lock().contains_key(&number)
    }

    /// The questions of the call with this number on its connection, which turned out to be another call's.
    pub(crate) fn misplaced(&self, key: u64) -> Vec<OpenQuestion> {
        let mut calls = self.calls.lock();
        let is_it = |call: &&mut ParkedCall| call.rest.as_ref().is_some_and(|rest| rest.key() == Some(key));
        calls.values_mut().find(is_it).map(|call| std::mem::take(&mut call.asked)).unwrap_or_default()
    }

    /// The server on this connection has taken back the question with this id. Its call goes on: whoever comes back
    /// for it gets what the server makes of it, and the answer to the question is not sent
    /// ([Cancellation](https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/cancellation)).
    pub(crate) fn withdraw(&self, connection: usize, id: &RequestId) {
        self.calls.lock().values_mut().any(|call| call.withdraw(connection, id));
    }

    /// Abandons calls that waited too long, as long as it is polled.
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

    /// Abandons calls that waited too long, and says when the next one will have.
    fn sweep(&self) -> Option<Instant> {
        let now = Instant::now();
        let mut calls = self.calls.lock();
        let late: Vec<u64> = calls.iter().filter(|(_, call)| call.expires <= now).map(|(number, _)| *number).collect();
        let expired: Vec<ParkedCall> = late.iter().filter_map(|number| calls.remove(number)).collect();
        let next = calls.values().map(|call| call.expires).min();
        drop(calls);
        drop(expired);
        next
    }

    /// Somebody waits for the calls that wait here on a shared stream: they expire after `patience` at the latest.
    pub(crate) fn hurry(&self, patience: Duration) {
        let latest = Instant::now() + patience;
        let is_in_the_way = |call: &&mut ParkedCall| call.rest.as_ref().is_some_and(|rest| rest.key().is_some());
        for call in self.calls.lock().values_mut().filter(is_in_the_way) {
            call.expires = call.expires.min(latest);
        }
        self.added.notify_one();
    }

    /// Abandons all.
    pub(crate) fn clear(&self) {
        let all = std::mem::take(&mut *self.calls.lock());
        drop(all);
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.calls.lock().len()
    }
}

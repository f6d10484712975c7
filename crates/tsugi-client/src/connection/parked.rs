//! Calls of legacy servers that wait for an answer to the server's own question.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use rand::RngExt;
use tokio::time::Instant;
use tsugi_protocol::answer::Reply;
use tsugi_protocol::mcp::input::Question;
use tsugi_protocol::rpc::{Id, Response, RpcError, code};

/// How many calls of one server may wait at once.
const MAX_PARKED: usize = 1024;

/// What remains of a call that was parked.
pub(crate) trait Resume: Send {
    /// Answers the server's question and goes on with the call.
    fn resume(self: Box<Self>, answer: Response) -> Reply;
    /// Tells the server that nobody will answer, and gives the call up.
    fn abandon(self: Box<Self>, refusal: Response);
}

/// A call that waits. Dropping it abandons the call.
pub(crate) struct ParkedCall {
    pub(crate) question: Question,
    id: Id,
    rest: Option<Box<dyn Resume>>,
    expires: Instant,
}

impl std::fmt::Debug for ParkedCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ParkedCall").field("question", &self.question.method).finish_non_exhaustive()
    }
}

impl ParkedCall {
    pub(crate) fn new(id: Id, question: Question, rest: Box<dyn Resume>, lifetime: Duration) -> Self {
        Self { question, id, rest: Some(rest), expires: Instant::now() + lifetime }
    }

    /// The server's id of its question, and what remains of the call.
    pub(crate) fn into_parts(mut self) -> (Id, Box<dyn Resume>) {
        (self.id.clone(), self.rest.take().expect("a parked call is taken apart once"))
    }
}

impl Drop for ParkedCall {
    fn drop(&mut self) {
        if let Some(rest) = self.rest.take() {
            let refusal = RpcError::new(code::INTERNAL_ERROR, "nobody answered in time");
            rest.abandon(Response::error(Some(self.id.clone()), refusal));
        }
    }
}

/// The calls of one server that wait, by a number that cannot be guessed.
#[derive(Debug, Default)]
pub(crate) struct Parked(Mutex<HashMap<u64, ParkedCall>>);

impl Parked {
    /// Keeps a call; `None` when too many wait, which abandons it.
    pub(crate) fn insert(&self, call: ParkedCall) -> Option<u64> {
        self.sweep();
        let number = rand::rng().random();
        let mut table = self.0.lock();
        let refused = if table.len() < MAX_PARKED { table.insert(number, call) } else { Some(call) };
        drop(table);
        refused.is_none().then_some(number)
    }

    /// Takes a call out; the second to ask gets nothing.
    pub(crate) fn take(&self, number: u64) -> Option<ParkedCall> {
        let call = self.0.lock().remove(&number)?;
        (call.expires > Instant::now()).then_some(call)
    }

    /// Abandons calls that waited too long.
    pub(crate) fn sweep(&self) {
        let now = Instant::now();
        let mut table = self.0.lock();
        let late: Vec<u64> = table.iter().filter(|(_, call)| call.expires <= now).map(|(number, _)| *number).collect();
        let expired: Vec<ParkedCall> = late.iter().filter_map(|number| table.remove(number)).collect();
        drop(table);
        drop(expired);
    }

    /// Abandons all.
    pub(crate) fn clear(&self) {
        let all = std::mem::take(&mut *self.0.lock());
        drop(all);
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.0.lock().len()
    }
}

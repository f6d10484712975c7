//! Which call a legacy server's question belongs to, when the wire does not say.
//!
//! On a shared stream a question (elicitation, sampling, roots) carries no reference to the call that
//! made the server ask. This is how it is decided, in this order:
//!
//! 1. The question names a progress token of ours: it belongs to that call.
//! 2. One call is in flight that may ask: it belongs to that one.
//! 3. All such calls are of one caller: the oldest that is not asking already, or the newest when all are: a server
//!    that asks several things at once has just begun with that one. The server gets its answer
//!    under its own id in any case, and the same person answers. A wrong guess shows itself when the server
//!    answers a call whose question is still open: that question was another call's, and moves there.
//! 4. Calls of several callers: the question is *held*. The call that asked waits for us, the others do
//!    not: as they end, one remains, and the question is its. If as many questions are held as calls
//!    remain, nobody can tell any more and all of them are refused, because giving one person's question
//!    to another is worse than failing.
//!    Over HTTP, where a call has a stream of its own to ask on, such a question is refused at once.
//!
//! From its first question on, a server is known to ask, and calls of different callers take turns
//! ([`Turnstile`](super::turnstile::Turnstile)), so that 4 happens at most once per connection.

use std::collections::VecDeque;

use parking_lot::Mutex;
use tsugi_protocol::answer::Caller;
use tsugi_protocol::rpc::{RequestId, RpcRequest};

/// A call in flight that may be the one that asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct QuestionCandidate {
    /// The call's number; smaller is older.
    pub(crate) key: u64,
    /// Whose it is.
    pub(crate) caller: Caller,
    /// True when it has a question waiting already.
    pub(crate) is_asking: bool,
}

/// To whom a question goes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum QuestionOwner {
    /// To this call.
    Call(u64),
    /// To nobody: no call is in flight.
    Nobody,
    /// Cannot be told yet.
    Held,
}

/// Decides by rules 1 to 4. `token` is the progress token in the question, if it has one of ours.
pub(crate) fn owner(token: Option<u64>, candidates: &[QuestionCandidate]) -> QuestionOwner {
    if let Some(candidate) = candidates.iter().find(|candidate| Some(candidate.key) == token) {
        return QuestionOwner::Call(candidate.key);
    }
    match candidates {
        [] => QuestionOwner::Nobody,
        [only] => QuestionOwner::Call(only.key),
        [first, rest @ ..] if rest.iter().all(|other| other.caller == first.caller) => {
            let free = candidates.iter().filter(|candidate| !candidate.is_asking).map(|candidate| candidate.key);
            let newest = candidates.iter().map(|candidate| candidate.key).max();
            QuestionOwner::Call(free.min().or(newest).unwrap_or(first.key))
        }
        _ => QuestionOwner::Held,
    }
}

/// Questions that cannot be given to a call yet.
#[derive(Debug, Default)]
pub(crate) struct HeldQuestions(Mutex<VecDeque<RpcRequest>>);

impl HeldQuestions {
    pub(crate) fn push(&self, question: RpcRequest) {
        self.0.lock().push_back(question);
    }

    /// Forgets a question that the server has taken back; `false` when it is not here.
    pub(crate) fn remove(&self, id: &RequestId) -> bool {
        let mut held = self.0.lock();
        let before = held.len();
        held.retain(|question| question.id != *id);
        held.len() < before
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// Questions whose owner has become clear, with it; and those that nobody can ever tell.
    pub(crate) fn settle(&self, candidates: &[QuestionCandidate]) -> (Vec<(u64, RpcRequest)>, Vec<RpcRequest>) {
        let mut held = self.0.lock();
        let waiting = held.len();
        match owner(None, candidates) {
            QuestionOwner::Call(key) => (held.drain(..).map(|question| (key, question)).collect(), Vec::new()),
            QuestionOwner::Nobody => (Vec::new(), held.drain(..).collect()),
            QuestionOwner::Held if waiting >= candidates.len() => (Vec::new(), held.drain(..).collect()),
            QuestionOwner::Held => (Vec::new(), Vec::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tsugi_protocol::mcp::Method;

    fn candidate(key: u64, caller: &str) -> QuestionCandidate {
        QuestionCandidate { key, caller: Caller::new(caller), is_asking: false }
    }

    fn question(id: u64) -> RpcRequest {
        RpcRequest::new(RequestId::number(id), Method::Elicit, None)
    }

    #[test]
    fn a_token_decides_before_anything_else() {
        let calls = [candidate(1, "ann"), candidate(2, "bob")];
        assert_eq!(owner(Some(2), &calls), QuestionOwner::Call(2));
        assert_eq!(owner(Some(9), &calls), QuestionOwner::Held);
    }

    #[test]
    fn a_single_call_is_the_one() {
        assert_eq!(owner(None, &[candidate(5, "ann")]), QuestionOwner::Call(5));
        assert_eq!(owner(None, &[]), QuestionOwner::Nobody);
    }

    #[test]
    fn calls_of_one_caller_take_questions_oldest_first() {
        let mut calls = [candidate(7, "ann"), candidate(3, "ann")];
        assert_eq!(owner(None, &calls), QuestionOwner::Call(3));
        calls[1].is_asking = true;
        assert_eq!(owner(None, &calls), QuestionOwner::Call(7));
        calls[0].is_asking = true;
        assert_eq!(owner(None, &calls), QuestionOwner::Call(7), "the newest asks several things at once");
    }

    #[test]
    fn between_two_callers_the_question_waits_until_one_call_is_left() {
        let held = HeldQuestions::default();
        let calls = [candidate(1, "ann"), candidate(2, "bob")];
        assert_eq!(owner(None, &calls), QuestionOwner::Held);
        held.push(question(40));
        assert!(held.settle(&calls).0.is_empty());
        let (settled, refused) = held.settle(&calls[1..]);
        assert_eq!(settled.iter().map(|(key, _)| *key).collect::<Vec<_>>(), [2]);
        assert!(refused.is_empty() && held.is_empty());
    }

    #[test]
    fn two_questions_of_two_callers_are_refused_rather_than_crossed() {
        let held = HeldQuestions::default();
        let calls = [candidate(1, "ann"), candidate(2, "bob")];
        held.push(question(40));
        held.push(question(41));
        let (settled, refused) = held.settle(&calls);
        assert!(settled.is_empty());
        assert_eq!(refused.len(), 2);
    }
}

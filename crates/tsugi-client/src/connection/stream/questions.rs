//! The questions of a legacy server on a shared stream: each to the call it belongs to, as far as can be told.

use std::collections::HashMap;

use tsugi_protocol::mcp::{Method, meta};
use tsugi_protocol::rpc::{RequestId, RpcError, RpcRequest, RpcResponse, code};

use super::{CallArrival, StreamCore};
use crate::connection::question::{QuestionCandidate, QuestionOwner, owner};

/// How many questions of one call may be open at once. A server that asks without end must not fill the memory while
/// the caller answers.
const MAX_QUESTIONS: usize = 16;

/// How a question that a call was given stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QuestionStanding {
    /// The server waits for its answer.
    Open,
    /// The server has answered the call, so the question is another call's.
    Misplaced,
    /// The server has taken it back.
    Withdrawn,
}

/// What is known of calls that were given a question.
#[derive(Debug, Default)]
pub(super) struct QuestionLedger {
    /// Calls with questions that are not answered, and the ids of those.
    asking: HashMap<u64, Vec<RequestId>>,
    /// Calls that the server has answered while they had such questions: these were not theirs.
    answered: HashMap<u64, Vec<RequestId>>,
}

impl QuestionLedger {
    /// Counts one more question of a call; `false` when it has too many.
    fn add(&mut self, key: u64, id: &RequestId) -> bool {
        let open = self.asking.entry(key).or_default();
        let has_room = open.len() < MAX_QUESTIONS;
        if has_room {
            open.push(id.clone());
        }
        has_room
    }

    fn remove(&mut self, key: u64, id: &RequestId) {
        let Some(open) = self.asking.get_mut(&key) else { return };
        open.retain(|other| other != id);
        if open.is_empty() {
            self.asking.remove(&key);
        }
    }

    /// Forgets a question that the server has taken back; `false` when no call has it.
    fn withdraw(&mut self, id: &RequestId) -> bool {
        let all = self.asking.iter().chain(&self.answered);
        let Some(key) = all.into_iter().find(|(_, open)| open.contains(id)).map(|(key, _)| *key) else { return false };
        self.remove(key, id);
        if let Some(misplaced) = self.answered.get_mut(&key) {
            misplaced.retain(|other| other != id);
        }
        true
    }
}

impl StreamCore {
    /// The calls in flight that may be the ones that ask.
    fn candidates(&self) -> Vec<QuestionCandidate> {
        let questions = self.questions.lock();
        let mut candidates = Vec::new();
        self.pending.for_each(|key, tag| {
            if tag.may_ask && !questions.answered.contains_key(&key) {
                let is_asking = questions.asking.contains_key(&key);
                candidates.push(QuestionCandidate { key, caller: tag.caller.clone(), is_asking });
            }
        });
        candidates
    }

    /// Finds the call that a question belongs to.
    pub(super) fn route_question(&self, request: RpcRequest) {
        let named = request.params_object().and_then(|params| params.get_object("_meta"));
        let token = named.and_then(|meta| RequestId::from_raw(meta.get(meta::PROGRESS_TOKEN)?)?.as_u64());
        match owner(token, &self.candidates()) {
            QuestionOwner::Call(key) => {
                self.turnstile.turn_on();
                self.give(key, request);
            }
            // A server that asks for roots outside any call (right after the handshake, say) gets those that its only
            // caller told of, or none.
            QuestionOwner::Nobody if request.method == Method::RootsList => {
                self.respond(&RpcResponse::result(request.id, self.context.roots()));
            }
            QuestionOwner::Nobody => self.refuse(request),
            QuestionOwner::Held => {
                self.turnstile.turn_on();
                self.held.push(request);
                self.settle();
            }
        }
    }

    /// Gives a question to a call; one that has just ended cannot take it.
    fn give(&self, key: u64, request: RpcRequest) {
        if !self.questions.lock().add(key, &request.id) {
            return self.refuse(request);
        }
        if let Err(CallArrival::Question(request)) = self.pending.post(key, CallArrival::Question(request)) {
            self.stopped_asking(key);
            self.refuse(request);
        }
    }

    /// A call of a server that asks was answered. If it has an open question, that was another call's (two
    /// calls of one caller, of which the older was taken for the one that asks), and goes to that one now.
    pub(super) fn answered(&self, key: u64) {
        let mut questions = self.questions.lock();
        let Some(open) = questions.asking.remove(&key) else { return };
        questions.answered.insert(key, open);
        drop(questions);
        for asked in self.context.parked.misplaced(key) {
            self.route_question(asked.request);
        }
    }

    /// One question of the call is answered, or refused.
    pub(super) fn settled(&self, key: u64, id: &RequestId) {
        self.questions.lock().remove(key, id);
    }

    /// How this question of the call stands.
    pub(super) fn standing(&self, key: u64, id: &RequestId) -> QuestionStanding {
        let questions = self.questions.lock();
        let has = |of: &HashMap<u64, Vec<RequestId>>| of.get(&key).is_some_and(|ids| ids.contains(id));
        match (has(&questions.asking), has(&questions.answered)) {
            (true, _) => QuestionStanding::Open,
            (_, true) => QuestionStanding::Misplaced,
            _ => QuestionStanding::Withdrawn,
        }
    }

    /// The server takes a question back. It may be on its way to its call, which looks again once it is parked.
    pub(super) fn withdraw(&self, id: &RequestId) {
        if self.held.remove(id) {
            return self.settle();
        }
        let is_known = self.questions.lock().withdraw(id);
        if is_known {
            self.context.parked.withdraw(self.place(), id);
        }
    }

    /// What tells this connection from others of its server.
    pub(super) fn place(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// The call has ended.
    pub(super) fn stopped_asking(&self, key: u64) {
        if !self.turnstile.is_on() {
            return;
        }
        let mut questions = self.questions.lock();
        questions.asking.remove(&key);
        questions.answered.remove(&key);
    }

    /// Looks again at held questions: a call has ended.
    pub(super) fn settle(&self) {
        // Only a server that asks has held questions.
        if !self.turnstile.is_on() || self.held.is_empty() {
            return;
        }
        let (settled, refused) = self.held.settle(&self.candidates());
        for (key, question) in settled {
            self.give(key, question);
        }
        for question in refused {
            self.refuse(question);
        }
    }

    /// Tells the server that nobody will be asked.
    pub(super) fn refuse(&self, request: RpcRequest) {
        let error = RpcError::new(code::INTERNAL_ERROR, "it cannot be told whose call this question belongs to");
        self.respond(&RpcResponse::error(Some(request.id), error));
    }
}

//! What a connection remembers about questions: which are open, which tools ask, and which calls were cancelled while
//! the server could still ask because of them.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tsugi_protocol::answer::Call;
use tsugi_protocol::mcp::AskableInputs;
use tsugi_protocol::rpc::{RequestId, RpcRequest};

use super::in_flight::{CallSlot, CallTable};
use super::question_owner::{AskingHabit, CallStanding, QuestionCandidate, QuestionClient};
use super::turnstile::TurnKind;

/// How many questions of one call may be open at once. A server that asks without end must not fill the memory while
/// the caller answers.
const MAX_QUESTIONS: usize = 16;
/// How many tools are remembered; resources are told apart by address, and there may be any number.
const MAX_HABITS: usize = 1024;
/// How many cancelled calls are remembered one by one.
const MAX_CANCELLED: usize = 256;
/// How long a server may go on with a call after it has read its cancellation: its threads do not stop at once.
pub(super) const CANCEL_GRACE: Duration = Duration::from_millis(500);

#[derive(Default)]
pub(crate) struct QuestionLedger {
    state: Mutex<LedgerState>,
    /// Spares answers the lock while no call was cancelled.
    has_cancelled: AtomicBool,
    /// Spares calls that end the lock while the server has not asked.
    has_asked: AtomicBool,
}

#[derive(Default)]
struct LedgerState {
    /// The ids of open questions, by the key of their call.
    open: HashMap<u64, Vec<RequestId>>,
    /// Calls that the server has answered while they had open questions.
    answered: HashSet<u64>,
    habits: HashMap<String, AskingHabit>,
    cancelled: Vec<CancelledCall>,
    /// Set while more calls were cancelled than are remembered: any client's question may be one of theirs.
    crowd_until: Option<Instant>,
}

/// A call that was cancelled. Its server may have asked before it read the cancellation, or may ignore it.
pub(super) struct CancelledCall {
    pub(super) key: u64,
    pub(super) call: Call,
    /// It was parked: its server got an error for its question too, and ends it when it has read that.
    pub(super) was_parked: bool,
    /// The slot of a ping that was sent after the cancellation. On an ordered wire its answer shows that everything
    /// the server wrote before it read the cancellation has arrived.
    pub(super) barrier: Option<CallSlot>,
    /// Until then, a question is as likely this call's as any other's.
    pub(super) suspect_until: Instant,
    /// Until then, a question of a tool that is not known to ask may be this call's.
    pub(super) doubt_until: Instant,
}

impl LedgerState {
    fn habit(&self, call: &Call) -> AskingHabit {
        let subject = call.subject();
        subject.and_then(|subject| self.habits.get(subject.as_ref())).copied().unwrap_or_default()
    }

    fn set_habit(&mut self, call: &Call, habit: AskingHabit) {
        let Some(subject) = call.subject() else { return };
        match habit {
            AskingHabit::Unknown => drop(self.habits.remove(subject.as_ref())),
            _ if self.habits.len() < MAX_HABITS || self.habits.contains_key(subject.as_ref()) => {
                self.habits.insert(subject.into_owned(), habit);
            }
            _ => {}
        }
    }

    fn forget_old(&mut self, now: Instant) {
        self.cancelled.retain(|call| call.doubt_until > now);
        self.crowd_until = self.crowd_until.filter(|until| *until > now);
    }

    fn candidate(&self, key: u64, call: &Call, request: &RpcRequest, standing: CallStanding) -> QuestionCandidate {
        let params = request.params_object();
        QuestionCandidate {
            key,
            client: QuestionClient::of(key, call),
            can_answer: call.meta.client.capabilities.missing_for(&request.method, params.as_ref()).is_none(),
            is_asking: self.open.contains_key(&key),
            standing,
            habit: self.habit(call),
        }
    }
}

impl QuestionLedger {
    /// How a call may run beside others of a server that asks; `None` when it needs no turn.
    pub(super) fn turn_kind(&self, call: &Call) -> Option<TurnKind> {
        let can_be_asked = call.meta.client.capabilities.askable() != AskableInputs::default();
        match (can_be_asked, self.state.lock().habit(call)) {
            (true, AskingHabit::Quiet) => Some(TurnKind::Shared),
            (true, _) => Some(TurnKind::Alone),
            // Its server asks all the same, and beside another call the question could be taken for that call's.
            (false, AskingHabit::Asks) => Some(TurnKind::Shared),
            (false, _) => None,
        }
    }

    /// Whether a question may be this call's: not of a tool that is known not to ask, and of a client that cannot be
    /// asked only when the tool is known to ask.
    pub(super) fn may_ask(&self, call: &Call) -> bool {
        // Many clients declare nothing, and their calls are cheap to leave out.
        let can_be_asked = call.meta.client.capabilities.askable() != AskableInputs::default();
        let habit = self.state.lock().habit(call);
        call.method.may_ask() && (habit == AskingHabit::Asks || can_be_asked && habit != AskingHabit::Quiet)
    }

    /// Records a question of a call; `false` when the call has too many.
    pub(super) fn add(&self, key: u64, id: &RequestId) -> bool {
        self.has_asked.store(true, Ordering::Release);
        let mut state = self.state.lock();
        let open = state.open.entry(key).or_default();
        let has_room = open.len() < MAX_QUESTIONS;
        if has_room {
            open.push(id.clone());
        }
        has_room
    }

    /// The question was answered, refused or withdrawn; `false` when no call has it.
    pub(super) fn remove(&self, id: &RequestId) -> bool {
        let mut state = self.state.lock();
        let Some(key) = state.open.iter().find(|(_, ids)| ids.contains(id)).map(|(key, _)| *key) else { return false };
        let ids = state.open.entry(key).or_default();
        ids.retain(|other| other != id);
        if ids.is_empty() {
            state.open.remove(&key);
        }
        true
    }

    /// Whether the server still waits for the answer to this question of the call.
    pub(super) fn is_open(&self, key: u64, id: &RequestId) -> bool {
        self.state.lock().open.get(&key).is_some_and(|ids| ids.contains(id))
    }

    /// The tool of this call has made its server ask.
    pub(super) fn set_asks(&self, call: &Call) {
        self.state.lock().set_habit(call, AskingHabit::Asks);
    }

    /// The tool of this call may have made its server ask, and takes turns again until that is clear.
    pub(super) fn doubt(&self, call: &Call) {
        let mut state = self.state.lock();
        if state.habit(call) == AskingHabit::Quiet {
            state.set_habit(call, AskingHabit::Unknown);
        }
    }

    /// The call has ended; `is_quiet` when it ran alone and its server asked nothing.
    pub(super) fn end(&self, key: u64, call: &Call, is_quiet: bool) {
        let mut state = self.state.lock();
        state.open.remove(&key);
        state.answered.remove(&key);
        // A tool that has asked once may ask again, however often it does not.
        if is_quiet && state.habit(call) == AskingHabit::Unknown {
            state.set_habit(call, AskingHabit::Quiet);
        }
    }

    /// Remembers a cancelled call.
    pub(super) fn cancel(&self, cancelled: CancelledCall) {
        let mut state = self.state.lock();
        state.forget_old(Instant::now());
        if state.cancelled.len() < MAX_CANCELLED {
            state.cancelled.push(cancelled);
        } else {
            // Its own entry is not kept, so any question may be its until then.
            state.crowd_until = state.crowd_until.max(Some(cancelled.suspect_until));
        }
        self.has_cancelled.store(true, Ordering::Release);
    }

    /// The server has answered these: cancelled calls, or the pings after their cancellation.
    pub(super) fn answered(&self, keys: impl Iterator<Item = u64> + Clone) {
        let now = Instant::now();
        let mut state = self.state.lock();
        let (over, mut rest): (Vec<_>, Vec<_>) = std::mem::take(&mut state.cancelled).into_iter().partition(|call| {
            let is_ponged = keys.clone().any(|key| call.barrier.as_ref().is_some_and(|barrier| barrier.key() == key));
            keys.clone().any(|key| key == call.key) || is_ponged && call.was_parked
        });
        let mut barriers = Vec::new();
        for call in &mut rest {
            let is_ponged = |barrier: &mut CallSlot| keys.clone().any(|key| key == barrier.key());
            if let Some(barrier) = call.barrier.take_if(is_ponged) {
                barriers.push(barrier);
                call.suspect_until = now + CANCEL_GRACE;
            }
        }
        state.cancelled = rest;
        self.has_cancelled.store(!state.cancelled.is_empty() || state.crowd_until.is_some(), Ordering::Release);
        drop(state);
        // Dropped outside the lock: a slot takes the table's lock.
        drop((over, barriers));
    }

    /// Notes that the server has answered this call; `false` when it has no open question.
    pub(super) fn set_answered(&self, key: u64) -> bool {
        let mut state = self.state.lock();
        let is_asking = state.open.contains_key(&key);
        if is_asking {
            state.answered.insert(key);
        }
        is_asking
    }

    /// How long this cancelled call stays a suspect at least; `None` when it no longer is one.
    pub(super) fn suspect_until(&self, key: u64) -> Option<Instant> {
        let state = self.state.lock();
        let call = state.cancelled.iter().find(|call| call.key == key)?;
        Some(call.suspect_until).filter(|until| *until > Instant::now())
    }

    pub(super) fn has_asked(&self) -> bool {
        self.has_asked.load(Ordering::Acquire)
    }

    pub(super) fn has_cancelled(&self) -> bool {
        self.has_cancelled.load(Ordering::Acquire)
    }
}

impl CallTable {
    /// The calls that may be the reason for this question; `None` when too many were cancelled to say.
    pub(super) fn candidates(&self, request: &RpcRequest) -> Option<Vec<QuestionCandidate>> {
        let mut state = self.ledger.state.lock();
        let now = Instant::now();
        state.forget_old(now);
        // More calls were cancelled than can be compared with.
        if state.crowd_until.is_some() {
            return None;
        }
        let cancelled = state.cancelled.iter().map(|call| {
            let is_suspect = call.suspect_until > now;
            let standing = if is_suspect { CallStanding::Suspect } else { CallStanding::Doubted };
            state.candidate(call.key, &call.call, request, standing)
        });
        let mut candidates: Vec<_> = cancelled.collect();
        self.pending.for_each(|key, call| {
            let may_ask = |call: &&Call| call.method.may_ask() && !state.answered.contains(&key);
            if let Some(call) = call.of_caller().filter(may_ask) {
                candidates.push(state.candidate(key, call, request, CallStanding::InFlight));
            }
        });
        Some(candidates)
    }
}

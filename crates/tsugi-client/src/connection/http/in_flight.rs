//! The calls in flight over HTTP, so that what a legacy server says on the session's own stream finds its call.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tsugi_protocol::answer::{Call, Caller};
use tsugi_protocol::era::notification;
use tsugi_protocol::json::RawJson;
use tsugi_protocol::mcp::{Method, meta};
use tsugi_protocol::rpc::{RequestId, RpcError, RpcNotification, RpcRequest, RpcResponse, code};

use super::HttpCore;
use crate::connection::question::{QuestionCandidate, QuestionOwner, owner};

/// What reaches a call beside its own answer.
pub(super) enum CallDelivery {
    /// The server asks because of this call.
    Question(RpcRequest),
    /// The server asks, and this call is taken for the one that made it ask.
    Guess(RpcRequest),
    /// The line with the answer, which came another way.
    Answer(Bytes),
    /// The server tells how far the call is.
    Progress(RpcNotification),
}

/// The calls in flight.
#[derive(Clone, Default)]
pub(super) struct HttpFlights(Arc<Mutex<Vec<FlightEntry>>>);

struct FlightEntry {
    id: u64,
    caller: Caller,
    may_ask: bool,
    /// False for our own listening to a server's changes.
    is_of_caller: bool,
    mail: Option<mpsc::Sender<CallDelivery>>,
    /// The ids of its questions that are not answered.
    questions: Vec<RequestId>,
}

/// A call's place among the flights, given up when dropped.
pub(super) struct FlightGuard {
    flights: HttpFlights,
    id: u64,
}

impl HttpFlights {
    pub(super) fn take_off(&self, id: u64, call: &Call, mail: Option<mpsc::Sender<CallDelivery>>) -> FlightGuard {
        let (may_ask, is_of_caller) = (call.method.may_ask(), call.method != Method::Listen);
        let entry = FlightEntry { id, caller: call.caller.clone(), may_ask, is_of_caller, mail, questions: Vec::new() };
        self.0.lock().push(entry);
        FlightGuard { flights: self.clone(), id }
    }

    /// How many calls of callers there are.
    pub(super) fn len(&self) -> usize {
        self.0.lock().iter().filter(|entry| entry.is_of_caller).count()
    }

    fn candidates(&self) -> Vec<QuestionCandidate> {
        let asking = |entry: &FlightEntry| entry.may_ask && entry.mail.is_some();
        let entries = self.0.lock();
        entries
            .iter()
            .filter(|entry| asking(entry))
            .map(|entry| QuestionCandidate {
                key: entry.id,
                caller: entry.caller.clone(),
                is_asking: !entry.questions.is_empty(),
            })
            .collect()
    }

    /// The call was given a question.
    pub(super) fn asked(&self, id: u64, question: &RequestId) {
        if let Some(entry) = self.0.lock().iter_mut().find(|entry| entry.id == id) {
            entry.questions.push(question.clone());
        }
    }

    /// A question is answered, refused, or taken back; `false` when no call has it.
    pub(super) fn settled(&self, question: &RequestId) -> bool {
        let mut entries = self.0.lock();
        let Some(entry) = entries.iter_mut().find(|entry| entry.questions.contains(question)) else { return false };
        entry.questions.retain(|other| other != question);
        true
    }

    /// False when the server has taken this question of the call back.
    pub(super) fn is_open(&self, id: u64, question: &RequestId) -> bool {
        self.0.lock().iter().any(|entry| entry.id == id && entry.questions.contains(question))
    }

    fn deliver(&self, id: u64, mail: CallDelivery) -> Result<(), CallDelivery> {
        let mut entries = self.0.lock();
        let Some(entry) = entries.iter_mut().find(|entry| entry.id == id) else { return Err(mail) };
        let Some(sender) = &entry.mail else { return Err(mail) };
        let question = match &mail {
            CallDelivery::Question(request) | CallDelivery::Guess(request) => Some(request.id.clone()),
            _ => None,
        };
        sender.try_send(mail).map_err(|error| error.into_inner())?;
        entry.questions.extend(question);
        Ok(())
    }
}

impl Drop for FlightGuard {
    fn drop(&mut self) {
        let mut entries = self.flights.0.lock();
        if let Some(index) = entries.iter().position(|entry| entry.id == self.id) {
            entries.swap_remove(index);
        }
    }
}

impl HttpCore {
    /// A request on the session's own stream. A question goes to the call it can be told to belong to.
    pub(super) fn stray_request(self: &Arc<Self>, request: RpcRequest) {
        let Some(question) = self.question_of(request) else { return };
        let named = question.params_object().and_then(|params| params.get_object("_meta"));
        let token = named.and_then(|meta| RequestId::from_raw(meta.get(meta::PROGRESS_TOKEN)?)?.as_u64());
        let delivered = match owner(token, &self.flights.candidates()) {
            QuestionOwner::Call(id) if Some(id) == token => self.flights.deliver(id, CallDelivery::Question(question)),
            QuestionOwner::Call(id) => self.flights.deliver(id, CallDelivery::Guess(question)),
            QuestionOwner::Nobody | QuestionOwner::Held => Err(CallDelivery::Guess(question)),
        };
        if let Err(CallDelivery::Question(question) | CallDelivery::Guess(question)) = delivered {
            self.refuse(question);
        }
    }

    /// The server takes a question back. It may be on its way to its call, which looks again once it is parked.
    pub(super) fn withdraw(&self, notification: &RpcNotification) {
        if let Some(id) = notification::cancelled_id(notification).filter(|id| self.flights.settled(id)) {
            self.context.parked.withdraw(self.place(), &id);
        }
    }

    /// What tells this connection from others of its server.
    pub(super) fn place(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// The question in a server's request. What is none is answered here and now: no call has to be looked for.
    pub(super) fn question_of(self: &Arc<Self>, request: RpcRequest) -> Option<RpcRequest> {
        let response = match request.method {
            Method::Elicit | Method::CreateMessage | Method::RootsList => return Some(request),
            Method::Ping => RpcResponse::result(request.id, RawJson::literal("{}")),
            _ => RpcResponse::error(Some(request.id), RpcError::new(code::METHOD_NOT_FOUND, "method not found")),
        };
        self.send_aside(response.to_bytes());
        None
    }

    /// Tells the server that nobody will be asked. One that asks for roots outside any call gets those that its only
    /// caller told of, or none.
    pub(super) fn refuse(self: &Arc<Self>, question: RpcRequest) {
        let response = if question.method == Method::RootsList {
            RpcResponse::result(question.id, self.context.roots())
        } else {
            let error = RpcError::new(code::INTERNAL_ERROR, "it cannot be told whose call this question belongs to");
            RpcResponse::error(Some(question.id), error)
        };
        self.send_aside(response.to_bytes());
    }

    /// Progress on the session's own stream, where servers written with the Python SDK 1.x tell it. When more
    /// waits than the call has taken, the newest is lost, as progress may be.
    pub(super) fn stray_progress(&self, note: RpcNotification) {
        let token =
            note.params_object().get(meta::PROGRESS_TOKEN).and_then(|token| RequestId::from_raw(token)?.as_u64());
        if let Some(id) = token {
            let _ = self.flights.deliver(id, CallDelivery::Progress(note));
        }
    }

    /// An answer on the session's own stream: a server may send it there after its call's stream broke.
    pub(super) fn stray_answer(&self, id: Option<&RequestId>, line: Bytes) {
        if let Some(id) = id.and_then(RequestId::as_u64) {
            let _ = self.flights.deliver(id, CallDelivery::Answer(line));
        }
    }
}

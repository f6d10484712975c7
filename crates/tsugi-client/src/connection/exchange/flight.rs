//! The calls in flight over HTTP, so that what a legacy server says on the session's own stream finds its call.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tsugi_protocol::answer::{Call, Caller};
use tsugi_protocol::era::change;
use tsugi_protocol::json::Raw;
use tsugi_protocol::mcp::{Method, meta};
use tsugi_protocol::rpc::{Id, Notification, Request, Response, RpcError, code};

use super::Shared;
use crate::connection::question::{Candidate, Owner, owner};

/// What reaches a call beside its own answer.
pub(super) enum Mail {
    /// The server asks because of this call.
    Question(Request),
    /// The server asks, and this call is taken for the one that made it ask.
    Guess(Request),
    /// The line with the answer, which came another way.
    Answer(Bytes),
    /// The server tells how far the call is.
    Progress(Notification),
}

/// The calls in flight.
#[derive(Clone, Default)]
pub(super) struct Flights(Arc<Mutex<Vec<Entry>>>);

struct Entry {
    id: u64,
    caller: Caller,
    may_ask: bool,
    /// False for our own listening to a server's changes.
    is_of_caller: bool,
    mail: Option<mpsc::Sender<Mail>>,
    /// The ids of its questions that are not answered.
    questions: Vec<Id>,
}

/// A call's place among the flights, given up when dropped.
pub(super) struct Flight {
    flights: Flights,
    id: u64,
}

impl Flights {
    pub(super) fn take_off(&self, id: u64, call: &Call, mail: Option<mpsc::Sender<Mail>>) -> Flight {
        let (may_ask, is_of_caller) = (call.method.may_ask(), call.method != Method::Listen);
        let entry = Entry { id, caller: call.caller.clone(), may_ask, is_of_caller, mail, questions: Vec::new() };
        self.0.lock().push(entry);
        Flight { flights: self.clone(), id }
    }

    /// How many calls of callers there are.
    pub(super) fn len(&self) -> usize {
        self.0.lock().iter().filter(|entry| entry.is_of_caller).count()
    }

    fn candidates(&self) -> Vec<Candidate> {
        let asking = |entry: &Entry| entry.may_ask && entry.mail.is_some();
        let entries = self.0.lock();
        entries
            .iter()
            .filter(|entry| asking(entry))
            .map(|entry| Candidate {
                key: entry.id,
                caller: entry.caller.clone(),
                is_asking: !entry.questions.is_empty(),
            })
            .collect()
    }

    /// The call was given a question.
    pub(super) fn asked(&self, id: u64, question: &Id) {
        if let Some(entry) = self.0.lock().iter_mut().find(|entry| entry.id == id) {
            entry.questions.push(question.clone());
        }
    }

    /// A question is answered, refused, or taken back; `false` when no call has it.
    pub(super) fn settled(&self, question: &Id) -> bool {
        let mut entries = self.0.lock();
        let Some(entry) = entries.iter_mut().find(|entry| entry.questions.contains(question)) else { return false };
        entry.questions.retain(|other| other != question);
        true
    }

    /// False when the server has taken this question of the call back.
    pub(super) fn is_open(&self, id: u64, question: &Id) -> bool {
        self.0.lock().iter().any(|entry| entry.id == id && entry.questions.contains(question))
    }

    fn deliver(&self, id: u64, mail: Mail) -> Result<(), Mail> {
        let mut entries = self.0.lock();
        let Some(entry) = entries.iter_mut().find(|entry| entry.id == id) else { return Err(mail) };
        let Some(sender) = &entry.mail else { return Err(mail) };
        let question = match &mail {
            Mail::Question(request) | Mail::Guess(request) => Some(request.id.clone()),
            _ => None,
        };
        sender.try_send(mail).map_err(|error| error.into_inner())?;
        entry.questions.extend(question);
        Ok(())
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let mut entries = self.flights.0.lock();
        if let Some(index) = entries.iter().position(|entry| entry.id == self.id) {
            entries.swap_remove(index);
        }
    }
}

impl Shared {
    /// A request on the session's own stream. A question goes to the call it can be told to belong to.
    pub(super) fn stray_request(self: &Arc<Self>, request: Request) {
        let Some(question) = self.question_of(request) else { return };
        let named = question.params_object().and_then(|params| params.get_object("_meta"));
        let token = named.and_then(|meta| Id::from_raw(meta.get(meta::PROGRESS_TOKEN)?)?.as_u64());
        let delivered = match owner(token, &self.flights.candidates()) {
            Owner::Call(id) if Some(id) == token => self.flights.deliver(id, Mail::Question(question)),
            Owner::Call(id) => self.flights.deliver(id, Mail::Guess(question)),
            Owner::Nobody | Owner::Held => Err(Mail::Guess(question)),
        };
        if let Err(Mail::Question(question) | Mail::Guess(question)) = delivered {
            self.refuse(question);
        }
    }

    /// The server takes a question back. It may be on its way to its call, which looks again once it is parked.
    pub(super) fn withdraw(&self, notification: &Notification) {
        if let Some(id) = change::cancelled_id(notification).filter(|id| self.flights.settled(id)) {
            self.context.parked.withdraw(self.place(), &id);
        }
    }

    /// What tells this connection from others of its server.
    pub(super) fn place(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// The question in a server's request. What is none is answered here and now: no call has to be looked for.
    pub(super) fn question_of(self: &Arc<Self>, request: Request) -> Option<Request> {
        let response = match request.method {
            Method::Elicit | Method::CreateMessage | Method::RootsList => return Some(request),
            Method::Ping => Response::result(request.id, Raw::literal("{}")),
            _ => Response::error(Some(request.id), RpcError::new(code::METHOD_NOT_FOUND, "method not found")),
        };
        self.send_aside(response.to_bytes());
        None
    }

    /// Tells the server that nobody will be asked. One that asks for roots outside any call gets those that its only
    /// caller told of, or none.
    pub(super) fn refuse(self: &Arc<Self>, question: Request) {
        let response = if question.method == Method::RootsList {
            Response::result(question.id, self.context.roots())
        } else {
            let error = RpcError::new(code::INTERNAL_ERROR, "it cannot be told whose call this question belongs to");
            Response::error(Some(question.id), error)
        };
        self.send_aside(response.to_bytes());
    }

    /// Progress on the session's own stream, where servers written with the Python SDK 1.x tell it. When more
    /// waits than the call has taken, the newest is lost, as progress may be.
    pub(super) fn stray_progress(&self, note: Notification) {
        let token = note.params_object().get(meta::PROGRESS_TOKEN).and_then(|token| Id::from_raw(token)?.as_u64());
        if let Some(id) = token {
            let _ = self.flights.deliver(id, Mail::Progress(note));
        }
    }

    /// An answer on the session's own stream: a server may send it there after its call's stream broke.
    pub(super) fn stray_answer(&self, id: Option<&Id>, line: Bytes) {
        if let Some(id) = id.and_then(Id::as_u64) {
            let _ = self.flights.deliver(id, Mail::Answer(line));
        }
    }
}

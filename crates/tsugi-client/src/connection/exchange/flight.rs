//! The calls in flight over HTTP, so that what a legacy server says on the session's own stream finds its call.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tsugi_protocol::answer::{Call, Caller};
use tsugi_protocol::json::Raw;
use tsugi_protocol::mcp::{Method, meta};
use tsugi_protocol::rpc::{Id, Notification, Request, Response, RpcError, code};

use super::Shared;
use crate::connection::question::{Candidate, Owner, owner};

/// What reaches a call beside its own answer.
pub(super) enum Mail {
    /// The server asks.
    Question(Request),
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
}

/// A call's place among the flights, given up when dropped.
pub(super) struct Flight {
    flights: Flights,
    id: u64,
}

impl Flights {
    pub(super) fn take_off(&self, id: u64, call: &Call, mail: Option<mpsc::Sender<Mail>>) -> Flight {
        let (may_ask, is_of_caller) = (call.method.may_ask(), call.method != Method::Listen);
        let entry = Entry { id, caller: call.caller.clone(), may_ask, is_of_caller, mail };
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
            .map(|entry| Candidate { key: entry.id, caller: entry.caller.clone(), is_asking: false })
            .collect()
    }

    fn deliver(&self, id: u64, mail: Mail) -> Result<(), Mail> {
        let sender = self.0.lock().iter().find(|entry| entry.id == id).and_then(|entry| entry.mail.clone());
        match sender {
            Some(sender) => sender.try_send(mail).map_err(|error| error.into_inner()),
            None => Err(mail),
        }
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
    /// A question on the session's own stream. It goes to the call it can be told to belong to.
    pub(super) fn stray_question(self: &Arc<Self>, request: Request) {
        let named = request.params_object().and_then(|params| params.get_object("_meta"));
        let token = named.and_then(|meta| Id::from_raw(meta.get(meta::PROGRESS_TOKEN)?)?.as_u64());
        let request = match owner(token, &self.flights.candidates()) {
            Owner::Call(id) => match self.flights.deliver(id, Mail::Question(request)) {
                Ok(()) => return,
                Err(Mail::Question(request)) => request,
                Err(_) => return,
            },
            Owner::Nobody | Owner::Held => request,
        };
        let response = match request.method {
            Method::Ping => Response::result(request.id, Raw::literal("{}")),
            Method::RootsList => Response::result(request.id, Raw::literal(r#"{"roots":[]}"#)),
            _ => {
                let error =
                    RpcError::new(code::INTERNAL_ERROR, "it cannot be told whose call this question belongs to");
                Response::error(Some(request.id), error)
            }
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

//! The stream of one modern call: notes as they come, then the response, then the end.

use std::task::{Context, Poll};

use bytes::Bytes;
use tsugi_protocol::answer::{Event, Note, Outcome};
use tsugi_protocol::mcp::Method;
use tsugi_protocol::rpc::{Id, Request, Response};

use super::outcome_of;
use crate::body::Chunks;
use crate::drain::Busy;
use crate::face::Asked;
use crate::face::event::{self, KeepAlive};
use crate::face::running::Running;

/// Dropping it, as hyper does when the client goes away, cancels the call.
pub(super) struct CallStream {
    id: Id,
    method: Method,
    first: Option<Bytes>,
    running: Option<Running>,
    keep_alive: KeepAlive,
    _busy: Busy,
}

impl CallStream {
    pub(super) fn new(asked: Asked<'_>, request: Request, running: Running, first: Note) -> Self {
        let keep_alive = KeepAlive::new(asked.gateway.config().limits.keep_alive);
        let first = Some(event::message(&first.to_bytes()));
        Self { id: request.id, method: request.method, first, running: Some(running), keep_alive, _busy: asked.busy }
    }
}

impl Chunks for CallStream {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(first));
        }
        let Some(running) = &mut self.running else { return Poll::Ready(None) };
        match running.poll_event(context) {
            Poll::Ready(Event::Note(note)) => {
                self.keep_alive.reset();
                Poll::Ready(Some(event::message(&note.to_bytes())))
            }
            Poll::Ready(Event::Done(outcome)) => {
                self.running = None;
                Poll::Ready(Some(event::message(&response(&self.id, &self.method, &outcome))))
            }
            Poll::Pending => self.keep_alive.poll(context).map(Some),
        }
    }
}

/// The response line that carries an outcome in the modern form.
pub(crate) fn response(id: &Id, method: &Method, outcome: &Outcome) -> Bytes {
    match outcome_of(method, outcome) {
        Ok(result) => Response::result(id.clone(), result.raw()).to_bytes(),
        Err(error) => error.response(Some(id)),
    }
}

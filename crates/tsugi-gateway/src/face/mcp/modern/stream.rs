//! The stream of one modern call: notes as they come, then the response, then the end.

use std::task::{Context, Poll};

use bytes::Bytes;
use tsugi_protocol::answer::{CallNote, Outcome, ReplyEvent};
use tsugi_protocol::mcp::Method;
use tsugi_protocol::rpc::{RequestId, RpcRequest, RpcResponse};

use super::outcome_of;
use crate::body::BodyChunks;
use crate::drain::BusyGuard;
use crate::face::FaceRequest;
use crate::face::event::{self, KeepAliveTicks};
use crate::face::running_call::RunningCall;

/// Dropping it, as hyper does when the client goes away, cancels the call.
pub(super) struct CallStream {
    id: RequestId,
    method: Method,
    first: Option<Bytes>,
    running: Option<RunningCall>,
    keep_alive: KeepAliveTicks,
    _busy: BusyGuard,
}

impl CallStream {
    pub(super) fn new(
        face_request: FaceRequest<'_>,
        request: RpcRequest,
        running: RunningCall,
        first: CallNote,
    ) -> Self {
        let keep_alive = KeepAliveTicks::new(face_request.gateway.config().limits.keep_alive);
        let first = Some(event::message(&first.to_bytes()));
        Self {
            id: request.id,
            method: request.method,
            first,
            running: Some(running),
            keep_alive,
            _busy: face_request.busy_guard,
        }
    }
}

impl BodyChunks for CallStream {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(first));
        }
        let Some(running) = &mut self.running else { return Poll::Ready(None) };
        match running.poll_event(context) {
            Poll::Ready(ReplyEvent::Note(note)) => {
                self.keep_alive.reset();
                Poll::Ready(Some(event::message(&note.to_bytes())))
            }
            Poll::Ready(ReplyEvent::Done(outcome)) => {
                self.running = None;
                Poll::Ready(Some(event::message(&response(&self.id, &self.method, &outcome))))
            }
            Poll::Pending => self.keep_alive.poll(context).map(Some),
        }
    }
}

/// The response line that carries an outcome in the modern form.
pub(crate) fn response(id: &RequestId, method: &Method, outcome: &Outcome) -> Bytes {
    match outcome_of(method, outcome) {
        Ok(result) => RpcResponse::result(id.clone(), result.raw()).to_bytes(),
        Err(error) => error.response(Some(id)),
    }
}

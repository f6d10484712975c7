//! The reply of a running handler: its notes first, then its outcome; a panic is an outcome too.

use std::collections::VecDeque;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use crate::answer::{CallNote, Outcome, Reply, ReplyEvent, ReplySource};
use crate::rpc::{RpcError, code};

/// How many notes wait for a slow reader. Then the oldest goes, since the newest progress says the most.
const MAX_NOTES: usize = 256;

pub(super) type HandlerFuture = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// Notes on their way from a handler to its reply. Only calls that asked for notes have one.
#[derive(Debug, Default)]
pub(super) struct NoteQueue(Mutex<QueuedNotes>);

#[derive(Debug, Default)]
struct QueuedNotes {
    notes: VecDeque<CallNote>,
    reader: Option<Waker>,
}

impl NoteQueue {
    pub(super) fn push(&self, note: CallNote) {
        let mut waiting = self.0.lock();
        if waiting.notes.len() == MAX_NOTES {
            waiting.notes.pop_front();
        }
        waiting.notes.push_back(note);
        if let Some(reader) = waiting.reader.take() {
            reader.wake();
        }
    }

    fn pop(&self) -> Option<CallNote> {
        self.0.lock().notes.pop_front()
    }

    /// The handler may have handed its context to a task elsewhere, which must be able to wake the reader.
    fn pop_or_wake(&self, waker: &Waker) -> Option<CallNote> {
        let mut waiting = self.0.lock();
        let note = waiting.notes.pop_front();
        if note.is_none() {
            waiting.reader = Some(waker.clone());
        }
        note
    }
}

/// The reply of a handler at work.
pub(super) fn reply(work: HandlerFuture, notes: Option<Arc<NoteQueue>>) -> Reply {
    Reply::from_source(HandlerReply { work, notes, outcome: None })
}

struct HandlerReply {
    work: HandlerFuture,
    notes: Option<Arc<NoteQueue>>,
    outcome: Option<Outcome>,
}

impl HandlerReply {
    fn poll_work(&mut self, context: &mut Context<'_>) {
        let polled = std::panic::catch_unwind(AssertUnwindSafe(|| self.work.as_mut().poll(context)));
        match polled {
            Ok(Poll::Ready(outcome)) => self.outcome = Some(outcome),
            Ok(Poll::Pending) => {}
            Err(_) => self.outcome = Some(panicked()),
        }
    }
}

impl ReplySource for HandlerReply {
    fn poll_event(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<ReplyEvent> {
        if let Some(note) = self.notes.as_ref().and_then(|notes| notes.pop()) {
            return Poll::Ready(ReplyEvent::Note(note));
        }
        if self.outcome.is_none() {
            self.poll_work(context);
        }
        if let Some(note) = self.notes.as_ref().and_then(|notes| notes.pop_or_wake(context.waker())) {
            return Poll::Ready(ReplyEvent::Note(note));
        }
        self.outcome.take().map_or(Poll::Pending, |outcome| Poll::Ready(ReplyEvent::Done(outcome)))
    }
}

/// The outcome of a panic. The caller learns only that it happened; the panic hook has logged the rest.
pub(super) fn panicked() -> Outcome {
    Outcome::error(RpcError::new(code::INTERNAL_ERROR, "the handler broke"))
}

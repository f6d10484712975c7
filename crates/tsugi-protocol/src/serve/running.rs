//! A handler at work inside a reply: its notes first, then its outcome; a panic is an outcome too.

use std::collections::VecDeque;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use crate::answer::{Event, Note, Outcome, Reply, Source};
use crate::rpc::{RpcError, code};

/// How many notes wait for a slow reader. Then the oldest goes, since the newest progress says the most.
const MAX_NOTES: usize = 256;

/// A handler's work.
pub(super) type Work = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// Notes on their way from a handler to its reply. Only calls that asked for notes have one.
#[derive(Debug, Default)]
pub(super) struct Notes(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    notes: VecDeque<Note>,
    reader: Option<Waker>,
}

impl Notes {
    pub(super) fn push(&self, note: Note) {
        let mut waiting = self.0.lock();
        if waiting.notes.len() == MAX_NOTES {
            waiting.notes.pop_front();
        }
        waiting.notes.push_back(note);
        if let Some(reader) = waiting.reader.take() {
            reader.wake();
        }
    }

    fn pop(&self) -> Option<Note> {
        self.0.lock().notes.pop_front()
    }

    /// The handler may have handed its context to a task elsewhere, which must be able to wake the reader.
    fn pop_or_wake(&self, waker: &Waker) -> Option<Note> {
        let mut waiting = self.0.lock();
        let note = waiting.notes.pop_front();
        if note.is_none() {
            waiting.reader = Some(waker.clone());
        }
        note
    }
}

/// The reply of a handler at work.
pub(super) fn reply(work: Work, notes: Option<Arc<Notes>>) -> Reply {
    Reply::from_source(Running { work, notes, outcome: None })
}

struct Running {
    work: Work,
    notes: Option<Arc<Notes>>,
    outcome: Option<Outcome>,
}

impl Running {
    fn poll_work(&mut self, context: &mut Context<'_>) {
        let polled = std::panic::catch_unwind(AssertUnwindSafe(|| self.work.as_mut().poll(context)));
        match polled {
            Ok(Poll::Ready(outcome)) => self.outcome = Some(outcome),
            Ok(Poll::Pending) => {}
            Err(_) => self.outcome = Some(panicked()),
        }
    }
}

impl Source for Running {
    fn poll_event(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Event> {
        if let Some(note) = self.notes.as_ref().and_then(|notes| notes.pop()) {
            return Poll::Ready(Event::Note(note));
        }
        if self.outcome.is_none() {
            self.poll_work(context);
        }
        if let Some(note) = self.notes.as_ref().and_then(|notes| notes.pop_or_wake(context.waker())) {
            return Poll::Ready(Event::Note(note));
        }
        self.outcome.take().map_or(Poll::Pending, |outcome| Poll::Ready(Event::Done(outcome)))
    }
}

/// What a caller hears of a panic: that it happened. The panic hook has already told the log the rest.
pub(super) fn panicked() -> Outcome {
    Outcome::error(RpcError::new(code::INTERNAL_ERROR, "the handler broke"))
}

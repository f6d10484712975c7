//! What comes up the seam: notes while the call runs, then exactly one outcome.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use parking_lot::Mutex;

use super::fault::Fault;
use crate::json::{JsonObject, RawJson};
use crate::mcp::Era;
use crate::mcp::{ServerIdentity, tool};
use crate::rpc::{RpcError, RpcNotification};

/// A notification that belongs to one call: progress, a log line, or one we do not know.
pub type CallNote = RpcNotification;

/// One step of a reply.
#[derive(Debug)]
pub enum ReplyEvent {
    /// Something happened; the call goes on.
    Note(CallNote),
    /// The call ended. Nothing comes after this.
    Done(Outcome),
}

/// How a call ended.
#[derive(Debug, Clone)]
pub enum Outcome {
    Complete(CompletedResult),
    /// With questions: answer them and ask again.
    InputRequired(InputRequired),
    Failed(CallFailure),
}

impl Outcome {
    /// A result in the modern form.
    pub fn complete(result: JsonObject) -> Self {
        Outcome::Complete(CompletedResult { body: result, era: Era::Modern, server: None })
    }

    /// A failure of our own.
    pub fn fault(fault: Fault) -> Self {
        Outcome::Failed(CallFailure::Fault(Box::new(fault)))
    }

    /// A failure that the server itself reported.
    pub fn error(error: RpcError) -> Self {
        Outcome::Failed(CallFailure::Upstream(Box::new(error)))
    }
}

/// A result as the server wrote it, with the era it was written in. Faces ask for the form they need
/// (`era::to_modern`, `era::to_legacy`), so that a result between two peers of one era is never touched.
#[derive(Debug, Clone)]
pub struct CompletedResult {
    pub body: JsonObject,
    /// The era of its form.
    pub era: Era,
    /// Who answered, for results that do not say it themselves.
    pub server: Option<Arc<ServerIdentity>>,
}

impl CompletedResult {
    /// True for the result of a tool that says it failed.
    pub fn is_tool_error(&self) -> bool {
        tool::is_error(&self.body)
    }
}

/// A server's questions, to be answered by a retry of the same call
/// ([MRTR](https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr)).
#[derive(Debug, Clone)]
pub struct InputRequired {
    /// The questions by key: `{"key":{"method":…,"params":…}}`. Absent when only the state is to be brought back.
    pub requests: Option<Box<JsonObject>>,
    /// To be echoed exactly in the retry; absent when there is none.
    pub state: Option<String>,
    /// Further members of the result, such as `_meta`.
    pub rest: Box<JsonObject>,
    /// Gives the call up at once, where it waits on our side for the answers.
    pub release: Option<InputRelease>,
}

/// Gives up a call that waits for input. For faces that know that no answer will come, because the client cancelled the
/// request or is gone: without it the call would wait until its state expires.
#[derive(Clone)]
pub struct InputRelease(Arc<dyn Fn() + Send + Sync>);

impl InputRelease {
    pub fn new(release: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(release))
    }

    /// Gives the call up. A call that was answered, or given up before, is left alone.
    pub fn release(&self) {
        (self.0)();
    }
}

impl fmt::Debug for InputRelease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InputRelease")
    }
}

/// Why a call failed.
#[derive(Debug, Clone)]
pub enum CallFailure {
    /// The server said so; passed on untouched.
    Upstream(Box<RpcError>),
    /// The way to the server failed, or we refused.
    Fault(Box<Fault>),
}

impl CallFailure {
    /// The failure as a JSON-RPC error.
    pub fn to_rpc(&self) -> RpcError {
        match self {
            CallFailure::Upstream(error) => (**error).clone(),
            CallFailure::Fault(fault) => fault.to_rpc(),
        }
    }
}

impl From<Fault> for CallFailure {
    fn from(fault: Fault) -> Self {
        CallFailure::Fault(Box::new(fault))
    }
}

/// Where a reply comes from while it is not there yet.
pub trait ReplySource: Send {
    /// The next step. After [`ReplyEvent::Done`] it is not polled again.
    fn poll_event(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<ReplyEvent>;

    /// True while the call is queued and nothing was sent yet. A source that does not know returns false.
    fn is_in_line(&self) -> bool {
        false
    }
}

/// A reply on its way. Dropping it cancels the call: the server is notified, and its late answer is ignored.
/// A reply that is ready costs no allocation; one that is not costs one box, no channel and no task.
pub struct Reply(ReplyState);

enum ReplyState {
    Ready(Outcome),
    Waiting(Pin<Box<dyn ReplySource>>),
    Ended,
}

impl Reply {
    /// A reply that is there already.
    pub fn ready(outcome: Outcome) -> Self {
        Reply(ReplyState::Ready(outcome))
    }

    /// A reply that failed before it began.
    pub fn fault(fault: Fault) -> Self {
        Self::ready(Outcome::fault(fault))
    }

    /// A reply from a source.
    pub fn from_source(source: impl ReplySource + 'static) -> Self {
        Reply(ReplyState::Waiting(Box::pin(source)))
    }

    /// A reply without notes from a future.
    pub fn from_future(future: impl Future<Output = Outcome> + Send + 'static) -> Self {
        Self::from_source(FutureSource(Box::pin(future)))
    }

    /// A reply from a future that may note things on the way through the handle it is given.
    /// Notes come out in order, before the outcome.
    pub fn from_noted_future<F>(start: impl FnOnce(NoteSink) -> F) -> Self
    where
        F: Future<Output = Outcome> + Send + 'static,
    {
        let notes = NoteSink::default();
        let future = start(notes.clone());
        Self::from_future_with_notes(notes, future)
    }

    /// The same for a future that goes on with notes it was given before.
    pub fn from_future_with_notes(notes: NoteSink, future: impl Future<Output = Outcome> + Send + 'static) -> Self {
        Self::from_source(NoteSource { future: Box::pin(future), notes, outcome: None })
    }

    /// A reply that a future will give: what takes time before the call can even start.
    pub fn from_pending_reply(future: impl Future<Output = Reply> + Send + 'static) -> Self {
        Self::from_source(LateSource::Starting(Box::pin(future)))
    }

    /// The next step, as a poll.
    pub fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<ReplyEvent> {
        match &mut self.0 {
            ReplyState::Waiting(source) => match source.as_mut().poll_event(context) {
                Poll::Ready(ReplyEvent::Done(outcome)) => {
                    // The source is dropped as soon as it is done: it may hold a slot of its server.
                    self.0 = ReplyState::Ended;
                    Poll::Ready(ReplyEvent::Done(outcome))
                }
                other => other,
            },
            ReplyState::Ready(_) => match std::mem::replace(&mut self.0, ReplyState::Ended) {
                ReplyState::Ready(outcome) => Poll::Ready(ReplyEvent::Done(outcome)),
                _ => Poll::Pending,
            },
            // Polling past the end is a mistake of the caller, and must not panic.
            ReplyState::Ended => Poll::Pending,
        }
    }

    /// The next step. After the outcome it never resolves again.
    pub async fn next(&mut self) -> ReplyEvent {
        std::future::poll_fn(|context| self.poll_event(context)).await
    }

    /// The outcome; notes on the way are dropped.
    pub async fn outcome(self) -> Outcome {
        self.outcome_with(|_| {}).await
    }

    /// The outcome; `on_note` sees each note on the way.
    pub async fn outcome_with(mut self, mut on_note: impl FnMut(CallNote)) -> Outcome {
        loop {
            match self.next().await {
                ReplyEvent::Note(note) => on_note(note),
                ReplyEvent::Done(outcome) => return outcome,
            }
        }
    }

    /// The outcome when it is there without waiting; otherwise the reply itself.
    pub fn into_ready(self) -> Result<Outcome, Reply> {
        match self.0 {
            ReplyState::Ready(outcome) => Ok(outcome),
            // Not polled here, since there is no task that it could wake.
            state => Err(Reply(state)),
        }
    }
}

/// A reply is a source too, for those who keep it in one of their own.
impl ReplySource for Reply {
    fn poll_event(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<ReplyEvent> {
        self.get_mut().poll_event(context)
    }

    fn is_in_line(&self) -> bool {
        matches!(&self.0, ReplyState::Waiting(source) if source.is_in_line())
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            ReplyState::Ready(_) => "Reply(ready)",
            ReplyState::Waiting(_) => "Reply(waiting)",
            ReplyState::Ended => "Reply(ended)",
        })
    }
}

struct FutureSource<F>(Pin<Box<F>>);

impl<F: Future<Output = Outcome> + Send> ReplySource for FutureSource<F> {
    fn poll_event(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<ReplyEvent> {
        self.0.as_mut().poll(context).map(ReplyEvent::Done)
    }
}

/// Where a future puts the notes of its reply. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct NoteSink(Arc<Mutex<VecDeque<CallNote>>>);

/// How many notes may wait for a caller that does not look; more are dropped.
const MAX_NOTES: usize = 1024;

impl NoteSink {
    pub fn push(&self, note: CallNote) {
        let mut waiting = self.0.lock();
        // A reader that does not keep up loses notes, never the outcome.
        if waiting.len() < MAX_NOTES {
            waiting.push_back(note);
        }
    }

    fn pop(&self) -> Option<CallNote> {
        self.0.lock().pop_front()
    }
}

struct NoteSource<F> {
    future: Pin<Box<F>>,
    notes: NoteSink,
    outcome: Option<Outcome>,
}

impl<F: Future<Output = Outcome> + Send> ReplySource for NoteSource<F> {
    fn poll_event(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<ReplyEvent> {
        // Notes that are waiting come before the outcome they belong to.
        if let Some(note) = self.notes.pop() {
            return Poll::Ready(ReplyEvent::Note(note));
        }
        if let Some(outcome) = self.outcome.take() {
            return Poll::Ready(ReplyEvent::Done(outcome));
        }
        // Polling may add notes, so they are looked for once more.
        let polled = self.future.as_mut().poll(context);
        match (self.notes.pop(), polled) {
            (Some(note), Poll::Ready(outcome)) => {
                // Kept until the remaining notes are delivered.
                self.outcome = Some(outcome);
                Poll::Ready(ReplyEvent::Note(note))
            }
            (Some(note), Poll::Pending) => Poll::Ready(ReplyEvent::Note(note)),
            (None, Poll::Ready(outcome)) => Poll::Ready(ReplyEvent::Done(outcome)),
            (None, Poll::Pending) => Poll::Pending,
        }
    }
}

enum LateSource {
    Starting(Pin<Box<dyn Future<Output = Reply> + Send>>),
    Started(Reply),
}

impl ReplySource for LateSource {
    fn poll_event(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<ReplyEvent> {
        if let LateSource::Starting(future) = &mut *self {
            let reply = std::task::ready!(future.as_mut().poll(context));
            *self = LateSource::Started(reply);
        }
        match &mut *self {
            LateSource::Started(reply) => reply.poll_event(context),
            // Not reached: the state has just been set above.
            LateSource::Starting(_) => Poll::Pending,
        }
    }

    fn is_in_line(&self) -> bool {
        matches!(self, LateSource::Started(reply) if reply.is_in_line())
    }
}

/// The raw value of a result, for callers that only want the JSON.
impl From<CompletedResult> for RawJson {
    fn from(complete: CompletedResult) -> Self {
        complete.body.raw()
    }
}

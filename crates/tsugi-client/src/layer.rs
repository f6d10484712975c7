//! The layers around a connection, one file each. What a layer does not need to do costs nothing.

use std::sync::Arc;

use tsugi_protocol::answer::{Answer, Call, Outcome, Reply, ReplySource};

pub(crate) mod breaker;
pub(crate) mod cache;
pub(crate) mod can_execute;
pub(crate) mod deadline;
pub(crate) mod debug;
pub(crate) mod limit;
pub(crate) mod pin;
pub(crate) mod retry;
pub(crate) mod task_wait;
pub(crate) mod trace;
pub(crate) mod validate;

/// Like [`Answer`], but with a named reply type, so that adjacent layers share one allocation per call. A layer
/// implements one of the two: [`Boxed`] makes an `Answer` of the outermost typed one.
pub(crate) trait TypedAnswer: Send + Sync {
    /// A reply that is not there yet. Dropping it cancels the call.
    type Waiting: ReplySource + Unpin + 'static;

    /// Makes the call: the outcome if it is there at once, else the reply to wait for.
    fn start(&self, call: Call) -> Result<Outcome, Self::Waiting>;
}

impl<A: Answer + ?Sized> TypedAnswer for Arc<A> {
    type Waiting = Reply;

    fn start(&self, call: Call) -> Result<Outcome, Reply> {
        self.answer(call).into_ready()
    }
}

/// A typed layer as an [`Answer`]: the one allocation of the typed layers in it.
pub(crate) struct Boxed<A>(pub(crate) A);

impl<A: TypedAnswer> Answer for Boxed<A> {
    fn answer(&self, call: Call) -> Reply {
        reply(self.0.start(call))
    }
}

fn reply(asked: Result<Outcome, impl ReplySource + 'static>) -> Reply {
    match asked {
        Ok(outcome) => Reply::ready(outcome),
        Err(waiting) => Reply::from_source(waiting),
    }
}

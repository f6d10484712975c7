//! The layers around a connection, one file each. What a layer does not need to do costs nothing.

use std::sync::Arc;

use tsugi_protocol::answer::{Answer, Call, Outcome, Reply, ReplySource};

pub(crate) mod breaker;
pub(crate) mod cache;
pub(crate) mod can_execute;
pub(crate) mod deadline;
pub(crate) mod limit;
pub(crate) mod retry;
pub(crate) mod trace;
pub(crate) mod validate;

/// Somebody who answers, and says what the answer is while it is not there yet. Layers that know it of each other share
/// one box for each call; an [`Answer`], which does not say, needs a box of its own.
pub(crate) trait TypedAnswer: Send + Sync {
    /// The reply while it is on its way. Dropping it cancels the call.
    type Waiting: ReplySource + Unpin + 'static;

    /// Asks: the outcome when it is there at once, else the reply on its way.
    fn start(&self, call: Call) -> Result<Outcome, Self::Waiting>;
}

impl<A: Answer + ?Sized> TypedAnswer for Arc<A> {
    type Waiting = Reply;

    fn start(&self, call: Call) -> Result<Outcome, Reply> {
        self.answer(call).into_ready()
    }
}

/// What was asked, as a reply.
fn reply(asked: Result<Outcome, impl ReplySource + 'static>) -> Reply {
    match asked {
        Ok(outcome) => Reply::ready(outcome),
        Err(waiting) => Reply::from_source(waiting),
    }
}

//! A connection to a server in this process: it has no wire, but seals the states that callers bring back.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, ready};

use tsugi_protocol::answer::{Answer, Call, Outcome, Reply, ReplyEvent, ReplySource};
use tsugi_protocol::mcp::ServerIdentity;

use super::context::ConnectionContext;

pub(crate) struct InProcessConnection {
    context: Arc<ConnectionContext>,
    server: Arc<dyn Answer>,
    identity: Arc<ServerIdentity>,
}

impl InProcessConnection {
    pub(crate) fn new(context: Arc<ConnectionContext>, server: Arc<dyn Answer>, identity: ServerIdentity) -> Self {
        Self { context, server, identity: Arc::new(identity) }
    }

    pub(crate) fn identity(&self) -> Arc<ServerIdentity> {
        self.identity.clone()
    }
}

impl Answer for InProcessConnection {
    /// Seals the state of an answer, and opens the state that a call brings back, as for any other server.
    fn answer(&self, call: Call) -> Reply {
        if !call.method.may_ask() {
            return self.server.answer(call);
        }
        let call = match self.context.resume_or_pass(call) {
            Ok(call) => call,
            Err(reply) => return reply,
        };
        let asked = call.clone();
        match self.server.answer(call).into_ready() {
            Ok(outcome) => Reply::ready(seal(&self.context, &asked, outcome)),
            Err(reply) => Reply::from_source(SealingReply { context: self.context.clone(), call: asked, reply }),
        }
    }
}

fn seal(context: &ConnectionContext, call: &Call, outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::InputRequired(asked) => Outcome::InputRequired(context.seal_state(call, asked)),
        other => other,
    }
}

struct SealingReply {
    context: Arc<ConnectionContext>,
    call: Call,
    reply: Reply,
}

impl ReplySource for SealingReply {
    fn poll_event(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<ReplyEvent> {
        Poll::Ready(match ready!(self.reply.poll_event(task)) {
            ReplyEvent::Done(outcome) => ReplyEvent::Done(seal(&self.context, &self.call, outcome)),
            note => note,
        })
    }
}

//! Limits the calls in flight: the rest wait in a short queue that is fair between callers.

mod gate;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Instant;

use tsugi_protocol::answer::{Call, Fault, Identity, Outcome, Reply, ReplyEvent, ReplySource};

use super::{TypedAnswer, reply};
pub(crate) use gate::ConcurrencyGate;
use gate::GatePermit;

/// Lets calls through the gate of a server and then through the gate of all servers, where there are gates.
pub(crate) struct LimitLayer<A> {
    inner: A,
    server: Arc<str>,
    gates: GatePair,
}

#[derive(Clone)]
struct GatePair {
    own: Option<Arc<ConcurrencyGate>>,
    common: Option<Arc<ConcurrencyGate>>,
}

/// The permits that a call holds while it is in flight.
pub(crate) struct GatePermits {
    _own: Option<GatePermit>,
    _common: Option<GatePermit>,
}

impl<A> LimitLayer<A> {
    /// Around `inner`, with the gate of this server and that of all.
    pub(crate) fn new(
        inner: A,
        server: Arc<str>,
        own: Option<Arc<ConcurrencyGate>>,
        common: Option<Arc<ConcurrencyGate>>,
    ) -> Self {
        Self { inner, server, gates: GatePair { own, common } }
    }
}

impl GatePair {
    /// Both permits, if they are free now and no call waits for them.
    fn enter_now(&self) -> Option<GatePermits> {
        let own = match &self.own {
            Some(gate) => Some(gate.enter_now()?),
            None => None,
        };
        let common = match &self.common {
            Some(gate) => Some(gate.enter_now()?),
            None => None,
        };
        Some(GatePermits { _own: own, _common: common })
    }

    async fn enter(&self, identity: &Identity) -> Result<GatePermits, Fault> {
        // The server's own gate first: a call that waits for its server must not hold a place of all servers.
        let own = Self::pass(&self.own, identity).await?;
        let common = Self::pass(&self.common, identity).await?;
        Ok(GatePermits { _own: own, _common: common })
    }

    async fn pass(gate: &Option<Arc<ConcurrencyGate>>, identity: &Identity) -> Result<Option<GatePermit>, Fault> {
        match gate {
            Some(gate) => gate.enter(identity).await.map(Some),
            None => Ok(None),
        }
    }
}

impl<A: TypedAnswer + Clone + 'static> LimitLayer<A> {
    /// Waits for its turn before it asks.
    fn wait(&self, call: Call) -> LimitReply<A::Waiting> {
        let (inner, server, gates) = (self.inner.clone(), self.server.clone(), self.gates.clone());
        let has_begun = Arc::<AtomicBool>::default();
        let begins = has_begun.clone();
        let reply = Reply::from_pending_reply(async move {
            let (timeline, began) = (call.options.timeline.clone(), Instant::now());
            let entered = gates.enter(call.caller.identity()).await;
            // From here on a timeout may have had an effect.
            begins.store(true, Relaxed);
            if let Some(timeline) = timeline {
                timeline.add("queue", began, Instant::now(), None);
            }
            match entered {
                Ok(held) => reply(inner.start(call).map_err(|waiting| LimitReply::Under { waiting, _held: held })),
                Err(fault) => Reply::fault(fault.on_server(&server)),
            }
        });
        LimitReply::Queued { reply, has_begun }
    }
}

impl<A: TypedAnswer + Clone + 'static> TypedAnswer for LimitLayer<A> {
    type Waiting = LimitReply<A::Waiting>;

    fn start(&self, call: Call) -> Result<Outcome, Self::Waiting> {
        match self.gates.enter_now() {
            Some(held) => self.inner.start(call).map_err(|waiting| LimitReply::Under { waiting, _held: held }),
            // Queued only when a permit is not free, so that the usual call needs no task state.
            None => Err(self.wait(call)),
        }
    }
}

/// A call with its places, which are free again when it ends or is dropped.
pub(crate) enum LimitReply<W> {
    /// It had them at once.
    Under { waiting: W, _held: GatePermits },
    /// It stood in line for them, and has them inside.
    Queued {
        reply: Reply,
        /// Set when it leaves the line.
        has_begun: Arc<AtomicBool>,
    },
}

impl<W: ReplySource + Unpin> ReplySource for LimitReply<W> {
    fn poll_event(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<ReplyEvent> {
        match self.get_mut() {
            LimitReply::Under { waiting, .. } => Pin::new(waiting).poll_event(context),
            LimitReply::Queued { reply, .. } => reply.poll_event(context),
        }
    }

    fn is_in_line(&self) -> bool {
        matches!(self, LimitReply::Queued { has_begun, .. } if !has_begun.load(Relaxed))
    }
}

#[cfg(test)]
mod tests;

//! So many calls at once and no more: the rest wait in a short queue, in which every caller has a turn.

mod gate;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Instant;

use tsugi_protocol::answer::{Answer, Call, Event, Fault, FaultCode, Outcome, Reply, Source};

use super::{Asked, reply};
pub(crate) use gate::Gate;
use gate::{Permit, Refusal};

/// Lets calls through the gate of a server and then through the gate of all servers, where there are gates.
pub(crate) struct Limit<A> {
    inner: A,
    server: Arc<str>,
    gates: Gates,
}

#[derive(Clone)]
struct Gates {
    own: Option<Arc<Gate>>,
    common: Option<Arc<Gate>>,
}

/// The places a call holds while it is under way.
pub(crate) struct Held {
    _own: Option<Permit>,
    _common: Option<Permit>,
}

impl<A> Limit<A> {
    /// Around `inner`, with the gate of this server and that of all.
    pub(crate) fn new(inner: A, server: Arc<str>, own: Option<Arc<Gate>>, common: Option<Arc<Gate>>) -> Self {
        Self { inner, server, gates: Gates { own, common } }
    }
}

impl Gates {
    /// Both places, when they are free now and nobody else waits for them.
    fn enter_now(&self) -> Option<Held> {
        let own = match &self.own {
            Some(gate) => Some(gate.enter_now()?),
            None => None,
        };
        let common = match &self.common {
            Some(gate) => Some(gate.enter_now()?),
            None => None,
        };
        Some(Held { _own: own, _common: common })
    }

    async fn enter(&self, principal: &str) -> Result<Held, (Refusal, Arc<Gate>)> {
        let own = Self::pass(&self.own, principal).await?;
        let common = Self::pass(&self.common, principal).await?;
        Ok(Held { _own: own, _common: common })
    }

    async fn pass(gate: &Option<Arc<Gate>>, principal: &str) -> Result<Option<Permit>, (Refusal, Arc<Gate>)> {
        match gate {
            Some(gate) => gate.enter(principal).await.map(Some).map_err(|refusal| (refusal, gate.clone())),
            None => Ok(None),
        }
    }
}

impl<A: Asked + Clone + 'static> Limit<A> {
    /// Waits for its turn before it asks.
    fn wait(&self, call: Call) -> Holding<A::Waiting> {
        let (inner, server, gates) = (self.inner.clone(), self.server.clone(), self.gates.clone());
        let has_begun = Arc::<AtomicBool>::default();
        let begins = has_begun.clone();
        let reply = Reply::from_late(async move {
            let (timeline, began) = (call.options.timeline.clone(), Instant::now());
            let entered = gates.enter(call.caller.principal()).await;
            begins.store(true, Relaxed);
            if let Some(timeline) = timeline {
                timeline.add("queue", began, Instant::now(), None);
            }
            match entered {
                Ok(held) => reply(inner.ask(call).map_err(|waiting| Holding::Under { waiting, _held: held })),
                Err((refusal, gate)) => Reply::fault(overloaded(&server, refusal, &gate)),
            }
        });
        Holding::Queued { reply, has_begun }
    }
}

impl<A: Asked + Clone + 'static> Asked for Limit<A> {
    type Waiting = Holding<A::Waiting>;

    fn ask(&self, call: Call) -> Result<Outcome, Self::Waiting> {
        match self.gates.enter_now() {
            Some(held) => self.inner.ask(call).map_err(|waiting| Holding::Under { waiting, _held: held }),
            None => Err(self.wait(call)),
        }
    }
}

impl<A: Asked + Clone + 'static> Answer for Limit<A> {
    fn answer(&self, call: Call) -> Reply {
        reply(self.ask(call))
    }
}

fn overloaded(server: &str, refusal: Refusal, gate: &Gate) -> Fault {
    let policy = gate.policy();
    let message = match refusal {
        Refusal::Full => {
            format!("too much at once: {} calls are under way and {} wait", policy.in_flight, policy.queue)
        }
        Refusal::Late => format!("no call could begin within {:?}: {} are under way", policy.wait, policy.in_flight),
    };
    let mut fault = Fault::new(FaultCode::Overloaded, message).on_server(server);
    fault.retry_after_ms = Some(policy.wait.as_millis().max(1) as u64);
    fault.with_hint("raise `maxInFlight` if the server can take more")
}

/// A call with its places, which are free again when it ends or is dropped.
pub(crate) enum Holding<W> {
    /// It had them at once.
    Under {
        /// The call.
        waiting: W,
        _held: Held,
    },
    /// It stood in line for them, and has them inside.
    Queued {
        /// The call.
        reply: Reply,
        /// Set when it leaves the line.
        has_begun: Arc<AtomicBool>,
    },
}

impl<W: Source + Unpin> Source for Holding<W> {
    fn poll_event(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Event> {
        match self.get_mut() {
            Holding::Under { waiting, .. } => Pin::new(waiting).poll_event(context),
            Holding::Queued { reply, .. } => reply.poll_event(context),
        }
    }

    fn is_in_line(&self) -> bool {
        matches!(self, Holding::Queued { has_begun, .. } if !has_begun.load(Relaxed))
    }
}

#[cfg(test)]
mod tests;

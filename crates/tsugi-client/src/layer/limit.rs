//! So many calls at once and no more: the rest wait in a short queue, in which every caller has a turn.

mod gate;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use tsugi_protocol::answer::{Answer, Call, Event, Fault, FaultCode, Reply, Source};

pub(crate) use gate::Gate;
use gate::{Permit, Refusal};

/// Lets calls through the gate of a server and then through the gate of all servers.
pub(crate) struct Limit {
    inner: Arc<dyn Answer>,
    server: Arc<str>,
    gates: Gates,
}

#[derive(Clone)]
struct Gates {
    own: Option<Arc<Gate>>,
    common: Option<Arc<Gate>>,
}

/// The places a call holds while it is under way.
struct Held {
    _own: Option<Permit>,
    _common: Option<Permit>,
}

impl Limit {
    /// Around `inner`, with the gate of this server and that of all.
    pub(crate) fn new(
        inner: Arc<dyn Answer>,
        server: Arc<str>,
        own: Option<Arc<Gate>>,
        common: Option<Arc<Gate>>,
    ) -> Self {
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

impl Answer for Limit {
    fn answer(&self, call: Call) -> Reply {
        if let Some(held) = self.gates.enter_now() {
            return hold(self.inner.answer(call), held);
        }
        let (inner, server, gates) = (self.inner.clone(), self.server.clone(), self.gates.clone());
        Reply::from_late(async move {
            let (timeline, began) = (call.options.timeline.clone(), Instant::now());
            let entered = gates.enter(call.caller.principal()).await;
            if let Some(timeline) = timeline {
                timeline.add("queue", began, Instant::now(), None);
            }
            match entered {
                Ok(held) => hold(inner.answer(call), held),
                Err((refusal, gate)) => Reply::fault(overloaded(&server, refusal, &gate)),
            }
        })
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

/// The places are free again when the reply ends or is dropped.
fn hold(reply: Reply, held: Held) -> Reply {
    match reply.into_ready() {
        Ok(outcome) => Reply::ready(outcome),
        Err(reply) => Reply::from_source(Holding { reply, _held: held }),
    }
}

struct Holding {
    reply: Reply,
    _held: Held,
}

impl Source for Holding {
    fn poll_event(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Event> {
        self.reply.poll_event(context)
    }
}

#[cfg(test)]
mod tests;

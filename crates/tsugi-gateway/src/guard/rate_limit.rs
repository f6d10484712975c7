//! Rate limits of a key: so many calls per minute and so many at once, over all faces together.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tsugi_protocol::answer::{Answer, Call, Fault, FaultCode, Reply, ReplyEvent, ReplySource};

use super::authority::{Authority, CallLedger};
use super::quota::{CallQuota, TokenBucket};
use crate::telemetry::GatewayMetrics;

/// The rate limit of one key and its current state.
#[derive(Debug)]
pub(super) struct KeyRateLimit {
    name: String,
    quota: Option<(CallQuota, Mutex<TokenBucket>)>,
    in_flight: Option<(usize, Arc<Semaphore>)>,
}

impl KeyRateLimit {
    pub(super) fn new(name: &str, quota: Option<CallQuota>, in_flight: Option<usize>) -> Self {
        let bucket = |quota| (quota, Mutex::new(TokenBucket::full(quota, Instant::now())));
        let room = |calls: usize| (calls, Arc::new(Semaphore::new(calls.min(Semaphore::MAX_PERMITS))));
        Self { name: name.to_owned(), quota: quota.map(bucket), in_flight: in_flight.map(room) }
    }

    /// True when both allow the same to the same key.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let limits = |of: &Self| (of.quota.as_ref().map(|(quota, _)| *quota), of.in_flight.as_ref().map(|(n, _)| *n));
        self.name == other.name && limits(self) == limits(other)
    }

    fn spend(&self) -> Result<(), Fault> {
        let Some((quota, bucket)) = &self.quota else { return Ok(()) };
        bucket.lock().take(*quota, Instant::now()).map_err(|wait| {
            let message = format!("the key {:?} has used up its {} calls a minute", self.name, quota.per_minute);
            let mut fault = Fault::new(FaultCode::RateLimitExceeded, message);
            fault.retry_after_ms = Some(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
            fault
        })
    }

    fn busy(&self, calls: usize) -> Fault {
        let message = format!("the key {:?} has {calls} calls in flight, which is all it may have", self.name);
        let mut fault = Fault::new(FaultCode::RateLimitExceeded, message).with_hint("wait until one of them has ended");
        fault.retry_after_ms = Some(1000);
        fault
    }
}

impl CallLedger for KeyRateLimit {
    fn begin(&self) -> Result<Option<OwnedSemaphorePermit>, Fault> {
        let room = match &self.in_flight {
            Some((calls, room)) => Some(room.clone().try_acquire_owned().map_err(|_| self.busy(*calls))?),
            None => None,
        };
        self.spend()?;
        Ok(room)
    }
}

/// An answer that is asked no more than each caller's key allows.
pub(crate) struct RateLimited {
    metrics: Arc<GatewayMetrics>,
    answer: Arc<dyn Answer>,
}

impl RateLimited {
    pub(crate) fn around(answer: Arc<dyn Answer>, metrics: &Arc<GatewayMetrics>) -> Arc<dyn Answer> {
        Arc::new(Self { metrics: metrics.clone(), answer })
    }
}

impl Answer for RateLimited {
    fn answer(&self, call: Call) -> Reply {
        match Authority::of(&call.caller).map_or(Ok(None), |authority| authority.begin(&call.method)) {
            Ok(None) => self.answer.answer(call),
            Ok(Some(room)) => hold(self.answer.answer(call), room),
            Err(fault) => {
                self.metrics.refuse(&call, &fault);
                Reply::fault(fault)
            }
        }
    }
}

/// The same reply, which takes room until it has ended.
fn hold(reply: Reply, room: OwnedSemaphorePermit) -> Reply {
    match reply.into_ready() {
        Ok(outcome) => Reply::ready(outcome),
        Err(reply) => Reply::from_source(CountedReply { reply, room: Some(room) }),
    }
}

struct CountedReply {
    reply: Reply,
    /// Given back with the outcome, so that a caller that has it may call again at once.
    room: Option<OwnedSemaphorePermit>,
}

impl ReplySource for CountedReply {
    fn poll_event(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<ReplyEvent> {
        let event = std::task::ready!(self.reply.poll_event(context));
        if let ReplyEvent::Done(_) = event {
            self.room = None;
        }
        Poll::Ready(event)
    }
}

//! One instance in a pool: who uses it now, and when it was used last.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll};

use parking_lot::Mutex;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tsugi_protocol::answer::{Call, Outcome, Reply, ReplyEvent, ReplySource};

use super::questions::QuestionOwners;
use crate::server::Instance;

/// An instance. Its task ends with it, unless it is the first, which belongs to the server.
pub(super) struct PoolMember {
    instance: Arc<Instance>,
    task: Option<AbortHandle>,
    number: u64,
    calls: AtomicUsize,
    used: Mutex<Instant>,
}

impl PoolMember {
    pub(super) fn first(instance: Arc<Instance>) -> Arc<Self> {
        Self::new(instance, None, 0)
    }

    pub(super) fn further(instance: Arc<Instance>, task: AbortHandle, number: u64) -> Arc<Self> {
        Self::new(instance, Some(task), number)
    }

    fn new(instance: Arc<Instance>, task: Option<AbortHandle>, number: u64) -> Arc<Self> {
        Arc::new(Self { instance, task, number, calls: AtomicUsize::new(0), used: Mutex::new(Instant::now()) })
    }

    pub(super) fn instance(&self) -> &Arc<Instance> {
        &self.instance
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn calls(&self) -> usize {
        self.calls.load(SeqCst)
    }

    /// Calls that wait for input. Their leases ended with the question.
    pub(super) fn parked(&self) -> usize {
        self.instance.parked()
    }

    /// The calls that a further one may have to wait for.
    pub(super) fn burden(&self) -> usize {
        self.calls() + self.parked()
    }

    pub(super) fn is_running(&self) -> bool {
        self.instance.is_live()
    }

    /// No call in flight or parked, and no watched resource.
    pub(super) fn is_unused(&self) -> bool {
        self.calls() == 0 && !self.instance.is_watched()
    }

    pub(super) fn last_used(&self) -> Instant {
        *self.used.lock()
    }

    pub(super) async fn stop(&self) {
        self.instance.stop().await;
    }

    /// Marks it as used until the lease is dropped.
    pub(super) fn lease(self: &Arc<Self>) -> InstanceLease {
        self.calls.fetch_add(1, SeqCst);
        InstanceLease(self.clone())
    }
}

impl Drop for PoolMember {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

/// The right to use an instance.
pub(super) struct InstanceLease(Arc<PoolMember>);

impl InstanceLease {
    pub(super) fn answer(self, call: Call, question_owners: Arc<QuestionOwners>) -> Reply {
        let reply = self.0.instance.answer_via_connection(call);
        Reply::from_source(LeasedReply { reply, lease: self, question_owners })
    }
}

impl Drop for InstanceLease {
    fn drop(&mut self) {
        *self.0.used.lock() = Instant::now();
        self.0.calls.fetch_sub(1, SeqCst);
    }
}

struct LeasedReply {
    reply: Reply,
    lease: InstanceLease,
    question_owners: Arc<QuestionOwners>,
}

impl ReplySource for LeasedReply {
    fn poll_event(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<ReplyEvent> {
        let event = std::task::ready!(self.reply.poll_event(context));
        if let ReplyEvent::Done(Outcome::InputRequired(asked)) = &event
            && let Some(state) = &asked.state
        {
            self.question_owners.insert(state.clone(), self.lease.0.number);
        }
        Poll::Ready(event)
    }
}

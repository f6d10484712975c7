//! A circuit breaker: a server that keeps failing gets no calls for a while, then one probe, instead of all of them.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tsugi_protocol::answer::{Call, CallFailure, Fault, FaultCode, Outcome, ReplyEvent, ReplySource, SentState};

use super::TypedAnswer;
use crate::config::BreakerPolicy;
use crate::server::LIFECYCLE;

/// How many parts the window of counting has; the oldest part is forgotten as a whole.
const PARTS: u32 = 6;
/// The pause is never longer than so many times the first one.
const LONGEST: u32 = 8;
/// Failures that come this close together are one event: a crash fails every call in flight.
const TOGETHER: Duration = Duration::from_millis(100);

/// Counts how calls end and decides whether the server may be called. It takes no lock while calls succeed.
#[derive(Debug)]
pub(crate) struct CircuitBreaker {
    server: Arc<str>,
    policy: BreakerPolicy,
    is_closed: AtomicBool,
    /// Calls that ended well since the last failure.
    good: AtomicU32,
    state: Mutex<BreakerState>,
}

#[derive(Debug)]
struct BreakerState {
    parts: VecDeque<WindowSlice>,
    mode: BreakerMode,
    /// How often in a row a probe failed.
    trips: u32,
    /// Events of failure without a good call between them.
    in_a_row: u32,
    last_failure: Instant,
}

impl BreakerState {
    fn new() -> Self {
        Self { parts: VecDeque::new(), mode: BreakerMode::Closed, trips: 0, in_a_row: 0, last_failure: Instant::now() }
    }
}

/// How calls ended in one part of the window.
#[derive(Debug, Clone, Copy)]
struct WindowSlice {
    from: Instant,
    good: u32,
    bad: u32,
    events: u32,
}

#[derive(Debug)]
enum BreakerMode {
    /// Calls pass and are counted.
    Closed,
    /// Calls are refused until then.
    Open { until: Instant, because: Box<Fault> },
    /// One call is out to see whether the server works again.
    Probing { because: Box<Fault> },
}

/// What a call may do.
#[derive(Debug)]
enum BreakerPermit {
    Pass,
    Probe,
    Refused { wait: Duration, because: Box<Fault> },
}

impl CircuitBreaker {
    pub(crate) fn new(policy: BreakerPolicy, server: Arc<str>) -> Self {
        let state = Mutex::new(BreakerState::new());
        Self { server, policy, is_closed: AtomicBool::new(true), good: AtomicU32::new(0), state }
    }

    /// Why calls are refused, and for how much longer; `None` while they pass.
    pub(crate) fn reason(&self) -> Option<(Fault, Duration)> {
        match &self.state.lock().mode {
            BreakerMode::Closed => None,
            BreakerMode::Open { until, because } => {
                Some((Fault::clone(because), until.saturating_duration_since(Instant::now())))
            }
            BreakerMode::Probing { because } => Some((Fault::clone(because), Duration::ZERO)),
        }
    }

    /// Forgets everything: an operator restarted the server.
    pub(crate) fn reset(&self) {
        let mut state = self.state.lock();
        *state = BreakerState::new();
        self.is_closed.store(true, Relaxed);
    }

    fn ask(&self) -> BreakerPermit {
        // The usual path: one load, no lock.
        if self.is_closed.load(Relaxed) {
            return BreakerPermit::Pass;
        }
        let mut state = self.state.lock();
        match &state.mode {
            BreakerMode::Closed => BreakerPermit::Pass,
            BreakerMode::Probing { because } => {
                BreakerPermit::Refused { wait: self.policy.open_duration, because: because.clone() }
            }
            BreakerMode::Open { until, because } => {
                let wait = until.saturating_duration_since(Instant::now());
                let because = because.clone();
                if !wait.is_zero() {
                    return BreakerPermit::Refused { wait, because };
                }
                // Only this caller probes; the others are refused until it reports.
                state.mode = BreakerMode::Probing { because };
                BreakerPermit::Probe
            }
        }
    }

    /// A call ended well.
    fn succeeded(&self, is_probe: bool) {
        if is_probe {
            tracing::info!(target: LIFECYCLE, server = %self.server, "the server answers again");
            self.reset();
        }
        self.good.fetch_add(1, Relaxed);
    }

    /// A call timed out in the deadline layer, which this layer cannot see.
    pub(crate) fn failed(&self, fault: &Fault) {
        let is_probe = matches!(self.state.lock().mode, BreakerMode::Probing { .. });
        self.note_failure(fault, is_probe);
    }

    fn note_failure(&self, fault: &Fault, is_probe: bool) {
        let mut state = self.state.lock();
        state.count(&self.policy, self.good.swap(0, Relaxed));
        let is_closed = matches!(state.mode, BreakerMode::Closed);
        if is_probe || (is_closed && state.has_enough(&self.policy)) {
            // Every failed probe doubles the pause.
            let pause = self.policy.open_duration * 2u32.pow(state.trips).min(LONGEST);
            state.trips = (state.trips + 1).min(LONGEST);
            state.mode = BreakerMode::Open { until: Instant::now() + pause, because: Box::new(fault.clone()) };
            self.is_closed.store(false, Relaxed);
            let (server, reason) = (&self.server, &fault.message);
            let next = format!("calls are refused for {pause:?}, then one of them probes it");
            tracing::warn!(target: LIFECYCLE, %server, reason, next, "the server keeps failing");
        }
    }

    /// A probe ended without a result: the next call may be one.
    fn undecided(&self) {
        let mut state = self.state.lock();
        if let BreakerMode::Probing { because } = &state.mode {
            state.mode = BreakerMode::Open { until: Instant::now(), because: because.clone() };
        }
    }
}

impl BreakerState {
    /// Counts a failure and the good calls since the one before.
    fn count(&mut self, policy: &BreakerPolicy, good: u32) {
        let now = Instant::now();
        let since = now.duration_since(self.last_failure);
        // Of good calls over a long time only those within the window count.
        let share = policy.window.as_secs_f64() / since.max(policy.window).as_secs_f64();
        // One crash fails many calls at once, and counts once.
        let is_event = since >= TOGETHER || self.parts.is_empty();
        self.last_failure = now;
        self.in_a_row = if good > 0 { 0 } else { self.in_a_row } + u32::from(is_event);
        let part = self.part(now, policy);
        part.good += (f64::from(good) * share) as u32;
        part.bad += 1;
        part.events += u32::from(is_event);
    }

    /// The current part of the window, without those that are too old.
    fn part(&mut self, now: Instant, policy: &BreakerPolicy) -> &mut WindowSlice {
        // Old slices go as a whole, which is coarse but needs no list of calls.
        self.parts.retain(|part| now.duration_since(part.from) < policy.window);
        let is_current = |part: &WindowSlice| now.duration_since(part.from) < policy.window / PARTS;
        if !self.parts.back().is_some_and(is_current) {
            self.parts.push_back(WindowSlice { from: now, good: 0, bad: 0, events: 0 });
        }
        self.parts.back_mut().expect("a part was just added")
    }

    /// Enough events in the window, and either nothing good between them or at least half of all calls failed.
    fn has_enough(&self, policy: &BreakerPolicy) -> bool {
        let sum = |pick: fn(&WindowSlice) -> u32| self.parts.iter().map(pick).sum::<u32>();
        let is_half = sum(|part| part.bad) >= sum(|part| part.good);
        sum(|part| part.events) >= policy.failure_threshold && (is_half || self.in_a_row >= policy.failure_threshold)
    }
}

/// Only failures of the server or of the way to it count; a tool's own failure does not.
fn failure_of(outcome: &Outcome) -> Option<&Fault> {
    let Outcome::Failed(CallFailure::Fault(fault)) = outcome else { return None };
    let cause = match (&fault.code, &fault.cause) {
        (FaultCode::MaxRetriesExceeded, Some(cause)) => cause,
        _ => fault,
    };
    use FaultCode::{ConnectionFailed, ConnectionLost, ServerCrashed, Timeout};
    // A call that waited too long in our queue says nothing about the server.
    let is_in_line = cause.code == Timeout && cause.sent == SentState::NotSent;
    let is_broken = matches!(cause.code, ConnectionFailed | ConnectionLost | ServerCrashed | Timeout);
    (is_broken && !is_in_line).then_some(cause)
}

/// Asks the breaker before every call and reports to it how the call ended.
pub(crate) struct BreakerLayer<A> {
    inner: A,
    server: Arc<str>,
    breaker: Option<Arc<CircuitBreaker>>,
}

impl<A> BreakerLayer<A> {
    pub(crate) fn new(inner: A, server: Arc<str>, breaker: Option<Arc<CircuitBreaker>>) -> Self {
        Self { inner, server, breaker }
    }

    fn refusal(&self, wait: Duration, because: Fault) -> Fault {
        let message = format!("the server keeps failing and is left alone: {}", because.message);
        let mut fault = Fault::new(FaultCode::ServerNotRunning, message).on_server(&self.server);
        fault.retry_after_ms = Some(wait.as_millis().max(1) as u64);
        fault.because(because).with_hint("it is probed by itself; a restart ends the pause at once")
    }
}

impl<A: TypedAnswer> TypedAnswer for BreakerLayer<A> {
    type Waiting = BreakerReply<A::Waiting>;

    fn start(&self, call: Call) -> Result<Outcome, Self::Waiting> {
        let Some(breaker) = &self.breaker else {
            return self.inner.start(call).map_err(|waiting| BreakerReply { waiting, watched: None });
        };
        let is_probe = match breaker.ask() {
            BreakerPermit::Pass => false,
            BreakerPermit::Probe => true,
            BreakerPermit::Refused { wait, because } => return Ok(Outcome::fault(self.refusal(wait, *because))),
        };
        let watched = BreakerReport { breaker: breaker.clone(), is_probe, is_told: false };
        match self.inner.start(call) {
            Ok(outcome) => Ok(watched.tell(outcome)),
            Err(waiting) => Err(BreakerReply { waiting, watched: Some(watched) }),
        }
    }
}

/// A call whose end the breaker wants to know.
pub(crate) struct BreakerReport {
    breaker: Arc<CircuitBreaker>,
    is_probe: bool,
    is_told: bool,
}

impl BreakerReport {
    fn tell(mut self, outcome: Outcome) -> Outcome {
        self.is_told = true;
        match failure_of(&outcome) {
            Some(fault) => self.breaker.note_failure(fault, self.is_probe),
            None => self.breaker.succeeded(self.is_probe),
        }
        outcome
    }
}

impl Drop for BreakerReport {
    fn drop(&mut self) {
        // The caller of the probe went away: the breaker must not wait for it forever.
        if self.is_probe && !self.is_told {
            self.breaker.undecided();
        }
    }
}

/// A call whose end is reported to the breaker, if there is one.
pub(crate) struct BreakerReply<W> {
    waiting: W,
    watched: Option<BreakerReport>,
}

impl<W: ReplySource + Unpin> ReplySource for BreakerReply<W> {
    fn poll_event(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<ReplyEvent> {
        let event = std::task::ready!(Pin::new(&mut self.waiting).poll_event(context));
        Poll::Ready(match (event, self.watched.take()) {
            (ReplyEvent::Done(outcome), Some(watched)) => ReplyEvent::Done(watched.tell(outcome)),
            (event, watched) => {
                self.watched = watched;
                event
            }
        })
    }

    fn is_in_line(&self) -> bool {
        self.waiting.is_in_line()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::Boxed;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use tsugi_protocol::answer::{Answer, Reply};
    use tsugi_protocol::json::JsonObject;

    #[derive(Default)]
    struct Flaky {
        works: AtomicBool,
        hangs: AtomicBool,
        asked: AtomicUsize,
    }

    impl Answer for Flaky {
        fn answer(&self, _: Call) -> Reply {
            self.asked.fetch_add(1, Ordering::SeqCst);
            if self.hangs.load(Ordering::SeqCst) {
                return Reply::from_future(std::future::pending());
            }
            if self.works.load(Ordering::SeqCst) {
                return Reply::ready(Outcome::complete(JsonObject::empty()));
            }
            Reply::fault(Fault::new(FaultCode::ConnectionLost, "gone"))
        }
    }

    struct World {
        flaky: Arc<Flaky>,
        breaker: Arc<CircuitBreaker>,
        guard: Boxed<BreakerLayer<Arc<Flaky>>>,
    }

    fn world() -> World {
        let (flaky, breaker) =
            (Arc::new(Flaky::default()), Arc::new(CircuitBreaker::new(BreakerPolicy::default(), "s".into())));
        let guard = Boxed(BreakerLayer::new(flaky.clone(), "s".into(), Some(breaker.clone())));
        World { flaky, breaker, guard }
    }

    impl World {
        /// A call, and a second later.
        async fn call(&self) -> Outcome {
            let outcome = self.guard.answer(Call::tool("t", None)).outcome().await;
            tokio::time::advance(Duration::from_secs(1)).await;
            outcome
        }

        fn asked(&self) -> usize {
            self.flaky.asked.load(Ordering::SeqCst)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_keeps_failing_is_left_alone_with_the_reason_and_probed_by_one_call() {
        let world = world();
        for _ in 0..6 {
            world.call().await;
        }
        assert_eq!(world.asked(), 5);
        assert_eq!(world.breaker.reason().unwrap().0.message, "gone");
        let Outcome::Failed(CallFailure::Fault(fault)) = world.call().await else { panic!("not refused") };
        assert_eq!(fault.code, FaultCode::ServerNotRunning);
        assert!(fault.retry_after_ms.is_some() && fault.cause.is_some());
        tokio::time::advance(Duration::from_secs(3)).await;
        for _ in 0..9 {
            world.call().await;
        }
        assert_eq!(world.asked(), 6, "one probe, and a failed probe doubles the pause");
        world.flaky.works.store(true, Ordering::SeqCst);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(matches!(world.call().await, Outcome::Complete(_)));
        assert!(world.breaker.reason().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_mostly_works_is_not_left_alone() {
        let world = world();
        for number in 0..100 {
            world.flaky.works.store(number % 3 != 0, Ordering::SeqCst);
            world.call().await;
        }
        assert_eq!(world.asked(), 100);
    }

    #[tokio::test(start_paused = true)]
    async fn a_crash_that_fails_many_calls_at_once_is_one_failure() {
        let world = world();
        for _ in 0..64 {
            world.guard.answer(Call::tool("t", None)).outcome().await;
        }
        assert_eq!(world.asked(), 64);
        assert!(world.breaker.reason().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_busy_server_that_dies_is_left_alone_soon() {
        let world = world();
        world.flaky.works.store(true, Ordering::SeqCst);
        for _ in 0..10_000 {
            world.guard.answer(Call::tool("t", None)).outcome().await;
        }
        world.flaky.works.store(false, Ordering::SeqCst);
        for _ in 0..10 {
            world.call().await;
        }
        assert_eq!(world.asked(), 10_006, "the first failure still follows a good call");
    }

    #[tokio::test(start_paused = true)]
    async fn old_failures_are_forgotten() {
        let world = world();
        for _ in 0..20 {
            world.call().await;
            tokio::time::advance(Duration::from_secs(10)).await;
        }
        assert_eq!(world.asked(), 20);
    }

    #[tokio::test(start_paused = true)]
    async fn a_probe_whose_caller_goes_away_does_not_block_the_next() {
        let world = world();
        for _ in 0..5 {
            world.call().await;
        }
        tokio::time::advance(Duration::from_secs(6)).await;
        world.flaky.hangs.store(true, Ordering::SeqCst);
        drop(world.guard.answer(Call::tool("t", None)));
        world.flaky.hangs.store(false, Ordering::SeqCst);
        world.flaky.works.store(true, Ordering::SeqCst);
        assert!(matches!(world.call().await, Outcome::Complete(_)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_restart_by_hand_ends_the_pause() {
        let world = world();
        for _ in 0..6 {
            world.call().await;
        }
        world.breaker.reset();
        world.call().await;
        assert_eq!(world.asked(), 6);
    }
}

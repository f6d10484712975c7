//! Ends calls that take too long: a limit on silence, and one on the whole call.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Instant;
use tsugi_protocol::answer::{Call, Fault, FaultCode, Outcome, ReplyEvent, ReplySource, SentState};
use tsugi_protocol::json::RawJson;
use tsugi_protocol::mcp::Method;

use crate::config::{ManagerOptions, ServerConfig};
use crate::layer::TypedAnswer;
use crate::layer::breaker::CircuitBreaker;
use tsugi_rt::coarse_timer::{CoarseTimer, TimerKey};

/// The limits of one server.
#[derive(Debug, Clone)]
pub(crate) struct DeadlineLimits {
    /// How long a call may be silent.
    idle: Duration,
    /// How long it may take whatever happens.
    total: Duration,
    /// Whether it was configured. A default limit gives way to a longer limit on silence.
    is_total_given: bool,
    tools: Vec<(String, Duration)>,
    /// Whether silence is left to another deadline further in.
    is_whole_only: bool,
}

impl DeadlineLimits {
    /// A server's own limits, else those for all.
    pub(crate) fn of(config: &ServerConfig, options: &ManagerOptions) -> Self {
        let tools = config.tools.iter().filter_map(|(name, tool)| Some((name.clone(), tool.timeout?))).collect();
        Self {
            idle: config.timeout.unwrap_or(options.timeout),
            total: config.max_timeout.unwrap_or(options.max_timeout),
            is_total_given: config.max_timeout.is_some(),
            tools,
            is_whole_only: false,
        }
    }

    /// The same limit on the whole, where every try has its own on silence.
    pub(crate) fn whole_only(self) -> Self {
        Self { is_whole_only: true, ..self }
    }

    /// How long this call may be silent, and how long it may take in all.
    pub(super) fn for_call(&self, call: &Call) -> (Duration, Duration) {
        let idle = self.idle_for(call);
        // A tool with a timeout of an hour must not end after the default ten minutes.
        let total = if self.is_total_given { self.total } else { self.total.max(idle) };
        (if self.is_whole_only { total } else { idle }, total)
    }

    /// The call's own limit, else the tool's, else the server's.
    pub(crate) fn idle_for(&self, call: &Call) -> Duration {
        if let Some(timeout) = call.options.timeout {
            return timeout;
        }
        // Most servers have no limits per tool, and then the name need not be parsed.
        if self.tools.is_empty() || call.method != Method::ToolsCall {
            return self.idle;
        }
        let subject = call.subject();
        let own = self.tools.iter().find(|(name, _)| Some(name.as_str()) == subject.as_deref());
        own.map_or(self.idle, |(_, timeout)| *timeout)
    }
}

/// Ends calls that take too long, where there are limits. The server gets a cancellation, and its process stays.
pub(crate) struct DeadlineLayer<A> {
    inner: A,
    limits: Option<DeadlineLimits>,
    shared: Arc<DeadlineContext>,
}

/// What a call needs when its time is over.
struct DeadlineContext {
    server: Arc<str>,
    breaker: Option<Arc<CircuitBreaker>>,
    alarm: CoarseTimer,
}

impl<A> DeadlineLayer<A> {
    /// Around `inner`. The breaker sits further in and cannot see a call that ends here, so it is notified.
    pub(crate) fn new(
        inner: A,
        server: Arc<str>,
        limits: Option<DeadlineLimits>,
        breaker: Option<Arc<CircuitBreaker>>,
    ) -> Self {
        Self { inner, limits, shared: Arc::new(DeadlineContext { server, breaker, alarm: CoarseTimer::default() }) }
    }
}

impl<A: TypedAnswer> DeadlineLayer<A> {
    /// The clock of a call. A subscription has none: it is silent by nature and ends only when its caller does.
    fn clock(&self, call: &Call) -> Option<CallClock> {
        let limits = self.limits.as_ref().filter(|_| call.method != Method::Listen)?;
        let (idle, total) = limits.for_call(call);
        let wants_progress = call.meta.progress_token.is_some();
        // Kept as raw JSON: it is decoded only if the call expires.
        let tool = if call.method == Method::ToolsCall { call.params.get("name") } else { None };
        Some(CallClock { tool, idle, total, started: None, bell: None, wants_progress, shared: self.shared.clone() })
    }
}

impl<A: TypedAnswer> TypedAnswer for DeadlineLayer<A> {
    type Waiting = DeadlineReply<A::Waiting>;

    fn start(&self, call: Call) -> Result<Outcome, Self::Waiting> {
        let clock = self.clock(&call);
        self.inner.start(call).map_err(|waiting| DeadlineReply { waiting: Some(waiting), clock })
    }
}

/// A call with its clock, when it has one.
pub(crate) struct DeadlineReply<W> {
    /// Absent after its time was over.
    waiting: Option<W>,
    clock: Option<CallClock>,
}

struct CallClock {
    /// The tool's name as it was written.
    tool: Option<RawJson>,
    idle: Duration,
    total: Duration,
    started: Option<Instant>,
    /// Set only when the answer is not there at once.
    bell: Option<TimerKey>,
    wants_progress: bool,
    shared: Arc<DeadlineContext>,
}

impl CallClock {
    /// The call showed that it is alive.
    fn reset(&mut self) {
        let now = Instant::now();
        let last = *self.started.get_or_insert(now) + self.total;
        if let Some(bell) = &self.bell {
            self.shared.alarm.move_to(bell, (now + self.idle).min(last));
        }
    }

    fn poll_limit(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if let Some(bell) = &self.bell {
            return self.shared.alarm.poll(bell, context);
        }
        // The clock starts with the first poll that finds no answer: an answer at once costs no timer.
        let now = *self.started.get_or_insert_with(Instant::now);
        self.bell = Some(self.shared.alarm.set(now + self.idle.min(self.total), context));
        Poll::Pending
    }

    fn expired(&self, is_in_line: bool) -> Fault {
        let took_all = self.started.is_some_and(|started| started.elapsed() >= self.total);
        let limit = if took_all { self.total } else { self.idle };
        let message = match took_all {
            _ if is_in_line => format!("the call could not begin within {limit:?}: others are under way"),
            true => format!("the call took longer than {limit:?} in all"),
            false => format!("no sign of life within {limit:?}"),
        };
        let fault = Fault::new(FaultCode::Timeout, message).on_server(&self.shared.server);
        let fault = match is_in_line {
            true => fault.sent(SentState::NotSent).with_hint("raise `maxInFlight` if the server can take more"),
            false => fault.with_hint("raise `timeout` for the server or the tool if it needs longer"),
        };
        match self.tool.as_ref().and_then(RawJson::as_string) {
            Some(tool) => fault.on_tool(&tool),
            None => fault,
        }
    }
}

impl Drop for CallClock {
    fn drop(&mut self) {
        if let Some(bell) = self.bell.take() {
            self.shared.alarm.remove(bell);
        }
    }
}

impl<W: ReplySource + Unpin> ReplySource for DeadlineReply<W> {
    fn poll_event(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<ReplyEvent> {
        let this = &mut *self;
        let Some(waiting) = &mut this.waiting else { return Poll::Pending };
        let Some(clock) = &mut this.clock else { return Pin::new(waiting).poll_event(context) };
        loop {
            match Pin::new(&mut *waiting).poll_event(context) {
                Poll::Ready(ReplyEvent::Note(note)) => {
                    clock.reset();
                    if note.method != Method::Progress || clock.wants_progress {
                        return Poll::Ready(ReplyEvent::Note(note));
                    }
                }
                Poll::Ready(done) => return Poll::Ready(done),
                Poll::Pending => break,
            }
        }
        // Polled after the reply: an answer that is there wins over a limit that has just passed.
        std::task::ready!(clock.poll_limit(context));
        let is_in_line = waiting.is_in_line();
        let fault = clock.expired(is_in_line);
        if let Some(breaker) = clock.shared.breaker.as_ref().filter(|_| !is_in_line) {
            breaker.failed(&fault);
        }
        // Dropping the reply cancels the call at the server.
        this.waiting = None;
        Poll::Ready(ReplyEvent::Done(Outcome::fault(fault)))
    }

    fn is_in_line(&self) -> bool {
        self.waiting.as_ref().is_some_and(ReplySource::is_in_line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::Boxed;
    use tsugi_protocol::answer::{Answer, Reply};
    use tsugi_protocol::answer::{CallFailure, NoteSink};
    use tsugi_protocol::json::JsonObject;
    use tsugi_protocol::rpc::RpcNotification;

    struct Slow(Vec<Duration>);

    impl Answer for Slow {
        /// Reports progress after each wait, then answers.
        fn answer(&self, _: Call) -> Reply {
            let waits = self.0.clone();
            Reply::from_noted_future(move |notes: NoteSink| async move {
                for wait in waits {
                    tokio::time::sleep(wait).await;
                    notes.push(RpcNotification::new(Method::Progress, None));
                    tokio::task::yield_now().await;
                }
                Outcome::complete(JsonObject::empty())
            })
        }
    }

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    fn limits() -> DeadlineLimits {
        let tools = vec![("slow".into(), seconds(90))];
        DeadlineLimits { idle: seconds(30), total: seconds(600), is_total_given: false, tools, is_whole_only: false }
    }

    async fn outcome(waits: &[u64], total: u64) -> Outcome {
        let slow = Slow(waits.iter().map(|count| seconds(*count)).collect());
        let limits = DeadlineLimits { total: seconds(total), ..limits() };
        let layer = DeadlineLayer::new(Arc::new(slow), "s".into(), Some(limits), None);
        Boxed(layer).answer(Call::tool("t", None)).outcome().await
    }

    fn timed_out(outcome: &Outcome) -> Option<&str> {
        match outcome {
            Outcome::Failed(CallFailure::Fault(fault)) if fault.code == FaultCode::Timeout => Some(&fault.message),
            _ => None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn silence_ends_a_call_and_progress_keeps_it_alive() {
        assert!(matches!(outcome(&[29, 29, 29], 600).await, Outcome::Complete(_)));
        assert_eq!(timed_out(&outcome(&[29, 31], 600).await), Some("no sign of life within 30s"));
    }

    #[tokio::test(start_paused = true)]
    async fn progress_does_not_keep_a_call_alive_for_ever() {
        let endless = [20; 100];
        assert_eq!(timed_out(&outcome(&endless, 600).await), Some("the call took longer than 600s in all"));
    }

    #[test]
    fn the_calls_own_limit_comes_before_the_tools_and_the_servers() {
        let limits = limits();
        assert_eq!(limits.idle_for(&Call::tool("slow", None)), seconds(90));
        assert_eq!(limits.idle_for(&Call::tool("other", None)), seconds(30));
        let mut call = Call::tool("slow", None);
        call.options.timeout = Some(seconds(5));
        assert_eq!(limits.idle_for(&call), seconds(5));
    }

    #[test]
    fn a_limit_on_the_whole_that_somebody_set_is_not_exceeded_and_another_gives_way() {
        let slow = Call::tool("slow", None);
        let check = |is_total_given, is_whole_only, total, expected: (u64, u64)| {
            let limits = DeadlineLimits { total: seconds(total), is_total_given, is_whole_only, ..limits() };
            assert_eq!(limits.for_call(&slow), (seconds(expected.0), seconds(expected.1)), "{limits:?}");
        };
        check(false, false, 600, (90, 600));
        check(false, false, 60, (90, 90));
        check(true, false, 60, (90, 60));
        // Where every try has its own limit on silence.
        check(false, true, 600, (600, 600));
        check(false, true, 60, (90, 90));
        check(true, true, 60, (60, 60));
    }

    #[tokio::test(start_paused = true)]
    async fn a_limit_on_the_whole_may_be_shorter_than_that_on_silence() {
        let limits = DeadlineLimits { total: seconds(5), is_total_given: true, ..limits() };
        let layer = DeadlineLayer::new(Arc::new(Slow(vec![seconds(20)])), "s".into(), Some(limits), None);
        let reply = Boxed(layer).answer(Call::tool("t", None));
        assert_eq!(timed_out(&reply.outcome().await), Some("the call took longer than 5s in all"));
    }
}

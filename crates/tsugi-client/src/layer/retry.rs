//! Repeats failed calls, but only where that cannot have an effect twice.

mod budget;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::time::Sleep;
use tsugi_protocol::answer::{Call, CallFailure, Fault, FaultCode, Outcome, ReplyEvent, ReplySource, SentState};

use super::TypedAnswer;
use super::deadline::DeadlineLimits;
use crate::backoff::{full_jitter, grown};
use crate::config::{RestartPolicy, RetryPolicy};
use crate::result::code_of_rpc;
use crate::tool_table::{RepeatRule, ToolTable};
use budget::RetryBudget;

/// Repeats calls by a policy, where there is one, within a budget of one repeated call for every five.
pub(crate) struct RetryLayer<A> {
    inner: Arc<A>,
    rules: Option<Arc<RetryRules>>,
}

/// When a call is repeated.
struct RetryRules {
    server: Arc<str>,
    tools: Arc<ToolTable>,
    policy: RetryPolicy,
    restart: RestartPolicy,
    /// The limits on the whole call: a wait that does not fit into them is not begun.
    limits: DeadlineLimits,
    budget: RetryBudget,
}

impl<A> RetryLayer<A> {
    /// Around `inner`, for a server that is started again like this.
    pub(crate) fn new(
        inner: A,
        server: Arc<str>,
        tools: Arc<ToolTable>,
        policy: Option<RetryPolicy>,
        restart: RestartPolicy,
        limits: DeadlineLimits,
    ) -> Self {
        let budget = RetryBudget::default();
        let rules = |policy| Arc::new(RetryRules { server, tools, policy, restart, limits, budget });
        Self { inner: Arc::new(inner), rules: policy.map(rules) }
    }

    /// The rules, where they say anything about this call.
    fn rules_for(&self, call: &Call) -> Option<&Arc<RetryRules>> {
        // An answer to a server's question is taken up once; it cannot be brought a second time.
        self.rules.as_ref().filter(|_| !call.is_answer())
    }
}

impl<A: TypedAnswer + 'static> TypedAnswer for RetryLayer<A> {
    type Waiting = RetryReply<A>;

    fn start(&self, call: Call) -> Result<Outcome, RetryReply<A>> {
        let Some(rules) = self.rules_for(&call) else {
            return self
                .inner
                .start(call)
                .map_err(|waiting| RetryReply { again: None, step: RetryStep::Asking(waiting) });
        };
        // Every first try earns a part of a retry, whether it fails or not.
        rules.budget.earn();
        let (kept, now) = (call.clone(), tokio::time::Instant::now());
        let step = match self.inner.start(call) {
            Ok(failed @ Outcome::Failed(_)) => RetryStep::Ended(failed),
            Ok(outcome) if rules.repeats_tool_error(&outcome) => RetryStep::Ended(outcome),
            Ok(outcome) => return Ok(outcome),
            Err(waiting) => RetryStep::Asking(waiting),
        };
        let (inner, rules, worst) = (self.inner.clone(), rules.clone(), SentState::NotSent);
        let again = RetryAttempt { inner, rules, call: kept, retries: 0, worst, began: now, last_sign: now };
        Err(RetryReply { again: Some(again), step })
    }
}

impl RetryRules {
    fn repeat_of(&self, call: &Call) -> RepeatRule {
        if call.options.is_idempotent || call.method.is_read() {
            return RepeatRule::Always;
        }
        self.tools.of(call, |tool| tool.repeat).unwrap_or(RepeatRule::IfNotSent)
    }

    /// Whether doing it again cannot do it twice.
    fn is_safe(&self, call: &Call, sent: SentState) -> bool {
        match self.repeat_of(call) {
            RepeatRule::Always => true,
            RepeatRule::IfNotSent => sent == SentState::NotSent,
            RepeatRule::Never => false,
        }
    }

    /// Whether this failure is of a kind that another try may mend.
    fn is_worth_it(&self, failure: &CallFailure) -> bool {
        match failure {
            CallFailure::Fault(fault) if self.policy.retryable_errors.is_empty() => fault.retryable,
            CallFailure::Fault(fault) => self.policy.lists(fault.code),
            // A server's own error is listed by its number, or by the code that a tool's result shows for it.
            CallFailure::Upstream(error) => {
                let number = error.code().to_string();
                self.policy.retryable_errors.contains(&number) || self.policy.lists(code_of_rpc(error))
            }
        }
    }

    /// Whether this result says that the tool failed, and such failures are listed as worth another try.
    fn repeats_tool_error(&self, outcome: &Outcome) -> bool {
        self.policy.lists(FaultCode::ExecutionFailed)
            && matches!(outcome, Outcome::Complete(complete) if complete.is_tool_error())
    }

    /// How long to wait before a tool that failed is called again; `None` when its failure is the result.
    fn delay_after_tool_error(&self, call: &Call, retries: u32) -> Option<Duration> {
        if !self.is_safe(call, SentState::Failed) || retries >= self.policy.max_retries {
            return None;
        }
        self.budget.spend().then(|| self.jittered(retries))
    }

    /// How long to wait before retry number `retries + 1`; `None` when there is none.
    fn next_delay(&self, call: &Call, failure: &CallFailure, retries: u32) -> Option<Duration> {
        let sent = match failure {
            CallFailure::Fault(fault) => fault.sent,
            CallFailure::Upstream(_) => SentState::Failed,
        };
        // Nothing would bring the server back during the wait.
        let stays_down = self.restart == RestartPolicy::Never && is_down(failure);
        if !self.is_safe(call, sent) || stays_down || is_hopeless(failure) {
            return None;
        }
        // The connection broke under the call. The next one takes it at once, without using up a retry.
        if is_unsent(failure) && retries == 0 {
            return self.budget.spend().then_some(Duration::ZERO);
        }
        if retries >= self.policy.max_retries || !self.is_worth_it(failure) {
            return None;
        }
        let wait = self.wait(failure, retries)?;
        self.budget.spend().then_some(wait)
    }

    fn jittered(&self, retries: u32) -> Duration {
        let policy = &self.policy;
        full_jitter(grown(policy.initial_delay, policy.backoff_multiplier, retries, policy.max_delay))
    }

    /// A random part of the longest wait, or as long as the server asks; `None` when that is too long.
    fn wait(&self, failure: &CallFailure, retries: u32) -> Option<Duration> {
        let random = self.jittered(retries);
        let asked = match failure {
            CallFailure::Fault(fault) => fault.retry_after_ms.map(Duration::from_millis),
            CallFailure::Upstream(_) => None,
        };
        match asked {
            // Better to return the refusal now than to block the caller for minutes.
            Some(asked) if asked > self.policy.max_delay => None,
            Some(asked) => Some(random.max(asked)),
            None => Some(random),
        }
    }
}

/// The server's process is gone. Where it is not restarted, another try would only blur the reason.
fn is_down(failure: &CallFailure) -> bool {
    let CallFailure::Fault(fault) = failure else { return false };
    matches!(fault.code, FaultCode::ServerCrashed | FaultCode::ServerNotRunning)
}

/// The server is not running, and does not come back by itself.
fn is_hopeless(failure: &CallFailure) -> bool {
    matches!(failure, CallFailure::Fault(fault) if fault.code == FaultCode::ServerNotRunning && !fault.retryable)
}

/// The connection broke just when the call was to be sent: nothing happened, and the next connection takes it.
fn is_unsent(failure: &CallFailure) -> bool {
    use FaultCode::{ConnectionFailed, ConnectionLost, ServerCrashed};
    let CallFailure::Fault(fault) = failure else { return false };
    fault.sent == SentState::NotSent && matches!(fault.code, ConnectionFailed | ConnectionLost | ServerCrashed)
}

/// A call that may be made again.
pub(crate) struct RetryReply<A: TypedAnswer> {
    /// Absent for a call that is made once and no more.
    again: Option<RetryAttempt<A>>,
    step: RetryStep<A::Waiting>,
}

enum RetryStep<W> {
    Asking(W),
    /// A try ended at once.
    Ended(Outcome),
    Waiting(Pin<Box<Sleep>>),
    Over,
}

/// What it takes to make a call again.
struct RetryAttempt<A> {
    inner: Arc<A>,
    rules: Arc<RetryRules>,
    call: Call,
    retries: u32,
    /// The least that is known about the effect of all tries together.
    worst: SentState,
    began: tokio::time::Instant,
    /// The last sign of life, from which the limit on silence counts.
    last_sign: tokio::time::Instant,
}

impl<A: TypedAnswer> RetryAttempt<A> {
    fn ask(&self) -> RetryStep<A::Waiting> {
        match self.inner.start(self.call.clone()) {
            Ok(outcome) => RetryStep::Ended(outcome),
            Err(waiting) => RetryStep::Asking(waiting),
        }
    }

    /// What to do after a failure: wait for another try, or the outcome to give.
    fn after(&mut self, failure: CallFailure) -> Result<Duration, Outcome> {
        if let CallFailure::Fault(fault) = &failure {
            // One try with an unknown fate makes the fate of the whole call unknown.
            self.worst = less_known(self.worst, fault.sent);
        }
        let delay = self.rules.next_delay(&self.call, &failure, self.retries);
        match delay.filter(|wait| self.has_time_for(*wait)) {
            Some(wait) => {
                self.retries += 1;
                self.note(&failure, wait);
                Ok(wait)
            }
            None => Err(Outcome::Failed(self.last_word(failure))),
        }
    }

    /// Whether a wait ends before the call's time does. If not, the failure at hand says more than a timeout would.
    fn has_time_for(&self, wait: Duration) -> bool {
        let (idle, total) = self.rules.limits.for_call(&self.call);
        wait < idle.saturating_sub(self.last_sign.elapsed()) && wait < total.saturating_sub(self.began.elapsed())
    }

    /// The wait before a tool that failed is called again; `None` when its failure is the result.
    fn after_tool_error(&mut self) -> Option<Duration> {
        let wait = self.rules.delay_after_tool_error(&self.call, self.retries)?;
        self.has_time_for(wait).then(|| {
            self.retries += 1;
            wait
        })
    }

    /// Adds to the timeline what another try is for, and how long it waits.
    fn note(&self, failure: &CallFailure, wait: Duration) {
        let Some(timeline) = &self.call.options.timeline else { return };
        let (now, why) = (Instant::now(), failure.to_rpc().message());
        timeline.end(now, Some(why));
        timeline.add("retry", now, now + wait, Some(format!("waits before try {}", self.retries + 1)));
    }

    /// After as many tries as allowed, how often was tried belongs to the answer.
    fn last_word(&self, failure: CallFailure) -> CallFailure {
        let mut cause = match failure {
            CallFailure::Fault(cause) => cause,
            upstream => return upstream,
        };
        let most = self.rules.policy.max_retries;
        // It failed for another reason than too many tries, so the fault itself is the answer.
        if most == 0 || self.retries < most {
            cause.sent = self.worst;
            return CallFailure::Fault(cause);
        }
        let times = if self.retries == 1 { "retry" } else { "retries" };
        let message = format!("failed after {} {times}: {}", self.retries, cause.message);
        let mut fault = Fault::new(FaultCode::MaxRetriesExceeded, message).on_server(&self.rules.server);
        (fault.stage, fault.blame, fault.sent) = (cause.stage, cause.blame, self.worst);
        (fault.hint, fault.tool, fault.process) = (cause.hint.clone(), cause.tool.clone(), cause.process.clone());
        fault.diagnosis = cause.diagnosis.clone();
        CallFailure::from(fault.because(*cause))
    }
}

fn less_known(one: SentState, two: SentState) -> SentState {
    match (one, two) {
        (SentState::Unknown, _) | (_, SentState::Unknown) => SentState::Unknown,
        (SentState::Failed, _) | (_, SentState::Failed) => SentState::Failed,
        _ => SentState::NotSent,
    }
}

impl<A: TypedAnswer> RetryReply<A> {
    /// What comes next; `None` for the time it waits between tries.
    fn step(&mut self, context: &mut Context<'_>) -> Poll<Option<ReplyEvent>> {
        match &mut self.step {
            RetryStep::Asking(waiting) => Pin::new(waiting).poll_event(context).map(Some),
            RetryStep::Waiting(sleep) => sleep.as_mut().poll(context).map(|()| None),
            RetryStep::Ended(_) => match std::mem::replace(&mut self.step, RetryStep::Over) {
                RetryStep::Ended(outcome) => Poll::Ready(Some(ReplyEvent::Done(outcome))),
                _ => Poll::Pending,
            },
            RetryStep::Over => Poll::Pending,
        }
    }
}

impl<A: TypedAnswer> ReplySource for RetryReply<A> {
    fn poll_event(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<ReplyEvent> {
        let this = &mut *self;
        loop {
            let event = std::task::ready!(this.step(context));
            let Some(again) = &mut this.again else { return event.map_or(Poll::Pending, Poll::Ready) };
            this.step = match event {
                // The wait is over.
                None => again.ask(),
                Some(ReplyEvent::Done(Outcome::Failed(failure))) => match again.after(failure) {
                    Ok(wait) => RetryStep::Waiting(Box::pin(tokio::time::sleep(wait))),
                    Err(outcome) => return Poll::Ready(ReplyEvent::Done(outcome)),
                },
                Some(ReplyEvent::Done(outcome)) if again.rules.repeats_tool_error(&outcome) => {
                    match again.after_tool_error() {
                        Some(wait) => RetryStep::Waiting(Box::pin(tokio::time::sleep(wait))),
                        None => return Poll::Ready(ReplyEvent::Done(outcome)),
                    }
                }
                Some(event) => {
                    again.last_sign = tokio::time::Instant::now();
                    return Poll::Ready(event);
                }
            };
        }
    }

    fn is_in_line(&self) -> bool {
        let is_first = self.again.as_ref().is_none_or(|again| again.worst == SentState::NotSent);
        is_first && matches!(&self.step, RetryStep::Asking(waiting) if waiting.is_in_line())
    }
}

#[cfg(test)]
mod tests;

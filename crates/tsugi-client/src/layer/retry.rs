//! Tries a call again where that cannot do anything twice; otherwise the failure goes up as it is.

mod budget;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use rand::RngExt;
use tokio::time::Sleep;
use tsugi_protocol::answer::{
    Answer, Call, CallFailure, Fault, FaultCode, Outcome, Reply, ReplyEvent, ReplySource, SentState,
};

use super::{TypedAnswer, reply};
use crate::config::{RestartPolicy, RetryPolicy};
use crate::tool_table::{RepeatRule, ToolTable};
use budget::RetryBudget;

/// Repeats calls by a policy, where there is one, within a budget of one repeated call for five others.
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
    ) -> Self {
        let rules = |policy| Arc::new(RetryRules { server, tools, policy, restart, budget: RetryBudget::default() });
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
        rules.budget.earn();
        let kept = call.clone();
        let step = match self.inner.start(call) {
            Ok(failed @ Outcome::Failed(_)) => RetryStep::Ended(failed),
            Ok(outcome) => return Ok(outcome),
            Err(waiting) => RetryStep::Asking(waiting),
        };
        let (inner, rules) = (self.inner.clone(), rules.clone());
        let again = RetryAttempt { inner, rules, call: kept, retries: 0, worst: SentState::NotSent };
        Err(RetryReply { again: Some(again), step })
    }
}

impl<A: TypedAnswer + 'static> Answer for RetryLayer<A> {
    fn answer(&self, call: Call) -> Reply {
        reply(self.start(call))
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
        let listed = |code: &str| self.policy.retryable_errors.iter().any(|listed| listed == code);
        match failure {
            CallFailure::Fault(fault) if self.policy.retryable_errors.is_empty() => fault.retryable,
            CallFailure::Fault(fault) => listed(fault.code.as_str()),
            CallFailure::Upstream(error) => listed(&error.code().to_string()),
        }
    }

    /// How long to wait before retry number `retries + 1`; `None` when there is none.
    fn next_delay(&self, call: &Call, failure: &CallFailure, retries: u32) -> Option<Duration> {
        let sent = match failure {
            CallFailure::Fault(fault) => fault.sent,
            CallFailure::Upstream(_) => SentState::Failed,
        };
        let stays_down = self.restart == RestartPolicy::Never && is_down(failure);
        if !self.is_safe(call, sent) || stays_down || is_hopeless(failure) {
            return None;
        }
        if is_unsent(failure) && retries == 0 {
            return self.budget.spend().then_some(Duration::ZERO);
        }
        if retries >= self.policy.max_retries || !self.is_worth_it(failure) {
            return None;
        }
        let wait = self.wait(failure, retries)?;
        self.budget.spend().then_some(wait)
    }

    /// A random part of the longest wait, or as long as the server asks; `None` when that is too long.
    fn wait(&self, failure: &CallFailure, retries: u32) -> Option<Duration> {
        let grown =
            self.policy.initial_delay.as_secs_f64() * self.policy.backoff_multiplier.max(1.0).powi(retries as i32);
        let longest = grown.min(self.policy.max_delay.as_secs_f64()).max(0.0);
        let random = Duration::from_secs_f64(longest * rand::rng().random::<f64>());
        let asked = match failure {
            CallFailure::Fault(fault) => fault.retry_after_ms.map(Duration::from_millis),
            CallFailure::Upstream(_) => None,
        };
        match asked {
            Some(asked) if asked > self.policy.max_delay => None,
            Some(asked) => Some(random.max(asked)),
            None => Some(random),
        }
    }
}

/// The server's process is gone: where nobody starts it again, another try can only say so less well.
fn is_down(failure: &CallFailure) -> bool {
    let CallFailure::Fault(fault) = failure else { return false };
    matches!(fault.code, FaultCode::ServerCrashed | FaultCode::ServerNotRunning)
}

/// The server is not running, and will not before somebody does something about it.
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
            self.worst = less_known(self.worst, fault.sent);
        }
        match self.rules.next_delay(&self.call, &failure, self.retries) {
            Some(wait) => {
                self.retries += 1;
                self.note(&failure, wait);
                Ok(wait)
            }
            None => Err(Outcome::Failed(self.last_word(failure))),
        }
    }

    /// Tells somebody who looks at the call what another try is for, and how long it waits.
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
        if most == 0 || self.retries < most {
            cause.sent = self.worst;
            return CallFailure::Fault(cause);
        }
        let times = if self.retries == 1 { "retry" } else { "retries" };
        let message = format!("failed after {} {times}: {}", self.retries, cause.message);
        let mut fault = Fault::new(FaultCode::MaxRetriesExceeded, message).on_server(&self.rules.server);
        (fault.stage, fault.blame, fault.sent) = (cause.stage, cause.blame, self.worst);
        (fault.hint, fault.tool, fault.process) = (cause.hint.clone(), cause.tool.clone(), cause.process.clone());
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
                None => again.ask(),
                Some(ReplyEvent::Done(Outcome::Failed(failure))) => match again.after(failure) {
                    Ok(wait) => RetryStep::Waiting(Box::pin(tokio::time::sleep(wait))),
                    Err(outcome) => return Poll::Ready(ReplyEvent::Done(outcome)),
                },
                Some(event) => return Poll::Ready(event),
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

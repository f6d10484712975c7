//! When each step of a call happened, recorded for calls that the dashboard shows.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// More steps than this are not kept: a call may be repeated often.
const STEPS: usize = 64;

/// The steps of one call, in the order they began. Clones are the same timeline.
/// Moments come in as arguments, since this crate reads no clock.
#[derive(Debug, Clone)]
pub struct CallTimeline(Arc<TimelineRecord>);

#[derive(Debug)]
struct TimelineRecord {
    began: Instant,
    steps: Mutex<Vec<TimelineStep>>,
}

/// One step, in time since the call began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimelineStep {
    /// What was done: `queue`, `validate`, `cache`, `start`, `upstream`, `retry`.
    pub stage: &'static str,
    pub begin: Duration,
    /// When it ended; `None` while it lasts.
    pub end: Option<Duration>,
    /// In words, where there is something to say.
    pub note: Option<String>,
}

impl CallTimeline {
    /// Of a call that began at this moment.
    pub fn new(began: Instant) -> Self {
        Self(Arc::new(TimelineRecord { began, steps: Mutex::default() }))
    }

    pub fn begin(&self, stage: &'static str, at: Instant) {
        self.push(TimelineStep { stage, begin: self.since(at), end: None, note: None });
    }

    /// The last step that still lasts ends.
    pub fn end(&self, at: Instant, note: Option<String>) {
        let end = self.since(at);
        if let Some(step) = self.0.steps.lock().iter_mut().rev().find(|step| step.end.is_none()) {
            (step.end, step.note) = (Some(end), note);
        }
    }

    /// A step that began and ended at these moments.
    pub fn add(&self, stage: &'static str, began: Instant, ended: Instant, note: Option<String>) {
        self.push(TimelineStep { stage, begin: self.since(began), end: Some(self.since(ended)), note });
    }

    /// The steps so far.
    pub fn steps(&self) -> Vec<TimelineStep> {
        self.0.steps.lock().clone()
    }

    fn push(&self, step: TimelineStep) {
        let mut steps = self.0.steps.lock();
        if steps.len() < STEPS {
            steps.push(step);
        }
    }

    fn since(&self, at: Instant) -> Duration {
        at.saturating_duration_since(self.0.began)
    }
}

impl PartialEq for CallTimeline {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for CallTimeline {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_end_from_the_innermost_outwards_and_are_bounded() {
        let began = Instant::now();
        let at = |millis| began + Duration::from_millis(millis);
        let timeline = CallTimeline::new(began);
        timeline.begin("start", at(1));
        timeline.begin("upstream", at(2));
        timeline.end(at(5), Some("lost".into()));
        timeline.add("retry", at(5), at(9), None);
        let told: Vec<_> = timeline.steps().into_iter().map(|step| (step.stage, step.end)).collect();
        let millis = |millis| Some(Duration::from_millis(millis));
        assert_eq!(told, [("start", None), ("upstream", millis(5)), ("retry", millis(9))]);
        (0..1000).for_each(|_| timeline.begin("retry", at(9)));
        assert_eq!(timeline.steps().len(), STEPS);
    }
}

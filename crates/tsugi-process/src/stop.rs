//! The stages of stopping, as pure moves: close stdin, send SIGTERM, then SIGKILL.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// How long each step of stopping may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopGrace {
    /// Between the end of input and SIGTERM.
    pub stdin: Duration,
    /// Between SIGTERM and SIGKILL.
    pub terminate: Duration,
    /// Between SIGTERM and SIGKILL for processes left behind by a child that has ended.
    pub leftover: Duration,
}

impl Default for StopGrace {
    fn default() -> Self {
        StopGrace {
            stdin: Duration::from_secs(2),
            terminate: Duration::from_secs(3),
            leftover: Duration::from_millis(300),
        }
    }
}

impl StopGrace {
    /// The longest that stopping takes when every step is used up.
    pub fn total(&self) -> Duration {
        self.stdin + self.terminate
    }
}

/// Where on the ladder a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopStage {
    /// No handle has asked it to end.
    Running,
    /// Its input has ended.
    Draining,
    Terminating,
    /// SIGKILL is sent until nothing is left.
    Killing,
}

/// What moves a job along the ladder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopEvent {
    Stop,
    /// The last handle was dropped: its input has ended with it.
    Abandon,
    Kill,
    /// The main child has ended; others may be left.
    MainExited,
    /// The time of this stage is used up.
    Expired,
}

impl StopStage {
    /// The stage after `push`.
    pub(crate) fn after(self, push: StopEvent) -> StopStage {
        match (self, push) {
            (StopStage::Killing, _) | (_, StopEvent::Kill) => StopStage::Killing,
            (StopStage::Terminating, StopEvent::Expired) => StopStage::Killing,
            (StopStage::Terminating, _) => StopStage::Terminating,
            (_, StopEvent::Abandon | StopEvent::MainExited) => StopStage::Terminating,
            (StopStage::Draining, StopEvent::Expired) => StopStage::Terminating,
            (StopStage::Running, StopEvent::Expired) => StopStage::Running,
            (_, StopEvent::Stop) => StopStage::Draining,
        }
    }
}

/// A stage with its deadline.
#[derive(Debug)]
pub(crate) struct StopLadder {
    pub(crate) stage: StopStage,
    pub(crate) deadline: Option<Instant>,
    grace: StopGrace,
}

impl StopLadder {
    pub(crate) fn new(grace: StopGrace) -> Self {
        StopLadder { stage: StopStage::Running, deadline: None, grace }
    }

    /// Moves on; gives the stage that was entered, if it is a new one.
    pub(crate) fn push(&mut self, push: StopEvent, now: Instant) -> Option<StopStage> {
        let before = self.stage;
        self.stage = before.after(push);
        if push == StopEvent::MainExited {
            self.shorten(now + self.grace.leftover);
        }
        if before == self.stage {
            return None;
        }
        self.deadline = self.time_of(push).map(|time| now + time);
        Some(self.stage)
    }

    /// Moves on if the time of this stage is used up.
    pub(crate) fn tick(&mut self, now: Instant) -> Option<StopStage> {
        let expired = self.deadline.is_some_and(|deadline| now >= deadline);
        if expired { self.push(StopEvent::Expired, now) } else { None }
    }

    fn shorten(&mut self, to: Instant) {
        self.deadline = self.deadline.map(|deadline| deadline.min(to));
    }

    fn time_of(&self, push: StopEvent) -> Option<Duration> {
        match (self.stage, push) {
            (StopStage::Running | StopStage::Killing, _) => None,
            (StopStage::Draining, _) => Some(self.grace.stdin),
            (StopStage::Terminating, StopEvent::MainExited) => Some(self.grace.leftover),
            (StopStage::Terminating, _) => Some(self.grace.terminate),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{StopEvent::*, StopStage::*, *};

    #[test]
    fn every_push_leads_where_the_table_says() {
        let pushes = [Stop, Abandon, Kill, MainExited, Expired];
        let table = [
            (Running, [Draining, Terminating, Killing, Terminating, Running]),
            (Draining, [Draining, Terminating, Killing, Terminating, Terminating]),
            (Terminating, [Terminating, Terminating, Killing, Terminating, Killing]),
            (Killing, [Killing, Killing, Killing, Killing, Killing]),
        ];
        for (stage, results) in table {
            for (push, result) in pushes.into_iter().zip(results) {
                assert_eq!(stage.after(push), result, "{stage:?} after {push:?}");
            }
        }
    }

    #[test]
    fn the_whole_ladder_takes_five_seconds() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let mut ladder = StopLadder::new(StopGrace::default());
        assert_eq!(ladder.push(Stop, start), Some(Draining));
        assert_eq!(ladder.tick(at(1999)), None);
        assert_eq!(ladder.tick(at(2000)), Some(Terminating));
        assert_eq!(ladder.push(Stop, at(2500)), None);
        assert_eq!(ladder.tick(at(4999)), None);
        assert_eq!(ladder.tick(at(5000)), Some(Killing));
    }

    #[test]
    fn leftovers_of_a_child_that_ended_get_only_a_moment() {
        let start = Instant::now();
        let mut ladder = StopLadder::new(StopGrace::default());
        ladder.push(Abandon, start);
        ladder.push(MainExited, start);
        assert_eq!(ladder.tick(start + StopGrace::default().leftover), Some(Killing));
    }
}

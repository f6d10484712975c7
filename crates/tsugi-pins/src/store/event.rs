//! What is reported about pins: to the log, and to an observer such as an audit trail.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::{DriftEffect, PinReview};
use crate::canonical::PinDigest;
use crate::compare::DriftChange;
use crate::definition::PinKey;
use crate::lint::LintRule;
use crate::policy::PinMode;

/// A thing that changes to and fro within this time is reported once.
const FLAPPING: Duration = Duration::from_secs(600);

/// How many things are remembered as reported.
const MOST_REPORTED: usize = 10_000;

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PinEventKind {
    /// A server offers something that is not pinned.
    Drift,
    /// Something was pinned at first sight although the lint found something.
    Lint,
    /// A difference was accepted.
    Accepted,
}

/// Something worth a line in the log and in an audit trail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinEvent {
    pub kind: PinEventKind,
    pub key: PinKey,
    pub change: DriftChange,
    pub old: Option<PinDigest>,
    pub new: Option<PinDigest>,
    pub findings: Vec<LintRule>,
    /// The rule that decided.
    pub mode: Option<PinMode>,
    pub effect: DriftEffect,
    pub claimed_from: Option<String>,
    /// Who accepted it.
    pub by: Option<String>,
}

/// Receives every event, for example to write it to an audit trail. It is called on the thread that judged.
pub trait PinObserver: Send + Sync {
    fn observe(&self, event: &PinEvent);
}

impl PinEvent {
    pub(super) fn drift(review: &PinReview, mode: PinMode) -> Self {
        Self { mode: Some(mode), ..Self::of(PinEventKind::Drift, review) }
    }

    pub(super) fn lint(review: &PinReview, mode: PinMode) -> Self {
        Self { mode: Some(mode), ..Self::of(PinEventKind::Lint, review) }
    }

    pub(super) fn accepted(review: &PinReview, by: &str) -> Self {
        Self { by: Some(by.to_owned()), ..Self::of(PinEventKind::Accepted, review) }
    }

    fn of(kind: PinEventKind, review: &PinReview) -> Self {
        let drift = &review.drift;
        let mut findings: Vec<LintRule> = review.findings.iter().map(|finding| finding.rule).collect();
        findings.dedup();
        Self {
            kind,
            key: drift.key.clone(),
            change: drift.change,
            old: drift.old.as_ref().map(|old| old.digest),
            new: drift.new.as_ref().map(|new| new.digest),
            findings,
            mode: None,
            effect: review.effect,
            claimed_from: review.claimed_from.clone(),
            by: None,
        }
    }

    pub(super) fn log(&self) {
        let PinKey { server, kind, name } = &self.key;
        let (change, mode) = (self.change.as_str(), self.mode.map(PinMode::as_str));
        let [old, new] = [self.old, self.new].map(|digest| digest.map(|digest| digest.short()));
        let findings = self.findings.iter().map(|rule| rule.explain()).collect::<Vec<_>>().join(", ");
        // A name may hold anything; its debug form has no control characters.
        match self.kind {
            PinEventKind::Drift => {
                let effect = match self.effect {
                    DriftEffect::Passed => "callers see it",
                    DriftEffect::Refused => "callers see the pinned definition and calls are refused",
                    DriftEffect::Hidden => "callers do not see it",
                };
                let claimed_from = self.claimed_from.as_deref();
                tracing::warn!(target: "tsugi_pins", %server, %kind, ?name, change, pin = mode, old, new, claimed_from, findings, "{} is not what is pinned: {effect}", kind);
            }
            PinEventKind::Lint => {
                // A target of its own: a command that runs for a moment would repeat it every time.
                tracing::warn!(target: "tsugi_lint", %server, %kind, ?name, pin = mode, findings, "{} looks suspicious", kind);
            }
            PinEventKind::Accepted => {
                let by = self.by.as_deref();
                tracing::info!(target: "tsugi_pins", %server, %kind, ?name, change, old, new, by, "{} was accepted", kind);
            }
        }
    }
}

/// Makes one event of a thing that flaps.
#[derive(Debug, Default)]
pub(super) struct EventLimiter {
    reported: HashMap<PinKey, Instant>,
}

impl EventLimiter {
    /// Whether a thing is reported now.
    pub(super) fn is_due(&mut self, key: &PinKey, now: Instant) -> bool {
        let is_due = self.reported.get(key).is_none_or(|last| now.duration_since(*last) >= FLAPPING);
        if is_due {
            // A server with ever new names must not fill the memory.
            if self.reported.len() >= MOST_REPORTED {
                self.reported.retain(|_, last| now.duration_since(*last) < FLAPPING);
            }
            if self.reported.len() >= MOST_REPORTED {
                self.reported.clear();
            }
            self.reported.insert(key.clone(), now);
        }
        is_due
    }

    /// The next difference of a thing is reported at once.
    pub(super) fn forget(&mut self, key: &PinKey) {
        self.reported.remove(key);
    }
}

//! All rules together: which apply, which of them decides, and why.

use std::path::PathBuf;
use std::sync::Arc;

use crate::condition::{ConditionReads, EvaluationError};
use crate::problem::PolicyProblem;
use crate::question::PolicyQuestion;
use crate::rule::{NameSpelling, PolicyRule, RuleEffect};
use crate::rule_file;

/// What a denial is attributed to when no rule permits.
pub const DEFAULT: &str = "default";

/// A policy file as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicySource {
    pub file: PathBuf,
    pub text: String,
}

/// Rules that were read and checked together. Two sets are equal when their files are.
#[derive(Debug)]
pub struct PolicySet {
    sources: Vec<PolicySource>,
    rules: Vec<PolicyRule>,
    reads: ConditionReads,
}

impl PartialEq for PolicySet {
    fn eq(&self, other: &Self) -> bool {
        self.sources == other.sources
    }
}

/// A rule's place in its set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RuleIndex(u16);

/// The answer to a question, and what it rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyVerdict {
    Permitted(RuleIndex),
    Forbidden(RuleIndex),
    /// No rule permits it.
    Unmatched,
    /// This rule could not be evaluated.
    Failed(RuleIndex),
    /// The address has dot segments, so that no rule can say what it means.
    Unreadable,
}

impl PolicyVerdict {
    pub fn is_permitted(self) -> bool {
        matches!(self, PolicyVerdict::Permitted(_))
    }

    fn rule(self) -> Option<RuleIndex> {
        match self {
            PolicyVerdict::Permitted(rule) | PolicyVerdict::Forbidden(rule) | PolicyVerdict::Failed(rule) => Some(rule),
            PolicyVerdict::Unmatched | PolicyVerdict::Unreadable => None,
        }
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            PolicyVerdict::Permitted(_) => "permitted",
            PolicyVerdict::Forbidden(_) => "forbidden",
            PolicyVerdict::Unmatched => "no rule permits it",
            PolicyVerdict::Failed(_) => "a rule could not be evaluated",
            PolicyVerdict::Unreadable => "the address has dot segments",
        }
    }
}

/// A verdict, with the error behind it if there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyDecision {
    pub verdict: PolicyVerdict,
    pub error: Option<EvaluationError>,
}

impl From<PolicyVerdict> for PolicyDecision {
    fn from(verdict: PolicyVerdict) -> Self {
        Self { verdict, error: None }
    }
}

/// The rules that apply to a question, whatever their conditions say.
#[derive(Debug, Clone)]
pub enum PlannedRules {
    Some(Arc<[RuleIndex]>),
    /// None can apply: see [`PolicyVerdict::Unreadable`].
    Unreadable,
}

/// What one rule said to a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleAnswer {
    /// It is about other actions, callers or things. The word says which differs first.
    Elsewhere(&'static str),
    /// It reads arguments, and a list has none.
    NotAsked,
    Holds,
    HoldsNot,
    Failed(EvaluationError),
}

impl PolicySet {
    /// Reads and checks files together, or says everything that is wrong with them.
    pub fn load(sources: Vec<PolicySource>) -> Result<Self, Vec<PolicyProblem>> {
        let rules = with_deep_stack(|| rule_file::read_all(&sources))?;
        let mut reads = ConditionReads::default();
        rules.iter().for_each(|rule| reads.add(&rule.reads()));
        Ok(Self { sources, rules, reads })
    }

    pub fn rules(&self) -> &[PolicyRule] {
        &self.rules
    }

    pub fn sources(&self) -> &[PolicySource] {
        &self.sources
    }

    /// The file that a rule stands in.
    pub fn file_of(&self, rule: &PolicyRule) -> &PolicySource {
        &self.sources[rule.file]
    }

    /// What the conditions look at, all together.
    pub fn reads(&self) -> &ConditionReads {
        &self.reads
    }

    /// The name of the rule that decided, or [`DEFAULT`].
    pub fn decided_by(&self, verdict: PolicyVerdict) -> &str {
        verdict.rule().map_or(DEFAULT, |RuleIndex(rule)| self.rules[usize::from(rule)].name())
    }

    /// Decides. A rule that forbids wins; one that forbids and cannot be evaluated denies, one that permits and cannot be
    /// evaluated does not permit.
    pub fn decide(&self, question: &PolicyQuestion<'_>) -> PolicyDecision {
        self.decide_planned(&self.plan(question), question)
    }

    /// The rules that apply. The answer depends on caller, action and resource alone.
    pub fn plan(&self, question: &PolicyQuestion<'_>) -> PlannedRules {
        let Some(spelling) = NameSpelling::of(&question.resource) else { return PlannedRules::Unreadable };
        let applies = |rule: &PolicyRule| {
            rule.is_about(question.action, question.resource.kind)
                && rule.is_for(question.principal)
                && rule.covers(&question.resource, &spelling)
        };
        let found = self.rules.iter().enumerate().filter(|(_, rule)| applies(rule));
        // Files have far fewer rules than this number can count; more are refused.
        PlannedRules::Some(found.map(|(index, _)| RuleIndex(u16::try_from(index).unwrap_or(u16::MAX))).collect())
    }

    /// Decides by rules that [`PolicySet::plan`] has found for the same question.
    pub fn decide_planned(&self, planned: &PlannedRules, question: &PolicyQuestion<'_>) -> PolicyDecision {
        let PlannedRules::Some(planned) = planned else { return PolicyVerdict::Unreadable.into() };
        let of = |effect: RuleEffect| planned.iter().copied().filter(move |rule| self.rule(*rule).effect == effect);
        let mut failed: Option<PolicyDecision> = None;
        for index in of(RuleEffect::Forbid) {
            match self.ask(index, question) {
                Ok(true) => return PolicyVerdict::Forbidden(index).into(),
                Ok(false) => {}
                // Another rule may forbid it in plain words, which explains more.
                Err(error) => failed = failed.or(Some(failure(index, error))),
            }
        }
        if let Some(failed) = failed {
            return failed;
        }
        for index in of(RuleEffect::Permit) {
            match self.ask(index, question) {
                Ok(true) => return PolicyVerdict::Permitted(index).into(),
                Ok(false) => {}
                Err(error) => failed = failed.or(Some(failure(index, error))),
            }
        }
        failed.unwrap_or_else(|| PolicyVerdict::Unmatched.into())
    }

    /// True when the answer to a question cannot differ the next time.
    pub fn is_lasting(&self, planned: &PlannedRules) -> bool {
        match planned {
            PlannedRules::Unreadable => true,
            PlannedRules::Some(rules) => rules.iter().all(|rule| {
                self.rule(*rule).condition.as_ref().is_none_or(|condition| !condition.reads().is_volatile())
            }),
        }
    }

    /// What the conditions of these rules look at, all together.
    pub fn planned_reads(&self, planned: &PlannedRules) -> ConditionReads {
        let mut reads = ConditionReads::default();
        if let PlannedRules::Some(rules) = planned {
            rules.iter().for_each(|rule| reads.add(&self.rule(*rule).reads()));
        }
        reads
    }

    /// What every rule says to a question, in the order of the files.
    pub fn explain(&self, question: &PolicyQuestion<'_>) -> Vec<(&PolicyRule, RuleAnswer)> {
        let spelling = NameSpelling::of(&question.resource);
        let answer = |(index, rule): (usize, &PolicyRule)| match &spelling {
            None => RuleAnswer::Elsewhere("resource"),
            Some(_) if !rule.is_about(question.action, question.resource.kind) => {
                let is_left_out = rule.reads().arguments && question.action == crate::question::PolicyAction::See;
                if is_left_out { RuleAnswer::NotAsked } else { RuleAnswer::Elsewhere("action") }
            }
            Some(_) if !rule.is_for(question.principal) => RuleAnswer::Elsewhere("principal"),
            Some(spelling) if !rule.covers(&question.resource, spelling) => RuleAnswer::Elsewhere("resource"),
            Some(_) => match self.ask(RuleIndex(u16::try_from(index).unwrap_or(u16::MAX)), question) {
                Ok(true) => RuleAnswer::Holds,
                Ok(false) => RuleAnswer::HoldsNot,
                Err(error) => RuleAnswer::Failed(error),
            },
        };
        self.rules.iter().enumerate().map(|(index, rule)| (rule, answer((index, rule)))).collect()
    }

    /// True when some rule permits something of a server to this caller, whatever its condition says.
    pub fn may_permit_some_of(&self, principal: &crate::question::PrincipalFacts, server: &str) -> bool {
        self.rules.iter().any(|rule| {
            let is_server = |pattern: &crate::rule::ResourcePattern| pattern.server().is_match(server);
            rule.effect == RuleEffect::Permit
                && rule.is_for(principal)
                && (rule.resources.is_empty() || rule.resources.iter().any(is_server))
        })
    }

    fn rule(&self, RuleIndex(index): RuleIndex) -> &PolicyRule {
        &self.rules[usize::from(index)]
    }

    fn ask(&self, index: RuleIndex, question: &PolicyQuestion<'_>) -> Result<bool, EvaluationError> {
        self.rule(index).condition.as_ref().map_or(Ok(true), |condition| condition.holds(question))
    }
}

/// Runs work on a thread of its own. The parser of conditions is recursive, and what is too deep is found only after it
/// has been parsed.
fn with_deep_stack<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    const STACK: usize = 64 << 20;
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work);
        match thread.expect("a thread can be started while a configuration is read").join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

fn failure(rule: RuleIndex, error: EvaluationError) -> PolicyDecision {
    PolicyDecision { verdict: PolicyVerdict::Failed(rule), error: Some(error) }
}

//! The seam between rules and the language of their conditions.

use std::fmt;

use crate::question::PolicyQuestion;
use crate::rule::RuleEffect;

/// A language in which a `when` can be written.
pub trait ConditionLanguage {
    /// Checks and compiles a condition: its syntax, and that it names only what there is.
    fn compile(&self, source: &str, effect: RuleEffect) -> Result<Box<dyn RuleCondition>, Vec<ConditionProblem>>;
}

/// A compiled condition.
pub trait RuleCondition: fmt::Debug + Send + Sync {
    fn reads(&self) -> &ConditionReads;

    /// Whether it holds. An error is neither: the rule counts against the caller then.
    fn holds(&self, question: &PolicyQuestion<'_>) -> Result<bool, EvaluationError>;
}

/// What a condition looks at, found when it is compiled.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConditionReads {
    pub arguments: bool,
    pub address: bool,
    pub clock: bool,
    pub pinned: bool,
    /// What only the caller's credential says: role, groups, scopes, when the person signed in.
    pub credential: bool,
    /// Arguments that it reads without asking first whether they are there.
    pub unguarded: Vec<String>,
}

impl ConditionReads {
    /// True when the answer can differ between two calls of one caller about one thing.
    pub fn is_volatile(&self) -> bool {
        self.arguments || self.address || self.clock || self.pinned
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.arguments |= other.arguments;
        self.address |= other.address;
        self.clock |= other.clock;
        self.pinned |= other.pinned;
        self.credential |= other.credential;
    }
}

/// What is wrong with a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConditionProblem {
    /// Where in the condition, in characters.
    pub offset: usize,
    pub message: String,
    pub hint: Option<String>,
}

/// Why a condition has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EvaluationError(pub String);

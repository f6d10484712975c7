//! One rule: for whom, for what, and under which condition it permits or forbids.

use globset::{Glob, GlobMatcher};

use crate::condition::{ConditionReads, RuleCondition};
use crate::question::{ActionSet, NameKind, PolicyAction, PrincipalFacts, ResourceFacts};
use crate::spelling::{self, PatternReading};

/// What a rule does where it applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RuleEffect {
    Permit,
    Forbid,
}

impl RuleEffect {
    pub const fn as_str(self) -> &'static str {
        match self {
            RuleEffect::Permit => "permit",
            RuleEffect::Forbid => "forbid",
        }
    }
}

/// A named rule.
#[derive(Debug)]
pub struct PolicyRule {
    pub(crate) name: String,
    pub(crate) effect: RuleEffect,
    pub(crate) actions: ActionSet,
    pub(crate) principals: Vec<PrincipalPattern>,
    pub(crate) resources: Vec<ResourcePattern>,
    pub(crate) condition: Option<Box<dyn RuleCondition>>,
    /// Where it stands: which file of the set, and the line there.
    pub(crate) file: usize,
    pub(crate) line: usize,
}

impl PolicyRule {
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn effect(&self) -> RuleEffect {
        self.effect
    }

    pub fn line(&self) -> usize {
        self.line
    }

    pub fn has_condition(&self) -> bool {
        self.condition.is_some()
    }

    pub(crate) fn reads(&self) -> ConditionReads {
        self.condition.as_ref().map(|condition| condition.reads().clone()).unwrap_or_default()
    }

    /// True when the rule is about this action. What a list shows follows from what may be used, so rules about using a
    /// thing are asked for lists too; those that read arguments cannot be, since a list has none.
    pub(crate) fn is_about(&self, action: PolicyAction, kind: NameKind) -> bool {
        if action != PolicyAction::See {
            return self.actions.contains(action);
        }
        let is_named = self.actions.contains(PolicyAction::See);
        let is_implied = kind.main_use().is_some_and(|used| self.actions.contains(used));
        (is_named || is_implied) && !self.condition.as_ref().is_some_and(|condition| condition.reads().arguments)
    }

    pub(crate) fn is_for(&self, principal: &PrincipalFacts) -> bool {
        self.principals.is_empty() || self.principals.iter().any(|pattern| pattern.matches(&principal.identity))
    }

    pub(crate) fn covers(&self, resource: &ResourceFacts<'_>, spelling: &NameSpelling) -> bool {
        self.resources.is_empty()
            || self.resources.iter().any(|pattern| pattern.matches(resource, spelling, self.effect))
    }
}

/// A glob over identities. `corp:*` is short for `subject:corp:*`.
#[derive(Debug)]
pub(crate) struct PrincipalPattern {
    glob: GlobMatcher,
}

/// What identities begin with, beside the two that are one word.
const IDENTITY_KINDS: [&str; 4] = ["key", "pm", "subject", "certificate"];

impl PrincipalPattern {
    pub(crate) fn read(text: &str) -> Result<Self, globset::Error> {
        Ok(Self { glob: Glob::new(&full_identity(text))?.compile_matcher() })
    }

    pub(crate) fn text(&self) -> &str {
        self.glob.glob().glob()
    }

    fn matches(&self, identity: &str) -> bool {
        self.glob.is_match(identity)
    }
}

/// An identity as logs write it. People of an issuer may be written without `subject:`, unless the issuer has the name of
/// another kind: `key:ann` is always a key.
pub fn full_identity(text: &str) -> String {
    match text.split_once(':') {
        Some((kind, _)) if !IDENTITY_KINDS.contains(&kind) && !kind.contains(['*', '?', '[', '{']) => {
            format!("subject:{text}")
        }
        _ => text.to_owned(),
    }
}

/// `server/name`, each half a glob. Without a slash it means everything of a server.
#[derive(Debug)]
pub(crate) struct ResourcePattern {
    text: String,
    server: GlobMatcher,
    name: GlobMatcher,
}

impl ResourcePattern {
    pub(crate) fn read(text: &str, effect: RuleEffect) -> Result<Self, globset::Error> {
        let (server, name) = text.split_once('/').unwrap_or((text, "*"));
        let reading = match effect {
            RuleEffect::Permit => PatternReading::Exact,
            RuleEffect::Forbid => PatternReading::AnySpelling,
        };
        let (server, name) = (spelling::server_glob(server)?, spelling::name_glob(name, reading)?);
        Ok(Self { text: text.to_owned(), server, name })
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn server(&self) -> &GlobMatcher {
        &self.server
    }

    pub(crate) fn is_everything(&self) -> bool {
        self.server.glob().glob() == "*" && self.name.glob().glob() == "*"
    }

    fn matches(&self, resource: &ResourceFacts<'_>, spelling: &NameSpelling, effect: RuleEffect) -> bool {
        if !self.server.is_match(resource.server) {
            return false;
        }
        let is_spelled = |name: &str| self.name.is_match(name) || self.name.is_match(&*spelling::plain_spelling(name));
        match (effect, spelling) {
            (RuleEffect::Permit, NameSpelling::Plain) => self.name.is_match(resource.name),
            (RuleEffect::Permit, NameSpelling::Address(canonical)) => self.name.is_match(canonical),
            (RuleEffect::Forbid, NameSpelling::Plain) => is_spelled(resource.name),
            (RuleEffect::Forbid, NameSpelling::Address(canonical)) => spelling::any_reading(canonical, is_spelled),
        }
    }
}

/// The name of a resource as patterns read it, made once for all rules.
#[derive(Debug)]
pub(crate) enum NameSpelling {
    Plain,
    Address(String),
}

impl NameSpelling {
    /// `None` for an address that no rule can decide on, since it has dot segments.
    pub(crate) fn of(resource: &ResourceFacts<'_>) -> Option<Self> {
        match resource.kind {
            NameKind::Address => spelling::canonical_uri(resource.name).map(NameSpelling::Address),
            _ => Some(NameSpelling::Plain),
        }
    }
}

//! What is allowed in a policy and yet looks like a mistake.

use crate::problem::suggest;
use crate::question::PolicyAction;
use crate::rule::{PolicyRule, ResourcePattern, RuleEffect};
use crate::set::PolicySet;

/// Something that a person should look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyFinding {
    /// The rule that it is about; `None` when it is about all of them.
    pub rule: Option<String>,
    pub message: String,
    pub hint: Option<String>,
}

/// Looks at all rules together. `servers` are the names that the configuration has.
pub fn findings(set: &PolicySet, servers: &[String]) -> Vec<PolicyFinding> {
    let mut found = Vec::new();
    if !set.rules().iter().any(|rule| rule.effect == RuleEffect::Permit) {
        let hint = Some("add a rule such as `permit: everyone`".to_owned());
        found.push(PolicyFinding {
            rule: None,
            message: "no rule permits anything: every call is refused".to_owned(),
            hint,
        });
    }
    for (at, rule) in set.rules().iter().enumerate() {
        let mut say = |message: String, hint: Option<&str>| {
            let rule = Some(rule.name.clone());
            found.push(PolicyFinding { rule, message, hint: hint.map(str::to_owned) });
        };
        for other in set.rules().iter().filter(|other| is_shadowed(rule, other)) {
            say(format!("it can never permit: `{}` forbids all of it", other.name), None);
        }
        for other in set.rules()[..at].iter().filter(|other| is_repeated(rule, other)) {
            say(format!("it changes nothing: `{}` does the same", other.name), None);
        }
        let reads = rule.reads();
        if reads.arguments && rule.effect == RuleEffect::Permit && rule.actions.contains(PolicyAction::CallTool) {
            let hint = "a rule with `actions: [see]` shows it";
            say("it reads arguments, so it does not make a tool appear in a list".to_owned(), Some(hint));
        }
        if reads.arguments && !asks_with_arguments(rule) {
            say("it reads arguments, and it is only about lists: it is never asked".to_owned(), None);
        }
        for path in &reads.unguarded {
            let hint = format!("if calls may leave it out, begin with `has(context.arguments.{path}) &&`");
            say(format!("a call without the argument `{path}` is {}", without(rule.effect)), Some(&hint));
        }
        for pattern in rule.resources.iter().filter(|pattern| is_unknown(pattern, servers)) {
            let server = pattern.text().split('/').next().unwrap_or_default();
            let hint = suggest(server, servers.iter().map(String::as_str));
            say(format!("no server matches `{}`", pattern.text()), hint.as_deref());
        }
    }
    found
}

const fn without(effect: RuleEffect) -> &'static str {
    match effect {
        RuleEffect::Permit => "not permitted by it",
        RuleEffect::Forbid => "refused, as if it were forbidden",
    }
}

/// True when an unconditional rule forbids everything that a rule permits.
fn is_shadowed(rule: &PolicyRule, other: &PolicyRule) -> bool {
    let is_wider =
        other.actions.is_superset(rule.actions) && has_all_principals(other, rule) && has_all_resources(other, rule);
    rule.effect == RuleEffect::Permit && other.effect == RuleEffect::Forbid && !other.has_condition() && is_wider
}

/// True when an earlier unconditional rule of the same effect covers a rule whole.
fn is_repeated(rule: &PolicyRule, earlier: &PolicyRule) -> bool {
    let is_wider = earlier.actions.is_superset(rule.actions)
        && has_all_principals(earlier, rule)
        && has_all_resources(earlier, rule);
    rule.effect == earlier.effect && !earlier.has_condition() && is_wider
}

fn has_all_principals(wide: &PolicyRule, narrow: &PolicyRule) -> bool {
    let has =
        |text: &str| wide.principals.iter().any(|pattern| matches!(pattern.text(), "*") || pattern.text() == text);
    wide.principals.is_empty()
        || !narrow.principals.is_empty() && narrow.principals.iter().all(|pattern| has(pattern.text()))
}

fn has_all_resources(wide: &PolicyRule, narrow: &PolicyRule) -> bool {
    let has = |text: &str| wide.resources.iter().any(|pattern| pattern.is_everything() || pattern.text() == text);
    wide.resources.is_empty()
        || !narrow.resources.is_empty() && narrow.resources.iter().all(|pattern| has(pattern.text()))
}

fn asks_with_arguments(rule: &PolicyRule) -> bool {
    PolicyAction::ALL.into_iter().any(|action| action != PolicyAction::See && rule.actions.contains(action))
}

fn is_unknown(pattern: &ResourcePattern, servers: &[String]) -> bool {
    // The gateway itself has the empty name.
    let is_gateway = pattern.text().starts_with('/');
    !is_gateway && !servers.is_empty() && !servers.iter().any(|server| pattern.server().is_match(server))
}

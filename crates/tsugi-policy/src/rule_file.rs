//! Reads rules from files: every problem of every file, not only the first.
//!
//! ```yaml
//! rules:
//!   - permit: staff-reads
//!     principals: ["corp:*"]
//!     actions: [callTool]
//!     resources: ["files/read*"]
//!     when: principal.tenant == "acme"
//!   - forbid: no-deletes
//!     resources: ["*/delete*"]
//! ...
//! ```

mod node;

use std::collections::HashMap;

use globset::Glob;

use crate::cel::CelLanguage;
use crate::condition::{ConditionLanguage, RuleCondition};
use crate::problem::{PolicyProblem, suggest};
use crate::question::{ActionSet, PolicyAction};
use crate::rule::{PolicyRule, PrincipalPattern, ResourcePattern, RuleEffect};
use crate::set::{DEFAULT, PolicySource};
use node::{FileNode, NodeContent};

/// A larger file is not a policy.
const LARGEST_FILE: usize = 1 << 20;

/// More rules than this are a mistake.
const MOST_RULES: usize = 10_000;

/// The longest condition. Longer ones are better as several rules.
const LONGEST_CONDITION: usize = 4096;

const KEYS: [&str; 6] = ["permit", "forbid", "principals", "actions", "resources", "when"];

/// The rules of all files, or everything that is wrong with them.
pub(crate) fn read_all(sources: &[PolicySource]) -> Result<Vec<PolicyRule>, Vec<PolicyProblem>> {
    let mut problems = Vec::new();
    let mut rules: Vec<PolicyRule> = Vec::new();
    let mut names: HashMap<String, usize> = HashMap::new();
    for (file, source) in sources.iter().enumerate() {
        let mut reader = RuleReader { source, file, problems: Vec::new() };
        for (rule, name) in reader.read() {
            if let Some(first) = names.insert(rule.name.clone(), rules.len()) {
                let first = &rules[first];
                let place = format!("{}:{}", sources[first.file].file.display(), first.line);
                reader.problem(&name, format!("there is a rule named `{}` already, at {place}", rule.name));
            }
            rules.push(rule);
        }
        problems.extend(reader.problems);
    }
    if rules.len() > MOST_RULES {
        let source = &sources[0];
        let message = format!("there are {} rules, and {MOST_RULES} are the most", rules.len());
        problems.push(PolicyProblem { file: source.file.clone(), line: 1, start: 0, end: 0, message, hint: None });
    }
    if problems.is_empty() { Ok(rules) } else { Err(problems) }
}

struct RuleReader<'a> {
    source: &'a PolicySource,
    file: usize,
    problems: Vec<PolicyProblem>,
}

impl RuleReader<'_> {
    /// The rules, each with the place of its name.
    fn read(&mut self) -> Vec<(PolicyRule, FileNode)> {
        let text = &self.source.text;
        if text.len() > LARGEST_FILE {
            self.problem_at(0, 0, "the file is too large to be a policy".to_owned(), None);
            return Vec::new();
        }
        // Without it a file that is half written could be read as a whole one: its last rules would be missing, or the
        // last condition.
        if text.trim_end().lines().next_back().map(str::trim_end) != Some("...") {
            let hint =
                "a policy file ends with a line of three dots, so that a half-written one is never used".to_owned();
            let end = text.trim_end().len();
            self.problem_at(end, end, "the last line is not `...`: the file is not complete".to_owned(), Some(hint));
            return Vec::new();
        }
        let root = match node::parse(text) {
            Ok(root) => root,
            Err(error) => {
                self.problem_at(error.offset, error.offset, format!("this is not valid YAML: {}", error.message), None);
                return Vec::new();
            }
        };
        let Some(entries) = root.entries() else {
            self.problem(&root, "a policy file is a map with `rules`".to_owned());
            return Vec::new();
        };
        for (key, _) in entries.iter().filter(|(key, _)| key.text() != Some("rules")) {
            let hint = key.text().and_then(|word| suggest(word, ["rules"]));
            self.problem_with(key, format!("unknown key `{}`", key.text().unwrap_or_default()), hint);
        }
        let Some((_, rules)) = entries.iter().find(|(key, _)| key.text() == Some("rules")) else {
            self.problem(&root, "`rules` is missing".to_owned());
            return Vec::new();
        };
        match &rules.content {
            NodeContent::List(items) => items.iter().filter_map(|item| self.rule(item)).collect(),
            _ => {
                self.problem(rules, "`rules` must be a list".to_owned());
                Vec::new()
            }
        }
    }

    fn rule(&mut self, node: &FileNode) -> Option<(PolicyRule, FileNode)> {
        let Some(entries) = node.entries() else {
            self.problem(node, "a rule is a map that begins with `permit: NAME` or `forbid: NAME`".to_owned());
            return None;
        };
        for (key, _) in entries {
            let word = key.text().unwrap_or_default();
            if !KEYS.contains(&word) {
                self.problem_with(key, format!("unknown key `{word}`"), suggest(word, KEYS));
            }
        }
        let get = |wanted: &str| entries.iter().find(|(key, _)| key.text() == Some(wanted)).map(|(_, value)| value);
        let (effect, name) = match (get("permit"), get("forbid")) {
            (Some(name), None) => (RuleEffect::Permit, name),
            (None, Some(name)) => (RuleEffect::Forbid, name),
            (Some(_), Some(second)) => {
                self.problem(second, "a rule permits or forbids, not both".to_owned());
                return None;
            }
            (None, None) => {
                self.problem(node, "a rule needs a name: `permit: NAME` or `forbid: NAME`".to_owned());
                return None;
            }
        };
        let text = self.name(name)?;
        let actions = get("actions");
        let rule = PolicyRule {
            name: text,
            effect,
            actions: match actions {
                Some(node) => self.actions(node),
                None => usual_actions(effect),
            },
            principals: get("principals").map(|node| self.principals(node)).unwrap_or_default(),
            resources: get("resources").map(|node| self.resources(node, effect)).unwrap_or_default(),
            condition: get("when").and_then(|node| self.condition(node, effect)),
            file: self.file,
            line: self.line(node.start),
        };
        Some((rule, name.clone()))
    }

    /// Names stand in logs and in labels of metrics, so they are plain.
    fn name(&mut self, node: &FileNode) -> Option<String> {
        let is_plain = |name: &&str| {
            (1..=64).contains(&name.len())
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
        };
        match node.text().filter(is_plain) {
            Some(DEFAULT) => {
                self.problem(node, format!("`{DEFAULT}` stands for what no rule permits: choose another name"));
                None
            }
            Some(name) => Some(name.to_owned()),
            None => {
                self.problem(node, "a rule's name is up to 64 of A-Z, a-z, 0-9, `-`, `_` and `.`".to_owned());
                None
            }
        }
    }

    /// The items of a list, or one item by itself. An empty list would make a rule that can never match.
    fn items<'node>(&mut self, key: &str, node: &'node FileNode) -> Vec<(&'node FileNode, &'node str)> {
        let items = match &node.content {
            NodeContent::Text(text) => vec![(node, text.as_str())],
            NodeContent::List(items) => {
                let mut texts = Vec::new();
                for item in items {
                    match item.text() {
                        Some(text) => texts.push((item, text)),
                        None => self.problem(item, format!("`{key}` is a list of texts")),
                    }
                }
                texts
            }
            _ => Vec::new(),
        };
        if items.is_empty() {
            let hint = format!("leave `{key}` out to mean all of them");
            self.problem_with(node, format!("`{key}` is empty: the rule can never match"), Some(hint));
        }
        items
    }

    fn actions(&mut self, node: &FileNode) -> ActionSet {
        let mut actions = ActionSet::default();
        for (item, text) in self.items("actions", node) {
            let Ok(glob) = Glob::new(text) else {
                self.problem(item, format!("the pattern `{text}` cannot be read"));
                continue;
            };
            let glob = glob.compile_matcher();
            let meant: Vec<_> = PolicyAction::ALL.into_iter().filter(|action| glob.is_match(action.as_str())).collect();
            if meant.is_empty() {
                let known = PolicyAction::ALL.map(PolicyAction::as_str);
                let hint = suggest(text, known).unwrap_or_else(|| format!("actions are {}", known.join(", ")));
                self.problem_with(item, format!("there is no action `{text}`"), Some(hint));
            }
            actions.extend(meant);
        }
        actions
    }

    fn principals(&mut self, node: &FileNode) -> Vec<PrincipalPattern> {
        let mut patterns = Vec::new();
        for (item, text) in self.items("principals", node) {
            let is_word = matches!(text, "local" | "anonymous") || text.contains([':', '*', '?', '[', '{']);
            if !is_word {
                let hint = format!("a key is `key:{text}`, a person of an issuer `ISSUER:{text}`");
                self.problem_with(item, format!("`{text}` is not the identity of any caller"), Some(hint));
            }
            match PrincipalPattern::read(text) {
                Ok(pattern) => patterns.push(pattern),
                Err(error) => self.problem(item, format!("the pattern `{text}` cannot be read: {}", error.kind())),
            }
        }
        patterns
    }

    fn resources(&mut self, node: &FileNode, effect: RuleEffect) -> Vec<ResourcePattern> {
        let mut patterns = Vec::new();
        for (item, text) in self.items("resources", node) {
            match ResourcePattern::read(text, effect) {
                Ok(pattern) => patterns.push(pattern),
                Err(error) => self.problem(item, format!("the pattern `{text}` cannot be read: {}", error.kind())),
            }
        }
        patterns
    }

    fn condition(&mut self, node: &FileNode, effect: RuleEffect) -> Option<Box<dyn RuleCondition>> {
        let Some(source) = node.text().filter(|source| !source.trim().is_empty()) else {
            self.problem(node, "`when` is a condition, such as `principal.role == \"admin\"`".to_owned());
            return None;
        };
        if source.len() > LONGEST_CONDITION {
            self.problem(node, format!("the condition is longer than {LONGEST_CONDITION} bytes"));
            return None;
        }
        match CelLanguage.compile(source, effect) {
            Ok(condition) => Some(condition),
            Err(problems) => {
                for problem in problems {
                    let start = self.place_in(node, source, problem.offset);
                    self.problem_at(start, start, problem.message, problem.hint);
                }
                None
            }
        }
    }

    /// Where a character of a condition stands in the file. Quotes, folding and indentation lie between the two, so its
    /// line is looked for.
    fn place_in(&self, node: &FileNode, condition: &str, offset: usize) -> usize {
        let byte = condition.char_indices().nth(offset).map_or(condition.len(), |(byte, _)| byte);
        let line_start = condition[..byte].rfind('\n').map_or(0, |at| at + 1);
        let line = condition[line_start..].lines().next().unwrap_or_default();
        let text = &self.source.text;
        match text.get(node.start..).and_then(|rest| rest.find(line.trim())).filter(|_| !line.trim().is_empty()) {
            Some(found) => {
                let indent = line.len() - line.trim_start().len();
                node.start + found + (byte - line_start).saturating_sub(indent)
            }
            None => node.start,
        }
    }

    fn line(&self, offset: usize) -> usize {
        let text = self.source.text.as_bytes();
        text[..offset.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
    }

    fn problem(&mut self, node: &FileNode, message: String) {
        self.problem_with(node, message, None);
    }

    fn problem_with(&mut self, node: &FileNode, message: String, hint: Option<String>) {
        self.problem_at(node.start, node.end, message, hint);
    }

    fn problem_at(&mut self, start: usize, end: usize, message: String, hint: Option<String>) {
        let line = self.line(start);
        self.problems.push(PolicyProblem { file: self.source.file.clone(), line, start, end, message, hint });
    }
}

/// A rule that forbids without naming actions means all of them. One that permits means what callers do with tools,
/// prompts and resources: methods and control must be named.
fn usual_actions(effect: RuleEffect) -> ActionSet {
    let is_meant = |action: &PolicyAction| effect == RuleEffect::Forbid || action.is_use();
    PolicyAction::ALL.into_iter().filter(is_meant).collect()
}

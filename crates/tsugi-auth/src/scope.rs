//! What a token may be used for: sets of scopes, and which scope includes which other.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

/// Scopes, each once, in alphabetical order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScopeSet(BTreeSet<String>);

/// Which scopes a broader scope includes.
///
/// MCP wants hierarchies to count when a server decides whether a token is sufficient.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScopeImplications(BTreeMap<String, ScopeSet>);

impl ScopeSet {
    /// The scopes of a list as it stands in a token or a header: separated by spaces (RFC 6749 §3.3). Words with
    /// characters that no scope may have are left out, so that they can match nothing.
    pub fn parse(list: &str) -> Self {
        list.split(' ').collect()
    }

    /// The scopes of a claim: a list in one text, as RFC 9068 has it, or an array of scopes, as some providers write it.
    pub fn of_claim(claim: &Value) -> Self {
        match claim {
            Value::String(list) => Self::parse(list),
            Value::Array(items) => items.iter().filter_map(Value::as_str).collect(),
            _ => Self::default(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn has(&self, scope: &str) -> bool {
        self.0.contains(scope)
    }

    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// The scopes of both sets.
    pub fn union(&self, other: &ScopeSet) -> ScopeSet {
        ScopeSet(self.0.union(&other.0).cloned().collect())
    }

    /// The scopes of this set that `granted` lacks.
    pub fn missing_from(&self, granted: &ScopeSet) -> ScopeSet {
        ScopeSet(self.0.difference(&granted.0).cloned().collect())
    }
}

impl ScopeImplications {
    /// Scopes and what each of them includes.
    pub fn new(includes: impl IntoIterator<Item = (String, ScopeSet)>) -> Self {
        Self(includes.into_iter().collect())
    }

    /// The scopes of a token with everything that they include, directly or through others.
    pub fn expand(&self, granted: ScopeSet) -> ScopeSet {
        let mut all = granted.0;
        let mut open: Vec<String> = all.iter().cloned().collect();
        while let Some(scope) = open.pop() {
            for included in self.0.get(&scope).into_iter().flat_map(ScopeSet::iter) {
                // A scope is looked at once, so a circle ends.
                if all.insert(included.to_owned()) {
                    open.push(included.to_owned());
                }
            }
        }
        ScopeSet(all)
    }
}

impl<'a> FromIterator<&'a str> for ScopeSet {
    fn from_iter<I: IntoIterator<Item = &'a str>>(scopes: I) -> Self {
        Self(scopes.into_iter().filter(|scope| is_scope(scope)).map(str::to_owned).collect())
    }
}

impl fmt::Display for ScopeSet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, scope) in self.0.iter().enumerate() {
            let gap = if index == 0 { "" } else { " " };
            write!(formatter, "{gap}{scope}")?;
        }
        Ok(())
    }
}

/// Whether a text is a scope: printable ASCII without space, quote and backslash (RFC 6749 §3.3).
pub fn is_scope(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{ScopeImplications, ScopeSet};

    #[test]
    fn scopes_are_read_from_text_and_from_arrays() {
        assert_eq!(ScopeSet::parse("b a  a").to_string(), "a b");
        assert_eq!(ScopeSet::of_claim(&json!(["b", "a", 7])).to_string(), "a b");
        assert!(ScopeSet::of_claim(&json!({"a": true})).is_empty());
        assert!(ScopeSet::parse("a\"b a\\b a\u{7f} ä").is_empty());
        // One item with a space is not two scopes.
        assert!(ScopeSet::of_claim(&json!(["a b"])).is_empty());
    }

    #[test]
    fn a_broader_scope_includes_narrower_ones_even_in_a_circle() {
        let includes = [("all", "write"), ("write", "read"), ("read", "all")];
        let implied = ScopeImplications::new(includes.map(|(scope, list)| (scope.to_owned(), ScopeSet::parse(list))));
        assert_eq!(implied.expand(ScopeSet::parse("write x")).to_string(), "all read write x");
        assert_eq!(implied.expand(ScopeSet::parse("x")).to_string(), "x");
    }

    #[test]
    fn missing_scopes_are_those_that_were_not_granted() {
        let needed = ScopeSet::parse("mcp files.write");
        assert_eq!(needed.missing_from(&ScopeSet::parse("mcp other")).to_string(), "files.write");
        assert!(needed.missing_from(&ScopeSet::parse("files.write mcp")).is_empty());
    }
}

//! How one server is shown: which of its tools, under which names, with which words.

use std::collections::{HashMap, HashSet};

use tsugi_schema::tool_name::ToolNaming;

use crate::gateway::StartError;
use crate::guard::permit::AccessPermit;

/// What is changed about a server on its way out.
#[derive(Debug, Clone, Default)]
pub struct ServerPresentation {
    tools: AccessPermit,
    names: HashMap<String, String>,
    descriptions: HashMap<String, String>,
    naming: Option<ToolNaming>,
    is_silent: bool,
}

impl ServerPresentation {
    /// Shows only tools that `allow` and not `deny` name; patterns are globs over the server's own names.
    pub fn new<S: AsRef<str>>(allow: &[S], deny: &[S]) -> Result<Self, StartError> {
        let of_any = |patterns: &[S]| -> Vec<String> { patterns.iter().map(|p| format!("*/{}", p.as_ref())).collect() };
        Ok(Self { tools: AccessPermit::new(&of_any(allow), &of_any(deny))?, ..Self::default() })
    }

    /// Shows a tool under another name.
    pub fn rename(mut self, own: impl Into<String>, shown: impl Into<String>) -> Self {
        self.names.insert(own.into(), shown.into());
        self
    }

    /// Shows a tool with another description.
    pub fn describe(mut self, own: impl Into<String>, description: impl Into<String>) -> Self {
        self.descriptions.insert(own.into(), description.into());
        self
    }

    /// Forms the public names of this server in another way than those of the others.
    pub fn named(mut self, naming: ToolNaming) -> Self {
        self.naming = Some(naming);
        self
    }

    /// Keeps the server's instructions from callers.
    pub fn silent(mut self) -> Self {
        self.is_silent = true;
        self
    }

    /// How its public names are formed, where it is not as the hub forms them.
    pub fn naming(&self) -> Option<ToolNaming> {
        self.naming
    }

    /// True when callers do not get the server's instructions.
    pub fn is_silent(&self) -> bool {
        self.is_silent
    }

    /// True when some tools may not be shown.
    pub(super) fn hides_tools(&self) -> bool {
        !self.tools.allows_everything()
    }

    /// True when the tool is shown at all.
    pub fn allows(&self, own: &str) -> bool {
        self.tools.allows("", own)
    }

    /// The name it should be shown under.
    pub fn name<'a>(&'a self, own: &'a str) -> &'a str {
        self.names.get(own).map_or(own, String::as_str)
    }

    /// The names that a server's tools are shown under, in their order. A name that another tool has is not given: a tool
    /// that keeps its own name comes before one that would get it, and that one keeps its own name too.
    pub(super) fn names(&self, own: &[&str]) -> Vec<String> {
        let mut kept: HashSet<&str> = own.iter().copied().filter(|own| self.name(own) == *own).collect();
        loop {
            let name = |own: &str| if kept.contains(own) { own.to_owned() } else { self.name(own).to_owned() };
            let mut taken: HashSet<String> = kept.iter().map(|own| (*own).to_owned()).collect();
            let renamed = own.iter().copied().filter(|own| !kept.contains(own));
            let losers: Vec<&str> = renamed.filter(|own| !taken.insert(name(own))).collect();
            if losers.is_empty() {
                return own.iter().map(|own| name(own)).collect();
            }
            kept.extend(losers);
        }
    }

    /// The description it is shown with, where it is not the server's own.
    pub fn description(&self, own: &str) -> Option<&str> {
        self.descriptions.get(own).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(renames: &[(&str, &str)], own: &[&str]) -> Vec<String> {
        renames.iter().fold(ServerPresentation::default(), |shape, (own, shown)| shape.rename(*own, *shown)).names(own)
    }

    #[test]
    fn every_tool_has_a_name_of_its_own() {
        assert_eq!(names(&[("a", "b"), ("b", "a")], &["a", "b"]), ["b", "a"], "an exchange is no clash");
        assert_eq!(names(&[("a", "b")], &["a", "b"]), ["a", "b"], "who keeps its name comes first");
        assert_eq!(names(&[("a", "x"), ("b", "x")], &["a", "b"]), ["x", "b"], "then who is listed first");
        assert_eq!(names(&[("a", "b"), ("c", "a")], &["c", "a", "b"]), ["c", "a", "b"], "one clash leads to another");
        assert_eq!(names(&[("a", "b"), ("b", "c")], &["a", "b"]), ["b", "c"]);
    }
}

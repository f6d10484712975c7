//! Tool names that every model provider accepts, and the map back to the server's own names.

use std::collections::HashMap;

/// Where a public tool name leads: a server and the name the server itself uses.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ToolTarget {
    pub server: String,
    /// The tool as that server names it.
    pub tool: String,
}

impl ToolTarget {
    /// Names a tool of a server.
    pub fn new(server: impl Into<String>, tool: impl Into<String>) -> Self {
        Self { server: server.into(), tool: tool.into() }
    }
}

/// Longest name every provider takes.
pub const MAX_NAME: usize = 64;
/// Characters of a shortened name that are still its own; the rest is `_` and eight digits of a digest.
const KEPT: usize = 55;

/// How public names are formed from a server and a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToolNaming {
    /// `server__tool`, always.
    #[default]
    Prefix,
    /// `tool`, and `server__tool` only for names that more than one server has.
    PrefixOnConflict,
    /// `tool`; tools of the same name get a digest.
    Bare,
}

/// Public names and what they stand for. A name is looked up here and never parsed: `__` may occur in a tool's own name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NameMap {
    targets: HashMap<String, ToolTarget>,
    names: HashMap<ToolTarget, String>,
}

impl NameMap {
    /// Names all `targets`; the result depends on the set of targets, not on their order.
    pub fn build(targets: impl IntoIterator<Item = ToolTarget>, naming: ToolNaming) -> Self {
        Self::build_within(targets, naming, MAX_NAME)
    }

    /// As [`NameMap::build`], with names of at most `longest` characters (16 or more).
    pub fn build_within(targets: impl IntoIterator<Item = ToolTarget>, naming: ToolNaming, longest: usize) -> Self {
        Self::build_each(targets.into_iter().map(|target| (target, naming)), longest)
    }

    /// As [`NameMap::build_within`], where each tool says how it is to be named.
    pub fn build_each(targets: impl IntoIterator<Item = (ToolTarget, ToolNaming)>, longest: usize) -> Self {
        let mut targets: Vec<(ToolTarget, ToolNaming)> = targets.into_iter().collect();
        // Sorted, so that names do not depend on the order of the servers.
        targets.sort_by(|(one, _), (other, _)| one.cmp(other));
        targets.dedup_by(|(one, _), (other, _)| one == other);
        let wanted = wanted_names(&targets);
        let uses = count(wanted.iter().map(String::as_str));
        let mut map = Self::default();
        let mut crowded = Vec::new();
        for ((target, _), wanted) in targets.into_iter().zip(&wanted) {
            // Those that are alone keep their name; only the others get an alias.
            if uses[wanted.as_str()] > 1 || wanted.len() > longest {
                crowded.push((target, wanted));
            } else {
                map.insert(wanted.clone(), target);
            }
        }
        for (target, wanted) in crowded {
            let name = map.free_alias(wanted, &target, longest);
            map.insert(name, target);
        }
        map
    }

    /// What a public name stands for.
    pub fn target(&self, name: &str) -> Option<&ToolTarget> {
        self.targets.get(name)
    }

    /// The public name of a tool.
    pub fn name(&self, target: &ToolTarget) -> Option<&str> {
        self.names.get(target).map(String::as_str)
    }

    /// All public names with their targets, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &ToolTarget)> {
        self.targets.iter().map(|(name, target)| (name.as_str(), target))
    }

    /// How many tools are named.
    pub fn len(&self) -> usize {
        self.targets.len()
    }

    /// Whether no tool is named.
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }

    fn insert(&mut self, name: String, target: ToolTarget) {
        self.names.insert(target.clone(), name.clone());
        self.targets.insert(name, target);
    }

    /// A digest name that nothing uses yet. A plain name could spell another tool's alias, by malice or by chance,
    /// so the salt grows until the alias is free.
    fn free_alias(&self, wanted: &str, target: &ToolTarget, longest: usize) -> String {
        let is_free = |alias: &String| !self.targets.contains_key(alias);
        // The salt enters the hash; with 0 it is nearly always free.
        (0u32..)
            .map(|salt| alias(wanted, target, salt, longest))
            .find(is_free)
            .expect("some salt gives a name that is free")
    }
}

/// The public name of one tool taken alone: `server__tool` made safe and short.
pub fn safe_name(server: &str, tool: &str) -> String {
    let wanted = prefixed(server, tool);
    if wanted.len() <= MAX_NAME {
        return wanted;
    }
    alias(&wanted, &ToolTarget::new(server, tool), 0, MAX_NAME)
}

/// Makes one name fit by itself, for names that did not come from a [`NameMap`].
pub fn fit(name: &str) -> String {
    let wanted = sanitize(name);
    if wanted.len() <= MAX_NAME {
        return wanted;
    }
    alias(&wanted, &ToolTarget::new("", name), 0, MAX_NAME)
}

/// Replaces what no provider accepts, so that the text matches `^[A-Za-z_][A-Za-z0-9_-]*$`.
pub fn sanitize(text: &str) -> String {
    let mut name: String = text
        .chars()
        .map(|character| match character {
            'A'..='Z' | 'a'..='z' | '0'..='9' | '_' | '-' => character,
            _ => '_',
        })
        .collect();
    if !name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') {
        name.insert(0, '_');
    }
    name
}

/// Whether every provider accepts `name` as it is.
pub fn is_safe(name: &str) -> bool {
    !name.is_empty() && name.len() <= MAX_NAME && sanitize(name) == name
}

fn wanted_names(targets: &[(ToolTarget, ToolNaming)]) -> Vec<String> {
    let bare: Vec<String> = targets.iter().map(|(target, _)| sanitize(&target.tool)).collect();
    // A tool that is prefixed in any case cannot clash.
    let may_be_bare = targets.iter().zip(&bare).filter(|((_, naming), _)| *naming != ToolNaming::Prefix);
    let uses = count(may_be_bare.map(|(_, bare)| bare.as_str()));
    let choose = |((target, naming), bare): (&(ToolTarget, ToolNaming), &String)| match naming {
        ToolNaming::Bare => bare.clone(),
        ToolNaming::PrefixOnConflict if uses[bare.as_str()] == 1 => bare.clone(),
        _ => prefixed(&target.server, &target.tool),
    };
    targets.iter().zip(&bare).map(choose).collect()
}

fn prefixed(server: &str, tool: &str) -> String {
    sanitize(&format!("{server}__{tool}"))
}

fn count<'a>(names: impl Iterator<Item = &'a str>) -> HashMap<&'a str, usize> {
    let mut uses = HashMap::new();
    for name in names {
        *uses.entry(name).or_default() += 1;
    }
    uses
}

/// First characters + `_` + 8 hexadecimal digits of SHA-256(`server\0tool`).
fn alias(wanted: &str, target: &ToolTarget, salt: u32, longest: usize) -> String {
    let mut context = ring::digest::Context::new(&ring::digest::SHA256);
    context.update(target.server.as_bytes());
    context.update(b"\0");
    context.update(target.tool.as_bytes());
    if salt > 0 {
        context.update(&salt.to_be_bytes());
    }
    let digest = context.finish();
    let digits: String = digest.as_ref()[..4].iter().map(|byte| format!("{byte:02x}")).collect();
    // `wanted` is sanitized and so ASCII: a cut anywhere is between characters.
    let kept = wanted.len().min(KEPT).min(longest.max(16) - 9);
    format!("{}_{digits}", &wanted[..kept])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build(pairs: &[(&str, &str)], naming: ToolNaming) -> NameMap {
        NameMap::build(pairs.iter().map(|(server, tool)| ToolTarget::new(*server, *tool)), naming)
    }

    #[test]
    fn each_tool_is_named_as_its_server_asks() {
        let named = [
            ("a", "read", ToolNaming::Prefix),
            ("b", "read", ToolNaming::PrefixOnConflict),
            ("c", "list", ToolNaming::Bare),
        ];
        let pairs = named.map(|(server, tool, naming)| (ToolTarget::new(server, tool), naming));
        let map = NameMap::build_each(pairs, MAX_NAME);
        let name = |server: &str, tool: &str| map.name(&ToolTarget::new(server, tool)).unwrap().to_owned();
        assert_eq!([name("a", "read"), name("b", "read"), name("c", "list")], ["a__read", "read", "list"]);
    }

    #[test]
    fn a_plain_tool_is_called_server_double_underscore_tool() {
        let map = build(&[("files", "read")], ToolNaming::Prefix);
        assert_eq!(map.target("files__read"), Some(&ToolTarget::new("files", "read")));
    }

    #[test]
    fn characters_no_provider_takes_become_underscores() {
        assert_eq!(safe_name("my server", "a/b.c"), "my_server__a_b_c");
        assert_eq!(safe_name("1st", "x"), "_1st__x");
        assert_eq!(safe_name("-x", "é"), "_-x___");
        assert_eq!(sanitize(""), "_");
    }

    #[test]
    fn a_long_name_keeps_55_characters_and_gets_a_digest() {
        let tool = "t".repeat(200);
        let name = safe_name("server", &tool);
        assert_eq!(name.len(), 64);
        assert!(name.starts_with("server__ttt"));
        assert_eq!(name, safe_name("server", &tool));
        assert_eq!(&name[55..56], "_");
    }

    #[test]
    fn names_that_collide_all_get_a_digest_and_all_come_back() {
        let pairs = [("a", "b__c"), ("a__b", "c"), ("a", "b.c"), ("a", "b c")];
        let map = build(&pairs, ToolNaming::Prefix);
        assert_eq!(map.len(), 4);
        for (server, tool) in pairs {
            let target = ToolTarget::new(server, tool);
            let name = map.name(&target).unwrap();
            assert!(is_safe(name), "{name}");
            assert_eq!(map.target(name), Some(&target));
        }
    }

    #[test]
    fn a_tool_that_spells_anothers_alias_does_not_take_it() {
        let stolen = {
            let map = build(&[("s", "a.b"), ("s", "a b")], ToolNaming::Prefix);
            map.name(&ToolTarget::new("s", "a.b")).unwrap().to_owned()
        };
        let spelled = stolen.strip_prefix("s__").unwrap();
        let map = build(&[("s", "a.b"), ("s", "a b"), ("s", spelled)], ToolNaming::Prefix);
        assert_eq!(map.len(), 3);
    }

    #[test]
    fn prefix_on_conflict_keeps_unique_names_bare() {
        let map = build(&[("a", "read"), ("b", "read"), ("b", "write")], ToolNaming::PrefixOnConflict);
        assert!(map.target("write").is_some());
        assert!(map.target("a__read").is_some() && map.target("b__read").is_some());
    }
}

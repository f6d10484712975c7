//! Extensions: what client and server declare beside the core of MCP, and which methods belong to them
//! ([Extensions](https://modelcontextprotocol.io/specification/2026-07-28/basic/extensions)).

use crate::json::{JsonObject, ObjectWriter, RawJson};

/// The member of capabilities that holds them.
pub(super) const EXTENSIONS: &str = "extensions";

/// Calls that are answered later.
pub const TASKS: &str = "io.modelcontextprotocol/tasks";
/// Instructions with files, for models.
pub const SKILLS: &str = "io.modelcontextprotocol/skills";
/// Pages that tools are shown with.
pub const APPS: &str = "io.modelcontextprotocol/ui";

/// True when capabilities declare an extension.
pub(super) fn is_declared(capabilities: &JsonObject, id: &str) -> bool {
    capabilities.get_object(EXTENSIONS).is_some_and(|declared| declared.has(id))
}

/// The extensions that capabilities declare, each with its settings.
pub(super) fn declared(capabilities: &JsonObject) -> Vec<(String, RawJson)> {
    let Some(all) = capabilities.get_object(EXTENSIONS) else { return Vec::new() };
    all.members().iter().map(|member| (all.key(*member).into_owned(), all.value(*member))).collect()
}

/// `{"extensions":{ID:{}}}`, the capability that a client lacks.
pub fn required(id: &str) -> RawJson {
    let mut capability = ObjectWriter::with_capacity(64);
    capability.object(EXTENSIONS, |all| {
        all.raw(id, &RawJson::literal("{}"));
    });
    capability.finish()
}

/// How surely a method belongs to an extension. The name of an extension is `vendor/name`, and its methods begin with
/// all of that, with the name alone, as those of the official extensions do, or only with the vendor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PrefixMatch {
    Vendor,
    Name,
    Whole,
}

impl PrefixMatch {
    /// How a method fits the extension with this id; `None` when it does not.
    pub fn of(method: &str, id: &str) -> Option<Self> {
        let begins_with = |prefix: &str| {
            let rest = method.strip_prefix(prefix);
            !prefix.is_empty() && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        if begins_with(id) {
            return Some(PrefixMatch::Whole);
        }
        let (vendor, name) = id.split_once('/')?;
        match () {
            () if begins_with(name) => Some(PrefixMatch::Name),
            () if begins_with(vendor) => Some(PrefixMatch::Vendor),
            () => None,
        }
    }
}

/// The settings of an extension that several servers declare: those that all of them have alike, and switches that one
/// of them has on.
pub fn common_settings(all: &[&RawJson]) -> RawJson {
    let objects: Vec<JsonObject> = all.iter().filter_map(|settings| JsonObject::of(settings)).collect();
    let mut common = ObjectWriter::with_capacity(64);
    let mut written: Vec<String> = Vec::new();
    for settings in &objects {
        for member in settings.members() {
            let (key, value) = (settings.key(*member).into_owned(), settings.value(*member));
            let is_alike = || objects.iter().all(|other| other.get(&key).is_some_and(|other| other == value));
            if !written.contains(&key) && (value.as_str() == "true" || is_alike()) {
                common.raw(&key, &value);
                written.push(key);
            }
        }
    }
    common.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_belongs_to_the_extension_that_its_beginning_names() {
        use PrefixMatch::*;
        for (method, id, expected) in [
            ("tasks/get", TASKS, Some(Name)),
            ("io.modelcontextprotocol/tasks/get", TASKS, Some(Whole)),
            ("com.example/widgets", "com.example/widgets", Some(Whole)),
            ("com.example/other", "com.example/widgets", Some(Vendor)),
            ("tasksx/get", TASKS, None),
            ("widgets/list", TASKS, None),
            ("x", "plain", None),
            ("plain/x", "plain", Some(Whole)),
            ("/x", "/x", Some(Whole)),
            ("x", "", None),
        ] {
            assert_eq!(PrefixMatch::of(method, id), expected, "{method} {id}");
        }
        assert!(Whole > Name && Name > Vendor);
    }

    #[test]
    fn settings_that_servers_do_not_share_are_not_announced() {
        let raw = RawJson::literal;
        let one = raw(r#"{"directoryRead":true,"version":1,"same":[1],"off":false}"#);
        let two = raw(r#"{"version":2,"same":[1],"off":false}"#);
        assert_eq!(common_settings(&[&one, &two]).as_str(), r#"{"directoryRead":true,"same":[1],"off":false}"#);
        assert_eq!(common_settings(&[&one]).as_str(), one.as_str());
        assert_eq!(required("a/b").as_str(), r#"{"extensions":{"a/b":{}}}"#);
    }
}

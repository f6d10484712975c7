//! Every key of the configuration, once: its names, its default and what it means.
//!
//! The reader takes names and defaults from here, unknown keys are compared with these, and the
//! reference page is generated from them.

mod downstream;
mod policy;
mod top;
mod upstream;

pub(crate) use downstream::{admin, api_key, auth, gateway, limits};
pub(crate) use policy::{breaker, cache, pool, retry, sandbox, validate};
pub(crate) use top::{options, root};
pub(crate) use upstream::{server, tool};

/// One key.
#[derive(Debug)]
pub(crate) struct SettingKey {
    pub(crate) name: &'static str,
    /// Other spellings, which other programs use.
    pub(crate) aliases: &'static [&'static str],
    /// What a value looks like, for people.
    pub(crate) kind: &'static str,
    /// What holds when the key is absent, as it would be written; empty if nothing does.
    pub(crate) default: &'static str,
    /// What it is for.
    pub(crate) meaning: &'static str,
}

/// The keys of one map.
#[derive(Debug)]
pub(crate) struct SettingTable {
    /// Where the map stands, such as `servers[].retryPolicy`; empty for the file itself.
    pub(crate) path: &'static str,
    pub(crate) about: &'static str,
    pub(crate) keys: &'static [&'static SettingKey],
}

/// All maps, in the order of the reference page.
pub(crate) static TABLES: &[&SettingTable] = &[
    &root::TABLE,
    &server::TABLE,
    &tool::TABLE,
    &retry::TABLE,
    &cache::TABLE,
    &validate::TABLE,
    &breaker::TABLE,
    &sandbox::TABLE,
    &pool::TABLE,
    &options::TABLE,
    &gateway::TABLE,
    &auth::TABLE,
    &api_key::TABLE,
    &limits::TABLE,
    &admin::TABLE,
];

/// What people write who mean one of our keys; in letters it is too far from it to be found.
const MEANT: [(&str, &str); 9] = [
    ("cmd", "command"),
    ("exec", "command"),
    ("executable", "command"),
    ("program", "command"),
    ("run", "command"),
    ("uri", "url"),
    ("address", "url"),
    ("environment", "env"),
    ("arguments", "args"),
];

impl SettingKey {
    /// Whether a user's word is this key.
    pub(crate) fn is_called(&self, word: &str) -> bool {
        self.name == word || self.aliases.contains(&word)
    }
}

impl SettingTable {
    /// The key that a user's word means.
    pub(crate) fn find(&self, word: &str) -> Option<&'static SettingKey> {
        self.keys.iter().copied().find(|key| key.is_called(word))
    }

    /// Where the map stands, in words.
    pub(crate) fn place(&self) -> String {
        if self.path.is_empty() { "the configuration".to_owned() } else { format!("`{}`", self.path) }
    }

    /// The key whose name is nearest to a word that is no key.
    pub(crate) fn nearest(&self, word: &str) -> Option<&'static str> {
        let meant = MEANT.iter().find(|(other, _)| other.eq_ignore_ascii_case(word));
        if let Some(key) = meant.and_then(|(_, name)| self.find(name)) {
            return Some(key.name);
        }
        let names = self.keys.iter().flat_map(|key| std::iter::once(&key.name).chain(key.aliases));
        nearest(word, names.copied())
    }
}

/// The candidate nearest to a word, if one is near at all.
pub(crate) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |text: &str| text.to_lowercase().replace(['_', '-'], "");
    let score = |candidate: &str| strsim::jaro_winkler(&plain(word), &plain(candidate));
    let scored = candidates.into_iter().map(|candidate| (score(candidate), candidate));
    let (score, best) = scored.max_by(|one, other| one.0.total_cmp(&other.0))?;
    (score > 0.8).then_some(best)
}

/// Defines the keys of one map as statics in a module, and their table.
macro_rules! keys {
    (
        $module:ident at $path:literal: $about:literal
        $($constant:ident = $name:literal $(| $alias:literal)*, $kind:literal, $default:literal, $meaning:literal;)*
    ) => {
        #[doc = $about]
        pub(crate) mod $module {
            use $crate::config::key::{SettingKey, SettingTable};

            $(
                #[doc = $meaning]
                pub(crate) static $constant: SettingKey = SettingKey {
                    name: $name,
                    aliases: &[$($alias),*],
                    kind: $kind,
                    default: $default,
                    meaning: $meaning,
                };
            )*

            /// The keys of this map.
            pub(crate) static TABLE: SettingTable = SettingTable { path: $path, about: $about, keys: &[$(&$constant),*] };
        }
    };
}
use keys;

#[cfg(test)]
mod tests;

//! Every setting, defined once: its names, type, default, meaning and validation.
//!
//! The definitions stand in [`super::settings`], beside the structs that they fill. The reader takes names, defaults and
//! parsers from here. Unknown keys are compared with these, and the reference page and the JSON Schema are generated from
//! them.

pub(crate) mod schema;
pub(crate) mod shape;
pub(crate) mod value;

use std::ops::Deref;

use super::settings::{
    admin, admin_needs, api_key, audit, audit_sink, auth, breaker, cache, caller_certificate, certificate, egress,
    gateway, introspection, issuer, issuer_claims, limits, listener_tls, options, outbound, pin, pool, previous_key,
    quota_rule, retry, root, sandbox, scope_rule, scopes, server, server_tls, sign_in, tool, validate,
};
use shape::SchemaShape;
use value::ValueType;

/// A key of the configuration, as far as it is the same for values of all types.
#[derive(Debug)]
pub(crate) struct SettingKey {
    pub(crate) name: &'static str,
    /// Other spellings, which the seeds and other programs use.
    pub(crate) aliases: &'static [&'static str],
    pub(crate) shape: SchemaShape,
    /// The value that holds when the key is absent, as it would be written; empty if there is none.
    pub(crate) default: &'static str,
    pub(crate) meaning: &'static str,
}

/// A key whose values are of one type.
#[derive(Debug)]
pub(crate) struct Setting<T: 'static> {
    pub(crate) key: SettingKey,
    pub(crate) value: ValueType<T>,
}

impl<T> Setting<T> {
    pub(crate) const fn new(
        name: &'static str,
        aliases: &'static [&'static str],
        value: ValueType<T>,
        default: &'static str,
        meaning: &'static str,
    ) -> Self {
        Setting { key: SettingKey { name, aliases, shape: value.shape, default, meaning }, value }
    }
}

impl<T> Deref for Setting<T> {
    type Target = SettingKey;

    fn deref(&self) -> &SettingKey {
        &self.key
    }
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
    &server_tls::TABLE,
    &tool::TABLE,
    &retry::TABLE,
    &cache::TABLE,
    &validate::TABLE,
    &pin::TABLE,
    &breaker::TABLE,
    &sandbox::TABLE,
    &egress::TABLE,
    &pool::TABLE,
    &options::TABLE,
    &gateway::TABLE,
    &listener_tls::TABLE,
    &certificate::TABLE,
    &auth::TABLE,
    &api_key::TABLE,
    &previous_key::TABLE,
    &issuer::TABLE,
    &issuer_claims::TABLE,
    &sign_in::TABLE,
    &quota_rule::TABLE,
    &introspection::TABLE,
    &scopes::TABLE,
    &scope_rule::TABLE,
    &admin_needs::TABLE,
    &caller_certificate::TABLE,
    &limits::TABLE,
    &admin::TABLE,
    &audit::TABLE,
    &audit_sink::TABLE,
    &outbound::TABLE,
];

/// Words that people write for one of our keys and that are too far from it in letters to be found.
const SYNONYMS: [(&str, &str); 11] = [
    ("cmd", "command"),
    ("exec", "command"),
    ("executable", "command"),
    ("program", "command"),
    ("run", "command"),
    ("uri", "url"),
    ("address", "url"),
    ("environment", "env"),
    ("arguments", "args"),
    ("enabled", "disabled"),
    ("quiet", "quietTools"),
];

impl SettingKey {
    /// Whether a user's word is this key.
    pub(crate) fn is_called(&self, word: &str) -> bool {
        self.name == word || self.aliases.contains(&word)
    }

    /// The key and its other spellings.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
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

    /// The key whose name is nearest to an unknown word.
    pub(crate) fn nearest(&self, word: &str) -> Option<&'static str> {
        // A synonym is certain, and a resemblance only a guess.
        let meant = SYNONYMS.iter().find(|(other, _)| other.eq_ignore_ascii_case(word));
        // The synonym may be a key of another map.
        if let Some(key) = meant.and_then(|(_, name)| self.find(name)) {
            return Some(key.name);
        }
        nearest(word, self.keys.iter().flat_map(|key| key.names()))
    }
}

/// The candidate nearest to a word, if one is near at all.
pub(crate) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // `max_body_size` and `maxBodySize` differ in style alone.
    let plain = |text: &str| text.to_lowercase().replace(['_', '-'], "");
    let score = |candidate: &str| strsim::jaro_winkler(&plain(word), &plain(candidate));
    let scored = candidates.into_iter().map(|candidate| (score(candidate), candidate));
    let (score, best) = scored.max_by(|one, other| one.0.total_cmp(&other.0))?;
    // Words with less in common would make a misleading hint.
    (score > 0.8).then_some(best)
}

/// Defines the keys of one map, the struct that they fill, and how it is read.
///
/// Each line is one setting: how it is read, the name of its static, the field and its type, the key with its aliases, the
/// type of the value, the default, and the meaning. It is read in one of these ways:
///
/// - `one`: a value, or the default
/// - `maybe`: a value, or `None`
/// - `many`: a list, or the default list
/// - `custom`, `maybe_custom`, `listed`: by the expression at the end of the line, as a value, an option or a list
/// - `hand`: the same, for a value that is not a single text
///
/// Keys that fill no field stand in `keys { … }`, and fields without a key in `fields { … }`. The struct is defined here
/// (`own`) or by a library (`library`).
macro_rules! settings {
    (
        $module:ident at $path:literal: $about:literal
        $(keys { $(
            $key:ident: $key_type:ty = $key_name:literal $(| $key_alias:literal)*, $key_value:expr, $key_default:literal, $key_meaning:literal;
        )* })?
        $(=>
            $(#[$attribute:meta])*
            $definition:ident $type:ident($reader:ident, $section:ident $(, $extra:ident: $extra_type:ty)*) {
                $(
                    $(#[$field_attribute:meta])*
                    $way:ident $constant:ident $field:ident: $field_type:ty =
                        $name:literal $(| $alias:literal)*, $value:expr, $default:literal, $meaning:literal $(, $hand:expr)?;
                )*
            }
            $(fields { $($plain:ident: $plain_type:ty = $plain_value:expr;)* })?
        )?
    ) => {
        #[doc = $about]
        pub(crate) mod $module {
            #[allow(unused_imports, reason = "not every map has values of every type")]
            use super::*;
            use $crate::config::key::{Setting, SettingTable};

            $($(
                // The meaning is the doc comment and the text of the reference page, so the two cannot differ.
                #[doc = $key_meaning]
                pub(crate) static $key: Setting<$key_type> =
                    Setting::new($key_name, &[$($key_alias),*], $key_value, $key_default, $key_meaning);
            )*)?
            $($(
                #[doc = $meaning]
                pub(crate) static $constant: Setting<settings!(@value $way $field_type)> =
                    Setting::new($name, &[$($alias),*], $value, $default, $meaning);
            )*)?

            /// The keys of this map.
            pub(crate) static TABLE: SettingTable =
                SettingTable { path: $path, about: $about, keys: &[$($(&$key.key,)*)? $($(&$constant.key,)*)?] };
        }

        $(
            settings! {
                @$definition $(#[$attribute])* $type
                { $($($plain: $plain_type;)*)? }
                { $($(#[$field_attribute])* $way $field: $field_type = $meaning;)* }
            }

            #[allow(unused_variables, reason = "a map may be read without looking at everything around it")]
            pub(in crate::config) fn $module(
                $reader: &mut SettingsReader<'_>,
                $section: &SettingsSection<'_>
                $(, $extra: $extra_type)*
            ) -> $type {
                $type {
                    $($($plain: $plain_value,)*)?
                    $($field: settings!(@read $way $reader $section $module $constant $field $($hand)?),)*
                }
            }
        )?
    };
    (
        @own $(#[$attribute:meta])* $type:ident
        { $($plain:ident: $plain_type:ty;)* }
        { $($(#[$field_attribute:meta])* $way:ident $field:ident: $field_type:ty = $meaning:literal;)* }
    ) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, PartialEq, serde::Serialize)]
        #[serde(rename_all = "camelCase")]
        pub(crate) struct $type {
            $(pub(crate) $plain: $plain_type,)*
            $($(#[$field_attribute])* #[doc = $meaning] pub(crate) $field: settings!(@field $way $field_type),)*
        }
    };
    // The struct exists in a library, so only its keys and its reader are generated.
    (@library $($rest:tt)*) => {};
    // A setting that is read by hand is not one text, so there is no type to parse it as.
    (@value hand $type:ty) => { () };
    (@value $way:ident $type:ty) => { $type };
    (@field maybe $type:ty) => { Option<$type> };
    (@field maybe_custom $type:ty) => { Option<$type> };
    (@field many $type:ty) => { Vec<$type> };
    (@field listed $type:ty) => { Vec<$type> };
    (@field $way:ident $type:ty) => { $type };
    (@read one $reader:ident $section:ident $module:ident $constant:ident $field:ident) => {
        $reader.or_default($section, &$module::$constant)
    };
    (@read maybe $reader:ident $section:ident $module:ident $constant:ident $field:ident) => {
        $reader.optional($section, &$module::$constant)
    };
    (@read many $reader:ident $section:ident $module:ident $constant:ident $field:ident) => {
        $reader.list_or_default($section, &$module::$constant)
    };
    // Every other way brings its own expression.
    (@read $way:ident $reader:ident $section:ident $module:ident $constant:ident $field:ident $hand:expr) => { $hand };
}
pub(in crate::config) use settings;

#[cfg(test)]
mod tests;

//! Every setting, defined once: its names, type, default, meaning and validation.
//!
//! The definitions stand in [`super::settings`], beside the structs that they fill. The reader takes names, defaults and
//! parsers from here. Unknown keys are compared with these, and the reference page and the JSON Schema are generated from
//! them.

pub(crate) mod schema;
pub(crate) mod shape;
pub(crate) mod value;

use std::ops::Deref;

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
        // A doc comment brings the space after its slashes.
        let meaning = meaning.trim_ascii();
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
/// A setting is a doc comment, which is also its text on the reference page, and a line of named parts:
///
/// ```text
/// /// Calls in flight to it at the same time; more wait in a bounded queue.
/// one max_in_flight: usize = key(MAX_IN_FLIGHT: "maxInFlight") value(positive()) default("64");
/// ```
///
/// The first word says what the field holds: `one` value, `maybe` a value (an `Option`), or `many` (a `Vec`). The parts, in
/// this order:
///
/// - `key(STATIC: "name" | "alias")`: the static that stands for the key in code, its name, and other spellings of it
/// - `value(TYPE)`: how one text becomes a value; or `shape(SHAPE)` for a map, a list or a text that `read` takes apart
/// - `default("…")`: the value that holds when the key is absent, as it would be written
/// - `inherit(EXPRESSION)`: the value that holds instead of a default, such as that of a map further out
/// - `read(EXPRESSION)`: what fills the field, where the parts above cannot say it
/// - `serde(…)`: attributes of the field for `tsugi config show`
///
/// Keys that fill no field stand in `keys { … }`, and fields without a key in `fields { … }`. The struct is defined here
/// (`struct`) or by a library (`library`).
macro_rules! settings {
    (
        $(#[doc = $about:literal])+
        $module:ident at $path:literal
        $(keys { $(
            $(#[doc = $key_meaning:literal])+
            $key:ident $(: $key_type:ty)? =
                key($key_name:literal $(| $key_alias:literal)*)
                $(value($key_value:expr))? $(shape($key_shape:expr))? $(default($key_default:literal))?;
        )* })?
        $(=>
            $(#[$attribute:meta])*
            $definition:ident $type:ident($reader:ident, $section:ident $(, $extra:ident: $extra_type:ty)*) {
                $(
                    $(#[doc = $meaning:literal])+
                    $way:ident $field:ident: $field_type:ty =
                        key($constant:ident: $name:literal $(| $alias:literal)*)
                        $(value($value:expr))? $(shape($shape:expr))?
                        $(default($default:literal))?
                        $(inherit($inherit:expr))? $(read($read:expr))?
                        $(serde($($serde:tt)*))?;
                )*
            }
            $(fields { $($plain:ident: $plain_type:ty = $plain_value:expr;)* })?
        )?
    ) => {
        $(#[doc = $about])+
        pub(crate) mod $module {
            #[allow(unused_imports, reason = "not every map has values of every type")]
            use super::*;
            use $crate::config::key::{Setting, SettingTable};

            $($(
                // The meaning is the doc comment and the text of the reference page, so the two cannot differ.
                $(#[doc = $key_meaning])+
                pub(crate) static $key: Setting<settings!(@type $($key_type)?; $(value $key_value)? $(shape $key_shape)?)> =
                    Setting::new(
                        $key_name,
                        &[$($key_alias),*],
                        settings!(@parser $(value $key_value)? $(shape $key_shape)?),
                        concat!("", $($key_default)?),
                        concat!($($key_meaning),+),
                    );
            )*)?
            $($(
                $(#[doc = $meaning])+
                pub(crate) static $constant: Setting<settings!(@type $field_type; $(value $value)? $(shape $shape)?)> =
                    Setting::new(
                        $name,
                        &[$($alias),*],
                        settings!(@parser $(value $value)? $(shape $shape)?),
                        concat!("", $($default)?),
                        concat!($($meaning),+),
                    );
            )*)?

            /// The keys of this map.
            pub(crate) static TABLE: SettingTable = SettingTable {
                path: $path,
                about: concat!($($about),+).trim_ascii(),
                keys: &[$($(&$key.key,)*)? $($(&$constant.key,)*)?],
            };
        }

        $(
            settings! {
                @$definition $(#[$attribute])* $type
                { $($($plain: $plain_type;)*)? }
                { $($([$meaning])+ $way $field: $field_type; [$($($serde)*)?];)* }
            }

            #[allow(unused_variables, reason = "a map may be read without looking at everything around it")]
            pub(in crate::config) fn $module(
                $reader: &mut SettingsReader<'_>,
                $section: &SettingsSection<'_>
                $(, $extra: $extra_type)*
            ) -> $type {
                $type {
                    $($($plain: $plain_value,)*)?
                    $($field: settings!(
                        @read $way ($reader, $section, $module::$constant) $(inherit $inherit)? $(read $read)?
                    ),)*
                }
            }
        )?
    };
    (
        @struct $(#[$attribute:meta])* $type:ident
        { $($plain:ident: $plain_type:ty;)* }
        { $($([$meaning:literal])+ $way:ident $field:ident: $field_type:ty; [$($serde:tt)*];)* }
    ) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, PartialEq, serde::Serialize)]
        #[serde(rename_all = "camelCase")]
        pub(crate) struct $type {
            $(pub(crate) $plain: $plain_type,)*
            $($(#[doc = $meaning])+ #[serde($($serde)*)] pub(crate) $field: settings!(@field $way $field_type),)*
        }
    };
    // The struct exists in a library, so only its keys and its reader are generated.
    (@library $($rest:tt)*) => {};
    // Only a setting that is one text has a type to parse it as.
    (@type $($type:ty)?; value $value:expr) => { $($type)? };
    (@type $($type:ty)?; shape $shape:expr) => { () };
    (@parser value $value:expr) => { $value };
    (@parser shape $shape:expr) => { $crate::config::key::value::by_hand($shape) };
    (@field one $type:ty) => { $type };
    (@field maybe $type:ty) => { Option<$type> };
    (@field many $type:ty) => { Vec<$type> };
    (@read $way:ident ($reader:ident, $section:ident, $key:path) read $read:expr) => { $read };
    (@read one ($reader:ident, $section:ident, $key:path)) => { $reader.or_default($section, &$key) };
    (@read one ($reader:ident, $section:ident, $key:path) inherit $value:expr) => {
        $reader.optional($section, &$key).unwrap_or($value)
    };
    (@read maybe ($reader:ident, $section:ident, $key:path)) => { $reader.optional($section, &$key) };
    (@read maybe ($reader:ident, $section:ident, $key:path) inherit $value:expr) => {
        $reader.optional($section, &$key).or($value)
    };
    (@read many ($reader:ident, $section:ident, $key:path)) => { $reader.list_or_default($section, &$key) };
    (@read many ($reader:ident, $section:ident, $key:path) inherit $value:expr) => {
        $reader.optional_list($section, &$key).unwrap_or_else(|| $value)
    };
}
pub(in crate::config) use settings;

#[cfg(test)]
mod tests;

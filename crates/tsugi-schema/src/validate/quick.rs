//! A first look that says yes to most values without building anything: plain objects of plain values are checked
//! while they are read. Whatever it does not say yes to is left to the whole check, which also says what is wrong.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// The drafts whose words mean here what they mean in 2020-12.
const DRAFTS: [&str; 3] = [
    "https://json-schema.org/draft/2020-12/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "http://json-schema.org/draft-07/schema#",
];
/// Words that say nothing about a value.
const SILENT: [&str; 8] =
    ["$schema", "$comment", "title", "description", "default", "examples", "deprecated", "readOnly"];
/// Below this every whole number has a float of its own.
const EXACT: f64 = 9_007_199_254_740_992.0;
/// More properties than this are left to the whole check.
const MOST: usize = 64;

/// A schema as far as the first look understands it.
#[derive(Debug)]
pub(super) struct Quick(Node);

impl Quick {
    /// Nothing, when it would never say yes.
    pub(super) fn of(schema: &Value) -> Option<Self> {
        let draft = schema.get("$schema");
        if draft.is_some_and(|draft| !DRAFTS.iter().any(|known| draft == known)) {
            return None;
        }
        match Node::of(schema) {
            Node::Unsure => None,
            node => Some(Self(node)),
        }
    }

    /// True when the value certainly fits.
    pub(super) fn accepts(&self, text: &[u8]) -> bool {
        let mut reader = serde_json::Deserializer::from_slice(text);
        Look(&self.0).deserialize(&mut reader).is_ok() && reader.end().is_ok()
    }
}

#[derive(Debug)]
enum Node {
    /// Everything fits.
    Any,
    /// Only the whole check can tell.
    Unsure,
    Rules(Box<Rules>),
}

#[derive(Debug)]
struct Rules {
    types: Types,
    /// The only strings that fit; nothing but strings fits then.
    words: Option<Vec<Box<str>>>,
    /// The least and the greatest number.
    numbers: (f64, f64),
    /// The least and the greatest length of strings, in characters.
    lengths: (u64, u64),
    /// The least and the greatest length of arrays.
    counts: (u64, u64),
    properties: Vec<(Box<str>, Node)>,
    /// A bit for every property that must be there.
    required: u64,
    others: Node,
    items: Node,
}

static EVERYTHING: Rules = Rules::none();

impl Node {
    fn of(schema: &Value) -> Self {
        match schema {
            Value::Bool(true) => Node::Any,
            Value::Object(keywords) => Rules::of(keywords).map_or(Node::Unsure, |rules| Node::Rules(Box::new(rules))),
            _ => Node::Unsure,
        }
    }
}

impl Rules {
    /// Everything fits.
    const fn none() -> Self {
        Self {
            types: Types::ALL,
            words: None,
            numbers: (f64::NEG_INFINITY, f64::INFINITY),
            lengths: (0, u64::MAX),
            counts: (0, u64::MAX),
            properties: Vec::new(),
            required: 0,
            others: Node::Any,
            items: Node::Any,
        }
    }

    /// Nothing, when a word is not understood here.
    fn of(keywords: &Map<String, Value>) -> Option<Self> {
        let mut rules = Self::none();
        let mut required: &[Value] = &[];
        for (keyword, value) in keywords {
            match (keyword.as_str(), value) {
                ("type", value) => rules.types = Types::of(value)?,
                ("properties", Value::Object(properties)) if properties.len() <= MOST => {
                    rules.properties =
                        properties.iter().map(|(name, node)| (name.as_str().into(), Node::of(node))).collect();
                }
                ("required", Value::Array(names)) => required = names,
                ("additionalProperties", value) => rules.others = Node::of(value),
                ("items", value) => rules.items = Node::of(value),
                ("enum", Value::Array(values)) => {
                    rules.words = Some(values.iter().map(|word| word.as_str().map(Into::into)).collect::<Option<_>>()?);
                }
                ("minimum", value) => rules.numbers.0 = value.as_f64()?,
                ("maximum", value) => rules.numbers.1 = value.as_f64()?,
                ("minLength", value) => rules.lengths.0 = value.as_u64()?,
                ("maxLength", value) => rules.lengths.1 = value.as_u64()?,
                ("minItems", value) => rules.counts.0 = value.as_u64()?,
                ("maxItems", value) => rules.counts.1 = value.as_u64()?,
                (keyword, _) if SILENT.contains(&keyword) => {}
                _ => return None,
            }
        }
        for name in required {
            let index = rules.properties.iter().position(|(known, _)| Some(&**known) == name.as_str())?;
            rules.required |= 1 << index;
        }
        Some(rules)
    }
}

/// A set of types of values.
#[derive(Debug, Clone, Copy)]
struct Types(u8);

impl Types {
    const NULL: Self = Self(1);
    const BOOLEAN: Self = Self(2);
    const INTEGER: Self = Self(4);
    /// Numbers that are not written as whole ones.
    const FRACTION: Self = Self(8);
    const STRING: Self = Self(16);
    const ARRAY: Self = Self(32);
    const OBJECT: Self = Self(64);
    const ALL: Self = Self(127);

    fn of(value: &Value) -> Option<Self> {
        match value {
            Value::String(name) => Self::named(name),
            Value::Array(names) => {
                names.iter().try_fold(Self(0), |all, name| Some(Self(all.0 | Self::named(name.as_str()?)?.0)))
            }
            _ => None,
        }
    }

    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "null" => Self::NULL,
            "boolean" => Self::BOOLEAN,
            "integer" => Self::INTEGER,
            "number" => Self(Self::INTEGER.0 | Self::FRACTION.0),
            "string" => Self::STRING,
            "array" => Self::ARRAY,
            "object" => Self::OBJECT,
            _ => return None,
        })
    }

    fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// Reads one value and fails unless it certainly fits.
#[derive(Clone, Copy)]
struct Look<'node>(&'node Node);

impl<'de> DeserializeSeed<'de> for Look<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self.0 {
            // Read all the same: what is no text, such as half a surrogate pair, must not slip through.
            Node::Any => deserializer.deserialize_any(Within(&EVERYTHING)),
            Node::Unsure => Err(unsure()),
            Node::Rules(rules) => deserializer.deserialize_any(Within(rules)),
        }
    }
}

/// What is not told to anybody.
fn unsure<E: Error>() -> E {
    E::custom("")
}

struct Within<'node>(&'node Rules);

impl Within<'_> {
    fn expect<E: Error>(&self, is_fitting: bool) -> Result<(), E> {
        if is_fitting { Ok(()) } else { Err(unsure()) }
    }

    /// Whether a number is neither too small nor too great. One that cannot be told from its neighbours is left to
    /// the whole check.
    fn within<E: Error>(&self, number: f64) -> Result<(), E> {
        let (least, most) = self.0.numbers;
        let is_free = (least, most) == (f64::NEG_INFINITY, f64::INFINITY);
        self.expect(is_free || (number.abs() < EXACT && (least..=most).contains(&number)))
    }

    /// Whether a value of this type fits, where only strings can be among given words.
    fn plain<E: Error>(&self, kind: Types) -> Result<(), E> {
        self.expect(self.0.types.has(kind) && self.0.words.is_none())
    }
}

impl<'de> Visitor<'de> for Within<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value that fits")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.plain(Types::NULL)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        self.plain(Types::BOOLEAN)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        self.plain(Types::INTEGER)?;
        self.within(number as f64)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        self.plain(Types::INTEGER)?;
        self.within(number as f64)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        self.plain(Types::FRACTION)?;
        self.within(number)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        let is_among = self.0.words.as_ref().is_none_or(|words| words.iter().any(|word| **word == *text));
        let (least, most) = self.0.lengths;
        let is_long = (least, most) == (0, u64::MAX) || (least..=most).contains(&(text.chars().count() as u64));
        self.expect(self.0.types.has(Types::STRING) && is_among && is_long)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<(), A::Error> {
        self.plain(Types::ARRAY)?;
        let mut count = 0;
        while values.next_element_seed(Look(&self.0.items))?.is_some() {
            count += 1;
        }
        self.expect((self.0.counts.0..=self.0.counts.1).contains(&count))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        self.plain(Types::OBJECT)?;
        let mut seen = 0u64;
        while let Some(found) = members.next_key_seed(Find(&self.0.properties))? {
            match found {
                Some(index) => {
                    // Which of two members with one name counts is for the whole check to say.
                    self.expect(seen & 1 << index == 0)?;
                    seen |= 1 << index;
                    members.next_value_seed(Look(&self.0.properties[index].1))?;
                }
                None => members.next_value_seed(Look(&self.0.others))?,
            }
        }
        self.expect(seen & self.0.required == self.0.required)
    }
}

/// Finds a property by its name, without keeping the name.
struct Find<'node>(&'node [(Box<str>, Node)]);

impl<'de> DeserializeSeed<'de> for Find<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Find<'_> {
    type Value = Option<usize>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter().position(|(known, _)| **known == *name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn accepts(schema: Value, text: &str) -> bool {
        Quick::of(&schema).is_some_and(|quick| quick.accepts(text.as_bytes()))
    }

    #[test]
    fn a_plain_object_of_plain_values_is_accepted_at_once() {
        let schema = json!({
            "type": "object",
            "properties": {
                "size": {"type": "integer", "minimum": -2, "description": "bytes"},
                "name": {"type": "string", "maxLength": 2},
                "tags": {"type": "array", "items": {"type": "string"}},
                "mode": {"enum": ["a", "b"]}, "free": true, "far": {"type": "string", "pattern": "^x"}
            },
            "required": ["size"], "additionalProperties": false
        });
        for fitting in [r#"{"size":1}"#, r#" {"tags":["x"],"size":-2,"mode":"b","free":{"y":[null]},"name":"éé"} "#] {
            assert!(accepts(schema.clone(), fitting), "{fitting}");
        }
        for other in [
            "{}",
            r#"{"size":1.0}"#,
            r#"{"size":-3}"#,
            r#"{"size":9007199254740993}"#,
            r#"{"size":1,"name":"abc"}"#,
            r#"{"size":"1"}"#,
            r#"{"size":1,"size":2}"#,
            r#"{"size":1,"tags":[1]}"#,
            r#"{"size":1,"mode":"c"}"#,
            r#"{"size":1,"more":1}"#,
            r#"{"size":1,"far":"x"}"#,
            r#"{"size":1} x"#,
            r#"{"size":1,"free":{"y":"\ud800"}}"#,
            r#"{"size":1,"free":{"\ud800":1}}"#,
            "[]",
            "{",
        ] {
            assert!(!accepts(schema.clone(), other), "{other}");
        }
    }

    #[test]
    fn what_is_not_understood_is_left_to_the_whole_check() {
        for schema in [
            json!({"$ref": "#/$defs/a", "$defs": {"a": {}}}),
            json!({"$schema": "http://json-schema.org/draft-04/schema#", "type": "integer"}),
            json!({"type": "object", "required": ["unlisted"]}),
            json!({"enum": [1, "a"]}),
            json!({"multipleOf": 3}),
            json!(false),
        ] {
            assert!(!accepts(schema.clone(), "{}") && !accepts(schema.clone(), "5"), "{schema}");
        }
    }
}

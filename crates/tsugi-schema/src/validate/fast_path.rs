//! A first look that says yes to most values without building anything: plain objects of plain values are checked
//! while they are read. Whatever it does not say yes to is left to the whole check, which also says what is wrong.

use std::borrow::Cow;

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
/// Strings up to this length are read byte by byte, longer ones by the word.
const SHORT: usize = 24;
/// As deep as serde reads: what is nested further is left to the whole check.
const DEEPEST: usize = 127;

/// A schema as far as the first look understands it.
#[derive(Debug)]
pub(super) struct FastPath(FastNode);

impl FastPath {
    /// Nothing, when it would never say yes.
    pub(super) fn of(schema: &Value) -> Option<Self> {
        let draft = schema.get("$schema");
        if draft.is_some_and(|draft| !DRAFTS.iter().any(|known| draft == known)) {
            return None;
        }
        match FastNode::of(schema) {
            FastNode::Unsure => None,
            node => Some(Self(node)),
        }
    }

    /// True when the value certainly fits.
    pub(super) fn accepts(&self, text: &[u8]) -> bool {
        let mut reader = JsonTextReader::new(text);
        // Text after the value is an error, which the whole check reports.
        reader.value(&self.0).is_some() && reader.peek().is_none()
    }
}

#[derive(Debug)]
enum FastNode {
    Any,
    /// Only the whole check can tell.
    Unsure,
    Rules(Box<FastRules>),
}

#[derive(Debug)]
struct FastRules {
    types: TypeSet,
    /// The only strings that fit; nothing but strings fits then.
    words: Option<Vec<Box<str>>>,
    /// The least and the greatest number.
    numbers: (f64, f64),
    /// The least and the greatest length of strings, in characters.
    lengths: (u64, u64),
    /// The least and the greatest length of arrays.
    counts: (u64, u64),
    properties: Vec<(Box<str>, FastNode)>,
    /// A bit for every property that must be there.
    required: u64,
    others: FastNode,
    items: FastNode,
}

static EVERYTHING: FastRules = FastRules::none();

impl FastNode {
    fn of(schema: &Value) -> Self {
        match schema {
            Value::Bool(true) => FastNode::Any,
            Value::Object(keywords) => {
                FastRules::of(keywords).map_or(FastNode::Unsure, |rules| FastNode::Rules(Box::new(rules)))
            }
            _ => FastNode::Unsure,
        }
    }
}

impl FastRules {
    const fn none() -> Self {
        Self {
            types: TypeSet::ALL,
            words: None,
            numbers: (f64::NEG_INFINITY, f64::INFINITY),
            lengths: (0, u64::MAX),
            counts: (0, u64::MAX),
            properties: Vec::new(),
            required: 0,
            others: FastNode::Any,
            items: FastNode::Any,
        }
    }

    /// Nothing, when a word is not understood here.
    fn of(keywords: &Map<String, Value>) -> Option<Self> {
        let mut rules = Self::none();
        let mut required: &[Value] = &[];
        for (keyword, value) in keywords {
            match (keyword.as_str(), value) {
                ("type", value) => rules.types = TypeSet::of(value)?,
                ("properties", Value::Object(properties)) if properties.len() <= MOST => {
                    rules.properties =
                        properties.iter().map(|(name, node)| (name.as_str().into(), FastNode::of(node))).collect();
                }
                ("required", Value::Array(names)) => required = names,
                ("additionalProperties", value) => rules.others = FastNode::of(value),
                ("items", value) => rules.items = FastNode::of(value),
                // Only strings are compared here; any other choice makes the schema unsure.
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
                // A keyword that is not known here could forbid anything.
                _ => return None,
            }
        }
        for name in required {
            // A required name without a property would need another table.
            let index = rules.properties.iter().position(|(known, _)| Some(&**known) == name.as_str())?;
            rules.required |= 1 << index;
        }
        Some(rules)
    }
}

/// A set of types of values.
#[derive(Debug, Clone, Copy)]
struct TypeSet(u8);

impl TypeSet {
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

impl FastRules {
    /// Whether a value of this type fits, where only strings can be among given words.
    fn plain(&self, kind: TypeSet) -> Option<()> {
        (self.types.has(kind) && self.words.is_none()).then_some(())
    }

    /// Whether a number is neither too small nor too great. One that cannot be told from its neighbours is left to
    /// the whole check.
    fn number(&self, kind: TypeSet, number: f64) -> Option<()> {
        self.plain(kind)?;
        let (least, most) = self.numbers;
        // Beyond 2^53 a float may not be the number that was written.
        let is_free = (least, most) == (f64::NEG_INFINITY, f64::INFINITY);
        (is_free || (number.abs() < EXACT && (least..=most).contains(&number))).then_some(())
    }

    fn string(&self, text: &[u8]) -> Option<()> {
        let is_among = self.words.as_ref().is_none_or(|words| words.iter().any(|word| word.as_bytes() == text));
        let (least, most) = self.lengths;
        let is_long = (least, most) == (0, u64::MAX) || (least..=most).contains(&characters(text));
        (self.types.has(TypeSet::STRING) && is_among && is_long).then_some(())
    }
}

/// Reads text from the left. Nothing comes back unless all is certain: what is read is JSON, and it fits.
struct JsonTextReader<'text> {
    text: &'text [u8],
    at: usize,
    /// How many arrays and objects are open.
    depth: usize,
}

impl<'text> JsonTextReader<'text> {
    fn new(text: &'text [u8]) -> Self {
        Self { text, at: 0, depth: 0 }
    }

    /// The next byte that is not white space.
    fn peek(&mut self) -> Option<u8> {
        while let Some(byte) = self.text.get(self.at) {
            if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                return Some(*byte);
            }
            self.at += 1;
        }
        None
    }

    /// Goes over the next byte if it is this one.
    fn take(&mut self, wanted: u8) -> Option<()> {
        let is_it = self.peek() == Some(wanted);
        self.at += usize::from(is_it);
        is_it.then_some(())
    }

    fn value(&mut self, node: &FastNode) -> Option<()> {
        let rules = match node {
            // Parsed all the same: half a surrogate pair is not text and must not pass.
            FastNode::Any => &EVERYTHING,
            FastNode::Unsure => return None,
            FastNode::Rules(rules) => rules,
        };
        match self.peek()? {
            b'{' => self.within(|reader| reader.object(rules)),
            b'[' => self.within(|reader| reader.array(rules)),
            b'"' => rules.string(&self.string()?),
            b't' => self.word(b"true").and_then(|()| rules.plain(TypeSet::BOOLEAN)),
            b'f' => self.word(b"false").and_then(|()| rules.plain(TypeSet::BOOLEAN)),
            b'n' => self.word(b"null").and_then(|()| rules.plain(TypeSet::NULL)),
            _ => self.number(rules),
        }
    }

    fn within(&mut self, read: impl FnOnce(&mut Self) -> Option<()>) -> Option<()> {
        self.depth += 1;
        // Deep values are left to the full check, which reports them.
        if self.depth > DEEPEST {
            return None;
        }
        self.at += 1;
        read(self)?;
        self.depth -= 1;
        Some(())
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        let is_it = self.text[self.at..].starts_with(word);
        self.at += word.len();
        is_it.then_some(())
    }

    fn object(&mut self, rules: &FastRules) -> Option<()> {
        rules.plain(TypeSet::OBJECT)?;
        let mut seen = 0u64;
        let mut is_first = true;
        // White space and commas are read the way JSON demands, so that nothing else passes.
        while self.take(b'}').is_none() {
            if !std::mem::take(&mut is_first) {
                self.take(b',')?;
            }
            let name = (self.peek()? == b'"').then(|| self.string())??;
            self.take(b':')?;
            match rules.properties.iter().position(|(known, _)| known.as_bytes() == &name[..]) {
                // Which of two members with one name counts is for the whole check to say.
                Some(index) if seen & 1 << index != 0 => return None,
                Some(index) => {
                    seen |= 1 << index;
                    self.value(&rules.properties[index].1)?;
                }
                None => self.value(&rules.others)?,
            }
        }
        (seen & rules.required == rules.required).then_some(())
    }

    fn array(&mut self, rules: &FastRules) -> Option<()> {
        rules.plain(TypeSet::ARRAY)?;
        let mut count = 0;
        while self.take(b']').is_none() {
            if count > 0 {
                self.take(b',')?;
            }
            self.value(&rules.items)?;
            count += 1;
        }
        (rules.counts.0..=rules.counts.1).contains(&count).then_some(())
    }

    /// The string that begins here, unescaped and proved to be text.
    #[inline]
    fn string(&mut self) -> Option<Cow<'text, [u8]>> {
        let start = self.at + 1;
        let rest = &self.text[start..];
        let mut all = 0;
        for (length, byte) in rest.iter().take(SHORT).enumerate() {
            match byte {
                b'"' => {
                    self.at = start + length + 1;
                    let short = &rest[..length];
                    return (all < 0x80 || std::str::from_utf8(short).is_ok()).then_some(Cow::Borrowed(short));
                }
                b'\\' | 0..0x20 => break,
                byte => all |= byte,
            }
        }
        self.long_string()
    }

    fn long_string(&mut self) -> Option<Cow<'text, [u8]>> {
        let (text, start) = (self.text, self.at);
        let mut end = start + 1 + plain_length(&text[start + 1..]);
        let is_plain = text.get(end) == Some(&b'"');
        while text.get(end)? != &b'"' {
            end += if text[end] == b'\\' { 2 } else { 1 };
            end += plain_length(text.get(end..)?);
        }
        self.at = end + 1;
        match is_plain {
            true => std::str::from_utf8(&text[start + 1..end]).ok().map(|text| Cow::Borrowed(text.as_bytes())),
            false => serde_json::from_slice::<String>(&text[start..=end]).ok().map(|text| Cow::Owned(text.into())),
        }
    }

    fn number(&mut self, rules: &FastRules) -> Option<()> {
        let rest = &self.text[self.at..];
        let length = rest.iter().position(|byte| !matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'));
        let written = &rest[..length.unwrap_or(rest.len())];
        self.at += written.len();
        if let Some(number) = small_number(written) {
            return rules.number(TypeSet::INTEGER, number as f64);
        }
        let number: serde_json::Number = serde_json::from_slice(written).ok()?;
        let kind = if number.is_f64() { TypeSet::FRACTION } else { TypeSet::INTEGER };
        rules.number(kind, number.as_f64()?)
    }
}

/// How many characters there are in a text.
fn characters(text: &[u8]) -> u64 {
    // Every byte of UTF-8 but those that go on with a character.
    text.iter().filter(|byte| **byte & 0xc0 != 0x80).count() as u64
}

/// How many bytes there are before the next quote, backslash or control character.
fn plain_length(text: &[u8]) -> usize {
    const ONES: u64 = u64::MAX / 0xff;
    let has_less = |word: u64, bound: u64| word.wrapping_sub(ONES * bound) & !word & (ONES << 7);
    let is_plain = |word: u64| {
        let has = |wanted: u8| has_less(word ^ (ONES * u64::from(wanted)), 1);
        has_less(word, 0x20) | has(b'"') | has(b'\\') == 0
    };
    let (words, _) = text.as_chunks::<8>();
    let start = 8 * words.iter().take_while(|word| is_plain(u64::from_le_bytes(**word))).count();
    let is_end = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..0x20);
    text[start..].iter().position(is_end).map_or(text.len(), |further| start + further)
}

/// A whole number of a few digits, which most are; not one below zero.
fn small_number(written: &[u8]) -> Option<u64> {
    let is_one = match written {
        [b'0', _, ..] | [] => false,
        digits => digits.len() <= 15 && digits.iter().all(u8::is_ascii_digit),
    };
    is_one.then(|| written.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn accepts(schema: Value, text: &str) -> bool {
        FastPath::of(&schema).is_some_and(|quick| quick.accepts(text.as_bytes()))
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

    /// Pieces of which JSON, and nearly JSON, is made.
    const PIECES: [&str; 37] = [
        "\"a string of more than twenty-four bytes, é\"",
        "\"a string of more than twenty-four bytes \\n\"",
        "\"a string of more than twenty-four bytes \u{1}\"",
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        " ",
        "\n",
        "\"",
        "\\",
        "\"a\"",
        "\"a\":",
        "\"b\":1,",
        "\"longer than eight\"",
        "\"\\u00e9\"",
        "\"\\ud800\"",
        "\"\\ud83d\\ude00\"",
        "\"é\"",
        "\u{1}",
        "\"\\\"\"",
        "\"\\\\\"",
        "0",
        "1",
        "-0",
        "-12",
        "01",
        "1.5",
        "1e3",
        "1e999",
        "18446744073709551616",
        "true",
        "false",
        "null",
        "nul",
    ];

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(2000))]

        /// It reads what serde reads, and nothing else.
        #[test]
        fn what_is_read_is_json_and_all_json_is_read(
            value in proptest::collection::vec(0..PIECES.len(), 0..9),
            members in proptest::collection::vec(0..PIECES.len(), 0..4),
        ) {
            let piece = |index: &usize| PIECES[*index];
            let loose: String = value.iter().map(piece).collect();
            let joined = members.iter().map(piece).collect::<Vec<_>>().join(",");
            for text in [loose, format!("[{joined}]"), format!("{{\"x\":{joined}}}")] {
                let is_json = serde_json::from_str::<Value>(&text).is_ok();
                proptest::prop_assert_eq!(accepts(json!(true), &text), is_json, "{}", text);
            }
        }
    }

    #[test]
    fn what_is_nested_too_deep_for_serde_is_not_read_either() {
        for depth in [1, 127, 128, 100_000] {
            let text = "[".repeat(depth) + &"]".repeat(depth);
            assert_eq!(accepts(json!(true), &text), serde_json::from_str::<Value>(&text).is_ok(), "{depth}");
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

//! Digests that do not depend on how JSON is written: SHA-256 over the canonical form of RFC 8785.

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The largest integer that every reader of JSON takes exactly
/// ([RFC 8785, appendix D](https://www.rfc-editor.org/rfc/rfc8785#appendix-D)).
const MAX_EXACT: u128 = 1 << 53;

/// Deeper values have no canonical form here.
const DEEPEST: usize = 128;

/// The SHA-256 of a definition.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PinDigest([u8; 32]);

impl PinDigest {
    /// The digest of JSON. What has no canonical form (a key that comes twice, a number that readers round differently,
    /// half a surrogate pair) is digested as it is written: two readers could take it for two things, so every byte of
    /// it counts.
    pub fn of_json(json: &[u8]) -> Self {
        match canonical(json) {
            Some(text) => Self::of_parts(&[text.as_bytes()]),
            // A NUL cannot occur in JSON, so no canonical form has this digest.
            None => Self::of_parts(&[b"\0as written\0", json]),
        }
    }

    /// The digest of a file, which is read piece by piece: programs can be larger than what a gateway may hold.
    pub(crate) fn of_reader(mut file: impl std::io::Read) -> std::io::Result<Self> {
        let mut context = ring::digest::Context::new(&ring::digest::SHA256);
        let mut piece = vec![0; 64 << 10];
        loop {
            match file.read(&mut piece) {
                Ok(0) => return Ok(Self::finish(context)),
                Ok(read) => context.update(&piece[..read]),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn of_parts(parts: &[&[u8]]) -> Self {
        let mut context = ring::digest::Context::new(&ring::digest::SHA256);
        for part in parts {
            context.update(part);
        }
        Self::finish(context)
    }

    fn finish(context: ring::digest::Context) -> Self {
        let mut digest = [0; 32];
        digest.copy_from_slice(context.finish().as_ref());
        Self(digest)
    }

    /// The first digits, for people.
    pub fn short(&self) -> String {
        self.to_string().chars().take("sha256:".len() + 12).collect()
    }
}

impl fmt::Display for PinDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for PinDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not `sha256:` and 64 lower-case hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected `sha256:` and 64 lower-case hexadecimal digits")]
pub struct DigestFormatError;

impl FromStr for PinDigest {
    type Err = DigestFormatError;

    fn from_str(text: &str) -> Result<Self, DigestFormatError> {
        let digits = text.strip_prefix("sha256:").filter(|digits| digits.len() == 64).ok_or(DigestFormatError)?;
        // `from_str_radix` alone would also take upper case and signs.
        if !digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(DigestFormatError);
        }
        let mut digest = [0; 32];
        for (index, byte) in digest.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&digits[2 * index..2 * index + 2], 16).map_err(|_| DigestFormatError)?;
        }
        Ok(Self(digest))
    }
}

/// The canonical form of JSON; `None` when it has none.
pub fn canonical(json: &[u8]) -> Option<String> {
    let raw: &RawValue = serde_json::from_slice(json).ok()?;
    let mut text = String::with_capacity(json.len());
    write(raw.get(), &mut text, DEEPEST)?;
    Some(text)
}

/// Writes one value that was checked before. Each level is read by itself, so that numbers are seen as they are written: serde_json rounds
/// them otherwise than RFC 8785 does.
fn write(raw: &str, text: &mut String, depth: usize) -> Option<()> {
    let raw = raw.trim();
    match raw.as_bytes().first().filter(|_| depth > 0)? {
        b'{' => {
            let DistinctMembers(mut members) = serde_json::from_str(raw).ok()?;
            // Section 3.2.3: by UTF-16 code units, which differs from UTF-8 beyond the basic plane.
            members.sort_by(|(one, _), (other, _)| one.encode_utf16().cmp(other.encode_utf16()));
            text.push('{');
            for (index, (key, value)) in members.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                text.push_str(&serde_json::to_string(key).ok()?);
                text.push(':');
                write(value.get(), text, depth - 1)?;
            }
            text.push('}');
        }
        b'[' => {
            let items: Vec<&RawValue> = serde_json::from_str(raw).ok()?;
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write(item.get(), text, depth - 1)?;
            }
            text.push(']');
        }
        b'"' => {
            let string: String = serde_json::from_str(raw).ok()?;
            // serde_json escapes exactly what section 3.2.2.2 asks for.
            text.push_str(&serde_json::to_string(&string).ok()?);
        }
        b't' | b'f' | b'n' => text.push_str(raw),
        _ => text.push_str(&number_text(raw)?),
    }
    Some(())
}

fn number_text(written: &str) -> Option<String> {
    let is_integer = !written.contains(['.', 'e', 'E']);
    if is_integer && written.parse::<i128>().ok()?.unsigned_abs() > MAX_EXACT {
        return None;
    }
    let float = written.parse::<f64>().ok().filter(|float| float.is_finite())?;
    Some(ryu_js::Buffer::new().format_finite(float).to_owned())
}

/// The members of an object in which no key comes twice.
struct DistinctMembers<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for DistinctMembers<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MemberVisitor).map(DistinctMembers)
    }
}

struct MemberVisitor;

impl<'de> Visitor<'de> for MemberVisitor {
    type Value = Vec<(String, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object without duplicate keys")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
        let (mut members, mut keys) = (Vec::new(), HashSet::new());
        while let Some((key, value)) = access.next_entry::<String, &'de RawValue>()? {
            // The last of two members wins here and the first elsewhere: such an object is two definitions in one.
            if !keys.insert(key.clone()) {
                return Err(de::Error::custom("a key comes twice"));
            }
            members.push((key, value));
        }
        Ok(members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_rfc_have_their_canonical_form() {
        let numbers = r#"{"numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001], "literals": [null, true, false]}"#;
        let expected = r#"{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27]}"#;
        assert_eq!(canonical(numbers.as_bytes()).unwrap(), expected);
        let sorted = canonical(
            "{\"\u{20ac}\":1,\"\\r\":2,\"\u{fb33}\":3,\"1\":4,\"\u{1f600}\":5,\"\u{80}\":6,\"\u{f6}\":7}".as_bytes(),
        );
        let keys = "{\"\\r\":2,\"1\":4,\"\u{80}\":6,\"\u{f6}\":7,\"\u{20ac}\":1,\"\u{1f600}\":5,\"\u{fb33}\":3}";
        assert_eq!(sorted.unwrap(), keys);
        assert_eq!(
            canonical(br#""\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/""#).unwrap(),
            "\"\u{20ac}$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\""
        );
        assert_eq!(canonical(b"-0").unwrap(), "0");
    }

    #[test]
    fn what_is_written_otherwise_has_the_same_digest_and_what_differs_another() {
        let digest = |text: &str| PinDigest::of_json(text.as_bytes());
        assert_eq!(digest(r#"{"a":1,"b":[1.0]}"#), digest(" {\"b\" : [1],\n\"\\u0061\": 1e0}"));
        assert_ne!(digest(r#"{"a":1}"#), digest(r#"{"a":"1"}"#));
        assert_ne!(digest(r#"["a","b"]"#), digest(r#"["b","a"]"#));
        // Hidden characters count.
        assert_ne!(digest("\"ab\""), digest("\"a\u{200b}b\""));
    }

    #[test]
    fn what_readers_take_for_different_things_is_digested_as_it_is_written() {
        let digest = |text: &str| PinDigest::of_json(text.as_bytes());
        let twice = r#"{"description":"good","description":"bad"}"#;
        assert_eq!(canonical(twice.as_bytes()), None);
        assert_ne!(digest(twice), digest(r#"{"description":"worse","description":"bad"}"#));
        assert_ne!(digest(twice), digest(r#"{"description":"bad"}"#));
        assert_ne!(digest("9007199254740993"), digest("9007199254740992"));
        for odd in ["1e400", r#""\ud800""#, "{", "[[1]"] {
            assert_eq!(canonical(odd.as_bytes()), None, "{odd}");
        }
    }

    #[test]
    fn a_digest_is_read_as_it_is_written_and_in_no_other_way() {
        let digest = PinDigest::of_json(b"{}");
        assert_eq!(digest.to_string().parse(), Ok(digest));
        let text = digest.to_string();
        for wrong in
            [text.to_uppercase(), text[..70].to_owned(), text.replace("sha256:", "sha1:"), text.replace('4', "+")]
        {
            assert_eq!(wrong.parse::<PinDigest>(), Err(DigestFormatError), "{wrong}");
        }
    }
}

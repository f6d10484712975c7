//! An index of one JSON object: where its members are, without parsing their values.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

use bytes::Bytes;
use smallvec::SmallVec;

use super::raw::RawJson;
use super::scan::{self, ScanError, ScanErrorKind};
use super::write::ObjectWriter;

/// Where one member of an [`JsonObject`] lies in its bytes. Objects are moved through every layer, so it is small.
#[derive(Debug, Clone, Copy)]
pub struct MemberSpan {
    key_start: u32,
    /// The end, doubled, and one more when the key has escapes.
    key_end: u32,
    value_start: u32,
    value_end: u32,
}

impl MemberSpan {
    /// A member whose key starts after its quote at `key_start` and whose value is the last thing written.
    pub(super) fn at(key_start: usize, key_end: usize, value_start: usize, value_end: usize, escaped: bool) -> Self {
        Self {
            key_start: key_start as u32,
            key_end: (key_end as u32) << 1 | u32::from(escaped),
            value_start: value_start as u32,
            value_end: value_end as u32,
        }
    }

    /// The same member, copied so that its opening quote is at `quote`.
    pub(super) fn copied_to(self, quote: usize) -> Self {
        self.moved_by((quote as u32).wrapping_sub(self.key_start - 1))
    }

    /// The same member further on, or further back when `shift` wraps around.
    fn moved_by(self, shift: u32) -> Self {
        Self {
            key_start: self.key_start.wrapping_add(shift),
            key_end: self.key_end.wrapping_add(shift << 1),
            value_start: self.value_start.wrapping_add(shift),
            value_end: self.value_end.wrapping_add(shift),
        }
    }

    fn is_escaped(self) -> bool {
        self.key_end & 1 == 1
    }

    /// The key between its quotes, as written.
    fn key_range(self) -> Range<usize> {
        self.key_start as usize..(self.key_end >> 1) as usize
    }

    /// How long the key is, as written.
    fn key_len(self) -> usize {
        ((self.key_end >> 1) - self.key_start) as usize
    }

    fn value_range(self) -> Range<usize> {
        self.value_start as usize..self.value_end as usize
    }

    /// From the opening quote of the key to the end of the value.
    fn whole_range(self) -> Range<usize> {
        self.key_start as usize - 1..self.value_end as usize
    }
}

/// A validated JSON object with the spans of its members. Keys are unique: a second spelling of the
/// same key (also an escaped one) is refused, so that no two readers can disagree about it.
#[derive(Debug, Clone)]
pub struct JsonObject {
    bytes: Bytes,
    members: MemberSpans,
    /// Set when the bytes hold members that are left out.
    is_partial: bool,
}

impl JsonObject {
    /// Proves `bytes` to be one object in UTF-8 and finds its members.
    pub fn parse(bytes: Bytes) -> Result<Self, ScanError> {
        scan::validate_utf8(&bytes)?;
        Self::scan(bytes)
    }

    /// The members of a value that was validated before; `None` when it is not an object or repeats a key.
    pub fn of(raw: &RawJson) -> Option<Self> {
        Self::scan(raw.bytes().clone()).ok()
    }

    /// Proves `bytes` to be one object, and gives the object under `key` too, found in the same pass.
    /// This is how a response and its result are read without going over the result twice.
    pub fn parse_nested(bytes: Bytes, key: &str) -> Result<(Self, Option<Self>), ScanError> {
        let (outer, [inner]) = Self::nested(bytes, [key])?;
        if let Some(inner) = &inner {
            inner.refuse_duplicates()?;
        }
        Ok((outer, inner))
    }

    /// Proves `bytes` to be one object, and gives the object under the first key of `path` too, the one under the
    /// second key in that, and so on, all found in the same pass. An inner object that repeats a key is not given.
    pub(crate) fn parse_along<const N: usize>(
        bytes: Bytes,
        path: [&str; N],
    ) -> Result<(Self, [Option<Self>; N]), ScanError> {
        let (outer, inner) = Self::nested(bytes, path)?;
        Ok((outer, inner.map(|inner| inner.filter(|inner| inner.refuse_duplicates().is_ok()))))
    }

    /// The outer object validated; the inner ones may still repeat a key.
    fn nested<const N: usize>(bytes: Bytes, path: [&str; N]) -> Result<(Self, [Option<Self>; N]), ScanError> {
        scan::validate_utf8(&bytes)?;
        let start = opening(&bytes)?;
        let mut inner = [const { None }; N];
        // Inner objects on the path are indexed in the same pass over the bytes.
        let (members, end) = scan_along(&bytes, start, &path, &mut inner)?;
        scan::expect_end(&bytes, end)?;
        let outer = Self { bytes, members, is_partial: false };
        outer.refuse_duplicates()?;
        Ok((outer, inner))
    }

    /// An object that lies inside `bytes`, with members whose places count from the start of `bytes`.
    fn within(bytes: &Bytes, start: usize, end: usize, mut members: MemberSpans) -> Self {
        for member in &mut members {
            // Their offsets counted from the start of the outer buffer.
            *member = member.moved_by((start as u32).wrapping_neg());
        }
        Self { bytes: bytes.slice(start..end), members, is_partial: false }
    }

    /// An object that was just written, with the places of its members.
    pub(super) fn indexed(bytes: Bytes, members: MemberSpans) -> Self {
        let object = Self { bytes, members, is_partial: false };
        debug_assert!(Self::parse(object.bytes.clone()).is_ok(), "not an object: {}", object.raw());
        object
    }

    /// An object without members.
    pub fn empty() -> Self {
        Self { bytes: Bytes::from_static(b"{}"), members: SmallVec::new(), is_partial: false }
    }

    /// Like [`JsonObject::parse`] for bytes that are known to be UTF-8.
    fn scan(bytes: Bytes) -> Result<Self, ScanError> {
        let start = opening(&bytes)?;
        let (members, end) = scan_members(&bytes, start, |_, at| scan::skip_value(&bytes, at))?;
        scan::expect_end(&bytes, end)?;
        let object = Self { bytes, members, is_partial: false };
        object.refuse_duplicates()?;
        Ok(object)
    }

    fn refuse_duplicates(&self) -> Result<(), ScanError> {
        let duplicate =
            |member: &MemberSpan| ScanError { at: member.key_start as usize, kind: ScanErrorKind::DuplicateKey };
        let members: &[MemberSpan] = &self.members;
        if members.len() <= 12 {
            // A bit for every length of key so far: keys of different lengths are not compared at all.
            let mut lengths = 0u64;
            for (index, member) in members.iter().enumerate() {
                let length = 1 << (member.key_len() % 64);
                let is_new = lengths & length == 0 && !member.is_escaped();
                lengths |= if member.is_escaped() { u64::MAX } else { length };
                if !is_new && members[..index].iter().any(|earlier| self.same_key(*earlier, *member)) {
                    return Err(duplicate(member));
                }
            }
            return Ok(());
        }
        // Comparing every pair would be quadratic in a number that a peer chooses.
        let mut seen = HashSet::with_capacity(members.len());
        for member in members {
            if !seen.insert(self.key(*member)) {
                return Err(duplicate(member));
            }
        }
        Ok(())
    }

    fn same_key(&self, left: MemberSpan, right: MemberSpan) -> bool {
        if left.is_escaped() || right.is_escaped() {
            return self.key(left) == self.key(right);
        }
        left.key_len() == right.key_len() && self.bytes[left.key_range()] == self.bytes[right.key_range()]
    }

    /// The key of a member, unescaped.
    pub fn key(&self, member: MemberSpan) -> Cow<'_, str> {
        let text = std::str::from_utf8(&self.bytes[member.key_range()]).expect("an object was validated as UTF-8");
        if !member.is_escaped() {
            return Cow::Borrowed(text);
        }
        // With its quotes, which the parser expects.
        let quoted = &self.bytes[member.key_range().start - 1..member.key_range().end + 1];
        // A lone surrogate cannot be unescaped; its written form is then its only name.
        serde_json::from_slice::<String>(quoted).map_or(Cow::Borrowed(text), Cow::Owned)
    }

    /// The members, in the order they were written.
    pub fn members(&self) -> &[MemberSpan] {
        &self.members
    }

    /// The value of a member, sharing this object's buffer.
    pub fn value(&self, member: MemberSpan) -> RawJson {
        RawJson::from_validated(self.bytes.slice(member.value_range()))
    }

    /// `"key":value` of a member, exactly as written.
    pub fn written(&self, member: MemberSpan) -> &[u8] {
        &self.bytes[member.whole_range()]
    }

    /// The member with this key.
    pub fn find(&self, key: &str) -> Option<MemberSpan> {
        self.members.iter().copied().find(|member| self.is_key(*member, key))
    }

    /// True when this is the key of the member.
    #[inline(always)]
    pub(crate) fn is_key(&self, member: MemberSpan, key: &str) -> bool {
        if member.is_escaped() {
            return self.is_escaped_key(member, key);
        }
        // Most keys differ by their length already.
        member.key_len() == key.len() && &self.bytes[member.key_range()] == key.as_bytes()
    }

    #[cold]
    fn is_escaped_key(&self, member: MemberSpan, key: &str) -> bool {
        self.key(member) == key
    }

    /// True when the key of the member is one of these.
    pub(crate) fn is_one_of(&self, member: MemberSpan, keys: &[&str]) -> bool {
        keys.iter().any(|key| self.is_key(member, key))
    }

    /// The members with these keys, found in one pass, and how many others there are.
    #[inline]
    pub fn select<const N: usize>(&self, keys: [&str; N]) -> ([Option<MemberSpan>; N], usize) {
        let mut found = [None; N];
        let mut others = 0;
        for member in &self.members {
            match keys.iter().position(|key| self.is_key(*member, key)) {
                Some(index) => found[index] = Some(*member),
                None => others += 1,
            }
        }
        (found, others)
    }

    /// The value of this key.
    pub fn get(&self, key: &str) -> Option<RawJson> {
        self.find(key).map(|member| self.value(member))
    }

    /// The bytes of this key's value, borrowed.
    pub fn get_bytes(&self, key: &str) -> Option<&[u8]> {
        self.find(key).map(|member| self.value_bytes(member))
    }

    /// The bytes of a member's value, borrowed.
    pub fn value_bytes(&self, member: MemberSpan) -> &[u8] {
        &self.bytes[member.value_range()]
    }

    /// The string under this key, unescaped; `None` when absent or not a string.
    pub fn get_str(&self, key: &str) -> Option<Cow<'_, str>> {
        self.find(key).and_then(|member| self.value_str(member))
    }

    /// The string that a member's value is, unescaped; `None` when it is not a string.
    pub(crate) fn value_str(&self, member: MemberSpan) -> Option<Cow<'_, str>> {
        let value = self.value_bytes(member);
        let inner = value.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
        // In a validated string only escapes are not plain.
        if scan::is_plain(inner) {
            return std::str::from_utf8(inner).ok().map(Cow::Borrowed);
        }
        serde_json::from_slice::<String>(value).ok().map(Cow::Owned)
    }

    /// The string under this key, to be shown: what cannot be told of it is U+FFFD ([`RawJson::to_shown`]).
    pub fn get_lossy(&self, key: &str) -> Option<String> {
        let text = || self.get(key)?.to_lossy().ok();
        self.get_str(key).map(Cow::into_owned).or_else(text)
    }

    /// The object under this key, when it is one.
    pub fn get_object(&self, key: &str) -> Option<JsonObject> {
        self.get(key).and_then(|raw| JsonObject::of(&raw))
    }

    /// True when the key is there.
    pub fn has(&self, key: &str) -> bool {
        self.find(key).is_some()
    }

    /// The same object without this member. Nothing is copied: the bytes are shared, the member is passed over.
    pub fn without(&self, key: &str) -> JsonObject {
        self.keeping(|member| !self.is_key(member, key))
    }

    /// The same object without the members that `is_unwanted` names. Nothing is copied.
    pub fn without_matching(&self, is_unwanted: impl Fn(&str) -> bool) -> JsonObject {
        self.keeping(|member| !is_unwanted(&self.key(member)))
    }

    fn keeping(&self, is_kept: impl Fn(MemberSpan) -> bool) -> JsonObject {
        // The bytes are shared; only the index forgets the member.
        let kept: MemberSpans = self.members.iter().copied().filter(|member| is_kept(*member)).collect();
        let is_partial = self.is_partial || kept.len() < self.members.len();
        JsonObject { bytes: self.bytes.clone(), members: kept, is_partial }
    }

    /// The members as they are written, those that lie beside each other together: `"a":1,"b":2`. Put between
    /// braces, with commas between them, they are the object.
    pub fn runs(&self) -> impl Iterator<Item = Bytes> {
        let mut members = self.members.iter().copied().peekable();
        std::iter::from_fn(move || {
            let mut run = members.next()?.whole_range();
            // Members that lie side by side are copied in one piece.
            while let Some(next) = members.next_if(|next| self.is_beside(run.end, *next)) {
                run.end = next.whole_range().end;
            }
            Some(self.bytes.slice(run))
        })
    }

    /// Whether only a comma lies between `end` and this member.
    fn is_beside(&self, end: usize, next: MemberSpan) -> bool {
        self.bytes[end..next.whole_range().start].iter().all(|byte| matches!(byte, b',' | b' ' | b'\n' | b'\r' | b'\t'))
    }

    /// True when the bytes are all of the object and nothing else.
    pub fn is_whole(&self) -> bool {
        !self.is_partial
    }

    /// The same object in a buffer of its own, for those who keep it for long.
    pub fn detached(&self) -> JsonObject {
        let bytes = Bytes::copy_from_slice(&self.bytes);
        JsonObject { bytes, members: self.members.clone(), is_partial: self.is_partial }
    }

    /// True for `{}`.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The whole object as it arrived, with any white space around it, and with what [`without`](Self::without)
    /// leaves out.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The whole object as a value.
    pub fn raw(&self) -> RawJson {
        if self.is_partial {
            let mut rest = ObjectWriter::with_capacity(self.bytes.len());
            rest.all_members(self);
            return rest.finish();
        }
        RawJson::from_validated(self.bytes.slice(self.span()))
    }

    /// The object without the white space around it.
    pub(crate) fn trimmed(&self) -> &[u8] {
        debug_assert!(!self.is_partial, "something is left out of it");
        &self.bytes[self.span()]
    }

    fn span(&self) -> Range<usize> {
        let start = scan::skip_space(&self.bytes, 0);
        start..self.bytes.iter().rposition(|byte| *byte == b'}').map_or(self.bytes.len(), |at| at + 1)
    }
}

impl From<serde_json::Value> for JsonObject {
    /// An object made from a value of our own; anything but an object becomes the empty object.
    fn from(value: serde_json::Value) -> Self {
        JsonObject::of(&RawJson::from(value)).unwrap_or_else(JsonObject::empty)
    }
}

pub(super) type MemberSpans = SmallVec<[MemberSpan; 4]>;

/// Where the object's brace stands.
fn opening(bytes: &[u8]) -> Result<usize, ScanError> {
    let start = scan::skip_space(bytes, 0);
    match bytes.get(start) {
        Some(b'{') if bytes.len() < i32::MAX as usize => Ok(start),
        Some(_) => Err(ScanError { at: start, kind: ScanErrorKind::Unexpected }),
        None => Err(ScanError { at: start, kind: ScanErrorKind::Truncated }),
    }
}

/// Finds the members of the object at `start`, and the objects that lie along `path` in it.
fn scan_along(
    bytes: &Bytes,
    start: usize,
    path: &[&str],
    found: &mut [Option<JsonObject>],
) -> Result<(MemberSpans, usize), ScanError> {
    let (Some((key, further)), Some((inner, deeper))) = (path.split_first(), found.split_first_mut()) else {
        return scan_members(bytes, start, |_, at| scan::skip_value(bytes, at));
    };
    scan_members(bytes, start, |name, value_start| {
        if name != key.as_bytes() || inner.is_some() || bytes.get(value_start) != Some(&b'{') {
            return scan::skip_value(bytes, value_start);
        }
        let (members, end) = scan_along(bytes, value_start, further, deeper)?;
        *inner = Some(JsonObject::within(bytes, value_start, end, members));
        Ok(end)
    })
}

/// Finds the members of the object at `start`. `skip` gets a key as written and where its value starts,
/// and says where the value ends.
fn scan_members(
    bytes: &[u8],
    start: usize,
    mut skip: impl FnMut(&[u8], usize) -> Result<usize, ScanError>,
) -> Result<(MemberSpans, usize), ScanError> {
    let mut members = MemberSpans::new();
    let mut at = scan::skip_space(bytes, start + 1);
    if bytes.get(at) == Some(&b'}') {
        return Ok((members, at + 1));
    }
    loop {
        let key = scan::skip_key(bytes, at)?;
        let value_end = skip(&bytes[at + 1..key.end - 1], key.value)?;
        members.push(MemberSpan::at(at + 1, key.end - 1, key.value, value_end, key.is_escaped));
        at = scan::skip_space(bytes, value_end);
        match bytes.get(at) {
            Some(b',') => at = scan::skip_space(bytes, at + 1),
            Some(b'}') => return Ok((members, at + 1)),
            Some(_) => return Err(ScanError { at, kind: ScanErrorKind::Unexpected }),
            None => return Err(ScanError { at, kind: ScanErrorKind::Truncated }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(text: &str) -> Result<JsonObject, ScanError> {
        JsonObject::parse(Bytes::copy_from_slice(text.as_bytes()))
    }

    #[test]
    fn members_are_found_without_looking_into_them() {
        let object = object(r#" {"a" : [1, {"b":2}], "name":"x\ny","n":null} "#).unwrap();
        assert_eq!(object.get("a").unwrap().as_str(), r#"[1, {"b":2}]"#);
        assert_eq!(object.get_str("name").unwrap(), "x\ny");
        assert!(object.get("n").unwrap().is_null());
        assert!(object.get("b").is_none());
        assert_eq!(object.raw().as_str(), r#"{"a" : [1, {"b":2}], "name":"x\ny","n":null}"#);
    }

    #[test]
    fn several_members_are_found_in_one_pass_also_under_escaped_keys() {
        let object = object(r#"{"b":2,"x":0,"\u0061":1,"c":"s"}"#).unwrap();
        let ([a, b, c, d], others) = object.select(["a", "b", "c", "d"]);
        assert_eq!(object.value_bytes(a.unwrap()), b"1");
        assert_eq!(object.value_bytes(b.unwrap()), b"2");
        assert_eq!(object.value_str(c.unwrap()).unwrap(), "s");
        assert!(d.is_none() && object.value_str(a.unwrap()).is_none());
        assert_eq!(others, 1);
    }

    #[test]
    fn a_nested_object_is_found_in_the_same_pass() {
        let text = Bytes::from_static(br#" {"id":1,"result":{"a":{"result":{}},"b":[1]},"x":0} "#);
        let (outer, inner) = JsonObject::parse_nested(text, "result").unwrap();
        assert_eq!(outer.get("x").unwrap().as_str(), "0");
        let inner = inner.unwrap();
        assert_eq!(inner.raw(), outer.get("result").unwrap());
        assert_eq!(inner.get("b").unwrap().as_str(), "[1]");
        let twice = Bytes::from_static(br#"{"result":{"a":1,"a":2}}"#);
        assert!(JsonObject::parse_nested(twice, "result").is_err());
    }

    #[test]
    fn objects_along_a_path_are_found_in_the_same_pass() {
        let along =
            |text: &'static str| JsonObject::parse_along(Bytes::from_static(text.as_bytes()), ["a", "b"]).unwrap().1;
        let [a, b] = along(r#"{"b":{"x":0},"a":{"c":{"b":{}},"b":{"y":[1]},"d":2},"z":1}"#);
        assert_eq!(a.unwrap().get("d").unwrap().as_str(), "2");
        assert_eq!(b.unwrap().raw().as_str(), r#"{"y":[1]}"#);
        assert!(along(r#"{"b":{},"a":[{"b":{}}]}"#).iter().all(Option::is_none));
        let [a, b] = along(r#"{"a":{"b":{"y":1,"y":2}}}"#);
        assert!(a.is_some() && b.is_none());
    }

    #[test]
    fn a_member_that_is_left_out_is_nowhere_to_be_found() {
        let whole = object(r#" {"a":1, "_meta":{"x":1},"b":[2]} "#).unwrap();
        let rest = whole.without("_meta");
        assert!(!rest.has("_meta") && rest.members().len() == 2);
        assert_eq!(rest.raw().as_str(), r#"{"a":1,"b":[2]}"#);
        assert_eq!(whole.without("c").raw(), whole.raw());
        assert_eq!(rest.without("a").without("b").raw().as_str(), "{}");
        let runs = |object: &JsonObject| -> Vec<Bytes> { object.runs().collect() };
        assert_eq!(runs(&rest), [&br#""a":1"#[..], br#""b":[2]"#]);
        assert_eq!(runs(&whole), [&br#""a":1, "_meta":{"x":1},"b":[2]"#[..]]);
        assert!(whole.is_whole() && !rest.is_whole());
    }

    #[test]
    fn an_escaped_key_is_the_same_key() {
        assert_eq!(object(r#"{"na\u006de":1}"#).unwrap().get("name").unwrap().as_str(), "1");
        for twice in [r#"{"name":1,"name":2}"#, r#"{"name":1,"na\u006de":2}"#, r#"{"na\u006de":1,"x":0,"name":2}"#] {
            assert_eq!(object(twice).unwrap_err().kind, ScanErrorKind::DuplicateKey);
        }
    }

    #[test]
    fn keys_differ_by_case() {
        let object = object(r#"{"Name":"evil","name":"safe"}"#).unwrap();
        assert_eq!(object.get_str("name").unwrap(), "safe");
    }

    #[test]
    fn a_duplicate_among_very_many_keys_is_found_without_comparing_all_pairs() {
        let mut text = String::from("{");
        for index in 0..100_000 {
            text.push_str(&format!("\"k{index}\":0,"));
        }
        text.push_str("\"k7\":1}");
        assert_eq!(object(&text).unwrap_err().kind, ScanErrorKind::DuplicateKey);
    }

    #[test]
    fn only_an_object_is_an_object() {
        for other in ["[]", "1", "\"{}\"", "", "{} {}", "{"] {
            assert!(object(other).is_err(), "{other}");
        }
    }
}

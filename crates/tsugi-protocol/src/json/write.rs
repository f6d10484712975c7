//! Writes JSON objects: unchanged members are copied as bytes, new ones are put between.

use bytes::{BufMut, Bytes, BytesMut};

use super::object::{JsonObject, MemberSpan, MemberSpans};
use super::raw::RawJson;
use super::scan::is_plain;

/// Writes one object member by member, and remembers where each lies, so that what was written need not
/// be read again.
#[derive(Debug)]
pub struct ObjectWriter {
    out: BytesMut,
    is_first: bool,
    /// The places of the members; `None` once pairs were added whose places are not known.
    members: Option<MemberSpans>,
}

impl ObjectWriter {
    /// Starts an object; `size` is a guess of how many bytes it will have.
    pub fn with_capacity(size: usize) -> Self {
        // Room for the braces.
        let mut out = BytesMut::with_capacity(size + 2);
        out.extend_from_slice(b"{");
        Self { out, is_first: true, members: Some(MemberSpans::new()) }
    }

    /// Starts an object in a buffer that was used before; [`finish_line`](Self::finish_line) gives it back.
    pub fn in_buffer(mut out: BytesMut) -> Self {
        out.clear();
        out.extend_from_slice(b"{");
        Self { out, is_first: true, members: None }
    }

    fn separate(&mut self) {
        if self.is_first {
            self.is_first = false;
        } else {
            self.out.extend_from_slice(b",");
        }
    }

    /// Adds a member whose value `write` writes.
    fn member(&mut self, key: &str, write: impl FnOnce(&mut Self)) -> &mut Self {
        self.separate();
        let quote = self.out.len();
        write_string(&mut self.out, key);
        let key_end = self.out.len() - 1;
        self.out.extend_from_slice(b":");
        let value_start = self.out.len();
        write(self);
        if let Some(members) = &mut self.members {
            // An escape makes the written key longer.
            let is_escaped = key_end - quote - 1 != key.len();
            members.push(MemberSpan::at(quote + 1, key_end, value_start, self.out.len(), is_escaped));
        }
        self
    }

    /// Adds a member with a value that is JSON already.
    pub fn raw(&mut self, key: &str, value: &RawJson) -> &mut Self {
        self.json(key, value.bytes())
    }

    /// Adds a member whose value is these JSON bytes.
    pub(crate) fn json(&mut self, key: &str, value: &[u8]) -> &mut Self {
        self.member(key, |splice| splice.out.extend_from_slice(value))
    }

    /// Adds a member with a string.
    pub fn string(&mut self, key: &str, value: &str) -> &mut Self {
        self.member(key, |splice| write_string(&mut splice.out, value))
    }

    /// Adds a member with a number.
    pub fn number(&mut self, key: &str, value: u64) -> &mut Self {
        self.member(key, |splice| write_number(&mut splice.out, value))
    }

    /// Adds a member that is an object of its own, which `write` fills.
    pub fn object(&mut self, key: &str, write: impl FnOnce(&mut Self)) -> &mut Self {
        self.member(key, |splice| {
            splice.out.extend_from_slice(b"{");
            // Only members of the outermost object are indexed.
            let members = splice.members.take();
            splice.is_first = true;
            write(splice);
            splice.out.extend_from_slice(b"}");
            (splice.is_first, splice.members) = (false, members);
        })
    }

    /// Adds `"key":value` pairs that are written already, such as the unknown members of an envelope.
    pub(crate) fn written(&mut self, pairs: &[u8]) -> &mut Self {
        if !pairs.is_empty() {
            self.separate();
            self.out.extend_from_slice(pairs);
            // The pairs are not parsed, so there is no index any more.
            self.members = None;
        }
        self
    }

    /// Adds one member of `object`, exactly as written there.
    pub(crate) fn copy(&mut self, object: &JsonObject, member: MemberSpan) -> &mut Self {
        self.separate();
        let quote = self.out.len();
        self.out.extend_from_slice(object.written(member));
        if let Some(members) = &mut self.members {
            // Known offsets move along: nothing is scanned twice.
            members.push(member.copied_to(quote));
        }
        self
    }

    /// Adds every member of `object` whose key `keep` accepts, exactly as written there.
    pub fn members(&mut self, object: &JsonObject, mut keep: impl FnMut(&str) -> bool) -> &mut Self {
        for member in object.members() {
            if keep(&object.key(*member)) {
                self.copy(object, *member);
            }
        }
        self
    }

    /// Adds every member of `object`, exactly as written there.
    pub fn all_members(&mut self, object: &JsonObject) -> &mut Self {
        self.members_except(object, &[])
    }

    /// Adds every member of `object` but those with these keys, exactly as written there.
    pub fn members_except(&mut self, object: &JsonObject, unwanted: &[&str]) -> &mut Self {
        for member in object.members() {
            if !object.is_one_of(*member, unwanted) {
                self.copy(object, *member);
            }
        }
        self
    }

    /// True while nothing was added.
    pub fn is_empty(&self) -> bool {
        self.is_first
    }

    pub fn finish(self) -> RawJson {
        RawJson::from_validated(self.finish_bytes())
    }

    /// Ends the object and gives its bytes.
    pub(crate) fn finish_bytes(mut self) -> Bytes {
        self.out.extend_from_slice(b"}");
        self.out.freeze()
    }

    /// Ends the object, on one line, and gives the buffer it was written in.
    pub fn finish_line(mut self) -> BytesMut {
        self.out.extend_from_slice(b"}");
        let mut from = 0;
        while let Some(at) = memchr::memchr2(b'\n', b'\r', &self.out[from..]) {
            self.out[from + at] = b' ';
            from += at + 1;
        }
        self.out
    }

    /// Ends the object and gives it as an [`JsonObject`]. The same key must not have been added twice.
    pub fn finish_object(mut self) -> JsonObject {
        match self.members.take() {
            Some(members) => JsonObject::indexed(self.finish_bytes(), members),
            None => {
                JsonObject::parse(self.finish_bytes()).expect("a spliced object is an object without duplicate keys")
            }
        }
    }
}

/// Writes `text` as a JSON string.
pub(crate) fn write_string(out: &mut BytesMut, text: &str) {
    if is_plain(text.as_bytes()) {
        out.reserve(text.len() + 2);
        out.put_u8(b'"');
        out.put_slice(text.as_bytes());
        out.put_u8(b'"');
        return;
    }
    let quoted = serde_json::to_vec(text).expect("a string is always JSON");
    out.extend_from_slice(&quoted);
}

/// Writes a whole number without a detour over the heap.
pub(crate) fn write_number(out: &mut BytesMut, value: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Replaces raw line ends, which JSON allows between tokens, by spaces. Line framing and SSE framing
/// both break on them. Bytes without any are returned as they are.
pub fn on_one_line(bytes: &Bytes) -> Bytes {
    if memchr::memchr2(b'\n', b'\r', bytes).is_none() {
        return bytes.clone();
    }
    let flat: Vec<u8> = bytes.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }).collect();
    Bytes::from(flat)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_splice_keeps_members_byte_for_byte() {
        let source =
            JsonObject::parse(Bytes::from_static(br#"{"name":"a","arguments":{"x": 1.50, "y":1e3},"z":"\u0041"}"#))
                .unwrap();
        let mut splice = ObjectWriter::with_capacity(64);
        splice.string("name", "b\"c").members_except(&source, &["name"]).number("n", 120);
        assert_eq!(
            splice.finish().as_str(),
            r#"{"name":"b\"c","arguments":{"x": 1.50, "y":1e3},"z":"\u0041","n":120}"#
        );
    }

    #[test]
    fn what_was_written_is_found_as_if_it_had_been_read() {
        let source = JsonObject::parse(Bytes::from_static(br#"{ "a" : [1] , "na\u006de":"x","b":{"c":1}}"#)).unwrap();
        let mut splice = ObjectWriter::with_capacity(8);
        splice.string("q\"k", "v").members_except(&source, &["a"]).number("n", 7).raw("z", &RawJson::literal("null"));
        let written = splice.finish_object();
        let read = JsonObject::parse(written.bytes().clone()).unwrap();
        let places = |object: &JsonObject| -> Vec<(String, String)> {
            let place = |member: &MemberSpan| (object.key(*member).into_owned(), object.value(*member).to_string());
            object.members().iter().map(place).collect()
        };
        assert_eq!(places(&written), places(&read));
        assert_eq!(written.get_str("name").unwrap(), "x");
        assert_eq!(written.get("q\"k").unwrap().as_str(), "\"v\"");
    }

    #[test]
    fn an_object_within_an_object_is_found_as_if_it_had_been_read() {
        let mut splice = ObjectWriter::with_capacity(8);
        splice.number("a", 1).object("in", |inner| {
            inner.string("x", "y").object("empty", |_| {});
        });
        splice.number("b", 2);
        let written = splice.finish_object();
        assert_eq!(written.raw().as_str(), r#"{"a":1,"in":{"x":"y","empty":{}},"b":2}"#);
        assert_eq!(written.get("in").unwrap().as_str(), r#"{"x":"y","empty":{}}"#);
    }

    #[test]
    fn a_buffer_is_used_again_and_holds_one_line() {
        let mut splice = ObjectWriter::in_buffer(BytesMut::from(&b"old"[..]));
        splice.raw("a", &RawJson::from_validated(Bytes::from_static(b"[1,\n2]")));
        assert_eq!(&splice.finish_line()[..], b"{\"a\":[1, 2]}");
    }

    #[test]
    fn numbers_are_written_whole() {
        for value in [0, 7, 10, 65_535, u64::MAX] {
            let mut out = BytesMut::new();
            write_number(&mut out, value);
            assert_eq!(out, value.to_string().as_bytes());
        }
    }

    #[test]
    fn line_ends_between_tokens_become_spaces() {
        let pretty = Bytes::from_static(b"{\n  \"a\": 1\r\n}");
        assert_eq!(&on_one_line(&pretty)[..], b"{   \"a\": 1  }");
    }
}

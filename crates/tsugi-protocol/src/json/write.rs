//! Writing JSON by splicing: what is unchanged is copied as bytes, what is ours is put between.

use bytes::{Bytes, BytesMut};

use super::object::Object;
use super::raw::Raw;

/// Writes one object member by member.
#[derive(Debug)]
pub struct Splice {
    out: BytesMut,
    is_first: bool,
}

impl Splice {
    /// Starts an object; `size` is a guess of how many bytes it will have.
    pub fn with_capacity(size: usize) -> Self {
        let mut out = BytesMut::with_capacity(size + 2);
        out.extend_from_slice(b"{");
        Self { out, is_first: true }
    }

    fn separate(&mut self) {
        if self.is_first {
            self.is_first = false;
        } else {
            self.out.extend_from_slice(b",");
        }
    }

    fn key(&mut self, key: &str) {
        self.separate();
        write_string(&mut self.out, key);
        self.out.extend_from_slice(b":");
    }

    /// Adds a member with a value that is JSON already.
    pub fn raw(&mut self, key: &str, value: &Raw) -> &mut Self {
        self.json(key, value.bytes())
    }

    /// Adds a member whose value is these JSON bytes.
    pub(crate) fn json(&mut self, key: &str, value: &[u8]) -> &mut Self {
        self.key(key);
        self.out.extend_from_slice(value);
        self
    }

    /// Adds a member with a string.
    pub fn string(&mut self, key: &str, value: &str) -> &mut Self {
        self.key(key);
        write_string(&mut self.out, value);
        self
    }

    /// Adds a member with a number.
    pub fn number(&mut self, key: &str, value: u64) -> &mut Self {
        self.key(key);
        write_number(&mut self.out, value);
        self
    }

    /// Adds `"key":value` pairs that are written already, such as the unknown members of an envelope.
    pub(crate) fn written(&mut self, pairs: &[u8]) -> &mut Self {
        if !pairs.is_empty() {
            self.separate();
            self.out.extend_from_slice(pairs);
        }
        self
    }

    /// Adds every member of `object` whose key `keep` accepts, exactly as written there.
    pub fn members(&mut self, object: &Object, mut keep: impl FnMut(&str) -> bool) -> &mut Self {
        for member in object.members() {
            if keep(&object.key(*member)) {
                self.written(object.written(*member));
            }
        }
        self
    }

    /// True while nothing was added.
    pub fn is_empty(&self) -> bool {
        self.is_first
    }

    /// Ends the object.
    pub fn finish(self) -> Raw {
        Raw::proved(self.finish_bytes())
    }

    /// Ends the object and gives its bytes.
    pub(crate) fn finish_bytes(mut self) -> Bytes {
        self.out.extend_from_slice(b"}");
        self.out.freeze()
    }

    /// Ends the object and reads it as an [`Object`].
    pub fn finish_object(self) -> Object {
        Object::parse(self.finish_bytes()).expect("a spliced object is an object without duplicate keys")
    }
}

/// Writes `text` as a JSON string.
pub fn write_string(out: &mut BytesMut, text: &str) {
    let is_plain = text.bytes().all(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\');
    if is_plain {
        out.extend_from_slice(b"\"");
        out.extend_from_slice(text.as_bytes());
        out.extend_from_slice(b"\"");
        return;
    }
    let quoted = serde_json::to_vec(text).expect("a string is always JSON");
    out.extend_from_slice(&quoted);
}

/// Writes a whole number without a detour over the heap.
pub fn write_number(out: &mut BytesMut, mut value: u64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
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
            Object::parse(Bytes::from_static(br#"{"name":"a","arguments":{"x": 1.50, "y":1e3},"z":"\u0041"}"#))
                .unwrap();
        let mut splice = Splice::with_capacity(64);
        splice.string("name", "b\"c").members(&source, |key| key != "name").number("n", 120);
        assert_eq!(
            splice.finish().as_str(),
            r#"{"name":"b\"c","arguments":{"x": 1.50, "y":1e3},"z":"\u0041","n":120}"#
        );
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

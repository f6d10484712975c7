//! JSON in the one form that RFC 8785 allows, written member by member without a tree.
//!
//! Members must be written in the order of their names. The tests hold the output against a library that sorts.

/// An object whose members are written in order.
pub(crate) struct CanonicalObject {
    text: Vec<u8>,
}

impl CanonicalObject {
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        let mut text = Vec::with_capacity(bytes);
        text.push(b'{');
        Self { text }
    }

    /// The bytes written so far, which is where something can be spliced in.
    pub(crate) fn position(&self) -> usize {
        self.text.len()
    }

    pub(crate) fn string(&mut self, name: &str, value: &str) {
        self.name(name);
        write_string(&mut self.text, value);
    }

    pub(crate) fn integer(&mut self, name: &str, value: u64) {
        self.name(name);
        write_integer(&mut self.text, value);
    }

    /// Microseconds as milliseconds, with at most three decimals and no zeros at the end.
    pub(crate) fn millis(&mut self, name: &str, micros: u64) {
        self.name(name);
        write_integer(&mut self.text, micros / 1000);
        let mut rest = micros % 1000;
        if rest == 0 {
            return;
        }
        self.text.push(b'.');
        // Digit by digit until nothing is left: no zeros at the end.
        let mut unit = 100;
        while rest > 0 {
            self.text.push(b'0' + (rest / unit) as u8);
            rest %= unit;
            unit /= 10;
        }
    }

    pub(crate) fn hex(&mut self, name: &str, value: &[u8]) {
        self.name(name);
        self.text.push(b'"');
        write_hex(&mut self.text, value);
        self.text.push(b'"');
    }

    /// A value that is canonical JSON already.
    pub(crate) fn raw(&mut self, name: &str, canonical: &[u8]) {
        self.name(name);
        self.text.extend_from_slice(canonical);
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.text.push(b'}');
        self.text
    }

    fn name(&mut self, name: &str) {
        if self.text.len() > 1 {
            self.text.push(b',');
        }
        self.text.push(b'"');
        // Names are our own and plain.
        self.text.extend_from_slice(name.as_bytes());
        self.text.extend_from_slice(b"\":");
    }
}

/// Writes a string with the escapes of RFC 8785 section 3.2.2.2 and no others.
pub(crate) fn write_string(text: &mut Vec<u8>, value: &str) {
    text.push(b'"');
    let bytes = value.as_bytes();
    // Runs of plain bytes are copied at once; names rarely have anything else.
    let mut plain = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        text.extend_from_slice(&bytes[plain..at]);
        plain = at + 1;
        match byte {
            b'"' => text.extend_from_slice(b"\\\""),
            b'\\' => text.extend_from_slice(b"\\\\"),
            0x08 => text.extend_from_slice(b"\\b"),
            b'\t' => text.extend_from_slice(b"\\t"),
            b'\n' => text.extend_from_slice(b"\\n"),
            0x0c => text.extend_from_slice(b"\\f"),
            b'\r' => text.extend_from_slice(b"\\r"),
            control => {
                text.extend_from_slice(b"\\u00");
                write_hex(text, &[control]);
            }
        }
    }
    text.extend_from_slice(&bytes[plain..]);
    text.push(b'"');
}

pub(crate) fn write_integer(text: &mut Vec<u8>, value: u64) {
    text.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

pub(crate) fn write_hex(text: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        text.push(DIGITS[usize::from(byte >> 4)]);
        text.push(DIGITS[usize::from(byte & 15)]);
    }
}

/// Bytes as lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = Vec::with_capacity(bytes.len() * 2);
    write_hex(&mut text, bytes);
    text.into_iter().map(char::from).collect()
}

/// Bytes from hexadecimal digits; `None` when there are not exactly `N` of them.
pub(crate) fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != N * 2 {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let [high, low] = [char::from(pair[0]).to_digit(16)?, char::from(pair[1]).to_digit(16)?];
        *byte = (high * 16 + low) as u8;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    proptest! {
        #[test]
        fn strings_are_written_as_the_library_writes_them(value in "\\PC*|[\\x00-\\x7f]*") {
            let mut text = Vec::new();
            write_string(&mut text, &value);
            prop_assert_eq!(text, serde_json_canonicalizer::to_vec(&value).unwrap());
        }

        #[test]
        fn numbers_are_written_as_the_library_writes_them(micros in 0_u64..10_000_000_000, count in 0_u64..(1 << 53)) {
            let mut object = CanonicalObject::with_capacity(64);
            object.integer("a", count);
            object.millis("b", micros);
            let expected = json!({"a": count, "b": micros as f64 / 1000.0});
            prop_assert_eq!(object.finish(), serde_json_canonicalizer::to_vec(&expected).unwrap());
        }
    }

    #[test]
    fn hexadecimal_digits_are_read_back_and_a_wrong_length_is_not() {
        assert_eq!(from_hex::<3>(&hex(&[0, 171, 255])), Some([0, 171, 255]));
        assert_eq!(from_hex::<3>("00ab"), None);
        assert_eq!(from_hex::<1>("0é"), None);
        assert_eq!(from_hex::<1>("+f"), None);
    }
}

//! A gzip stream that is small and says it is large.

/// A stream of `count` zero bytes (at least one), about 160 times smaller. Its checksum is wrong, since whoever
/// gets that far has already read it all.
pub(super) fn zeros(count: usize) -> Vec<u8> {
    let mut bits = Bits::default();
    // The last block, with fixed codes (RFC 1951, 3.2.6).
    bits.push(1, 1);
    bits.push(0b01, 2);
    bits.push_code(0b0011_0000, 8);
    for _ in 0..count.saturating_sub(1) / 258 {
        // 258 bytes more, like the one just before.
        bits.push_code(0b1100_0101, 8);
        bits.push_code(0, 5);
    }
    for _ in 0..count.saturating_sub(1) % 258 {
        bits.push_code(0b0011_0000, 8);
    }
    bits.push_code(0, 7);
    let mut stream = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    stream.extend(bits.finish());
    stream.extend([0; 4]);
    stream.extend((count as u32).to_le_bytes());
    stream
}

#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    current: u32,
    count: u32,
}

impl Bits {
    /// Numbers go in from their lowest bit.
    fn push(&mut self, value: u32, count: u32) {
        self.current |= value << self.count;
        self.count += count;
        while self.count >= 8 {
            self.bytes.push(self.current as u8);
            self.current >>= 8;
            self.count -= 8;
        }
    }

    /// Codes go in from their highest bit.
    fn push_code(&mut self, code: u32, count: u32) {
        self.push(code.reverse_bits() >> (32 - count), count);
    }

    fn finish(mut self) -> Vec<u8> {
        if self.count > 0 {
            self.bytes.push(self.current as u8);
        }
        self.bytes
    }
}

//! Finds the end of a string sixty-four bytes at a time: most of a large payload is text.

use super::{ScanErrorKind, ScanResult, fail};

/// Only strings longer than this pay for the set-up of larger blocks.
const SHORT_STRING: usize = 64;

/// The offset just after the string that starts at `at` (its opening quote).
#[inline]
pub(crate) fn skip_string(bytes: &[u8], at: usize) -> ScanResult<usize> {
    match skip_short(bytes, at) {
        Ok(end) => Ok(end),
        Err(at) => skip_long(bytes, at),
    }
}

/// The offset just after a string without escapes that is short, as most are: keys and words. Otherwise how far it
/// was looked at.
#[inline]
pub(super) fn skip_short(bytes: &[u8], quote: usize) -> Result<usize, usize> {
    let mut at = quote + 1;
    while at <= quote + SHORT_STRING
        && let Some(chunk) = bytes[at..].first_chunk::<16>()
    {
        let specials = vector::specials(chunk);
        if specials != 0 {
            at += specials.trailing_zeros() as usize;
            return if bytes[at] == b'"' { Ok(at + 1) } else { Err(at) };
        }
        at += 16;
    }
    Err(at)
}

/// The offset just after the string that `at` lies in.
fn skip_long(bytes: &[u8], mut at: usize) -> ScanResult<usize> {
    loop {
        match bytes.get(at) {
            Some(b'"') => return Ok(at + 1),
            Some(b'\\') => at = skip_escape(bytes, at)?,
            Some(0..0x20) => return fail(at, ScanErrorKind::Unexpected),
            Some(_) => match skip_text(bytes, at) {
                Some(next) => at = next,
                None => at = skip_last(bytes, at),
            },
            None => return fail(at, ScanErrorKind::Truncated),
        }
    }
}

/// True for text that needs no escape in a string.
pub(in crate::json) fn is_plain(text: &[u8]) -> bool {
    let (chunks, rest) = text.as_chunks::<16>();
    // The rest is checked together with bytes before it, which avoids a loop over single bytes.
    let rest = match text.last_chunk::<16>() {
        Some(last) => vector::specials(last) == 0,
        None => skip_last(rest, 0) == rest.len(),
    };
    rest && chunks.iter().all(|chunk| vector::specials(chunk) == 0)
}

/// Skips plain bytes and short escapes by blocks, and stops at what needs a closer look: a quote, a control
/// character, or the backslash of any other escape. `None` when fewer bytes than a block are left.
fn skip_text(bytes: &[u8], start: usize) -> Option<usize> {
    vector::skip_blocks(bytes, start)
}

/// The loop over blocks, for whichever way the processor has to look at one.
#[inline(always)]
fn skip_blocks(
    bytes: &[u8],
    start: usize,
    look: impl Fn(&[u8; 64]) -> Option<BlockMasks>,
    short_escapes: impl Fn(&[u8; 64]) -> u64,
) -> Option<usize> {
    let mut at = start;
    // One if the block before ended with a backslash that is not escaped itself.
    let mut carry = 0;
    while let Some(block) = bytes[at..].first_chunk::<64>() {
        let Some(look) = look(block) else {
            // A backslash that ended the block before escapes the first byte of this one.
            if carry == 1 && short_escapes(block) & 1 == 0 {
                return Some(at - 1);
            }
            carry = 0;
            at += 64;
            continue;
        };
        let escaped = look.escaped(&mut carry);
        let mut stops = (look.quotes & !escaped) | look.controls;
        if escaped != 0 {
            stops |= escaped & !short_escapes(block);
        }
        if stops != 0 {
            let stop = stops.trailing_zeros();
            // An escape is looked at from its backslash.
            let is_escaped = (escaped >> stop) & 1;
            return Some(at + stop as usize - is_escaped as usize);
        }
        at += 64;
    }
    // A backslash at the end of the last block belongs to what follows.
    let end = at - carry as usize;
    (end > start).then_some(end)
}

/// Skips plain bytes one by one: what is left after the last block.
fn skip_last(bytes: &[u8], at: usize) -> usize {
    let rest = bytes[at..].iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20));
    rest.map_or(bytes.len(), |offset| at + offset)
}

/// Where the bytes that matter lie in a block that has any: a bit for each, the first byte being the lowest.
#[derive(Debug, PartialEq, Eq)]
struct BlockMasks {
    quotes: u64,
    backslashes: u64,
    controls: u64,
}

impl BlockMasks {
    /// A bit for every byte that an odd number of backslashes stands before, which is what an escape is.
    ///
    /// Adding a run's first bit to the run carries one out at its end, so where the carry lands tells the run's
    /// length, odd or even, without looking at its bytes one by one.
    #[inline(always)]
    fn escaped(&self, carry: &mut u64) -> u64 {
        const EVEN: u64 = 0x5555_5555_5555_5555;
        if self.backslashes == 0 {
            return std::mem::take(carry);
        }
        let starting = self.backslashes & !*carry;
        let following = (starting << 1) | *carry;
        let odd_starts = starting & !EVEN & !following;
        let (carried, is_over) = odd_starts.overflowing_add(starting);
        *carry = u64::from(is_over);
        (EVEN ^ (carried << 1)) & following
    }
}

fn skip_escape(bytes: &[u8], at: usize) -> ScanResult<usize> {
    match bytes.get(at + 1) {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(at + 2),
        Some(b'u') => match bytes.get(at + 2..at + 6) {
            Some(digits) if digits.iter().all(u8::is_ascii_hexdigit) => Ok(at + 6),
            Some(_) => fail(at + 2, ScanErrorKind::Unexpected),
            None => fail(bytes.len(), ScanErrorKind::Truncated),
        },
        Some(_) => fail(at + 1, ScanErrorKind::Unexpected),
        None => fail(at + 1, ScanErrorKind::Truncated),
    }
}

/// The characters that make an escape of two bytes; the rest are numbers in hexadecimal, or errors.
const SHORT: &[u8; 8] = b"\"\\/bfnrt";

/// Many bytes at once.
#[cfg(all(feature = "simd", target_arch = "x86_64"))]
#[expect(unsafe_code, reason = "vector instructions; without them a large payload costs twice as much to validate")]
mod vector {
    use std::arch::x86_64::{
        __m256i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128, _mm_set1_epi8,
        _mm256_and_si256, _mm256_broadcastsi128_si256, _mm256_cmpeq_epi8, _mm256_loadu_si256, _mm256_min_epu8,
        _mm256_movemask_epi8, _mm256_or_si256, _mm256_set1_epi8, _mm256_shuffle_epi8, _mm256_srli_epi16,
    };

    use super::{BlockMasks, plain};

    /// A bit for every quote, backslash and control character of sixteen bytes.
    #[inline]
    pub(super) fn specials(chunk: &[u8; 16]) -> u32 {
        // SAFETY: every x86-64 processor has SSE2, and the load is of sixteen bytes that are there.
        unsafe {
            let bytes = _mm_loadu_si128(chunk.as_ptr().cast());
            let quote = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'"' as i8));
            let backslash = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'\\' as i8));
            let control = _mm_cmpeq_epi8(bytes, _mm_min_epu8(bytes, _mm_set1_epi8(0x1f)));
            _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(quote, backslash), control)) as u32
        }
    }

    /// With AVX2 where the processor has it, which is nearly everywhere.
    pub(super) fn skip_blocks(bytes: &[u8], start: usize) -> Option<usize> {
        if std::is_x86_feature_detected!("avx2") {
            // SAFETY: just asked.
            unsafe { skip_wide(bytes, start) }
        } else {
            plain::skip_blocks(bytes, start)
        }
    }

    #[target_feature(enable = "avx2")]
    fn skip_wide(bytes: &[u8], start: usize) -> Option<usize> {
        super::skip_blocks(bytes, start, |block| look(block), |block| short_escapes(block))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn look(block: &[u8; 64]) -> Option<BlockMasks> {
        let halves = load(block);
        let limit = _mm256_set1_epi8(0x1f);
        let quotes = halves.map(|half| same(half, b'"'));
        let backslashes = halves.map(|half| same(half, b'\\'));
        let controls = halves.map(|half| _mm256_cmpeq_epi8(half, _mm256_min_epu8(half, limit)));
        let any = |half: usize| _mm256_or_si256(_mm256_or_si256(quotes[half], backslashes[half]), controls[half]);
        if _mm256_movemask_epi8(_mm256_or_si256(any(0), any(1))) == 0 {
            return None;
        }
        Some(BlockMasks { quotes: mask(quotes), backslashes: mask(backslashes), controls: mask(controls) })
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn short_escapes(block: &[u8; 64]) -> u64 {
        let (low, high) = (table(&LOW), table(&HIGH));
        let others = load(block).map(|half| {
            // A byte above ASCII finds nothing under its low half.
            let by_low = _mm256_shuffle_epi8(low, half);
            let upper = _mm256_and_si256(_mm256_srli_epi16::<4>(half), _mm256_set1_epi8(0x0f));
            same(_mm256_and_si256(by_low, _mm256_shuffle_epi8(high, upper)), 0)
        });
        !mask(others)
    }

    /// A character is one of those when the entries under its low half and its high half share a bit.
    const LOW: [u8; 16] = halves(false);
    const HIGH: [u8; 16] = halves(true);

    /// Under each half of a byte a bit for every high half that it has in the characters of short escapes.
    const fn halves(is_high: bool) -> [u8; 16] {
        let mut table = [0; 16];
        let mut index = 0;
        while index < super::SHORT.len() {
            let byte = super::SHORT[index];
            let half = if is_high { byte >> 4 } else { byte & 15 };
            table[half as usize] |= 1 << (byte >> 4);
            index += 1;
        }
        table
    }

    /// The same sixteen entries in both halves, which are looked up apart.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn table(entries: &[u8; 16]) -> __m256i {
        // SAFETY: the load is of sixteen bytes that are there.
        _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(entries.as_ptr().cast()) })
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn load(block: &[u8; 64]) -> [__m256i; 2] {
        let (halves, _) = block.as_chunks::<32>();
        // SAFETY: both references are to thirty-two bytes, and this load asks for no alignment.
        unsafe { [_mm256_loadu_si256(halves[0].as_ptr().cast()), _mm256_loadu_si256(halves[1].as_ptr().cast())] }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn same(bytes: __m256i, byte: u8) -> __m256i {
        _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(byte as i8))
    }

    /// The highest bit of every byte.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn mask(halves: [__m256i; 2]) -> u64 {
        let [low, high] = halves.map(|half| _mm256_movemask_epi8(half) as u32);
        u64::from(low) | u64::from(high) << 32
    }
}

/// The same in plain Rust, for other processors.
mod plain {
    use super::BlockMasks;

    fn bits<const N: usize>(chunk: &[u8; N], is: impl Fn(u8) -> bool) -> u64 {
        chunk.iter().enumerate().fold(0, |found, (index, byte)| found | u64::from(is(*byte)) << index)
    }

    #[cfg(any(test, not(all(feature = "simd", target_arch = "x86_64"))))]
    pub(super) fn specials(chunk: &[u8; 16]) -> u32 {
        bits(chunk, |byte| matches!(byte, b'"' | b'\\' | 0..0x20)) as u32
    }

    pub(super) fn skip_blocks(bytes: &[u8], start: usize) -> Option<usize> {
        super::skip_blocks(bytes, start, look, short_escapes)
    }

    pub(super) fn look(block: &[u8; 64]) -> Option<BlockMasks> {
        let look = BlockMasks {
            quotes: bits(block, |byte| byte == b'"'),
            backslashes: bits(block, |byte| byte == b'\\'),
            controls: bits(block, |byte| byte < 0x20),
        };
        (look.quotes | look.backslashes | look.controls != 0).then_some(look)
    }

    pub(super) fn short_escapes(block: &[u8; 64]) -> u64 {
        bits(block, |byte| super::SHORT.contains(&byte))
    }
}

#[cfg(not(all(feature = "simd", target_arch = "x86_64")))]
use plain as vector;

#[cfg(test)]
mod tests {
    use super::super::validate;
    use super::*;

    #[test]
    fn every_byte_is_judged_alike_alone_and_among_others() {
        for byte in 0..=255u8 {
            for position in 0..64 {
                let mut block = [b'x'; 64];
                block[position] = byte;
                let chunk: &[u8; 16] = block[position / 16 * 16..].first_chunk().unwrap();
                assert_eq!(vector::specials(chunk), plain::specials(chunk), "{byte:#x}");
                let text: Vec<u8> = [&block[..], &block[..]].concat();
                assert_eq!(vector::skip_blocks(&text, 0), plain::skip_blocks(&text, 0), "{byte:#x} at {position}");
            }
        }
    }

    #[test]
    fn every_escape_is_judged_alike_wherever_it_lies() {
        for byte in 0..=255u8 {
            for position in [62, 63, 64, 65, 100] {
                let mut text = [b'x'; 192];
                text[position] = b'\\';
                text[position + 1] = byte;
                assert_eq!(vector::skip_blocks(&text, 0), plain::skip_blocks(&text, 0), "{byte:#x} at {position}");
            }
        }
    }

    #[test]
    fn text_is_plain_unless_a_byte_of_it_needs_an_escape() {
        for length in 0..70 {
            let text = vec![b'x'; length];
            assert!(is_plain(&text));
            for position in 0..length {
                for byte in [b'"', b'\\', 0x1f, b'\n'] {
                    let mut text = text.clone();
                    text[position] = byte;
                    assert!(!is_plain(&text), "{byte:#x} at {position} of {length}");
                }
            }
        }
        assert!(is_plain("継ぎ、どの長さでもそのまま".as_bytes()));
    }

    /// What one step after the other finds: the same rules without blocks.
    fn one_by_one(bytes: &[u8]) -> ScanResult<usize> {
        let mut at = 1;
        loop {
            at = match bytes.get(at) {
                Some(b'"') => return Ok(at + 1),
                Some(b'\\') => skip_escape(bytes, at)?,
                Some(0..0x20) => return fail(at, ScanErrorKind::Unexpected),
                Some(_) => at + 1,
                None => return fail(at, ScanErrorKind::Truncated),
            };
        }
    }

    #[test]
    fn special_bytes_are_found_wherever_they_lie() {
        for special in ["\n", "\"", "\\n", "\\\"", "\\\\", "\\\\\"", "\\\\\\\"", "\\u00e9", "\\x", "\\u00g0", "\\\n"] {
            for before in 0..200usize {
                for after in [0, 1, 40, 64, 130] {
                    let text = format!("\"{}{special}{}\"", "x".repeat(before), "y".repeat(after));
                    for end in [text.len(), text.len() - 1, 1 + before + 1] {
                        let bytes = &text.as_bytes()[..end.min(text.len())];
                        assert_eq!(skip_string(bytes, 0), one_by_one(bytes), "{special:?} at {before}, {end} bytes");
                    }
                }
            }
        }
    }

    #[test]
    fn runs_of_backslashes_are_counted_across_blocks() {
        for before in 0..130usize {
            for run in 0..140usize {
                let text = format!("\"{}{}\"{}\"", "x".repeat(before), "\\".repeat(run), "z".repeat(70));
                assert_eq!(skip_string(text.as_bytes(), 0), one_by_one(text.as_bytes()), "{run} after {before}");
            }
        }
    }

    #[test]
    fn a_control_character_is_refused_where_it_stands() {
        for position in 0..100usize {
            let mut text = "x".repeat(100);
            text.replace_range(position..=position, "\n");
            assert_eq!(validate(format!("\"{text}\"").as_bytes()).unwrap_err().at, position + 1);
        }
    }
}

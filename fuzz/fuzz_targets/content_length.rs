//! `Content-Length` frames: the same however the stream is cut, bounded, and found again after noise.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use tsugi_fuzz::Stream;
use tsugi_protocol::codec::{FramingKind, InputLimits, content_length};
use tsugi_protocol::rpc::MessageError;

fuzz_target!(|data: &[u8]| {
    let Some(stream) = Stream::of(data) else { return };
    let frames = frames(&stream, true);
    assert_eq!(frames, self::frames(&stream, false));
    for frame in frames.iter().flatten() {
        assert!(!frame.is_empty() && frame.len() <= stream.limit);
    }
    reads_back(stream.bytes);
    is_found_after_noise(stream.bytes);
});

fn frames(stream: &Stream<'_>, is_cut: bool) -> Vec<Result<Bytes, MessageError>> {
    let mut decoder = content_length::ContentLengthDecoder::new(stream.limit);
    let next = |buffer: &mut _| decoder.next(buffer);
    let fed = if is_cut { stream.cut(next) } else { stream.whole(next) };
    assert!(fed.buffer.len() <= stream.limit.max(InputLimits::HEADER));
    fed.items
}

fn reads_back(message: &[u8]) {
    let mut wire = Vec::new();
    FramingKind::ContentLength.encode(message, &mut wire);
    let stream = Stream { limit: InputLimits::LINE, cuts: [3, 1, 7, 2], bytes: &wire };
    let frames = frames(&stream, true);
    if message.is_empty() {
        assert!(frames.is_empty());
        return;
    }
    assert_eq!(frames.len(), 1);
    assert_eq!(frames[0].as_ref().unwrap().len(), message.len());
}

/// Noise that holds no header never hides the frame that follows on a line of its own.
fn is_found_after_noise(noise: &[u8]) {
    if noise.contains(&b':') {
        return;
    }
    let wire = [noise, b"\nContent-Length: 2\r\n\r\n{}"].concat();
    let stream = Stream { limit: 64, cuts: [5, 5, 5, 5], bytes: &wire };
    assert_eq!(frames(&stream, true).last(), Some(&Ok(Bytes::from_static(b"{}"))));
}

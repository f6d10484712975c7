//! Lines and the framing that is found out: the same however the stream is cut, and never over the limit.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use tsugi_fuzz::Stream;
use tsugi_protocol::codec::{FramingDecoder, FramingKind, line};
use tsugi_protocol::rpc::MessageError;

fuzz_target!(|data: &[u8]| {
    let Some(stream) = Stream::of(data) else { return };
    let lines = lines(&stream, true);
    assert_eq!(lines, self::lines(&stream, false));
    assert_eq!(framed(&stream, true), framed(&stream, false));
    for line in lines.iter().flatten() {
        check_line(line, stream.limit);
    }
    check_encoding(stream.bytes);
});

fn lines(stream: &Stream<'_>, is_cut: bool) -> Vec<Result<Bytes, MessageError>> {
    let mut decoder = line::LineDecoder::new(stream.limit);
    let next = |buffer: &mut _| decoder.next(buffer);
    let mut fed = if is_cut { stream.cut(next) } else { stream.whole(next) };
    assert!(fed.buffer.len() <= stream.limit);
    fed.items.extend(decoder.finish(&mut fed.buffer).map(Ok));
    fed.items
}

fn framed(stream: &Stream<'_>, is_cut: bool) -> (FramingKind, Vec<Result<Bytes, MessageError>>) {
    let mut framing = FramingDecoder::new(stream.limit);
    let next = |buffer: &mut _| framing.next(buffer);
    let mut fed = if is_cut { stream.cut(next) } else { stream.whole(next) };
    fed.items.extend(framing.finish(&mut fed.buffer).map(Ok));
    (framing.kind(), fed.items)
}

fn check_line(line: &[u8], limit: usize) {
    assert!(!line.contains(&b'\n'));
    assert!(line.len() <= limit);
    assert!(!line.trim_ascii().is_empty());
}

fn check_encoding(message: &[u8]) {
    let mut out = Vec::new();
    FramingKind::Line.encode(message, &mut out);
    assert_eq!(out.len(), message.len() + 1);
    assert_eq!(out.iter().position(|byte| *byte == b'\n'), Some(message.len()));
    assert!(!out.contains(&b'\r'));
}

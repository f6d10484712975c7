//! Codecs give the same messages however the bytes are cut, and never hold more than they may.

use bytes::{Bytes, BytesMut};
use proptest::collection::vec;
use proptest::prelude::*;
use tsugi_protocol::codec::{FramingDecoder, FramingKind, content_length, line, sse};
use tsugi_protocol::rpc::MessageError;

/// Small, so that generated input crosses it.
const LIMIT: usize = 24;

/// Text made of the pieces that matter to the codecs.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let pieces: Vec<&[u8]> = vec![
        b"\n",
        b"\r",
        b"\r\n",
        b"\n\n",
        b"\r\n\r\n",
        b"{}",
        b"{\"a\":1}",
        b"[1]",
        b"x",
        b" ",
        b":",
        b"\xef\xbb\xbf",
        b"\xef",
        b"\xff",
        b"\0",
        b"Content-Length: 2",
        b"content-length:3",
        b"Content-Length: 100",
        b"Content-Type: x",
        b"Content-",
        b"Content-Length: -1",
        b"data: a",
        b"data:",
        b"data",
        b"event: e",
        b"id: 7",
        b"id",
        b"retry: 5",
        b": comment",
        b"xxxxxxxxxxxxxxxxxxxxxxxx",
        b"data: xxxxxxxxxxxxxxxxxxxxx",
    ];
    vec(prop::sample::select(pieces), 0..24).prop_map(|pieces| pieces.concat())
}

/// Where the stream is cut.
fn cuts() -> impl Strategy<Value = Vec<usize>> {
    vec(1..12usize, 1..32)
}

/// Feeds `input` in pieces of these sizes (then whole) and collects what comes out.
fn feed<T>(
    input: &[u8],
    cuts: &[usize],
    mut next: impl FnMut(&mut BytesMut) -> Option<Result<T, MessageError>>,
) -> (Vec<Result<T, MessageError>>, BytesMut) {
    let (mut buffer, mut rest, mut out) = (BytesMut::new(), input, Vec::new());
    for size in cuts.iter().copied().chain([usize::MAX]) {
        let (piece, later) = rest.split_at(size.min(rest.len()));
        rest = later;
        buffer.extend_from_slice(piece);
        while let Some(item) = next(&mut buffer) {
            out.push(item);
        }
    }
    (out, buffer)
}

fn lines(input: &[u8], cuts: &[usize]) -> Vec<Result<Bytes, MessageError>> {
    let mut decoder = line::LineDecoder::new(LIMIT);
    let (mut out, mut buffer) = feed(input, cuts, |buffer| decoder.next(buffer));
    assert!(buffer.len() <= LIMIT);
    out.extend(decoder.finish(&mut buffer).map(Ok));
    out
}

fn frames(input: &[u8], cuts: &[usize]) -> Vec<Result<Bytes, MessageError>> {
    let mut decoder = content_length::ContentLengthDecoder::new(LIMIT);
    feed(input, cuts, |buffer| decoder.next(buffer)).0
}

fn framed(input: &[u8], cuts: &[usize]) -> (FramingKind, Vec<Result<Bytes, MessageError>>) {
    let mut framing = FramingDecoder::new(LIMIT);
    let (mut out, mut buffer) = feed(input, cuts, |buffer| framing.next(buffer));
    out.extend(framing.finish(&mut buffer).map(Ok));
    (framing.kind(), out)
}

fn events(input: &[u8], cuts: &[usize]) -> (Option<String>, Vec<Result<sse::SseEvent, MessageError>>) {
    let mut decoder = sse::SseDecoder::new(LIMIT);
    let (out, buffer) = feed(input, cuts, |buffer| decoder.next(buffer));
    assert!(buffer.len() <= LIMIT);
    (decoder.last_id().map(str::to_owned), out)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn lines_do_not_depend_on_the_cuts(input in stream(), cuts in cuts()) {
        prop_assert_eq!(lines(&input, &cuts), lines(&input, &[]));
    }

    #[test]
    fn frames_do_not_depend_on_the_cuts(input in stream(), cuts in cuts()) {
        prop_assert_eq!(frames(&input, &cuts), frames(&input, &[]));
    }

    #[test]
    fn the_framing_that_is_found_does_not_depend_on_the_cuts(input in stream(), cuts in cuts()) {
        prop_assert_eq!(framed(&input, &cuts), framed(&input, &[]));
    }

    #[test]
    fn events_do_not_depend_on_the_cuts(input in stream(), cuts in cuts()) {
        prop_assert_eq!(events(&input, &cuts), events(&input, &[]));
    }

    #[test]
    fn messages_read_back_in_either_framing(
        messages in vec(crate::json_property::json_text(), 1..4),
        is_line in any::<bool>(),
        cuts in cuts(),
    ) {
        let kind = if is_line { FramingKind::Line } else { FramingKind::ContentLength };
        let mut wire = Vec::new();
        messages.iter().for_each(|message| kind.encode(message.as_bytes(), &mut wire));
        let mut framing = FramingDecoder::of(kind, 1 << 20);
        let (out, _) = feed(&wire, &cuts, |buffer| framing.next(buffer));
        let out: Vec<Bytes> = out.into_iter().map(Result::unwrap).collect();
        prop_assert_eq!(out, messages.iter().map(|message| message.as_bytes()).collect::<Vec<_>>());
    }

    #[test]
    fn data_reads_back_from_an_event_whatever_it_holds(
        data in stream(),
        id in prop::option::of("[a-z\r\n\0]{0,6}"),
        name in prop::option::of("[a-z\r\n]{0,6}"),
    ) {
        let written = sse::event(id.as_deref(), name.as_deref(), &data);
        let mut decoder = sse::SseDecoder::default();
        let (out, _) = feed(&written, &[], |buffer| decoder.next(buffer));
        prop_assert_eq!(out.len(), 1);
        let event = out[0].as_ref().unwrap();
        let plain = |text: &Option<String>| text.as_ref().map(|text| text.replace(['\r', '\n', '\0'], ""));
        prop_assert_eq!(&event.id, &plain(&id));
        prop_assert_eq!(&event.event, &plain(&name));
        prop_assert_eq!(&event.data[..], &with_newlines(&data)[..]);
    }
}

/// The data with every kind of line end written as a newline.
fn with_newlines(data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = data;
    while let Some((&byte, tail)) = rest.split_first() {
        rest = if byte == b'\r' && tail.first() == Some(&b'\n') { &tail[1..] } else { tail };
        out.push(if byte == b'\r' { b'\n' } else { byte });
    }
    out
}

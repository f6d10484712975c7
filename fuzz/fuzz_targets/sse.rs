//! Server-sent events: the same however the stream is cut, bounded, and nothing can be injected when writing.

#![no_main]

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use tsugi_fuzz::Stream;
use tsugi_protocol::codec::sse;
use tsugi_protocol::rpc::MessageError;

fuzz_target!(|data: &[u8]| {
    let Some(stream) = Stream::of(data) else { return };
    let events = events(&stream, true);
    assert_eq!(events, self::events(&stream, false));
    for event in events.1.iter().flatten() {
        assert!(event.data.len() <= stream.limit);
        assert!(!event.data.contains(&b'\r'));
    }
    injects_nothing(stream.bytes);
});

type Events = (Option<String>, Vec<Result<sse::SseEvent, MessageError>>);

fn events(stream: &Stream<'_>, is_cut: bool) -> Events {
    let mut decoder = sse::SseDecoder::new(stream.limit);
    let next = |buffer: &mut _| decoder.next(buffer);
    let fed = if is_cut { stream.cut(next) } else { stream.whole(next) };
    assert!(fed.buffer.len() <= stream.limit.max(2));
    (decoder.last_id().map(str::to_owned), fed.items)
}

/// Whatever is written as name, id and data of one event comes back as one event.
fn injects_nothing(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let half = text.chars().count() / 2;
    let (id, name): (String, String) = (text.chars().take(half).collect(), text.chars().skip(half).collect());
    let written = sse::event(Some(&id), Some(&name), bytes);
    let mut buffer = BytesMut::from(&written[..]);
    let mut decoder = sse::SseDecoder::default();
    let event = decoder.next(&mut buffer).expect("an event was written").expect("it is small");
    assert!(decoder.next(&mut buffer).is_none() && buffer.is_empty());
    let plain = |text: &str| text.replace(['\r', '\n', '\0'], "");
    assert_eq!(event.id.as_deref(), Some(plain(&id).as_str()));
    assert_eq!(event.event.as_deref(), Some(plain(&name).as_str()));
    assert_eq!(
        event.data.iter().filter(|byte| **byte != b'\n').count(),
        bytes.iter().filter(|byte| !matches!(byte, b'\n' | b'\r')).count()
    );
}

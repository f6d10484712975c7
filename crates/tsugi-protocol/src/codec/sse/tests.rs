//! The rules of the event stream, one test each.

use super::*;

/// What comes out when `input` arrives `step` bytes at a time.
fn decode(input: &[u8], limit: usize, step: usize) -> Vec<Result<SseEvent, MessageError>> {
    let mut decoder = SseDecoder::new(limit);
    let mut buffer = BytesMut::new();
    let mut events = Vec::new();
    for chunk in input.chunks(step) {
        buffer.extend_from_slice(chunk);
        while let Some(event) = decoder.next(&mut buffer) {
            events.push(event);
        }
    }
    events
}

/// The events of `input`, the same however it is cut, as `event|id|retry|data`.
fn check(input: &str, expected: &[&str]) {
    for step in 1..=input.len().max(1) {
        let events: Vec<String> =
            decode(input.as_bytes(), 4096, step).into_iter().map(|event| show(&event.unwrap())).collect();
        assert_eq!(events, expected, "{input:?}, {step} bytes at a time");
    }
}

fn show(event: &SseEvent) -> String {
    let retry = event.retry.map(|retry| retry.to_string());
    let part = |part: &Option<String>| part.clone().unwrap_or("-".into());
    format!("{}|{}|{}|{}", part(&event.event), part(&event.id), part(&retry), String::from_utf8_lossy(&event.data))
}

#[test]
fn every_line_end_ends_a_line() {
    for end in ["\n", "\r", "\r\n"] {
        check(&["event: a", "data: 1", "", "data: 2", "", ""].join(end), &["a|-|-|1", "-|-|-|2"]);
    }
    check("data: 1\r\n\ndata: 2\n\r\ndata: 3\r\r\n", &["-|-|-|1", "-|-|-|2", "-|-|-|3"]);
}

#[test]
fn lines_of_data_are_joined_by_newlines() {
    check("data: {\ndata:  \"a\":1\ndata:}\n\n", &["-|-|-|{\n \"a\":1\n}"]);
    check("data\ndata\n\n", &["-|-|-|\n"]);
}

#[test]
fn only_one_space_after_the_colon_is_taken_off() {
    check("data:a\n\ndata: a\n\ndata:  a\n\ndata:a:b\n\n", &["-|-|-|a", "-|-|-|a", "-|-|-| a", "-|-|-|a:b"]);
}

#[test]
fn a_byte_order_mark_is_skipped_once_and_only_at_the_start() {
    check("\u{feff}data: 1\n\n\u{feff}data: 2\n\n", &["-|-|-|1"]);
    check("\u{feff}: comment\ndata: 1\n\n", &["-|-|-|1"]);
}

#[test]
fn comments_and_unknown_fields_mean_nothing() {
    check(": hello\n:\nfoo: bar\ndata: 1\nDATA: 2\n\n: only a comment\n\nevent: lonely\n\n", &["-|-|-|1"]);
}

#[test]
fn an_id_with_a_null_is_ignored_and_an_empty_one_counts() {
    check("id: 7\ndata: 1\n\nid: a\0b\ndata: 2\n\nid\ndata: 3\n\n", &["-|7|-|1", "-|-|-|2", "-||-|3"]);
}

#[test]
fn a_retry_time_is_digits_only() {
    check(
        "retry: 1500\n\nretry: 1.5\ndata: a\n\nretry: -1\n\nretry:\n\nretry: 0\n\nretry: 99999999999999999999\n\n",
        &["-|-|1500|", "-|-|-|a", "-|-|0|"],
    );
}

#[test]
fn a_priming_event_is_reported_with_its_id() {
    check("id: 42\nretry: 3000\ndata:\n\nid: 43\n\n", &["-|42|3000|", "-|43|-|"]);
}

#[test]
fn what_was_not_ended_by_an_empty_line_is_no_event() {
    check("data: 1\n\ndata: 2\n", &["-|-|-|1"]);
    check("data: 1", &[]);
}

#[test]
fn the_last_id_is_kept_for_a_resumption() {
    let mut decoder = SseDecoder::default();
    let mut buffer = BytesMut::from("id: 1\ndata: a\n\ndata: b\n\n");
    assert_eq!(decoder.last_id(), None);
    while decoder.next(&mut buffer).is_some() {}
    assert_eq!(decoder.last_id(), Some("1"));
    buffer.extend_from_slice(b"id:\n\n");
    while decoder.next(&mut buffer).is_some() {}
    assert_eq!(decoder.last_id(), None);
}

#[test]
fn an_event_over_the_limit_is_reported_once_and_the_next_one_works() {
    let long_line = format!("data: {}\n\ndata: ok\n\n", "x".repeat(1000));
    let many_lines = format!("{}\ndata: ok\n\n", "data: xxxxxxxx\n".repeat(100));
    for input in [long_line, many_lines] {
        for step in [1, 2, 63, 64, 65, 1000, 5000] {
            let events = decode(input.as_bytes(), 64, step);
            assert_eq!(events.len(), 2, "{step} bytes at a time");
            assert_eq!(events[0], Err(MessageError::TooLarge { limit: 64 }));
            assert_eq!(events[1].as_ref().unwrap().data, "ok");
        }
    }
}

#[test]
fn a_flood_of_comments_costs_no_memory() {
    let mut decoder = SseDecoder::new(64);
    let mut buffer = BytesMut::from(":");
    for _ in 0..10_000 {
        buffer.extend_from_slice(&[b'x'; 100]);
        assert!(decoder.next(&mut buffer).is_none());
        assert!(buffer.is_empty() && buffer.capacity() < 4096);
    }
    buffer.extend_from_slice(b"\ndata: 1\n\n");
    assert_eq!(decoder.next(&mut buffer).unwrap().unwrap().data, "1");
}

#[test]
fn one_line_of_data_is_not_copied() {
    let mut decoder = SseDecoder::default();
    let mut buffer = BytesMut::from("data: {\"a\":1}\n\n");
    let place = buffer.as_ptr();
    let event = decoder.next(&mut buffer).unwrap().unwrap();
    assert_eq!(event.data.as_ptr(), place.wrapping_add(6));
}

#[test]
fn what_is_written_reads_back_and_injects_nothing() {
    let cases = [
        (None, None, &b"{}"[..], "-|-|-|{}"),
        (Some("9"), Some("message"), b"{}", "message|9|-|{}"),
        (None, None, b"a\nevent: evil\r\rid: 1\r\nb", "-|-|-|a\nevent: evil\n\nid: 1\nb"),
        (Some("1\nevent: evil\0"), Some("x\r\ndata: y"), b"", "xdata: y|1event: evil|-|"),
        (None, None, b"tail\n", "-|-|-|tail\n"),
    ];
    for (id, name, data, expected) in cases {
        let written = event(id, name, data);
        let events = decode(&written, 4096, written.len());
        assert_eq!(events.len(), 1);
        assert_eq!(show(events[0].as_ref().unwrap()), expected);
    }
}

#[test]
fn keep_alive_and_priming_events_read_back() {
    assert!(decode(&keep_alive(), 64, 64).is_empty());
    let primed = decode(&priming(Some("5"), Some(2000)), 64, 64);
    assert_eq!(show(primed[0].as_ref().unwrap()), "-|5|2000|");
}

#[test]
fn events_that_carry_messages_are_told_from_others() {
    let named = |name: Option<&str>| SseEvent { event: name.map(str::to_owned), ..SseEvent::default() };
    assert!(named(None).is_message() && named(Some("message")).is_message() && named(Some("")).is_message());
    assert!(!named(Some("endpoint")).is_message());
}

//! Server-sent events as bytes: framing that no payload can break out of.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::time::{Instant, Sleep};
use tsugi_protocol::json::write::on_one_line;

/// An event with one JSON message.
pub fn message(json: &Bytes) -> Bytes {
    write(None, json)
}

/// An event with one JSON message and an id to come back to.
pub fn numbered(id: &str, json: &Bytes) -> Bytes {
    write(Some(id), json)
}

fn write(id: Option<&str>, json: &Bytes) -> Bytes {
    // A bare line end inside the JSON would end the event early and let a payload forge the next one.
    let json = on_one_line(json);
    let mut event = BytesMut::with_capacity(json.len() + 48);
    if let Some(id) = id {
        event.extend_from_slice(b"id: ");
        event.extend_from_slice(id.as_bytes());
        event.extend_from_slice(b"\n");
    }
    event.extend_from_slice(b"data: ");
    event.extend_from_slice(&json);
    event.extend_from_slice(b"\n\n");
    event.freeze()
}

/// The first event of a resumable stream: nothing but a place to come back to, and how soon.
pub fn priming(id: &str, retry: Duration) -> Bytes {
    Bytes::from(format!("id: {id}\nretry: {}\ndata: \n\n", retry.as_millis()))
}

/// An event with a name, as 2024-11-05 announces its message address.
pub fn named(name: &str, data: &str) -> Bytes {
    Bytes::from(format!("event: {name}\ndata: {data}\n\n"))
}

/// A comment that tells the reader, and everything in between, that we are still here.
pub const COMMENT: Bytes = Bytes::from_static(b":\n\n");

/// Ticks on a quiet stream.
pub(crate) struct KeepAliveTicks {
    every: Duration,
    sleep: Pin<Box<Sleep>>,
}

impl KeepAliveTicks {
    pub(crate) fn new(every: Duration) -> Self {
        Self { every, sleep: Box::pin(tokio::time::sleep(every)) }
    }

    /// Something was sent: the stream is not quiet.
    pub(crate) fn reset(&mut self) {
        self.sleep.as_mut().reset(Instant::now() + self.every);
    }

    /// A comment when the stream was quiet for too long.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Bytes> {
        std::task::ready!(self.sleep.as_mut().poll(context));
        self.reset();
        Poll::Ready(COMMENT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_cannot_break_out_of_its_event() {
        let pretty = Bytes::from_static(b"{\"a\":\r\n\rdata: 1}");
        assert_eq!(&message(&pretty)[..], b"data: {\"a\":   data: 1}\n\n");
        assert_eq!(&numbered("3-7", &Bytes::from_static(b"{}"))[..], b"id: 3-7\ndata: {}\n\n");
    }
}

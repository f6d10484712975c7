//! The least a relay between HTTP and a pipe can do: swap one number in the first bytes of each message.
//!
//! Callers may use equal ids, so a relay has to use its own on the pipe and put the caller's back; nothing else of a
//! message is looked at, nothing is proved, and there are no limits, no deadlines and no second child.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::ops::Range;
use std::pin::Pin;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::{Request, Response, StatusCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::{Notify, oneshot};

/// How far into a message its id is looked for.
const PEEK: usize = 320;

#[derive(Clone)]
pub struct Relay(Arc<Shared>);

struct Shared {
    waiting: Mutex<Waiting>,
    outgoing: Mutex<Vec<u8>>,
    written: Notify,
    _child: Child,
}

/// Who waits for which answer: the index is the id on the pipe.
#[derive(Default)]
struct Waiting {
    slots: Vec<Option<oneshot::Sender<Bytes>>>,
    free: VecDeque<usize>,
}

impl Relay {
    /// Starts the program and the two tasks that serve its pipe.
    pub fn start(program: &str, arguments: &[String]) -> Self {
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the program starts");
        let (stdin, stdout) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        let relay = Self(Arc::new(Shared {
            waiting: Mutex::default(),
            outgoing: Mutex::default(),
            written: Notify::new(),
            _child: child,
        }));
        tokio::spawn(write(relay.clone(), stdin));
        tokio::spawn(read(relay.clone(), stdout));
        relay
    }

    /// One request: its body as a line, the line that answers it as the body of the response.
    pub async fn answer(self, request: Request<Incoming>) -> Response<Spliced> {
        let body = match request.into_body().collect().await {
            Ok(body) => body.to_bytes(),
            Err(_) => return status(StatusCode::BAD_REQUEST),
        };
        let Some(id) = find_id(&body) else {
            if !body.is_empty() {
                self.send(&[&body]);
            }
            return status(StatusCode::ACCEPTED);
        };
        let (slot, answer) = self.0.waiting.lock().expect("no panics").enter();
        self.send(&[&body[..id.start], slot.to_string().as_bytes(), &body[id.end..]]);
        let Ok(line) = answer.await else { return status(StatusCode::BAD_GATEWAY) };
        let theirs = find_id(&line).expect("the reader found it");
        let parts = [line.slice(..theirs.start), body.slice(id), line.slice(theirs.end..)];
        Response::new(Spliced { parts, next: 0 })
    }

    fn send(&self, parts: &[&[u8]]) {
        let mut outgoing = self.0.outgoing.lock().expect("no panics");
        let first = outgoing.is_empty();
        parts.iter().for_each(|part| outgoing.extend_from_slice(part));
        outgoing.push(b'\n');
        if first {
            self.0.written.notify_one();
        }
    }
}

impl Waiting {
    fn enter(&mut self) -> (usize, oneshot::Receiver<Bytes>) {
        let (sender, receiver) = oneshot::channel();
        let slot = self.free.pop_front().unwrap_or(self.slots.len());
        if slot == self.slots.len() {
            self.slots.push(None);
        }
        self.slots[slot] = Some(sender);
        (slot, receiver)
    }

    fn leave(&mut self, slot: usize) -> Option<oneshot::Sender<Bytes>> {
        let sender = self.slots.get_mut(slot)?.take()?;
        self.free.push_back(slot);
        Some(sender)
    }
}

/// Writes what has gathered, after letting others add theirs: one system call for many messages.
async fn write(relay: Relay, mut stdin: ChildStdin) {
    loop {
        relay.0.written.notified().await;
        tokio::task::yield_now().await;
        let lines = std::mem::take(&mut *relay.0.outgoing.lock().expect("no panics"));
        if stdin.write_all(&lines).await.is_err() {
            return;
        }
    }
}

/// Cuts what the child says into lines and hands each to whoever waits for its id.
async fn read(relay: Relay, mut stdout: ChildStdout) {
    let mut buffer = BytesMut::with_capacity(256 << 10);
    let mut seen = 0;
    loop {
        buffer.reserve(64 << 10);
        if !matches!(stdout.read_buf(&mut buffer).await, Ok(1..)) {
            return;
        }
        while let Some(end) = memchr::memchr(b'\n', &buffer[seen..]) {
            let line = buffer.split_to(seen + end + 1).freeze();
            seen = 0;
            let slot = find_id(&line).and_then(|id| std::str::from_utf8(&line[id]).ok()?.parse().ok());
            let sender = slot.and_then(|slot| relay.0.waiting.lock().expect("no panics").leave(slot));
            if let Some(sender) = sender {
                let _ = sender.send(line.slice(..line.len() - 1));
            }
        }
        seen = buffer.len();
    }
}

/// Where the number of the first `"id":` stands.
fn find_id(message: &[u8]) -> Option<Range<usize>> {
    let head = &message[..message.len().min(PEEK)];
    let start = memchr::memmem::find(head, b"\"id\":")? + 5;
    let digits = head[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    (digits > 0).then_some(start..start + digits)
}

fn status(status: StatusCode) -> Response<Spliced> {
    let mut response = Response::new(Spliced { parts: Default::default(), next: 3 });
    *response.status_mut() = status;
    response
}

/// A body of three pieces, so that a large answer is not copied to change a number in it.
pub struct Spliced {
    parts: [Bytes; 3],
    next: usize,
}

impl Body for Spliced {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = self.next;
        self.next += 1;
        Poll::Ready(self.parts.get_mut(next).map(|part| Ok(Frame::data(std::mem::take(part)))))
    }

    fn is_end_stream(&self) -> bool {
        self.next >= self.parts.len()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.parts.iter().map(|part| part.len() as u64).sum())
    }
}

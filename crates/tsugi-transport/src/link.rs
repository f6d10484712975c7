//! One stream wire: an outbox that never blocks its sender, and an inbox of whole messages.

use bytes::Bytes;
use tokio::sync::mpsc;
use tsugi_protocol::codec::framing::FramingKind;

use crate::error::TransportError;
use crate::stdio::{PipeReader, PipeWriter};

/// One connected stream wire.
#[derive(Debug)]
pub struct Link {
    /// Where messages to the server go.
    pub outbox: Outbox,
    /// Where messages from the server come from.
    pub inbox: Inbox,
    /// The server's process, when this wire started one.
    pub job: Option<tsugi_process::SupervisedJob>,
}

/// When a message should leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlushMode {
    /// At once: right when few calls are in flight.
    Now,
    /// With others that are just being written: right when many are.
    Soon,
}

/// The sending half. Cheap to clone; sending never waits.
#[derive(Debug, Clone)]
pub enum Outbox {
    /// To a child's standard input.
    Pipe(PipeWriter),
    /// To a task that owns the wire.
    Queue(mpsc::Sender<Bytes>),
}

impl Outbox {
    /// Takes one message, which must not contain line ends. A wire that is gone fails as lost and one that cannot take
    /// more as congested; the message was not sent then.
    pub fn send(&self, message: &[u8], flush: FlushMode) -> Result<(), TransportError> {
        match self {
            Outbox::Pipe(writer) => writer.send(message, flush),
            // Copied: the queue outlives the buffer that the caller uses again.
            Outbox::Queue(queue) => queue.try_send(Bytes::copy_from_slice(message)).map_err(|error| match error {
                mpsc::error::TrySendError::Full(_) => TransportError::congested(),
                mpsc::error::TrySendError::Closed(_) => TransportError::closed(),
            }),
        }
    }

    /// True while so much is waiting that new calls should wait too.
    pub fn is_congested(&self) -> bool {
        match self {
            Outbox::Pipe(writer) => writer.is_congested(),
            Outbox::Queue(queue) => queue.capacity() == 0,
        }
    }

    /// Waits until the outbox takes messages again, or is closed.
    pub async fn ready(&self) {
        match self {
            Outbox::Pipe(writer) => writer.ready().await,
            // The slot is given back at once; only its existence matters.
            Outbox::Queue(queue) => drop(queue.reserve().await),
        }
    }

    /// Resolves when the server has closed its input: later messages are lost. For wires with one
    /// end for both directions it never does, since their inbox ends at the same time.
    pub async fn input_closed(&self) {
        match self {
            Outbox::Pipe(writer) => writer.reader_closed().await,
            // These wires close both directions together.
            Outbox::Queue(_) => std::future::pending().await,
        }
    }

    /// How messages are cut out of the stream, as far as that is known.
    pub fn framing(&self) -> FramingKind {
        match self {
            Outbox::Pipe(writer) => writer.framing(),
            Outbox::Queue(_) => FramingKind::Line,
        }
    }

    /// Sends what comes next with `Content-Length`, if the server has read everything that was sent as lines and has
    /// not said anything. A server that has not read is slow, and would have to read a partial line.
    pub fn begin_to_count(&self) -> bool {
        match self {
            Outbox::Pipe(writer) => writer.begin_to_count(),
            Outbox::Queue(_) => false,
        }
    }

    /// Ends the stream after what is waiting has been written.
    pub fn close(&self) {
        if let Outbox::Pipe(writer) = self {
            writer.close();
        }
    }
}

/// The receiving half; one task owns it.
#[derive(Debug)]
pub enum Inbox {
    /// From a child's standard output.
    Pipe(PipeReader),
    /// From a task that owns the wire.
    Queue(mpsc::Receiver<Result<Bytes, TransportError>>),
    /// From a task that posts messages one by one, and may have to say that one could not be posted.
    Posting(mpsc::Receiver<Result<LinkEvent, TransportError>>),
}

/// One thing that comes out of an inbox.
#[derive(Debug)]
pub enum LinkEvent {
    Message(Bytes),
    /// A message that cannot be taken; these are its first bytes. The stream goes on after it.
    Unreadable(Bytes, TransportError),
    /// A message of ours that could not be delivered. The stream goes on.
    Undelivered(Bytes, TransportError),
}

impl Inbox {
    /// Appends at least one thing to `batch`, and as many more as have arrived already.
    /// `Err(None)` is the end of the stream. Dropping the future loses nothing.
    pub async fn receive(&mut self, batch: &mut Vec<LinkEvent>) -> Result<(), Option<TransportError>> {
        match self {
            Inbox::Pipe(reader) => reader.receive(batch).await,
            Inbox::Queue(queue) => receive_queued(queue, batch, LinkEvent::Message).await,
            Inbox::Posting(queue) => receive_queued(queue, batch, |received| received).await,
        }
    }
}

async fn receive_queued<T>(
    queue: &mut mpsc::Receiver<Result<T, TransportError>>,
    batch: &mut Vec<LinkEvent>,
    received: impl Fn(T) -> LinkEvent,
) -> Result<(), Option<TransportError>> {
    match queue.recv().await {
        Some(Ok(message)) => batch.push(received(message)),
        Some(Err(error)) => return Err(Some(error)),
        None => return Err(None),
    }
    // Bounded, so that a flood does not keep the reader from delivering.
    while batch.len() < 256 {
        match queue.try_recv() {
            Ok(Ok(message)) => batch.push(received(message)),
            Ok(Err(error)) => return Err(Some(error)),
            Err(_) => break,
        }
    }
    Ok(())
}

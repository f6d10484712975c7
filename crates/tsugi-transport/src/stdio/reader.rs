//! Reads from a child: whole messages, as slices of the buffer they were read into.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tsugi_protocol::codec::framing::{FramingDecoder, FramingKind};
use tsugi_protocol::codec::limit::InputLimits;
use tsugi_protocol::rpc::MessageError;

use crate::error::{TransportError, TransportErrorKind};
use crate::link::LinkEvent;
use tsugi_rt::read_buffers::ReadBuffers;

/// How much is kept of a message that is too large: enough to see whose answer it would have been.
const HEAD: usize = 256;

/// How the child frames its messages, found out by the reader and used by the writer.
#[derive(Debug, Clone)]
pub(super) struct SharedFraming(Arc<FramingCell>);

#[derive(Debug)]
struct FramingCell {
    is_content_length: AtomicBool,
    /// Set once the child has shown it. Until then it is a guess.
    is_certain: AtomicBool,
}

impl SharedFraming {
    pub(super) fn guess(kind: FramingKind) -> Self {
        let is_content_length = AtomicBool::new(kind == FramingKind::ContentLength);
        Self(Arc::new(FramingCell { is_content_length, is_certain: AtomicBool::new(false) }))
    }

    pub(super) fn kind(&self) -> FramingKind {
        match self.0.is_content_length.load(Ordering::Relaxed) {
            true => FramingKind::ContentLength,
            false => FramingKind::Line,
        }
    }

    pub(super) fn is_certain(&self) -> bool {
        self.0.is_certain.load(Ordering::Relaxed)
    }

    pub(super) fn set(&self, kind: FramingKind) {
        self.0.is_content_length.store(kind == FramingKind::ContentLength, Ordering::Relaxed);
    }

    fn learn(&self, framing: &FramingDecoder) {
        self.set(framing.kind());
        self.0.is_certain.store(true, Ordering::Relaxed);
    }
}

/// The receiving half of a child's pipe.
#[derive(Debug)]
pub struct PipeReader {
    pipe: Receiver,
    buffers: ReadBuffers,
    framing: FramingDecoder,
    shared: SharedFraming,
    is_learned: bool,
}

impl PipeReader {
    pub(super) fn new(pipe: Receiver, shared: SharedFraming) -> Self {
        Self {
            pipe,
            buffers: ReadBuffers::default(),
            framing: FramingDecoder::new(InputLimits::LINE),
            shared,
            is_learned: false,
        }
    }

    /// Appends at least one message to `batch`; `Err(None)` is the end of the stream.
    pub(crate) async fn receive(&mut self, batch: &mut Vec<LinkEvent>) -> Result<(), Option<TransportError>> {
        loop {
            self.decode(batch)?;
            if !batch.is_empty() {
                return Ok(());
            }
            self.read().await?;
        }
    }

    /// Takes every whole message out of the buffer. Of a message over the limit only the beginning is kept;
    /// the messages after it are fine.
    fn decode(&mut self, batch: &mut Vec<LinkEvent>) -> Result<(), Option<TransportError>> {
        let buffer = &mut self.buffers.current;
        loop {
            let head = (buffer.len() > InputLimits::LINE).then(|| Bytes::copy_from_slice(&buffer[..HEAD]));
            match self.framing.next(buffer) {
                Some(Ok(message)) => batch.push(LinkEvent::Message(message)),
                Some(Err(error)) => batch.push(LinkEvent::Unreadable(head.unwrap_or_default(), unreadable(&error))),
                None => break,
            }
        }
        if !self.is_learned && self.framing.is_known() {
            self.shared.learn(&self.framing);
            self.is_learned = true;
        }
        Ok(())
    }

    /// Not `try_read`: tokio knows a short read to be the last, and so saves the one that would find nothing.
    async fn read(&mut self) -> Result<(), Option<TransportError>> {
        self.buffers.make_room();
        match self.pipe.read_buf(&mut self.buffers.current).await {
            Ok(0) => Err(None),
            Ok(bytes) => {
                self.buffers.has_read(bytes);
                Ok(())
            }
            Err(error) => Err(Some(broken(&error))),
        }
    }
}

fn unreadable(error: &MessageError) -> TransportError {
    TransportError::sent(TransportErrorKind::TooLarge, format!("the answer cannot be read: {error}"))
}

fn broken(error: &io::Error) -> TransportError {
    TransportError::sent(TransportErrorKind::Lost, format!("reading from the server failed: {error}"))
}

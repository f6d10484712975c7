//! The body of a response: read whole into one buffer, or piece by piece as it arrives.

use std::io;
use std::task::{Context, Poll, ready};

use bytes::Bytes;

use super::chunked::ChunkState;
use super::{Http1Wire, LARGE_READ, SMALL_READ, closed};

/// So much room is made for a body before any of it has arrived: the length is only what the server says.
const TRUSTED: usize = 1 << 20;
/// A read that leaves room shows that nothing more is there, which saves asking.
const SPARE: usize = 64;

/// Where a body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) enum BodyFraming {
    /// After so many more bytes, at least one.
    Length(u64),
    Chunked(ChunkState),
    /// With the connection.
    UntilClose,
    Over,
}

impl BodyFraming {
    /// Whether the end can be seen without the end of the connection.
    pub(super) fn has_end(self) -> bool {
        self != BodyFraming::UntilClose
    }
}

/// A body, with the connection that it comes from.
#[derive(Debug)]
pub(in crate::http) struct ArrivingBody {
    wire: Box<Http1Wire>,
    framing: BodyFraming,
    is_kept: bool,
    received: usize,
}

impl ArrivingBody {
    pub(in crate::http) fn new(wire: Box<Http1Wire>, framing: BodyFraming, is_kept: bool) -> Self {
        Self { wire, framing, is_kept, received: 0 }
    }

    pub(in crate::http) fn is_over(&self) -> bool {
        self.framing == BodyFraming::Over
    }

    /// The connection, when it can take another request.
    pub(in crate::http) fn into_wire(mut self) -> Option<Box<Http1Wire>> {
        self.wire.expect(self.received);
        (self.is_kept && self.is_over() && self.wire.arrived() == 0).then_some(self.wire)
    }

    /// The length that the server announced, while nothing was read.
    pub(in crate::http) fn announced(&self) -> Option<u64> {
        match self.framing {
            BodyFraming::Length(length) => Some(length),
            _ => None,
        }
    }

    /// All of a body whose length was announced, without copying it once more.
    pub(in crate::http) fn poll_whole(&mut self, length: usize, context: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        while self.wire.arrived() < length {
            let missing = length - self.wire.arrived();
            let room = missing.min(TRUSTED.max(self.wire.arrived())) + SPARE;
            if ready!(self.wire.poll_fill(room, context))? == 0 {
                return Poll::Ready(Err(closed()));
            }
        }
        self.framing = BodyFraming::Over;
        self.received = length;
        Poll::Ready(Ok(self.wire.split(length)))
    }

    /// The next piece; `None` at the end.
    pub(in crate::http) fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        loop {
            match self.take_piece() {
                Ok(Some(piece)) => return Poll::Ready(Some(Ok(piece))),
                Ok(None) if self.is_over() => return Poll::Ready(None),
                Ok(None) => {}
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
            let room = self.received.clamp(SMALL_READ, LARGE_READ);
            match ready!(self.wire.poll_fill(room, context)) {
                Ok(1..) => {}
                Ok(0) if self.framing == BodyFraming::UntilClose => self.framing = BodyFraming::Over,
                Ok(0) => return Poll::Ready(Some(Err(closed()))),
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
        }
    }

    /// What has arrived of the body; `None` when more has to arrive, or at the end.
    fn take_piece(&mut self) -> io::Result<Option<Bytes>> {
        let length = match &mut self.framing {
            BodyFraming::Over => 0,
            BodyFraming::UntilClose => self.wire.arrived(),
            BodyFraming::Length(left) => {
                let length = self.wire.arrived().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= length as u64;
                if *left == 0 {
                    self.framing = BodyFraming::Over;
                }
                length
            }
            BodyFraming::Chunked(state) => {
                let Some(arrived) = &mut self.wire.arrived else { return Ok(None) };
                let length = state.advance(arrived)?;
                if *state == ChunkState::Over {
                    self.framing = BodyFraming::Over;
                }
                length
            }
        };
        self.received += length;
        let piece = self.wire.split(length);
        Ok((length > 0).then_some(piece))
    }
}

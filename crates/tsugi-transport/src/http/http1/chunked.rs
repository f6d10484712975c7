//! The [chunked](https://www.rfc-editor.org/rfc/rfc9112#name-chunked-transfer-coding) form of a body.

use std::io;

use bytes::{Buf, BytesMut};

use super::invalid;

/// How long the line before a chunk may be, with its extensions, which are not used.
const MAX_LINE: usize = 4 << 10;
/// How much may follow the last chunk.
const MAX_TRAILERS: usize = 16 << 10;

/// What comes next in a chunked body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) enum ChunkState {
    /// The line with the size of a chunk.
    Size,
    /// So many more bytes of a chunk, at least one.
    Data(u64),
    /// The line end after a chunk.
    DataEnd,
    /// Lines after the last chunk, of which so many bytes were skipped.
    Trailers(usize),
    Over,
}

impl ChunkState {
    /// Skips to the data at the front of `arrived`; returns how much of it is there. At 0 more has to arrive, unless it
    /// is over.
    pub(super) fn advance(&mut self, arrived: &mut BytesMut) -> io::Result<usize> {
        loop {
            match self {
                ChunkState::Over => return Ok(0),
                ChunkState::Size => match httparse::parse_chunk_size(arrived) {
                    Ok(httparse::Status::Complete((line, size))) => {
                        arrived.advance(line);
                        *self = if size == 0 { ChunkState::Trailers(0) } else { ChunkState::Data(size) };
                    }
                    Ok(httparse::Status::Partial) if arrived.len() < MAX_LINE => return Ok(0),
                    _ => return Err(invalid("a chunk of the response has no valid size")),
                },
                ChunkState::Data(left) => {
                    let length = arrived.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                    *left -= length as u64;
                    if *left == 0 {
                        *self = ChunkState::DataEnd;
                    }
                    return Ok(length);
                }
                ChunkState::DataEnd => match arrived.get(..2) {
                    Some(b"\r\n") => {
                        arrived.advance(2);
                        *self = ChunkState::Size;
                    }
                    Some(_) => return Err(invalid("a chunk of the response is longer than its size")),
                    None => return Ok(0),
                },
                ChunkState::Trailers(skipped) => match memchr::memchr(b'\n', arrived) {
                    Some(end) => {
                        let is_last = matches!(&arrived[..end], b"" | b"\r");
                        arrived.advance(end + 1);
                        *skipped += end + 1;
                        if is_last {
                            *self = ChunkState::Over;
                        } else if *skipped > MAX_TRAILERS {
                            return Err(invalid("the trailers of the response are too large"));
                        }
                    }
                    None if arrived.len() + *skipped > MAX_TRAILERS => {
                        return Err(invalid("the trailers of the response are too large"));
                    }
                    None => return Ok(0),
                },
            }
        }
    }
}

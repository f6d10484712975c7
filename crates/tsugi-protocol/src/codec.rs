//! Byte streams cut into messages: lines, `Content-Length` frames, server-sent events; all bounded.
//!
//! A decoder does no I/O. Its reader owns a [`BytesMut`](bytes::BytesMut), appends what arrives and asks
//! for the next message until there is none; how the bytes were cut on the way makes no difference.
//! What a message means is left to the caller: a decoder only finds where it begins and ends.

pub mod content_length;
pub mod framing;
pub mod limit;
pub mod line;
pub mod sse;

pub use framing::{FramingDecoder, FramingKind};
pub use limit::InputLimits;

/// Why a piece of the stream was dropped. The stream goes on after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// A message over the limit. It is dropped as it arrives, so that it never fills the memory.
    #[error("a message is larger than {limit} bytes")]
    TooLarge { limit: usize },
    /// A `Content-Length` header that cannot be read. Everything up to the next one is dropped.
    #[error("not a frame: {0}")]
    Header(&'static str),
}

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

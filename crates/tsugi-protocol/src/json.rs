//! JSON as bytes that are validated once and never rebuilt.
//!
//! A payload travels through tsugi as the bytes it arrived in. This module checks that those bytes are JSON
//! ([`RawJson`]), finds the members of one object without looking deeper ([`JsonObject`]), and writes changed objects
//! by copying the parts that stay ([`ObjectWriter`]).

pub mod lenient;
mod lone_surrogate;
mod object;
mod raw;
pub(crate) mod rewrite;
pub mod scan;
pub mod write;

pub use object::{JsonObject, MemberSpan};
pub use raw::RawJson;
pub use scan::{MAX_DEPTH, ScanError, ScanErrorKind};
pub use write::ObjectWriter;

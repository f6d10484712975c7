//! JSON as bytes that were proved once and are never rebuilt.
//!
//! A payload travels through tsugi as the bytes it arrived in. This module proves that those bytes
//! are JSON ([`RawJson`]), finds the members of one object without looking deeper ([`JsonObject`]), and
//! writes changed objects by splicing ([`ObjectWriter`]).

pub mod lenient;
mod lone_surrogate;
pub mod object;
pub mod raw;
pub(crate) mod rewrite;
pub mod scan;
pub mod write;

pub use object::{JsonObject, MemberSpan};
pub use raw::RawJson;
pub use scan::{MAX_DEPTH, ScanError, ScanErrorKind};
pub use write::ObjectWriter;

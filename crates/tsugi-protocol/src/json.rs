//! JSON as bytes that were proved once and are never rebuilt.
//!
//! A payload travels through tsugi as the bytes it arrived in. This module proves that those bytes
//! are JSON ([`Raw`]), finds the members of one object without looking deeper ([`Object`]), and
//! writes changed objects by splicing ([`Splice`]).

pub(crate) mod edit;
mod mend;
pub mod object;
pub mod raw;
pub mod scan;
pub mod skim;
pub mod write;

pub use object::{Member, Object};
pub use raw::Raw;
pub use scan::{MAX_DEPTH, ScanError, ScanErrorKind};
pub use write::Splice;

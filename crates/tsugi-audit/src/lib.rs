//! Proves afterwards who called what: writes one line per event, chains the lines by
//! their hashes, signs the chain, and verifies it.
//!
//! [`AuditWriter`](writer::AuditWriter) owns one file and its predecessors, [`verify`] reads them back, and the sinks
//! carry the same lines elsewhere.

pub mod arguments;
mod canonical;
pub mod chain;
pub mod checkpoint;
pub mod file_set;
pub mod filter;
pub mod follow;
pub mod reader;
pub mod record;
#[cfg(feature = "sinks")]
pub mod sink;
pub mod timestamp;
pub mod verify;
pub mod writer;

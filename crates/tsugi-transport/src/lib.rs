//! Carry messages to one upstream server over one kind of wire.
//!
//! There are two kinds of wire. A *stream* ([`stdio`], [`ws`], [`sse`]) is one shared channel in each
//! direction: it gives a [`Link`] with an [`Outbox`] and an [`Inbox`]. [`http`] is an *exchange*: each
//! request has its own answer. Neither knows what the messages mean, and neither sends anything twice.

pub mod error;
pub mod guarded_fetch;
pub mod http;
pub mod link;
pub mod sse;
pub mod stdio;
pub mod ws;

pub use error::{TransportError, TransportErrorKind};
pub use link::{FlushMode, Inbox, Link, LinkEvent, Outbox};

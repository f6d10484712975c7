//! Pins: what servers offered when it was agreed to, and what differs now.
//!
//! A [`LockFile`] holds one line per thing a server offers: its digest and its definition. A [`PinStore`] keeps the file,
//! judges what a server offers against it, and remembers what differs until it is accepted. [`lint`] looks for text that
//! is meant to mislead a model. Nothing here connects to a server.

pub mod canonical;
pub mod command_pin;
pub mod compare;
pub mod definition;
pub mod lint;
pub mod lock;
pub mod member_diff;
pub mod policy;
pub mod store;
pub mod strict_arguments;
pub mod visible;

pub use canonical::PinDigest;
pub use definition::{PinKey, PinKind, PinnedDefinition};
pub use lock::{LockFile, LockParseError};
pub use policy::{LintMode, PinMode, PinPolicy};
pub use store::{PinEvent, PinObserver, PinStore};

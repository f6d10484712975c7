//! The JSON-RPC envelope: ids that keep their type, raw parameters and results, and the table of calls in flight.

pub mod code;
pub mod error;
pub mod id;
pub mod message;
pub mod peek;
pub mod pending;

pub use error::RpcError;
pub use id::Id;
pub use message::{Body, Message, MessageError, Notification, Parsed, Request, Response};

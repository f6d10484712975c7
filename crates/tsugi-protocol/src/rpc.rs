//! The JSON-RPC envelope: ids that keep their type, raw parameters and results, and the table of calls in flight.

pub mod code;
pub mod error;
pub mod id;
pub mod message;
pub mod pending;
pub mod response_id;

pub use error::RpcError;
pub use id::RequestId;
pub use message::{MessageError, ParsedMessage, ResponsePayload, RpcMessage, RpcNotification, RpcRequest, RpcResponse};

//! The vocabulary of MCP: methods, revisions, capabilities and typed views of what servers offer.

pub mod cache_hints;
pub mod capability;
pub mod completion;
pub mod extension;
pub mod input;
pub mod log;
pub mod meta;
pub mod method;
pub mod prompt;
pub mod resource;
pub mod subscription;
pub mod task;
pub mod tool;
pub mod uri_template;
pub mod version;

pub use capability::{AskableInputs, ClientCapabilities, ClientProfile, ServerCapabilities, ServerIdentity};
pub use method::Method;
pub use version::{Era, ProtocolVersion};

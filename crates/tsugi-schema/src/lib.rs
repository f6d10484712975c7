//! JSON Schema as data: check values and rewrite schemas for each model provider, saying what was lost.
//!
//! Nothing here knows MCP, opens a socket or reads a clock: schemas come in as JSON, decisions go out as JSON.

pub mod dialect;
pub mod error;
pub mod header_param;
pub mod keyword;
pub mod loss;
pub mod pointer;
pub mod resolve;
pub mod rewrite;
pub mod tool_name;
pub mod validate;

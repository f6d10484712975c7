//! Keep upstream servers connected and answer calls through them.
//!
//! A [`Manager`] holds many servers. Each is a [`Server`]: a connection that is opened again when it
//! breaks, a [`Catalog`](catalog::Catalog) of what the server offers, and a stack of layers around its calls.
//! Everything that answers implements [`Answer`](tsugi_protocol::answer::Answer).
//!
//! ```no_run
//! # async fn example() -> Result<(), tsugi_protocol::answer::Fault> {
//! use tsugi_client::{ConnectTarget, Manager, ManagerOptions, ServerConfig};
//! let manager = Manager::new(ManagerOptions::default());
//! let command = tsugi_process::JobCommand::new("mcp-server-time");
//! manager.register(ServerConfig::new("time", ConnectTarget::stdio(command)))?;
//! let result = manager.execute("get_current_time", &serde_json::json!({"timezone": "UTC"})).await;
//! println!("{:?}", result.text());
//! # Ok(())
//! # }
//! ```

pub mod backoff;
pub mod batch;
pub mod catalog;
pub mod config;
pub mod connection;
pub mod diagnosis;
pub mod dialect;
mod error;
mod layer;
#[cfg(test)]
mod log_capture;
pub mod manager;
pub mod not_found;
mod plain_rpc;
mod pool;
pub mod result;
#[cfg(feature = "rmcp")]
pub mod rmcp_adapter;
pub mod seal;
pub mod serena;
pub mod server;
mod stack;
mod tool_table;

pub use config::{ConnectTarget, EraChoice, ManagerOptions, RestartPolicy, ServerConfig, StartPolicy, ToolConfig};
pub use manager::{Manager, ResourceReadResult};
pub use result::ToolResult;
pub use server::{Server, ServerChange, ServerEvent, ServerSignIn, ServerStatus};

#[cfg(test)]
tsugi_process::guardian_before_main!();

//! Offer every upstream server to callers through many faces, guarded and measured.
//!
//! Follow one call: `listen` accepts the connection, [`gateway`] takes each request through [`guard`]
//! and [`route`], a [`face`] turns it into a `Call` and the reply into its own wire format.
//! Faces know only [`backend`]: what stands behind them.

mod admin;
pub mod audit;
pub mod backend;
mod body;
pub mod config;
pub mod dashboard;
mod drain;
pub mod face;
pub mod gateway;
pub mod guard;
pub mod hub;
mod listen;
pub mod route;
pub mod telemetry;

pub use backend::{Backend, Endpoint, ServerControl, ToolDirectory, ToolHeaders};
pub use config::{GatewayConfig, GatewayLimits};
pub use gateway::{Gateway, GatewayHandle, StartError};
pub use hub::{Hub, HubConfig};

/// Compiles what the guide for programs shows.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/embedding.md")]
struct EmbeddingGuide;

//! Offer every upstream server to callers through many faces, guarded and measured.
//!
//! Follow one call: `listen` accepts the connection, [`run`] takes each request through [`guard`]
//! and [`route`], a [`face`] turns it into a `Call` and the reply into its own wire format.
//! Faces know only [`backend`]: what stands behind them.

mod admin;
pub mod backend;
mod body;
pub mod config;
pub mod dashboard;
mod drain;
pub mod face;
pub mod guard;
pub mod hub;
mod listen;
pub mod route;
pub mod run;
pub mod telemetry;

pub use backend::{Backend, Control, Directory, Endpoint, Tools};
pub use config::{Config, Limits};
pub use hub::{Hub, HubConfig};
pub use run::{Gateway, Handle, StartError};

/// Compiles what the guide for programs shows.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/embedding.md")]
struct EmbeddingGuide;

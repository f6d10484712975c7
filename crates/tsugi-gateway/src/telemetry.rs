//! What the gateway says about itself: numbers for machines, lines for people; never arguments, never secrets.

pub mod access_log;
pub mod metrics;

pub use metrics::GatewayMetrics;

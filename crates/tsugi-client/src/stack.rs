//! The order of the layers around one server's connection.

use std::sync::Arc;

use tsugi_protocol::answer::Answer;

use crate::config::{Options, ServerConfig};
use crate::layer::deadline::{Deadline, Limits};
use crate::layer::trace::Trace;

/// Puts the layers around `connection`, outermost first: *trace* → *deadline* → connection.
/// *cache*, *validate*, *retry* and *limit* belong between deadline and connection, in this order.
pub fn build(connection: impl Answer + 'static, config: &ServerConfig, options: &Options) -> Arc<dyn Answer> {
    let server: Arc<str> = config.name.as_str().into();
    let deadline = Deadline::new(connection, server, Limits::of(config, options));
    Arc::new(Trace::new(deadline, config))
}

//! What stands behind the faces: one answer for everything, one per server, and what is known of the tools.

use std::sync::Arc;

use tsugi_protocol::answer::Answer;
use tsugi_schema::header_param::HeaderParams;

/// Where calls of one address go.
#[derive(Clone)]
pub struct Endpoint {
    /// Who answers.
    pub answer: Arc<dyn Answer>,
    /// What is known of its tools.
    pub tools: Arc<dyn Tools>,
}

impl Endpoint {
    /// An endpoint whose tools mirror nothing into headers.
    pub fn plain(answer: Arc<dyn Answer>) -> Self {
        Self { answer, tools: Arc::new(NoTools) }
    }
}

/// What faces must know of tools before they call them.
pub trait Tools: Send + Sync {
    /// The arguments of `tool` that clients mirror into headers; `None` when there are none or the tool is unknown.
    fn header_params(&self, tool: &str) -> Option<Arc<HeaderParams>>;
}

struct NoTools;

impl Tools for NoTools {
    fn header_params(&self, _tool: &str) -> Option<Arc<HeaderParams>> {
        None
    }
}

/// Everything the faces offer.
pub trait Backend: Send + Sync {
    /// All servers together.
    fn all(&self) -> Endpoint;

    /// One server with its own names; `None` when there is no such server.
    fn server(&self, name: &str) -> Option<Endpoint>;
}

/// A backend of a single answer and no servers: an in-process server offered by itself.
pub struct Single(Endpoint);

impl Single {
    /// Offers this answer alone.
    pub fn new(answer: Arc<dyn Answer>) -> Self {
        Self(Endpoint::plain(answer))
    }

    /// Offers this endpoint alone.
    pub fn of(endpoint: Endpoint) -> Self {
        Self(endpoint)
    }
}

impl Backend for Single {
    fn all(&self) -> Endpoint {
        self.0.clone()
    }

    fn server(&self, _name: &str) -> Option<Endpoint> {
        None
    }
}

//! The names of requests and notifications, known ones without an allocation.

use std::fmt;

macro_rules! methods {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// The method of a request or a notification. Ones that no revision defines survive as [`Method::Other`].
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        pub enum Method {
            $($(#[$doc])* $variant,)*
            /// A method that no revision defines.
            Other(Box<str>),
        }

        impl Method {
            /// Every method that some revision defines.
            pub const KNOWN: &'static [Method] = &[$(Method::$variant,)*];

            /// The name on the wire.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Method::$variant => $name,)*
                    Method::Other(name) => name,
                }
            }
        }

        impl From<&str> for Method {
            fn from(name: &str) -> Self {
                match name {
                    $($name => Method::$variant,)*
                    other => Method::Other(other.into()),
                }
            }
        }
    };
}

methods! {
    /// Opens a legacy session.
    Initialize = "initialize",
    /// Asks whether the peer is there; legacy.
    Ping = "ping",
    /// Asks what the server is; modern.
    Discover = "server/discover",
    ToolsList = "tools/list",
    ToolsCall = "tools/call",
    ResourcesList = "resources/list",
    TemplatesList = "resources/templates/list",
    ResourcesRead = "resources/read",
    /// Asks for updates of a resource; legacy.
    ResourcesSubscribe = "resources/subscribe",
    /// Ends updates of a resource; legacy.
    ResourcesUnsubscribe = "resources/unsubscribe",
    PromptsList = "prompts/list",
    PromptsGet = "prompts/get",
    Complete = "completion/complete",
    /// Sets how much is logged; legacy.
    SetLevel = "logging/setLevel",
    /// Opens a stream of change notifications; modern.
    Listen = "subscriptions/listen",
    /// A server asks the client's model.
    CreateMessage = "sampling/createMessage",
    /// A server asks the user.
    Elicit = "elicitation/create",
    /// A server asks for the client's roots.
    RootsList = "roots/list",
    /// The client is ready; legacy.
    Initialized = "notifications/initialized",
    /// A request is abandoned.
    Cancelled = "notifications/cancelled",
    /// A request makes progress.
    Progress = "notifications/progress",
    LogMessage = "notifications/message",
    ToolsChanged = "notifications/tools/list_changed",
    ResourcesChanged = "notifications/resources/list_changed",
    ResourceUpdated = "notifications/resources/updated",
    PromptsChanged = "notifications/prompts/list_changed",
    /// The client's roots changed; legacy.
    RootsChanged = "notifications/roots/list_changed",
    /// An out-of-band elicitation ended; 2025-11-25.
    ElicitationComplete = "notifications/elicitation/complete",
    /// Asks how a task stands; extension `io.modelcontextprotocol/tasks`.
    TasksGet = "tasks/get",
    /// Brings input that a task asked for; the same extension.
    TasksUpdate = "tasks/update",
    /// Asks for the end of a task; the same extension.
    TasksCancel = "tasks/cancel",
    /// A task has changed; the same extension.
    TaskChanged = "notifications/tasks",
    /// A subscription is open; modern.
    SubscriptionAcknowledged = "notifications/subscriptions/acknowledged",
}

impl Method {
    /// The parameter that says what the request is about, where there is one. On HTTP it is also the
    /// header `Mcp-Name` for tools, prompts, resource reads and tasks.
    pub fn subject_key(&self) -> Option<&'static str> {
        match self {
            Method::ToolsCall | Method::PromptsGet => Some("name"),
            Method::ResourcesRead | Method::ResourcesSubscribe | Method::ResourcesUnsubscribe => Some("uri"),
            Method::TasksGet | Method::TasksUpdate | Method::TasksCancel => Some("taskId"),
            _ => None,
        }
    }

    /// True for the requests about one task
    /// ([Tasks](https://github.com/modelcontextprotocol/ext-tasks/blob/main/specification/draft/tasks.md)).
    pub fn is_about_task(&self) -> bool {
        matches!(self, Method::TasksGet | Method::TasksUpdate | Method::TasksCancel)
    }

    /// True for requests whose subject is also in the header `Mcp-Name`.
    pub fn has_name_header(&self) -> bool {
        self.may_ask() || self.is_about_task()
    }

    /// True for the three requests that a server may answer with questions
    /// ([Supported Requests](https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr#supported-requests)).
    pub fn may_ask(&self) -> bool {
        matches!(self, Method::ToolsCall | Method::PromptsGet | Method::ResourcesRead)
    }

    /// True for requests whose results carry `ttlMs` and `cacheScope`
    /// ([Cacheable Results](https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching#cacheable-results)).
    pub fn is_cacheable(&self) -> bool {
        matches!(
            self,
            Method::Discover
                | Method::ToolsList
                | Method::PromptsList
                | Method::ResourcesList
                | Method::TemplatesList
                | Method::ResourcesRead
        )
    }

    /// True for requests that never change anything, so that repeating them is always safe.
    pub fn is_read(&self) -> bool {
        self.is_cacheable() || matches!(self, Method::PromptsGet | Method::Complete | Method::Ping | Method::TasksGet)
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back_as_its_method() {
        for method in Method::KNOWN {
            assert_eq!(&Method::from(method.as_str()), method);
        }
        assert_eq!(Method::from("vendor/x").as_str(), "vendor/x");
    }
}

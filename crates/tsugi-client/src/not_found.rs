//! What is told of things that are not there: the same words wherever somebody asks for one.

use tsugi_protocol::answer::{Fault, FaultCode};
use tsugi_protocol::json::RawJson;

/// There is no server of this name.
pub fn server(name: &str) -> Fault {
    Fault::new(FaultCode::ServerNotFound, format!("there is no server {name:?}"))
}

/// Nobody has a tool of this name.
pub fn tool(name: &str) -> Fault {
    Fault::new(FaultCode::ToolNotFound, format!("there is no tool named {name:?}")).on_tool(name)
}

/// These servers all have a tool of this name, so that it names none.
pub fn ambiguous_tool(name: &str, servers: &[&str]) -> Fault {
    let message = format!("several servers have a tool named {name:?}: {}", servers.join(", "));
    Fault::new(FaultCode::InvalidParams, message).on_tool(name).with_hint("name the server")
}

/// Nobody has a resource at this address.
pub fn resource(uri: &str) -> Fault {
    let details = RawJson::from(serde_json::json!({"uri": uri}));
    Fault::new(FaultCode::ResourceNotFound, format!("there is no resource at {uri:?}")).with_details(details)
}

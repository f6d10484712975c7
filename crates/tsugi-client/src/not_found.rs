//! Not-found and ambiguity errors: the same wording in the library, on every face and in the command.

use tsugi_protocol::answer::{Fault, FaultCode};
use tsugi_protocol::json::RawJson;

/// There is no server of this name.
pub fn server(name: &str) -> Fault {
    Fault::new(FaultCode::ServerNotFound, format!("there is no server {name:?}"))
}

/// No server has a tool of this name.
pub fn tool(name: &str) -> Fault {
    Fault::new(FaultCode::ToolNotFound, format!("there is no tool named {name:?}")).on_tool(name)
}

/// Several servers have a tool of this name.
pub fn ambiguous_tool(name: &str, servers: &[&str]) -> Fault {
    ambiguous("tool", name, servers).on_tool(name)
}

/// Several servers have a thing of this kind and name.
pub fn ambiguous(kind: &str, name: &str, servers: &[&str]) -> Fault {
    let message = format!("several servers have a {kind} named {name:?}: {}", servers.join(", "));
    Fault::new(FaultCode::InvalidParams, message).with_hint("name the server")
}

/// No server has a prompt of this name.
pub fn prompt(name: &str) -> Fault {
    Fault::new(FaultCode::InvalidParams, format!("there is no prompt named {name:?}"))
}

/// No server has a resource at this address.
pub fn resource(uri: &str) -> Fault {
    let details = RawJson::from(serde_json::json!({"uri": uri}));
    Fault::new(FaultCode::ResourceNotFound, format!("there is no resource at {uri:?}")).with_details(details)
}

/// The caller has no task of this name: there is none, or it is another caller's.
pub fn task() -> Fault {
    Fault::new(FaultCode::TaskNotFound, "there is no such task")
}

//! What is told of things that are not there: the same words wherever somebody asks for one.

use tsugi_protocol::answer::{Fault, FaultCode};
use tsugi_protocol::json::Raw;

/// Nobody has a resource at this address.
pub fn resource(uri: &str) -> Fault {
    let details = Raw::from(serde_json::json!({"uri": uri}));
    Fault::new(FaultCode::ResourceNotFound, format!("there is no resource at {uri:?}")).with_details(details)
}

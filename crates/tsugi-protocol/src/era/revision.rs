//! What an older revision cannot carry, taken out or put into words that it knows.
//!
//! Members that an older revision does not define are harmless and stay: every revision allows them.
//! Only what an older client would refuse or misread is changed.

mod capability;
mod content;
mod elicitation;
mod sampling;
mod tool;

use crate::json::edit::{self, Edit};
use crate::json::{Object, Raw};
use crate::mcp::{Method, Version};

pub use capability::client_capabilities;
pub use elicitation::requested_schema;
pub use sampling::{sampling_params, sampling_result};
pub use tool::tool;

/// A result without what a client of this revision cannot read.
pub fn result(result: &Object, method: &Method, version: Version) -> Object {
    match method {
        Method::ToolsList => replace(result, "tools", |tools| edit::map(tools, |raw| tool(raw, version))),
        Method::ToolsCall => tool::call_result(result, version),
        Method::PromptsGet => {
            replace(result, "messages", |messages| edit::map(messages, |raw| content::message(raw, version)))
        }
        _ => result.clone(),
    }
}

/// The object with another value under `key`, when `change` has one.
fn replace(object: &Object, key: &str, change: impl Fn(&Raw) -> Option<Raw>) -> Object {
    edit::members(object, |found, member| match found == key {
        true => Edit::replace(change(&object.value(member))),
        false => Edit::Keep,
    })
}

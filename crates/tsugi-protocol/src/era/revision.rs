//! Removes or rewrites what an older revision cannot carry.
//!
//! Members that an older revision does not define are harmless and stay: every revision allows them.
//! Only what an older client would refuse or misread is changed.

mod capability;
mod content;
mod elicitation;
mod sampling;
mod tool;

use crate::json::rewrite::{self, MemberEdit};
use crate::json::{JsonObject, RawJson};
use crate::mcp::{Method, ProtocolVersion};

pub(crate) use capability::client_capabilities;
pub(crate) use elicitation::requested_schema;
pub(crate) use sampling::{sampling_params, sampling_result};
pub(crate) use tool::tool;

/// A result without what a client of this revision cannot read.
pub(crate) fn result(result: &JsonObject, method: &Method, version: ProtocolVersion) -> JsonObject {
    match method {
        Method::ToolsList => replace(result, "tools", |tools| rewrite::map(tools, |raw| tool(raw, version))),
        Method::ToolsCall => tool::call_result(result, version),
        Method::PromptsGet => {
            replace(result, "messages", |messages| rewrite::map(messages, |raw| content::message(raw, version)))
        }
        _ => result.clone(),
    }
}

/// The object with another value under `key`, when `change` has one.
fn replace(object: &JsonObject, key: &str, change: impl Fn(&RawJson) -> Option<RawJson>) -> JsonObject {
    rewrite::members(object, |found, member| match found == key {
        true => MemberEdit::replace(change(&object.value(member))),
        false => MemberEdit::Keep,
    })
}

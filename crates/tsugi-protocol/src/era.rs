//! Translation between the modern revision and the older ones, as pure functions.
//!
//! Inside tsugi everything is modern. A legacy peer meets these functions twice: at the face above, when
//! it calls, and at the connection below, when it is called. A result keeps the form it was written in
//! until a face asks for another, so that two peers of one era never pay for a translation.
//!
//! [`detect`] finds out which era a server belongs to, [`session`] writes and reads what each era opens
//! with, [`to_modern`] and [`to_legacy`] translate requests, results and errors, [`round_trip`] turns a
//! server's requests into questions and back, [`change`] handles what a server announces, and
//! [`revision`] leaves out what an older revision cannot carry.

pub mod detect;
pub mod notification;
mod revision;
pub mod round_trip;
pub mod session;
pub mod to_legacy;
pub mod to_modern;

use crate::answer::Call;
use crate::json::ObjectWriter;
use crate::mcp::{Era, Method};

/// Writes a call as a request to a server of this era: the shape of everything we send upstream. Tools get a
/// progress token of ours, the request's own number, so that a long call can report even when its caller does
/// not ask.
pub fn write_request(request: &mut ObjectWriter, id: u64, call: &Call, era: Era) {
    let token = (call.method == Method::ToolsCall || call.meta.progress_token.is_some()).then_some(id);
    request.written(b"\"jsonrpc\":\"2.0\"").number("id", id).string("method", call.method.as_str());
    match era {
        Era::Modern => drop(request.object("params", |params| to_modern::write_params(params, call, token))),
        Era::Legacy if to_legacy::has_params(call, token) => {
            request.object("params", |params| to_legacy::write_params(params, call, token));
        }
        Era::Legacy => {}
    }
}

/// How many bytes such a request has, at most.
pub fn request_size(call: &Call) -> usize {
    call.method.as_str().len() + call.params.bytes().len() + call.meta.size_hint() + 160
}

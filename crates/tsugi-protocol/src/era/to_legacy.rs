//! Translates modern requests, results and errors into the form of older revisions.

use super::revision;
use super::to_modern::is_modern_member;
use crate::answer::{Call, CompletedResult, FaultCode};
use crate::json::rewrite::{self, MemberEdit};
use crate::json::{JsonObject, MemberSpan, ObjectWriter, RawJson};
use crate::mcp::meta::SERVER_INFO;
use crate::mcp::{Era, Method, ProtocolVersion};
use crate::rpc::{RpcError, code};

/// Writes the parameters of a call for a legacy server, when [there are any](has_params): without the parts of
/// a multi-round-trip, with the legacy `_meta`. `token` is our own progress token.
pub(crate) fn write_params(params: &mut ObjectWriter, call: &Call, token: Option<u64>) {
    if call.meta.is_sent_to_legacy(token) {
        params.object("_meta", |meta| call.meta.write_legacy(meta, token));
    }
    params.members(&call.params, |key| is_carried(call, key));
}

/// Whether there are parameters for a legacy server.
pub(crate) fn has_params(call: &Call, token: Option<u64>) -> bool {
    let is_carried = |member: &MemberSpan| is_carried(call, &call.params.key(*member));
    call.meta.is_sent_to_legacy(token) || call.params.members().iter().any(is_carried)
}

/// The parameters of a call for a legacy server; `None` when nothing is left to say.
pub fn params(call: &Call, token: Option<u64>) -> Option<RawJson> {
    if !has_params(call, token) {
        return None;
    }
    let mut params = ObjectWriter::with_capacity(call.params.bytes().len() + call.meta.size_hint());
    write_params(&mut params, call, token);
    Some(params.finish())
}

fn is_carried(call: &Call, key: &str) -> bool {
    key != "_meta" && !(call.method.may_ask() && is_round_trip_member(key))
}

fn is_round_trip_member(key: &str) -> bool {
    matches!(key, "inputResponses" | "requestState")
}

/// A result for a legacy client of this revision. A legacy result that the revision can carry is shared as
/// it is; a modern one loses what only modern clients read.
pub fn result(complete: &CompletedResult, method: &Method, version: ProtocolVersion) -> JsonObject {
    match complete.era {
        Era::Legacy if !needs_older_form(complete, version) => complete.body.clone(),
        Era::Legacy => revision::result(&complete.body, method, version),
        Era::Modern => revision::result(&without_modern_members(&complete.body, method), method, version),
    }
}

/// Legacy results differ in what blocks of content they know; the last new kind came with 2025-06-18.
fn needs_older_form(complete: &CompletedResult, version: ProtocolVersion) -> bool {
    let written = complete.server.as_ref().map_or(ProtocolVersion::LATEST_LEGACY, |server| server.version);
    version < ProtocolVersion::V2025_06_18 && written > version
}

fn without_modern_members(body: &JsonObject, method: &Method) -> JsonObject {
    let is_unwanted = |key: &str| is_modern_member(key, method);
    let meta = body.get_object("_meta").filter(|meta| meta.has(SERVER_INFO));
    match meta.map(|meta| meta.without(SERVER_INFO)) {
        None => body.without_matching(is_unwanted),
        Some(rest) if rest.is_empty() => body.without_matching(|key| key == "_meta" || is_unwanted(key)),
        Some(rest) => rewrite::members(body, |key, _| match key {
            "_meta" => MemberEdit::Replace(rest.raw()),
            key if is_unwanted(key) => MemberEdit::Drop,
            _ => MemberEdit::Keep,
        }),
    }
}

/// An error for a legacy client: the numbers that only modern clients know become the ones that earlier
/// revisions used in their place, which is the same in all of them. Message and data stay.
pub fn error(error: &RpcError, method: &Method, _version: ProtocolVersion) -> RpcError {
    match error.code() {
        code::INVALID_PARAMS if *method == Method::ResourcesRead && is_not_found(error) => {
            error.with_code(code::RESOURCE_NOT_FOUND)
        }
        code::HEADER_MISMATCH | code::MISSING_CLIENT_CAPABILITY => error.with_code(code::INVALID_REQUEST),
        // https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#error-handling
        code::UNSUPPORTED_VERSION => error.with_code(code::INVALID_PARAMS),
        _ => error.clone(),
    }
}

/// Whether invalid parameters of `resources/read` mean that the resource does not exist. Both forms say so in their data:
/// a server's error has the address there
/// ([Error Handling](https://modelcontextprotocol.io/specification/2026-07-28/server/resources#error-handling)), our own
/// fault its code. Without data the parameters themselves are wrong, such as a missing `uri`.
fn is_not_found(error: &RpcError) -> bool {
    let Some(data) = error.data_object() else { return false };
    match data.get_str("origin").as_deref() {
        Some("tsugi") => data.get_str("code").as_deref() == Some(FaultCode::ResourceNotFound.as_str()),
        _ => data.has("uri"),
    }
}

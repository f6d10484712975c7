//! Modern forms made legacy: what a peer of an older revision expects in requests, results and errors.

use super::revision;
use super::to_modern::is_modern_member;
use crate::answer::{Call, Complete};
use crate::json::edit::{self, Edit};
use crate::json::{Object, Raw, Splice};
use crate::mcp::meta::SERVER_INFO;
use crate::mcp::{Era, Method, Version};
use crate::rpc::{RpcError, code};

/// The parameters of a call for a legacy server: without the parts of a multi-round-trip, with the legacy
/// `_meta`. `None` when nothing is left to say. `token` is our own progress token.
pub fn params(call: &Call, token: Option<u64>) -> Option<Raw> {
    let meta = call.meta.write_legacy(token);
    let is_ours = |key: &str| key == "_meta" || (call.method.may_ask() && is_round_trip_member(key));
    if meta.is_none() && !call.params.members().iter().any(|member| is_ours(&call.params.key(*member))) {
        return (!call.params.is_empty()).then(|| call.params.raw());
    }
    let size = meta.as_ref().map_or(0, |meta| meta.bytes().len() + 16);
    let mut params = Splice::with_capacity(call.params.bytes().len() + size);
    if let Some(meta) = &meta {
        params.raw("_meta", meta);
    }
    params.members(&call.params, |key| !is_ours(key));
    (!params.is_empty()).then(|| params.finish())
}

fn is_round_trip_member(key: &str) -> bool {
    matches!(key, "inputResponses" | "requestState")
}

/// A result for a legacy client of this revision. A legacy result that the revision can carry is shared as
/// it is; a modern one loses what only modern clients read.
pub fn result(complete: &Complete, method: &Method, version: Version) -> Object {
    match complete.era {
        Era::Legacy if !needs_older_form(complete, version) => complete.body.clone(),
        Era::Legacy => revision::result(&complete.body, method, version),
        Era::Modern => revision::result(&without_modern_members(&complete.body, method), method, version),
    }
}

/// Legacy results differ in what blocks of content they know; the last new kind came with 2025-06-18.
fn needs_older_form(complete: &Complete, version: Version) -> bool {
    let written = complete.server.as_ref().map_or(Version::LATEST_LEGACY, |server| server.version);
    version < Version::V2025_06_18 && written > version
}

fn without_modern_members(body: &Object, method: &Method) -> Object {
    edit::members(body, |key, member| match key {
        "_meta" => without_server(&body.value(member)),
        key if is_modern_member(key, method) => Edit::Drop,
        _ => Edit::Keep,
    })
}

fn without_server(meta: &Raw) -> Edit {
    let Some(meta) = Object::of(meta).filter(|meta| meta.has(SERVER_INFO)) else { return Edit::Keep };
    let rest = edit::without(&meta, |key| key == SERVER_INFO);
    if rest.is_empty() { Edit::Drop } else { Edit::Replace(rest.raw()) }
}

/// An error for a legacy client: the numbers that only modern clients know become the ones that earlier
/// revisions used in their place, which is the same in all of them. Message and data stay.
pub fn error(error: &RpcError, method: &Method, _version: Version) -> RpcError {
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

/// Whether invalid parameters of `resources/read` mean that the resource is not there. The specification
/// shows its address in the data and does not demand it; our own faults say it in words.
fn is_not_found(error: &RpcError) -> bool {
    let Some(data) = error.data_object() else { return error.data().is_none() };
    match data.get_str("origin").as_deref() {
        Some("tsugi") => data.get_str("code").as_deref() == Some("RESOURCE_NOT_FOUND"),
        _ => data.has("uri"),
    }
}

//! Translates legacy requests, results and errors into the modern form.

use crate::answer::{Call, CompletedResult};
use crate::json::{JsonObject, ObjectWriter, RawJson};
use crate::mcp::cache_hints::CacheHints;
use crate::mcp::meta::SERVER_INFO;
use crate::mcp::{Era, Method};
use crate::rpc::{RpcError, RpcNotification, code};

/// Writes the parameters of a call for a modern server: as they are, with the modern `_meta`.
/// `token` is our own progress token.
pub(crate) fn write_params(params: &mut ObjectWriter, call: &Call, token: Option<u64>) {
    params.object("_meta", |meta| call.meta.write_modern(meta, token));
    params.members_except(&call.params, &["_meta"]);
}

/// The parameters of a call for a modern server.
pub fn params(call: &Call, token: Option<u64>) -> RawJson {
    let mut params = ObjectWriter::with_capacity(call.params.bytes().len() + call.meta.size_hint());
    write_params(&mut params, call, token);
    params.finish()
}

/// A result for a modern client. One that is modern already is shared as it is; a legacy one gets
/// `resultType`, the cache hints where its method needs them, and who answered
/// ([Result Responses](https://modelcontextprotocol.io/specification/2026-07-28/basic#result-responses)).
pub fn result(complete: &CompletedResult, method: &Method) -> JsonObject {
    let body = &complete.body;
    if complete.era == Era::Modern {
        return body.clone();
    }
    let mut result = ObjectWriter::with_capacity(body.bytes().len() + 256);
    result.string("resultType", "complete");
    if method.is_cacheable() {
        let freshness = CacheHints::of(body);
        result.number("ttlMs", freshness.ttl_ms).string("cacheScope", freshness.scope.as_str());
    }
    if let Some(meta) = meta_with_server(complete) {
        result.raw("_meta", &meta);
    }
    result.members(body, |key| key != "_meta" && !is_modern_member(key, method));
    result.finish_object()
}

/// True for the members of a result that only the modern revision knows.
pub(super) fn is_modern_member(key: &str, method: &Method) -> bool {
    match key {
        "resultType" => true,
        "ttlMs" | "cacheScope" => method.is_cacheable(),
        _ => false,
    }
}

/// The `_meta` of a result with the server's name in it, unless the result names one itself.
fn meta_with_server(complete: &CompletedResult) -> Option<RawJson> {
    let meta = complete.body.get_object("_meta");
    let info = complete.server.as_ref().and_then(|server| server.info.as_ref());
    match (meta, info) {
        (Some(meta), Some(info)) if !meta.has(SERVER_INFO) => {
            let mut named = ObjectWriter::with_capacity(meta.bytes().len() + info.bytes().len() + 48);
            named.raw(SERVER_INFO, info).all_members(&meta);
            Some(named.finish())
        }
        (Some(meta), _) => Some(meta.raw()),
        (None, Some(info)) => {
            let mut named = ObjectWriter::with_capacity(info.bytes().len() + 48);
            named.raw(SERVER_INFO, info);
            Some(named.finish())
        }
        (None, None) => None,
    }
}

/// An error for a modern client. Only numbers that a modern server must not send, or that mean something
/// else to a modern client, are changed; message and data stay
/// ([Error Codes](https://modelcontextprotocol.io/specification/2026-07-28/basic#error-codes)).
pub fn error(error: &RpcError, method: &Method) -> RpcError {
    match error.code() {
        code::RESOURCE_NOT_FOUND if is_about_resource(error, method) => error.with_code(code::INVALID_PARAMS),
        // Before the specification claimed it, this number meant whatever a server liked.
        code::RESOURCE_NOT_FOUND => error.with_code(code::INTERNAL_ERROR),
        code::HEADER_MISMATCH => error.clone(),
        code::MISSING_CLIENT_CAPABILITY if has_data(error, &["requiredCapabilities"]) => error.clone(),
        code::UNSUPPORTED_VERSION if has_data(error, &["supported", "requested"]) => error.clone(),
        // Reserved for the specification: a modern server must not send them.
        -32099..=-32020 => error.with_code(code::INTERNAL_ERROR),
        _ => error.clone(),
    }
}

fn is_about_resource(error: &RpcError, method: &Method) -> bool {
    let is_resource_method =
        matches!(method, Method::ResourcesRead | Method::ResourcesSubscribe | Method::ResourcesUnsubscribe);
    is_resource_method || has_data(error, &["uri"])
}

fn has_data(error: &RpcError, keys: &[&str]) -> bool {
    error.data_object().is_some_and(|data| keys.iter().all(|key| data.has(key)))
}

/// A notification of a legacy server for a modern client; `None` for those that no modern server sends:
/// an out-of-band elicitation that ended, and the withdrawal of a server's own request.
pub fn note(note: &RpcNotification) -> Option<RpcNotification> {
    match note.method {
        Method::ElicitationComplete | Method::Cancelled => None,
        _ => Some(note.clone()),
    }
}

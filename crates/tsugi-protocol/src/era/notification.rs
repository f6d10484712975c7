//! Notifications of a server (progress, log lines, changes) in the form of each era.

use crate::json::rewrite::{self, MemberEdit};
use crate::json::{JsonObject, ObjectWriter, RawJson};
use crate::mcp::Method;
use crate::mcp::log::LogLevel;
use crate::mcp::meta::{PROGRESS_TOKEN, SUBSCRIPTION_ID};
use crate::mcp::subscription::SubscriptionFilter;
use crate::rpc::{RequestId, RpcNotification};

/// A change for a legacy client: without the tag of a modern subscription, which it never opened.
pub fn to_legacy(change: &RpcNotification) -> RpcNotification {
    let Some(params) = change.params.as_ref().and_then(JsonObject::of) else { return change.clone() };
    let Some(meta) = params.get_object("_meta").filter(|meta| meta.has(SUBSCRIPTION_ID)) else {
        return change.clone();
    };
    let rest = rewrite::without(&meta, |key| key == SUBSCRIPTION_ID);
    let params = rewrite::members(&params, |key, _| match key {
        "_meta" if rest.is_empty() => MemberEdit::Drop,
        "_meta" => MemberEdit::Replace(rest.raw()),
        _ => MemberEdit::Keep,
    });
    change.with_params((!params.is_empty()).then(|| params.raw()))
}

/// The token that a progress notification belongs to.
pub fn progress_token(note: &RpcNotification) -> Option<RawJson> {
    note.params_object().get(PROGRESS_TOKEN)
}

/// The progress notification under another token; the rest byte for byte.
pub fn progress_with_token(note: &RpcNotification, token: &RawJson) -> RpcNotification {
    let params = note.params_object();
    let renamed = rewrite::members(&params, |key, _| match key {
        PROGRESS_TOKEN => MemberEdit::Replace(token.clone()),
        _ => MemberEdit::Keep,
    });
    note.with_params(Some(renamed.raw()))
}

/// The notification by which a request is abandoned.
pub fn cancelled(id: &RequestId, reason: Option<&str>) -> RpcNotification {
    let mut params = ObjectWriter::with_capacity(64);
    params.raw("requestId", id.raw());
    if let Some(reason) = reason {
        params.string("reason", reason);
    }
    RpcNotification::new(Method::Cancelled, Some(params.finish()))
}

/// The request that a cancellation is about. From a legacy server it is one of the server's own, which it
/// withdraws.
pub fn cancelled_id(note: &RpcNotification) -> Option<RequestId> {
    note.params_object().get("requestId").and_then(RequestId::from_raw)
}

/// The level that a legacy client asked for.
pub fn read_set_level(params: &JsonObject) -> Option<LogLevel> {
    params.get_str("level").as_deref().and_then(LogLevel::parse)
}

/// True when a log line is wanted by a caller who asked for this level. Without a level none is, which the
/// modern revision demands; a line whose level cannot be read is as severe as any.
pub fn is_log_wanted(note: &RpcNotification, wanted: Option<LogLevel>) -> bool {
    let Some(wanted) = wanted else { return false };
    let level = note.params_object().get_str("level").as_deref().and_then(LogLevel::parse);
    level.is_none_or(|level| level >= wanted)
}

/// The parameters of `subscriptions/listen` without `_meta`.
pub fn listen_params(filter: &SubscriptionFilter) -> JsonObject {
    let mut params = ObjectWriter::with_capacity(96);
    params.raw("notifications", &filter.to_raw());
    params.finish_object()
}

/// What a `subscriptions/listen` request or its acknowledgment asks for or grants.
pub fn read_filter(params: &JsonObject) -> SubscriptionFilter {
    requested_filter(params).unwrap_or_default()
}

/// What a `subscriptions/listen` request asks for; `None` without the filter that it must have.
pub fn requested_filter(params: &JsonObject) -> Option<SubscriptionFilter> {
    params.get_object("notifications").map(|filter| SubscriptionFilter::from_object(&filter))
}

/// The result by which a server ends a subscription on its own initiative
/// ([Graceful Closure](https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions#graceful-closure)).
pub fn listen_result(subscription: &RawJson) -> JsonObject {
    let mut meta = ObjectWriter::with_capacity(64);
    meta.raw(SUBSCRIPTION_ID, subscription);
    let mut result = ObjectWriter::with_capacity(96);
    result.string("resultType", "complete").raw("_meta", &meta.finish());
    result.finish_object()
}

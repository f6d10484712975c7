//! What a server announces: progress, log lines and changes, in the form of each era.

use crate::json::edit::{self, Edit};
use crate::json::{Object, Raw, Splice};
use crate::mcp::log::LogLevel;
use crate::mcp::meta::{PROGRESS_TOKEN, SUBSCRIPTION_ID};
use crate::mcp::subscription::Filter;
use crate::mcp::{Method, ServerCapabilities};
use crate::rpc::{Id, Notification};

/// A change for a legacy client: without the tag of a modern subscription, which it never opened.
pub fn to_legacy(change: &Notification) -> Notification {
    let Some(params) = change.params.as_ref().and_then(Object::of) else { return change.clone() };
    let Some(meta) = params.get_object("_meta").filter(|meta| meta.has(SUBSCRIPTION_ID)) else {
        return change.clone();
    };
    let rest = edit::without(&meta, |key| key == SUBSCRIPTION_ID);
    let params = edit::members(&params, |key, _| match key {
        "_meta" if rest.is_empty() => Edit::Drop,
        "_meta" => Edit::Replace(rest.raw()),
        _ => Edit::Keep,
    });
    change.with_params((!params.is_empty()).then(|| params.raw()))
}

/// The subscription that a modern notification belongs to.
pub fn subscription_id(change: &Notification) -> Option<Raw> {
    change.params_object().get_object("_meta")?.get(SUBSCRIPTION_ID)
}

/// The token that a progress notification belongs to.
pub fn progress_token(note: &Notification) -> Option<Raw> {
    note.params_object().get(PROGRESS_TOKEN)
}

/// The progress notification under another token; the rest byte for byte.
pub fn progress_with_token(note: &Notification, token: &Raw) -> Notification {
    let params = note.params_object();
    let renamed = edit::members(&params, |key, _| match key {
        PROGRESS_TOKEN => Edit::Replace(token.clone()),
        _ => Edit::Keep,
    });
    note.with_params(Some(renamed.raw()))
}

/// The notification by which a request is abandoned.
pub fn cancelled(id: &Id, reason: Option<&str>) -> Notification {
    let mut params = Splice::with_capacity(64);
    params.raw("requestId", id.raw());
    if let Some(reason) = reason {
        params.string("reason", reason);
    }
    Notification::new(Method::Cancelled, Some(params.finish()))
}

/// The request that a cancellation is about. From a legacy server it is one of the server's own, which it
/// withdraws.
pub fn cancelled_id(note: &Notification) -> Option<Id> {
    note.params_object().get("requestId").and_then(Id::from_raw)
}

/// The parameters of `logging/setLevel`, by which a legacy client says how much it wants logged.
pub fn set_level_params(level: LogLevel) -> Raw {
    let mut params = Splice::with_capacity(24);
    params.string("level", level.as_str());
    params.finish()
}

/// The level that a legacy client asked for.
pub fn read_set_level(params: &Object) -> Option<LogLevel> {
    params.get_str("level").as_deref().and_then(LogLevel::parse)
}

/// True when a log line is wanted by a caller who asked for this level. Without a level none is, which the
/// modern revision demands; a line whose level cannot be read is as severe as any.
pub fn is_log_wanted(note: &Notification, wanted: Option<LogLevel>) -> bool {
    let Some(wanted) = wanted else { return false };
    let level = note.params_object().get_str("level").as_deref().and_then(LogLevel::parse);
    level.is_none_or(|level| level >= wanted)
}

/// The part of a filter that a server with these capabilities can honour: what a subscription on its behalf
/// acknowledges.
pub fn honoured(filter: &Filter, capabilities: &ServerCapabilities) -> Filter {
    let has_single = capabilities.has_resource_subscriptions();
    Filter {
        tools: filter.tools && capabilities.has_list_changed("tools"),
        prompts: filter.prompts && capabilities.has_list_changed("prompts"),
        resources: filter.resources && capabilities.has_list_changed("resources"),
        uris: if has_single { filter.uris.clone() } else { Default::default() },
    }
}

/// The parameters of `subscriptions/listen` without `_meta`.
pub fn listen_params(filter: &Filter) -> Object {
    let mut params = Splice::with_capacity(96);
    params.raw("notifications", &filter.to_raw());
    params.finish_object()
}

/// What a `subscriptions/listen` request or its acknowledgment asks for or grants.
pub fn read_filter(params: &Object) -> Filter {
    params.get_object("notifications").map_or_else(Filter::default, |filter| Filter::from_object(&filter))
}

/// The result by which a server ends a subscription on its own initiative
/// ([Graceful Closure](https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions#graceful-closure)).
pub fn listen_result(subscription: &Raw) -> Object {
    let mut meta = Splice::with_capacity(64);
    meta.raw(SUBSCRIPTION_ID, subscription);
    let mut result = Splice::with_capacity(96);
    result.string("resultType", "complete").raw("_meta", &meta.finish());
    result.finish_object()
}

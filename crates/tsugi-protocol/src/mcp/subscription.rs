//! Which changes a client subscribes to.

use std::collections::BTreeSet;

use crate::json::{JsonObject, ObjectWriter, RawJson};
use crate::mcp::{Method, ServerCapabilities};
use crate::rpc::RpcNotification;

/// The filter of `subscriptions/listen`
/// ([Notification Filter](https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions#notification-filter)).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SubscriptionFilter {
    /// Changes of the tool list.
    pub tools: bool,
    /// Changes of the prompt list.
    pub prompts: bool,
    /// Changes of the resource list.
    pub resources: bool,
    /// Updates of these resources.
    pub uris: BTreeSet<String>,
    /// Changes of these tasks; extension `io.modelcontextprotocol/tasks`.
    pub tasks: BTreeSet<String>,
    /// What other extensions put into a filter, as it was written.
    pub others: Vec<(String, RawJson)>,
}

const TOOLS: &str = "toolsListChanged";
const PROMPTS: &str = "promptsListChanged";
const RESOURCES: &str = "resourcesListChanged";
const URIS: &str = "resourceSubscriptions";
const TASKS: &str = "taskIds";

impl SubscriptionFilter {
    /// Every list, no single resource.
    pub fn lists() -> Self {
        Self { tools: true, prompts: true, resources: true, ..Self::default() }
    }

    /// Every change that a server with these capabilities announces, and of these resources if it has subscriptions.
    pub fn offered_by(capabilities: &ServerCapabilities, uris: impl IntoIterator<Item = String>) -> Self {
        let has_single = capabilities.has_resource_subscriptions();
        Self {
            tools: capabilities.has_list_changed("tools"),
            prompts: capabilities.has_list_changed("prompts"),
            resources: capabilities.has_list_changed("resources"),
            uris: uris.into_iter().filter(|_| has_single).collect(),
            ..Self::default()
        }
    }

    /// Reads the `notifications` of a listen request or of its acknowledgment.
    pub fn from_object(object: &JsonObject) -> Self {
        let flag = |key| object.get_bytes(key) == Some(b"true");
        let texts = |key| object.get(key).and_then(|texts| texts.to::<Vec<String>>().ok()).unwrap_or_default();
        let others = object.members().iter().filter(|member| {
            let known = [TOOLS, PROMPTS, RESOURCES, URIS, TASKS];
            !object.is_one_of(**member, &known)
        });
        Self {
            tools: flag(TOOLS),
            prompts: flag(PROMPTS),
            resources: flag(RESOURCES),
            uris: texts(URIS).into_iter().collect(),
            tasks: texts(TASKS).into_iter().collect(),
            others: others.map(|member| (object.key(*member).into_owned(), object.value(*member))).collect(),
        }
    }

    /// The filter as JSON; what is not wanted is left out.
    pub fn to_raw(&self) -> RawJson {
        let mut filter = ObjectWriter::with_capacity(128);
        let wanted = RawJson::literal("true");
        for (key, is_wanted) in [(TOOLS, self.tools), (PROMPTS, self.prompts), (RESOURCES, self.resources)] {
            if is_wanted {
                filter.raw(key, &wanted);
            }
        }
        if !self.uris.is_empty() {
            filter.raw(URIS, &RawJson::from_value(&self.uris));
        }
        if !self.tasks.is_empty() {
            filter.raw(TASKS, &RawJson::from_value(&self.tasks));
        }
        for (key, value) in &self.others {
            filter.raw(key, value);
        }
        filter.finish()
    }

    /// True when this change is wanted.
    pub fn wants(&self, change: &RpcNotification) -> bool {
        match change.method {
            Method::ToolsChanged => self.tools,
            Method::PromptsChanged => self.prompts,
            Method::ResourcesChanged => self.resources,
            Method::ResourceUpdated => {
                change.params_object().get_str("uri").is_some_and(|uri| self.uris.contains(uri.as_ref()))
            }
            Method::TaskChanged => {
                change.params_object().get_str("taskId").is_some_and(|id| self.tasks.contains(id.as_ref()))
            }
            _ => false,
        }
    }

    /// The part that is about extensions: tasks, and what is not known here.
    pub fn of_extensions(&self) -> Self {
        Self { tasks: self.tasks.clone(), others: self.others.clone(), ..Self::default() }
    }

    /// True when nothing is wanted.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A notification tagged with the subscription that it belongs to.
pub fn tagged(change: &RpcNotification, subscription: &RawJson) -> RpcNotification {
    let params = change.params_object();
    let mut meta = ObjectWriter::with_capacity(64);
    meta.raw(super::meta::SUBSCRIPTION_ID, subscription);
    if let Some(old) = params.get_object("_meta") {
        meta.members(&old, |key| key != super::meta::SUBSCRIPTION_ID);
    }
    let mut tagged = ObjectWriter::with_capacity(params.bytes().len() + 64);
    tagged.raw("_meta", &meta.finish()).members_except(&params, &["_meta"]);
    change.with_params(Some(tagged.finish()))
}

/// The acknowledgment that must come first on a subscription.
pub fn acknowledgment(filter: &SubscriptionFilter, subscription: &RawJson) -> RpcNotification {
    let mut params = ObjectWriter::with_capacity(128);
    params.raw("notifications", &filter.to_raw());
    tagged(&RpcNotification::new(Method::SubscriptionAcknowledged, Some(params.finish())), subscription)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_reads_back_and_decides() {
        let filter = SubscriptionFilter::from_object(&JsonObject::from(serde_json::json!({
            "toolsListChanged": true, "promptsListChanged": false, "resourceSubscriptions": ["a:b"],
            "com.example/x": {"deep": [1]}, "taskIds": ["t"]
        })));
        assert_eq!(
            filter.to_raw().as_str(),
            r#"{"toolsListChanged":true,"resourceSubscriptions":["a:b"],"taskIds":["t"],"com.example/x":{"deep":[1]}}"#
        );
        let of_extensions = r#"{"taskIds":["t"],"com.example/x":{"deep":[1]}}"#;
        assert_eq!(filter.of_extensions().to_raw().as_str(), of_extensions);
        let updated = |uri: &str| {
            RpcNotification::new(Method::ResourceUpdated, Some(RawJson::from(serde_json::json!({"uri": uri}))))
        };
        assert!(filter.wants(&updated("a:b")) && !filter.wants(&updated("a:c")));
        assert!(!filter.wants(&RpcNotification::new(Method::PromptsChanged, None)));
    }

    #[test]
    fn a_tag_replaces_an_older_one_and_keeps_the_rest() {
        let change = RpcNotification::new(
            Method::ToolsChanged,
            Some(RawJson::literal(r#"{"_meta":{"io.modelcontextprotocol/subscriptionId":9,"x":1},"y":2}"#)),
        );
        let tagged = tagged(&change, &RawJson::literal("\"s\""));
        assert_eq!(
            tagged.params.unwrap().as_str(),
            r#"{"_meta":{"io.modelcontextprotocol/subscriptionId":"s","x":1},"y":2}"#
        );
    }
}

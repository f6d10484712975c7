//! The tools: one line of a table each, from the name a model sees to the action behind it.

mod table;

use std::sync::Arc;

use serde_json::{Map, Value, json};
use tsugi_protocol::json::{JsonObject, RawJson};
use tsugi_protocol::serve::{BoundTool, ToolBuilder};

use self::table::{ADMIN, STANDARD};
use super::service::{self, PmService, PmTool};
use super::{PmServerSettings, Profile};
use crate::action::search::GetNotifications;
use crate::action::{Action, ActionEffect, ErasedAction};
use crate::domain::fault::PmFault;

/// The words that stand for a shape in the table, longest first. Bounds are left to the actions, which say what is
/// wrong: in a schema they would cost every model of every session a kilobyte.
const SHAPES: [(&str, &str); 9] = [
    (
        "@policy",
        r#"{"type":"object","properties":{"review_required":{"type":"boolean"},"worker_create":{"enum":["deny","triage","allow"]},"claim_idle_ttl_s":{"type":"integer"},"claim_max_age_s":{"type":"integer"},"resume_grace_s":{"type":"integer"},"max_claims_per_session":{"type":"integer"},"handoff_ttl_s":{"type":"integer"},"require_evidence":{"type":"boolean"},"viewer_notes":{"type":"boolean"}},"additionalProperties":false}"#,
    ),
    ("@texts", r#"{"type":"array","items":{"type":"string"}}"#),
    ("@tasks", r#"{"type":"array","items":{"type":"string"}}"#),
    ("@task", r#"{"type":"string"}"#),
    ("@text", r#"{"type":"string"}"#),
    ("@key", r#"{"type":"string"}"#),
    ("@number", r#"{"type":"integer"}"#),
    ("@limit", r#"{"type":"integer"}"#),
    ("@flag", r#"{"type":"boolean"}"#),
];

/// One tool.
struct ToolSpec {
    /// The smallest profile that has it.
    profile: Profile,
    name: &'static str,
    english: &'static str,
    japanese: &'static str,
    /// Properties of the arguments as JSON members, with shapes by name; a `!` after a name says that it is required.
    properties: &'static str,
    bind: fn(&Arc<PmService>, &ToolSpec) -> BoundTool,
}

/// A tool that does an action.
const fn tool<A: Action>(
    profile: Profile,
    english: &'static str,
    japanese: &'static str,
    properties: &'static str,
) -> ToolSpec {
    ToolSpec { profile, name: A::NAME, english, japanese, properties, bind: bind::<A> }
}

/// The same for an action that knows nothing of keys: the call is remembered around it.
const fn keyed_tool<A: Action>(
    profile: Profile,
    english: &'static str,
    japanese: &'static str,
    properties: &'static str,
) -> ToolSpec {
    ToolSpec { profile, name: A::NAME, english, japanese, properties, bind: bind_keyed::<A> }
}

/// The one tool that may wait for something to happen.
const fn waiting_tool(
    profile: Profile,
    english: &'static str,
    japanese: &'static str,
    properties: &'static str,
) -> ToolSpec {
    ToolSpec { profile, name: GetNotifications::NAME, english, japanese, properties, bind: bind_waiting }
}

/// The tools of the service's profile, always in the same order.
pub(super) fn tools(service: &Arc<PmService>) -> Vec<BoundTool> {
    let wanted = service.settings.profile;
    let admin = ADMIN.iter().filter(|_| wanted == Profile::All);
    let specs = STANDARD.iter().filter(|spec| is_within(spec.profile, wanted)).chain(admin);
    specs.map(|spec| (spec.bind)(service, spec)).collect()
}

fn is_within(profile: Profile, wanted: Profile) -> bool {
    let rank = |one: Profile| Profile::ALL.iter().position(|other| *other == one);
    rank(profile) <= rank(wanted)
}

impl ToolSpec {
    /// The properties by name, and the names that are required.
    fn arguments(&self) -> (Map<String, Value>, Vec<String>) {
        let mut text = format!("{{{}}}", self.properties);
        for (word, shape) in SHAPES {
            text = text.replace(word, shape);
        }
        let marked: Map<String, Value> = serde_json::from_str(&text).expect("the table holds valid JSON");
        let required = marked.keys().filter_map(|name| name.strip_suffix('!')).map(str::to_owned).collect();
        let plain = marked.into_iter().map(|(name, shape)| (name.trim_end_matches('!').to_owned(), shape));
        (plain.collect(), required)
    }

    fn schema(&self) -> Map<String, Value> {
        let (properties, required) = self.arguments();
        let mut schema = Map::new();
        schema.insert("type".to_owned(), json!("object"));
        schema.insert("properties".to_owned(), Value::Object(properties));
        if !required.is_empty() {
            schema.insert("required".to_owned(), json!(required));
        }
        schema.insert("additionalProperties".to_owned(), json!(false));
        schema
    }

    fn known(&self) -> Vec<String> {
        self.arguments().0.into_iter().map(|(name, _)| name).collect()
    }

    fn described(&self, settings: &PmServerSettings, is_read: bool) -> ToolBuilder {
        let tool = ToolBuilder::new(self.name, settings.lang.pick(self.english, self.japanese))
            .input_schema(RawJson::from(Value::Object(self.schema())));
        let tool = if is_read { tool.read_only() } else { tool.destructive(false) };
        // That none reaches out of the house is said where there is room for it: the small lists have eight kilobytes
        // in all. That a call can be repeated is true of one with a key only, which no annotation can say.
        if is_within(Profile::Standard, settings.profile) { tool.open_world(false) } else { tool }
    }
}

fn bind<A: Action>(service: &Arc<PmService>, spec: &ToolSpec) -> BoundTool {
    let is_read = matches!(A::EFFECT, ActionEffect::Read | ActionEffect::ReadAfterSweep);
    let read = |known: &[String], arguments: &JsonObject| service::read::<A>(known, arguments).map(ErasedAction::of);
    bind_deed(service, spec, is_read, PmTool { name: A::NAME, known: spec.known(), read })
}

fn bind_keyed<A: Action>(service: &Arc<PmService>, spec: &ToolSpec) -> BoundTool {
    let read = |known: &[String], arguments: &JsonObject| {
        let key = arguments.get_str("idempotency_key").map(|key| key.into_owned());
        if key.is_none() && arguments.get("idempotency_key").is_some_and(|given| !given.is_null()) {
            return Err(PmFault::invalid("idempotency_key must be a text"));
        }
        service::read::<A>(known, &arguments.without("idempotency_key"))
            .map(|action| ErasedAction::with_idempotency_key(action, key))
    };
    bind_deed(service, spec, false, PmTool { name: A::NAME, known: spec.known(), read })
}

fn bind_deed(service: &Arc<PmService>, spec: &ToolSpec, is_read: bool, tool: PmTool) -> BoundTool {
    let (service, tool) = (service.clone(), Arc::new(tool));
    spec.described(&service.settings, is_read).raw_handler(move |arguments, context| {
        let (service, tool) = (service.clone(), tool.clone());
        async move { service.call(&tool, arguments, context).await }
    })
}

fn bind_waiting(service: &Arc<PmService>, spec: &ToolSpec) -> BoundTool {
    let (service, known) = (service.clone(), Arc::new(spec.known()));
    spec.described(&service.settings, true).raw_handler(move |arguments, context| {
        let (service, known) = (service.clone(), known.clone());
        async move { service.wait(&known, arguments, context).await }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_schema_is_valid_and_has_no_marks_left() {
        for spec in STANDARD.iter().chain(ADMIN) {
            let schema = Value::Object(spec.schema()).to_string();
            assert!(!schema.contains('@'), "{} has an unknown shape", spec.name);
            assert!(!schema.contains("!\""), "{} has a mark inside", spec.name);
        }
        let required = |name: &str| STANDARD.iter().find(|spec| spec.name == name).unwrap().arguments().1;
        assert_eq!(required("create_handoff"), ["task_id", "summary", "next_steps"]);
        assert!(required("claim_task").is_empty());
    }

    #[test]
    fn a_profile_has_the_tools_of_the_smaller_ones() {
        let count = |wanted| STANDARD.iter().filter(|spec| is_within(spec.profile, wanted)).count();
        assert_eq!([Profile::Seed, Profile::Core, Profile::Standard].map(count), [8, 17, 28]);
    }
}

//! The tools: one line of a table each, from the name a model sees to the action behind it.

mod schema;
mod table;

use std::sync::Arc;

use schemars::JsonSchema;
use tsugi_protocol::json::RawJson;
use tsugi_protocol::serve::{BoundTool, ToolBuilder};

use self::schema::ArgumentSchema;
use self::table::{ADMIN, STANDARD};
use super::service::{self, PmService, PmTool, ReadArguments};
use super::{PmServerSettings, Profile};
use crate::action::search::GetNotifications;
use crate::action::{Action, ActionEffect, ErasedAction};
use crate::domain::fault::PmFault;

struct ToolSpec {
    /// The smallest profile that has it.
    profile: Profile,
    name: &'static str,
    english: &'static str,
    japanese: &'static str,
    schema: fn() -> ArgumentSchema,
    bind: fn(&Arc<PmService>, &ToolSpec) -> BoundTool,
}

/// A tool that does an action.
const fn tool<A: Action + JsonSchema>(profile: Profile, english: &'static str, japanese: &'static str) -> ToolSpec {
    ToolSpec { profile, name: A::NAME, english, japanese, schema: ArgumentSchema::of::<A>, bind: bind::<A> }
}

/// The same for an action that knows nothing of keys: the call is remembered around it.
const fn keyed_tool<A: Action + JsonSchema>(
    profile: Profile,
    english: &'static str,
    japanese: &'static str,
) -> ToolSpec {
    let schema = || ArgumentSchema::of::<A>().with_idempotency_key();
    ToolSpec { profile, name: A::NAME, english, japanese, schema, bind: bind_keyed::<A> }
}

/// The one tool that may wait for something to happen.
const fn waiting_tool(profile: Profile, english: &'static str, japanese: &'static str) -> ToolSpec {
    let schema = ArgumentSchema::of::<GetNotifications>;
    ToolSpec { profile, name: GetNotifications::NAME, english, japanese, schema, bind: bind_waiting }
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
    fn described(&self, schema: &ArgumentSchema, settings: &PmServerSettings, is_read: bool) -> ToolBuilder {
        let tool = ToolBuilder::new(self.name, settings.lang.pick(self.english, self.japanese))
            .input_schema(RawJson::from(schema.listed(settings.lang, settings.profile)));
        let tool = if is_read { tool.read_only() } else { tool.destructive(false) };
        // `openWorldHint` is set where there is room: the small lists have eight kilobytes in
        // all. That a call can be repeated holds only for one with a key, which no annotation can say.
        if is_within(Profile::Standard, settings.profile) { tool.open_world(false) } else { tool }
    }
}

fn bind<A: Action>(service: &Arc<PmService>, spec: &ToolSpec) -> BoundTool {
    let is_read = matches!(A::EFFECT, ActionEffect::Read | ActionEffect::ReadAfterSweep);
    bind_action(service, spec, is_read, |known, arguments| service::read::<A>(known, arguments).map(ErasedAction::of))
}

fn bind_keyed<A: Action>(service: &Arc<PmService>, spec: &ToolSpec) -> BoundTool {
    bind_action(service, spec, false, |known, arguments| {
        let key = arguments.get_str("idempotency_key").map(|key| key.into_owned());
        if key.is_none() && arguments.get("idempotency_key").is_some_and(|given| !given.is_null()) {
            return Err(PmFault::invalid("idempotency_key must be a text"));
        }
        service::read::<A>(known, &arguments.without("idempotency_key"))
            .map(|action| ErasedAction::with_idempotency_key(action, key))
    })
}

fn bind_action(service: &Arc<PmService>, spec: &ToolSpec, is_read: bool, read: ReadArguments) -> BoundTool {
    let schema = (spec.schema)();
    let tool = Arc::new(PmTool { name: spec.name, known: schema.names(), read });
    let service = service.clone();
    spec.described(&schema, &service.settings, is_read).raw_handler(move |arguments, context| {
        let (service, tool) = (service.clone(), tool.clone());
        async move { service.call(&tool, arguments, context).await }
    })
}

fn bind_waiting(service: &Arc<PmService>, spec: &ToolSpec) -> BoundTool {
    let schema = (spec.schema)();
    let (service, known) = (service.clone(), Arc::new(schema.names()));
    spec.described(&schema, &service.settings, true).raw_handler(move |arguments, context| {
        let (service, known) = (service.clone(), known.clone());
        async move { service.wait(&known, arguments, context).await }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::mcp::Lang;

    fn listed(name: &str, profile: Profile) -> Value {
        let spec = STANDARD.iter().chain(ADMIN).find(|spec| spec.name == name).unwrap();
        (spec.schema)().listed(Lang::En, profile)
    }

    #[test]
    fn a_schema_comes_from_the_fields_of_the_action() {
        let expected = json!({"type": "object", "properties": {
            "task_id": {"type": "string", "description": "id or KEY-n"},
            "reason": {"type": "string", "description": "why"},
            "note": {"type": "string", "description": "for the next"},
            "session_id": {"type": "string", "description": "if not yours"},
        }, "required": ["task_id", "reason"]});
        assert_eq!(listed("release_task", Profile::Core), expected);
        assert_eq!(listed("create_handoff", Profile::All)["required"], json!(["task_id", "summary", "next_steps"]));
        assert_eq!(listed("create_task", Profile::All)["required"], json!(["project_id", "title"]));
        assert_eq!(listed("claim_task", Profile::All).get("required"), None);
    }

    #[test]
    fn an_optional_argument_has_the_shape_of_a_given_one() {
        let task = listed("update_task", Profile::All)["properties"].clone();
        assert_eq!(task["priority"]["enum"], json!(["critical", "high", "medium", "low"]));
        assert_eq!(task["due_at"]["type"], "integer");
        assert_eq!(task["labels"]["properties"]["set"], json!({"type": "array", "items": {"type": "string"}}));
        assert_eq!(listed("create_task", Profile::All)["properties"]["status"]["enum"], json!(["backlog", "todo"]));
    }

    #[test]
    fn what_only_the_command_may_say_is_no_argument_of_a_tool() {
        for (tool, field) in [("set_membership", "allow_ai_owner"), ("new_token", "scopes")] {
            assert_eq!(listed(tool, Profile::All)["properties"].get(field), None, "{tool}");
        }
    }

    #[test]
    fn a_profile_has_the_tools_of_the_smaller_ones() {
        let count = |wanted| STANDARD.iter().filter(|spec| is_within(spec.profile, wanted)).count();
        assert_eq!([Profile::Seed, Profile::Core, Profile::Standard].map(count), [8, 17, 28]);
    }
}

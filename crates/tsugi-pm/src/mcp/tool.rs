//! The tools: one line of a table each, from the name a model sees to the action behind it.

mod table;

use std::sync::Arc;

use serde_json::{Map, Value, json};
use tsugi_protocol::json::Raw;
use tsugi_protocol::serve::{BoundTool, Tool};

use self::table::{ADMIN, STANDARD};
use super::service::Service;
use super::{Lang, Profile};
use crate::action::{Action, Effect};

/// The words that stand for a shape in the table, longest first. Bounds are left to the actions, which say what is
/// wrong: in a schema they would cost every model of every session a kilobyte.
const SHAPES: [(&str, &str); 8] = [
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
struct Spec {
    /// The smallest profile that has it.
    profile: Profile,
    name: &'static str,
    english: &'static str,
    japanese: &'static str,
    /// Properties of the arguments as JSON members, with shapes by name.
    properties: &'static str,
    required: &'static [&'static str],
    bind: fn(&Arc<Service>, &Spec) -> BoundTool,
}

/// The tools of the service's profile, always in the same order.
pub(super) fn tools(service: &Arc<Service>) -> Vec<BoundTool> {
    let wanted = service.settings.profile;
    let admin = ADMIN.iter().filter(|_| wanted == Profile::All);
    let specs = STANDARD.iter().filter(|spec| is_within(spec.profile, wanted)).chain(admin);
    specs.map(|spec| (spec.bind)(service, spec)).collect()
}

fn is_within(profile: Profile, wanted: Profile) -> bool {
    let rank = |one: Profile| Profile::ALL.iter().position(|other| *other == one);
    rank(profile) <= rank(wanted)
}

impl Spec {
    fn schema(&self) -> Map<String, Value> {
        let mut properties = format!("{{{}}}", self.properties);
        for (word, shape) in SHAPES {
            properties = properties.replace(word, shape);
        }
        let properties: Value = serde_json::from_str(&properties).expect("the table holds valid JSON");
        let mut schema = Map::new();
        schema.insert("type".to_owned(), json!("object"));
        schema.insert("properties".to_owned(), properties);
        if !self.required.is_empty() {
            schema.insert("required".to_owned(), json!(self.required));
        }
        schema.insert("additionalProperties".to_owned(), json!(false));
        schema
    }

    fn known(&self) -> Vec<String> {
        let schema = self.schema();
        schema["properties"].as_object().into_iter().flat_map(Map::keys).cloned().collect()
    }

    fn described(&self, lang: Lang, is_read: bool) -> Tool {
        let tool = Tool::new(self.name, lang.pick(self.english, self.japanese))
            .input_schema(Raw::from(Value::Object(self.schema())));
        if is_read { tool.read_only() } else { tool.destructive(false) }
    }
}

fn bind<A: Action>(service: &Arc<Service>, spec: &Spec) -> BoundTool {
    let is_read = matches!(A::EFFECT, Effect::Read | Effect::ReadAfterSweep);
    let (service, known) = (service.clone(), Arc::new(spec.known()));
    spec.described(service.lang(), is_read).raw_handler(move |arguments, context| {
        let (service, known) = (service.clone(), known.clone());
        async move { service.call::<A>(&known, arguments, context).await }
    })
}

fn bind_waiting(service: &Arc<Service>, spec: &Spec) -> BoundTool {
    let (service, known) = (service.clone(), Arc::new(spec.known()));
    spec.described(service.lang(), true).raw_handler(move |arguments, context| {
        let (service, known) = (service.clone(), known.clone());
        async move { service.wait(&known, arguments, context).await }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_schema_is_valid_and_names_what_it_requires() {
        for spec in STANDARD.iter().chain(ADMIN) {
            let known = spec.known();
            assert!(spec.required.iter().all(|name| known.iter().any(|one| one == name)), "{}", spec.name);
            assert!(!Value::Object(spec.schema()).to_string().contains('@'), "{} has an unknown shape", spec.name);
        }
    }

    #[test]
    fn a_profile_has_the_tools_of_the_smaller_ones() {
        let count = |wanted| STANDARD.iter().filter(|spec| is_within(spec.profile, wanted)).count();
        assert_eq!([Profile::Seed, Profile::Core, Profile::Standard].map(count), [8, 17, 28]);
    }
}

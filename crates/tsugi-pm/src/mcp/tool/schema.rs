//! The schema of a tool's arguments: derived from its action, then reduced to what a model needs to call it.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::mcp::{Lang, Profile};

/// The key of an argument's description in Japanese; the English one is its doc comment.
const JAPANESE: &str = "ja";
/// The key that marks an argument which only the larger lists show.
const RARE: &str = "rare";

/// The arguments of one tool, in both languages.
pub(super) struct ArgumentSchema {
    properties: Map<String, Value>,
    required: Value,
}

impl ArgumentSchema {
    pub(super) fn of<A: JsonSchema>() -> Self {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.inline_subschemas = true;
            settings.meta_schema = None;
        });
        let mut schema = Value::from(settings.into_generator().into_root_schema_for::<A>());
        let properties = match schema["properties"].take() {
            Value::Object(properties) => properties,
            _ => Map::new(),
        };
        Self { properties, required: schema["required"].take() }
    }

    /// Adds the key under which a call is remembered, for actions that have no place for one.
    pub(super) fn with_idempotency_key(mut self) -> Self {
        let key = json!({"type": "string", "description": "retry key", JAPANESE: "再試行用", RARE: true});
        self.properties.insert("idempotency_key".to_owned(), key);
        self
    }

    /// Every argument that a call may carry, whether or not a list shows it.
    pub(super) fn names(&self) -> Vec<String> {
        self.properties.keys().cloned().collect()
    }

    /// The schema as a list shows it.
    ///
    /// Every model reads the list at the start of every session, so the small lists leave out arguments that are
    /// rarely needed, and only the full one spells out what `read` in [`super::service`] refuses anyway.
    pub(super) fn listed(&self, lang: Lang, profile: Profile) -> Value {
        let is_small = matches!(profile, Profile::Seed | Profile::Core);
        let shown = self.properties.iter().filter(|(_, shape)| !is_small || shape.get(RARE).is_none());
        let properties = shown.map(|(name, shape)| (name.clone(), argument(shape, lang, profile))).collect();
        let mut schema = Map::from_iter([("type".to_owned(), json!("object"))]);
        schema.insert("properties".to_owned(), Value::Object(properties));
        if self.required.as_array().is_some_and(|names| !names.is_empty()) {
            schema.insert("required".to_owned(), self.required.clone());
        }
        if profile == Profile::All {
            schema.insert("additionalProperties".to_owned(), json!(false));
        }
        Value::Object(schema)
    }
}

/// One argument: its shape, then its description in the language of the list.
fn argument(shape: &Value, lang: Lang, profile: Profile) -> Value {
    let word = lang.pick("description", JAPANESE);
    let description = shape.get(word).cloned().unwrap_or_default();
    let mut shown = compact(shape, profile);
    if let Value::Object(members) = &mut shown {
        members.insert("description".to_owned(), description);
    }
    shown
}

/// A shape without what a model does not need: bounds, defaults, titles, the null that stands for "not given". Bounds
/// are left to the actions, which say what is wrong with a value.
fn compact(shape: &Value, profile: Profile) -> Value {
    let Value::Object(members) = shape else { return shape.clone() };
    // `Option` of a shape that has parts is written as a choice between it and null.
    if let Some(Value::Array(choices)) = members.get("anyOf") {
        let given = choices.iter().find(|one| one.get("type") != Some(&json!("null")));
        return given.map_or(Value::Null, |given| compact(given, profile));
    }
    let mut shown = Map::new();
    if let Some(values) = members.get("enum").and_then(Value::as_array) {
        // The values say by themselves that they are strings.
        let values = values.iter().filter(|value| !value.is_null()).cloned().collect();
        return Value::Object(Map::from_iter([("enum".to_owned(), Value::Array(values))]));
    }
    let kind = members.get("type").map(without_null).unwrap_or_default();
    shown.insert("type".to_owned(), kind);
    if let Some(items) = members.get("items") {
        shown.insert("items".to_owned(), compact(items, profile));
    }
    if let Some(Value::Object(parts)) = members.get("properties") {
        // Many parts are known from another tool or a guide; the full list has them all.
        if profile != Profile::All && parts.len() > MOST_PARTS {
            return Value::Object(shown);
        }
        let parts = parts.iter().map(|(name, part)| (name.clone(), compact(part, profile))).collect();
        shown.insert("properties".to_owned(), Value::Object(parts));
        shown.extend(members.get("required").map(|names| ("required".to_owned(), names.clone())));
        if profile == Profile::All {
            shown.insert("additionalProperties".to_owned(), json!(false));
        }
    }
    Value::Object(shown)
}

/// An object with more parts than this is only named in the smaller lists.
const MOST_PARTS: usize = 6;

fn without_null(kind: &Value) -> Value {
    match kind {
        Value::Array(kinds) => kinds.iter().find(|kind| **kind != json!("null")).cloned().unwrap_or_default(),
        kind => kind.clone(),
    }
}

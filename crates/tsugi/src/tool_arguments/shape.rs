//! The parts of a JSON Schema that are needed to type words and to ask for values.

use serde_json::{Map, Value};
use tsugi_schema::rewrite::{ReferenceHandling, rewrite};

/// A schema in plain form: references followed, `allOf` merged. The default accepts anything.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ArgumentShape(Map<String, Value>);

/// A kind of JSON value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueKind {
    Boolean,
    Integer,
    Number,
    Null,
    Array,
    Object,
    String,
}

/// Every kind, in the order in which a word is tried: text takes everything, so it comes last.
pub(super) const KINDS: [ValueKind; 7] = [
    ValueKind::Boolean,
    ValueKind::Integer,
    ValueKind::Number,
    ValueKind::Null,
    ValueKind::Array,
    ValueKind::Object,
    ValueKind::String,
];

impl ValueKind {
    /// The word for it in schemas.
    pub(crate) fn name(self) -> &'static str {
        match self {
            ValueKind::Boolean => "boolean",
            ValueKind::Integer => "integer",
            ValueKind::Number => "number",
            ValueKind::Null => "null",
            ValueKind::Array => "array",
            ValueKind::Object => "object",
            ValueKind::String => "string",
        }
    }
}

/// One of several values to choose from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ValueChoice {
    pub(crate) value: Value,
    /// For people.
    pub(crate) title: String,
}

impl ArgumentShape {
    /// The shape of any schema.
    pub(crate) fn of(schema: &Value) -> Self {
        ArgumentShape(rewrite(schema, ReferenceHandling::Inline).root)
    }

    /// The schema in plain form.
    pub(crate) fn to_schema(&self) -> Value {
        Value::Object(self.0.clone())
    }

    fn inner(schema: &Value) -> Self {
        ArgumentShape(schema.as_object().cloned().unwrap_or_default())
    }

    fn list(&self, keyword: &str) -> impl Iterator<Item = &Value> {
        self.0.get(keyword).and_then(Value::as_array).into_iter().flatten()
    }

    /// The alternatives of a union, or only this shape.
    fn branches(&self) -> Vec<ArgumentShape> {
        let branches: Vec<ArgumentShape> =
            self.list("anyOf").chain(self.list("oneOf")).map(ArgumentShape::inner).collect();
        if branches.is_empty() { vec![self.clone()] } else { branches }
    }

    /// Which kinds are accepted, in the order of [`KINDS`].
    pub(crate) fn kinds(&self) -> Vec<ValueKind> {
        let branches = self.branches();
        KINDS.into_iter().filter(|kind| branches.iter().any(|branch| branch.takes(*kind))).collect()
    }

    fn takes(&self, kind: ValueKind) -> bool {
        // A schema with `number` accepts integers too.
        let named = |name: &str| name == kind.name() || (kind == ValueKind::Integer && name == "number");
        match self.0.get("type") {
            Some(Value::String(name)) => named(name),
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).any(named),
            _ if self.0.contains_key("const") || self.0.contains_key("enum") => {
                self.choices().iter().any(|choice| is(kind, &choice.value))
            }
            // Many servers leave out `type: object`.
            _ if self.0.contains_key("properties") => kind == ValueKind::Object,
            _ => true,
        }
    }

    /// True when only text is accepted, so that a word needs no reading.
    pub(crate) fn is_text(&self) -> bool {
        self.kinds() == [ValueKind::String]
    }

    /// The values of an enumeration; empty without one.
    pub(crate) fn choices(&self) -> Vec<ValueChoice> {
        if let Some(value) = self.0.get("const") {
            return vec![self.choice(value)];
        }
        let listed: Vec<ValueChoice> =
            self.list("enum").enumerate().map(|(index, value)| self.named_choice(index, value)).collect();
        if !listed.is_empty() {
            return listed;
        }
        let branches: Vec<ArgumentShape> =
            self.list("oneOf").chain(self.list("anyOf")).map(ArgumentShape::inner).collect();
        // A union is an enumeration only if every branch is one.
        let all: Vec<Vec<ValueChoice>> = branches.iter().map(ArgumentShape::choices).collect();
        if all.iter().all(|choices| !choices.is_empty()) { all.concat() } else { Vec::new() }
    }

    fn choice(&self, value: &Value) -> ValueChoice {
        ValueChoice { value: value.clone(), title: self.title().unwrap_or_else(|| text_of(value)) }
    }

    /// 2025-06-18 wrote the titles of an `enum` beside it, as `enumNames`.
    fn named_choice(&self, index: usize, value: &Value) -> ValueChoice {
        let title = self.list("enumNames").nth(index).and_then(Value::as_str).map(str::to_owned);
        ValueChoice { value: value.clone(), title: title.unwrap_or_else(|| text_of(value)) }
    }

    /// The shape of an array's items.
    pub(crate) fn items(&self) -> ArgumentShape {
        let of = |shape: &ArgumentShape| shape.0.get("items").map(ArgumentShape::inner);
        // A union of a list and something else still has items.
        of(self).or_else(|| self.branches().iter().find_map(of)).unwrap_or_default()
    }

    /// The names of an object's properties, in the order of the schema.
    pub(crate) fn names(&self) -> Vec<String> {
        let names = |shape: &ArgumentShape| shape.properties().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        self.branches().iter().flat_map(names).collect()
    }

    fn properties(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.0.get("properties").and_then(Value::as_object).into_iter().flatten()
    }

    /// The shape of one property.
    pub(crate) fn property(&self, name: &str) -> Option<ArgumentShape> {
        let of = |shape: &ArgumentShape| shape.0.get("properties")?.get(name).map(ArgumentShape::inner);
        of(self).or_else(|| self.branches().iter().find_map(of))
    }

    /// The names of properties that must be there.
    pub(crate) fn required(&self) -> impl Iterator<Item = &str> {
        self.list("required").filter_map(Value::as_str)
    }

    /// Whether unlisted properties are accepted: if the schema allows them, or lists none.
    /// A schema that merely does not forbid them counts as closed, since a typing error is far more likely.
    pub(crate) fn is_open(&self) -> bool {
        let says_so = |shape: &ArgumentShape| {
            let more = shape.0.get("additionalProperties");
            more.is_some_and(|more| more.is_object() || more == true) || shape.0.contains_key("patternProperties")
        };
        let branches = self.branches();
        branches.iter().any(says_so)
            || branches.iter().all(|branch| {
                branch.properties().next().is_none() && branch.0.get("additionalProperties") != Some(&false.into())
            })
    }

    /// The shape of properties that are not listed.
    pub(crate) fn additional(&self) -> ArgumentShape {
        self.0.get("additionalProperties").map(ArgumentShape::inner).unwrap_or_default()
    }

    pub(crate) fn title(&self) -> Option<String> {
        self.word("title")
    }

    pub(crate) fn description(&self) -> Option<String> {
        self.word("description")
    }

    pub(crate) fn default(&self) -> Option<&Value> {
        self.0.get("default")
    }

    /// A value that the schema gives as an example.
    pub(crate) fn example(&self) -> Option<&Value> {
        self.list("examples").next().or_else(|| self.0.get("example"))
    }

    /// The smallest number, where the schema says so.
    pub(crate) fn minimum(&self) -> Option<String> {
        self.0.get("minimum").filter(|value| value.is_number()).map(Value::to_string)
    }

    /// What text has to look like, such as `email`.
    pub(crate) fn format(&self) -> Option<&str> {
        self.0.get("format").and_then(Value::as_str)
    }

    fn word(&self, keyword: &str) -> Option<String> {
        self.0.get(keyword).and_then(Value::as_str).map(str::to_owned)
    }

    /// What is accepted, for people: "number", "string or null", "one of plain, cheerful".
    pub(crate) fn describe(&self) -> String {
        let choices = self.choices();
        if !choices.is_empty() {
            let values: Vec<String> = choices.iter().map(|choice| text_of(&choice.value)).collect();
            return format!("one of {}", values.join(", "));
        }
        let mut kinds = self.kinds();
        // Listing all seven kinds would say less.
        if kinds.len() == KINDS.len() {
            return "any value".to_owned();
        }
        // "number" includes integers.
        if kinds.contains(&ValueKind::Number) {
            kinds.retain(|kind| *kind != ValueKind::Integer);
        }
        let name = |kind: &ValueKind| match kind {
            ValueKind::Array => format!("array of {}", self.items().describe()),
            other => other.name().to_owned(),
        };
        kinds.iter().map(name).collect::<Vec<_>>().join(" or ")
    }
}

fn is(kind: ValueKind, value: &Value) -> bool {
    match kind {
        ValueKind::Boolean => value.is_boolean(),
        ValueKind::Integer => value.is_i64() || value.is_u64(),
        ValueKind::Number => value.is_number(),
        ValueKind::Null => value.is_null(),
        ValueKind::Array => value.is_array(),
        ValueKind::Object => value.is_object(),
        ValueKind::String => value.is_string(),
    }
}

/// A value as a person would type it.
pub(crate) fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn described(schema: Value) -> String {
        ArgumentShape::of(&schema).describe()
    }

    #[test]
    fn shapes_are_said_in_words() {
        assert_eq!(described(json!({"type": "number"})), "number");
        assert_eq!(described(json!({"type": ["string", "null"]})), "null or string");
        assert_eq!(described(json!({"anyOf": [{"type": "integer"}, {"type": "string"}]})), "integer or string");
        assert_eq!(described(json!({"type": "array", "items": {"type": "string"}})), "array of string");
        assert_eq!(described(json!({"enum": ["a", 2]})), "one of a, 2");
        assert_eq!(described(json!(true)), "any value");
    }

    #[test]
    fn references_are_followed() {
        let schema = json!({"$defs": {"N": {"type": "integer"}}, "properties": {"n": {"$ref": "#/$defs/N"}}});
        assert_eq!(ArgumentShape::of(&schema).property("n").unwrap().kinds(), [ValueKind::Integer]);
    }

    #[test]
    fn choices_carry_their_titles_however_they_are_written() {
        let titles = |schema: Value| {
            ArgumentShape::of(&schema).choices().into_iter().map(|choice| choice.title).collect::<Vec<_>>()
        };
        assert_eq!(titles(json!({"type": "string", "enum": ["r", "g"]})), ["r", "g"]);
        assert_eq!(
            titles(json!({"oneOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]})),
            ["Red", "Green"]
        );
        assert_eq!(titles(json!({"type": "string", "enum": ["r"], "enumNames": ["Red"]})), ["Red"]);
        assert!(titles(json!({"anyOf": [{"const": "r"}, {"type": "null"}]})).is_empty());
    }

    #[test]
    fn unlisted_properties_are_welcome_only_where_the_schema_says_so() {
        let is_open = |schema: Value| ArgumentShape::of(&schema).is_open();
        assert!(!is_open(json!({"type": "object", "properties": {"a": {}}})));
        assert!(is_open(json!({"type": "object", "properties": {"a": {}}, "additionalProperties": true})));
        assert!(is_open(json!({"type": "object"})));
        assert!(!is_open(json!({"type": "object", "additionalProperties": false})));
    }
}

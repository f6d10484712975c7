//! Describes in words what a dialect cannot express in keywords, and records each loss.

use serde_json::{Map, Value};

use crate::loss::{LossFate, SchemaLoss};
use crate::pointer::JsonPointer;

/// Collects what one schema cannot say.
pub(super) struct LossNotes<'l> {
    at: JsonPointer,
    words: Vec<String>,
    losses: &'l mut Vec<SchemaLoss>,
}

impl<'l> LossNotes<'l> {
    pub(super) fn new(at: &JsonPointer, losses: &'l mut Vec<SchemaLoss>) -> Self {
        Self { at: at.clone(), words: Vec::new(), losses }
    }

    /// Says a keyword in words.
    pub(super) fn fold(&mut self, keyword: &str, words: impl Into<String>) {
        let words = words.into();
        self.lose(keyword, LossFate::Folded, words.clone());
        self.words.push(words);
    }

    /// Says a keyword in its usual words.
    pub(super) fn fold_keyword(&mut self, keyword: &str, value: &Value) {
        self.fold(keyword, words(keyword, value));
    }

    /// Notes a loss without words for the model.
    pub(super) fn lose(&mut self, keyword: &str, fate: LossFate, note: impl Into<String>) {
        self.losses.push(SchemaLoss::new(&self.at, keyword, fate, note));
    }

    /// Adds a hint for the model that is not a loss.
    pub(super) fn hint(&mut self, words: impl Into<String>) {
        self.words.push(words.into());
    }

    /// Writes description and words into the result.
    pub(super) fn finish(self, description: Option<&Value>, into: &mut Map<String, Value>) {
        let mut text = description.and_then(Value::as_str).unwrap_or_default().to_owned();
        if !self.words.is_empty() {
            if !text.is_empty() {
                text.push(' ');
            }
            // In parentheses, so that the model can tell them from the author's text.
            text.push_str(&format!("({})", self.words.join("; ")));
        }
        if !text.is_empty() {
            into.insert("description".to_owned(), Value::from(text));
        }
    }
}

/// What a dialect does with a keyword that holds no schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeywordTreatment {
    Keep,
    Fold,
    /// Means nothing to a model.
    Strip,
}

/// Keywords every restrictive dialect handles by itself.
const STRUCTURAL: &[&str] = &[
    "$ref",
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "prefixItems",
    "anyOf",
    "oneOf",
    "enum",
    "const",
    "description",
];

/// Keeps, folds or strips all keywords that are not structural.
pub(super) fn simple_keywords(
    schema: &Map<String, Value>,
    into: &mut Map<String, Value>,
    notes: &mut LossNotes<'_>,
    treatment: impl Fn(&str, &Value) -> KeywordTreatment,
) {
    for (keyword, value) in schema {
        // The dialect itself writes these.
        if STRUCTURAL.contains(&keyword.as_str()) {
            continue;
        }
        match treatment(keyword, value) {
            KeywordTreatment::Keep => {
                into.insert(keyword.clone(), value.clone());
            }
            KeywordTreatment::Fold => notes.fold_keyword(keyword, value),
            // Decoration carries no rule, so nothing is lost.
            KeywordTreatment::Strip => {}
        }
    }
}

/// Whether a keyword says nothing about values: titles, extensions, and what the plain form does not know.
pub(super) fn is_decoration(keyword: &str) -> bool {
    keyword.starts_with("x-") || keyword.starts_with('$') || !is_known(keyword)
}

fn is_known(keyword: &str) -> bool {
    words_for(keyword).is_some()
}

fn words_for(keyword: &str) -> Option<&'static str> {
    Some(match keyword {
        "minLength" => "at least {} characters",
        "maxLength" => "at most {} characters",
        "pattern" => "matching {}",
        "format" => "format {}",
        "minimum" => "at least {}",
        "maximum" => "at most {}",
        "exclusiveMinimum" => "more than {}",
        "exclusiveMaximum" => "less than {}",
        "multipleOf" => "a multiple of {}",
        "minItems" => "at least {} items",
        "maxItems" => "at most {} items",
        "minProperties" => "at least {} properties",
        "maxProperties" => "at most {} properties",
        "uniqueItems" => "no item twice",
        "default" => "default {}",
        "examples" => "for example {}",
        "const" => "always {}",
        "enum" => "one of {}",
        "not" => "not {}",
        "if" => "if {}",
        "then" => "then {}",
        "else" => "else {}",
        "allOf" => "also all of {}",
        "anyOf" => "any of {}",
        "oneOf" => "exactly one of {}",
        "dependentRequired" => "needed together: {}",
        "dependentSchemas" => "if present, then also: {}",
        "patternProperties" => "properties by name: {}",
        "additionalProperties" => "other properties: {}",
        "unevaluatedProperties" => "other properties: {}",
        "unevaluatedItems" => "other items: {}",
        "propertyNames" => "property names: {}",
        "contains" => "with an item like {}",
        "minContains" => "at least {} such items",
        "maxContains" => "at most {} such items",
        "prefixItems" => "items in this order: {}",
        "items" => "further items: {}",
        "contentEncoding" => "encoded as {}",
        "contentMediaType" => "content type {}",
        "contentSchema" => "content like {}",
        "deprecated" => "deprecated",
        "readOnly" => "read only",
        "writeOnly" => "write only",
        "required" => "needs {}",
        "type" => "type {}",
        _ => return None,
    })
}

/// A keyword in words.
pub(super) fn words(keyword: &str, value: &Value) -> String {
    match words_for(keyword) {
        Some(template) => template.replace("{}", &short(value)),
        None => format!("{keyword}: {}", short(value)),
    }
}

/// A value as short text: lists of scalars with commas, other things as JSON, cut.
fn short(value: &Value) -> String {
    const LONGEST: usize = 240;
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Array(items) if items.iter().all(|item| !item.is_object() && !item.is_array()) => {
            let items: Vec<String> = items.iter().map(Value::to_string).collect();
            items.join(", ")
        }
        // As in `additionalProperties: false`.
        Value::Bool(false) => "none".to_owned(),
        other => other.to_string(),
    };
    match text.char_indices().nth(LONGEST) {
        // Cut at a character, not in the middle of one.
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

//! Where schemas occur inside a schema: the one table of keywords that every walk reads.

use serde_json::{Map, Value};

use crate::pointer::JsonPointer;

/// How a keyword applies the schema it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeywordReach {
    /// To the same value (`allOf`, `not`, `if` …).
    SameValue,
    /// To a part of the value (`properties`, `items` …).
    Part,
    /// To nothing until something refers to it (`$defs`).
    Definition,
}

#[derive(Clone, Copy)]
enum KeywordShape {
    Single,
    List,
    Map,
    SingleOrList,
}

/// Keywords of every draft, since a schema may be older than it says.
const TABLE: &[(&str, KeywordShape, KeywordReach)] = &[
    ("allOf", KeywordShape::List, KeywordReach::SameValue),
    ("anyOf", KeywordShape::List, KeywordReach::SameValue),
    ("oneOf", KeywordShape::List, KeywordReach::SameValue),
    ("not", KeywordShape::Single, KeywordReach::SameValue),
    ("if", KeywordShape::Single, KeywordReach::SameValue),
    ("then", KeywordShape::Single, KeywordReach::SameValue),
    ("else", KeywordShape::Single, KeywordReach::SameValue),
    ("dependentSchemas", KeywordShape::Map, KeywordReach::SameValue),
    ("dependencies", KeywordShape::Map, KeywordReach::SameValue),
    ("extends", KeywordShape::SingleOrList, KeywordReach::SameValue),
    ("properties", KeywordShape::Map, KeywordReach::Part),
    ("patternProperties", KeywordShape::Map, KeywordReach::Part),
    ("additionalProperties", KeywordShape::Single, KeywordReach::Part),
    ("unevaluatedProperties", KeywordShape::Single, KeywordReach::Part),
    ("propertyNames", KeywordShape::Single, KeywordReach::Part),
    ("items", KeywordShape::SingleOrList, KeywordReach::Part),
    ("prefixItems", KeywordShape::List, KeywordReach::Part),
    ("additionalItems", KeywordShape::Single, KeywordReach::Part),
    ("unevaluatedItems", KeywordShape::Single, KeywordReach::Part),
    ("contains", KeywordShape::Single, KeywordReach::Part),
    ("contentSchema", KeywordShape::Single, KeywordReach::Part),
    ("$defs", KeywordShape::Map, KeywordReach::Definition),
    ("definitions", KeywordShape::Map, KeywordReach::Definition),
];

/// A schema found directly inside another schema.
#[derive(Debug, Clone)]
pub struct SubSchema<'a> {
    /// The keyword that holds it.
    pub keyword: &'static str,
    /// How the keyword applies it.
    pub reach: KeywordReach,
    pub pointer: JsonPointer,
    pub schema: &'a Value,
}

/// Lists the schemas directly inside `schema`, which itself is at `pointer`.
pub fn inner_schemas<'a>(schema: &'a Map<String, Value>, pointer: &JsonPointer) -> Vec<SubSchema<'a>> {
    let mut found = Vec::new();
    for &(keyword, shape, reach) in TABLE {
        let Some(held) = schema.get(keyword) else {
            continue;
        };
        let place = pointer.child(keyword);
        for (pointer, schema) in held_schemas(held, shape, place) {
            found.push(SubSchema { keyword, reach, pointer, schema });
        }
    }
    found
}

fn held_schemas(held: &Value, shape: KeywordShape, place: JsonPointer) -> Vec<(JsonPointer, &Value)> {
    let list = |items: &'_ [Value]| -> Vec<JsonPointer> { (0..items.len()).map(|index| place.child(index)).collect() };
    match (shape, held) {
        (KeywordShape::List | KeywordShape::SingleOrList, Value::Array(items)) => {
            let places = list(items);
            let pairs = places.into_iter().zip(items);
            pairs.filter(|(_, item)| is_schema(item)).collect()
        }
        (KeywordShape::Map, Value::Object(entries)) => entries
            .iter()
            .filter(|(_, entry)| is_schema(entry))
            .map(|(name, entry)| (place.child(name), entry))
            .collect(),
        (KeywordShape::Single | KeywordShape::SingleOrList, single) if is_schema(single) => {
            vec![(place, single)]
        }
        _ => Vec::new(),
    }
}

/// Whether a JSON value can be a schema at all.
pub fn is_schema(value: &Value) -> bool {
    matches!(value, Value::Object(_) | Value::Bool(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_shape_of_keyword_gives_its_schemas_with_their_places() {
        let schema = json!({
            "anyOf": [{}, 7, true],
            "properties": {"a/b": {}},
            "items": [{}, {}],
            "not": {},
            "dependencies": {"x": ["y"], "z": {}},
        });
        let found = inner_schemas(schema.as_object().unwrap(), &JsonPointer::root());
        let places: Vec<_> = found.iter().map(|inner| inner.pointer.as_str()).collect();
        assert_eq!(
            places,
            ["/anyOf/0", "/anyOf/2", "/not", "/dependencies/z", "/properties/a~1b", "/items/0", "/items/1"]
        );
    }
}

//! Where schemas hide inside a schema: the one table of keywords that every walk over a schema reads.

use serde_json::{Map, Value};

use crate::pointer::Pointer;

/// How a keyword applies the schema it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// To the same value (`allOf`, `not`, `if` …).
    SameValue,
    /// To a part of the value (`properties`, `items` …).
    Part,
    /// To nothing until something refers to it (`$defs`).
    Definition,
}

#[derive(Clone, Copy)]
enum Shape {
    Single,
    List,
    Map,
    SingleOrList,
}

/// Keywords of every draft, since a schema may be older than it says.
const TABLE: &[(&str, Shape, Reach)] = &[
    ("allOf", Shape::List, Reach::SameValue),
    ("anyOf", Shape::List, Reach::SameValue),
    ("oneOf", Shape::List, Reach::SameValue),
    ("not", Shape::Single, Reach::SameValue),
    ("if", Shape::Single, Reach::SameValue),
    ("then", Shape::Single, Reach::SameValue),
    ("else", Shape::Single, Reach::SameValue),
    ("dependentSchemas", Shape::Map, Reach::SameValue),
    ("dependencies", Shape::Map, Reach::SameValue),
    ("extends", Shape::SingleOrList, Reach::SameValue),
    ("properties", Shape::Map, Reach::Part),
    ("patternProperties", Shape::Map, Reach::Part),
    ("additionalProperties", Shape::Single, Reach::Part),
    ("unevaluatedProperties", Shape::Single, Reach::Part),
    ("propertyNames", Shape::Single, Reach::Part),
    ("items", Shape::SingleOrList, Reach::Part),
    ("prefixItems", Shape::List, Reach::Part),
    ("additionalItems", Shape::Single, Reach::Part),
    ("unevaluatedItems", Shape::Single, Reach::Part),
    ("contains", Shape::Single, Reach::Part),
    ("contentSchema", Shape::Single, Reach::Part),
    ("$defs", Shape::Map, Reach::Definition),
    ("definitions", Shape::Map, Reach::Definition),
];

/// A schema found directly inside another schema.
#[derive(Debug, Clone)]
pub struct Inner<'a> {
    /// The keyword that holds it.
    pub keyword: &'static str,
    /// How the keyword applies it.
    pub reach: Reach,
    /// Where it is.
    pub pointer: Pointer,
    /// The schema itself.
    pub schema: &'a Value,
}

/// Lists the schemas directly inside `schema`, which itself is at `pointer`.
pub fn inner_schemas<'a>(schema: &'a Map<String, Value>, pointer: &Pointer) -> Vec<Inner<'a>> {
    let mut found = Vec::new();
    for &(keyword, shape, reach) in TABLE {
        let Some(held) = schema.get(keyword) else {
            continue;
        };
        let place = pointer.child(keyword);
        for (pointer, schema) in held_schemas(held, shape, place) {
            found.push(Inner { keyword, reach, pointer, schema });
        }
    }
    found
}

fn held_schemas(held: &Value, shape: Shape, place: Pointer) -> Vec<(Pointer, &Value)> {
    let list = |items: &'_ [Value]| -> Vec<Pointer> { (0..items.len()).map(|index| place.child(index)).collect() };
    match (shape, held) {
        (Shape::List | Shape::SingleOrList, Value::Array(items)) => {
            let places = list(items);
            let pairs = places.into_iter().zip(items);
            pairs.filter(|(_, item)| is_schema(item)).collect()
        }
        (Shape::Map, Value::Object(entries)) => entries
            .iter()
            .filter(|(_, entry)| is_schema(entry))
            .map(|(name, entry)| (place.child(name), entry))
            .collect(),
        (Shape::Single | Shape::SingleOrList, single) if is_schema(single) => {
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
        let found = inner_schemas(schema.as_object().unwrap(), &Pointer::root());
        let places: Vec<_> = found.iter().map(|inner| inner.pointer.as_str()).collect();
        assert_eq!(
            places,
            ["/anyOf/0", "/anyOf/2", "/not", "/dependencies/z", "/properties/a~1b", "/items/0", "/items/1"]
        );
    }
}

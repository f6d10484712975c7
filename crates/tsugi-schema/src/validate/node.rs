//! A JSON value that counts every access, given to the validation library in place of `serde_json::Value`.

use jsonschema::JsonType;
use jsonschema::json::{Array, Json, Node, NodeIdentity, Object, SerdeJson};
use serde_json::{Map, Number, Value};
use std::borrow::Cow;

use super::budget::{charge, charge_container};

/// Names the representation to the library.
pub(super) struct MeteredJson;

/// A borrowed value whose accessors pay for themselves.
#[derive(Clone, Copy)]
pub(super) struct MeteredNode<'a>(pub(super) &'a Value);

/// Bytes of text read for one unit of work.
const TEXT_PER_UNIT: usize = 256;
/// Units of work that building one error takes.
const ERROR_COST: u64 = 32;

impl Json for MeteredJson {
    type Node<'a> = MeteredNode<'a>;
    type PreparedKey = String;
    type StringBuffer = Value;

    const KEYS_PER_LOOKUP: usize = SerdeJson::KEYS_PER_LOOKUP;

    fn prepare_key(key: &str) -> String {
        key.to_owned()
    }

    fn with_string_node<T>(buffer: &mut Value, string: &str, visit: impl FnOnce(MeteredNode<'_>) -> T) -> T {
        *buffer = Value::String(string.to_owned());
        visit(MeteredNode(buffer))
    }
}

impl<'a> Node<'a, MeteredJson> for MeteredNode<'a> {
    type Object = MeteredMembers<'a>;
    type Array = MeteredItems<'a>;
    type Number = &'a Number;

    fn as_object(&self) -> Option<MeteredMembers<'a>> {
        charge_container();
        self.0.as_object().map(MeteredMembers)
    }

    fn as_array(&self) -> Option<MeteredItems<'a>> {
        charge_container();
        self.0.as_array().map(|items| MeteredItems(items))
    }

    fn as_string(&self) -> Option<Cow<'a, str>> {
        let text = self.0.as_str();
        charge(text.map_or(0, text_cost));
        text.map(Cow::Borrowed)
    }

    fn as_number(&self) -> Option<&'a Number> {
        charge(0);
        self.0.as_number()
    }

    fn as_boolean(&self) -> Option<bool> {
        charge(0);
        self.0.as_bool()
    }

    fn is_null(&self) -> bool {
        charge(0);
        self.0.is_null()
    }

    fn json_type(&self) -> JsonType {
        charge(0);
        Node::<SerdeJson>::json_type(&self.0)
    }

    fn string_length(&self) -> Option<u64> {
        charge(self.0.as_str().map_or(0, text_cost));
        Node::<SerdeJson>::string_length(&self.0)
    }

    fn equals_value(&self, expected: &Value) -> bool {
        // Comparing stops at the first difference; equal parts are paid for by their size.
        charge(comparison_cost(self.0, expected));
        Node::<SerdeJson>::equals_value(&self.0, expected)
    }

    fn to_value(&self) -> Cow<'a, Value> {
        // Asked for when an error is built, which takes far more time and memory than a look.
        charge(ERROR_COST);
        Cow::Borrowed(self.0)
    }

    fn identity(&self) -> Option<NodeIdentity> {
        Node::<SerdeJson>::identity(&self.0)
    }
}

/// The members of an object; going through them pays for each.
pub(super) struct MeteredMembers<'a>(&'a Map<String, Value>);

impl<'a> Object<'a, MeteredJson> for MeteredMembers<'a> {
    type Node = MeteredNode<'a>;
    type MemberName = &'a str;
    type MembersIter = MembersIter<'a>;

    fn len(&self) -> usize {
        self.0.len()
    }

    fn get(&self, key: &String) -> Option<MeteredNode<'a>> {
        charge(0);
        self.0.get(key.as_str()).map(MeteredNode)
    }

    fn members(&self) -> MembersIter<'a> {
        MembersIter(self.0.iter())
    }
}

/// Goes through the members of an object.
pub(super) struct MembersIter<'a>(serde_json::map::Iter<'a>);

impl<'a> Iterator for MembersIter<'a> {
    type Item = (&'a str, MeteredNode<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let (name, value) = self.0.next()?;
        // Names meet the patterns of `patternProperties`, so long ones cost more than other text.
        charge(name.len() as u64 / 16);
        Some((name, MeteredNode(value)))
    }
}

/// The items of an array; going through them pays for each.
pub(super) struct MeteredItems<'a>(&'a [Value]);

impl<'a> Array<'a, MeteredJson> for MeteredItems<'a> {
    type Node = MeteredNode<'a>;
    type ElementsIter = ItemsIter<'a>;

    fn len(&self) -> usize {
        self.0.len()
    }

    fn elements(&self) -> ItemsIter<'a> {
        ItemsIter(self.0.iter())
    }

    fn is_unique(&self) -> bool {
        let cost: u64 = self.0.iter().map(|item| 1 + shallow_size(item)).sum();
        // Charged before the comparison, which cannot be stopped halfway.
        charge(cost);
        Array::<SerdeJson>::is_unique(&self.0)
    }
}

/// Goes through the items of an array.
pub(super) struct ItemsIter<'a>(std::slice::Iter<'a, Value>);

impl<'a> Iterator for ItemsIter<'a> {
    type Item = MeteredNode<'a>;

    fn next(&mut self) -> Option<MeteredNode<'a>> {
        charge(0);
        self.0.next().map(MeteredNode)
    }
}

fn text_cost(text: &str) -> u64 {
    (text.len() / TEXT_PER_UNIT) as u64
}

fn comparison_cost(value: &Value, expected: &Value) -> u64 {
    // Comparing ends with the shorter of the two.
    shallow_size(value).min(shallow_size(expected))
}

fn shallow_size(value: &Value) -> u64 {
    match value {
        Value::String(text) => text_cost(text),
        Value::Array(items) => items.len() as u64,
        Value::Object(members) => members.len() as u64,
        _ => 0,
    }
}

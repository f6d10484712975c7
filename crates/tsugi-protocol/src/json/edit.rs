//! Changing some members of an object or some items of an array; the rest stays byte for byte and in place.

use bytes::{BufMut, BytesMut};
use smallvec::SmallVec;

use super::object::{Member, Object};
use super::raw::Raw;
use super::scan;
use super::write::Splice;

/// What becomes of one member.
#[derive(Debug)]
pub(crate) enum Edit {
    Keep,
    Drop,
    Replace(Raw),
}

impl Edit {
    /// Replaces the value when there is a new one.
    pub(crate) fn replace(value: Option<Raw>) -> Self {
        value.map_or(Edit::Keep, Edit::Replace)
    }
}

/// The object with its members edited. Without any change the same bytes are shared.
pub(crate) fn members(object: &Object, mut edit: impl FnMut(&str, Member) -> Edit) -> Object {
    let edits: SmallVec<[Edit; 8]> =
        object.members().iter().map(|member| edit(&object.key(*member), *member)).collect();
    if edits.iter().all(|edit| matches!(edit, Edit::Keep)) {
        return object.clone();
    }
    let mut edited = Splice::with_capacity(object.bytes().len());
    for (member, edit) in object.members().iter().zip(edits) {
        match edit {
            Edit::Keep => edited.copy(object, *member),
            Edit::Drop => &mut edited,
            Edit::Replace(value) => edited.raw(&object.key(*member), &value),
        };
    }
    edited.finish_object()
}

/// The object without the members that `is_unwanted` names.
pub(crate) fn without(object: &Object, is_unwanted: impl Fn(&str) -> bool) -> Object {
    members(object, |key, _| if is_unwanted(key) { Edit::Drop } else { Edit::Keep })
}

/// The object with this member at its end, in place of one of the same name.
pub(crate) fn with(object: &Object, key: &str, value: &Raw) -> Object {
    let mut edited = Splice::with_capacity(object.bytes().len() + value.bytes().len() + key.len());
    edited.members(object, |member| member != key).raw(key, value);
    edited.finish_object()
}

/// The items of an array, sharing its buffer; `None` when it is no array.
pub(crate) fn items(array: &Raw) -> Option<Vec<Raw>> {
    let bytes = array.bytes();
    if bytes.first() != Some(&b'[') {
        return None;
    }
    let mut items = Vec::new();
    let mut at = scan::skip_space(bytes, 1);
    while bytes.get(at) != Some(&b']') {
        let end = scan::skip_value(bytes, at).ok()?;
        items.push(Raw::proved(bytes.slice(at..end)));
        at = scan::skip_space(bytes, end);
        if bytes.get(at) == Some(&b',') {
            at = scan::skip_space(bytes, at + 1);
        }
    }
    Some(items)
}

/// An array of these items.
pub(crate) fn array(items: &[Raw]) -> Raw {
    let size = items.iter().map(|item| item.bytes().len() + 1).sum::<usize>();
    let mut out = BytesMut::with_capacity(size + 2);
    out.put_u8(b'[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.put_u8(b',');
        }
        out.put_slice(item.bytes());
    }
    out.put_u8(b']');
    Raw::proved(out.freeze())
}

/// The array with the items that `change` gives a new form for; `None` when it has none for any.
pub(crate) fn map(array_of: &Raw, mut change: impl FnMut(&Raw) -> Option<Raw>) -> Option<Raw> {
    let mut items = items(array_of)?;
    let mut is_changed = false;
    for item in &mut items {
        if let Some(changed) = change(item) {
            *item = changed;
            is_changed = true;
        }
    }
    is_changed.then(|| array(&items))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_found_without_touching_them() {
        let array = Raw::literal("[ 1 , {\"a\": [1,2]},\"],\" ,[] ]");
        let items: Vec<String> = items(&array).unwrap().iter().map(Raw::to_string).collect();
        assert_eq!(items, ["1", "{\"a\": [1,2]}", "\"],\"", "[]"]);
        assert!(super::items(&Raw::literal("[]")).unwrap().is_empty());
        assert!(super::items(&Raw::literal("{}")).is_none());
    }

    #[test]
    fn edited_members_stay_in_place_and_the_rest_as_written() {
        let object = Object::of(&Raw::literal(r#"{"a" : 1.0,"b":2,"c": [ ]}"#)).unwrap();
        let edited = members(&object, |key, _| match key {
            "a" => Edit::Keep,
            "b" => Edit::Replace(Raw::literal("null")),
            _ => Edit::Drop,
        });
        assert_eq!(edited.raw().as_str(), r#"{"a" : 1.0,"b":null}"#);
    }
}

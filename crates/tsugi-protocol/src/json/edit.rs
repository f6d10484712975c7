//! Changing some members of an object or some items of an array; the rest stays byte for byte and in place.

use smallvec::SmallVec;

use super::object::{Member, Object};
use super::raw::Raw;
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
    edited.members_but(object, &[key]).raw(key, value);
    edited.finish_object()
}

/// The array with the items that `change` gives a new form for; `None` when it has none for any.
pub(crate) fn map(array_of: &Raw, mut change: impl FnMut(&Raw) -> Option<Raw>) -> Option<Raw> {
    let mut items = array_of.items()?;
    let mut is_changed = false;
    for item in &mut items {
        if let Some(changed) = change(item) {
            *item = changed;
            is_changed = true;
        }
    }
    is_changed.then(|| Raw::array(&items))
}

#[cfg(test)]
mod tests {
    use super::*;

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

//! Changes some members of an object or items of an array; the rest stays byte for byte and in place.

use smallvec::SmallVec;

use super::object::{JsonObject, MemberSpan};
use super::raw::RawJson;
use super::write::ObjectWriter;

/// What becomes of one member.
#[derive(Debug)]
pub(crate) enum MemberEdit {
    Keep,
    Drop,
    Replace(RawJson),
}

impl MemberEdit {
    /// Replaces the value when there is a new one.
    pub(crate) fn replace(value: Option<RawJson>) -> Self {
        value.map_or(MemberEdit::Keep, MemberEdit::Replace)
    }
}

/// The object with its members edited. Without any change the same bytes are shared.
pub(crate) fn members(object: &JsonObject, mut edit: impl FnMut(&str, MemberSpan) -> MemberEdit) -> JsonObject {
    let edits: SmallVec<[MemberEdit; 8]> =
        object.members().iter().map(|member| edit(&object.key(*member), *member)).collect();
    if edits.iter().all(|edit| matches!(edit, MemberEdit::Keep)) {
        return object.clone();
    }
    let mut edited = ObjectWriter::with_capacity(object.bytes().len());
    for (member, edit) in object.members().iter().zip(edits) {
        match edit {
            MemberEdit::Keep => edited.copy(object, *member),
            MemberEdit::Drop => &mut edited,
            MemberEdit::Replace(value) => edited.raw(&object.key(*member), &value),
        };
    }
    edited.finish_object()
}

/// The object without the members that `is_unwanted` names.
pub(crate) fn without(object: &JsonObject, is_unwanted: impl Fn(&str) -> bool) -> JsonObject {
    members(object, |key, _| if is_unwanted(key) { MemberEdit::Drop } else { MemberEdit::Keep })
}

/// The object with this member at its end, in place of one of the same name.
pub(crate) fn with(object: &JsonObject, key: &str, value: &RawJson) -> JsonObject {
    let mut edited = ObjectWriter::with_capacity(object.bytes().len() + value.bytes().len() + key.len());
    edited.members_except(object, &[key]).raw(key, value);
    edited.finish_object()
}

/// The array with the items that `change` gives a new form for; `None` when it has none for any.
pub(crate) fn map(array_of: &RawJson, mut change: impl FnMut(&RawJson) -> Option<RawJson>) -> Option<RawJson> {
    let mut items = array_of.items()?;
    let mut is_changed = false;
    for item in &mut items {
        if let Some(changed) = change(item) {
            *item = changed;
            is_changed = true;
        }
    }
    is_changed.then(|| RawJson::array(&items))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edited_members_stay_in_place_and_the_rest_as_written() {
        let object = JsonObject::of(&RawJson::literal(r#"{"a" : 1.0,"b":2,"c": [ ]}"#)).unwrap();
        let edited = members(&object, |key, _| match key {
            "a" => MemberEdit::Keep,
            "b" => MemberEdit::Replace(RawJson::literal("null")),
            _ => MemberEdit::Drop,
        });
        assert_eq!(edited.raw().as_str(), r#"{"a" : 1.0,"b":null}"#);
    }
}

//! How two definitions of one thing differ, member by member, for people.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::definition::PinnedDefinition;
use crate::visible::{DiffPiece, DiffSide, make_visible, word_diff};

/// A member that differs.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct MemberDiff {
    /// Its name; empty for a definition that is no object.
    pub member: String,
    pub pieces: Vec<DiffPiece>,
}

/// The members that differ between two definitions. What is too large to be kept is shown by its digest.
pub fn member_diff(old: Option<&PinnedDefinition>, new: Option<&PinnedDefinition>) -> Vec<MemberDiff> {
    let (old, new) = (old.map(shown), new.map(shown));
    if let (None | Some(Value::Object(_)), None | Some(Value::Object(_))) = (&old, &new) {
        let keys = |value: &Option<Value>| -> BTreeSet<String> {
            value.as_ref().and_then(Value::as_object).map(|object| object.keys().cloned().collect()).unwrap_or_default()
        };
        let all: BTreeSet<String> = keys(&old).union(&keys(&new)).cloned().collect();
        let of = |value: &Option<Value>, key: &str| value.as_ref().and_then(|value| value.get(key)).map(text_of);
        let differs = |member: &String| of(&old, member) != of(&new, member);
        return all
            .into_iter()
            .filter(differs)
            .map(|member| {
                let pieces = pieces(of(&old, &member), of(&new, &member));
                MemberDiff { member: make_visible(&member), pieces }
            })
            .collect();
    }
    let pieces = pieces(old.as_ref().map(text_of), new.as_ref().map(text_of));
    vec![MemberDiff { member: String::new(), pieces }]
}

fn shown(definition: &PinnedDefinition) -> Value {
    definition.value().unwrap_or_else(|| Value::String(definition.digest.to_string()))
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => serde_json::to_string_pretty(value).unwrap_or_default(),
    }
}

fn pieces(old: Option<String>, new: Option<String>) -> Vec<DiffPiece> {
    let whole = |side, text: String| vec![DiffPiece { side, text: make_visible(&text) }];
    match (old, new) {
        (Some(old), Some(new)) => word_diff(&old, &new),
        (Some(old), None) => whole(DiffSide::Old, old),
        (None, Some(new)) => whole(DiffSide::New, new),
        (None, None) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::PinKind;

    #[test]
    fn only_members_that_differ_are_shown() {
        let tool = |json: &str| PinnedDefinition::of(PinKind::Tool, json);
        let old = tool(r#"{"name":"a","description":"Reads a file","annotations":{"readOnlyHint":true}}"#);
        let new = tool(r#"{"name":"a","description":"Reads any file","icons":[]}"#);
        let members = member_diff(Some(&old), Some(&new));
        let names: Vec<&str> = members.iter().map(|member| member.member.as_str()).collect();
        assert_eq!(names, ["annotations", "description", "icons"]);
        assert!(members[1].pieces.contains(&DiffPiece { side: DiffSide::Old, text: "a".into() }), "{members:?}");
        let text = |text: &str| PinnedDefinition::of(PinKind::Instructions, text);
        assert_eq!(member_diff(Some(&text("\"be kind\"")), None)[0].pieces[0].text, "be kind");
    }
}

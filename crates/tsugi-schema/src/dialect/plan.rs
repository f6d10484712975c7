//! Turns a model's arguments into the tool's, following what the conversion changed.

use serde_json::{Map, Value};
use std::collections::BTreeMap;

use super::types::type_name;

/// How deep plans are followed.
const MAX_DEPTH: usize = 128;

/// How to turn a model's arguments back. Cheap to keep beside the declaration; apply it before validating.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ArgumentPlan {
    pub(super) root: ValuePlan,
    pub(super) definitions: BTreeMap<String, ValuePlan>,
    /// The property that holds the whole value, for tools that do not take an object.
    pub(super) wrapped_in: Option<String>,
}

/// What to do with one value.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) enum ValuePlan {
    #[default]
    Keep,
    /// The model writes JSON as text.
    JsonText,
    /// The model writes an object.
    Object {
        members: Vec<MemberPlan>,
        /// For members with other names.
        others: Box<ValuePlan>,
    },
    /// The model writes an array.
    Array { prefix: Vec<ValuePlan>, items: Box<ValuePlan> },
    /// One of several, chosen by what the value looks like.
    OneOf(Vec<UnionBranch>),
    /// As a definition says.
    Definition(String),
    /// Several at once: a schema may describe a value by its properties and by alternatives.
    All(Vec<ValuePlan>),
}

/// A property of an object.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct MemberPlan {
    /// As the model knows it.
    pub(super) shown: String,
    /// As the tool knows it.
    pub(super) name: String,
    pub(super) null: NullMeaning,
    /// The value of a property that the tool requires and the dialect cannot: it stands in when the model writes
    /// nothing.
    pub(super) absent: Option<Value>,
    pub(super) plan: ValuePlan,
}

/// What `null` means where a model wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NullMeaning {
    /// The value `null`.
    Value,
    /// The property is left out.
    Absent,
    /// As [`NullMeaning::Absent`], and the model must write it, since the provider knows no optional properties.
    AbsentRequired,
}

/// An alternative of a union.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct UnionBranch {
    /// The types it takes; none means any.
    pub(super) types: Vec<String>,
    /// Properties with the only values they may have: what tells the alternatives of a tagged union apart.
    pub(super) fixed: Vec<(String, Vec<Value>)>,
    pub(super) plan: ValuePlan,
}

impl UnionBranch {
    fn contradicts(&self, value: &Value) -> bool {
        self.fixed.iter().any(|(name, allowed)| value.get(name).is_some_and(|value| !allowed.contains(value)))
    }
}

impl ArgumentPlan {
    /// Turns a model's arguments into those of the tool. What does not look as planned is left for validation.
    pub fn restore(&self, arguments: Value) -> Value {
        let arguments = match &self.wrapped_in {
            Some(name) => unwrap(arguments, name),
            None => arguments,
        };
        self.walk(&self.root, arguments, PlanDirection::Restore, 0)
    }

    /// The other way round: arguments of the tool as this model would have written them,
    /// for showing it earlier calls that another model made.
    pub fn show(&self, arguments: Value) -> Value {
        let shown = self.walk(&self.root, arguments, PlanDirection::Show, 0);
        match &self.wrapped_in {
            Some(name) => Value::Object(Map::from_iter([(name.clone(), shown)])),
            None => shown,
        }
    }

    fn walk(&self, plan: &ValuePlan, value: Value, direction: PlanDirection, depth: usize) -> Value {
        // Definitions may be recursive, and so may hostile arguments: no deeper than JSON text can be.
        if depth > MAX_DEPTH {
            return value;
        }
        match (plan, value) {
            (ValuePlan::Keep, value) => value,
            (ValuePlan::JsonText, value) => direction.json_text(value),
            (ValuePlan::Object { members, others }, Value::Object(entries)) => {
                Value::Object(self.walk_object(members, others, entries, direction, depth + 1))
            }
            (ValuePlan::Array { prefix, items }, Value::Array(list)) => {
                let plans = prefix.iter().chain(std::iter::repeat(&**items));
                let walked =
                    list.into_iter().zip(plans).map(|(item, plan)| self.walk(plan, item, direction, depth + 1));
                Value::Array(walked.collect())
            }
            (ValuePlan::OneOf(branches), value) => match self.choose(branches, &value, direction, 0) {
                Some(plan) => self.walk(plan, value, direction, depth + 1),
                None => value,
            },
            (ValuePlan::Definition(name), value) => match self.definitions.get(name) {
                Some(plan) => self.walk(plan, value, direction, depth + 1),
                None => value,
            },
            (ValuePlan::All(plans), value) => {
                plans.iter().fold(value, |value, plan| self.walk(plan, value, direction, depth + 1))
            }
            // Not of the planned shape. Validation reports what is wrong.
            (_, value) => value,
        }
    }

    fn walk_object(
        &self,
        members: &[MemberPlan],
        others: &ValuePlan,
        mut entries: Map<String, Value>,
        direction: PlanDirection,
        depth: usize,
    ) -> Map<String, Value> {
        let mut result = Map::new();
        for member in members {
            let (from, to) = direction.names(member);
            // Of several plans for one value, an earlier one may have changed the name already.
            let entry = entries.shift_remove(from).or_else(|| entries.shift_remove(to));
            match entry {
                None | Some(Value::Null) if direction.fills_in(member).is_some() => {
                    result.insert(to.to_owned(), direction.fills_in(member).cloned().unwrap_or_default());
                }
                Some(Value::Null) if direction.is_left_out(member) => {}
                Some(value) => {
                    let value = self.walk(&member.plan, value, direction, depth);
                    result.insert(to.to_owned(), value);
                }
                None if direction.is_written_as_null(member) => {
                    result.insert(to.to_owned(), Value::Null);
                }
                None => {}
            }
        }
        for (name, value) in entries {
            let value = self.walk(others, value, direction, depth);
            // A planned member wins over another one that happens to have its name.
            result.entry(name).or_insert(value);
        }
        result
    }

    fn choose<'p>(
        &'p self,
        branches: &'p [UnionBranch],
        value: &Value,
        direction: PlanDirection,
        depth: usize,
    ) -> Option<&'p ValuePlan> {
        let kind = type_name(value);
        branches
            .iter()
            .filter(|branch| branch.types.is_empty() || branch.types.iter().any(|name| fits(name, kind)))
            // Of equally likely alternatives the first one counts, and `max_by_key` takes the last.
            .rev()
            .max_by_key(|branch| {
                let likeness = self.likeness(&branch.plan, value, direction, depth);
                (!branch.contradicts(value), likeness)
            })
            .map(|branch| &branch.plan)
    }

    /// Known names count for an alternative, unknown ones against it. An alternative that is itself a union is as
    /// likely as the likeliest of its own.
    fn likeness(&self, plan: &ValuePlan, value: &Value, direction: PlanDirection, depth: usize) -> i64 {
        // Definitions may lead back to themselves without any value between.
        if depth > MAX_DEPTH {
            return 0;
        }
        let likeness = |plan| self.likeness(plan, value, direction, depth + 1);
        match (plan, value) {
            (ValuePlan::Definition(name), _) => self.definitions.get(name).map_or(0, likeness),
            (ValuePlan::All(plans), _) => plans.iter().map(likeness).max().unwrap_or(0),
            (ValuePlan::OneOf(branches), _) => self.choose(branches, value, direction, depth + 1).map_or(0, likeness),
            (ValuePlan::Object { members, .. }, Value::Object(entries)) => {
                entries.iter().map(|(key, value)| direction.evidence(members, key, value)).sum()
            }
            _ => 0,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PlanDirection {
    Restore,
    Show,
}

impl PlanDirection {
    fn names(self, member: &MemberPlan) -> (&str, &str) {
        match self {
            Self::Restore => (&member.shown, &member.name),
            Self::Show => (&member.name, &member.shown),
        }
    }

    /// What one entry says for (above zero) or against an object with these members.
    fn evidence(self, members: &[MemberPlan], key: &str, value: &Value) -> i64 {
        let is_named = |member: &&MemberPlan| member.shown == key || member.name == key;
        match members.iter().find(is_named) {
            // An alternative where `null` is a value is the likelier one.
            Some(member) if value.is_null() && member.null == NullMeaning::Absent => 0,
            Some(_) => 1,
            None => -1,
        }
    }

    /// The value that stands in for what the model could leave out and the tool cannot.
    fn fills_in(self, member: &MemberPlan) -> Option<&Value> {
        member.absent.as_ref().filter(|_| self == Self::Restore)
    }

    fn is_left_out(self, member: &MemberPlan) -> bool {
        self == Self::Restore && member.null != NullMeaning::Value
    }

    fn is_written_as_null(self, member: &MemberPlan) -> bool {
        self == Self::Show && member.null == NullMeaning::AbsentRequired
    }

    fn json_text(self, value: Value) -> Value {
        match (self, &value) {
            // Text that is not JSON was meant as it stands.
            (Self::Restore, Value::String(text)) => serde_json::from_str(text).unwrap_or(value),
            (Self::Restore, _) => value,
            (Self::Show, _) => Value::String(value.to_string()),
        }
    }
}

fn unwrap(arguments: Value, name: &str) -> Value {
    match arguments {
        Value::Object(mut entries) if entries.len() == 1 && entries.contains_key(name) => {
            entries.shift_remove(name).unwrap_or_default()
        }
        other => other,
    }
}

fn fits(name: &str, kind: &str) -> bool {
    name == kind || (name == "integer" && kind == "number")
}

impl ValuePlan {
    /// `Keep` when nothing inside needs doing, so that most tools have the smallest plan.
    pub(super) fn object(members: Vec<MemberPlan>, others: ValuePlan) -> Self {
        let is_plain = members.iter().all(|member| {
            member.shown == member.name && member.null == NullMeaning::Value && member.plan == Self::Keep
        });
        if is_plain && others == Self::Keep {
            return Self::Keep;
        }
        Self::Object { members, others: Box::new(others) }
    }

    pub(super) fn array(prefix: Vec<ValuePlan>, items: ValuePlan) -> Self {
        if items == Self::Keep && prefix.iter().all(|plan| *plan == Self::Keep) {
            return Self::Keep;
        }
        Self::Array { prefix, items: Box::new(items) }
    }

    pub(super) fn all(plans: impl IntoIterator<Item = ValuePlan>) -> Self {
        let mut plans: Vec<ValuePlan> = plans.into_iter().filter(|plan| *plan != Self::Keep).collect();
        match plans.len() {
            0 => Self::Keep,
            1 => plans.remove(0),
            _ => Self::All(plans),
        }
    }

    pub(super) fn one_of(branches: Vec<UnionBranch>) -> Self {
        if branches.iter().all(|branch| branch.plan == Self::Keep) {
            return Self::Keep;
        }
        Self::OneOf(branches)
    }
}

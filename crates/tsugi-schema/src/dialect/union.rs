//! Finds alternatives in a schema and makes each of them stand alone.

use serde_json::{Map, Value};

use super::emit::{as_schema, is_impossible, properties};
use super::loss_notes::is_decoration;
use super::plan::{UnionBranch, ValuePlan};
use super::types::types;
use crate::rewrite::{PlainSchema, definition_name, merge};

/// A union whose branches stand alone: what stood beside it is part of each.
pub(super) enum SchemaUnion {
    None,
    /// The branches only restrict what stands beside them: better said in words.
    Words {
        keyword: &'static str,
    },
    Branches {
        keyword: &'static str,
        branches: Vec<Map<String, Value>>,
    },
}

/// Looks for a union in a schema.
pub(super) fn find(schema: &Map<String, Value>, plain: &PlainSchema) -> SchemaUnion {
    let Some(keyword) = ["anyOf", "oneOf"].into_iter().find(|keyword| schema.contains_key(*keyword)) else {
        return SchemaUnion::None;
    };
    let branches: Vec<Map<String, Value>> = schema[keyword]
        .as_array()
        .into_iter()
        .flatten()
        .map(as_schema)
        .filter(|branch| !is_impossible(branch))
        .collect();
    let beside = beside_union(schema, keyword);
    if branches.is_empty() || (!beside.is_empty() && branches.iter().all(is_thin)) {
        return SchemaUnion::Words { keyword };
    }
    let branches = branches.into_iter().map(|branch| with_beside(branch, &beside, plain)).collect();
    SchemaUnion::Branches { keyword, branches }
}

fn beside_union(schema: &Map<String, Value>, keyword: &str) -> Map<String, Value> {
    schema
        .iter()
        .filter(|(name, _)| *name != keyword && *name != "description" && *name != "default")
        .filter(|(name, _)| !is_decoration(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

fn is_thin(branch: &Map<String, Value>) -> bool {
    branch.keys().all(|keyword| {
        matches!(keyword.as_str(), "required" | "not" | "description" | "title" | "dependentRequired" | "type")
    }) && branch.keys().any(|keyword| keyword != "type" && keyword != "description")
}

fn with_beside(branch: Map<String, Value>, beside: &Map<String, Value>, plain: &PlainSchema) -> Map<String, Value> {
    if beside.is_empty() {
        return branch;
    }
    // Nothing may stand beside a reference, so its target is written out here.
    let branch = match definition_name(&branch).and_then(|name| plain.definitions.get(name)) {
        Some(target) => as_schema(target),
        None => branch,
    };
    merge(beside.clone(), branch)
}

/// The plan for a union, from the schemas and plans of its branches.
pub(super) fn plan(branches: &[Map<String, Value>], plans: Vec<ValuePlan>, plain: &PlainSchema) -> ValuePlan {
    let branches = branches.iter().zip(plans).map(|(schema, plan)| {
        let target = definition_name(schema).and_then(|name| plain.definitions.get(name));
        let schema = target.and_then(Value::as_object).unwrap_or(schema);
        UnionBranch { types: types(schema), fixed: fixed(schema), plan }
    });
    ValuePlan::one_of(branches.collect())
}

/// The properties of a branch that may only have certain values.
fn fixed(schema: &Map<String, Value>) -> Vec<(String, Vec<Value>)> {
    let allowed = |property: &Value| match (property.get("const"), property.get("enum")) {
        (Some(value), _) => Some(vec![value.clone()]),
        (None, Some(Value::Array(values))) => Some(values.clone()),
        _ => None,
    };
    properties(schema).filter_map(|(name, property)| Some((name.clone(), allowed(property)?))).collect()
}

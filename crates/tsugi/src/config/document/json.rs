//! JSON, with the comments and trailing commas that editors allow, into the tree.

use jsonc_parser::ast;
use jsonc_parser::common::Range;
use jsonc_parser::{CollectOptions, ParseOptions};

use super::{ConfigNode, NodeEntry, NodeValue, SourceSpan, SourceText, duplicates};
use crate::config::problem::ConfigProblem;

/// Reads JSON, or says what is wrong with it.
pub(super) fn parse(source: &SourceText) -> Result<ConfigNode, Vec<ConfigProblem>> {
    let (node, duplicates) = parse_lenient(source)?;
    if duplicates.is_empty() { Ok(node) } else { Err(duplicates) }
}

/// Reads JSON; keys that stand twice are returned beside the tree, which has all of them.
pub(super) fn parse_lenient(source: &SourceText) -> Result<(ConfigNode, Vec<ConfigProblem>), Vec<ConfigProblem>> {
    let result = jsonc_parser::parse_to_ast(&source.text, &CollectOptions::default(), &options());
    let parsed = result.map_err(|error| {
        let message = format!("this is not valid JSON: {}", error.kind().to_string().to_lowercase());
        vec![source.problem(span(error.range()), message)]
    })?;
    let Some(value) = parsed.value else {
        return Ok((ConfigNode { span: SourceSpan::default(), value: NodeValue::Empty }, Vec::new()));
    };
    let mut duplicates = Vec::new();
    let node = node(source, value, &mut duplicates);
    Ok((node, duplicates))
}

/// What VS Code and Zed accept in their own files, and no more.
fn options() -> ParseOptions {
    ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

fn span(range: Range) -> SourceSpan {
    SourceSpan { start: range.start, end: range.end }
}

fn node(source: &SourceText, value: ast::Value<'_>, problems: &mut Vec<ConfigProblem>) -> ConfigNode {
    match value {
        ast::Value::StringLit(string) => scalar(string.range, string.value.into_owned()),
        ast::Value::NumberLit(number) => scalar(number.range, number.value.to_owned()),
        ast::Value::BooleanLit(boolean) => scalar(boolean.range, boolean.value.to_string()),
        ast::Value::NullKeyword(null) => ConfigNode { span: span(null.range), value: NodeValue::Empty },
        ast::Value::Array(array) => {
            let items = array.elements.into_iter().map(|item| node(source, item, problems)).collect();
            ConfigNode { span: span(array.range), value: NodeValue::List(items) }
        }
        ast::Value::Object(object) => map(source, object, problems),
    }
}

fn scalar(range: Range, text: String) -> ConfigNode {
    ConfigNode { span: span(range), value: NodeValue::Scalar(text) }
}

fn map(source: &SourceText, object: ast::Object<'_>, problems: &mut Vec<ConfigProblem>) -> ConfigNode {
    let entries: Vec<NodeEntry> =
        object.properties.into_iter().map(|property| entry(source, property, problems)).collect();
    problems.extend(duplicates(source, &entries));
    ConfigNode { span: span(object.range), value: NodeValue::Map(entries) }
}

fn entry(source: &SourceText, property: ast::ObjectProp<'_>, problems: &mut Vec<ConfigProblem>) -> NodeEntry {
    let key_span = match &property.name {
        ast::ObjectPropName::String(string) => span(string.range),
        ast::ObjectPropName::Word(word) => span(word.range),
    };
    NodeEntry { key: property.name.into_string(), key_span, node: node(source, property.value, problems) }
}

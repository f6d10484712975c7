//! Turns the library's errors into short sentences that tell a model what to change.

use jsonschema::JsonType;
use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
use serde_json::Value;

/// Characters of a value that are repeated in a message.
const SHOWN: usize = 60;
/// Allowed values that are listed in a message.
const LISTED: usize = 12;

/// What is wrong, without the place.
pub(super) fn describe(error: &ValidationError<'_>) -> String {
    let value = error.instance();
    match error.kind() {
        Kind::Type { kind } => format!("expected {}, got {}", expected(kind), shown(value)),
        Kind::Required { property } => format!("{} is missing", shown(property)),
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            format!("has unknown {}", names("property", "properties", unexpected))
        }
        Kind::Enum { options } => format!("expected one of {}, got {}", list(options), shown(value)),
        Kind::Constant { expected_value } => {
            format!("expected {}, got {}", shown(expected_value), shown(value))
        }
        // Patterns have a keyword of our own, which the library reports as custom.
        Kind::Custom { keyword, message } if keyword == "pattern" => {
            format!("{} does not match the pattern {}", shown(value), cut(message))
        }
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => none_of(context),
        Kind::OneOfMultipleValid { .. } => {
            "matches more than one of the forms of which exactly one is allowed".to_owned()
        }
        Kind::Not { .. } => format!("{} is not allowed here", shown(value)),
        Kind::FalseSchema => "is not allowed here".to_owned(),
        Kind::PropertyNames { error } => format!("has a property whose name is not allowed: {}", describe(error)),
        // The library's own text would repeat the value, which may be long.
        other => bound(other, value).unwrap_or_else(|| cut(&error.masked_with("the value").to_string())),
    }
}

fn bound(kind: &Kind, value: &Value) -> Option<String> {
    let value = shown(value);
    Some(match kind {
        Kind::Minimum { limit } => format!("expected at least {limit}, got {value}"),
        Kind::Maximum { limit } => format!("expected at most {limit}, got {value}"),
        Kind::ExclusiveMinimum { limit } => format!("expected more than {limit}, got {value}"),
        Kind::ExclusiveMaximum { limit } => format!("expected less than {limit}, got {value}"),
        Kind::MultipleOf { multiple_of } => {
            format!("expected a multiple of {multiple_of}, got {value}")
        }
        Kind::MinLength { limit } => format!("expected at least {limit} characters, got {value}"),
        Kind::MaxLength { limit } => format!("expected at most {limit} characters, got {value}"),
        Kind::MinItems { limit } => format!("expected at least {limit} items"),
        Kind::MaxItems { limit } => format!("expected at most {limit} items"),
        Kind::AdditionalItems { limit } => format!("expected at most {limit} items"),
        Kind::MinProperties { limit } => format!("expected at least {limit} properties"),
        Kind::MaxProperties { limit } => format!("expected at most {limit} properties"),
        Kind::UniqueItems => "has an item twice".to_owned(),
        Kind::Contains => "has no item of the kind that must be there".to_owned(),
        Kind::UnevaluatedItems { .. } => "has more items than allowed".to_owned(),
        _ => return None,
    })
}

/// Names the branch that came nearest, since it is most likely the one that was meant.
fn none_of(branches: &[Vec<ValidationError<'static>>]) -> String {
    let Some(error) = nearest(branches) else {
        return "matches none of the allowed forms".to_owned();
    };
    let place = error.instance_path().as_str();
    let separator = if place.is_empty() { "" } else { ": " };
    // Unions inside unions would repeat their reasons at length.
    let reason = cut_to(&describe(error), 300);
    format!("matches none of the allowed forms; nearest: {place}{separator}{reason}")
}

/// The error that lies deepest in the value, looking through unions inside unions.
fn nearest<'e>(branches: &'e [Vec<ValidationError<'static>>]) -> Option<&'e ValidationError<'static>> {
    let error = branches
        .iter()
        .filter_map(|errors| errors.iter().max_by_key(|error| depth(error)))
        // At equal depth, a form whose type fits is more likely the one that was meant.
        .max_by_key(|error| (depth(error), !matches!(error.kind(), Kind::Type { .. })))?;
    match error.kind() {
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => nearest(context).or(Some(error)),
        _ => Some(error),
    }
}

fn depth(error: &ValidationError<'_>) -> usize {
    error.instance_path().as_str().matches('/').count()
}

fn expected(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Single(kind) => with_article(*kind).to_owned(),
        TypeKind::Multiple(kinds) => {
            let kinds: Vec<_> = kinds.iter().map(with_article).collect();
            kinds.join(" or ")
        }
    }
}

fn with_article(kind: JsonType) -> &'static str {
    match kind {
        JsonType::Array => "an array",
        JsonType::Boolean => "true or false",
        JsonType::Integer => "an integer",
        JsonType::Null => "null",
        JsonType::Number => "a number",
        JsonType::Object => "an object",
        JsonType::String => "a string",
    }
}

fn names(one: &str, many: &str, names: &[String]) -> String {
    let word = if names.len() == 1 { one } else { many };
    let shown: Vec<String> = names.iter().take(LISTED).map(|name| format!("{:?}", cut(name))).collect();
    let rest = if names.len() > LISTED { ", …" } else { "" };
    format!("{word} {}{rest}", shown.join(", "))
}

fn list(options: &Value) -> String {
    let Some(options) = options.as_array() else {
        return shown(options);
    };
    let listed: Vec<String> = options.iter().take(LISTED).map(shown).collect();
    let rest = if options.len() > LISTED { ", …" } else { "" };
    format!("{}{rest}", listed.join(", "))
}

/// A value as short text: scalars as they are, cut where long; containers by their kind.
fn shown(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("an array of {} items", items.len()),
        Value::Object(members) => format!("an object with {} properties", members.len()),
        Value::String(text) if text.chars().count() > SHOWN => {
            format!("{:?} ({} characters)", cut(text), text.chars().count())
        }
        scalar => cut(&scalar.to_string()),
    }
}

fn cut(text: &str) -> String {
    cut_to(text, SHOWN)
}

fn cut_to(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

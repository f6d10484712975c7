//! Turns one word into one JSON value of the type that the schema accepts.

use serde_json::{Number, Value};

use super::ArgumentValue;
use super::shape::{ArgumentShape, ValueKind, text_of};
use crate::failure::UsageError;

/// Reads `text` for the argument `name`.
pub(crate) fn value(name: &str, text: &str, shape: &ArgumentShape) -> Result<ArgumentValue, UsageError> {
    // An enumeration comes first: `5` may be text in it.
    let choices = shape.choices();
    if let Some(choice) = choices.iter().find(|choice| text_of(&choice.value) == text) {
        return Ok(choice.value.clone().into());
    }
    if !choices.is_empty() {
        return Err(no_choice(name, text, shape));
    }
    let kinds = shape.kinds();
    // In the order of KINDS, so that text is tried last.
    let read = kinds.iter().find_map(|kind| read(*kind, name, text, shape));
    read.unwrap_or_else(|| {
        Err(UsageError::new(format!("`{name}` must be {}, not `{text}`", with_article(&shape.describe()))))
    })
}

fn no_choice(name: &str, text: &str, shape: &ArgumentShape) -> UsageError {
    let values: Vec<String> = shape.choices().iter().map(|choice| text_of(&choice.value)).collect();
    let misfit = UsageError::new(format!("`{name}` must be {}, not `{text}`", shape.describe()));
    match crate::config::key::nearest(text, values.iter().map(String::as_str)) {
        Some(near) => misfit.with_hint(format!("did you mean `{name}={near}`?")),
        None => misfit,
    }
}

/// The word as this kind of value, if it can be read as one.
fn read(kind: ValueKind, name: &str, text: &str, shape: &ArgumentShape) -> Option<Result<ArgumentValue, UsageError>> {
    let value = match kind {
        ValueKind::String => Some(Value::from(text).into()),
        ValueKind::Boolean => boolean(text).map(|yes| Value::from(yes).into()),
        ValueKind::Integer => integer(text),
        ValueKind::Number => number(text),
        ValueKind::Null => (text == "null").then_some(Value::Null.into()),
        ValueKind::Object => json(text, '{'),
        ValueKind::Array => return array(name, text, shape),
    };
    value.map(Ok)
}

fn boolean(text: &str) -> Option<bool> {
    match text {
        "true" | "yes" | "on" => Some(true),
        "false" | "no" | "off" => Some(false),
        _ => None,
    }
}

/// A number with all its digits where JSON writes it so; `.5` and `+5` are read, too.
fn number(text: &str) -> Option<ArgumentValue> {
    let read = || text.parse().ok().and_then(Number::from_f64).map(|number| Value::from(number).into());
    ArgumentValue::parse(text).ok().filter(|written| written.to_value().is_number()).or_else(read)
}

/// `5`, and also `5.0` and `1e3`, which JSON counts as whole numbers.
fn integer(text: &str) -> Option<ArgumentValue> {
    let is_whole = text.trim_start_matches('-').bytes().all(|byte| byte.is_ascii_digit());
    ArgumentValue::parse(text)
        .ok()
        .filter(|_| is_whole)
        .or_else(|| rounded(text).map(|number| Value::from(number).into()))
}

fn rounded(text: &str) -> Option<Number> {
    let whole = text.parse::<i64>().map(Number::from).or_else(|_| text.parse::<u64>().map(Number::from));
    // Above 9e15 a float no longer holds every integer.
    let float = || text.parse::<f64>().ok().filter(|number| number.fract() == 0.0 && number.abs() < 9e15);
    whole.ok().or_else(|| float().map(|number| Number::from(number as i64)))
}

/// JSON that begins like this.
fn json(text: &str, first: char) -> Option<ArgumentValue> {
    text.trim_start().starts_with(first).then(|| ArgumentValue::parse(text).ok()).flatten()
}

/// A JSON array, or a single item where nothing else would take the word.
fn array(name: &str, text: &str, shape: &ArgumentShape) -> Option<Result<ArgumentValue, UsageError>> {
    if let Some(array) = json(text, '[') {
        return Some(Ok(array));
    }
    let takes_text = shape.kinds().contains(&ValueKind::String);
    (!takes_text).then(|| value(name, text, &shape.items()).map(|item| ArgumentValue::Items(vec![item])))
}

fn with_article(kind: &str) -> String {
    let article = if kind.starts_with(['a', 'i', 'o']) { "an" } else { "a" };
    match kind {
        "any value" => kind.to_owned(),
        one_of if one_of.starts_with("one of") => kind.to_owned(),
        _ => format!("{article} {kind}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(schema: Value, text: &str, expected: Value) {
        assert_eq!(value("x", text, &ArgumentShape::of(&schema)).unwrap().to_value(), expected, "{text} for {schema}");
    }

    fn fails(schema: Value, text: &str, message: &str) {
        assert_eq!(value("x", text, &ArgumentShape::of(&schema)).unwrap_err().message, message);
    }

    #[test]
    fn a_word_becomes_what_the_schema_accepts() {
        check(json!({"type": "string"}), "123", json!("123"));
        check(json!({"type": "string"}), "{\"a\":1}", json!("{\"a\":1}"));
        check(json!({"type": "number"}), "70", json!(70));
        check(json!({"type": "number"}), "1.75", json!(1.75));
        check(json!({"type": "integer"}), "-3", json!(-3));
        check(json!({"type": "integer"}), "5.0", json!(5));
        check(json!({"type": "integer"}), "18446744073709551615", json!(u64::MAX));
        check(json!({"type": "integer"}), "007", json!(7));
        let large = value("x", "12345678901234567890123", &ArgumentShape::of(&json!({"type": "integer"}))).unwrap();
        assert_eq!(large.to_raw().as_str(), "12345678901234567890123");
        check(json!({"type": "boolean"}), "yes", json!(true));
        check(json!({"type": "object"}), "{\"a\":1}", json!({"a": 1}));
        check(json!({"type": "array", "items": {"type": "integer"}}), "[1,2]", json!([1, 2]));
        check(json!({"type": "array", "items": {"type": "integer"}}), "1", json!([1]));
    }

    #[test]
    fn where_several_kinds_fit_text_comes_last() {
        check(json!({"type": ["string", "number"]}), "5", json!(5));
        check(json!({"type": ["string", "number"]}), "five", json!("five"));
        check(json!({"anyOf": [{"type": "string"}, {"type": "null"}]}), "null", json!(null));
        check(json!({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}), "a", json!("a"));
        check(json!({}), "true", json!(true));
        check(json!({}), "hello", json!("hello"));
        check(json!({}), "[1]", json!([1]));
    }

    #[test]
    fn choices_are_found_by_what_is_typed() {
        check(json!({"enum": [1, "one"]}), "1", json!(1));
        check(json!({"oneOf": [{"const": "r", "title": "Red"}]}), "r", json!("r"));
        let misfit = value("x", "cheerfull", &ArgumentShape::of(&json!({"enum": ["plain", "cheerful"]}))).unwrap_err();
        assert_eq!(misfit.hint.as_deref(), Some("did you mean `x=cheerful`?"));
    }

    #[test]
    fn a_word_that_does_not_fit_is_said_with_what_would() {
        fails(json!({"type": "number"}), "tall", "`x` must be a number, not `tall`");
        fails(json!({"type": "integer"}), "1.5", "`x` must be an integer, not `1.5`");
        fails(json!({"type": "boolean"}), "maybe", "`x` must be a boolean, not `maybe`");
        fails(json!({"type": "object"}), "a", "`x` must be an object, not `a`");
        fails(json!({"type": "array", "items": {"type": "integer"}}), "a", "`x` must be an integer, not `a`");
        fails(json!({"enum": ["a", "b"]}), "zzz", "`x` must be one of a, b, not `zzz`");
    }
}

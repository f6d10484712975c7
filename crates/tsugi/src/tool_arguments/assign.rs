//! `key=value` words put together into one object: repeated, dotted or plain JSON.

use super::shape::{ArgumentShape, ValueKind};
use super::{ArgumentObject, ArgumentValue, typed};
use crate::config::key::nearest;
use crate::failure::UsageError;

/// Reads the words in their order. `key:=json` takes the value as it is written.
pub(super) fn read(words: &[String], shape: &ArgumentShape) -> Result<ArgumentObject, UsageError> {
    let mut object = ArgumentObject::default();
    for word in words {
        let (key, given) = split(word)?;
        put(&mut object, key, key, given, shape)?;
    }
    Ok(object)
}

/// The text after the key: a word to be typed, or JSON.
#[derive(Clone, Copy)]
enum ArgumentText<'a> {
    Word(&'a str),
    Json(&'a str),
}

fn split(word: &str) -> Result<(&str, ArgumentText<'_>), UsageError> {
    let Some((key, value)) = word.split_once('=').filter(|(key, _)| !key.is_empty()) else {
        let hint = "arguments are written key=value, or all together as JSON: --json '{…}'";
        return Err(UsageError::new(format!("`{word}` is not an argument")).with_hint(hint));
    };
    Ok(match key.strip_suffix(':') {
        Some(key) if !key.is_empty() => (key, ArgumentText::Json(value)),
        _ => (key, ArgumentText::Word(value)),
    })
}

/// Puts one value under a key of `object`; `path` is the key as the user wrote it.
fn put(
    object: &mut ArgumentObject,
    path: &str,
    key: &str,
    given: ArgumentText<'_>,
    shape: &ArgumentShape,
) -> Result<(), UsageError> {
    // A property whose name contains a dot wins over nesting.
    if let Some(property) = shape.property(key) {
        return add(object, path, key, given, &property);
    }
    if let Some((outer, inner, property)) = dotted(key, shape) {
        return put(within(object, outer)?, path, inner, given, &property);
    }
    if !shape.is_open() {
        return Err(unknown(path, key, shape));
    }
    match key.split_once('.').filter(|_| path != key) {
        // After one dot that means nesting, further dots mean nesting too.
        Some((outer, inner)) => put(within(object, outer)?, path, inner, given, &shape.additional()),
        None => add(object, path, key, given, &shape.additional()),
    }
}

fn within<'a>(object: &'a mut ArgumentObject, key: &str) -> Result<&'a mut ArgumentObject, UsageError> {
    let nested = object.entry(key, || ArgumentValue::Members(ArgumentObject::default()));
    nested.members_mut().ok_or_else(|| UsageError::new(format!("`{key}` is given both as a whole and in parts")))
}

/// Splits `address.city` at the dot whose left side is a property that takes an object.
fn dotted<'a>(key: &'a str, shape: &ArgumentShape) -> Option<(&'a str, &'a str, ArgumentShape)> {
    key.match_indices('.').find_map(|(index, _)| {
        let (outer, inner) = (&key[..index], &key[index + 1..]);
        let property = shape.property(outer).filter(|property| property.kinds().contains(&ValueKind::Object))?;
        (!inner.is_empty()).then_some((outer, inner, property))
    })
}

fn unknown(path: &str, key: &str, shape: &ArgumentShape) -> UsageError {
    let names = shape.names();
    let misfit = UsageError::new(format!("there is no argument `{path}`"));
    match nearest(key, names.iter().map(String::as_str)) {
        Some(near) => misfit.with_hint(format!("did you mean `{}{near}`?", &path[..path.len() - key.len()])),
        None if names.is_empty() => misfit.with_hint("it takes no arguments"),
        None => misfit.with_hint(format!("it takes {}", names.join(", "))),
    }
}

fn add(
    object: &mut ArgumentObject,
    path: &str,
    key: &str,
    given: ArgumentText<'_>,
    shape: &ArgumentShape,
) -> Result<(), UsageError> {
    // The first value decides nothing: a second may make it an array.
    let Some(there) = object.get_mut(key) else {
        object.insert(key, first(path, given, shape)?);
        return Ok(());
    };
    if !shape.kinds().contains(&ValueKind::Array) {
        return Err(UsageError::new(format!("`{path}` is given twice")));
    }
    let item = item(path, given, shape)?;
    match there.items_mut() {
        Some(items) => items.push(item),
        // The first word was taken as a single value.
        None => *there = ArgumentValue::Items(vec![there.clone(), item]),
    }
    Ok(())
}

fn first(path: &str, given: ArgumentText<'_>, shape: &ArgumentShape) -> Result<ArgumentValue, UsageError> {
    match given {
        ArgumentText::Json(text) => json(path, text),
        ArgumentText::Word(text) => typed::value(path, text, shape),
    }
}

/// A further item of an array.
fn item(path: &str, given: ArgumentText<'_>, shape: &ArgumentShape) -> Result<ArgumentValue, UsageError> {
    first(path, given, &shape.items())
}

fn json(path: &str, text: &str) -> Result<ArgumentValue, UsageError> {
    ArgumentValue::parse(text).map_err(|error| UsageError::new(format!("`{path}` is not JSON: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn shape() -> ArgumentShape {
        ArgumentShape::of(&json!({
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "weight_kg": {"type": "number"},
                "tags": {"type": "array", "items": {"type": "string"}},
                "either": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
                "address": {"type": "object", "properties": {"city": {"type": "string"}, "zip": {"type": "integer"}}},
                "free": {"type": "object"},
                "dotted.name": {"type": "boolean"},
            },
        }))
    }

    fn read(words: &[&str]) -> Result<Value, UsageError> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        super::read(&words, &shape()).map(|members| ArgumentValue::Members(members).to_value())
    }

    fn check(words: &[&str], expected: Value) {
        assert_eq!(read(words).unwrap(), expected, "{words:?}");
    }

    fn fails(words: &[&str], message: &str, hint: Option<&str>) {
        let misfit = read(words).unwrap_err();
        assert_eq!((misfit.message.as_str(), misfit.hint.as_deref()), (message, hint));
    }

    #[test]
    fn words_are_typed_and_everything_after_the_first_equals_sign_is_the_value() {
        check(&["name=a=b", "weight_kg=70"], json!({"name": "a=b", "weight_kg": 70}));
        check(&["name="], json!({"name": ""}));
        check(&["name=名前"], json!({"name": "名前"}));
    }

    #[test]
    fn arrays_are_repeated_or_written_as_json() {
        check(&["tags=a", "tags=b"], json!({"tags": ["a", "b"]}));
        check(&["tags=[\"a\"]", "tags=b"], json!({"tags": ["a", "b"]}));
        check(&["either=a"], json!({"either": "a"}));
        check(&["either=a", "either=b"], json!({"either": ["a", "b"]}));
    }

    #[test]
    fn objects_are_dotted_or_written_as_json() {
        check(&["address.city=Ōtsu", "address.zip=520"], json!({"address": {"city": "Ōtsu", "zip": 520}}));
        check(&["address={\"city\":\"Ōtsu\"}", "address.zip=520"], json!({"address": {"city": "Ōtsu", "zip": 520}}));
        check(&["free.a=1", "free.b.c=x"], json!({"free": {"a": 1, "b": {"c": "x"}}}));
        check(&["dotted.name=true"], json!({"dotted.name": true}));
    }

    #[test]
    fn a_colon_takes_the_value_as_json() {
        check(&["name:=1", "tags:=[1,2]"], json!({"name": 1, "tags": [1, 2]}));
        let digits = ["name:=12345678901234567890123".to_owned(), "weight_kg=0.10000000000000000001".to_owned()];
        let written = super::read(&digits, &shape()).unwrap().to_raw();
        assert_eq!(written.as_str(), r#"{"name":12345678901234567890123,"weight_kg":0.10000000000000000001}"#);
        assert!(read(&["name:=x"]).unwrap_err().message.starts_with("`name` is not JSON"));
    }

    #[test]
    fn an_unknown_key_is_compared_with_the_known_ones() {
        fails(&["weight=1"], "there is no argument `weight`", Some("did you mean `weight_kg`?"));
        fails(&["address.ctiy=1"], "there is no argument `address.ctiy`", Some("did you mean `address.city`?"));
        assert!(read(&["zzz=1"]).unwrap_err().hint.unwrap().starts_with("it takes name, weight_kg"));
    }

    #[test]
    fn a_key_given_twice_is_refused() {
        fails(&["name=a", "name=b"], "`name` is given twice", None);
    }

    #[test]
    fn a_word_without_an_equals_sign_is_no_argument() {
        assert!(read(&["hello"]).unwrap_err().message.contains("`hello` is not an argument"));
        assert!(read(&["=x"]).is_err());
    }
}

//! How each program writes variables, in our way of writing them.

/// Rewrites the references of a text. `known` gets what stands between `${` and `}` and says what it is
/// in our words; what it does not know stays text. With `bare`, `$NAME` is a reference too.
pub(super) fn references(text: &str, bare: bool, mut known: impl FnMut(&str) -> Option<String>) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(index) = rest.find('$') {
        result.push_str(&rest[..index]);
        rest = &rest[index..];
        let (body, length) = reference(rest, bare).unwrap_or_default();
        match (length > 0).then(|| known(body)).flatten() {
            Some(ours) => {
                result.push_str(&ours);
                rest = &rest[length..];
            }
            None => {
                let means_something_to_us = rest.starts_with("${") || rest.starts_with("$$");
                result.push_str(if means_something_to_us { "$$" } else { "$" });
                rest = &rest[1..];
            }
        }
    }
    result.push_str(rest);
    result
}

/// The body of the reference at the beginning of the text, and the length of the whole.
fn reference(text: &str, bare: bool) -> Option<(&str, usize)> {
    if let Some(inner) = text.strip_prefix("${") {
        let end = closing(inner)?;
        return Some((&inner[..end], end + 3));
    }
    let name = &text[1..];
    let length = name.chars().take_while(|c| *c == '_' || c.is_ascii_alphanumeric()).count();
    let starts_well = name.starts_with(|c: char| c == '_' || c.is_ascii_alphabetic());
    (bare && starts_well).then(|| (&name[..length], length + 1))
}

fn closing(text: &str) -> Option<usize> {
    let mut open = 0usize;
    text.char_indices().find_map(|(index, character)| match character {
        '{' => {
            open += 1;
            None
        }
        '}' if open == 0 => Some(index),
        '}' => {
            open -= 1;
            None
        }
        _ => None,
    })
}

/// A text of a program that knows no variables.
pub(super) fn literal(text: &str) -> String {
    references(text, false, |_| None)
}

/// Whether this is a variable's name.
pub(super) fn is_name(text: &str) -> bool {
    let starts_well = text.starts_with(|c: char| c == '_' || c.is_ascii_alphabetic());
    starts_well && text.chars().all(|c| c == '_' || c.is_ascii_alphanumeric())
}

/// A variable's name made from any text.
pub(super) fn variable_name(text: &str) -> String {
    let upper = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    let name: String = text.chars().map(upper).collect();
    if is_name(&name) { name } else { format!("_{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_takes_literally_stays_literal_for_us() {
        for (text, ours) in
            [("${HOME}/x", "$${HOME}/x"), ("a$b", "a$b"), ("$$", "$$$"), ("5$", "5$"), ("${open", "$${open")]
        {
            assert_eq!(literal(text), ours);
        }
    }

    #[test]
    fn known_references_are_rewritten_and_others_kept_as_text() {
        let known = |body: &str| (body == "A").then(|| "${A:-}".to_owned());
        assert_eq!(references("x${A}y$A z${B}", true, known), "x${A:-}y${A:-} z$${B}");
        assert_eq!(references("$A", false, known), "$A");
    }

    #[test]
    fn names_are_made_from_anything() {
        assert_eq!(variable_name("api-key.2"), "API_KEY_2");
        assert_eq!(variable_name("1st"), "_1ST");
    }
}

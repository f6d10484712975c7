//! Single values as YAML, quoted wherever a reader could take them for something else.

/// A list on one line.
pub(crate) fn list(items: &[String]) -> String {
    format!("[{}]", items.iter().map(|item| scalar(item)).collect::<Vec<_>>().join(", "))
}

/// A value in quotes, unless every reader of YAML would take it for this very text without them.
pub(crate) fn scalar(text: &str) -> String {
    let plain = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c))
        && !matches!(
            text.to_ascii_lowercase().as_str(),
            "true" | "false" | "yes" | "no" | "on" | "off" | "null" | "y" | "n"
        );
    let is_value = text.ends_with(|c: char| c.is_ascii_alphabetic())
        && text.parse::<f64>().is_err()
        && text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_alphanumeric());
    let is_flag = matches!(text, "true" | "false");
    if plain || is_value || is_flag { text.to_owned() } else { quoted(text) }
}

/// In double quotes, which YAML, JSON and TOML read alike.
pub(crate) fn quoted(text: &str) -> String {
    let mut result = String::from('"');
    for character in text.chars() {
        match character {
            '"' => result.push_str("\\\""),
            '\\' => result.push_str("\\\\"),
            '\n' => result.push_str("\\n"),
            '\t' => result.push_str("\\t"),
            other if other.is_control() => result.push_str(&format!("\\u{:04x}", u32::from(other))),
            other => result.push(other),
        }
    }
    result.push('"');
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_quoted_where_yaml_could_misread_them() {
        for (text, written) in [
            ("npx", "npx"),
            ("/usr/bin/x", "/usr/bin/x"),
            ("30s", "30s"),
            ("no", "\"no\""),
            ("-y", "\"-y\""),
            ("@scope/x", "\"@scope/x\""),
            ("1.10", "\"1.10\""),
            ("1e5", "\"1e5\""),
            ("", "\"\""),
            ("a: b #c", "\"a: b #c\""),
            ("q\"\\\n", "\"q\\\"\\\\\\n\""),
            ("${HOME}", "\"${HOME}\""),
        ] {
            assert_eq!(scalar(text), written);
        }
    }
}

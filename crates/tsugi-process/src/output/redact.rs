//! Masks secrets in output, since servers like to print their settings when they fail.

/// What stands where a secret stood.
const MASK: &str = "[redacted]";
/// Shorter values would mask ordinary text everywhere.
const SHORTEST: usize = 4;

/// Secret values to mask.
#[derive(Clone, Default)]
pub struct SecretMask {
    /// Longest first, so that a secret which holds another one is masked whole.
    values: Vec<String>,
}

impl SecretMask {
    /// Masks these values; one of several lines is masked line by line, and very short ones are ignored.
    pub fn new(values: impl IntoIterator<Item = String>) -> Self {
        let mut redact = SecretMask::default();
        redact.extend(values);
        redact
    }

    pub fn extend(&mut self, values: impl IntoIterator<Item = String>) {
        for value in values {
            let lines = value.lines().map(str::trim).filter(|line| line.len() >= SHORTEST);
            self.values.extend(lines.map(str::to_owned));
        }
        self.values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        self.values.dedup();
    }

    /// The text with every secret replaced by `[redacted]`: those that are known, and what stands behind
    /// `token=`, `key=`, `secret=` or `password=`.
    pub fn mask(&self, text: &str) -> String {
        let hit = |text: &String, value: &String| text.contains(value.as_str());
        let masked = self.values.iter().fold(text.to_owned(), |text, value| {
            if hit(&text, value) { text.replace(value.as_str(), MASK) } else { text }
        });
        mask_named(&masked)
    }
}

/// How the names of secrets end.
const NAMES: [&str; 4] = ["token", "key", "secret", "password"];

/// Masks the values that are called secret where they are written.
fn mask_named(text: &str) -> String {
    let is_end = |c: char| c.is_whitespace() || matches!(c, '&' | ',' | ';' | '"' | '\'' | ')');
    let (mut masked, mut rest) = (String::new(), text);
    while let Some(at) = rest.find('=') {
        let (before, after) = rest.split_at(at + 1);
        masked.push_str(before);
        rest = after;
        let end = after.find(is_end).unwrap_or(after.len());
        if names_secret(before) && end > 0 && !after.starts_with(MASK) {
            masked.push_str(MASK);
            rest = &after[end..];
        }
    }
    masked + rest
}

/// Whether the text ends with the name of a secret and an equals sign.
fn names_secret(text: &str) -> bool {
    let Some(before) = text.strip_suffix('=') else { return false };
    let name = before.to_ascii_lowercase();
    NAMES.iter().any(|ending| name.ends_with(ending))
}

impl std::fmt::Debug for SecretMask {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Redact({} values)", self.values.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_inside_another_leaves_no_rest() {
        let redact = SecretMask::new(["abcd".into(), "xxabcdyy".into()]);
        assert_eq!(redact.mask("1 xxabcdyy 2 abcd"), "1 [redacted] 2 [redacted]");
    }

    #[test]
    fn what_is_called_a_secret_is_masked_although_nobody_told_us_of_it() {
        let redact = SecretMask::default();
        for (said, shown) in [
            ("API_KEY=abc123 retry", "API_KEY=[redacted] retry"),
            ("GET /?token=abc&page=2", "GET /?token=[redacted]&page=2"),
            ("password=a=b, user=ann", "password=[redacted], user=ann"),
            ("token= none", "token= none"),
            ("port=80 name=x", "port=80 name=x"),
            ("a == b", "a == b"),
        ] {
            assert_eq!(redact.mask(said), shown);
        }
        assert_eq!(SecretMask::new(["abcdef".into()]).mask("token=abcdef!"), "token=[redacted]!");
    }

    #[test]
    fn a_secret_of_several_lines_is_masked_line_by_line() {
        let redact = SecretMask::new(["first-part\nsecond-part".into()]);
        assert_eq!(redact.mask("second-part"), "[redacted]");
    }

    #[test]
    fn printing_the_masker_does_not_print_the_secrets() {
        assert!(!format!("{:?}", SecretMask::new(["hunter2".into()])).contains("hunter2"));
    }
}

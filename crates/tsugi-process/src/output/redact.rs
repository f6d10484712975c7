//! Masking secrets in what is shown, since servers like to print their settings when they fail.

/// What stands where a secret stood.
const MASK: &str = "[redacted]";
/// Shorter values would mask ordinary text everywhere.
const SHORTEST: usize = 4;

/// Secret values to mask.
#[derive(Clone, Default)]
pub struct Redact {
    /// Longest first, so that a secret which holds another one is masked whole.
    values: Vec<String>,
}

impl Redact {
    /// Masks these values; one of several lines is masked line by line, and very short ones are ignored.
    pub fn new(values: impl IntoIterator<Item = String>) -> Self {
        let mut redact = Redact::default();
        redact.extend(values);
        redact
    }

    /// Adds more values.
    pub fn extend(&mut self, values: impl IntoIterator<Item = String>) {
        for value in values {
            let lines = value.lines().map(str::trim).filter(|line| line.len() >= SHORTEST);
            self.values.extend(lines.map(str::to_owned));
        }
        self.values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        self.values.dedup();
    }

    /// The text with every secret replaced by `[redacted]`.
    pub fn mask(&self, text: &str) -> String {
        let hit = |text: &String, value: &String| text.contains(value.as_str());
        self.values.iter().fold(text.to_owned(), |text, value| {
            if hit(&text, value) { text.replace(value.as_str(), MASK) } else { text }
        })
    }
}

impl std::fmt::Debug for Redact {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Redact({} values)", self.values.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_inside_another_leaves_no_rest() {
        let redact = Redact::new(["abcd".into(), "xxabcdyy".into()]);
        assert_eq!(redact.mask("1 xxabcdyy 2 abcd"), "1 [redacted] 2 [redacted]");
    }

    #[test]
    fn a_secret_of_several_lines_is_masked_line_by_line() {
        let redact = Redact::new(["first-part\nsecond-part".into()]);
        assert_eq!(redact.mask("second-part"), "[redacted]");
    }

    #[test]
    fn printing_the_masker_does_not_print_the_secrets() {
        assert!(!format!("{:?}", Redact::new(["hunter2".into()])).contains("hunter2"));
    }
}

//! The few colours that words may have. Colour decorates, it never informs.

use std::fmt::Display;

use anstyle::{AnsiColor, Style};

/// Paints words, or leaves them as they are where colours are not wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TextPaint {
    wanted: bool,
}

impl TextPaint {
    pub(crate) fn new(wanted: bool) -> Self {
        TextPaint { wanted }
    }

    /// Something failed.
    pub(crate) fn error(self, text: impl Display) -> String {
        self.with(AnsiColor::Red.on_default().bold(), text)
    }

    /// Something should be looked at.
    pub(crate) fn warning(self, text: impl Display) -> String {
        self.with(AnsiColor::Yellow.on_default().bold(), text)
    }

    /// Something is well.
    pub(crate) fn good(self, text: impl Display) -> String {
        self.with(AnsiColor::Green.on_default(), text)
    }

    /// A hint, or a place.
    pub(crate) fn hint(self, text: impl Display) -> String {
        self.with(AnsiColor::Cyan.on_default(), text)
    }

    /// A heading.
    pub(crate) fn strong(self, text: impl Display) -> String {
        self.with(Style::new().bold(), text)
    }

    /// Something of less weight.
    pub(crate) fn faint(self, text: impl Display) -> String {
        self.with(Style::new().dimmed(), text)
    }

    fn with(self, style: Style, text: impl Display) -> String {
        let text = text.to_string();
        if self.wanted && !text.is_empty() { format!("{style}{text}{style:#}") } else { text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stay_plain_where_colours_are_not_wanted() {
        assert_eq!(TextPaint::new(false).error("x"), "x");
        assert_eq!(TextPaint::new(true).error("x"), "\u{1b}[1m\u{1b}[31mx\u{1b}[0m");
        assert_eq!(TextPaint::new(true).error(""), "");
    }
}

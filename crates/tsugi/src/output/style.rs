//! Text colours. Colour decorates, it never informs.

use std::fmt::Display;

use anstyle::{AnsiColor, Style};

/// Colours text, or leaves it plain where colours are off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TextPaint {
    wanted: bool,
}

impl TextPaint {
    pub(crate) fn new(wanted: bool) -> Self {
        TextPaint { wanted }
    }

    pub(crate) fn error(self, text: impl Display) -> String {
        self.with(AnsiColor::Red.on_default().bold(), text)
    }

    pub(crate) fn warning(self, text: impl Display) -> String {
        self.with(AnsiColor::Yellow.on_default().bold(), text)
    }

    pub(crate) fn good(self, text: impl Display) -> String {
        self.with(AnsiColor::Green.on_default(), text)
    }

    /// A hint, or a place.
    pub(crate) fn hint(self, text: impl Display) -> String {
        self.with(AnsiColor::Cyan.on_default(), text)
    }

    pub(crate) fn strong(self, text: impl Display) -> String {
        self.with(Style::new().bold(), text)
    }

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

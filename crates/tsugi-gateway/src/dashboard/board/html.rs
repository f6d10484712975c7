//! Text that becomes a page: what is ours goes in as it is, and everything else only escaped.
//!
//! The crate `maud` is not used: it adds three packages, one a procedural macro, to replace 26 lines, and it escapes
//! neither `'` nor the characters that reverse text.

/// A page that is being written.
#[derive(Default)]
pub(super) struct HtmlWriter(String);

impl HtmlWriter {
    /// Our own markup. It must be written in the program: nothing that comes from elsewhere can get in this way.
    pub(super) fn mark(&mut self, markup: &'static str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// Text from any source, escaped so that it stays text, even inside a quoted attribute.
    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        for letter in text.chars() {
            match letter {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                // Signs that turn the direction of text could make one thing look like another.
                '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {}
                other => self.0.push(other),
            }
        }
        self
    }

    /// An element of ours around text from any source.
    pub(super) fn element(&mut self, open: &'static str, text: &str, close: &'static str) -> &mut Self {
        self.mark(open).text(text).mark(close)
    }

    /// The page.
    pub(super) fn done(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_text_stays_text_and_cannot_turn_around() {
        let mut html = HtmlWriter::default();
        html.element("<p title=\"", "\"><img src=x onerror='alert(1)'>\u{202e}&amp;", "\"></p>");
        let expected = "<p title=\"&quot;&gt;&lt;img src=x onerror=&#39;alert(1)&#39;&gt;&amp;amp;\"></p>";
        assert_eq!(html.done(), expected);
    }
}

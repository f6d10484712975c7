//! Makes untrusted text safe for a terminal and a log.

use std::fmt::Write;

/// Escapes everything that could move a cursor, forge a log line or reorder text; a tab stays.
pub(super) fn escape(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        push_escaped(&mut shown, character);
    }
    shown
}

fn push_escaped(shown: &mut String, character: char) {
    let is_plain = character == '\t' || !(character.is_control() || is_reordering(character));
    let result = match character {
        _ if is_plain => shown.write_char(character),
        _ if character.is_ascii() => write!(shown, "\\x{:02x}", character as u32),
        _ => write!(shown, "\\u{{{:x}}}", character as u32),
    };
    result.expect("writing to a string does not fail");
}

/// Line and paragraph separators and the controls of text direction.
fn is_reordering(character: char) -> bool {
    matches!(character, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_are_escaped_and_text_is_not() {
        assert_eq!(escape("a\tb\x1b[2J\u{9b}\u{202e}é継\r"), "a\tb\\x1b[2J\\u{9b}\\u{202e}é継\\x0d");
    }
}

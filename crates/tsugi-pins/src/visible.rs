//! Text for people who look for tricks: hidden characters made visible, and differences word by word.

use similar::{ChangeTag, TextDiff};
use unicode_properties::{GeneralCategory, UnicodeEmoji, UnicodeGeneralCategory};

/// What kind of hidden character it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum HiddenCharacter {
    /// Changes the direction of the text around it.
    Bidi,
    /// A copy of ASCII that no font shows.
    Tag,
    ZeroWidth,
    /// A variation selector that does not follow an emoji.
    Variation,
    PrivateUse,
    Control,
    /// Another character without a picture of its own, such as a filler or an unassigned one.
    Invisible,
}

/// Which hidden character this is, after the one before it; `None` for one that people see.
pub fn hidden_character(character: char, before: Option<char>) -> Option<HiddenCharacter> {
    match character {
        '\n' | '\t' | ' ' => None,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{61c}' => {
            Some(HiddenCharacter::Bidi)
        }
        '\u{e0000}'..='\u{e007f}' => Some(HiddenCharacter::Tag),
        // The joiner of emoji such as families is no trick.
        '\u{200d}' if before.is_some_and(is_emoji) => None,
        '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2064}' | '\u{feff}' | '\u{180e}' | '\u{ad}' | '\u{34f}' => {
            Some(HiddenCharacter::ZeroWidth)
        }
        '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}' | '\u{180b}'..='\u{180d}' => {
            // `#️⃣` and `©️`: digits and signs count as emoji where a selector makes them one.
            let is_styled = matches!(character, '\u{fe0e}' | '\u{fe0f}') && before.is_some_and(|c| c.is_emoji_char());
            (!is_styled).then_some(HiddenCharacter::Variation)
        }
        // Fillers that are letters by their category and blanks on the screen.
        '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' | '\u{2800}' => Some(HiddenCharacter::Invisible),
        _ => match character.general_category() {
            GeneralCategory::Control => Some(HiddenCharacter::Control),
            GeneralCategory::PrivateUse => Some(HiddenCharacter::PrivateUse),
            GeneralCategory::Format
            | GeneralCategory::Unassigned
            | GeneralCategory::LineSeparator
            | GeneralCategory::ParagraphSeparator => Some(HiddenCharacter::Invisible),
            _ => None,
        },
    }
}

fn is_emoji(character: char) -> bool {
    character == '\u{fe0f}' || (character.is_emoji_char() && !character.is_ascii())
}

/// The hidden characters of a text, each with its place.
pub fn hidden_characters(text: &str) -> impl Iterator<Item = (usize, char, HiddenCharacter)> {
    let mut before = None;
    text.char_indices().filter_map(move |(place, character)| {
        let kind = hidden_character(character, before.replace(character));
        kind.map(|kind| (place, character, kind))
    })
}

/// The text with every hidden character written as `⟨U+202E⟩`.
pub fn make_visible(text: &str) -> String {
    let mut visible = String::with_capacity(text.len());
    let mut copied = 0;
    for (place, character, _) in hidden_characters(text) {
        visible.push_str(&text[copied..place]);
        visible.push_str(&format!("⟨U+{:04X}⟩", character as u32));
        copied = place + character.len_utf8();
    }
    visible.push_str(&text[copied..]);
    visible
}

/// JSON text with every hidden character as an escape, so that a reviewer of the lock file sees it. It reads the same.
pub(crate) fn escape_hidden(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    let mut copied = 0;
    for (place, character, _) in hidden_characters(json) {
        escaped.push_str(&json[copied..place]);
        let mut units = [0; 2];
        for unit in character.encode_utf16(&mut units) {
            escaped.push_str(&format!("\\u{unit:04x}"));
        }
        copied = place + character.len_utf8();
    }
    escaped.push_str(&json[copied..]);
    escaped
}

/// Which side of a difference a piece belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DiffSide {
    Same,
    Old,
    New,
}

/// A run of words of a difference, hidden characters made visible.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct DiffPiece {
    pub side: DiffSide,
    pub text: String,
}

/// How two texts differ, word by word.
pub fn word_diff(old: &str, new: &str) -> Vec<DiffPiece> {
    // Made visible first, so that a word which gained a hidden character differs where it is shown.
    let (old, new) = (make_visible(old), make_visible(new));
    let diff = TextDiff::from_words(old.as_str(), new.as_str());
    let mut pieces: Vec<DiffPiece> = Vec::new();
    for change in diff.iter_all_changes() {
        let side = match change.tag() {
            ChangeTag::Equal => DiffSide::Same,
            ChangeTag::Delete => DiffSide::Old,
            ChangeTag::Insert => DiffSide::New,
        };
        match pieces.last_mut() {
            Some(last) if last.side == side => last.text.push_str(change.value()),
            _ => pieces.push(DiffPiece { side, text: change.value().to_owned() }),
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_named_and_writing_of_the_world_is_not() {
        for (text, kind) in [
            ("a\u{202e}b", HiddenCharacter::Bidi),
            ("a\u{e0061}", HiddenCharacter::Tag),
            ("a\u{200b}b", HiddenCharacter::ZeroWidth),
            ("a\u{200d}b", HiddenCharacter::ZeroWidth),
            ("a\u{fe01}", HiddenCharacter::Variation),
            ("a\u{e0123}", HiddenCharacter::Variation),
            ("a\u{e000}", HiddenCharacter::PrivateUse),
            ("a\u{1b}[31m", HiddenCharacter::Control),
            ("a\u{3164}", HiddenCharacter::Invisible),
        ] {
            let found: Vec<_> = hidden_characters(text).map(|(_, _, kind)| kind).collect();
            assert_eq!(found, [kind], "{text:?}");
        }
        let fine = "Reads a file.\n\tÜber, naïve, 読む, קרא, اقرأ, हिन्दी, ❤️ 👩‍👩‍👧 #️⃣ …";
        assert_eq!(hidden_characters(fine).collect::<Vec<_>>(), []);
    }

    #[test]
    fn a_word_that_gained_a_hidden_character_differs_visibly() {
        let pieces = word_diff("read the file", "read the\u{200b} file now");
        let text =
            |side| pieces.iter().filter(|piece| piece.side == side).map(|piece| &*piece.text).collect::<String>();
        assert_eq!((text(DiffSide::Old), text(DiffSide::New)), ("the".into(), "the⟨U+200B⟩ now".into()), "{pieces:?}");
        assert_eq!(escape_hidden("\"a\u{e0061}\u{202e}\""), "\"a\\udb40\\udc61\\u202e\"");
    }
}

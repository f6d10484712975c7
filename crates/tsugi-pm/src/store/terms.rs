//! Cutting text into the words it is found by, the same for both engines and for Japanese.

use std::collections::BTreeSet;

/// The longest word that is kept, in bytes of its written-out form.
const LONGEST: usize = 80;

/// What a letter belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WritingSystem {
    /// Words stand between spaces.
    Spaced,
    /// Words are written together, so each pair of letters counts as one.
    Together,
    /// Not part of a word.
    None,
}

fn script(letter: char) -> WritingSystem {
    match letter {
        '\u{3040}'..='\u{30ff}'
        | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}'
        | '々' => WritingSystem::Together,
        letter if letter.is_alphanumeric() => WritingSystem::Spaced,
        _ => WritingSystem::None,
    }
}

/// Writes a word with letters that no engine's own tokenizer will touch.
fn spell(word: &str) -> String {
    let spelled = if word.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        word.to_owned()
    } else {
        word.bytes().fold(String::from("zq"), |text, byte| format!("{text}{byte:02x}"))
    };
    spelled.chars().take(LONGEST).collect()
}

fn runs(text: &str) -> Vec<(WritingSystem, String)> {
    let mut runs: Vec<(WritingSystem, String)> = Vec::new();
    let mut previous = WritingSystem::None;
    for letter in text.chars().flat_map(char::to_lowercase) {
        let kind = script(letter);
        match runs.last_mut() {
            Some((last, word)) if *last == kind && previous == kind && kind != WritingSystem::None => word.push(letter),
            _ if kind != WritingSystem::None => runs.push((kind, letter.into())),
            _ => {}
        }
        previous = kind;
    }
    runs
}

/// Pairs of letters, and each letter alone, so that a single one can be looked for too.
fn pairs(word: &str) -> Vec<String> {
    let letters: Vec<char> = word.chars().collect();
    let single = letters.iter().map(char::to_string);
    single.chain(letters.windows(2).map(|pair| pair.iter().collect())).collect()
}

/// All words of a text, each once, separated by spaces.
pub(crate) fn terms(text: &str) -> String {
    let mut terms = BTreeSet::new();
    for (kind, word) in runs(text) {
        match kind {
            WritingSystem::Together => terms.extend(pairs(&word).iter().map(|pair| spell(pair))),
            WritingSystem::Spaced | WritingSystem::None => drop(terms.insert(spell(&word))),
        }
    }
    terms.into_iter().collect::<Vec<_>>().join(" ")
}

/// The words a query asks for; the last one may be unfinished.
pub(crate) fn query_terms(query: &str) -> Vec<String> {
    let mut terms = Vec::new();
    for (kind, word) in runs(query) {
        match kind {
            WritingSystem::Together if word.chars().count() > 1 => {
                terms.extend(pairs(&word).iter().filter(|pair| pair.chars().count() == 2).map(|pair| spell(pair)));
            }
            _ => terms.push(spell(&word)),
        }
    }
    terms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_lower_case_and_japanese_is_cut_into_pairs() {
        assert_eq!(terms("Fix the Login-page, fix!"), "fix login page the");
        assert_eq!(query_terms("引き継ぎ").len(), 3);
        let stored: Vec<String> = terms("引き継ぎの手順").split(' ').map(str::to_owned).collect();
        assert!(query_terms("継ぎ").iter().all(|term| stored.contains(term)));
        assert!(query_terms("手").iter().all(|term| stored.contains(term)));
        assert!(!query_terms("手紙").iter().all(|term| stored.contains(term)));
    }

    #[test]
    fn every_term_is_plain_letters_and_digits() {
        let text = terms("naïve Überprüfung — 日本 русский 'quoted' \"x\" AND OR * : & | 😀");
        assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b' '), "{text}");
    }
}

//! Splits names and sentences into words: `getHTTPStatus`, `get-http-status` and "get the HTTP status" agree.

use std::collections::HashSet;
use std::sync::LazyLock;

use crate::stem::stem;

/// Words that say nothing about which tool is meant. The second part is the chatter of people who ask for something:
/// it is rare in descriptions, so its rarity would make it weigh more than the subject.
const STOP_WORDS: &str = "a an the and or of to in on at by for from with without into onto over under about as is are \
    was were be been being am do does did done doing have has had having it its this that these those there here \
    i me my mine we us our you your yours he him his she her they them their what which who whom whose when where why \
    how if then else so than too very just only also not no nor but because while during any some all each every both \
    few more most such own same other can could may might must shall should will would \
    please help need want would like could give tell let know hey hi hello thanks thank assist able way possible \
    looking look interested trying wondering wonder specific specifically provide provided using use used make sure \
    get got going really currently one following etc ll ve re don didn doesn isn aren won cannot \
    particular certain given based related including regarding per via upon within";

/// Words that most requests have. They can name a tool, but mostly they say only that something is asked for.
const REQUEST_WORDS: &str = "find search show list recommend suggest suggestion information info detail detailed access \
    available options best good top new current currently latest recent today now tool tools app application check \
    create work working user users function easy simple time day want many much first second people something things \
    different various high quality popular example kind type set name number start well better learn discuss";

/// The words of a text in lower case, in order, with stop words.
pub(crate) fn split(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut previous = CharKind::Other;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let kind = CharKind::of(character);
        let next = characters.peek().copied().map_or(CharKind::Other, CharKind::of);
        // `readFile`, and `HTTPServer` before the S.
        let is_boundary = match (previous, kind) {
            (CharKind::Lower | CharKind::Digit, CharKind::Upper) => true,
            (CharKind::Upper, CharKind::Upper) => next == CharKind::Lower,
            (CharKind::Ideograph, other) | (other, CharKind::Ideograph) => other != CharKind::Ideograph,
            _ => false,
        };
        if is_boundary || kind == CharKind::Other {
            flush(&mut word, &mut words, previous);
        }
        // `user's` is `user`.
        if matches!(character, '\'' | '’') && previous == CharKind::Lower {
            while characters.peek().is_some_and(|next| next.is_alphabetic()) {
                characters.next();
            }
        }
        if kind != CharKind::Other {
            word.extend(character.to_lowercase());
        }
        previous = kind;
    }
    flush(&mut word, &mut words, previous);
    words
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CharKind {
    Lower,
    Upper,
    Digit,
    /// A character of a script without spaces between words.
    Ideograph,
    Other,
}

impl CharKind {
    fn of(character: char) -> Self {
        match character {
            '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{20000}'..='\u{2fa1f}' => {
                CharKind::Ideograph
            }
            _ if character.is_uppercase() => CharKind::Upper,
            _ if character.is_alphabetic() => CharKind::Lower,
            _ if character.is_ascii_digit() => CharKind::Digit,
            _ => CharKind::Other,
        }
    }
}

fn flush(word: &mut String, words: &mut Vec<String>, kind: CharKind) {
    if word.is_empty() {
        return;
    }
    let text = std::mem::take(word);
    if kind != CharKind::Ideograph {
        words.push(text);
        return;
    }
    // Pairs of characters stand for words where nothing separates them.
    let characters: Vec<char> = text.chars().collect();
    match characters.as_slice() {
        [_] => words.push(text),
        several => words.extend(several.windows(2).map(|pair| pair.iter().collect::<String>())),
    }
}

/// True for words that cannot tell two tools apart.
fn is_stop_word(word: &str) -> bool {
    static WORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| STOP_WORDS.split_whitespace().collect());
    WORDS.contains(word)
}

/// True for words that say more about the request than about the tool.
pub(crate) fn is_request_word(word: &str) -> bool {
    static WORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| REQUEST_WORDS.split_whitespace().collect());
    WORDS.contains(word)
}

/// Longer words, in bytes, are not words: base64, hashes, or an attack on our memory.
const LONGEST: usize = 64;

/// The stem that a word is indexed under; `None` for stop words, numbers and what is too long for a word.
pub(crate) fn term(word: &str) -> Option<String> {
    // `side1` and `side2` are both sides; `mp3` and `s3` are names.
    let letters = word.trim_end_matches(|end: char| end.is_ascii_digit());
    let word = if letters.len() > 3 { letters } else { word };
    let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
    let is_letter = word.len() == 1 && word.is_ascii();
    (!is_number && !is_letter && word.len() <= LONGEST && !is_stop_word(word)).then(|| stem(word))
}

/// The terms of a text, in order.
pub(crate) fn terms(text: &str) -> impl Iterator<Item = String> {
    split(text).into_iter().filter_map(|word| term(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_split_where_a_reader_would_split_them() {
        let check = |text: &str, expected: &[&str]| assert_eq!(split(text), expected, "{text}");
        check("getCurrentWeather", &["get", "current", "weather"]);
        check("get_current-weather.v2", &["get", "current", "weather", "v2"]);
        check("HTTPServerStatus", &["http", "server", "status"]);
        check("OAuth2Token", &["o", "auth2", "token"]);
        check("the user's file", &["the", "user", "file"]);
        check("查询天气now", &["查询", "询天", "天气", "now"]);
        check("", &[]);
        check("naïve Überprüfung", &["naïve", "überprüfung"]);
    }

    #[test]
    fn numbers_letters_and_chatter_are_not_terms() {
        let found: Vec<String> = terms("Could you please give me the 3 sides side1, side2 of x?").collect();
        assert_eq!(found, ["sid"; 3]);
    }
}

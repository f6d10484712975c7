//! Reduces English words to stems, so that `forecasts` finds `forecast`.
//!
//! A light suffix stripper. It only has to map the forms of one word to one string; the string need not be a word.

/// The stem of a word in lower case. Words that are not plain ASCII letters stay as they are.
pub(crate) fn stem(word: &str) -> String {
    if word.len() <= 3 || !word.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return word.to_owned();
    }
    let mut stem = word.to_owned();
    strip_plural(&mut stem);
    strip_inflection(&mut stem);
    strip_derivation(&mut stem);
    normalize_end(&mut stem);
    stem
}

fn strip_plural(word: &mut String) {
    if word.ends_with("sses") || word.ends_with("shes") || word.ends_with("ches") || word.ends_with("xes") {
        word.truncate(word.len() - 2);
    } else if word.ends_with("ies") && word.len() > 4 {
        word.truncate(word.len() - 3);
        word.push('y');
    } else if word.ends_with('s') && !["ss", "us", "is"].iter().any(|end| word.ends_with(end)) {
        word.pop();
    }
}

fn strip_inflection(word: &mut String) {
    let Some(rest) = ["ing", "ed"].iter().find_map(|end| word.strip_suffix(end)) else { return };
    // `bring` and `red` have no vowel before the ending: they are whole words.
    if rest.len() < 3 || !has_vowel(rest) {
        return;
    }
    word.truncate(rest.len());
    // `planning` comes from `plan`, while `calling` comes from `call`.
    let bytes = word.as_bytes();
    let last = bytes[bytes.len() - 1];
    if bytes.len() > 3 && last == bytes[bytes.len() - 2] && !b"lszaeiou".contains(&last) {
        word.pop();
    }
}

/// Endings and what replaces them, the longest first. The number of letters that must stay is the third value.
const DERIVATIONS: [(&str, &str, usize); 26] = [
    ("ization", "iz", 3),
    ("isation", "iz", 3),
    ("ational", "at", 3),
    ("fulness", "ful", 3),
    ("ically", "ic", 3),
    ("ication", "ic", 3),
    ("ation", "at", 3),
    ("ator", "at", 3),
    ("ition", "it", 3),
    ("ction", "ct", 2),
    ("ption", "pt", 2),
    ("ssion", "ss", 2),
    ("izer", "iz", 3),
    ("ical", "ic", 3),
    ("ment", "", 4),
    ("ness", "", 4),
    ("able", "", 4),
    ("ible", "", 4),
    ("ance", "", 4),
    ("ence", "", 4),
    ("ise", "iz", 3),
    ("ize", "iz", 3),
    ("ful", "", 4),
    ("ly", "", 4),
    ("or", "", 5),
    ("er", "", 4),
];

fn strip_derivation(word: &mut String) {
    let found = DERIVATIONS.iter().find_map(|(end, replacement, kept)| {
        let rest = word.strip_suffix(end)?;
        (rest.len() >= *kept && has_vowel(rest)).then_some((rest.len(), *replacement))
    });
    if let Some((kept, replacement)) = found {
        word.truncate(kept);
        word.push_str(replacement);
    }
}

/// `create` and `creat`, `summary` and `summari` become one.
fn normalize_end(word: &mut String) {
    if word.len() > 3 && word.ends_with('e') {
        word.pop();
    }
    if word.len() > 2 && word.ends_with('y') {
        word.pop();
        word.push('i');
    }
    // What is left of a doubled letter, as in `plann` of `planner`.
    let bytes = word.as_bytes();
    if bytes.len() > 4 && bytes[bytes.len() - 1] == bytes[bytes.len() - 2] && !b"sl".contains(&bytes[bytes.len() - 1]) {
        word.pop();
    }
}

fn has_vowel(text: &str) -> bool {
    text.bytes().any(|byte| b"aeiouy".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forms_of_a_word_have_one_stem() {
        for forms in [
            &["forecast", "forecasts", "forecasting", "forecasted"][..],
            &["create", "creates", "creating", "created", "creation", "creator"],
            &["plan", "plans", "planning", "planned", "planner"],
            &["summary", "summaries"],
            &["summarize", "summarizes", "summarization", "summarise"],
            &["delete", "deleting", "deletes", "deleted"],
            &["query", "queries"],
            &["box", "boxes"],
            &["extract", "extraction", "extracting"],
            &["convert", "converter", "converts"],
        ] {
            let stems: Vec<String> = forms.iter().map(|form| stem(form)).collect();
            assert!(stems.iter().all(|stem| *stem == stems[0]), "{forms:?} {stems:?}");
        }
    }

    #[test]
    fn words_that_only_end_like_a_form_stay_apart() {
        for (one, other) in [("bus", "bu"), ("red", "r"), ("string", "str"), ("address", "addre"), ("news", "ne")] {
            assert_ne!(stem(one), stem(other));
        }
        assert_eq!(stem("mp3"), "mp3");
        assert_eq!(stem("天气"), "天气");
    }
}

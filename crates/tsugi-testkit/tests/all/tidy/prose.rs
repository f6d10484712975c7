//! How documents, messages and comments read.

use super::source::production;

/// Words that make an English sentence read like a translation, with what to write instead.
const AWKWARD: [(&str, &str); 14] = [
    ("anew", "again"),
    ("whoever", "the caller, a client"),
    ("nobody", "no client, no caller"),
    ("somebody", "a caller, another process"),
    ("anybody", "any caller"),
    ("meanwhile", "while"),
    ("also where", "even when"),
    ("in vain", "without effect"),
    ("on the spot", "ad-hoc"),
    ("is no message", "is not a message"),
    ("whatsoever", "at all"),
    ("henceforth", "from then on"),
    ("of whom", "whose"),
    ("is told apart", "differs"),
];

/// The awkward words in `text`, as whole words and in any case.
fn awkward_words(text: &str) -> Vec<&'static str> {
    let text = text.to_lowercase();
    let is_word = |sign: Option<char>| sign.is_some_and(|sign| sign.is_alphanumeric() || sign == '_');
    let contains = |word: &str| {
        text.match_indices(word).any(|(start, _)| {
            let (before, after) = (text[..start].chars().next_back(), text[start + word.len()..].chars().next());
            !is_word(before) && !is_word(after)
        })
    };
    AWKWARD.iter().map(|(word, _)| *word).filter(|word| contains(word)).collect()
}

#[test]
fn awkward_words_are_found_as_whole_words() {
    assert_eq!(awkward_words("Written Anew, by whoever."), ["anew", "whoever"]);
    assert!(awkward_words("a new thing, `nobody_is_here`").is_empty());
}

#[test]
fn documents_read_like_english() {
    let mut found = Vec::new();
    for document in super::all(&[".md"]) {
        let path = document.strip_prefix(super::root()).unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&document).unwrap();
        for (number, line) in text.lines().enumerate() {
            found.extend(awkward_words(line).into_iter().map(|word| format!("{path}:{}: {word}", number + 1)));
        }
    }
    assert!(found.is_empty(), "awkward words in documents: {found:#?}");
}

#[test]
fn source_reads_like_english() {
    let mut found = Vec::new();
    for source in production(&super::root()) {
        for (number, line) in source.text.lines().enumerate() {
            // Names are checked elsewhere; here only what is written for people: comments and texts in quotes.
            let prose = line.split_once("//").map_or("", |(_, comment)| comment);
            let quoted: String = line.split('"').skip(1).step_by(2).collect::<Vec<_>>().join(" ");
            let words = awkward_words(&format!("{prose} {quoted}"));
            found.extend(words.into_iter().map(|word| format!("{}:{}: {word}", source.path, number + 1)));
        }
    }
    assert!(found.is_empty(), "awkward words in source: {} in all, {found:#?}", found.len());
}

#[test]
fn dense_files_have_line_comments() {
    // Less than three per hundred lines means that a reader has to guess why a line is there.
    let large: Vec<_> =
        production(&super::root()).into_iter().filter(|source| source.text.lines().count() > 150).collect();
    let (comments, code) = large
        .iter()
        .fold((0, 0), |(comments, code), source| (comments + source.line_comments(), code + source.code_lines()));
    let mut bare: Vec<_> = large
        .iter()
        .filter(|source| source.line_comments() * 100 < source.code_lines() * 3)
        .map(|source| (source.line_comments(), source.code_lines(), source.path.as_str()))
        .collect();
    bare.sort_by_key(|(comments, code, _)| std::cmp::Reverse(code * 3 / 100 - comments));
    assert!(comments * 100 >= code * 3, "{comments} line comments in {code} lines of large files; {bare:#?}");
}

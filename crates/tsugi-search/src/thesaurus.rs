//! Which words stand for which: people ask to "get rid of a document" and the tool is called `delete_file`.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use crate::stem::stem;

/// How near two words are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WordRelation {
    /// One can be said for the other.
    Synonym,
    /// They are about one subject.
    Subject,
    /// The word asked is a kind of the word found.
    Kind,
}

/// The words of the table by stem.
pub(crate) struct Thesaurus {
    related: HashMap<String, Vec<(String, WordRelation)>>,
    words: HashSet<&'static str>,
}

static THESAURUS: LazyLock<Thesaurus> = LazyLock::new(|| Thesaurus::parse(include_str!("thesaurus.txt")));

impl Thesaurus {
    pub(crate) fn global() -> &'static Self {
        &THESAURUS
    }

    fn parse(text: &'static str) -> Self {
        let mut related: HashMap<String, Vec<(String, WordRelation)>> = HashMap::new();
        let mut words = HashSet::new();
        for line in text.lines() {
            let mut parts = line.split_whitespace();
            let relation = match parts.next() {
                Some("=") => WordRelation::Synonym,
                Some("~") => WordRelation::Subject,
                Some(">") => WordRelation::Kind,
                _ => continue,
            };
            let line: Vec<&str> = parts.collect();
            words.extend(line.iter());
            // `> above : below` leads from below to above only: who asks for a camera may want the tool for products, and
            // who asks for products does not want the one for cameras.
            let stems = |part: &[&str]| part.iter().map(|word| stem(word)).collect::<Vec<String>>();
            let (from, to) = match line.iter().position(|word| *word == ":") {
                Some(at) => (stems(&line[at + 1..]), stems(&line[..at])),
                None => (stems(&line), stems(&line)),
            };
            for one in &from {
                let known = related.entry(one.clone()).or_default();
                for other in to.iter().filter(|other| *other != one) {
                    known.push((other.clone(), relation));
                }
            }
        }
        Self { related, words }
    }

    /// The words that may stand for this stem.
    pub(crate) fn related(&self, stem: &str) -> &[(String, WordRelation)] {
        self.related.get(stem).map_or(&[], Vec::as_slice)
    }

    /// True for a word that the table lists as it is.
    pub(crate) fn has_word(&self, word: &str) -> bool {
        self.words.contains(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn synonyms_are_found_by_stem_and_in_both_directions() {
        let thesaurus = Thesaurus::global();
        for (one, other) in [("delete", "remove"), ("folders", "directory"), ("weather", "forecast")] {
            let has = |from: &str, to: &str| thesaurus.related(&stem(from)).iter().any(|(word, _)| *word == stem(to));
            assert!(has(one, other) && has(other, one), "{one} {other}");
        }
        assert!(thesaurus.related("zzz").is_empty());
    }
}

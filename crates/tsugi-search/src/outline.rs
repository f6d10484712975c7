//! Says in a few lines what an index holds, so that a model that sees no tool knows what it can search for.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

use crate::words;

/// The most words that are said about one server.
const MOST_WORDS: usize = 24;

/// One line per server: its name, and the words that most of its tools' names share. As many words as fit into
/// `max_bytes`, and where not even the names fit, how many servers are left out. `tools` are servers with the names of
/// their tools; the same tools give the same bytes.
pub fn outline<'a>(tools: impl IntoIterator<Item = (&'a str, &'a str)>, max_bytes: usize) -> String {
    let groups = groups(tools);
    // Fewer words about every server before any server is left out.
    let mut shortened = (0..=MOST_WORDS).rev().map(|words| write_groups(&groups, words));
    shortened.find(|text| text.len() <= max_bytes).unwrap_or_else(|| names_that_fit(&groups, max_bytes))
}

/// The servers in the order of the list.
fn groups<'a>(tools: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<ToolGroup<'a>> {
    let mut groups: Vec<ToolGroup<'_>> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for (server, name) in tools {
        let place = *places.entry(server).or_insert(groups.len());
        if place == groups.len() {
            groups.push(ToolGroup { server, words: BTreeMap::new() });
        }
        let mut words = words::split(name);
        words.sort();
        words.dedup();
        for word in words.into_iter().filter(|word| word.len() > 2 && words::term(word).is_some()) {
            *groups[place].words.entry(word).or_default() += 1;
        }
    }
    groups
}

struct ToolGroup<'a> {
    server: &'a str,
    /// The words of its tools' names, and how many tools have each.
    words: BTreeMap<String, usize>,
}

impl ToolGroup<'_> {
    fn common_words(&self, count: usize) -> Vec<&str> {
        let mut words: Vec<(&String, &usize)> = self.words.iter().collect();
        // The sort is stable: equally common words stay in the order of the alphabet.
        words.sort_by_key(|(_, tools)| std::cmp::Reverse(**tools));
        words.into_iter().take(count).map(|(word, _)| word.as_str()).collect()
    }
}

fn write_groups(groups: &[ToolGroup<'_>], words: usize) -> String {
    let mut text = String::new();
    for group in groups {
        let common = group.common_words(words);
        let separator = if common.is_empty() { "" } else { ": " };
        let _ = writeln!(text, "- {}{separator}{}", group.server, common.join(", "));
    }
    text
}

fn names_that_fit(groups: &[ToolGroup<'_>], max_bytes: usize) -> String {
    // Room for the line that says how many are missing.
    const LAST_LINE: usize = 32;
    let mut text = String::new();
    for (index, group) in groups.iter().enumerate() {
        if text.len() + group.server.len() + 3 + LAST_LINE > max_bytes {
            let _ = writeln!(text, "- and {} more servers", groups.len() - index);
            break;
        }
        let _ = writeln!(text, "- {}", group.server);
    }
    text
}

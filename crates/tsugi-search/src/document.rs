//! What is known about one tool, and its words by field.

use std::collections::HashMap;

use crate::thesaurus::Thesaurus;
use crate::words;

/// A tool as its server describes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolDocument {
    /// The name that the tool is called by. Results name it.
    pub name: String,
    /// What the server itself calls it, where that differs.
    pub own_name: String,
    pub title: String,
    pub description: String,
    pub server: String,
    pub parameters: Vec<ToolParameter>,
}

impl ToolDocument {
    /// What the server calls it.
    pub(crate) fn own_name(&self) -> &str {
        if self.own_name.is_empty() { &self.name } else { &self.own_name }
    }
}

/// One argument of a tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolParameter {
    pub name: String,
    pub description: String,
}

/// Where a word of a tool stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ToolField {
    Name,
    Title,
    /// The first sentence of the description, which nearly always says what the tool does.
    Lead,
    Description,
    ParameterName,
    ParameterDescription,
    Server,
}

pub(crate) const FIELDS: usize = ToolField::Server as usize + 1;

/// A tool whose text is split already. Kept across rebuilds of an index, since splitting is most of the work.
#[derive(Debug)]
pub(crate) struct AnalyzedTool {
    pub(crate) document: ToolDocument,
    /// How often each stem occurs in each field.
    pub(crate) counts: HashMap<String, [u16; FIELDS]>,
    /// How many words each field has.
    pub(crate) lengths: [u32; FIELDS],
}

impl AnalyzedTool {
    pub(crate) fn new(document: ToolDocument) -> Self {
        let mut tool = Self { counts: HashMap::new(), lengths: [0; FIELDS], document: ToolDocument::default() };
        let lead_end = lead_length(&document.description);
        let (lead, rest) = document.description.split_at(lead_end);
        tool.add(ToolField::Title, &document.title);
        tool.add(ToolField::Lead, lead);
        tool.add(ToolField::Description, rest);
        tool.add(ToolField::Server, &document.server);
        tool.add_name(document.own_name(), &document.description);
        for parameter in &document.parameters {
            tool.add(ToolField::ParameterName, &parameter.name);
            tool.add(ToolField::ParameterDescription, &parameter.description);
        }
        tool.document = document;
        tool
    }

    fn add(&mut self, field: ToolField, text: &str) {
        words::terms(text).for_each(|term| self.add_term(field, term));
    }

    fn add_term(&mut self, field: ToolField, term: String) {
        let count = &mut self.counts.entry(term).or_default()[field as usize];
        *count = count.saturating_add(1);
        self.lengths[field as usize] += 1;
    }

    /// Adds a name, and the words inside its words: `airqualityforecast` is about air, quality and a forecast.
    fn add_name(&mut self, name: &str, description: &str) {
        let described = words::split(description);
        for word in words::split(name) {
            for part in compound_parts(&word, &described) {
                if let Some(term) = words::term(part) {
                    self.add_term(ToolField::Name, term);
                }
            }
            if let Some(term) = words::term(&word) {
                self.add_term(ToolField::Name, term);
            }
        }
    }
}

/// Where the first sentence or line ends.
fn lead_length(description: &str) -> usize {
    let sentence = description.find(". ").map(|at| at + 1);
    let line = description.find('\n');
    [sentence, line].into_iter().flatten().min().unwrap_or(description.len())
}

/// Known words that a run-together word is made of, longest first from the left. Words of the tool's own description
/// are known, and those of the thesaurus.
fn compound_parts<'a>(word: &'a str, described: &[String]) -> Vec<&'a str> {
    const SHORTEST: usize = 4;
    const LONGEST: usize = 16;
    let mut parts = Vec::new();
    if !word.is_ascii() || word.len() < 2 * SHORTEST - 1 || Thesaurus::global().has_word(word) {
        return parts;
    }
    let mut at = 0;
    while at + SHORTEST <= word.len() {
        let known = |end: &usize| {
            let part = &word[at..*end];
            Thesaurus::global().has_word(part) || described.iter().any(|other| other == part)
        };
        let longest = if at == 0 { word.len() - 1 } else { word.len() };
        // No word of a language is longer, and a hostile name must not cost the square of its length.
        let longest = longest.min(at + LONGEST);
        match (at + SHORTEST..=longest).rev().find(known) {
            Some(end) => {
                parts.push(&word[at..end]);
                at = end;
            }
            None => at += 1,
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_inside_a_run_together_name_are_found() {
        let described = words::split("Get the 2-day air quality forecast");
        assert_eq!(compound_parts("airqualityforecast", &described), ["quality", "forecast"]);
        assert_eq!(compound_parts("weatherqqq", &[]), ["weather"]);
        assert!(compound_parts("weather", &[]).is_empty(), "a known word is whole");
        assert!(compound_parts("größenwahnsinnig", &[]).is_empty());
    }

    #[test]
    fn the_first_sentence_is_a_field_of_its_own() {
        let tool = AnalyzedTool::new(ToolDocument {
            name: "x".to_owned(),
            description: "Deletes files. Never touches folders.".to_owned(),
            ..ToolDocument::default()
        });
        let field = |word: &str| tool.counts[&crate::stem::stem(word)];
        assert_eq!(field("deletes")[ToolField::Lead as usize], 1);
        assert_eq!(field("folders")[ToolField::Description as usize], 1);
    }
}

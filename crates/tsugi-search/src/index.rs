//! The index: which tools have which word, and how well each answers a query.

use std::collections::HashMap;
use std::sync::Arc;

use crate::document::{AnalyzedTool, ToolDocument, ToolField};
use crate::ranking::{FieldLengths, RankingWeights, rarity};
use crate::thesaurus::{Thesaurus, WordRelation};
use crate::words;

/// Every tool's words. Immutable: a changed list makes a new index, which takes over what did not change.
pub struct ToolIndex {
    tools: Vec<Arc<AnalyzedTool>>,
    /// By stem, the tools that have it with their saturated frequency.
    postings: HashMap<String, TermPostings>,
    /// By tool, what all words of its name are worth together.
    names: Vec<f32>,
    weights: RankingWeights,
}

struct TermPostings {
    rarity: f32,
    tools: Vec<Posting>,
}

/// One word in one tool.
struct Posting {
    tool: u32,
    frequency: f32,
    is_in_name: bool,
}

/// A tool that was found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ToolHit {
    /// Its place in the list that the index was made of.
    pub tool: usize,
    /// Comparable within one search only.
    pub score: f32,
}

impl ToolIndex {
    pub fn new(documents: Vec<ToolDocument>) -> Self {
        Self::with_weights(documents, RankingWeights::default())
    }

    pub fn with_weights(documents: Vec<ToolDocument>, weights: RankingWeights) -> Self {
        let tools = documents.into_iter().map(|document| Arc::new(AnalyzedTool::new(document))).collect();
        Self::of(tools, weights)
    }

    /// An index of these tools. Tools that this index has already are not split into words again.
    pub fn updated(&self, documents: Vec<ToolDocument>) -> Self {
        let known: HashMap<&str, &Arc<AnalyzedTool>> =
            self.tools.iter().map(|tool| (tool.document.name.as_str(), tool)).collect();
        let analyze = |document: ToolDocument| match known.get(document.name.as_str()) {
            Some(tool) if tool.document == document => (*tool).clone(),
            _ => Arc::new(AnalyzedTool::new(document)),
        };
        Self::of(documents.into_iter().map(analyze).collect(), self.weights.clone())
    }

    /// The same tools under other weights.
    pub fn reweighted(&self, weights: RankingWeights) -> Self {
        Self::of(self.tools.clone(), weights)
    }

    fn of(tools: Vec<Arc<AnalyzedTool>>, weights: RankingWeights) -> Self {
        let lengths = FieldLengths::average(tools.iter().map(|tool| &tool.lengths));
        let mut postings: HashMap<String, TermPostings> = HashMap::new();
        for (index, tool) in tools.iter().enumerate() {
            for (term, counts) in &tool.counts {
                let frequency = lengths.frequency(counts, &tool.lengths, &weights);
                let saturated = frequency / (frequency + weights.saturation);
                let is_in_name = counts[ToolField::Name as usize] > 0;
                let found = Posting { tool: index as u32, frequency: saturated, is_in_name };
                match postings.get_mut(term) {
                    Some(known) => known.tools.push(found),
                    None => {
                        postings.insert(term.clone(), TermPostings { rarity: 0.0, tools: vec![found] });
                    }
                }
            }
        }
        postings.values_mut().for_each(|term| term.rarity = rarity(term.tools.len(), tools.len()));
        let mut names = vec![0.0; tools.len()];
        for term in postings.values() {
            let in_name = term.tools.iter().filter(|posting| posting.is_in_name);
            in_name.for_each(|posting| names[posting.tool as usize] += term.rarity);
        }
        Self { tools, postings, names, weights }
    }

    pub fn len(&self) -> usize {
        self.tools.len()
    }

    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// The tool at this place of the list.
    pub fn document(&self, tool: usize) -> Option<&ToolDocument> {
        self.tools.get(tool).map(|tool| &tool.document)
    }

    /// The best tools for a query, best first, at most `limit`. Tools that `is_shown` refuses are never found, and how
    /// often each tool was called, by `uses`, decides between tools that fit about equally well.
    pub fn search(
        &self,
        query: &str,
        limit: usize,
        is_shown: impl Fn(usize) -> bool,
        uses: impl Fn(usize) -> u64,
    ) -> Vec<ToolHit> {
        let mut sheet = ScoreSheet::new(self.tools.len());
        for (term, importance) in query_terms(query, &self.weights) {
            self.score_term(&term, importance, &mut sheet);
            sheet.close_term();
        }
        let score = |tool: usize| {
            let name_share = if self.names[tool] > 0.0 { sheet.in_name[tool] / self.names[tool] } else { 0.0 };
            let gain = 1.0 + self.weights.name_share * name_share;
            sheet.totals[tool] * gain * self.usage_gain(uses(tool))
        };
        let mut hits: Vec<ToolHit> = (0..self.tools.len())
            .filter(|tool| sheet.totals[*tool] > 0.0 && is_shown(*tool))
            .map(|tool| ToolHit { tool, score: score(tool) })
            .collect();
        // Ties keep the order of the list, so that equal queries have equal answers.
        hits.sort_by(|one, other| other.score.total_cmp(&one.score).then(one.tool.cmp(&other.tool)));
        hits.truncate(limit);
        hits
    }

    /// What one word of the query is worth to each tool: the best of the word itself and of what may stand for it. Not
    /// the sum, or a tool that lists many synonyms would beat one that has the word.
    fn score_term(&self, term: &str, importance: f32, sheet: &mut ScoreSheet) {
        if let Some(asked) = self.postings.get(term) {
            sheet.raise(asked, asked.rarity * importance, 1.0);
        }
        for (related, relation) in Thesaurus::global().related(term) {
            let Some(found) = self.postings.get(related) else { continue };
            let share = match relation {
                WordRelation::Synonym => self.weights.synonym,
                WordRelation::Subject => self.weights.subject,
                WordRelation::Kind => self.weights.kind,
            };
            sheet.raise(found, found.rarity * importance * share, share);
        }
    }

    /// Between 1 and 1 + the weight of usage, reached at about a thousand calls.
    fn usage_gain(&self, uses: u64) -> f32 {
        let calls = (uses as f32).ln_1p();
        1.0 + self.weights.usage * (calls / 7.0).min(1.0)
    }
}

/// The scores of all tools while a query is read word by word.
struct ScoreSheet {
    totals: Vec<f32>,
    /// The part of the words of its name that the query has.
    in_name: Vec<f32>,
    /// The best of the current word, for the tools in `touched`.
    best: Vec<(f32, f32)>,
    touched: Vec<u32>,
}

impl ScoreSheet {
    fn new(tools: usize) -> Self {
        Self { totals: vec![0.0; tools], in_name: vec![0.0; tools], best: vec![(0.0, 0.0); tools], touched: Vec::new() }
    }

    fn raise(&mut self, postings: &TermPostings, weight: f32, name_share: f32) {
        for posting in &postings.tools {
            let best = &mut self.best[posting.tool as usize];
            if best.0 == 0.0 {
                self.touched.push(posting.tool);
            }
            best.0 = best.0.max(weight * posting.frequency);
            if posting.is_in_name {
                best.1 = best.1.max(postings.rarity * name_share);
            }
        }
    }

    fn close_term(&mut self) {
        for tool in self.touched.drain(..) {
            let (score, in_name) = std::mem::take(&mut self.best[tool as usize]);
            self.totals[tool as usize] += score;
            self.in_name[tool as usize] += in_name;
        }
    }
}

/// How much of a query is read. A sentence is shorter, and a body of megabytes must not keep a thread busy.
const MAX_QUERY_CHARS: usize = 1024;

/// The distinct stems of a query with their importance. A query is a sentence: what it repeats is not more important.
fn query_terms(query: &str, weights: &RankingWeights) -> Vec<(String, f32)> {
    let end = query.char_indices().nth(MAX_QUERY_CHARS).map_or(query.len(), |(end, _)| end);
    let query = &query[..end];
    let mut terms: Vec<(String, f32)> = Vec::new();
    for word in words::split(query) {
        let Some(term) = words::term(&word) else { continue };
        if !terms.iter().any(|(known, _)| *known == term) {
            let importance = if words::is_request_word(&word) { weights.request_word } else { 1.0 };
            terms.push((term, importance));
        }
    }
    terms
}

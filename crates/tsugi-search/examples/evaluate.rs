//! Measures the search on public sets: recall on the half that no weight was tuned on, beside plain BM25, and CPU time.
//!
//! `scripts/search-eval DIR` prepares the sets and runs this. A query belongs to the tuning half when its SHA-256 begins
//! with an even hexadecimal digit.

#![allow(clippy::print_stdout)]

use std::collections::HashMap;

use serde_json::Value;
use tsugi_search::{ToolDocument, ToolIndex, ToolParameter};

const SETS: [&str; 4] = ["golden", "steps", "metatool", "bfcl"];

struct EvaluationSet {
    tools: Vec<ToolDocument>,
    queries: Vec<EvaluationQuery>,
}

struct EvaluationQuery {
    text: String,
    wanted: Vec<String>,
    /// One of the wanted tools is enough: the label names a tool that several servers have.
    is_any: bool,
    is_for_tuning: bool,
}

impl EvaluationSet {
    fn read(path: &str) -> Self {
        let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let set: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"));
        let items = |key: &str| set[key].as_array().cloned().unwrap_or_default();
        Self {
            tools: items("tools").iter().map(read_tool).collect(),
            queries: items("queries").iter().map(read_query).collect(),
        }
    }

    fn recall(&self, count: usize, is_for_tuning: bool, search: impl Fn(&str) -> Vec<usize>) -> f64 {
        let half: Vec<&EvaluationQuery> =
            self.queries.iter().filter(|query| query.is_for_tuning == is_for_tuning).collect();
        let of = |query: &&EvaluationQuery| {
            let found = search(&query.text);
            let hits = found.iter().take(count).filter(|tool| query.wanted.contains(&self.tools[**tool].name)).count();
            match query.is_any {
                true => f64::from(u8::from(hits > 0)),
                false => hits as f64 / query.wanted.len() as f64,
            }
        };
        half.iter().map(of).sum::<f64>() / half.len().max(1) as f64
    }
}

fn string(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn read_tool(tool: &Value) -> ToolDocument {
    let parameter = |pair: &Value| ToolParameter { name: string(&pair[0]), description: string(&pair[1]) };
    ToolDocument {
        name: string(&tool["id"]),
        own_name: string(&tool["name"]),
        title: String::new(),
        description: string(&tool["description"]),
        server: string(&tool["server"]),
        parameters: tool["params"].as_array().into_iter().flatten().map(parameter).collect(),
    }
}

fn read_query(query: &Value) -> EvaluationQuery {
    let text = string(&query["text"]);
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    EvaluationQuery {
        is_for_tuning: (digest.as_ref()[0] >> 4).is_multiple_of(2),
        wanted: query["wanted"].as_array().into_iter().flatten().map(string).collect(),
        is_any: query["any"].as_bool() == Some(true),
        text,
    }
}

/// Okapi BM25 with k1 1.5 and b 0.75 over one field of unstemmed words, as several gateways have it.
struct PlainBm25 {
    postings: HashMap<String, Vec<(usize, f64)>>,
    tools: usize,
}

impl PlainBm25 {
    fn new(tools: &[ToolDocument]) -> Self {
        let words: Vec<Vec<String>> = tools.iter().map(|tool| plain_words(&plain_text(tool))).collect();
        let average = words.iter().map(Vec::len).sum::<usize>() as f64 / words.len().max(1) as f64;
        let mut counts: HashMap<String, HashMap<usize, f64>> = HashMap::new();
        for (tool, words) in words.iter().enumerate() {
            for word in words {
                *counts.entry(word.clone()).or_default().entry(tool).or_default() += 1.0;
            }
        }
        let score = |having: usize, tool: usize, count: f64| {
            let rarity = (1.0 + (tools.len() as f64 - having as f64 + 0.5) / (having as f64 + 0.5)).ln();
            rarity * count * 2.5 / (count + 1.5 * (0.25 + 0.75 * words[tool].len() as f64 / average))
        };
        let weigh = |(word, tools): (String, HashMap<usize, f64>)| {
            let having = tools.len();
            (word, tools.into_iter().map(|(tool, count)| (tool, score(having, tool, count))).collect())
        };
        Self { postings: counts.into_iter().map(weigh).collect(), tools: tools.len() }
    }

    fn search(&self, query: &str, limit: usize) -> Vec<usize> {
        let mut scores = vec![0.0; self.tools];
        for word in plain_words(query) {
            self.postings.get(&word).into_iter().flatten().for_each(|(tool, score)| scores[*tool] += score);
        }
        let mut found: Vec<usize> = (0..self.tools).filter(|tool| scores[*tool] > 0.0).collect();
        found.sort_by(|one, other| scores[*other].total_cmp(&scores[*one]));
        found.truncate(limit);
        found
    }
}

fn plain_text(tool: &ToolDocument) -> String {
    let parameters = tool.parameters.iter().map(|parameter| format!(" {} {}", parameter.name, parameter.description));
    format!("{} {}{}", tool.own_name, tool.description, parameters.collect::<String>())
}

fn plain_words(text: &str) -> Vec<String> {
    let words = text.split(|character: char| !character.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_ascii_lowercase).collect()
}

/// The nanoseconds that this thread has run. Other programs on the machine do not count.
fn cpu_time() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux keeps the time of each thread");
    text.split_whitespace().next().and_then(|time| time.parse().ok()).expect("the first number is the time")
}

fn main() {
    let directory = std::env::args().nth(1).expect("the directory with the prepared sets");
    println!(
        "| set | tools / kept queries | plain BM25 @1 / @5 | tsugi @1 / @5 | tuning half @5 | CPU per query, µs | CPU for the index, ms |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for name in SETS {
        let set = EvaluationSet::read(&format!("{directory}/{name}.json"));
        report(name, &set);
    }
}

fn report(name: &str, set: &EvaluationSet) {
    let tools = set.tools.clone();
    // The thesaurus is read once per program.
    ToolIndex::new(Vec::new()).search("warm file", 1, |_| true, |_| 0);
    let begun = cpu_time();
    let index = ToolIndex::new(tools);
    let built = cpu_time() - begun;
    let plain = PlainBm25::new(&set.tools);
    let search = |query: &str| index.search(query, 5, |_| true, |_| 0).into_iter().map(|hit| hit.tool).collect();
    let begun = cpu_time();
    let tuning = set.recall(5, true, search);
    let first = set.recall(1, false, search);
    let fifth = set.recall(5, false, search);
    // Every query was searched for once and those of the kept half twice.
    let kept = set.queries.iter().filter(|query| !query.is_for_tuning).count();
    let each = (cpu_time() - begun) / 1e3 / (set.queries.len() + kept) as f64;
    let (plain_first, plain_fifth) =
        (set.recall(1, false, |query| plain.search(query, 1)), set.recall(5, false, |query| plain.search(query, 5)));
    println!(
        "| {name} | {} / {kept} | {plain_first:.3} / {plain_fifth:.3} | {first:.3} / {fifth:.3} | {tuning:.3} | {each:.0} | {:.1} |",
        set.tools.len(),
        built / 1e6,
    );
}

//! What a search finds, and what it never finds.

#![allow(clippy::unwrap_used)]

use tsugi_search::{ToolDocument, ToolHit, ToolIndex, ToolParameter, outline};

fn tool(server: &str, name: &str, description: &str) -> ToolDocument {
    ToolDocument {
        name: format!("{server}__{name}"),
        own_name: name.to_owned(),
        description: description.to_owned(),
        server: server.to_owned(),
        ..ToolDocument::default()
    }
}

fn workshop() -> Vec<ToolDocument> {
    vec![
        tool("files", "read_file", "Read the complete contents of a file as text."),
        tool("files", "delete_file", "Delete a file. This cannot be undone."),
        tool("files", "list_directory", "List the entries of a directory."),
        tool("weather", "getForecast", "Weather forecast for a city."),
        tool("mail", "send_message", "Send an email to one or more people."),
        tool("mail", "list_messages", "List the newest messages of the inbox."),
    ]
}

fn names(index: &ToolIndex, hits: &[ToolHit]) -> Vec<String> {
    hits.iter().map(|hit| index.document(hit.tool).unwrap().own_name.clone()).collect()
}

fn first(index: &ToolIndex, query: &str) -> String {
    let hits = index.search(query, 1, |_| true, |_| 0);
    names(index, &hits).pop().unwrap_or_default()
}

#[test]
fn a_sentence_finds_its_tool_by_stems_and_synonyms() {
    let index = ToolIndex::new(workshop());
    for (query, expected) in [
        ("Please erase this document", "delete_file"),
        ("what is in that folder?", "list_directory"),
        ("Will it rain in Kyoto tomorrow?", "getForecast"),
        ("deliver an email to my landlord", "send_message"),
        ("deleting files", "delete_file"),
        ("get_forecast", "getForecast"),
    ] {
        assert_eq!(first(&index, query), expected, "{query}");
    }
}

#[test]
fn a_query_without_known_words_finds_nothing() {
    let index = ToolIndex::new(workshop());
    for query in ["", "   ", "the of and", "xylophone zyzzyva", "12345", "\u{0}\u{1}", "🦀🦀"] {
        assert!(index.search(query, 5, |_| true, |_| 0).is_empty(), "{query:?}");
    }
    assert!(ToolIndex::new(Vec::new()).search("file", 5, |_| true, |_| 0).is_empty());
}

#[test]
fn a_tool_that_is_not_shown_is_neither_found_nor_counted_in_the_outline() {
    let index = ToolIndex::new(workshop());
    let is_shown = |tool: usize| index.document(tool).unwrap().server != "mail";
    let hits = index.search("list send message email inbox", 10, is_shown, |_| 0);
    assert!(!hits.is_empty());
    assert!(hits.iter().all(|hit| is_shown(hit.tool)), "{:?}", names(&index, &hits));
    let tools = (0..index.len()).filter(|tool| is_shown(*tool)).map(|tool| index.document(tool).unwrap());
    let outline = outline(tools.map(|tool| (tool.server.as_str(), tool.own_name.as_str())), 1000);
    assert!(outline.contains("files") && !outline.contains("mail") && !outline.contains("message"), "{outline}");
}

#[test]
fn parameters_and_servers_are_searched_too() {
    let mut tools = workshop();
    tools[2].parameters = vec![ToolParameter {
        name: "glob".to_owned(),
        description: "Only entries that match this wildcard.".to_owned(),
    }];
    let index = ToolIndex::new(tools);
    assert_eq!(first(&index, "glob"), "list_directory");
    assert_eq!(first(&index, "weather"), "getForecast");
}

#[test]
fn usage_decides_between_tools_that_fit_equally_and_not_against_a_better_one() {
    let tools = vec![tool("a", "read_file", "Reads a file."), tool("b", "read_file", "Reads a file.")];
    let index = ToolIndex::new(tools);
    let best = |uses: fn(usize) -> u64| index.search("read file", 1, |_| true, uses)[0].tool;
    assert_eq!(best(|_| 0), 0, "without usage the list decides");
    assert_eq!(best(|tool| if tool == 1 { 40 } else { 0 }), 1);

    let index = ToolIndex::new(workshop());
    let hits = index.search("delete a file", 1, |_| true, |tool| if tool == 0 { u64::MAX } else { 0 });
    assert_eq!(names(&index, &hits), ["delete_file"]);
}

#[test]
fn an_updated_index_answers_as_one_that_was_made_new() {
    let old = ToolIndex::new(workshop());
    let mut tools = workshop();
    tools.remove(1);
    tools[0].description = "Shows an invoice.".to_owned();
    tools.push(tool("git", "git_log", "Shows the commit logs."));
    let (updated, new) = (old.updated(tools.clone()), ToolIndex::new(tools));
    for query in ["delete a file", "invoice", "history of commits", "weather", "messages"] {
        let search = |index: &ToolIndex| index.search(query, 10, |_| true, |_| 0);
        let (found, expected) = (search(&updated), search(&new));
        assert_eq!(names(&updated, &found), names(&new, &expected), "{query}");
        for (one, other) in found.iter().zip(&expected) {
            // Sums over a hash map are added in any order.
            assert!((one.score - other.score).abs() < 1e-4, "{query}: {one:?} {other:?}");
        }
    }
    assert_eq!(old.len(), 6, "the old index is untouched");
}

#[test]
fn the_outline_fits_its_limit_whatever_there_is() {
    let many = |servers: usize, tools: usize| {
        let of =
            |server: usize| (0..tools).map(move |n| (format!("server{server}"), format!("read_thing{n}_of_word{n}")));
        let tools: Vec<(String, String)> = (0..servers).flat_map(of).collect();
        outline(tools.iter().map(|(server, name)| (server.as_str(), name.as_str())), 1500)
    };
    for (servers, tools) in [(0, 0), (1, 1), (1, 5000), (70, 8), (500, 1)] {
        let outline = many(servers, tools);
        assert!(outline.len() <= 1500, "{servers} servers: {} bytes", outline.len());
    }
    let crowded = many(500, 1);
    assert!(crowded.lines().last().unwrap().contains("more servers"), "{crowded}");
    let tools = workshop();
    let small = outline(tools.iter().map(|tool| (tool.server.as_str(), tool.own_name.as_str())), 1500);
    assert!(small.contains("- files: file,") && small.contains("- mail: "), "{small}");
}

#[test]
fn hostile_text_is_only_text() {
    let long = "a".repeat(1 << 20);
    let strange = ["\u{202e}evil", "'''''", "’s", "日", "é".repeat(5000).as_str(), &long].map(str::to_owned);
    let tools = strange.iter().map(|text| tool(text, text, text)).chain(workshop()).collect();
    let index = ToolIndex::new(tools);
    for query in &strange {
        index.search(query, 5, |_| true, |_| 0);
    }
    // Only the beginning of a query is read: the work for one must not grow with its length.
    let padded = |filler: &str| filler.repeat(2000) + " delete a file";
    assert!(index.search(&padded("xyz "), 5, |_| true, |_| 0).is_empty());
    assert_eq!(first(&index, "read a file"), "read_file");
}

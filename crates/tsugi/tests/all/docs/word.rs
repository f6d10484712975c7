//! Commands that documents only mention, or do not run, still have to exist: each word and flag is looked up.

use super::page::{Kind, Page};

/// A command of the reference with its help.
struct Known {
    name: String,
    help: String,
}

/// The commands, longest name first.
fn known() -> Vec<Known> {
    let reference = Page::read("docs/reference/command-line.md");
    let sections = reference.text.split("\n## `").skip(1);
    let mut known: Vec<Known> = sections
        .filter_map(|section| section.split_once('`'))
        .map(|(name, help)| Known { name: name.to_owned(), help: help.to_owned() })
        .collect();
    known.sort_by_key(|command| std::cmp::Reverse(command.name.len()));
    known
}

/// What is wrong with a command line that begins with `tsugi`, if anything.
fn mistake(known: &[Known], line: &str) -> Option<String> {
    // What is quoted, and what another program is told, is not ours to know.
    let own = line.split(['\'', '"', '|', '>', '#', '…']).next().unwrap_or_default();
    let words: Vec<&str> = own.split_whitespace().take_while(|word| *word != "--").collect();
    let is_flag = |word: &&&str| word.starts_with("--") && word.len() > 2;
    let plain: Vec<&str> = words.iter().filter(|word| !word.starts_with('-')).copied().collect();
    let text = plain.join(" ");
    let command = known.iter().find(|one| text == one.name || text.starts_with(&format!("{} ", one.name)))?;
    let named = plain.get(1).filter(|word| word.chars().all(|one| one.is_ascii_lowercase() || one == '-'));
    if command.name == "tsugi" && named.is_some() {
        return Some(format!("`{line}`: no such command"));
    }
    let shared = &known.iter().find(|one| one.name == "tsugi")?.help;
    let parents = known.iter().filter(|one| command.name.starts_with(&format!("{} ", one.name)));
    let helps: Vec<&str> = parents.map(|one| one.help.as_str()).chain([command.help.as_str(), shared]).collect();
    let unknown = words.iter().filter(is_flag).map(|word| word.split('=').next().unwrap_or_default());
    let unknown = unknown.filter(|flag| !helps.iter().any(|help| help.contains(flag))).collect::<Vec<_>>();
    (!unknown.is_empty()).then(|| format!("`{line}`: {unknown:?} is not a flag of `{}`", command.name))
}

/// The command lines of a page: in blocks, and in the text between backticks.
fn lines(page: &Page) -> Vec<String> {
    let blocks = page
        .blocks()
        .into_iter()
        .filter(|block| matches!(block.kind(&page.name), Kind::Run | Kind::Serve | Kind::NotRun(_)));
    let in_blocks: Vec<String> =
        blocks.flat_map(|block| block.text.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
    let prose = page.prose();
    let in_text = prose.split('`').skip(1).step_by(2).map(str::to_owned);
    in_blocks.into_iter().chain(in_text).filter(|line| line == "tsugi" || line.starts_with("tsugi ")).collect()
}

#[test]
fn every_command_and_flag_that_is_named_exists() {
    let known = known();
    let pages = Page::all().into_iter().filter(|page| page.name != "docs/reference/command-line.md");
    let mut count = 0;
    let mut mistakes = Vec::new();
    for page in pages {
        for line in lines(&page) {
            count += 1;
            mistakes.extend(mistake(&known, &line).map(|mistake| format!("{}: {mistake}", page.name)));
        }
    }
    assert!(count > 50, "hardly any command was found: {count}");
    assert!(mistakes.is_empty(), "{mistakes:#?}");
}

#[test]
fn a_word_or_flag_that_does_not_exist_is_found() {
    let known = known();
    assert_eq!(mistake(&known, "tsugi call --json demo/echo message=hi"), None);
    assert_eq!(mistake(&known, "tsugi pm board --db team.db --json"), None);
    assert_eq!(mistake(&known, "tsugi add files -- npx --whatever"), None);
    assert!(mistake(&known, "tsugi frobnicate").is_some());
    assert!(mistake(&known, "tsugi call --frobnicate demo/echo").is_some());
}

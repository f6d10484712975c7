//! A document as the test reads it: its fenced blocks, and what the words behind the fence ask for.

use std::path::{Path, PathBuf};

/// A document.
pub(crate) struct Page {
    /// Its path from the root of the repository.
    pub(crate) name: String,
    pub(crate) text: String,
}

/// A fenced block.
pub(crate) struct Block {
    /// The line of its fence.
    pub(crate) line: usize,
    /// What stands behind the fence.
    pub(crate) info: String,
    pub(crate) text: String,
}

/// What is to be done with a block.
pub(crate) enum Kind<'a> {
    /// `sh`: it is run and must succeed.
    Run,
    /// `sh serve`: one command that starts a gateway, which stays until the next one or the end of the page.
    Serve,
    /// `sh no-run: REASON`.
    NotRun(&'a str),
    /// `text output`: lines that the block before must have printed, in this order.
    Output,
    /// `yaml`, or `yaml file=NAME` to keep it: a configuration that `tsugi check` accepts.
    Settings(Option<&'a str>),
    /// `json`, or `json file=NAME` to keep it.
    Json(Option<&'a str>),
    /// Anything else is only read by people, or compiled by rustdoc.
    Other,
}

/// Where the repository begins.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

impl Page {
    pub(crate) fn read(name: &str) -> Self {
        let text = std::fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        Page { name: name.to_owned(), text }
    }

    /// All documents below a folder, in the order of their names.
    pub(crate) fn below(folder: &str) -> Vec<Self> {
        let mut entries: Vec<PathBuf> =
            std::fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path()).collect();
        entries.sort();
        let mut pages = Vec::new();
        for path in entries {
            let name = format!("{folder}/{}", path.file_name().unwrap().to_string_lossy());
            if path.is_dir() {
                pages.extend(Page::below(&name));
            } else if name.ends_with(".md") {
                pages.push(Page::read(&name));
            }
        }
        pages
    }

    /// Every document for people who use tsugi.
    pub(crate) fn all() -> Vec<Self> {
        let top = ["README.md", "README.ja.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "CHANGELOG.md"];
        top.into_iter().map(Page::read).chain(Page::below("docs")).collect()
    }

    pub(crate) fn blocks(&self) -> Vec<Block> {
        let mut blocks = Vec::new();
        let mut open: Option<Block> = None;
        for (index, line) in self.text.lines().enumerate() {
            match (open.take(), line.strip_prefix("```")) {
                (None, Some(info)) => {
                    open = Some(Block { line: index + 1, info: info.to_owned(), text: String::new() })
                }
                (None, None) => {}
                (Some(block), Some("")) => blocks.push(block),
                (Some(mut block), _) => {
                    block.text.push_str(line);
                    block.text.push('\n');
                    open = Some(block);
                }
            }
        }
        assert!(open.is_none(), "{}: a block is never closed", self.name);
        blocks
    }

    /// The text without its fenced blocks.
    pub(crate) fn prose(&self) -> String {
        let mut is_block = false;
        let outside = self.text.lines().filter(|line| {
            let is_fence = line.starts_with("```");
            is_block ^= is_fence;
            !is_block && !is_fence
        });
        outside.collect::<Vec<_>>().join("\n")
    }
}

impl Block {
    pub(crate) fn kind(&self, place: &str) -> Kind<'_> {
        let (language, rest) = self.info.split_once(' ').unwrap_or((&self.info, ""));
        match (language, rest) {
            ("sh", "") => Kind::Run,
            ("sh", "serve") => Kind::Serve,
            ("sh", rest) => match rest.strip_prefix("no-run: ") {
                Some(reason) => Kind::NotRun(reason),
                None => panic!("{place}: `{rest}` is neither `serve` nor `no-run: REASON`"),
            },
            ("text", "output") => Kind::Output,
            ("yaml", rest) => Kind::Settings(rest.strip_prefix("file=")),
            ("json", rest) => Kind::Json(rest.strip_prefix("file=")),
            ("bash" | "shell" | "console" | "", _) => panic!("{place}: call it `sh`, so that it is tried, or `text`"),
            _ => Kind::Other,
        }
    }
}

#[test]
fn blocks_are_found_with_their_words() {
    let text = "a\n```sh no-run: needs npm\nnpx x\n```\n`tsugi call`\n```text\n```\n".to_owned();
    let page = Page { name: "page".to_owned(), text };
    let blocks = page.blocks();
    assert_eq!((blocks.len(), blocks[0].line, blocks[0].text.as_str()), (2, 2, "npx x\n"));
    assert!(matches!(blocks[0].kind(""), Kind::NotRun("needs npm")));
    assert_eq!(page.prose(), "a\n`tsugi call`");
}

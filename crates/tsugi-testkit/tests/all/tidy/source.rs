//! Production source files as the tidy checks see them: without tests, and with comments told apart from code.

use std::path::{Path, PathBuf};

/// One production file, without its inline test modules.
pub(super) struct SourceFile {
    /// Relative to the root of the repository.
    pub(super) path: String,
    pub(super) text: String,
}

impl SourceFile {
    pub(super) fn crate_name(&self) -> &str {
        self.path.split('/').nth(1).unwrap()
    }

    /// Lines that are neither blank nor comments.
    pub(super) fn code_lines(&self) -> usize {
        self.text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//")).count()
    }

    /// Line comments beside or between the code. Doc comments do not count.
    pub(super) fn line_comments(&self) -> usize {
        let is_comment = |line: &str| {
            let line = line.trim();
            let is_doc = line.starts_with("///") || line.starts_with("//!");
            !is_doc && (line.starts_with("//") || line.contains("; // "))
        };
        self.text.lines().filter(|line| is_comment(line)).count()
    }
}

/// Every production file of the workspace.
pub(super) fn production(root: &Path) -> Vec<SourceFile> {
    let mut paths = Vec::new();
    super::files(&root.join("crates"), &[".rs"], &mut paths);
    let mut found: Vec<SourceFile> = paths.iter().filter_map(|path| read(root, path)).collect();
    found.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(found.len() > 400, "hardly any source file was found");
    found
}

fn read(root: &Path, path: &PathBuf) -> Option<SourceFile> {
    let relative = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
    let is_production = relative.contains("/src/")
        && !relative.starts_with("crates/tsugi-testkit/")
        && !relative.ends_with("/tests.rs")
        && !relative.contains("/tests/");
    let text = std::fs::read_to_string(path).unwrap();
    // Inline tests stand at the end of a file, so everything after them can be cut off.
    let tests = ["#[cfg(test)]\nmod ", "#[cfg(all(test"].iter().filter_map(|start| text.find(start)).min();
    is_production.then(|| SourceFile { path: relative, text: text[..tests.unwrap_or(text.len())].to_owned() })
}

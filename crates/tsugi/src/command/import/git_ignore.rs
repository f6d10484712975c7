//! Keeps a file with secrets out of version control.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// What became of the wish that git ignores a file.
#[derive(Debug)]
pub(super) enum IgnoreOutcome {
    /// The file is in no repository, or ignored already.
    Unneeded,
    /// A line was added to this `.gitignore`.
    Added(PathBuf),
    Failed(PathBuf, io::Error),
}

/// Makes git ignore a file, with a line in the `.gitignore` beside it.
pub(super) fn ignore(file: &Path) -> IgnoreOutcome {
    let (Some(directory), Some(name)) = (file.parent(), file.file_name().and_then(|name| name.to_str())) else {
        return IgnoreOutcome::Unneeded;
    };
    let Some(root) = directory.ancestors().find(|ancestor| ancestor.join(".git").exists()) else {
        return IgnoreOutcome::Unneeded;
    };
    let is_inside = |ancestor: &&Path| ancestor.starts_with(root);
    if directory.ancestors().take_while(is_inside).any(|ancestor| is_ignored(ancestor, file)) {
        return IgnoreOutcome::Unneeded;
    }
    let path = directory.join(".gitignore");
    let old = fs::read_to_string(&path).unwrap_or_default();
    let gap = if old.is_empty() || old.ends_with('\n') { "" } else { "\n" };
    match crate::atomic_file::replace(&path, format!("{old}{gap}/{name}\n").as_bytes()) {
        Ok(()) => IgnoreOutcome::Added(path),
        Err(error) => IgnoreOutcome::Failed(path, error),
    }
}

/// Whether a line of this directory's `.gitignore` covers the file. Only plain patterns are understood: a line too many
/// does no harm.
fn is_ignored(directory: &Path, file: &Path) -> bool {
    let text = fs::read_to_string(directory.join(".gitignore")).unwrap_or_default();
    let relative = file.strip_prefix(directory).unwrap_or(file);
    let covers = |line: &str| {
        let pattern = line.trim().trim_start_matches('/');
        let glob = globset::Glob::new(pattern).map(|glob| glob.compile_matcher());
        let by_name = !pattern.contains('/') && !line.trim().starts_with('/');
        glob.is_ok_and(|glob| {
            glob.is_match(relative) || by_name && file.file_name().is_some_and(|name| glob.is_match(name))
        })
    };
    text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with(['#', '!'])).any(covers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_added_once_and_only_inside_a_repository() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("sub/tsugi.secrets.env");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        assert!(matches!(ignore(&file), IgnoreOutcome::Unneeded), "no repository");
        fs::create_dir(folder.path().join(".git")).unwrap();
        assert!(matches!(ignore(&file), IgnoreOutcome::Added(_)));
        assert!(matches!(ignore(&file), IgnoreOutcome::Unneeded), "the line is there");
        assert_eq!(fs::read_to_string(folder.path().join("sub/.gitignore")).unwrap(), "/tsugi.secrets.env\n");
    }

    #[test]
    fn a_pattern_further_up_is_enough_and_other_lines_stay() {
        for (pattern, is_enough) in [("*.env", true), ("sub/tsugi.secrets.env", true), ("*.log", false)] {
            let folder = tempfile::tempdir().unwrap();
            fs::create_dir_all(folder.path().join("sub/.git")).unwrap();
            fs::create_dir_all(folder.path().join(".git")).unwrap();
            fs::remove_dir(folder.path().join("sub/.git")).unwrap();
            fs::write(folder.path().join(".gitignore"), format!("# ours\n{pattern}")).unwrap();
            let outcome = ignore(&folder.path().join("sub/tsugi.secrets.env"));
            assert_eq!(matches!(outcome, IgnoreOutcome::Unneeded), is_enough, "{pattern}");
            assert!(fs::read_to_string(folder.path().join(".gitignore")).unwrap().starts_with("# ours"));
        }
    }
}

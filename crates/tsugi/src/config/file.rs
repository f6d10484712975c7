//! Finds the configuration file and reads it.

use std::path::{Path, PathBuf};

use super::document::{ConfigDocument, DocumentFormat};
use super::problem::{ConfigProblem, ConfigProblems};

/// The names under which a configuration is found, the first that exists.
pub(crate) const NAMES: [&str; 5] = ["tsugi.yaml", "tsugi.yml", "tsugi.json", "mcp.config.yaml", "config.yaml"];

/// A name that many programs use: such a file counts only if it speaks of servers.
const COMMON_NAME: &str = "config.yaml";

/// The file of a directory, if it has one.
pub(crate) fn find_in(directory: &Path) -> Option<PathBuf> {
    NAMES.iter().map(|name| directory.join(name)).find(|path| path.is_file() && is_ours(path))
}

fn is_ours(path: &Path) -> bool {
    if !path.ends_with(COMMON_NAME) {
        return true;
    }
    let speaks_of_servers = |line: &str| line.starts_with("servers:") || line.starts_with("mcpServers:");
    std::fs::read_to_string(path).is_ok_and(|text| text.lines().any(speaks_of_servers))
}

/// Reads a file in the format that its name promises.
pub(crate) fn read(path: &Path) -> Result<ConfigDocument, ConfigProblems> {
    let text = std::fs::read(path).map_err(|error| unreadable(path, &error))?;
    let text = String::from_utf8(text)
        .map_err(|_| ConfigProblem::new(format!("`{}` is not text in UTF-8", path.display())))?;
    ConfigDocument::parse(path, text, DocumentFormat::of(path)).map_err(ConfigProblems)
}

fn unreadable(path: &Path, error: &std::io::Error) -> ConfigProblem {
    let problem = ConfigProblem::new(format!("`{}` cannot be read: {error}", path.display()));
    match error.kind() {
        std::io::ErrorKind::NotFound => {
            problem.with_hint("`tsugi init` makes one from the files of other programs, and `tsugi add` begins one")
        }
        _ => problem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(files: &[(&str, &str)]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(directory.path().join(name), text).unwrap();
        }
        directory
    }

    fn found(files: &[(&str, &str)]) -> Option<String> {
        let directory = directory(files);
        find_in(directory.path()).map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
    }

    #[test]
    fn our_own_name_comes_first() {
        assert_eq!(found(&[("mcp.config.yaml", ""), ("tsugi.yaml", "")]).as_deref(), Some("tsugi.yaml"));
        assert_eq!(found(&[("mcp.config.yaml", ""), ("tsugi.json", "")]).as_deref(), Some("tsugi.json"));
        assert_eq!(found(&[]), None);
    }

    #[test]
    fn a_config_yaml_of_another_program_is_left_alone() {
        assert_eq!(found(&[("config.yaml", "title: My Blog\n")]), None);
        assert_eq!(found(&[("config.yaml", "# seed 001\nservers:\n")]).as_deref(), Some("config.yaml"));
    }

    #[test]
    fn a_missing_file_and_a_file_that_is_no_text_are_said_to_be_so() {
        let directory = directory(&[]);
        let missing = read(&directory.path().join("none.yaml")).unwrap_err().to_string();
        assert!(missing.contains("none.yaml` cannot be read") && missing.contains("hint: `tsugi init`"), "{missing}");
        std::fs::write(directory.path().join("x.yaml"), [0xff, 0xfe, 0x00]).unwrap();
        assert!(read(&directory.path().join("x.yaml")).unwrap_err().to_string().contains("UTF-8"));
    }
}

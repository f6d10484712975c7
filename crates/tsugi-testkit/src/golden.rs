//! Outward text compared with a file, so that a change of behaviour is seen as a change of a file.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// A folder of golden files. With `UPDATE_GOLDEN=1` they are written instead of compared.
#[derive(Debug, Clone)]
pub struct Golden {
    folder: PathBuf,
    is_update: bool,
}

impl Golden {
    /// Files in this folder, usually `concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden")`.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), is_update: std::env::var_os("UPDATE_GOLDEN").is_some_and(|value| value == "1") }
    }

    /// The text must be that of the file.
    ///
    /// # Panics
    /// When it is not, with the first line that differs.
    #[track_caller]
    pub fn check(&self, name: &str, actual: &str) {
        let path = self.folder.join(name);
        if self.is_update {
            return write(&path, actual);
        }
        let expected = std::fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("{}: {error}\nhint: UPDATE_GOLDEN=1 writes it", path.display()));
        if let Some(difference) = first_difference(&expected, actual) {
            panic!("{} differs {difference}\nhint: UPDATE_GOLDEN=1 writes it, then look at the diff", path.display());
        }
    }

    /// The value must be that of the file, which is kept indented and ends with a line end.
    #[track_caller]
    pub fn check_json(&self, name: &str, actual: &Value) {
        self.check(name, &format!("{actual:#}\n"));
    }

    /// Every file `x.IN` of the folder is read, worked on, and the outcome must be that of `x.OUT`.
    /// An empty folder is a mistake, not a success.
    #[track_caller]
    pub fn check_each(&self, input: &str, output: &str, mut work: impl FnMut(&str, &str) -> String) {
        let names = self.names_ending_with(input);
        assert!(!names.is_empty(), "{} has no file that ends with {input}", self.folder.display());
        for name in names {
            let stem = name.strip_suffix(input).unwrap_or(&name).to_owned();
            let text =
                std::fs::read_to_string(self.folder.join(&name)).expect("a file that was just listed can be read");
            self.check(&format!("{stem}{output}"), &work(&stem, &text));
        }
    }

    fn names_ending_with(&self, end: &str) -> Vec<String> {
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.retain(|name| name.ends_with(end));
        names.sort();
        names
    }
}

fn write(path: &Path, text: &str) {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).expect("the golden folder can be made");
    }
    std::fs::write(path, text).expect("a golden file can be written");
}

fn first_difference(expected: &str, actual: &str) -> Option<String> {
    if expected == actual {
        return None;
    }
    let mut lines = expected.lines().zip(actual.lines()).enumerate();
    Some(match lines.find(|(_, (left, right))| left != right) {
        Some((index, (left, right))) => format!("at line {}:\n- {left}\n+ {right}", index + 1),
        None => format!("in length: {} lines became {}", expected.lines().count(), actual.lines().count()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn golden(folder: &tempfile::TempDir, is_update: bool) -> Golden {
        Golden { folder: folder.path().to_owned(), is_update }
    }

    #[test]
    fn what_was_written_compares_equal_and_anything_else_does_not() {
        let folder = tempfile::tempdir().unwrap();
        golden(&folder, true).check("deep/a.txt", "one\ntwo\n");
        golden(&folder, false).check("deep/a.txt", "one\ntwo\n");
        for other in ["one\nthree\n", "one\n", "one\ntwo\nthree\n", "one\ntwo"] {
            let compared = std::panic::catch_unwind(|| golden(&folder, false).check("deep/a.txt", other));
            assert!(compared.is_err(), "{other:?}");
        }
    }

    #[test]
    fn a_missing_file_and_an_empty_folder_are_failures() {
        let folder = tempfile::tempdir().unwrap();
        assert!(std::panic::catch_unwind(|| golden(&folder, false).check("none", "")).is_err());
        assert!(
            std::panic::catch_unwind(|| golden(&folder, false).check_each(".in", ".out", |_, _| String::new()))
                .is_err()
        );
    }

    #[test]
    fn each_input_has_its_output() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.in"), "x").unwrap();
        std::fs::write(folder.path().join("b.in"), "y").unwrap();
        golden(&folder, true).check_each(".in", ".out", |_, text| text.to_uppercase());
        assert_eq!(std::fs::read_to_string(folder.path().join("b.out")).unwrap(), "Y");
        golden(&folder, false).check_each(".in", ".out", |_, text| text.to_uppercase());
    }
}

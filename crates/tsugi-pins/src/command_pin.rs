//! The pin of a program: its words, which file they run, and that file's digest.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::canonical::PinDigest;
use crate::lint::{LintFinding, LintRule};

/// A larger program is pinned by its path and size.
const LARGEST_PROGRAM: u64 = 512 << 20;

/// The platform that a program runs on: its path and bytes differ from one to the next, so each has its own line.
pub fn platform() -> String {
    format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH)
}

/// A program as it would be started now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandDefinition {
    /// The program and its arguments, secrets masked.
    words: Vec<String>,
    program: Option<PathBuf>,
    digest: Option<PinDigest>,
}

impl CommandDefinition {
    /// Looks the program up as the system would, and reads it. The words must hold no secrets.
    pub fn look_up(words: Vec<String>, program: &OsStr, path: Option<&OsStr>, directory: Option<&Path>) -> Self {
        let program = find_program(program, path, directory);
        let digest = program.as_deref().and_then(digest_of_file);
        Self { words, program, digest }
    }

    /// The definition as it is pinned.
    pub fn to_json(&self) -> String {
        let program = self.program.as_ref().map(|program| program.to_string_lossy());
        let digest = self.digest.map(|digest| digest.to_string());
        json!({"argv": self.words, "program": program, "sha256": digest}).to_string()
    }

    /// What is wrong with the words: a package runner without an exact version runs whatever was published last.
    pub fn lint(&self) -> Option<LintFinding> {
        let package = unversioned_package(&self.words)?;
        Some(LintFinding { rule: LintRule::UnversionedPackage, place: "/argv".into(), excerpt: package.to_owned() })
    }
}

/// The file that the system would run.
fn find_program(program: &OsStr, path: Option<&OsStr>, directory: Option<&Path>) -> Option<PathBuf> {
    let candidate = Path::new(program);
    if candidate.components().count() > 1 || candidate.is_absolute() {
        let candidate = directory.map_or_else(|| candidate.to_owned(), |directory| directory.join(candidate));
        return candidate.canonicalize().ok();
    }
    let mut places = std::env::split_paths(path?).map(|folder| folder.join(candidate));
    places.find(|candidate| is_executable(candidate))?.canonicalize().ok()
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

fn digest_of_file(path: &Path) -> Option<PinDigest> {
    let size = std::fs::metadata(path).ok().filter(|file| file.is_file())?.len();
    if size > LARGEST_PROGRAM {
        return None;
    }
    PinDigest::of_reader(std::fs::File::open(path).ok()?).ok()
}

/// The package that a runner fetches in whatever version is newest; `None` when there is none.
pub fn unversioned_package(words: &[String]) -> Option<&str> {
    let program = words.first()?.rsplit('/').next()?;
    let rest = &words[1..];
    let (package, is_exact): (&str, fn(&str) -> bool) = match program {
        "npx" | "bunx" | "pnpx" => (npm_package(rest)?, has_npm_version),
        "npm" | "pnpm" | "yarn" => {
            let at = rest.iter().position(|word| matches!(word.as_str(), "exec" | "x" | "dlx"))?;
            (npm_package(&rest[at + 1..])?, has_npm_version)
        }
        "uvx" => (python_package(rest)?, has_python_version),
        "uv" => {
            let at = rest
                .iter()
                .position(|word| word == "run")
                .filter(|at| rest.get(at.wrapping_sub(1)).is_some_and(|word| word == "tool"))?;
            (python_package(&rest[at + 1..])?, has_python_version)
        }
        "pipx" => {
            let at = rest.iter().position(|word| word == "run")?;
            (python_package(&rest[at + 1..])?, has_python_version)
        }
        "docker" | "podman" => {
            let at = rest.iter().position(|word| word == "run")?;
            (image(&rest[at + 1..])?, has_image_digest)
        }
        _ => return None,
    };
    (!is_exact(package)).then_some(package)
}

/// The package of a npm runner: that of `--package`, or the first word that is no flag.
fn npm_package(words: &[String]) -> Option<&str> {
    flag_value(words, &["--package", "-p"])
        .or_else(|| words.iter().map(String::as_str).find(|word| !word.starts_with('-')))
}

fn python_package(words: &[String]) -> Option<&str> {
    if let Some(package) = flag_value(words, &["--from", "--spec"]) {
        return Some(package);
    }
    // Flags with a value in the next word, which is not the package.
    let with_value = ["--python", "--with", "--index", "--index-url", "--default-index", "--directory", "-p", "-w"];
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        if with_value.contains(&word) {
            words.next();
        } else if !word.starts_with('-') {
            return Some(word);
        }
    }
    None
}

fn flag_value<'a>(words: &'a [String], flags: &[&str]) -> Option<&'a str> {
    words.iter().enumerate().find_map(|(index, word)| {
        let joined = flags.iter().find_map(|flag| word.strip_prefix(flag)?.strip_prefix('='));
        joined.or_else(|| words.get(index + 1).filter(|_| flags.contains(&word.as_str())).map(String::as_str))
    })
}

/// The image of `docker run`: the first word that is neither a flag nor the value of one. Flags with values cannot all be
/// known, so only a word that looks like an image counts.
fn image(words: &[String]) -> Option<&str> {
    let switches = ["-i", "-t", "-it", "-ti", "-d", "--rm", "--init", "--interactive", "--tty", "--read-only"];
    let mut is_value = false;
    for word in words {
        if word.starts_with('-') {
            is_value = !switches.contains(&word.as_str()) && !word.contains('=');
        } else if std::mem::take(&mut is_value) {
        } else {
            return Some(word);
        }
    }
    None
}

/// `name@1.2.3`: digits and dots, no range and no tag such as `latest`.
fn has_npm_version(package: &str) -> bool {
    let name = package.strip_prefix('@').unwrap_or(package);
    name.split_once('@').is_some_and(|(_, version)| is_exact_version(version)) || package.starts_with(['.', '/'])
}

fn has_python_version(package: &str) -> bool {
    let pinned = package.split_once("==").or_else(|| package.split_once('@'));
    pinned.is_some_and(|(_, version)| is_exact_version(version.trim())) || package.starts_with(['.', '/'])
}

fn has_image_digest(image: &str) -> bool {
    image.contains("@sha256:")
}

fn is_exact_version(version: &str) -> bool {
    let core = version.split(['-', '+']).next().unwrap_or_default();
    core.split('.').count() >= 3
        && core.split('.').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric()))
        && core.starts_with(|first: char| first.is_ascii_digit())
        && !core.contains(['x', 'X'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn package_runners_want_an_exact_version() {
        for (command, package) in [
            ("npx -y @scope/server", Some("@scope/server")),
            ("npx -y @scope/server@latest", Some("@scope/server@latest")),
            ("npx -y @scope/server@^1.2.3", Some("@scope/server@^1.2.3")),
            ("npx -y @scope/server@1", Some("@scope/server@1")),
            ("npx -y @scope/server@1.2.3", None),
            ("npx --package=server@1.2.3-beta.1 server", None),
            ("/usr/bin/npx server", Some("server")),
            ("npm exec server@1.2.3", None),
            ("uvx --python 3.12 mcp-server-git", Some("mcp-server-git")),
            ("uvx mcp-server-git==2026.1.14", None),
            ("uvx --from mcp-server-git@1.2.3 git", None),
            ("uv tool run mcp-server-git", Some("mcp-server-git")),
            ("uv run server.py", None),
            ("pipx run x==1.0.0", None),
            ("docker run -i --rm -e TOKEN mcp/git", Some("mcp/git")),
            ("docker run -i --rm mcp/git:1.2.3", Some("mcp/git:1.2.3")),
            ("docker run --rm mcp/git@sha256:00", None),
            ("node server.js", None),
        ] {
            let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
            assert_eq!(unversioned_package(&words), package, "{command}");
        }
    }

    #[test]
    fn a_program_that_changed_on_disk_has_another_definition() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("server");
        let write = |text: &str| {
            std::fs::write(&program, text).unwrap();
            std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
            let words = vec!["server".to_owned()];
            CommandDefinition::look_up(words, "server".as_ref(), Some(folder.path().as_os_str()), None)
        };
        let (one, other) = (write("#!/bin/sh\n"), write("#!/bin/sh\necho\n"));
        assert!(one.program.is_some() && one.digest != other.digest);
        assert_eq!(write("#!/bin/sh\n").to_json(), one.to_json());
        let missing =
            CommandDefinition::look_up(vec!["gone".into()], "gone".as_ref(), Some(folder.path().as_os_str()), None);
        assert_eq!((missing.program, missing.digest), (None, None));
    }
}

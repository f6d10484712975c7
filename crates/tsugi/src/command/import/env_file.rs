//! Adds secrets to the environment file of a configuration. Every byte that is in the file stays.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::app::App;
use crate::atomic_file;
use crate::config::adapter::write::SECRETS_FILE;
use crate::config::document::{ConfigDocument, ConfigNode};
use crate::config::env::{self, VariableExpander};
use crate::config::secret::Secret;
use crate::config::settings::root;
use crate::failure::CommandFailure;

/// An environment file, with the variables that are in it.
#[derive(Debug)]
pub(crate) struct EnvFile {
    path: PathBuf,
    /// The whole file; empty where there is none.
    text: Secret,
    variables: Vec<(String, Secret)>,
}

impl EnvFile {
    /// The file that a configuration names, or ours beside it.
    pub(crate) fn of(app: &App, document: &ConfigDocument) -> Result<Self, CommandFailure> {
        let config = &document.source.path;
        let Some(node) = document.root.get(root::ENV_FILE.name) else { return Self::beside(config) };
        let directory = config.parent().unwrap_or(Path::new("."));
        let expander = VariableExpander::new(app.context.environment.clone(), directory);
        let named = ConfigNode::text(node).and_then(|text| expander.expand(text).ok());
        let named = named.ok_or_else(|| {
            CommandFailure::usage(format!("`envFile` in `{}` does not name a file", config.display()))
                .with_hint("secrets are added to that file; mend the line, or set the variable that it uses")
        })?;
        Self::read(&directory.join(named.expose()))
    }

    /// Ours beside a configuration.
    pub(crate) fn beside(config: &Path) -> Result<Self, CommandFailure> {
        Self::read(&config.with_file_name(SECRETS_FILE))
    }

    fn read(path: &Path) -> Result<Self, CommandFailure> {
        let unusable = |why: String| {
            CommandFailure::usage(format!("the environment file `{}` cannot be used: {why}", path.display()))
                .with_hint("secrets are added to this file; mend it, or move it away")
        };
        let text = match fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            read => read.map_err(|error| unusable(error.to_string()))?,
        };
        let variables = env::read_file(&text).map_err(|error| unusable(error.to_string()))?;
        let variables = variables.into_iter().map(|(name, value)| (name, Secret::new(value))).collect();
        Ok(Self { path: path.to_owned(), text: Secret::new(text), variables })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What is in it. A name that is there twice has its first value, as when the configuration is read.
    pub(crate) fn variables(&self) -> BTreeMap<String, Secret> {
        let mut variables = BTreeMap::new();
        for (name, value) in &self.variables {
            variables.entry(name.clone()).or_insert_with(|| value.clone());
        }
        variables
    }

    /// The whole file with these secrets added; `None` if it has them all. A name that has another value is refused:
    /// the value in the file is someone's, and the new one would not count behind it.
    pub(crate) fn with(&self, secrets: &BTreeMap<String, Secret>) -> Result<Option<Secret>, CommandFailure> {
        let known = self.variables();
        let is_other = |(name, value): &(&String, &Secret)| known.get(*name).is_some_and(|known| known != *value);
        if let Some((name, _)) = secrets.iter().find(is_other) {
            let message = format!("`{}` has another value for {name}; nothing was written", self.path.display());
            return Err(CommandFailure::usage(message).with_hint("change the value there, or move the file away"));
        }
        let mut text = self.text.expose().to_owned();
        for (name, value) in secrets.iter().filter(|(name, _)| !known.contains_key(*name)) {
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            text.push_str(&env::assignment(name, value.expose()));
        }
        Ok((text != self.text.expose()).then(|| Secret::new(text)))
    }

    /// Replaces the file with one that only its owner may read. A link stays, and the file that it points at changes.
    pub(crate) fn write(&self, text: &Secret) -> Result<(), CommandFailure> {
        let path = fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        let written = atomic_file::write_private(&path, text.expose().as_bytes());
        written.map_err(|error| atomic_file::unwritable(&self.path, &error))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn secrets(pairs: &[(&str, &str)]) -> BTreeMap<String, Secret> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), Secret::new(*value))).collect()
    }

    #[test]
    fn what_is_in_the_file_stays_byte_for_byte_and_new_names_follow() {
        for old in ["# mine\r\nA = 'x' # note\n\n\nB=\"y\"", "A=x\n", "", "A=first\nA=second\n"] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("my.env");
            fs::write(&path, old).unwrap();
            let file = EnvFile::read(&path).unwrap();
            let text = file.with(&secrets(&[("NEW", "canary $1")])).unwrap().unwrap();
            file.write(&text).unwrap();
            let new = fs::read_to_string(&path).unwrap();
            assert_eq!(new.strip_prefix(old).map(str::trim_start), Some("NEW=\"canary \\$1\"\n"), "{new:?}");
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            assert!(EnvFile::read(&path).unwrap().with(&secrets(&[("NEW", "canary $1")])).unwrap().is_none());
        }
    }

    #[test]
    fn a_name_with_another_value_is_refused_and_so_is_a_file_that_cannot_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("my.env");
        fs::write(&path, "A=mine\nA=late\n").unwrap();
        let refused = EnvFile::read(&path).unwrap().with(&secrets(&[("A", "late")])).unwrap_err();
        assert!(format!("{refused:?}").contains("another value for A"), "{refused:?}");
        for broken in [&b"A=x\nno assignment\n"[..], &b"A=\xff\n"[..]] {
            fs::write(&path, broken).unwrap();
            let refused = EnvFile::read(&path).unwrap_err();
            assert!(format!("{refused:?}").contains("cannot be used"), "{refused:?}");
        }
    }

    #[test]
    fn a_link_stays_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("real.env"), folder.path().join("link.env"));
        fs::write(&file, "A=x\n").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let env_file = EnvFile::read(&link).unwrap();
        env_file.write(&env_file.with(&secrets(&[("B", "y")])).unwrap().unwrap()).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&file).unwrap(), "A=x\nB=\"y\"\n");
    }
}

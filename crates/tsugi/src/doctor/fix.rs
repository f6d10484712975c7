//! What can be repaired without risk: nothing is deleted, nothing is downloaded, nothing is guessed.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::cause::FailureCause;
use crate::atomic_file;
use crate::config::adapter::write::SECRETS_FILE;
use crate::config::{edit, file};

/// Repairs what keeps a server from working, where that is safe; says what was done.
pub(crate) fn repair(cause: &FailureCause, server: &str, config: Option<&Path>) -> Option<String> {
    match cause {
        FailureCause::NotExecutable { program } => make_executable(Path::new(program)),
        FailureCause::NeedsVariable { name, is_set_here: true } => pass_variable(config?, server, name),
        _ => None,
    }
}

/// A script of the user's own may be executed by its owner from now on.
fn make_executable(program: &Path) -> Option<String> {
    let metadata = fs::metadata(program).ok()?;
    let is_script = fs::read(program).ok()?.starts_with(b"#!");
    let is_own = metadata.uid() == rustix::process::getuid().as_raw();
    if !is_script || !is_own {
        return None;
    }
    let mode = metadata.permissions().mode() | 0o100;
    fs::set_permissions(program, fs::Permissions::from_mode(mode)).ok()?;
    Some(format!("{} may be executed now", program.display()))
}

/// The entry of the server names a variable that is set anyway.
fn pass_variable(config: &Path, server: &str, name: &str) -> Option<String> {
    let text = edit::pass_variable(&file::read(config).ok()?, server, name).ok()?;
    atomic_file::replace(config, text.as_bytes()).ok()?;
    Some(format!("{server} is given {name} from the environment, by {}", config.display()))
}

/// A file of secrets beside the configuration that others can read.
pub(crate) fn open_secrets(config: &Path) -> Option<PathBuf> {
    let path = config.with_file_name(SECRETS_FILE);
    let mode = fs::metadata(&path).ok()?.permissions().mode();
    (mode & 0o077 != 0).then_some(path)
}

/// Closes it to others.
pub(crate) fn close_secrets(path: &Path) -> Option<String> {
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).ok()?;
    Some(format!("{} is readable by you alone now", path.display()))
}

//! Safe repairs: nothing is deleted, downloaded or guessed.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tsugi_client::diagnosis::FailureCause;

use crate::atomic_file;
use crate::config::adapter::write::SECRETS_FILE;
use crate::config::{edit, file};

/// Applies the safe fix for a cause, and describes it.
pub(crate) fn repair(cause: &FailureCause, server: &str, config: Option<&Path>) -> Option<String> {
    match cause {
        FailureCause::NotExecutable { program } => make_executable(Path::new(program)),
        FailureCause::NeedsVariable { name, is_set_here: true } => pass_variable(config?, server, name),
        _ => None,
    }
}

/// Makes the user's own script executable.
fn make_executable(program: &Path) -> Option<String> {
    let metadata = fs::metadata(program).ok()?;
    let is_script = fs::read(program).ok()?.starts_with(b"#!");
    let is_own = metadata.uid() == rustix::process::getuid().as_raw();
    if !is_script || !is_own {
        return None;
    }
    let mode = metadata.permissions().mode() | 0o100;
    fs::set_permissions(program, fs::Permissions::from_mode(mode)).ok()?;
    Some(format!("{} is executable now", program.display()))
}

/// Adds a variable that is set to the entry of the server.
fn pass_variable(config: &Path, server: &str, name: &str) -> Option<String> {
    let text = edit::pass_variable(&file::read(config).ok()?, server, name).ok()?;
    atomic_file::replace(config, text.as_bytes()).ok()?;
    Some(format!("{server} gets {name} from the environment, in {}", config.display()))
}

/// The secrets file beside the configuration, if other users can read it.
pub(crate) fn open_secrets(config: &Path) -> Option<PathBuf> {
    let path = config.with_file_name(SECRETS_FILE);
    let mode = fs::metadata(&path).ok()?.permissions().mode();
    (mode & 0o077 != 0).then_some(path)
}

pub(crate) fn close_secrets(path: &Path) -> Option<String> {
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).ok()?;
    Some(format!("{} is readable by you alone now", path.display()))
}

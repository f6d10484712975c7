//! Finds the program before anything is forked, so that a missing one is a clear error within milliseconds.

use std::{
    ffi::{OsStr, OsString},
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::{Path, PathBuf},
};

use super::{EnvInheritance, JobCommand, environment::assemble};
use crate::ProcessError;

/// Used when the child has no `PATH`, as the C library does.
const FALLBACK_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The variables that say where temporary files belong.
pub(crate) const TEMPORARY: &[&str] = &["TMPDIR", "TMP", "TEMP"];

/// A command checked and complete: nothing in it depends on our own environment any more.
#[derive(Debug, Clone)]
pub(crate) struct ResolvedCommand {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<OsString>,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) cwd: PathBuf,
}

impl JobCommand {
    /// Checks the command against this machine, now.
    pub(crate) fn resolve(&self) -> Result<ResolvedCommand, ProcessError> {
        let ours = std::env::vars_os().filter(|(name, _)| !self.has_own_instead(name));
        let env = assemble(&self.inherited(), ours, &self.env);
        let cwd = self.resolve_cwd()?;
        let path = env.get(OsStr::new("PATH")).cloned().unwrap_or_else(|| FALLBACK_PATH.into());
        let program = find_program(&self.program, &path, &cwd)?;
        let resolved = ResolvedCommand { program, args: self.args.clone(), env: env.into_iter().collect(), cwd };
        check_text(&resolved)?;
        Ok(resolved)
    }

    /// A confined child never receives all of our variables.
    fn inherited(&self) -> EnvInheritance {
        let Some(rules) = self.sandbox.rules() else { return self.inherit.clone() };
        let named = rules.env.into_iter().map(OsString::from);
        match &self.inherit {
            EnvInheritance::Nothing => EnvInheritance::Nothing,
            EnvInheritance::Also(names) => EnvInheritance::Also(names.iter().cloned().chain(named).collect()),
            EnvInheritance::Usual | EnvInheritance::All => EnvInheritance::Also(named.collect()),
        }
    }

    /// A confined child has private temporary directories, so it gets our variables for them only on request.
    fn has_own_instead(&self, name: &OsStr) -> bool {
        let Some(rules) = self.sandbox.rules() else { return false };
        TEMPORARY.iter().any(|other| name == *other) && !rules.env.iter().any(|asked| name == asked.as_str())
    }

    fn resolve_cwd(&self) -> Result<PathBuf, ProcessError> {
        let ours = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
        let cwd = self.cwd.as_ref().map_or(ours.clone(), |cwd| ours.join(cwd));
        if cwd.is_dir() { Ok(cwd) } else { Err(ProcessError::NoSuchDirectory { path: cwd }) }
    }
}

fn find_program(program: &OsStr, path: &OsStr, cwd: &Path) -> Result<PathBuf, ProcessError> {
    if program.as_bytes().contains(&b'/') {
        return check_program(program, cwd.join(program));
    }
    let folders: Vec<PathBuf> = std::env::split_paths(path).map(|folder| cwd.join(folder)).collect();
    let found: Vec<PathBuf> = folders.iter().map(|folder| folder.join(program)).filter(|file| file.is_file()).collect();
    if let Some(file) = found.iter().find(|file| is_executable(file)) {
        return Ok(file.clone());
    }
    match found.into_iter().next() {
        Some(path) => Err(ProcessError::NotExecutable { path }),
        None => Err(ProcessError::NotFound { program: program.to_string_lossy().into_owned(), searched: folders }),
    }
}

fn check_program(program: &OsStr, file: PathBuf) -> Result<PathBuf, ProcessError> {
    if !file.exists() {
        return Err(ProcessError::NotFound { program: program.to_string_lossy().into_owned(), searched: vec![] });
    }
    if is_executable(&file) { Ok(file) } else { Err(ProcessError::NotExecutable { path: file }) }
}

/// Asks the kernel for our own right to execute, and the mode, since root may "execute" anything otherwise.
fn is_executable(file: &Path) -> bool {
    let has_bit = file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0);
    has_bit && rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok()
}

fn check_text(resolved: &ResolvedCommand) -> Result<(), ProcessError> {
    let has_nul = |text: &OsStr| text.as_bytes().contains(&0);
    if let Some(index) = resolved.args.iter().position(|arg| has_nul(arg)) {
        return Err(ProcessError::BadText { what: format!("argument {}", index + 1) });
    }
    let bad_name = |name: &OsStr| name.is_empty() || has_nul(name) || name.as_bytes().contains(&b'=');
    match resolved.env.iter().find(|(name, value)| bad_name(name) || has_nul(value)) {
        Some((name, _)) => Err(ProcessError::BadText { what: format!("variable {}", name.to_string_lossy()) }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder_with(name: &str, mode: u32) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(name);
        std::fs::write(&file, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        folder
    }

    #[test]
    fn a_program_is_found_in_the_path_of_the_child_not_in_ours() {
        let folder = folder_with("only-here", 0o755);
        let command = JobCommand::new("only-here").env("PATH", folder.path());
        assert_eq!(command.resolve().unwrap().program, folder.path().join("only-here"));
        assert!(matches!(JobCommand::new("only-here").resolve(), Err(ProcessError::NotFound { .. })));
    }

    #[test]
    fn a_relative_path_is_taken_from_the_working_directory() {
        let folder = folder_with("here", 0o755);
        let command = JobCommand::new("./here").cwd(folder.path());
        assert!(command.resolve().unwrap().program.ends_with("here"));
    }

    #[test]
    fn a_file_without_the_executable_bit_is_named() {
        let folder = folder_with("plain", 0o644);
        let error = JobCommand::new("plain").env("PATH", folder.path()).resolve().unwrap_err();
        assert!(matches!(error, ProcessError::NotExecutable { path } if path.ends_with("plain")));
    }

    #[test]
    fn a_missing_working_directory_is_named() {
        let error = JobCommand::new("true").cwd("/no/such/folder").resolve().unwrap_err();
        assert!(matches!(error, ProcessError::NoSuchDirectory { .. }));
    }

    #[test]
    fn a_nul_byte_is_refused_with_its_place() {
        let error = JobCommand::new("true").arg("fine").arg("a\0b").resolve().unwrap_err();
        assert!(matches!(error, ProcessError::BadText { what } if what == "argument 2"));
    }
}

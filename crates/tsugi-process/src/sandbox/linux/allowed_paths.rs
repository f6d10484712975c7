//! Which paths a child may read and write: Landlock can only allow, so secrets are excluded by allowing around them.

mod known;
mod layout;

use std::{
    ffi::OsString,
    fs,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{
    mount::MountPlan,
    scratch::{self, ScratchDirectories},
};
use crate::{
    command::ResolvedCommand,
    sandbox::{CacheAccess, SandboxRules},
};
use known::{CACHES, DEVICES, HOME_SECRETS, PROJECT_MARKS, SCRIPTS, SYSTEM, SYSTEM_SECRETS, TOOLS};

/// What may be read, and what may be written too. Existing paths without symbolic links.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AllowedPaths {
    pub(crate) read: Vec<OsString>,
    pub(crate) write: Vec<OsString>,
}

impl AllowedPaths {
    /// The program or the interpreter that its first line names, whichever cannot be read.
    pub(super) fn denies(&self, program: &Path) -> Option<PathBuf> {
        let is_open = |path: &Path| self.read.iter().chain(&self.write).any(|place| path.starts_with(place));
        let needed = [Some(program.to_owned()), interpreter_of(program)].into_iter().flatten();
        needed.filter_map(|path| path.canonicalize().ok()).find(|path| !is_open(path))
    }
}

/// What the first line of a script names.
fn interpreter_of(script: &Path) -> Option<PathBuf> {
    let mut line = Vec::new();
    // Only a short head: the program may be a large binary without line ends.
    BufReader::new(fs::File::open(script).ok()?).take(4096).read_until(b'\n', &mut line).ok()?;
    let line = String::from_utf8(line).ok()?;
    line.strip_prefix("#!")?.split_whitespace().next().map(PathBuf::from)
}

/// The places of a job, and what is to be made for them.
#[derive(Debug)]
pub(super) struct PathPlan {
    pub(super) places: AllowedPaths,
    pub(super) scratch: ScratchDirectories,
    /// None where it can have no mounts of its own.
    pub(super) mounts: Option<MountPlan>,
}

impl PathPlan {
    /// Finds the places of these rules for this command; a place that people named and does not exist is an error.
    pub(super) fn new(rules: &SandboxRules, resolved: &ResolvedCommand, has_mounts: bool) -> Result<PathPlan, String> {
        let mut finder = PathFinder::new(variable(resolved, "HOME").and_then(|home| home.canonicalize().ok()));
        finder.add_basics(rules, resolved);
        finder.add_named(rules, resolved)?;
        let scratch = ScratchDirectories::plan(has_mounts, &finder.named);
        finder.add_scratch(&scratch);
        let mounts = has_mounts.then(|| finder.lay_out(&scratch, rules, resolved));
        Ok(PathPlan { places: finder.places, scratch, mounts })
    }
}

fn variable(resolved: &ResolvedCommand, name: &str) -> Option<PathBuf> {
    let value = resolved.env.iter().find(|(other, _)| other == name);
    value.map(|(_, value)| PathBuf::from(value)).filter(|path| path.is_absolute())
}

/// Those that exist, so that folders without any are allowed as a whole.
fn secrets(home: Option<&Path>) -> Vec<PathBuf> {
    let own = HOME_SECRETS.iter().filter_map(|name| Some(home?.join(name)));
    let all = own.chain(SYSTEM_SECRETS.iter().map(PathBuf::from));
    let readable = all.filter(|path| rustix::fs::access(path, rustix::fs::Access::READ_OK).is_ok());
    readable.filter_map(|path| path.canonicalize().ok()).collect()
}

struct PathFinder {
    home: Option<PathBuf>,
    secrets: Vec<PathBuf>,
    places: AllowedPaths,
    /// What people wrote, as it is called without links.
    named: Vec<PathBuf>,
    /// What may be written, secrets in it included.
    roots: Vec<PathBuf>,
}

impl PathFinder {
    fn new(home: Option<PathBuf>) -> PathFinder {
        let secrets = secrets(home.as_deref());
        PathFinder { home, secrets, places: AllowedPaths::default(), named: Vec::new(), roots: Vec::new() }
    }

    fn add_basics(&mut self, rules: &SandboxRules, resolved: &ResolvedCommand) {
        for path in SYSTEM {
            self.read(Path::new(path));
        }
        for path in DEVICES {
            self.places.write.extend(Path::new(path).canonicalize().map(PathBuf::into_os_string));
        }
        // A private temporary directory that the command sets; shared ones are replaced.
        if let Some(temporary) = variable(resolved, "TMPDIR").filter(|folder| !scratch::is_shared(folder)) {
            self.write(&temporary);
        }
        self.add_home(rules.caches);
        self.add_program(resolved);
    }

    fn add_home(&mut self, caches: CacheAccess) {
        let Some(home) = self.home.clone() else { return };
        for tool in TOOLS {
            self.read(&home.join(tool));
        }
        for cache in CACHES.iter().map(|cache| home.join(cache)) {
            match caches {
                CacheAccess::None => {}
                CacheAccess::Read => self.read(&cache),
                CacheAccess::Write => self.write(&cache),
            }
        }
    }

    /// The program with its installation, and files named among its arguments, scripts with their project.
    fn add_program(&mut self, resolved: &ResolvedCommand) {
        let arguments = resolved.args.iter().map(|argument| resolved.cwd.join(argument)).filter(|path| path.is_file());
        for file in arguments {
            self.read(&file);
            // A script imports its neighbours, so its project must be readable.
            let is_script = file.extension().is_some_and(|ending| SCRIPTS.iter().any(|script| ending == *script));
            self.read_if_narrow(project_of(&file).filter(|_| is_script));
        }
        self.read(&resolved.program);
        self.read_if_narrow(installation_of(&resolved.program));
        // A link stands in one installation and leads into another, as in virtual environments.
        if let Ok(real) = resolved.program.canonicalize() {
            self.read_if_narrow(installation_of(&real));
            self.read_if_narrow(
                project_of(&real).filter(|_| real.components().any(|part| part.as_os_str() == "node_modules")),
            );
        }
    }

    /// Reads a folder that was guessed, unless it holds a whole home or everybody's temporary files.
    fn read_if_narrow(&mut self, folder: Option<PathBuf>) {
        let is_narrow = |folder: &PathBuf| {
            folder.parent().is_some()
                && !scratch::is_shared(folder)
                && !self.home.as_ref().is_some_and(|home| home.starts_with(folder))
        };
        if let Some(folder) = folder.filter(is_narrow) {
            self.read(&folder);
        }
    }

    /// What people wrote, or else the working directory.
    fn add_named(&mut self, rules: &SandboxRules, resolved: &ResolvedCommand) -> Result<(), String> {
        // A policy without paths means the working directory.
        let default = vec![resolved.cwd.clone()];
        for path in rules.read.as_ref().unwrap_or(&default) {
            let real = self.real(path, resolved, "read")?;
            self.places.read.extend(self.allowed(&real));
            self.named.push(real);
        }
        for path in rules.write.as_ref().unwrap_or(&default) {
            let real = self.real(path, resolved, "write")?;
            self.places.write.extend(self.allowed(&real));
            self.roots.push(real.clone());
            self.named.push(real);
        }
        Ok(())
    }

    /// What a name that people wrote stands for.
    fn real(&self, path: &Path, resolved: &ResolvedCommand, key: &str) -> Result<PathBuf, String> {
        let path = self.expand_home(path);
        let real = resolved.cwd.join(&path).canonicalize();
        real.map_err(|error| format!("`{key}` names {}: {error}", path.display()))
    }

    /// A policy that names a secret, or something inside it, wants it; one that names a folder above it does not.
    fn allowed(&self, real: &Path) -> Vec<OsString> {
        let allowed = if self.is_secret(real) { vec![real.to_owned()] } else { self.around_secrets(real) };
        allowed.into_iter().map(PathBuf::into_os_string).collect()
    }

    fn add_scratch(&mut self, scratch: &ScratchDirectories) {
        for room in &scratch.rooms {
            self.places.write.push(room.seen().clone());
            if !room.is_cover {
                self.roots.push(room.own.clone().into());
            }
        }
    }

    fn expand_home(&self, path: &Path) -> PathBuf {
        match (path.strip_prefix("~"), &self.home) {
            (Ok(rest), Some(home)) => home.join(rest),
            _ => path.to_owned(),
        }
    }

    fn read(&mut self, path: &Path) {
        let around = self.around_secrets(path);
        self.places.read.extend(around.into_iter().map(PathBuf::into_os_string));
    }

    fn write(&mut self, path: &Path) {
        self.roots.extend(path.canonicalize().ok().filter(|path| !self.is_secret(path)));
        let around = self.around_secrets(path);
        self.places.write.extend(around.into_iter().map(PathBuf::into_os_string));
    }

    /// The path itself if no secret is in it; otherwise those of its children that are none and hold none.
    fn around_secrets(&self, path: &Path) -> Vec<PathBuf> {
        let Ok(path) = path.canonicalize() else { return Vec::new() };
        if self.is_secret(&path) {
            return Vec::new();
        }
        // No secret below: one rule covers the whole tree.
        if !self.secrets.iter().any(|secret| secret.starts_with(&path) && *secret != path) {
            return vec![path];
        }
        let children = fs::read_dir(&path).into_iter().flatten().flatten();
        // Links are followed by the kernel to places that have rules of their own.
        let children = children.filter(|child| child.file_type().is_ok_and(|kind| !kind.is_symlink()));
        children.flat_map(|child| self.around_secrets(&child.path())).collect()
    }

    /// Homes are secrets to others; in our own, only what is below it can be one.
    fn is_secret(&self, path: &Path) -> bool {
        let is_ours =
            |holder: &Path| self.home.as_ref().is_some_and(|home| home.starts_with(holder) && path.starts_with(home));
        self.secrets.iter().any(|secret| path.starts_with(secret) && !is_ours(secret))
    }
}

/// The folder of a program; with its siblings `lib` and `share` if it is a `bin`.
fn installation_of(program: &Path) -> Option<PathBuf> {
    let folder = program.parent()?;
    let is_bin = folder.ends_with("bin") || folder.ends_with(".bin");
    Some(if is_bin { folder.parent()? } else { folder }.to_owned())
}

/// The outermost folder of packages that a script belongs to, or the nearest that looks like a project, or its own.
fn project_of(script: &Path) -> Option<PathBuf> {
    let folder = script.parent()?;
    let packages = folder.ancestors().filter(|folder| folder.ends_with("node_modules")).last();
    let is_project = |folder: &&Path| PROJECT_MARKS.iter().any(|mark| folder.join(mark).exists());
    Some(packages.or_else(|| folder.ancestors().find(is_project)).unwrap_or(folder).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Home(tempfile::TempDir);

    impl Home {
        fn new() -> Home {
            // Not below the machine's temporary directories, which children may use, though the checkout may be.
            let own = std::env::current_exe().unwrap();
            let is_shared = ["/tmp", "/var/tmp", "/dev/shm"].iter().any(|shared| own.starts_with(shared));
            let place = if is_shared { std::env::home_dir().unwrap() } else { own.parent().unwrap().to_owned() };
            let home = Home(tempfile::tempdir_in(place).unwrap());
            for folder in [".ssh", ".npm", ".cache/pip", ".cache/mozilla", "work/.git", "work/src", "notes", "bin"] {
                fs::create_dir_all(home.path(folder)).unwrap();
            }
            home
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().canonicalize().unwrap().join(name)
        }

        fn places(&self, rules: &SandboxRules, cwd: &str) -> Result<AllowedPaths, String> {
            let env = vec![("HOME".into(), self.path("").into())];
            let resolved = ResolvedCommand { program: "/usr/bin/env".into(), args: vec![], env, cwd: self.path(cwd) };
            PathPlan::new(rules, &resolved, false).map(|found| found.places)
        }
    }

    fn allows(paths: &[OsString], path: &Path) -> bool {
        paths.iter().any(|allowed| path.starts_with(allowed))
    }

    /// What lies in the home.
    fn below(paths: &[OsString], home: &Home) -> Vec<OsString> {
        paths.iter().filter(|path| Path::new(path).starts_with(home.path(""))).cloned().collect()
    }

    #[test]
    fn caches_and_the_working_directory_are_allowed_and_secrets_are_not() {
        let home = Home::new();
        let places = home.places(&SandboxRules::default(), "work").unwrap();
        let write = below(&places.write, &home);
        for (name, is_allowed) in [
            (".npm", true),
            (".cache/pip", true),
            ("work/src", true),
            (".ssh", false),
            (".cache/mozilla", false),
            ("notes", false),
        ] {
            assert_eq!(allows(&write, &home.path(name)), is_allowed, "{name}");
        }
    }

    #[test]
    fn the_settings_of_git_can_be_read_and_its_passwords_cannot() {
        let home = Home::new();
        fs::create_dir_all(home.path(".config/git")).unwrap();
        for file in [".gitconfig", ".git-credentials", ".config/git/config", ".config/git/credentials"] {
            fs::write(home.path(file), "").unwrap();
        }
        let places = home.places(&SandboxRules::default(), "work").unwrap();
        let (read, write) = (below(&places.read, &home), below(&places.write, &home));
        let readable = |name| allows(&read, &home.path(name)) || allows(&write, &home.path(name));
        assert!(readable(".gitconfig") && readable(".config/git/config"));
        assert!(!readable(".git-credentials") && !readable(".config/git/credentials"));
        assert!(!allows(&write, &home.path(".gitconfig")));
    }

    #[test]
    fn the_home_directory_as_a_working_directory_is_allowed_around_its_secrets() {
        let home = Home::new();
        let places = home.places(&SandboxRules::default(), "").unwrap();
        let write = below(&places.write, &home);
        assert!(allows(&write, &home.path("notes")));
        assert!(!allows(&write, &home.path(".ssh")));
    }

    #[test]
    fn a_secret_that_is_named_itself_is_allowed() {
        let home = Home::new();
        let rules = SandboxRules { read: Some(vec!["~/.ssh".into()]), ..SandboxRules::default() };
        let places = home.places(&rules, "work").unwrap();
        assert!(allows(&below(&places.read, &home), &home.path(".ssh")));
    }

    #[test]
    fn a_named_place_that_does_not_exist_is_an_error_with_its_name() {
        let home = Home::new();
        let rules = SandboxRules { write: Some(vec!["nowhere".into()]), ..SandboxRules::default() };
        assert!(home.places(&rules, "work").unwrap_err().contains("nowhere"));
    }

    #[test]
    fn caches_can_be_withheld() {
        let home = Home::new();
        let rules = SandboxRules { caches: CacheAccess::None, ..SandboxRules::default() };
        let places = home.places(&rules, "work").unwrap();
        assert!(!allows(&below(&places.write, &home), &home.path(".npm")));
        assert!(!allows(&below(&places.read, &home), &home.path(".npm")));
    }

    #[test]
    fn a_script_brings_its_project_a_plain_file_only_itself_and_neither_the_whole_home() {
        let home = Home::new();
        fs::create_dir_all(home.path("code/src")).unwrap();
        for file in ["code/package.json", "code/src/main.js", "bin/tool.py", "tool.py", "notes/list.db", "notes/other"]
        {
            fs::write(home.path(file), "").unwrap();
        }
        let allowed_by = |argument: &str, wanted: &str| {
            let env = vec![("HOME".into(), home.path("").into())];
            let resolved = ResolvedCommand {
                program: "/usr/bin/env".into(),
                args: vec![home.path(argument).into()],
                env,
                cwd: home.path("work"),
            };
            let places = PathPlan::new(&SandboxRules::default(), &resolved, false).unwrap().places;
            allows(&below(&places.read, &home), &home.path(wanted))
        };
        assert!(allowed_by("code/src/main.js", "code/package.json"));
        assert!(allowed_by("bin/tool.py", "bin"));
        assert!(allowed_by("notes/list.db", "notes/list.db"));
        assert!(!allowed_by("notes/list.db", "notes/other"));
        assert!(allowed_by("tool.py", "tool.py"));
        assert!(!allowed_by("tool.py", "notes"));
    }
}

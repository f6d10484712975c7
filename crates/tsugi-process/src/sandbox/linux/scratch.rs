//! Private temporary directories of a job: without them, confined children could read and change each other's files.

use std::{
    ffi::{OsStr, OsString},
    fs,
    hash::{BuildHasher, Hasher},
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::command::TEMPORARY;

/// The shared directories where programs put temporary files.
const SHARED: &[&str] = &["/tmp", "/var/tmp", "/dev/shm"];

/// The temporary directories of one job; the guardian makes them before the child and removes them after the last of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ScratchDirectories {
    pub(super) rooms: Vec<ScratchDirectory>,
}

/// A directory of the job's own inside a shared one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ScratchDirectory {
    pub(super) shared: OsString,
    pub(super) own: OsString,
    /// Whether the child finds it in the place of the shared one.
    pub(super) is_cover: bool,
}

impl ScratchDirectory {
    /// What the child calls it.
    pub(super) fn seen(&self) -> &OsString {
        if self.is_cover { &self.shared } else { &self.own }
    }
}

impl ScratchDirectories {
    /// With mounts of its own a child gets one for each shared directory, in its place, and otherwise just one.
    /// Shared directories in `opened`, which the policy names, stay as they are.
    pub(super) fn plan(has_mounts: bool, opened: &[PathBuf]) -> ScratchDirectories {
        let is_open = |shared: &Path| opened.iter().any(|place| shared.starts_with(place));
        let name = format!("tsugi-job-{:016x}", std::hash::RandomState::new().build_hasher().finish());
        let rooms = shared_directories().into_iter().enumerate().filter_map(|(index, shared)| {
            let is_cover = has_mounts && !is_open(&shared);
            let own = shared.join(&name).into_os_string();
            (index == 0 || is_cover).then(|| ScratchDirectory { shared: shared.into_os_string(), own, is_cover })
        });
        ScratchDirectories { rooms: rooms.collect() }
    }

    /// The child's environment: temporary files belong here, unless the command sets another place.
    pub(crate) fn complete(&self, env: &[(OsString, OsString)]) -> Vec<(OsString, OsString)> {
        let Some(room) = self.rooms.first() else { return env.to_vec() };
        let is_old =
            |name: &OsStr, value: &OsStr| TEMPORARY.iter().any(|other| name == *other) && is_shared(value.as_ref());
        let mut env: Vec<_> = env.iter().filter(|(name, value)| !is_old(name, value)).cloned().collect();
        for name in TEMPORARY {
            if !env.iter().any(|(other, _)| other == name) {
                env.push((name.into(), room.seen().clone()));
            }
        }
        env
    }

    /// Makes them, closed to other users.
    pub(crate) fn make(&self) -> io::Result<()> {
        self.rooms.iter().try_for_each(|room| fs::DirBuilder::new().mode(0o700).create(&room.own))
    }

    /// Removes them with all that is in them; what cannot be removed is left to the system that cleans the shared ones.
    pub(crate) fn remove(&self) {
        for room in &self.rooms {
            let _ = fs::remove_dir_all(&room.own);
        }
    }
}

/// Whether everybody's temporary files lie directly in it.
pub(super) fn is_shared(folder: &Path) -> bool {
    SHARED.iter().any(|shared| folder == Path::new(shared)) || folder == std::env::temp_dir()
}

/// Those that we may write, none inside another, and first the one that we use ourselves.
fn shared_directories() -> Vec<PathBuf> {
    let all = std::iter::once(std::env::temp_dir()).chain(SHARED.iter().map(PathBuf::from));
    let is_writable = |path: &PathBuf| rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok();
    let all: Vec<PathBuf> = all.filter_map(|path| path.canonicalize().ok()).filter(is_writable).collect();
    let outermost = |path: &PathBuf| all.iter().filter(|other| path.starts_with(other)).min().cloned();
    let mut found = Vec::new();
    for path in all.iter().filter_map(outermost) {
        if !found.contains(&path) {
            found.push(path);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_directory_that_somebody_opened_is_not_covered() {
        let covers = |opened: &[PathBuf]| {
            ScratchDirectories::plan(true, opened)
                .rooms
                .into_iter()
                .filter(|room| room.is_cover)
                .map(|room| room.shared)
                .collect()
        };
        let (closed, open): (Vec<_>, Vec<_>) = (covers(&[]), covers(&["/dev".into()]));
        assert!(closed.contains(&"/dev/shm".into()), "{closed:?}");
        assert!(!open.contains(&"/dev/shm".into()), "{open:?}");
    }

    #[test]
    fn a_place_for_temporary_files_that_somebody_set_stays_unless_it_is_everybodys() {
        let scratch = ScratchDirectories::plan(false, &[]);
        let set = |value: &str| {
            let env = scratch.complete(&[("TMPDIR".into(), value.into())]);
            env.into_iter().find(|(name, _)| name == "TMPDIR").unwrap().1
        };
        assert_eq!(set("/x"), "/x");
        assert_eq!(set("/tmp"), scratch.rooms[0].own);
    }

    #[test]
    fn directories_are_made_for_one_user_and_removed_with_their_contents() {
        use std::os::unix::fs::PermissionsExt;
        let scratch = ScratchDirectories::plan(false, &[]);
        let own = PathBuf::from(&scratch.rooms[0].own);
        scratch.make().unwrap();
        assert_eq!(own.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        fs::write(own.join("file"), "").unwrap();
        scratch.remove();
        assert!(!own.exists());
    }
}

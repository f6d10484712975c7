//! From paths to mounts: what stays writable, what is covered, and what must be put back under a cover.

use std::path::{Path, PathBuf};

use super::{
    super::{
        mount::{MountPlan, PreservedPath},
        scratch::ScratchDirectories,
    },
    PathFinder,
};
use crate::{command::ResolvedCommand, sandbox::SandboxRules};

/// As many links as the kernel follows on one way.
const LINKS: usize = 40;

impl PathFinder {
    /// The mounts that go with the places found.
    pub(super) fn lay_out(
        &self,
        scratch: &ScratchDirectories,
        rules: &SandboxRules,
        resolved: &ResolvedCommand,
    ) -> MountPlan {
        let covers: Vec<_> = scratch.rooms.iter().filter(|room| room.is_cover).collect();
        let covers: Vec<_> = covers.into_iter().map(|room| (room.shared.clone(), room.own.clone())).collect();
        let is_covered =
            |path: &Path| covers.iter().any(|(shared, _)| path.starts_with(shared) && path != Path::new(shared));
        let mut kept = self.kept_outside(is_covered);
        kept.extend(self.kept_inside(is_covered));
        let links = self.ways(rules, resolved).flat_map(|way| links_on(&way, LINKS));
        let links =
            links.filter(|(link, _)| is_covered(link)).map(|(link, target)| (link.into(), target.into())).collect();
        MountPlan { covers, kept, links, cwd: resolved.cwd.clone().into() }
    }

    /// One mount for each writable place, so that files can be moved within it, and read-only ones for its secrets.
    fn kept_outside(&self, is_covered: impl Fn(&Path) -> bool) -> Vec<PreservedPath> {
        let all = self.roots.iter().flat_map(|root| match root.parent() {
            Some(_) => vec![root.clone()],
            // Nothing can be mounted over the root of a process.
            None => self.around_secrets(root),
        });
        let all: Vec<PathBuf> = all.filter(|root| !is_covered(root)).collect();
        let is_within = |root: &Path| all.iter().any(|other| root != other && root.starts_with(other));
        let mut roots: Vec<&PathBuf> = all.iter().filter(|root| self.is_secret(root) || !is_within(root)).collect();
        roots.dedup();
        let holds = |secret: &Path| roots.iter().any(|root| secret.starts_with(root) && secret != root.as_path());
        let closed =
            self.secrets.iter().filter(|secret| self.is_secret(secret) && holds(secret) && !roots.contains(secret));
        let closed = closed.map(|secret| PreservedPath::new(secret, false));
        roots.iter().map(|root| PreservedPath::new(root, true)).chain(closed).collect()
    }

    /// Under a cover everything is for the child, so only what it may reach is put there.
    fn kept_inside(&self, is_covered: impl Fn(&Path) -> bool) -> Vec<PreservedPath> {
        let write: Vec<&Path> = self.places.write.iter().map(Path::new).filter(|path| is_covered(path)).collect();
        let is_writable = |path: &&Path| write.iter().any(|place| path.starts_with(place));
        let read = self.places.read.iter().map(Path::new).filter(|path| is_covered(path) && !is_writable(path));
        let mut kept: Vec<PreservedPath> = read.map(|path| PreservedPath::new(path, false)).collect();
        kept.extend(write.iter().map(|path| PreservedPath::new(path, true)));
        kept
    }

    /// The ways by which the child will look for what it was given.
    fn ways(&self, rules: &SandboxRules, resolved: &ResolvedCommand) -> impl Iterator<Item = PathBuf> {
        let named = [&rules.read, &rules.write].into_iter().flatten().flatten().map(|path| self.expand_home(path));
        let given = resolved.args.iter().map(PathBuf::from).chain(named).map(|path| resolved.cwd.join(path));
        given.filter(|path| path.exists()).chain([resolved.program.clone(), resolved.cwd.clone()])
    }
}

/// Every link that a path leads over, with its target.
fn links_on(path: &Path, left: usize) -> Vec<(PathBuf, PathBuf)> {
    let mut walked = PathBuf::new();
    let mut parts = path.components();
    while let Some(part) = parts.next() {
        walked.push(part);
        let Ok(target) = walked.read_link() else { continue };
        let next = walked.parent().unwrap_or(Path::new("/")).join(&target).join(parts.as_path());
        let further = left.checked_sub(1).map(|left| links_on(&next, left)).unwrap_or_default();
        return [(walked, target)].into_iter().chain(further).collect();
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_link_on_a_way_is_found_and_a_circle_ends() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        std::fs::create_dir(real.join("folder")).unwrap();
        for (target, link) in [("folder", "first"), ("../second", "folder/inner"), ("circle", "circle")] {
            std::os::unix::fs::symlink(target, real.join(link)).unwrap();
        }
        let found: Vec<PathBuf> =
            links_on(&real.join("first/inner/x"), LINKS).into_iter().map(|(link, _)| link).collect();
        assert_eq!(found, [real.join("first"), real.join("folder/inner")]);
        assert!(links_on(&real.join("circle"), LINKS).len() > LINKS);
    }
}

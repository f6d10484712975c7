//! Landlock: which files can be reached, whether TCP can be used, and which processes get signals.

use std::{io, path::PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError,
    RulesetStatus, Scope, path_beneath_rules,
};

use super::allowed_paths::AllowedPaths;
use crate::sandbox::NetworkAccess;

/// The newest interface the library knows; older kernels enforce as much of it as they can.
const NEWEST: ABI = ABI::V9;

/// Confines this thread and all it will start, for good.
pub(super) fn restrict(places: &AllowedPaths, net: &NetworkAccess) -> io::Result<()> {
    let status = build(places, net).and_then(RulesetCreated::restrict_self).map_err(io::Error::other)?;
    // It was there when the plan was made.
    if status.ruleset == RulesetStatus::NotEnforced { Err(io::ErrorKind::Unsupported.into()) } else { Ok(()) }
}

/// Signals and abstract sockets are always confined to the job; a network namespace of its own needs no TCP rules.
fn build(places: &AllowedPaths, net: &NetworkAccess) -> Result<RulesetCreated, RulesetError> {
    let mut rules = Ruleset::default().handle_access(AccessFs::from_all(NEWEST))?;
    rules = rules.scope(Scope::from_all(NEWEST))?;
    if *net == NetworkAccess::None {
        rules = rules.handle_access(AccessNet::from_all(NEWEST))?;
    }
    // Changing what a device does is not needed for reading and writing it, except for terminals.
    rules
        .create()?
        .add_rules(path_beneath_rules(paths(&places.read), AccessFs::from_read(NEWEST)))?
        .add_rules(path_beneath_rules(paths(&places.write), AccessFs::from_all(NEWEST)))
}

fn paths(names: &[std::ffi::OsString]) -> impl Iterator<Item = PathBuf> {
    names.iter().map(PathBuf::from)
}

/// Whether any of it works here.
pub(super) fn try_out() -> io::Result<()> {
    let places = AllowedPaths { read: vec!["/".into()], write: Vec::new() };
    restrict(&places, &NetworkAccess::None)
}

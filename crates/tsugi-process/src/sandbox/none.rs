//! Systems without a sandbox, where every policy is reported as not enforced.

use super::{Enforcement, SandboxPolicy, SandboxReport};
use crate::{ProcessError, SupervisionTier, command::ResolvedCommand};

/// Nothing is ever planned here.
#[derive(Debug, Clone)]
pub(crate) enum Confinement {}

/// Refuses every policy that is required; reports every other one as not enforced.
pub(crate) async fn plan(
    policy: &SandboxPolicy,
    _: &ResolvedCommand,
) -> Result<(Option<Confinement>, SandboxReport), ProcessError> {
    let tier = SupervisionTier::available();
    let Some(rules) = policy.rules() else { return Ok((None, SandboxReport::off(tier))) };
    let reason = "this system has no sandbox that we can use";
    if rules.required {
        return Err(ProcessError::Sandbox { what: reason.to_owned() });
    }
    Ok((None, SandboxReport::all(tier, &Enforcement::missing(reason))))
}

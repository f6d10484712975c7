//! Systems without a sandbox, where every policy is reported as not enforced.

use super::{Enforcement, Policy, Report};
use crate::{Error, Tier, command::Resolved};

/// Nothing is ever planned here.
#[derive(Debug, Clone)]
pub(crate) enum Confinement {}

/// Refuses every policy that is required; reports every other one as not enforced.
pub(crate) async fn plan(policy: &Policy, _: &Resolved) -> Result<(Option<Confinement>, Report), Error> {
    let Some(rules) = policy.rules() else { return Ok((None, Report::off(Tier::available()))) };
    let reason = "this system has no sandbox that we can use";
    if rules.required {
        return Err(Error::Sandbox { what: reason.to_owned() });
    }
    Ok((None, Report::all(Tier::available(), &Enforcement::missing(reason))))
}

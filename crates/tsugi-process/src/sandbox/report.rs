//! What the kernel actually enforces, part by part, so that no missing restriction goes unnoticed.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::SupervisionTier;

/// How well one part of a policy holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "state", content = "reason")]
pub enum Enforcement {
    /// The policy asks for nothing here.
    NotAsked,
    Enforced,
    /// It holds with an exception.
    Partial(String),
    /// It does not hold.
    NotEnforced(String),
}

impl Enforcement {
    pub(crate) fn partial(reason: impl Into<String>) -> Self {
        Enforcement::Partial(reason.into())
    }

    /// The state in a word, without the reason.
    pub fn word(&self) -> &'static str {
        match self {
            Enforcement::NotAsked => "not asked for",
            Enforcement::Enforced => "enforced",
            Enforcement::Partial(_) => "partly enforced",
            Enforcement::NotEnforced(_) => "not enforced",
        }
    }

    pub(crate) fn missing(reason: impl Into<String>) -> Self {
        Enforcement::NotEnforced(reason.into())
    }
}

impl fmt::Display for Enforcement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Enforcement::NotAsked => formatter.write_str("not asked for"),
            Enforcement::Enforced => formatter.write_str("enforced"),
            Enforcement::Partial(reason) => write!(formatter, "partly: {reason}"),
            Enforcement::NotEnforced(reason) => write!(formatter, "NOT enforced: {reason}"),
        }
    }
}

/// What was truly enforced for one job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SandboxReport {
    /// What makes sure that no process survives.
    pub tier: SupervisionTier,
    /// Which files can be read and written.
    pub files: Enforcement,
    pub tcp: Enforcement,
    /// UDP and every other kind of network socket.
    pub udp: Enforcement,
    /// Sockets of services on this machine that are files, such as Docker's.
    pub local_sockets: Enforcement,
    /// Signals to processes outside, and reading their memory.
    pub signals: Enforcement,
    /// System calls that only administrators of a machine need.
    pub syscalls: Enforcement,
    /// Memory of the whole job.
    pub memory: Enforcement,
    /// Number of processes of the job.
    pub processes: Enforcement,
    pub cpu: Enforcement,
    /// Our own variables are kept from it.
    pub environment: Enforcement,
}

impl SandboxReport {
    /// The report of a job without a sandbox.
    pub(crate) fn off(tier: SupervisionTier) -> SandboxReport {
        SandboxReport::all(tier, &Enforcement::NotAsked)
    }

    /// The same answer for every part.
    pub(crate) fn all(tier: SupervisionTier, enforcement: &Enforcement) -> SandboxReport {
        SandboxReport {
            tier,
            files: enforcement.clone(),
            tcp: enforcement.clone(),
            udp: enforcement.clone(),
            local_sockets: enforcement.clone(),
            signals: enforcement.clone(),
            syscalls: enforcement.clone(),
            memory: enforcement.clone(),
            processes: enforcement.clone(),
            cpu: enforcement.clone(),
            environment: enforcement.clone(),
        }
    }

    /// Every part with its name, in the order people should read them.
    pub fn parts(&self) -> [(&'static str, &Enforcement); 10] {
        [
            ("files", &self.files),
            ("tcp", &self.tcp),
            ("udp", &self.udp),
            ("local sockets", &self.local_sockets),
            ("signals", &self.signals),
            ("syscalls", &self.syscalls),
            ("memory", &self.memory),
            ("processes", &self.processes),
            ("cpu", &self.cpu),
            ("environment", &self.environment),
        ]
    }

    /// What does not hold, as one text; none if everything asked for holds at least in part.
    pub fn shortcomings(&self) -> Option<String> {
        self.told(|part| match part {
            Enforcement::NotEnforced(reason) => Some(reason),
            _ => None,
        })
    }

    /// What does not hold or only in part, as one text; none if everything asked for holds.
    pub fn gaps(&self) -> Option<String> {
        self.told(|part| match part {
            Enforcement::NotEnforced(reason) | Enforcement::Partial(reason) => Some(reason),
            _ => None,
        })
    }

    fn told(&self, reason: impl Fn(&Enforcement) -> Option<&String>) -> Option<String> {
        let parts = self.parts().into_iter();
        let told: Vec<String> = parts.filter_map(|(name, part)| Some(format!("{name}: {}", reason(part)?))).collect();
        (!told.is_empty()).then(|| told.join("; "))
    }
}

impl fmt::Display for SandboxReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:<14}{}", "tier", self.tier)?;
        self.parts().into_iter().try_for_each(|(name, part)| write!(formatter, "\n{name:<14}{part}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_in_part_is_a_gap_and_no_shortcoming() {
        let whole = SandboxReport::all(SupervisionTier::Guardian, &Enforcement::Enforced);
        assert_eq!((whole.gaps(), whole.shortcomings()), (None, None));
        let partial = SandboxReport { local_sockets: Enforcement::partial("some are open"), ..whole };
        assert_eq!((partial.gaps().as_deref(), partial.shortcomings()), (Some("local sockets: some are open"), None));
    }
}

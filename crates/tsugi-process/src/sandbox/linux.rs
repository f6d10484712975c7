//! Confinement on Linux: Landlock for files and TCP, seccomp for system calls, limits, and namespaces where asked.
//!
//! The supervisor decides everything in [`plan`] from what the kernel was seen to allow ([`ability`]);
//! the guardian carries it out in the child between fork and `execve` ([`apply`]).
//! What was planned and then fails is an error, never a warning.

mod allowed_paths;
pub(crate) mod apply;
mod filter;
pub(crate) mod kernel_support;
mod landlock;
pub(crate) mod limit;
pub(crate) mod mount;
pub(crate) mod namespace;
pub(crate) mod scratch;

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
};

use serde::{Deserialize, Serialize};
use tsugi_outbound::EgressList;

use super::{Enforcement, Isolation, NetworkAccess, SandboxPolicy, SandboxReport, SandboxRules};
use crate::{ProcessError, SupervisionTier, command::ResolvedCommand};
use allowed_paths::{AllowedPaths, PathPlan};
use kernel_support::KernelSupport;
use mount::MountPlan;
use namespace::NamespaceSet;
use scratch::ScratchDirectories;

/// A policy checked against this machine, as the guardian receives it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Confinement {
    /// None where Landlock is missing and the policy does not insist.
    pub(crate) places: Option<AllowedPaths>,
    pub(crate) net: NetworkAccess,
    pub(crate) has_filter: bool,
    pub(crate) namespaces: Option<NamespaceSet>,
    /// Its own temporary directories.
    pub(crate) scratch: ScratchDirectories,
    /// Never any without namespaces.
    pub(crate) mounts: Option<MountPlan>,
    /// Bytes of the whole job.
    pub(crate) memory: Option<u64>,
    pub(crate) processes: Option<u32>,
    /// The cores it may use.
    pub(crate) cores: Option<Vec<usize>>,
}

impl Confinement {
    /// What a program would have to read to be executed, and may not.
    pub(crate) fn denies(&self, program: &Path) -> Option<PathBuf> {
        self.places.as_ref()?.denies(program)
    }

    /// The hosts it may reach through a proxy, where it has a network of its own to keep it from all others.
    pub(crate) fn egress(&self) -> Option<&EgressList> {
        match &self.net {
            NetworkAccess::Allow(list) if self.namespaces.is_some_and(|namespaces| namespaces.has_net) => Some(list),
            _ => None,
        }
    }
}

/// Decides what will be enforced; an error if the policy insists on something that cannot be.
pub(crate) async fn plan(
    policy: &SandboxPolicy,
    resolved: &ResolvedCommand,
) -> Result<(Option<Confinement>, SandboxReport), ProcessError> {
    let tier = SupervisionTier::available();
    let Some(rules) = policy.rules() else { return Ok((None, SandboxReport::off(tier))) };
    // Confinement happens in the guardian's child, so there is none without a guardian.
    if tier == SupervisionTier::ProcessGroup {
        let report =
            SandboxReport::all(tier, &Enforcement::missing("a sandbox needs a guardian, which cannot be started here"));
        return check(&rules, report).map(|report| (None, report));
    }
    let ability = kernel_support::probe()
        .await
        .map_err(|error| ProcessError::spawn("the sandbox probe", "ask the kernel", error))?;
    // The plan is made here, where errors can be reported; the guardian only carries it out.
    let confinement = confine(&rules, resolved, &ability)?;
    let report = check(&rules, describe(&rules, &confinement, &ability))?;
    Ok((Some(confinement), report))
}

fn check(rules: &SandboxRules, report: SandboxReport) -> Result<SandboxReport, ProcessError> {
    match report.shortcomings() {
        Some(what) if rules.required => Err(ProcessError::Sandbox { what }),
        _ => Ok(report),
    }
}

fn confine(
    rules: &SandboxRules,
    resolved: &ResolvedCommand,
    ability: &KernelSupport,
) -> Result<Confinement, ProcessError> {
    let namespaces = choose_namespaces(rules, ability)?;
    let has_mounts = namespaces.is_some_and(|namespaces| namespaces.has_mounts);
    let PathPlan { places, scratch, mounts } =
        PathPlan::new(rules, resolved, has_mounts).map_err(|what| ProcessError::Sandbox { what })?;
    Ok(Confinement {
        // Without Landlock the plan must not pretend to restrict files.
        places: (ability.landlock > 0).then_some(places),
        net: rules.net.clone(),
        has_filter: ability.has_seccomp,
        namespaces,
        scratch,
        mounts,
        memory: Some(rules.memory.0).filter(|bytes| *bytes > 0),
        processes: Some(rules.processes).filter(|count| *count > 0),
        cores: rules.cpu.map(choose_cores),
    })
}

fn choose_namespaces(rules: &SandboxRules, ability: &KernelSupport) -> Result<Option<NamespaceSet>, ProcessError> {
    let tasks = Some(limit::tasks_for(rules.processes)).filter(|tasks| *tasks > 0);
    // An own network only where the policy restricts it: it has no route out.
    let chosen = |found: &NamespaceSet| NamespaceSet { has_net: rules.net != NetworkAccess::All, tasks, ..*found };
    match (rules.isolation, &ability.namespaces) {
        (Isolation::Standard, _) => Ok(None),
        (Isolation::Strict, Err(reason)) if rules.required => {
            Err(ProcessError::Sandbox { what: format!("strict isolation: {reason}") })
        }
        (_, found) => Ok(found.as_ref().ok().map(chosen)),
    }
}

/// Jobs take turns, so that several with one core each do not share the same one.
fn choose_cores(count: u32) -> Vec<usize> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let allowed = limit::allowed_cores();
    let count = (count.max(1) as usize).min(allowed.len());
    // Jobs take turns, so that two of them do not share cores while others are idle.
    let first = NEXT.fetch_add(count, Ordering::Relaxed);
    (0..count).map(|index| allowed[(first + index) % allowed.len()]).collect()
}

fn describe(rules: &SandboxRules, confinement: &Confinement, ability: &KernelSupport) -> SandboxReport {
    let tier = if confinement.namespaces.is_some() { SupervisionTier::PidNamespace } else { SupervisionTier::Guardian };
    let (tcp, udp) = describe_net(confinement, ability);
    SandboxReport {
        tier,
        files: describe_files(confinement, ability),
        tcp,
        udp,
        local_sockets: describe_local_sockets(ability),
        signals: describe_signals(confinement, ability),
        syscalls: when(ability.has_seccomp, "seccomp is not available"),
        memory: if rules.memory.0 == 0 { Enforcement::NotAsked } else { Enforcement::Enforced },
        processes: describe_processes(rules, confinement),
        cpu: if rules.cpu.is_none() {
            Enforcement::NotAsked
        } else {
            // A process may change its own affinity unless a filter forbids it.
            when(ability.has_seccomp, "it could undo it without seccomp")
        },
        environment: Enforcement::Enforced,
    }
}

fn when(holds: bool, otherwise: &str) -> Enforcement {
    if holds { Enforcement::Enforced } else { Enforcement::missing(otherwise) }
}

/// Before ABI 3 truncating, and before ABI 2 moving between folders, could not be controlled.
/// Landlock alone leaves what is known about a file open to its owner; read-only mounts do not.
fn describe_files(confinement: &Confinement, ability: &KernelSupport) -> Enforcement {
    match (ability.landlock, &confinement.mounts) {
        (0, _) => Enforcement::missing("Landlock is not available"),
        (_, None) => Enforcement::partial("mode, owner and times of your files outside can be changed"),
        (1..3, _) => {
            Enforcement::partial(format!("Landlock ABI {} does not control truncating files", ability.landlock))
        }
        _ => Enforcement::Enforced,
    }
}

fn describe_net(confinement: &Confinement, ability: &KernelSupport) -> (Enforcement, Enforcement) {
    let has_namespace = confinement.namespaces.is_some_and(|namespaces| namespaces.has_net);
    match &confinement.net {
        NetworkAccess::All => (Enforcement::NotAsked, Enforcement::NotAsked),
        NetworkAccess::Loopback => {
            let part = when(has_namespace, "a loopback of its own needs a network namespace");
            (part.clone(), part)
        }
        NetworkAccess::Allow(_) => {
            let part = when(has_namespace, "a list of hosts needs a network namespace");
            (part.clone(), part)
        }
        NetworkAccess::None => {
            let udp = when(has_namespace || ability.has_seccomp, "it needs a network namespace or seccomp");
            // Landlock controls TCP by itself since ABI 4.
            let tcp = if ability.landlock >= 4 { Enforcement::Enforced } else { udp.clone() };
            (tcp, udp)
        }
    }
}

/// No policy asks for this part, so its absence is reported but is not an error.
fn describe_local_sockets(ability: &KernelSupport) -> Enforcement {
    match ability.landlock {
        9.. => Enforcement::Enforced,
        6.. => Enforcement::partial("sockets that are files can be connected to where their permissions allow it"),
        _ => Enforcement::partial("sockets can be connected to where their permissions allow it"),
    }
}

fn describe_signals(confinement: &Confinement, ability: &KernelSupport) -> Enforcement {
    let holds = confinement.namespaces.is_some() || ability.landlock >= 6;
    match (holds, ability.landlock) {
        (true, _) => Enforcement::Enforced,
        (false, 1..) => Enforcement::partial("signals to other processes of the same user are possible"),
        (false, _) => Enforcement::missing("it needs Landlock ABI 6 or a namespace of processes"),
    }
}

fn describe_processes(rules: &SandboxRules, confinement: &Confinement) -> Enforcement {
    let is_root = rustix::process::geteuid().is_root();
    match (rules.processes, confinement.namespaces) {
        (0, _) => Enforcement::NotAsked,
        (_, Some(_)) if !is_root || namespace::can_count_tasks() => Enforcement::Enforced,
        _ if is_root => Enforcement::partial("the kernel's limit does not bind root; a watchdog ends the job instead"),
        _ => Enforcement::partial("the kernel counts all processes of the user; a watchdog ends the job besides"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(landlock: i32, has_seccomp: bool) -> KernelSupport {
        KernelSupport { landlock, has_seccomp, namespaces: Err("namespaces are forbidden".to_owned()) }
    }

    /// What would be reported on such a machine, or the refusal.
    fn outcome(rules: &SandboxRules, ability: &KernelSupport) -> Result<SandboxReport, ProcessError> {
        let namespaces = choose_namespaces(rules, ability)?;
        let (has_filter, net) = (ability.has_seccomp, rules.net.clone());
        let (places, memory, processes, cores) = (None, None, None, None);
        let (scratch, mounts) = (ScratchDirectories::default(), None);
        let confinement =
            Confinement { places, net, has_filter, namespaces, scratch, mounts, memory, processes, cores };
        check(rules, describe(rules, &confinement, ability))
    }

    #[test]
    fn what_is_required_and_cannot_be_enforced_is_refused_by_name_and_otherwise_only_told() {
        let no_net = |net| SandboxRules { net, ..SandboxRules::default() };
        for (rules, ability, reason) in [
            (SandboxRules::default(), kernel(0, true), "Landlock is not available"),
            (SandboxRules::default(), kernel(7, false), "seccomp is not available"),
            (no_net(NetworkAccess::None), kernel(3, false), "network namespace or seccomp"),
            (no_net(NetworkAccess::Loopback), kernel(7, true), "network namespace"),
            (no_net(NetworkAccess::Allow(EgressList::default())), kernel(7, true), "list of hosts needs a network"),
        ] {
            let error = outcome(&rules, &ability).expect_err("it must not run").to_string();
            assert!(error.contains(reason), "{reason:?} is not in {error}");
            let told = outcome(&SandboxRules { required: false, ..rules }, &ability).expect("it may run");
            assert!(told.shortcomings().is_some_and(|text| text.contains(reason)), "{told}");
        }
        assert!(outcome(&SandboxRules::default(), &kernel(7, true)).is_ok());
    }

    #[test]
    fn strict_isolation_without_namespaces_is_refused_where_it_is_required() {
        let strict = SandboxRules { isolation: Isolation::Strict, ..SandboxRules::default() };
        let error = outcome(&strict, &kernel(7, true)).expect_err("it must not run").to_string();
        assert!(error.contains("strict isolation: namespaces are forbidden"), "{error}");
        let told = outcome(&SandboxRules { required: false, ..strict }, &kernel(7, true)).expect("it may run");
        assert_eq!(told.tier, SupervisionTier::Guardian, "the tier in force is reported");
    }
}

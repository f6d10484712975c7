//! Limits on memory, processes and cores: those the kernel enforces, and those the guardian watches.

use std::{fs, io, time::Duration};

use rustix::{
    process::{Resource, Rlimit, getrlimit, getuid, setrlimit},
    thread::{CpuSet, sched_getaffinity, sched_setaffinity},
};
use serde::{Deserialize, Serialize};

use super::Confinement;
use crate::tree::{self, ProcStat};

/// Which limit a job has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ExceededLimit {
    Memory,
    Processes,
}

/// Sets the kernel's limits for this process and all it will start.
pub(super) fn restrict(confinement: &Confinement) -> io::Result<()> {
    lower(Resource::Core, 0)?;
    if let Some(bytes) = confinement.memory {
        lower(Resource::Data, data_limit(bytes))?;
    }
    if let Some(count) = confinement.processes {
        lower(
            Resource::Nproc,
            task_limit(count, confinement.namespaces.is_some_and(|namespaces| namespaces.has_user)),
        )?;
    }
    if let Some(cores) = &confinement.cores {
        sched_setaffinity(None, &core_set(cores))?;
    }
    Ok(())
}

/// The kernel counts memory that was asked for, used or not, and per process: thread stacks of 8 MiB for example.
/// So this is only the wall against one enormous request, and the guardian's watch is the exact limit.
fn data_limit(bytes: u64) -> u64 {
    bytes.saturating_mul(2).max(1 << 30)
}

/// Processes and threads together, which is what the kernel counts.
pub(super) fn tasks_for(processes: u32) -> u32 {
    const THREADS_PER_PROCESS: u32 = 16;
    processes.saturating_mul(THREADS_PER_PROCESS)
}

/// Outside a user namespace the kernel counts those of all programs of the user.
fn task_limit(processes: u32, has_own_count: bool) -> u64 {
    let others = if has_own_count { 0 } else { tasks_of_this_user() };
    others + u64::from(tasks_for(processes))
}

fn tasks_of_this_user() -> u64 {
    use std::os::unix::fs::MetadataExt;
    let user = getuid().as_raw();
    let is_ours = |pid: &u32| fs::metadata(format!("/proc/{pid}")).is_ok_and(|meta| meta.uid() == user);
    tree::all_ids().into_iter().filter(is_ours).filter_map(ProcStat::read).map(|stat| stat.threads).sum()
}

/// A limit is never raised by us.
fn lower(resource: Resource, to: u64) -> io::Result<()> {
    let now = getrlimit(resource).maximum.unwrap_or(u64::MAX);
    let limit = Some(to.min(now));
    Ok(setrlimit(resource, Rlimit { current: limit, maximum: limit })?)
}

/// The cores this process may use.
pub(super) fn allowed_cores() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap_or_default();
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect();
    if cores.is_empty() { vec![0] } else { cores }
}

fn core_set(cores: &[usize]) -> CpuSet {
    let mut set = CpuSet::new();
    cores.iter().for_each(|core| set.set(*core));
    set
}

/// What the guardian watches, since the kernel has no limit for a whole tree of processes without cgroups.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LimitWatch {
    memory: Option<u64>,
    processes: Option<u32>,
    /// The first process of the job's namespaces, which is ours.
    extra: usize,
    /// The most memory that was seen.
    pub(crate) peak: u64,
    /// Whether the last look found half of a limit used.
    is_close: bool,
}

impl LimitWatch {
    /// None if there is nothing to watch.
    pub(crate) fn new(confinement: &Confinement) -> Option<LimitWatch> {
        let watch = LimitWatch {
            memory: confinement.memory,
            processes: confinement.processes,
            extra: usize::from(confinement.namespaces.is_some()),
            peak: 0,
            is_close: true,
        };
        (watch.memory.is_some() || watch.processes.is_some()).then_some(watch)
    }

    /// Until the next look: short, since a child that forks or allocates as fast as it can passes its limit by what
    /// it gets in this time, and shorter when the limit is near.
    pub(crate) fn pause(&self) -> Duration {
        Duration::from_millis(if self.is_close { 30 } else { 100 })
    }

    /// Looks at everything below `root`; says which limit is passed.
    pub(crate) fn check(&mut self, root: u32) -> Option<ExceededLimit> {
        let pids = tree::descendants(root);
        if self.processes.is_some_and(|limit| pids.len() > limit as usize + self.extra) {
            return Some(ExceededLimit::Processes);
        }
        // Pages shared by several processes are counted for each of them here, so it is only a first look.
        let resident: u64 = pids.iter().filter_map(|pid| ProcStat::read(*pid)).map(|stat| stat.resident_bytes()).sum();
        self.peak = self.peak.max(resident);
        self.is_close = self.memory.is_some_and(|limit| resident > limit / 2)
            || self.processes.is_some_and(|limit| pids.len() > limit as usize / 2);
        let is_over = |limit: u64| resident > limit && shared_fairly(&pids) > limit;
        self.memory.is_some_and(is_over).then_some(ExceededLimit::Memory)
    }
}

/// Memory with each shared page counted once; slow, so asked only when in doubt.
fn shared_fairly(pids: &[u32]) -> u64 {
    pids.iter().map(|pid| proportional_bytes(*pid).unwrap_or(0)).sum()
}

/// A process that hides its numbers is taken at its full size.
fn proportional_bytes(pid: u32) -> Option<u64> {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kilobytes.map(|count| count * 1024).or_else(|| ProcStat::read(pid).map(|stat| stat.resident_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_memory_is_seen_in_both_ways_of_counting() {
        let own = std::process::id();
        let resident = ProcStat::read(own).unwrap().resident_bytes();
        let fair = proportional_bytes(own).unwrap();
        assert!(fair > 100_000 && fair <= resident * 2, "{fair} of {resident}");
    }

    #[test]
    fn a_set_of_cores_survives_the_round_trip() {
        let cores = allowed_cores();
        let set = core_set(&cores);
        assert!(cores.iter().all(|core| set.is_set(*core)));
    }
}

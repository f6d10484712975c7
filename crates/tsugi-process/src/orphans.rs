//! Finds processes of a job by a mark in their environment, in case even the guardian was killed.

use std::{
    ffi::OsString,
    fs,
    sync::atomic::{AtomicU64, Ordering},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::tree::{ProcStat, all_ids};

/// The variable that every child and its descendants carry.
const VARIABLE: &str = "TSUGI_JOB";

/// Names one job of one supervising process, also after that process has died and its id was reused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JobMark {
    owner: MarkOwner,
    number: u64,
}

/// A process in a namespace of process ids, with its start time because ids are reused.
#[derive(Debug, Clone, PartialEq, Eq)]
struct MarkOwner {
    namespace: String,
    pid: u32,
    start_ticks: u64,
}

impl JobMark {
    /// A mark that no other job has.
    pub(crate) fn next() -> JobMark {
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        JobMark { owner: MarkOwner::ourselves(), number: NUMBER.fetch_add(1, Ordering::Relaxed) }
    }

    /// The variable to set in the child's environment.
    pub(crate) fn variable(&self) -> (OsString, OsString) {
        (VARIABLE.into(), self.text().into())
    }

    fn text(&self) -> String {
        let MarkOwner { namespace, pid, start_ticks } = &self.owner;
        format!("{namespace}/{pid}/{start_ticks}/{}", self.number)
    }

    fn parse(text: &str) -> Option<JobMark> {
        let parts: Vec<&str> = text.split('/').collect();
        let [namespace, pid, start_ticks, number] = parts[..] else { return None };
        let owner = MarkOwner {
            namespace: namespace.to_owned(),
            pid: pid.parse().ok()?,
            start_ticks: start_ticks.parse().ok()?,
        };
        Some(JobMark { owner, number: number.parse().ok()? })
    }

    /// Ends every process that carries this mark; gives their ids.
    pub(crate) fn kill_bearers(&self) -> Vec<u32> {
        kill_where(|mark| mark == self)
    }
}

impl MarkOwner {
    fn ourselves() -> MarkOwner {
        let pid = std::process::id();
        let start_ticks = ProcStat::read(pid).map_or(0, |stat| stat.start_ticks);
        MarkOwner { namespace: namespace(), pid, start_ticks }
    }

    /// False for owners in another namespace: we cannot see whether those live.
    fn is_known_dead(&self) -> bool {
        let alive =
            || ProcStat::read(self.pid).is_some_and(|stat| stat.start_ticks == self.start_ticks && stat.is_alive());
        self.start_ticks != 0 && self.namespace == namespace() && !alive()
    }
}

/// Ends processes left by a supervising process that no longer lives, and gives their ids.
///
/// Guardians make this unnecessary unless they were killed too, by the out-of-memory killer for example;
/// a program that starts jobs should call it once when it starts.
/// Processes that cleaned their environment cannot be recognised.
pub fn sweep_strays() -> Vec<u32> {
    kill_where(|mark| mark.owner.is_known_dead())
}

/// A process may fork while we look, so we look until nothing new is found.
fn kill_where(matches: impl Fn(&JobMark) -> bool) -> Vec<u32> {
    const ROUNDS: usize = 20;
    let mut killed = Vec::new();
    for _ in 0..ROUNDS {
        let bearers: Vec<u32> = all_ids().into_iter().filter(|pid| is_bearer(*pid, &matches)).collect();
        if bearers.is_empty() {
            break;
        }
        for pid in bearers.iter().filter_map(|pid| Pid::from_raw(*pid as i32)) {
            // It may have ended by itself in between.
            let _ = kill_process(pid, Signal::KILL);
        }
        killed.extend(bearers);
    }
    killed.sort_unstable();
    killed.dedup();
    killed
}

fn is_bearer(pid: u32, matches: impl Fn(&JobMark) -> bool) -> bool {
    pid != std::process::id()
        && mark_of(pid).is_some_and(|mark| matches(&mark))
        && ProcStat::read(pid).is_some_and(|stat| stat.is_alive())
}

fn mark_of(pid: u32) -> Option<JobMark> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let prefix = format!("{VARIABLE}=");
    let value = environment.split(|byte| *byte == 0).find_map(|entry| entry.strip_prefix(prefix.as_bytes()))?;
    JobMark::parse(std::str::from_utf8(value).ok()?)
}

fn namespace() -> String {
    let link = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    link.to_string_lossy().chars().filter(char::is_ascii_digit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_survives_being_written_and_read() {
        let mark = JobMark::next();
        assert_eq!(JobMark::parse(&mark.text()), Some(mark.clone()));
        assert_ne!(mark, JobMark::next());
        assert_eq!(JobMark::parse("nonsense"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn only_owners_known_to_be_dead_lose_their_processes() {
        let living = MarkOwner::ourselves();
        let reused = MarkOwner { start_ticks: living.start_ticks + 1, ..living.clone() };
        let elsewhere = MarkOwner { namespace: "1".into(), ..reused.clone() };
        assert!(!living.is_known_dead());
        assert!(reused.is_known_dead());
        assert!(!elsewhere.is_known_dead());
    }
}

//! The descendants of a process, read from the process table.

use std::{
    collections::{BTreeMap, HashSet},
    fs,
    path::Path,
    time::Duration,
};

use serde::Serialize;

use crate::sysconf;

/// One living process of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProcessInfo {
    pub pid: u32,
    /// Its parent's process id.
    pub parent: u32,
    pub group: u32,
    /// Its command line, or its name in brackets when it has none.
    pub command: String,
    /// Memory it holds, in bytes.
    pub resident_bytes: u64,
    /// Processor time it has used.
    pub cpu: Duration,
}

/// All living descendants of a process, parents before children; empty on systems without `/proc`.
pub(crate) fn inspect_below(root: u32) -> Vec<ProcessInfo> {
    descendants(root).into_iter().filter_map(inspect).collect()
}

/// The ids of all descendants, including dead ones that were not reaped yet.
pub(crate) fn descendants(root: u32) -> Vec<u32> {
    if has_children_files() {
        return walk(root, children_of);
    }
    let table = parent_table();
    walk(root, |pid| table.get(&pid).cloned().unwrap_or_default())
}

fn walk(root: u32, children: impl Fn(u32) -> Vec<u32>) -> Vec<u32> {
    // A process cannot be its own descendant, but ids may be reused between two reads.
    let mut seen = HashSet::from([root]);
    let mut found = vec![root];
    let mut next = 0;
    while let Some(pid) = found.get(next).copied() {
        found.extend(children(pid).into_iter().filter(|child| seen.insert(*child)));
        next += 1;
    }
    found.split_off(1)
}

/// Some kernels are built without the `children` files; the whole table is read there.
fn has_children_files() -> bool {
    let pid = std::process::id();
    Path::new(&format!("/proc/{pid}/task/{pid}/children")).exists()
}

/// Each thread has its own children, and they count for the process.
fn children_of(pid: u32) -> Vec<u32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let lists = threads.flatten().filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| parse_ids(&list)).collect()
}

fn parse_ids(list: &str) -> Vec<u32> {
    list.split_ascii_whitespace().filter_map(|id| id.parse().ok()).collect()
}

fn parent_table() -> BTreeMap<u32, Vec<u32>> {
    let mut table: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for pid in all_ids() {
        if let Some(stat) = ProcStat::read(pid) {
            table.entry(stat.parent).or_default().push(pid);
        }
    }
    table
}

/// Every process id there is.
pub(crate) fn all_ids() -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn inspect(pid: u32) -> Option<ProcessInfo> {
    let stat = ProcStat::read(pid).filter(ProcStat::is_alive)?;
    Some(ProcessInfo {
        pid,
        parent: stat.parent,
        group: stat.group,
        command: command_line(pid).unwrap_or_else(|| format!("[{}]", stat.name)),
        resident_bytes: stat.resident_bytes(),
        cpu: ticks(stat.cpu_ticks),
    })
}

fn ticks(count: u64) -> Duration {
    Duration::from_millis(count * 1000 / sysconf::ticks_per_second())
}

fn command_line(pid: u32) -> Option<String> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let text = String::from_utf8_lossy(&bytes).trim_end_matches('\0').replace('\0', " ");
    (!text.is_empty()).then_some(text)
}

/// What we need of `/proc/<pid>/stat`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ProcStat {
    pub(crate) name: String,
    state: char,
    pub(crate) parent: u32,
    pub(crate) group: u32,
    cpu_ticks: u64,
    pub(crate) start_ticks: u64,
    pub(crate) threads: u64,
    resident_pages: u64,
}

impl ProcStat {
    pub(crate) fn read(pid: u32) -> Option<ProcStat> {
        // Names may hold any bytes, so the file is not always UTF-8.
        let bytes = fs::read(format!("/proc/{pid}/stat")).ok()?;
        ProcStat::parse(&String::from_utf8_lossy(&bytes))
    }

    /// The name stands in brackets and may itself hold brackets and blanks; see proc_pid_stat(5).
    fn parse(text: &str) -> Option<ProcStat> {
        // From the end: no field after the name holds a bracket.
        let (head, rest) = text.rsplit_once(')')?;
        let (_, name) = head.split_once('(')?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        // Index 0 is field 3 of the manual page, the first one after the name.
        let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
        Some(ProcStat {
            name: name.to_owned(),
            state: fields.first()?.chars().next()?,
            parent: number(1)? as u32,
            group: number(2)? as u32,
            cpu_ticks: number(11)? + number(12)?,
            threads: number(17)?,
            start_ticks: number(19)?,
            resident_pages: number(21)?,
        })
    }

    pub(crate) fn resident_bytes(&self) -> u64 {
        self.resident_pages * sysconf::page_bytes()
    }

    /// Neither a zombie nor about to vanish.
    pub(crate) fn is_alive(&self) -> bool {
        !matches!(self.state, 'Z' | 'X' | 'x')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_blanks_does_not_confuse_the_reader() {
        let line = "42 (a) b (c) S 7 42 1 0 -1 0 0 0 0 0 30 12 0 0 20 0 1 0 555 1000 25 0 0";
        let stat = ProcStat::parse(line).unwrap();
        assert_eq!((stat.name.as_str(), stat.parent, stat.group), ("a) b (c", 7, 42));
        assert_eq!((stat.cpu_ticks, stat.start_ticks, stat.resident_pages), (42, 555, 25));
        assert!(stat.is_alive());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn both_ways_of_reading_the_table_agree_on_our_parent() {
        let own = std::process::id();
        let parent = ProcStat::read(own).unwrap().parent;
        assert!(children_of(parent).contains(&own));
        assert!(parent_table()[&parent].contains(&own));
    }
}

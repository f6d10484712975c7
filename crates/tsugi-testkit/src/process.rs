//! Processes seen from outside: who carries a mark, how much they hold.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Pid, Signal, kill_process};

/// The environment variable that carries a mark.
pub const MARK_VARIABLE: &str = "TSUGI_TESTKIT_MARK";

/// A mark that no other test has. Children inherit it through their environment, however far they run away.
/// Dropping it ends what still carries it, so that a failed test leaves nothing behind.
#[derive(Debug)]
pub struct Mark(String);

/// A living process, or one that nobody has waited for yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Its parent's.
    pub parent: u32,
    /// Its state: `R`, `S`, `T`, `Z`, …
    pub state: char,
    /// Its command line.
    pub command: String,
}

impl Mark {
    /// A new mark.
    #[allow(clippy::new_without_default, reason = "every mark is another one, which is no default")]
    pub fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let moment = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |elapsed| elapsed.as_nanos());
        Self(format!("mark-{}-{moment}-{}-", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The variable to start the first process with.
    pub fn variable(&self) -> (String, String) {
        (MARK_VARIABLE.to_owned(), self.0.clone())
    }

    /// The processes whose environment or command line carries the mark, this one never among them.
    pub fn processes(&self) -> Vec<Process> {
        let own = std::process::id();
        all().into_iter().filter(|process| process.pid != own && self.is_on(process.pid)).collect()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.processes().len()
    }

    fn is_on(&self, pid: u32) -> bool {
        let carries = |name| text(pid, name).contains(&self.0);
        carries("environ") || carries("cmdline")
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        // What is killed may have started something just before; look again until nothing is left.
        for _ in 0..100 {
            let left = self.processes();
            if left.iter().all(|process| process.state == 'Z') {
                return;
            }
            left.iter().for_each(|process| send(process.pid, Signal::KILL));
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}

/// Sends a signal. A process that is gone already is no error.
pub fn send(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        kill_process(pid, signal).ok();
    }
}

/// Every process that can be seen.
pub fn all() -> Vec<Process> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(look_at).collect()
}

/// One process; `None` when it is gone.
pub fn look_at(pid: u32) -> Option<Process> {
    let stat = text(pid, "stat");
    // The name in parentheses may itself contain anything.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    Some(Process { pid, parent, state, command: text(pid, "cmdline").replace('\0', " ").trim().to_owned() })
}

/// True while the process is there and not a zombie.
pub fn is_alive(pid: u32) -> bool {
    look_at(pid).is_some_and(|process| process.state != 'Z')
}

/// All descendants of a process, zombies too.
pub fn descendants_of(pid: u32) -> Vec<Process> {
    let mut children: HashMap<u32, Vec<Process>> = HashMap::new();
    for process in all() {
        children.entry(process.parent).or_default().push(process);
    }
    let mut found = Vec::new();
    let mut next = vec![pid];
    while let Some(parent) = next.pop() {
        let below = children.remove(&parent).unwrap_or_default();
        next.extend(below.iter().map(|process| process.pid));
        found.extend(below);
    }
    found
}

/// Children that ended and that nobody has waited for.
pub fn zombies_of(pid: u32) -> usize {
    all().iter().filter(|process| process.parent == pid && process.state == 'Z').count()
}

/// How many files a process has open; `None` when it is gone or not ours.
pub fn open_files(pid: u32) -> Option<usize> {
    std::fs::read_dir(path(pid, "fd")).ok().map(Iterator::count)
}

/// How many bytes of memory a process holds now.
pub fn resident_bytes(pid: u32) -> Option<u64> {
    status_bytes(pid, "VmRSS:")
}

/// How many bytes of memory a process held at most.
pub fn peak_resident_bytes(pid: u32) -> Option<u64> {
    status_bytes(pid, "VmHWM:")
}

fn status_bytes(pid: u32, key: &str) -> Option<u64> {
    let status = text(pid, "status");
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

fn path(pid: u32, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/{name}"))
}

fn text(pid: u32, name: &str) -> String {
    String::from_utf8_lossy(&std::fs::read(path(pid, name)).unwrap_or_default()).into_owned()
}

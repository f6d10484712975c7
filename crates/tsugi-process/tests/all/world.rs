//! Test fixtures: hostile commands with a mark, and the process table seen from outside.

use std::{
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tsugi_process::{JobCommand, JobOptions, StopGrace};

use crate::hostile::FLAG;

/// The variable that all processes of one test row carry.
pub(crate) const MARK: &str = "HOSTILE_MARK";

/// Everything must be gone this long after the end of a job.
pub(crate) const LIMIT: Duration = Duration::from_secs(6);

/// A folder with a name for this test binary that holds a mark, so that guardians can be found by it too.
pub(crate) struct World {
    _folder: tempfile::TempDir,
    pub(crate) program: PathBuf,
    pub(crate) mark: String,
}

impl World {
    pub(crate) fn new() -> World {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let mark = format!("mark-{}-{}-end", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join(&mark);
        std::os::unix::fs::symlink(std::env::current_exe().unwrap(), &program).unwrap();
        World { _folder: folder, program, mark }
    }

    /// A command that plays a role.
    pub(crate) fn command(&self, role: &str) -> JobCommand {
        JobCommand::new(&self.program).args([FLAG, role]).env(MARK, &self.mark)
    }

    /// A supervising process that plays a role by a job, or carelessly.
    #[allow(clippy::disallowed_methods, reason = "the supervisor that a test kills cannot be a job of the test")]
    pub(crate) fn supervisor(&self, kind: &str, role: &str) -> std::process::Child {
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command.args([FLAG, kind]).arg(&self.program).args([&self.mark, role]);
        command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::piped()).spawn().unwrap()
    }

    /// The living processes of this world, with their command lines.
    pub(crate) fn processes(&self) -> Vec<(u32, String)> {
        let own = std::process::id();
        let ids = std::fs::read_dir("/proc").unwrap().flatten();
        let ids = ids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        ids.filter(|pid| *pid != own && self.bears_mark(*pid)).map(|pid| (pid, text(pid, "cmdline"))).collect()
    }

    fn bears_mark(&self, pid: u32) -> bool {
        // A zombie has neither a command line nor an environment.
        text(pid, "cmdline").contains(&self.mark) || text(pid, "environ").contains(&self.mark)
    }

    /// Waits until no process is left, and fails with those that are.
    pub(crate) async fn assert_empty(&self, what: &str) {
        let start = Instant::now();
        loop {
            let left = self.processes();
            if left.is_empty() {
                return;
            }
            assert!(start.elapsed() < LIMIT, "{what}: {} processes survive: {left:?}", left.len());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

fn text(pid: u32, file: &str) -> String {
    let bytes = std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ")
}

/// Short steps, for rows that use all of them.
pub(crate) fn quick() -> JobOptions {
    let grace =
        StopGrace { stdin: Duration::from_millis(200), terminate: Duration::from_millis(300), ..StopGrace::default() };
    JobOptions { grace, ..JobOptions::default() }
}

/// Waits until a child and its family have said that they stand.
pub(crate) async fn wait_ready(stdout: impl AsyncRead + Unpin, count: usize) {
    let mut lines = BufReader::new(stdout).lines();
    for _ in 0..count {
        let line = tokio::time::timeout(Duration::from_secs(20), lines.next_line()).await;
        assert_eq!(line.expect("the child speaks in time").unwrap().as_deref(), Some("ready"));
    }
}

/// Sends a signal as an outsider would.
pub(crate) fn send_signal(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

//! The standard error of a server's processes, one after the other: without it, the reason for a crash would be gone as
//! soon as the next process runs.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::layer::debug::follow_stderr;

use super::{Instance, ProcessRecord, Server};

/// Lines kept of processes that have ended.
const KEPT_LINES: usize = 200;

/// The last lines of processes that have ended, each process with a line that says so.
#[derive(Default)]
pub(super) struct PastOutput(Mutex<VecDeque<String>>);

impl PastOutput {
    /// A process takes another one's place.
    pub(super) fn replaced(&self, old: &ProcessRecord, new: &ProcessRecord) {
        self.ended(old.stderr.tail(KEPT_LINES), old.pid, new.pid);
    }

    fn ended(&self, lines: Vec<String>, old: u32, new: u32) {
        let mut kept = self.0.lock();
        kept.extend(lines);
        kept.push_back(format!("── process {old} ended, process {new} began ──"));
        let excess = kept.len().saturating_sub(KEPT_LINES);
        kept.drain(..excess);
    }

    fn lines(&self, count: usize) -> Vec<String> {
        let kept = self.0.lock();
        kept.iter().skip(kept.len().saturating_sub(count)).cloned().collect()
    }
}

impl Instance {
    /// A process begins, where the wire has one; what its predecessor said is kept.
    pub(super) fn begin_log(&self, newest: Option<ProcessRecord>) {
        let newest = newest.map(Arc::new);
        if let Some(process) = newest.as_ref().filter(|_| self.context.options.debug) {
            follow_stderr(self.context.server.clone(), &process.stderr);
        }
        let old = self.process.swap(newest.clone());
        if let (Some(old), Some(new)) = (old, newest) {
            self.past_output.replaced(&old, &new);
        }
    }
}

impl Server {
    /// The last lines that its processes wrote to their standard error, including those before the newest one. A line
    /// of ours stands between two processes.
    pub fn log(&self, lines: usize) -> Vec<String> {
        let newest = self.stderr(lines);
        let mut log = self.instance.past_output.lines(lines - newest.len());
        log.extend(newest);
        log
    }

    /// The part of [`log`](Self::log) that its newest process began, with the line that stands before it.
    pub fn log_of_newest(&self, lines: usize) -> Vec<String> {
        let mut log = self.instance.past_output.lines(1);
        log.extend(self.stderr(lines));
        log
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_of_each_process_stay_with_a_line_between_them() {
        let earlier = PastOutput::default();
        earlier.ended(vec!["ready".into(), "out of memory".into()], 10, 11);
        earlier.ended(vec!["ready".into()], 11, 12);
        let between = ["── process 10 ended, process 11 began ──", "── process 11 ended, process 12 began ──"];
        assert_eq!(earlier.lines(9), ["ready", "out of memory", between[0], "ready", between[1]]);
        assert_eq!(earlier.lines(1), [between[1]]);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let earlier = PastOutput::default();
        for pid in 0..10 {
            earlier.ended(vec!["x".into(); 100], pid, pid + 1);
        }
        assert_eq!(earlier.lines(usize::MAX).len(), KEPT_LINES);
    }
}

//! A disk that is full: calls are refused or counted, and what happened is written when it can be.

use std::process::Command;

use tsugi_audit::record::{AuditKind, AuditRecord};
use tsugi_audit::verify::ChainVerdict;
use tsugi_audit::writer::{AuditUnavailable, FailurePolicy, SyncMode};

use crate::world::{AuditWorld, begun, write_call};

const CHILD: &str = "TSUGI_AUDIT_FULL";

/// The limit on the size of files, which stands for a full disk: `write` fails, also in the middle of a line.
fn set_file_limit(bytes: Option<u64>) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let maximum = getrlimit(Resource::Fsize).maximum;
    setrlimit(Resource::Fsize, Rlimit { current: bytes.or(maximum), maximum }).unwrap();
}

/// Runs a test of this program in a process of its own, where the limit harms no other test.
fn run_alone(test: &str) {
    let program = std::env::current_exe().unwrap();
    let script = "trap '' XFSZ; exec \"$0\" --exact \"$1\" --nocapture";
    let status = Command::new("sh").args(["-c", script]).arg(program).arg(test).env(CHILD, "1").output().unwrap();
    assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stderr));
}

fn is_alone() -> bool {
    std::env::var_os(CHILD).is_some()
}

#[test]
fn a_full_disk_refuses_what_must_be_written_and_keeps_what_has_happened() {
    run_alone("failure::alone_refuse");
}

#[test]
fn alone_refuse() {
    if !is_alone() {
        return;
    }
    let world = AuditWorld::new();
    let writer = world.open();
    let seq = writer.require(&begun("before")).unwrap();
    let length = std::fs::metadata(world.file()).unwrap().len();
    // The next line does not fit: its beginning is written and cut off again.
    set_file_limit(Some(length + 100));
    assert_eq!(writer.require(&begun("refused")), Err(AuditUnavailable));
    assert_eq!(std::fs::metadata(world.file()).unwrap().len(), length);
    writer.note(&AuditRecord { begun: seq, ..AuditRecord::new(AuditKind::CallEnded) });
    assert_eq!(writer.status().backlog, 1);
    assert!(!writer.status().is_available);
    set_file_limit(None);
    writer.require(&begun("after")).unwrap();
    assert!(writer.status().is_available);
    drop(writer);
    let ChainVerdict::Whole(summary) = world.verdict() else { panic!("{:?}", world.verdict()) };
    assert_eq!(summary.gaps, 0);
    let text = world.lines().join("\n");
    assert!(text.contains("\"before\"") && text.contains("call.ended") && text.contains("\"after\""), "{text}");
    assert!(!text.contains("\"refused\""));
}

#[test]
fn a_full_disk_with_continue_counts_what_is_missing() {
    run_alone("failure::alone_continue");
}

#[test]
fn alone_continue() {
    if !is_alone() {
        return;
    }
    let world = AuditWorld::new();
    let writer = world.open_with(|config| config.on_failure = FailurePolicy::Continue);
    let length = std::fs::metadata(world.file()).unwrap().len();
    set_file_limit(Some(length + 10));
    for _ in 0..5 {
        assert_eq!(writer.require(&begun("unwritten")), Ok(None));
    }
    assert_eq!(writer.status().lost, 5);
    set_file_limit(None);
    write_call(&writer, "after");
    drop(writer);
    let ChainVerdict::Whole(summary) = world.verdict() else { panic!("{:?}", world.verdict()) };
    assert_eq!(summary.gaps, 1);
    assert!(world.lines().iter().any(|line| line.contains("audit.gap") && line.contains("\"count\":5")));
}

#[test]
fn lines_of_many_threads_survive_a_disk_that_is_full_for_a_while() {
    run_alone("failure::alone_threads");
}

#[test]
fn alone_threads() {
    if !is_alone() {
        return;
    }
    let world = AuditWorld::new();
    let writer = world.open();
    let promised = parking_lot::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (writer, promised) = (&writer, &promised);
            scope.spawn(move || {
                for call in 0..500 {
                    let name = format!("{thread}-{call}");
                    if let Ok(Some(seq)) = writer.require(&begun(&name)) {
                        promised.lock().push((seq, name));
                    }
                }
            });
        }
        for _ in 0..50 {
            let length = std::fs::metadata(world.file()).unwrap().len();
            set_file_limit(Some(length + 300));
            std::thread::yield_now();
            set_file_limit(None);
        }
    });
    drop(writer);
    assert_eq!(world.verdict().exit_code(), 0, "{:?}", world.verdict());
    let text: std::collections::HashSet<(u64, String)> = world
        .lines()
        .iter()
        .filter_map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            Some((line["seq"].as_u64()?, line["name"].as_str()?.to_owned()))
        })
        .collect();
    let promised = promised.into_inner();
    assert!(promised.iter().all(|line| text.contains(line)));
}

#[tokio::test]
async fn a_line_waits_for_the_disk_where_that_is_asked_for() {
    let world = AuditWorld::new();
    let writer = world.open_with(|config| config.sync = SyncMode::Always);
    for call in 0..20 {
        let seq = writer.require(&begun(&format!("{call}"))).unwrap().unwrap();
        writer.synced(seq).await.unwrap();
    }
    writer.close();
    assert_eq!(world.verdict().exit_code(), 0);
    assert_eq!(writer.require(&begun("late")), Err(AuditUnavailable));
}

//! What a crash leaves behind is closed at the next start and explained.

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::Value;
use tsugi_audit::verify::{BreakReason, ChainVerdict};
use tsugi_audit::writer::{AuditOpenError, AuditWriter};

use crate::world::{AuditWorld, key, write_call};

fn append(world: &AuditWorld, bytes: &[u8]) {
    std::fs::OpenOptions::new().append(true).open(world.file()).unwrap().write_all(bytes).unwrap();
}

fn summary_of(world: &AuditWorld) -> tsugi_audit::verify::ChainSummary {
    match world.verdict() {
        ChainVerdict::Whole(summary) => summary,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_line_that_was_cut_short_is_closed_by_a_gap() {
    let zeros = vec![0_u8; 200_000];
    for torn in [&b"{\"action\":\"too"[..], b"x", b"{}\nhalf", b"\0\0\0", b"garbage with an end\n", &zeros] {
        let world = AuditWorld::with_calls(1);
        append(&world, torn);
        write_call(&world.open(), "after");
        let summary = summary_of(&world);
        assert_eq!((summary.gaps, summary.unsigned), (1, 0), "{:?}", &torn[..torn.len().min(20)]);
        // A second start has nothing to close.
        drop(world.open());
        assert_eq!(summary_of(&world).gaps, 1);
    }
}

#[test]
fn a_gap_explains_only_what_stood_there() {
    let world = AuditWorld::with_calls(1);
    append(&world, b"{\"half");
    drop(world.open());
    assert_eq!(summary_of(&world).gaps, 1);
    let text = std::fs::read_to_string(world.file()).unwrap();
    std::fs::write(world.file(), text.replace("{\"half", "{\"hall")).unwrap();
    let ChainVerdict::Broken(found) = world.verdict() else { panic!("{:?}", world.verdict()) };
    assert_eq!(found.reason, BreakReason::OtherGap);
    std::fs::write(world.file(), text.replace("{\"half\n", "")).unwrap();
    assert!(matches!(world.verdict(), ChainVerdict::Broken(_)));
}

#[test]
fn a_missing_newline_is_added_without_a_gap() {
    let world = AuditWorld::with_calls(1);
    let text = std::fs::read(world.file()).unwrap();
    std::fs::write(world.file(), &text[..text.len() - 1]).unwrap();
    drop(world.open());
    assert_eq!(summary_of(&world).gaps, 0);
}

#[test]
fn a_crash_between_two_files_does_not_begin_another_chain() {
    let world = AuditWorld::with_calls(1);
    std::fs::rename(world.file(), world.folder.path().join("audit-000000000001.jsonl")).unwrap();
    std::fs::write(world.folder.path().join("audit.jsonl.new"), "").unwrap();
    drop(world.open());
    assert_eq!(summary_of(&world).first_seq, 1);
    assert_eq!(world.files().files().unwrap().len(), 2);
}

#[test]
fn a_file_of_something_else_is_not_written_to() {
    let world = AuditWorld::new();
    std::fs::write(world.file(), "listen: 127.0.0.1\nservers: {}\n").unwrap();
    assert!(matches!(AuditWriter::open(world.config(), key()), Err(AuditOpenError::Foreign { .. })));
    assert_eq!(world.lines().len(), 2);
}

const CHILD: &str = "TSUGI_AUDIT_CHILD";

/// The child of the test below: writes lines and then reports each to its parent, as a gateway sends a call upstream
/// after its line.
#[test]
fn child_that_is_killed() {
    let Ok(file) = std::env::var(CHILD) else { return };
    let mut config = tsugi_audit::writer::WriterConfig::new(file);
    config.rotate_bytes = 40_000;
    let writer = AuditWriter::open(config, key()).unwrap();
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            let writer = &writer;
            move || {
                for call in 0.. {
                    let name = format!("{thread}-{call}");
                    let Ok(Some(seq)) = writer.require(&crate::world::begun(&name)) else { return };
                    // One write per effect: a pipe takes short writes whole.
                    let effect = format!("effect {seq} {name}\n");
                    if std::io::stderr().write_all(effect.as_bytes()).is_err() {
                        return;
                    }
                }
            }
        })
        .collect();
    std::thread::scope(|scope| threads.into_iter().for_each(|thread| drop(scope.spawn(thread))));
}

/// N39, without a gateway: what was reported has its line, whenever the writer is killed.
#[test]
fn a_killed_writer_leaves_a_line_for_every_effect_and_a_whole_chain() {
    let world = AuditWorld::new();
    let kills = if std::env::var_os("TSUGI_LONG").is_some() { 2000 } else { 12 };
    let mut effects = Vec::new();
    for kill in 0..kills {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "crash::child_that_is_killed", "--nocapture"])
            .env(CHILD, world.file())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = std::io::BufReader::new(child.stderr.take().unwrap());
        // Killed after a number of effects that differs each time.
        for _ in 0..(kill * 37 % 300 + 1) {
            let mut line = String::new();
            assert!(std::io::BufRead::read_line(&mut output, &mut line).unwrap() > 0, "the child ended by itself");
            effects.push(line);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut output, &mut rest).unwrap();
        effects.extend(rest.split_inclusive('\n').filter(|line| line.ends_with('\n')).map(str::to_owned));
    }
    drop(world.open());
    let summary = summary_of(&world);
    let mut written = std::collections::HashSet::new();
    for file in world.files().files().unwrap() {
        for line in std::fs::read(file).unwrap().split(|&byte| byte == b'\n') {
            let Ok(line) = serde_json::from_slice::<Value>(line) else { continue };
            if line["kind"] == "call.begun" {
                written.insert(format!("effect {} {}\n", line["seq"], line["name"].as_str().unwrap()));
            }
        }
    }
    let effects: Vec<_> = effects.into_iter().filter(|line| line.starts_with("effect ")).collect();
    assert!(effects.len() as u64 > kills, "{summary:?}");
    let missing: Vec<_> = effects.iter().filter(|effect| !written.contains(*effect)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

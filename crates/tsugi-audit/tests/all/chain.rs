//! Every change of a log is found and named.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tsugi_audit::checkpoint::{AuditKey, Checkpoint};
use tsugi_audit::verify::{BreakReason, ChainVerdict, CutReason, VerifyOptions, verify_files, verify_set};
use tsugi_audit::writer::{AuditOpenError, AuditWriter};

use crate::world::{AuditWorld, begun, key, lines, write_call};

fn write_lines(world: &AuditWorld, lines: &[String]) {
    std::fs::write(world.file(), lines.join("\n") + "\n").unwrap();
}

fn broken(world: &AuditWorld) -> (u64, BreakReason) {
    match world.verdict() {
        ChainVerdict::Broken(at) => (at.seq, at.reason),
        other => panic!("{other:?}"),
    }
}

fn value(line: &str) -> Value {
    serde_json::from_str(line).unwrap()
}

#[test]
fn a_log_that_was_closed_is_whole_and_signed() {
    let world = AuditWorld::with_calls(3);
    let ChainVerdict::Whole(summary) = world.verdict() else { panic!("{:?}", world.verdict()) };
    // start, checkpoint, three calls of two lines, checkpoint.
    assert_eq!((summary.lines, summary.checkpoints, summary.unsigned, summary.gaps), (9, 2, 0, 0));
    let kinds: Vec<Value> = world.lines().iter().map(|line| value(line)["kind"].clone()).collect();
    assert_eq!(kinds[..4], ["audit.start", "audit.checkpoint", "call.begun", "call.ended"]);
    assert_eq!(value(&world.lines()[3])["begun"], value(&world.lines()[2])["seq"]);
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(world.file()).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn every_line_is_canonical_json() {
    for line in AuditWorld::with_calls(2).lines() {
        assert_eq!(serde_json_canonicalizer::to_string(&value(&line)).unwrap(), line);
    }
}

/// N40: one byte changed. Every byte of every line counts, even of the last.
#[test]
fn any_changed_byte_is_found_and_its_line_named() {
    let world = AuditWorld::with_calls(3);
    let good = std::fs::read(world.file()).unwrap();
    let mut seq = 1;
    for at in 0..good.len() {
        if good[at] == b'\n' {
            seq += 1;
            continue;
        }
        let mut changed = good.clone();
        changed[at] = if changed[at] == b'0' { b'1' } else { b'0' };
        std::fs::write(world.file(), &changed).unwrap();
        let ChainVerdict::Broken(found) = world.verdict() else {
            panic!("byte {at} of line {seq}: {:?}", world.verdict())
        };
        // A changed digit of `seq` itself gives the line another number; its place in the file is still named.
        let is_named = found.seq == seq || found.line == seq;
        assert!(is_named, "byte {at} of line {seq}: {found:?}");
    }
}

/// The careless control: a log without a chain, where only the form of each line is checked, lets a change pass.
#[test]
fn a_log_without_a_chain_would_not_notice_a_changed_name() {
    let world = AuditWorld::with_calls(2);
    let mut changed = world.lines();
    changed[2] = changed[2].replace("key:ann", "key:bob");
    assert!(changed.iter().all(|line| serde_json::from_str::<Value>(line).is_ok()));
    write_lines(&world, &changed);
    assert_eq!(broken(&world), (3, BreakReason::Changed));
}

/// N40: a line removed.
#[test]
fn a_removed_line_is_named() {
    let good = AuditWorld::with_calls(3);
    // The first may be gone because its file was deleted, and the last is a matter of cutting.
    for at in 1..8 {
        let world = AuditWorld::new();
        let mut left = good.lines();
        left.remove(at);
        write_lines(&world, &left);
        assert_eq!(broken(&world), (at as u64 + 1, BreakReason::Missing));
    }
}

/// N40: lines swapped.
#[test]
fn swapped_lines_are_named() {
    let good = AuditWorld::with_calls(3);
    for at in 1..8 {
        let world = AuditWorld::new();
        let mut swapped = good.lines();
        swapped.swap(at, at + 1);
        write_lines(&world, &swapped);
        assert_eq!(broken(&world), (at as u64 + 1, BreakReason::Missing));
    }
}

#[test]
fn a_line_written_twice_or_added_is_named() {
    let world = AuditWorld::with_calls(2);
    let mut doubled = world.lines();
    doubled.insert(3, doubled[2].clone());
    write_lines(&world, &doubled);
    assert_eq!(broken(&world), (3, BreakReason::Moved));
    let world = AuditWorld::with_calls(2);
    let mut added = world.lines();
    added.insert(3, "not a line".to_owned());
    write_lines(&world, &added);
    assert_eq!(broken(&world), (4, BreakReason::Unreadable));
}

/// N40: the tail cut, at every byte.
#[test]
fn a_cut_tail_is_found_at_every_length() {
    let world = AuditWorld::with_calls(3);
    let good = std::fs::read(world.file()).unwrap();
    for length in 0..good.len() {
        std::fs::write(world.file(), &good[..length]).unwrap();
        let ChainVerdict::Cut(_, reason) = world.verdict() else { panic!("{length}: {:?}", world.verdict()) };
        let expected = match length {
            0 => CutReason::Empty,
            _ if good[length - 1] == b'\n' => CutReason::NoClosing,
            _ => CutReason::HalfLine,
        };
        assert_eq!(reason, expected, "{length}");
    }
}

/// With a checkpoint that was kept elsewhere, a log cannot be shortened to an earlier good end or written again.
#[test]
fn a_checkpoint_that_was_kept_elsewhere_shows_an_earlier_end_and_another_history() {
    let world = AuditWorld::with_calls(1);
    let earlier = std::fs::read(world.file()).unwrap();
    write_call(&world.open(), "later");
    let ChainVerdict::Whole(summary) = world.verdict() else { panic!("{:?}", world.verdict()) };
    let options = VerifyOptions { from: summary.last_checkpoint, ..VerifyOptions::default() };
    assert_eq!(verify_set(&world.files(), &options).unwrap().exit_code(), 0);
    std::fs::write(world.file(), earlier).unwrap();
    assert_eq!(world.verdict().exit_code(), 0, "the earlier end is good by itself");
    assert!(matches!(verify_set(&world.files(), &options).unwrap(), ChainVerdict::Cut(_, CutReason::BeforeCheckpoint)));
    // Another history of the same length, signed with the right key.
    let world = AuditWorld::with_calls(1);
    write_call(&world.open(), "forged");
    let ChainVerdict::Broken(found) = verify_set(&world.files(), &options).unwrap() else { panic!() };
    assert_eq!(found.reason, BreakReason::OtherCheckpoint);
}

#[test]
fn a_chain_signed_with_another_key_is_refused_when_the_key_is_known() {
    let world = AuditWorld::new();
    let other = AuditKey::from_seed(&[6; 32]).unwrap();
    drop(AuditWriter::open(world.config(), other).unwrap());
    assert_eq!(broken(&world), (2, BreakReason::OtherKey));
    assert_eq!(verify_set(&world.files(), &VerifyOptions::default()).unwrap().exit_code(), 0);
}

#[test]
fn a_log_that_is_being_written_may_have_an_unsigned_end() {
    let world = AuditWorld::new();
    let writer = world.open();
    write_call(&writer, "read");
    let ChainVerdict::Whole(summary) = world.verdict() else { panic!("{:?}", world.verdict()) };
    assert_eq!(summary.unsigned, 2);
    assert!(matches!(AuditWriter::open(world.config(), key()), Err(AuditOpenError::Owned { .. })));
    drop(writer);
    assert_eq!(world.verdict().exit_code(), 0);
}

#[test]
fn a_new_file_goes_on_with_the_chain_of_the_old_one() {
    let world = AuditWorld::new();
    let writer = world.open_with(|config| config.rotate_bytes = 4000);
    let mut calls = 0;
    while world.files().files().unwrap().len() < 4 {
        write_call(&writer, "read");
        calls += 1;
        assert!(calls < 1_000_000, "no new file was begun");
    }
    drop(writer);
    let files = world.files().files().unwrap();
    let ChainVerdict::Whole(summary) = world.verdict() else { panic!("{:?}", world.verdict()) };
    assert!(summary.checkpoints >= 4);
    // Each finished file is whole by itself, and the newest may be verified when the older ones are gone.
    for file in &files {
        let verdict = verify_files(&[file], &VerifyOptions::default()).unwrap();
        assert_eq!(verdict.exit_code(), 0, "{verdict:?}");
    }
    // A file taken out of the middle shows.
    std::fs::remove_file(&files[1]).unwrap();
    assert_eq!(broken(&world).1, BreakReason::Missing);
}

#[test]
fn a_file_that_another_program_moved_is_followed_by_a_new_one() {
    let world = AuditWorld::new();
    let writer = world.open();
    write_call(&writer, "first");
    let moved = world.folder.path().join("moved");
    std::fs::rename(world.file(), &moved).unwrap();
    while !world.file().exists() {
        std::thread::sleep(Duration::from_millis(20));
    }
    write_call(&writer, "second");
    drop(writer);
    let verdict = verify_files(&[moved, world.file()], &VerifyOptions::default()).unwrap();
    assert_eq!(verdict.exit_code(), 0, "{verdict:?}");
}

#[test]
fn checkpoints_come_with_the_lines_and_lines_of_many_threads_form_one_chain() {
    let world = AuditWorld::new();
    let writer = Arc::new(world.open_with(|config| config.checkpoint_lines = 100));
    let threads: Vec<_> = (0..8)
        .map(|thread| {
            let writer = writer.clone();
            std::thread::spawn(move || (0..200).for_each(|call| write_call(&writer, &format!("{thread}-{call}"))))
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    while writer.status().last_checkpoint.as_ref().is_none_or(|checkpoint| checkpoint.seq < 3000) {
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(writer);
    let ChainVerdict::Whole(summary) = world.verdict() else { panic!("{:?}", world.verdict()) };
    assert_eq!(summary.lines - summary.checkpoints, 8 * 200 * 2 + 1);
    assert!(summary.checkpoints > 3, "{summary:?}");
}

#[test]
fn a_line_is_in_the_file_when_it_is_promised() {
    let world = AuditWorld::new();
    let writer = world.open();
    for call in 0..100 {
        let seq = writer.require(&begun(&format!("tool{call}"))).unwrap().unwrap();
        let last = lines(&world.file()).pop().unwrap();
        assert_eq!(value(&last)["seq"], seq);
    }
}

#[test]
fn a_checkpoint_can_be_read_from_its_line() {
    let world = AuditWorld::with_calls(1);
    let last = world.lines().pop().unwrap();
    let checkpoint: Checkpoint = serde_json::from_value(value(&last)["checkpoint"].clone()).unwrap();
    assert!(checkpoint.is_signed());
    assert_eq!(checkpoint.seq + 1, value(&last)["seq"].as_u64().unwrap());
}

mod mutations {
    use std::sync::LazyLock;

    use proptest::prelude::*;
    use tsugi_audit::verify::{ChainVerdict, ChainVerifier, VerifyOptions};

    use crate::world::{AuditWorld, key};

    static GOOD: LazyLock<Vec<u8>> = LazyLock::new(|| std::fs::read(AuditWorld::with_calls(4).file()).unwrap());

    fn verdict(text: &[u8]) -> ChainVerdict {
        let mut verifier = ChainVerifier::new(VerifyOptions { key: Some(key().public()), ..VerifyOptions::default() });
        verifier.read("mutated", &mut &text[..]).unwrap().map_or_else(|| verifier.finish(), ChainVerdict::Broken)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// What the fuzz target looks for with more time: any splice of a good log is found, and nothing panics.
        #[test]
        fn no_splice_of_a_good_log_is_whole(
            from in 0_usize..4000, until in 0_usize..4000, put in proptest::collection::vec(any::<u8>(), 0..40),
            copied in 0_usize..4000, length in 0_usize..900,
        ) {
            let good = &*GOOD;
            let (from, until) = (from.min(good.len()), until.min(good.len()));
            let (from, until) = (from.min(until), from.max(until));
            let copy = good.get(copied..(copied + length).min(good.len())).unwrap_or_default();
            for middle in [&put[..], copy] {
                let text = [&good[..from], middle, &good[until..]].concat();
                // What is left of a log from some line on is whole by itself: older files may be gone.
                let is_tail = good.ends_with(&text) && (from == 0 || text == *good);
                prop_assert!(is_tail || verdict(&text).exit_code() != 0, "{}", String::from_utf8_lossy(&text));
            }
        }
    }
}

//! Real file systems that cannot be written or are full, made for the test in a mount namespace of its own.
#![allow(clippy::print_stdout, reason = "a test says why it was skipped")]

use std::path::Path;
use std::process::Output;

use super::{asked, place, program};

/// Runs a shell script that may mount what it likes: nobody else sees it, and it ends with the script.
/// Answers nothing where the system does not allow that.
fn in_namespace(folder: &Path, script: &str) -> Option<Output> {
    let may_mount = "mount -t tmpfs probe /mnt";
    let run = |script: &str| {
        let mut command = program("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-euc", script]).current_dir(folder);
        command.env("TSUGI", env!("CARGO_BIN_EXE_tsugi")).output().ok()
    };
    if !run(may_mount).is_some_and(|output| output.status.success()) {
        println!("skipped: this system lets us make no mount namespace");
        return None;
    }
    run(script)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_file_system_that_cannot_be_written_is_read_and_says_so() {
    let folder = place();
    let script = "
        mkdir disk
        mount -t tmpfs disk disk
        cp pm.db disk/
        mount -o remount,ro disk
        $TSUGI pm board --db disk/pm.db
        $TSUGI pm ready --db disk/pm.db --agent agt_a
        $TSUGI pm verify --db disk/pm.db
        code=0; $TSUGI pm new 'Sell hats' --db disk/pm.db || code=$?
        echo code $code";
    let Some(output) = in_namespace(folder.path(), script) else { return };
    let (said, told) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{said}{told}");
    assert!(said.matches("Sell shoes").count() >= 2, "{said}{told}");
    assert!(told.contains("cannot be written"), "{told}");
    assert!(said.ends_with("code 1\n"), "{said}{told}");
}

#[test]
fn a_disk_that_is_full_refuses_in_words_and_keeps_what_it_has() {
    let folder = place();
    let before = asked(folder.path(), &["board"])["tasks"].as_array().unwrap().len();
    let script = "
        mkdir disk
        mount -t tmpfs -o size=2m disk disk
        cp pm.db disk/
        number=0; code=0
        while [ $number -lt 3000 ]; do
          $TSUGI pm new \"Task $number\" --description \"$(head -c 60000 /dev/zero | tr '\\0' x)\" --db disk/pm.db >/dev/null || { code=$?; break; }
          number=$((number + 1))
        done
        echo made $number
        echo code $code
        $TSUGI pm verify --db disk/pm.db >/dev/null && echo sound
        $TSUGI pm board --json --db disk/pm.db | grep -o '\"Task [0-9]*\"' | sort -u | wc -l";
    let Some(output) = in_namespace(folder.path(), script) else { return };
    let (said, told) = (text(&output.stdout), text(&output.stderr));
    let made: usize = said.lines().find_map(|line| line.strip_prefix("made ")?.parse().ok()).unwrap();
    assert!(made > 0 && made < 3000 && before == 1, "{said}{told}");
    assert!(told.contains("the disk is full"), "{told}");
    assert!(said.contains("code 1\n") && said.contains("sound\n"), "{said}{told}");
    assert_eq!(said.lines().last().unwrap().trim(), made.to_string(), "{said}{told}");
}

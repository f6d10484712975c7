//! `tsugi pm` for people: every verb, data as JSON, exit codes, watching, and the doctor.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{asked, place, pm, program};

#[test]
fn people_move_work_with_the_same_verbs() {
    let folder = place();
    let at = folder.path();
    assert_eq!(asked(at, &["board"])["tasks"][0]["ref"], "WEB-1");
    assert_eq!(asked(at, &["ready"])["tasks"][0]["ref"], "WEB-1");
    assert_eq!(asked(at, &["next"])["tasks"][0]["ref"], "WEB-1");
    assert_eq!(asked(at, &["next", "--claim", "--agent", "agt_a"])["task"]["ref"], "WEB-1");
    assert_eq!(pm(at, &["claim", "WEB-1", "--agent", "agt_b"]).status.code(), Some(4));
    assert_eq!(pm(at, &["show", "WEB-9"]).status.code(), Some(3));
    let handed = asked(at, &["handoff", "WEB-1", "--summary", "half", "--next", "rest", "--agent", "agt_a"]);
    let handoff = handed["handoff"]["id"].as_str().unwrap();
    assert_eq!(asked(at, &["accept", "WEB-1", "--agent", "agt_b"])["handoff"]["id"], handoff, "by the task's name");
    assert_eq!(pm(at, &["accept", handoff, "--agent", "agt_a"]).status.code(), Some(4), "it is taken");
    asked(at, &["review", "WEB-1", "--summary", "works", "--agent", "agt_b"]);
    assert_eq!(asked(at, &["review", "WEB-1", "--approve", "--agent", "agt_b"])["task"]["status"], "done");
    assert_eq!(asked(at, &["verify"])["problems"], json!([]));
    assert_eq!(asked(at, &["search", "shoes"])["hits"][0]["kind"], "task");
    let exported = pm(at, &["export"]);
    std::fs::write(at.join("all.jsonl"), exported.stdout).unwrap();
    assert_eq!(asked(at, &["import", "all.jsonl"])["added"], 0);
    let log = String::from_utf8(pm(at, &["log", "WEB-1"]).stdout).unwrap();
    assert!(log.contains("task.created") && log.contains("agt_b"), "{log}");
}

#[test]
fn every_verb_has_help_and_the_exit_code_says_what_went_wrong() {
    let folder = place();
    let at = folder.path();
    let verbs = "board ready next show new claim review done block handoff accept who log search watch export import verify \
                 doctor agent token project init mcp release sweep move end";
    for verb in verbs.split_whitespace() {
        let mut command = program(env!("CARGO_BIN_EXE_tsugi"));
        let help = command.args(["pm", verb, "--help"]).output().unwrap();
        assert!(help.status.success(), "{verb}");
    }
    let cases: [(&[&str], i32); 6] = [
        (&["show", "no such name"], 2),
        (&["show", "WEB-99"], 3),
        (&["done", "WEB-1", "--agent", "agt_a"], 4),
        (&["token", "list", "--agent", "agt_a"], 5),
        (&["show"], 2),
        (&["agent", "add", "agt_c", "--role", "worker", "--project", "NONE"], 3),
    ];
    for (words, code) in cases {
        let output = pm(at, words);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{words:?}");
    }
}

#[test]
fn people_keep_house_without_a_model() {
    let folder = place();
    let at = folder.path();
    asked(at, &["project", "set", "WEB", "--rule", "review_required=false", "--rule", "resume_grace_s=0"]);
    let policy = asked(at, &["project", "show", "WEB"])["project"]["policy"].clone();
    assert_eq!((&policy["review_required"], &policy["resume_grace_s"]), (&json!(false), &json!(0)), "{policy}");
    assert_eq!(pm(at, &["project", "set", "WEB", "--rule", "nonsense=1"]).status.code(), Some(2));
    asked(at, &["claim", "WEB-1", "--agent", "agt_a"]);
    // Whoever has the database in hand takes a task away from a worker.
    asked(at, &["release", "WEB-1", "it is needed elsewhere"]);
    let last = asked(at, &["log", "WEB-1"])["events"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((&last["type"], &last["actor_agent_id"]), (&json!("task.todo"), &json!("agt_local")), "{last}");
    assert_eq!(asked(at, &["show", "WEB-1"])["task"]["status"], "todo");
    asked(at, &["agent", "set", "agt_a", "--status", "inactive"]);
    assert_eq!(pm(at, &["claim", "WEB-1", "--agent", "agt_a"]).status.code(), Some(5));
    asked(at, &["agent", "leave", "agt_b", "--project", "WEB"]);
    assert_eq!(pm(at, &["claim", "WEB-1", "--agent", "agt_b"]).status.code(), Some(3), "it no longer sees the project");
    asked(at, &["project", "set", "WEB", "--status", "archived"]);
    assert_eq!(pm(at, &["new", "Too late"]).status.code(), Some(4));
    assert_eq!(asked(at, &["project", "list"])["projects"][0]["status"], "archived");
}

#[test]
fn the_doctor_finds_a_sound_database_and_what_to_do_about_the_rest() {
    let folder = place();
    let found = asked(folder.path(), &["doctor"]);
    assert_eq!((&found["ok"], &found["health"]["complaints"]), (&json!(true), &json!([])), "{found}");
    assert_eq!(found["health"]["schema"], found["health"]["schema_known"]);
    assert!(found["health"]["engine"].as_str().unwrap().starts_with("SQLite 3."), "{found}");
    let text = String::from_utf8(pm(folder.path(), &["doctor"]).stdout).unwrap();
    assert!(text.starts_with("ok    the database answers") && text.contains("1 open task,"), "{text}");
    std::fs::write(folder.path().join("pm.db"), "this is no database, and it is long enough to be looked at").unwrap();
    let _ = std::fs::remove_file(folder.path().join("pm.db-wal"));
    let broken = pm(folder.path(), &["doctor"]);
    assert_eq!(broken.status.code(), Some(1), "{}", String::from_utf8_lossy(&broken.stderr));
}

#[test]
fn watching_tells_what_others_do_and_ends_cleanly() {
    let folder = place();
    for (signal, json) in [(Signal::INT, false), (Signal::TERM, true)] {
        let mut command = program(env!("CARGO_BIN_EXE_tsugi"));
        command.current_dir(folder.path()).args(["pm", "watch", "--db", "pm.db", "--since", "0"]);
        if json {
            command.arg("--json");
        }
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let title = if json { "from json" } else { "from text" };
        asked(folder.path(), &["new", title]);
        // The past comes first, then what happens now.
        let told = lines.find(|line| line.contains(title)).unwrap();
        if json {
            let event: Value = serde_json::from_str(&told).unwrap();
            assert_eq!(event["type"], "task.created", "{event}");
        } else {
            assert!(told.contains("task.created") && told.contains("WEB-"), "{told}");
        }
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn the_flags_that_refusals_speak_of_are_there() {
    let folder = place();
    let at = folder.path();
    let add = ["agent", "add", "agt_boss", "--role", "owner", "--project", "WEB"];
    let refused = pm(at, &add);
    assert_eq!(refused.status.code(), Some(5));
    assert!(String::from_utf8(refused.stderr).unwrap().contains("--allow-ai-owner"));
    assert_eq!(asked(at, &[&add[..], &["--allow-ai-owner"]].concat())["role"], "owner");
    let init = ["init", "--project", "OPS", "Operations", "--agent", "agt_chief:owner", "--allow-ai-owner", "--i-know"];
    asked(at, &init);
    let agents = asked(at, &["agent", "list", "--i-know"]);
    let chief = agents["agents"].as_array().unwrap().iter().find(|one| one["id"] == "agt_chief").unwrap();
    assert_eq!(chief["type"], "ai");
}

#[test]
fn the_log_tells_the_newest_by_the_names_people_use() {
    let folder = place();
    let at = folder.path();
    asked(at, &["next", "--claim", "--agent", "agt_a"]);
    asked(at, &["release", "WEB-1", "another day", "--agent", "agt_a"]);
    let said = |words: &[&str]| String::from_utf8(pm(at, words).stdout).unwrap();
    let newest = said(&["log", "--limit", "4"]);
    assert_eq!(newest.lines().count(), 5, "{newest}");
    assert!(newest.lines().last().unwrap().contains("WEB-1 Sell shoes"), "{newest}");
    let claims = said(&["log", "--kind", "claim", "--by", "agt_a"]);
    assert!(
        claims.lines().skip(1).all(|line| line.contains("claim.") && line.contains("WEB-1 Sell shoes")),
        "{claims}"
    );
    let first = asked(at, &["log", "--since", "0", "--limit", "1"]);
    assert_eq!((&first["events"][0]["seq"], first["events"].as_array().unwrap().len()), (&json!(1), 1));
    assert!(said(&["search", "shoes"]).contains("WEB-1"));
}

#[test]
fn refusals_name_verbs_that_help() {
    let folder = place();
    let at = folder.path();
    let told = |words: &[&str]| String::from_utf8(pm(at, words).stderr).unwrap();
    assert!(told(&["new", "Sell shoes"]).contains("--similar-ok"));
    assert_eq!(asked(at, &["new", "Sell shoes", "--similar-ok"])["task"]["ref"], "WEB-2");
    asked(at, &["claim", "WEB-1", "--agent", "agt_a"]);
    assert!(told(&["claim", "WEB-1", "--agent", "agt_b"]).contains("free instead: WEB-2"));
    asked(at, &["block", "WEB-1", "no shoes", "--agent", "agt_a"]);
    assert!(told(&["claim", "WEB-1", "--agent", "agt_a"]).contains("tsugi pm move"));
    assert_eq!(asked(at, &["move", "WEB-1", "todo"])["task"]["status"], "todo");
    assert_eq!(pm(at, &["move", "WEB-1", "cancelled"]).status.code(), Some(2), "that needs a reason");
    assert_eq!(asked(at, &["move", "WEB-1", "cancelled", "--reason", "no shoes"])["task"]["status"], "cancelled");
}

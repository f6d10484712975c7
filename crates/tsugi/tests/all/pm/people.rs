//! `tsugi pm` in a larger team: lists that are whole, agents with several sessions, and what a wrong word meets.

use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;
use tsugi_pm::action::Pm;
use tsugi_pm::action::caller::ActionCaller;
use tsugi_pm::action::create::{CreateTasks, NamedTask, NewTask};
use tsugi_pm::action::project::ListProjects;
use tsugi_pm::action::session::StartSession;
use tsugi_pm::domain::id::AgentId;
use tsugi_pm::domain::task::Priority;
use tsugi_pm::store::{StoreLocation, StoreOptions};

use super::{asked, place, pm, program};

fn told(at: &Path, words: &[&str]) -> (i32, String) {
    let output = pm(at, words);
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

async fn open(folder: &TempDir) -> Pm {
    Pm::open(StoreOptions::new(StoreLocation::Sqlite(folder.path().join("pm.db")))).await.unwrap()
}

/// Adds tasks that all wait for the first one, and are more urgent than it.
async fn add_waiting(folder: &TempDir, count: usize) {
    let pm = open(folder).await;
    let project_id =
        pm.perform(&ActionCaller::operator(), ListProjects::default()).await.unwrap().projects[0].id.clone();
    for from in (0..count).step_by(50) {
        let named = |at: usize| NamedTask {
            name: at.to_string(),
            task: NewTask {
                title: format!("waiting {at}"),
                priority: Some(Priority::Critical),
                depends_on: vec!["WEB-1".to_owned()],
                ..NewTask::default()
            },
        };
        let tasks = (from..count.min(from + 50)).map(named).collect();
        let wish = CreateTasks { project_id: project_id.clone().into(), tasks, idempotency_key: None };
        pm.perform(&ActionCaller::operator(), wish).await.unwrap();
    }
}

fn count(answer: &Value, list: &str) -> usize {
    answer[list].as_array().unwrap().len()
}

#[tokio::test]
async fn lists_are_whole_also_beyond_a_page() {
    let folder = place();
    add_waiting(&folder, 250).await;
    let at = folder.path();
    assert_eq!(asked(at, &["ready"])["tasks"][0]["ref"], "WEB-1");
    assert_eq!(asked(at, &["next"])["tasks"][0]["ref"], "WEB-1");
    assert_eq!(count(&asked(at, &["board"]), "tasks"), 251);
    let found = asked(at, &["search", "waiting"]);
    assert_eq!((count(&found, "hits"), &found["has_more"]), (20, &json!(true)));
    assert!(told(at, &["search", "waiting"]).1.contains("--limit shows more"));
    assert_eq!(count(&asked(at, &["search", "waiting", "--limit", "60"]), "hits"), 60);
    let pm = open(&folder).await;
    for _ in 0..205 {
        pm.perform(&ActionCaller::agent(AgentId::parse("agt_a").unwrap()), StartSession::default()).await.unwrap();
    }
    assert_eq!(count(&asked(at, &["who"]), "sessions"), 205);
}

#[tokio::test]
async fn an_agent_with_several_sessions_works_from_the_one_that_holds_the_task() {
    let folder = place();
    let at = folder.path();
    let agent = ActionCaller::agent(AgentId::parse("agt_a").unwrap());
    let store = open(&folder).await;
    let first = store.perform(&agent, StartSession::default()).await.unwrap().session_id;
    let second = store.perform(&agent, StartSession::default()).await.unwrap().session_id;
    let (code, said) = told(at, &["claim", "WEB-1", "--agent", "agt_a"]);
    assert_eq!(code, 4, "{said}");
    assert!(said.contains("--session") && said.contains("tsugi pm end"), "{said}");
    let claimed = asked(at, &["claim", "WEB-1", "--agent", "agt_a", "--session", first.as_str()]);
    assert_eq!(claimed["session_id"], first.as_str());
    asked(at, &["block", "WEB-1", "no shoes", "--agent", "agt_a"]);
    asked(at, &["move", "WEB-1", "todo"]);
    asked(at, &["next", "--claim", "--agent", "agt_a", "--session", second.as_str()]);
    // Somebody else's session is not there to be ended; whoever has the database in hand ends any.
    assert_eq!(told(at, &["end", second.as_str(), "--agent", "agt_b"]).0, 3);
    asked(at, &["end", second.as_str()]);
    assert_eq!(asked(at, &["show", "WEB-1"])["task"]["status"], "todo");
    assert_eq!(asked(at, &["claim", "WEB-1", "--agent", "agt_a"])["session_id"], first.as_str(), "it is the only one");
    asked(at, &["end", first.as_str(), "--agent", "agt_a"]);
    assert_eq!(count(&asked(at, &["who"]), "sessions"), 0);
}

#[test]
fn only_the_verbs_one_begins_with_make_a_database() {
    let folder = tempfile::tempdir().unwrap();
    for verb in [&["board"][..], &["ready"], &["who"], &["log"], &["new", "x"], &["doctor"], &["sweep"]] {
        let (code, said) = told(folder.path(), verb);
        assert_eq!(code, 3, "{verb:?}: {said}");
        assert!(said.contains("no database at pm.db") && said.contains("tsugi pm init --db pm.db"), "{said}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn making_a_project_is_done_whole_says_what_comes_next_and_can_be_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    asked(at, &["init", "--project", "OPS", "Operations", "--agent", "agt_a:worker"]);
    let (code, _) =
        told(at, &["init", "--project", "WEB", "Web shop", "--agent", "agt_new:worker", "--agent", "agt_a:owner"]);
    assert_eq!(code, 5, "a program cannot own it");
    let (code, said) = told(at, &["init", "--project", "WEB", "Web shop", "--agent", "agt_new:worker"]);
    assert_eq!(code, 0, "nothing of the first try is in the way: {said}");
    let next = "next: tsugi pm new --db pm.db \"First task\"; an agent's client starts mcp-server-pm --db pm.db --agent-id agt_new";
    assert!(said.contains(next), "{said}");
    let (code, said) = told(at, &["init", "--project", "WEB", "Web shop"]);
    assert_eq!(code, 4, "{said}");
    assert!(said.contains("tsugi pm agent add agt_x --project WEB --role worker"), "{said}");
}

#[test]
fn a_password_of_a_database_is_not_printed() {
    let mut command = program(env!("CARGO_BIN_EXE_mcp-server-pm"));
    let db = "postgres://127.0.0.1:1/team?user=ann&password=s3cret";
    let output = command.args(["--db", db, "--agent-id", "agt_a"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("127.0.0.1:1/team") && !said.contains("s3cret"), "{said}");
}

#[test]
fn a_wrong_word_is_answered_with_the_right_one() {
    let folder = place();
    let at = folder.path();
    asked(at, &["new", "Later", "--depends-on", "WEB-1"]);
    let cases: [(&[&str], i32, &str); 5] = [
        (&["move", "WEB-1", "cancelled"], 2, "add --reason"),
        (
            &["project", "set", "WEB", "--rule", "review_required=maybe"],
            2,
            "review_required is true or false, not \"maybe\"",
        ),
        (&["log", "nosuch"], 3, "nosuch"),
        (&["release", "WEB-1", "why"], 4, "WEB-1 is not held"),
        (&["token", "new"], 2, "<AGENT>"),
    ];
    for (words, code, text) in cases {
        let (ended, said) = told(at, words);
        assert!(ended == code && said.contains(text), "{words:?}: {ended} {said}");
    }
    asked(at, &["move", "WEB-1", "cancelled", "--reason", "no shoes"]);
    assert_eq!(told(at, &["ready"]), (0, "nothing is ready\n".to_owned()));
    assert_eq!(told(at, &["next"]), (0, "nothing is ready\n".to_owned()));
    asked(at, &["move", "WEB-2", "cancelled", "--reason", "no shoes"]);
    assert_eq!(told(at, &["board"]), (0, "no open tasks\n".to_owned()));
}

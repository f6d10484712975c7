//! Many agents at once, each with a server process of its own, all through MCP: nothing is granted twice, nothing that
//! was acknowledged is lost, nobody starves.
#![allow(clippy::print_stdout, reason = "a test says what it measured or why it was skipped")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tsugi_pm::action::Pm;
use tsugi_pm::action::admin::{RegisterAgent, SetMembership};
use tsugi_pm::action::caller::ActionCaller;
use tsugi_pm::action::create::{CreateTasks, NamedTask, NewTask};
use tsugi_pm::action::get_task::GetTask;
use tsugi_pm::action::project::CreateProject;
use tsugi_pm::domain::id::{AgentId, ProjectId, TaskId};
use tsugi_pm::domain::member::Role;
use tsugi_pm::domain::policy::ProjectPolicy;
use tsugi_pm::domain::task::TaskStatus;
use tsugi_pm::domain::time::Moment;
use tsugi_pm::store::clock::ManualClock;
use tsugi_pm::store::{StoreLocation, StoreOptions};

use super::postgres::schema;
use super::{Framing, Server, modern};

/// How many tasks; `TSUGI_LONG` asks for the full size.
fn size(usual: usize) -> usize {
    if std::env::var_os("TSUGI_LONG").is_some() { 1000 } else { usual }
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

fn id(number: usize) -> AgentId {
    AgentId::parse(&format!("agt_w{number}")).unwrap()
}

/// A project with so many workers and tasks, every third of which waits for the one before it.
async fn prepare(db: &str, agents: usize, tasks: usize) {
    let pm = Pm::open(StoreOptions::new(StoreLocation::parse(db))).await.unwrap();
    let operator = ActionCaller::operator();
    let project = CreateProject {
        key: "WEB".to_owned(),
        name: "Web shop".to_owned(),
        description: String::new(),
        policy: ProjectPolicy::default(),
        idempotency_key: None,
    };
    let project_id = pm.perform(&operator, project).await.unwrap().project.id;
    for number in 0..agents {
        pm.perform(&operator, RegisterAgent::ai(id(number))).await.unwrap();
        let member = SetMembership {
            project_id: project_id.clone().into(),
            agent_id: id(number),
            role: Some(Role::Worker),
            allow_ai_owner: false,
        };
        pm.perform(&operator, member).await.unwrap();
    }
    for first in (0..tasks).step_by(100) {
        let batch = batch(&project_id, first..tasks.min(first + 100));
        pm.perform(&operator, batch).await.unwrap();
    }
}

fn batch(project_id: &ProjectId, numbers: std::ops::Range<usize>) -> CreateTasks {
    let first = numbers.start;
    let task = |number: usize| {
        let waits = number % 3 == 2 && number > first;
        let depends_on = if waits { vec![format!("t{}", number - 1)] } else { Vec::new() };
        NamedTask {
            name: format!("t{number}"),
            task: NewTask { title: format!("task {number}"), depends_on, ..NewTask::default() },
        }
    };
    CreateTasks { project_id: project_id.clone().into(), tasks: numbers.map(task).collect(), idempotency_key: None }
}

/// What one agent was told: which tasks it got, under which fence, and which of them it finished.
#[derive(Default)]
struct Journal {
    granted: Vec<(String, i64)>,
    finished: Vec<String>,
}

/// Ends the work of all when one of them fails, so that the test ends too.
struct Alarm<'a>(&'a AtomicUsize);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(0, Ordering::SeqCst);
        }
    }
}

/// Calls until the database has time: on a machine that does much else, a lock may take longer than we wait for it.
fn insist(server: &mut Server, tool: &str, arguments: Value, meta: &Option<Value>) -> Value {
    loop {
        let result = server.result(tool, arguments.clone(), meta.clone());
        let content = result["structuredContent"].clone();
        if content["error"]["code"] != "busy" {
            assert_eq!(result.get("isError"), None, "{tool}: {result}");
            return content;
        }
    }
}

/// One agent: claims and finishes until everything is done. Every other one speaks the legacy protocol.
fn work(folder: &Path, db: &str, number: usize, start: &Barrier, left: &AtomicUsize) -> Journal {
    let who = id(number).to_string();
    let mut server = Server::start_as(folder, Framing::Lines, &["--db", db, "--agent-id", &who]);
    let meta = number.is_multiple_of(2).then(modern);
    match meta {
        Some(_) => drop(server.call("start_session", json!({}), meta.clone())),
        None => drop(server.initialize()),
    }
    start.wait();
    let _alarm = Alarm(left);
    let mut journal = Journal::default();
    while left.load(Ordering::SeqCst) > 0 {
        let claimed = insist(&mut server, "claim_task", json!({}), &meta);
        if claimed["claimed"] == false {
            continue;
        }
        let task = claimed["task"]["id"].as_str().unwrap().to_owned();
        journal.granted.push((task.clone(), claimed["claim"]["fence"].as_i64().unwrap()));
        let done = json!({"task_id": task, "status": "done", "result": {"summary": "done"}});
        assert_eq!(insist(&mut server, "update_task_status", done, &meta)["task"]["status"], "done");
        journal.finished.push(task);
        let _ = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
    }
    assert_eq!(server.close(), 0);
    journal
}

fn crowd(db: &str, folder: &Path, agents: usize, tasks: usize) {
    block_on(prepare(db, agents, tasks));
    let (start, left) = (Barrier::new(agents), AtomicUsize::new(tasks));
    let journals: Vec<Journal> = std::thread::scope(|scope| {
        let (start, left) = (&start, &left);
        let workers: Vec<_> =
            (0..agents).map(|number| scope.spawn(move || work(folder, db, number, start, left))).collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    let shares: Vec<usize> = journals.iter().map(|journal| journal.granted.len()).collect();
    println!("{tasks} tasks, shares {shares:?}");
    assert!(shares.iter().all(|share| *share > 0), "nobody starves: {shares:?}");
    let granted: BTreeMap<&String, i64> =
        journals.iter().flat_map(|journal| &journal.granted).map(|(task, fence)| (task, *fence)).collect();
    assert_eq!((granted.len(), shares.iter().sum::<usize>()), (tasks, tasks), "every task is granted once");
    assert!(granted.values().all(|fence| *fence == 1), "and nobody held it before");
    block_on(check(db, &journals));
}

/// What was acknowledged is there, and the history agrees.
async fn check(db: &str, journals: &[Journal]) {
    let pm = Pm::open(StoreOptions::new(StoreLocation::parse(db))).await.unwrap();
    for task in journals.iter().flat_map(|journal| &journal.finished) {
        let wish = GetTask::of(TaskId::parse(task).unwrap());
        assert_eq!(pm.perform(&ActionCaller::operator(), wish).await.unwrap().task.status, TaskStatus::Done);
    }
    assert_eq!(pm.verify().await.unwrap().problems, Vec::<String>::new());
}

#[test]
fn sixteen_agents_share_the_tasks_through_sixteen_servers() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("pm.db").display().to_string();
    crowd(&db, folder.path(), 16, size(400));
}

#[test]
fn sixty_four_agents_share_the_tasks_on_postgres() {
    let Some(db) = block_on(schema()) else { return };
    let folder = tempfile::tempdir().unwrap();
    crowd(&db, folder.path(), 64, size(320));
}

#[test]
fn a_handoff_wanted_by_sixteen_servers_has_one_winner_and_fifteen_who_hear_who() {
    const AGENTS: usize = 17;
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("pm.db").display().to_string();
    block_on(prepare(&db, AGENTS, 1));
    let mut sender = Server::start_as(folder.path(), Framing::Lines, &["--db", &db, "--agent-id", "agt_w16"]);
    sender.call("claim_task", json!({}), Some(modern()));
    let hand = json!({"task_id": "WEB-1", "summary": "take it", "next_steps": ["go"]});
    let handoff = sender.call("create_handoff", hand, Some(modern()))["handoff"]["id"].clone();
    let start = Barrier::new(16);
    let answers: Vec<(String, Value)> = std::thread::scope(|scope| {
        let (start, handoff, db, folder) = (&start, &handoff, &db, folder.path());
        let accept = move |number: usize| {
            let who = id(number).to_string();
            let mut server = Server::start_as(folder, Framing::Lines, &["--db", db, "--agent-id", &who]);
            server.call("start_session", json!({}), Some(modern()));
            start.wait();
            (who, server.result("accept_handoff", json!({"handoff_id": handoff}), Some(modern())))
        };
        let takers: Vec<_> = (0..16).map(|number| scope.spawn(move || accept(number))).collect();
        takers.into_iter().map(|taker| taker.join().unwrap()).collect()
    });
    let winners: Vec<&String> =
        answers.iter().filter(|(_, result)| result.get("isError").is_none()).map(|(who, _)| who).collect();
    assert_eq!(winners.len(), 1, "{answers:?}");
    for (_, result) in answers.iter().filter(|(who, _)| who != winners[0]) {
        let error = &result["structuredContent"]["error"];
        assert_eq!(error["code"], "handoff_not_pending", "{result}");
        assert!(error.to_string().contains(winners[0].as_str()), "{error}");
    }
}

/// Each round a holder is stopped, its lease runs out for everybody else, and it goes on where it was.
#[test]
fn a_server_stopped_past_its_lease_hears_claim_lost_every_time() {
    let rounds = size(200);
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().join("pm.db").display().to_string();
    block_on(prepare(&db, 1, rounds));
    let mut server = Server::start_as(folder.path(), Framing::Lines, &["--db", &db, "--agent-id", "agt_w0"]);
    let pid = Pid::from_child(&server.child);
    let begin = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64;
    let clock = ManualClock::at(Moment(begin));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let options = StoreOptions::new(StoreLocation::parse(&db)).with_clock(clock.clone());
    let later = runtime.block_on(Pm::open(options)).unwrap();
    let mut lost = 0;
    for _ in 0..rounds {
        let session = server.call("start_session", json!({}), Some(modern()))["session_id"].clone();
        let claimed = server.call("claim_task", json!({"session_id": session}), Some(modern()));
        kill_process(pid, Signal::STOP).unwrap();
        clock.advance_seconds(3601);
        assert_eq!(runtime.block_on(later.sweep()).unwrap().expired_claims, 1);
        kill_process(pid, Signal::CONT).unwrap();
        let done = json!({"task_id": claimed["task"]["id"], "status": "done", "session_id": session,
                          "result": {"summary": "late"}});
        let answer = server.result("update_task_status", done, Some(modern()));
        lost += usize::from(answer["structuredContent"]["error"]["code"] == "claim_lost");
    }
    assert_eq!(lost, rounds);
    assert_eq!(server.close(), 0);
    assert_eq!(runtime.block_on(later.verify()).unwrap().problems, Vec::<String>::new());
}

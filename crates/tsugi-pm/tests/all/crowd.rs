//! Many processes on one SQLite file: nothing is granted twice, nothing is lost, nobody starves.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use rustix::process::Signal;
use tsugi_pm::action::Pm;
use tsugi_pm::action::admin::{RegisterAgent, SetMembership};
use tsugi_pm::action::claim::ClaimTask;
use tsugi_pm::action::create::{CreateTasks, NamedTask, NewTask};
use tsugi_pm::action::get_task::GetTask;
use tsugi_pm::action::handoff::CreateHandoff;
use tsugi_pm::action::list::ListTasks;
use tsugi_pm::domain::id::TaskId;
use tsugi_pm::domain::member::Role;
use tsugi_pm::domain::policy::{ProjectPolicy, WorkerCreate};
use tsugi_pm::domain::task::TaskStatus;
use tsugi_pm::domain::time::Moment;
use tsugi_pm::store::{StoreLocation, StoreOptions};

use crate::child::{FileClock, Other};
use crate::world::{BEGIN, World, agent, caller, finish, folder};

const AGENTS: usize = 16;

fn long() -> bool {
    std::env::var_os("TSUGI_LONG").is_some()
}

pub async fn hire(world: &World, count: usize) {
    for number in 0..count {
        let id = agent(&format!("w{number}"));
        world.operator(RegisterAgent::ai(id.clone())).await;
        let member = SetMembership {
            project_id: world.project.clone().into(),
            agent_id: id,
            role: Some(Role::Worker),
            allow_ai_owner: false,
        };
        world.operator(member).await;
    }
}

fn path(world: &World) -> std::path::PathBuf {
    match &world.location {
        StoreLocation::Sqlite(path) => path.clone(),
        StoreLocation::Postgres(_) => unreachable!("these tests are about files"),
    }
}

/// A thousand tasks, every third waiting for the one before it.
async fn fill(world: &World, count: usize) {
    for batch in 0..count / 100 {
        let tasks = (0..100).map(|at| {
            let number = batch * 100 + at;
            let depends_on = if number % 3 == 2 && at > 0 { vec![format!("t{}", number - 1)] } else { Vec::new() };
            NamedTask {
                name: format!("t{number}"),
                task: NewTask { title: format!("task {number}"), depends_on, ..NewTask::default() },
            }
        });
        let wish =
            CreateTasks { project_id: world.project.clone().into(), tasks: tasks.collect(), idempotency_key: None };
        world.ok("manager", wish).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_processes_share_a_thousand_tasks_without_a_double_a_loss_or_a_starved_one() {
    let world = World::sqlite().await;
    hire(&world, AGENTS).await;
    fill(&world, 1000).await;
    let path = path(&world);
    let mut others: Vec<Other> =
        (0..AGENTS).map(|number| Other::start("claim", &path, &[&format!("w{number}")])).collect();
    others.iter_mut().for_each(|other| assert_eq!(other.hear().unwrap(), "ready"));
    others.iter_mut().for_each(|other| other.say("go"));
    let threads: Vec<_> = others
        .into_iter()
        .map(|mut other| {
            std::thread::spawn(move || {
                let mut got = Vec::new();
                while let Some(line) = other.hear() {
                    if line == "empty" {
                        break;
                    }
                    got.push(line);
                }
                assert!(other.wait().success());
                got
            })
        })
        .collect();
    let shares: Vec<Vec<String>> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    let all: Vec<&String> = shares.iter().flatten().collect();
    let distinct: BTreeSet<&String> = all.iter().copied().collect();
    assert_eq!((all.len(), distinct.len()), (1000, 1000), "every task is granted once");
    assert!(all.iter().all(|line| line.ends_with(" 1")), "the first fence each");
    let counts: Vec<usize> = shares.iter().map(Vec::len).collect();
    println!("shares: {counts:?}");
    assert!(counts.iter().all(|count| *count > 0), "nobody starves: {counts:?}");
    let open = world
        .ok("vic", ListTasks { status: vec![TaskStatus::Todo, TaskStatus::InProgress], ..ListTasks::default() })
        .await;
    assert!(open.tasks.is_empty());
    world.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_stopped_past_its_lease_hears_claim_lost_every_time() {
    let rounds = 1000;
    let world = World::sqlite().await;
    hire(&world, 2).await;
    let path = path(&world);
    let clock = FileClock::new(&path);
    clock.set(BEGIN);
    let mut stopped = Other::start("hold", &path, &["w0"]);
    let mut rival = Other::start("hold", &path, &["w1"]);
    assert_eq!((stopped.hear().unwrap().as_str(), rival.hear().unwrap().as_str()), ("ready", "ready"));
    let mut now = BEGIN;
    let mut lost = 0;
    for round in 0..rounds {
        let task = world.task(&format!("task {round}")).await.id;
        stopped.say(&format!("claim {task}"));
        assert_eq!(stopped.hear().unwrap(), "fence 1");
        stopped.signal(Signal::STOP);
        now = Moment(now.0 + 3_600_001);
        clock.set(now);
        // Half of the time somebody else takes the task meanwhile; half of the time nobody has noticed yet.
        if round % 2 == 0 {
            rival.say(&format!("claim {task}"));
            assert_eq!(rival.hear().unwrap(), "fence 2");
        }
        stopped.say(&format!("finish {task}"));
        stopped.signal(Signal::CONT);
        lost += usize::from(stopped.hear().unwrap() == "claim_lost");
        if round % 2 == 0 {
            rival.say(&format!("finish {task}"));
            assert_eq!(rival.hear().unwrap(), "done");
        }
    }
    assert_eq!(lost, rounds);
    drop((stopped, rival));
    world.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handoff_wanted_by_sixteen_has_one_winner_and_fifteen_who_know_it() {
    let world = World::sqlite().await;
    hire(&world, AGENTS).await;
    let path = path(&world);
    for round in 0..3 {
        let task = world.task(&format!("wanted {round}")).await;
        world.claim("ann", &task).await;
        let hand = CreateHandoff::of(task.id.clone(), "take it", vec!["go".into()]);
        let handoff = world.ok("ann", hand).await.handoff.id.clone();
        let mut others: Vec<Other> = (0..AGENTS)
            .map(|number| Other::start("accept", &path, &[&format!("w{number}"), handoff.as_str()]))
            .collect();
        others.iter_mut().for_each(|other| assert_eq!(other.hear().unwrap(), "ready"));
        others.iter_mut().for_each(|other| other.say("go"));
        let answers: Vec<String> = others.iter_mut().map(|other| other.hear().unwrap()).collect();
        others.into_iter().for_each(|other| assert!(other.wait().success()));
        let winners: Vec<&str> = answers.iter().filter_map(|answer| answer.strip_prefix("won ")).collect();
        assert_eq!(winners.len(), 1, "{answers:?}");
        let told = format!("handoff_not_pending {}", winners[0]);
        assert_eq!(answers.iter().filter(|answer| **answer == told).count(), AGENTS - 1, "{answers:?}");
    }
    world.check().await;
}

/// What the outside was told, by task.
#[derive(Default)]
struct Journal {
    created: BTreeMap<String, String>,
    claimed: HashMap<String, i64>,
    finished: BTreeSet<String>,
}

impl Journal {
    fn note(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["created", id, reference] => assert!(self.created.insert((*id).into(), (*reference).into()).is_none()),
            ["claimed", id, fence] => drop(self.claimed.insert((*id).into(), fence.parse().unwrap())),
            ["finished", id] => drop(self.finished.insert((*id).into())),
            other => panic!("{other:?}"),
        }
    }
}

/// Runs writers and kills them with SIGKILL after a random number of acknowledgements, again and again.
fn storm(path: &std::path::Path, project: &str, lane: usize, cycles: usize) -> Journal {
    let mut journal = Journal::default();
    for cycle in 0..cycles {
        let mut writer = Other::start("write", path, &[&format!("w{lane}"), project]);
        for _ in 0..(cycle * 7 + lane * 3) % 9 {
            journal.note(&writer.hear().expect("a writer that was not killed goes on"));
        }
        // A random moment within the next write.
        std::thread::sleep(std::time::Duration::from_micros(rand::random_range(0..3_000)));
        writer.signal(Signal::KILL);
        while let Some(line) = writer.hear() {
            journal.note(&line);
        }
        writer.wait();
    }
    journal
}

/// I12, first half; S-01.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i12_an_acknowledged_write_survives_kill_9() {
    let (lanes, cycles) = if long() { (4, 2500) } else { (4, 130) };
    let world = World::sqlite().await;
    hire(&world, lanes).await;
    // The killed ones leave their claims behind; that must not stop the next ones.
    world
        .policy(ProjectPolicy {
            max_claims_per_session: 1000,
            review_required: Some(false),
            worker_create: WorkerCreate::Allow,
            ..ProjectPolicy::default()
        })
        .await;
    let path = path(&world);
    let project = world.project.to_string();
    let storms: Vec<_> = (0..lanes)
        .map(|lane| {
            let (path, project) = (path.clone(), project.clone());
            std::thread::spawn(move || storm(&path, &project, lane, cycles))
        })
        .collect();
    let journals: Vec<Journal> = storms.into_iter().map(|storm| storm.join().unwrap()).collect();
    let mut acknowledged = 0;
    for journal in &journals {
        for (id, reference) in &journal.created {
            let task = world.ok("vic", GetTask::of(TaskId::parse(id).unwrap())).await.task;
            assert_eq!(task.reference, *reference);
            assert!(task.fence >= journal.claimed.get(id).copied().unwrap_or(0), "a grant was lost: {id}");
            assert!(!journal.finished.contains(id) || task.status == TaskStatus::Done, "a finish was lost: {id}");
            acknowledged += 1;
        }
    }
    println!("{} kills, {acknowledged} acknowledged creations, none lost", lanes * cycles);
    assert!(acknowledged > 0);
    world.check().await;
}

/// The same on PostgreSQL, where sixty-four clients claim at the same time over sixty-four connections.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_clients_share_a_thousand_tasks_on_postgres() {
    const CLIENTS: usize = 64;
    let Some(world) = World::postgres().await else { return };
    hire(&world, CLIENTS).await;
    fill(&world, 1000).await;
    let crowd = StoreOptions { connections: CLIENTS, ..StoreOptions::new(world.location.clone()) };
    let pm = Pm::open(crowd.with_clock(world.clock.clone())).await.unwrap();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let (pm, who) = (pm.clone(), caller(&format!("w{number}")));
            tokio::spawn(async move {
                let mut got = Vec::new();
                while let Some(task) = pm.perform(&who, ClaimTask::default()).await.unwrap().task {
                    pm.perform(&who, finish(&task.id, TaskStatus::Done)).await.unwrap();
                    got.push(task.id);
                }
                got
            })
        })
        .collect();
    let mut shares = Vec::new();
    for client in clients {
        shares.push(client.await.unwrap());
    }
    // A client that finds every candidate in other hands stops early, so some may be left; nobody gets one twice.
    let all: Vec<&TaskId> = shares.iter().flatten().collect();
    let distinct: BTreeSet<&TaskId> = all.iter().copied().collect();
    assert_eq!(all.len(), distinct.len(), "nothing is granted twice");
    let open =
        world.ok("vic", ListTasks { status: vec![TaskStatus::Todo], limit: Some(200), ..ListTasks::default() }).await;
    println!(
        "{} granted, {} left, shares {:?}",
        all.len(),
        open.tasks.len(),
        shares.iter().map(Vec::len).collect::<Vec<_>>()
    );
    assert_eq!(all.len() + open.tasks.len(), 1000, "nothing is lost");
    assert!(open.tasks.is_empty() && shares.iter().all(|share| !share.is_empty()), "nobody starves");
    world.check().await;
}

/// Sixteen processes open a file that does not exist yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_processes_open_a_new_file_at_once() {
    for _ in 0..3 {
        let folder = folder();
        let path = folder.path().join("pm.db");
        let mut others: Vec<Other> = (0..AGENTS).map(|_| Other::start("migrate", &path, &["0"])).collect();
        for other in &mut others {
            assert_eq!(other.hear().as_deref(), Some("open"));
        }
        others.into_iter().for_each(|other| assert!(other.wait().success()));
        let pm = Pm::open(StoreOptions::new(StoreLocation::Sqlite(path))).await.unwrap();
        assert!(pm.verify().await.unwrap().problems.is_empty());
    }
}

//! Sixteen agents live and die: they do whatever agents do, are killed or stopped at any moment, and time runs fast.
//!
//! All the while the whole store is checked, and in the end everything that anybody was told is looked up.
//! `TSUGI_SOAK=86400 cargo nextest run -p tsugi-pm soak` does it for a day.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tokio::runtime::Runtime;
use tsugi_pm::action::claim::{ClaimTask, ReleaseTask};
use tsugi_pm::action::context::AddContext;
use tsugi_pm::action::create::CreateTask;
use tsugi_pm::action::get_task::GetTask;
use tsugi_pm::action::handoff::{AcceptHandoff, CreateHandoff, GetPendingHandoffs};
use tsugi_pm::action::list::{GetMyTasks, ListTasks};
use tsugi_pm::action::status::ReviewTask;
use tsugi_pm::action::{Action, Pm};
use tsugi_pm::domain::context::ContextType;
use tsugi_pm::domain::fault::{Code, PmFault};
use tsugi_pm::domain::id::{ProjectId, TaskId};
use tsugi_pm::domain::policy::{ProjectPolicy, WorkerCreate};
use tsugi_pm::domain::task::{TaskStatus, Verdict};
use tsugi_pm::domain::time::Moment;

use crate::child::{FileClock, Other, said};
use crate::crowd::hire;
use crate::world::{BEGIN, World, caller, finish, folder};

const AGENTS: usize = 16;

/// How long it lasts.
fn span() -> Duration {
    let seconds = std::env::var("TSUGI_SOAK").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(8))
}

/// One agent's life: one thing after the other, each said as soon as it is acknowledged.
pub async fn live(pm: &Pm, who: &str, project: &str) {
    let life = Life { pm, who, project: ProjectId::parse(project).unwrap() };
    loop {
        let done = match rand::random_range(0..8_u8) {
            0 | 1 => life.create().await,
            2..=4 => life.work().await,
            5 => life.take_over().await,
            6 => life.review().await,
            _ => life.look().await,
        };
        match done {
            Ok(()) => {}
            Err(fault) if is_usual(fault.code) => {}
            Err(fault) => said(&format!("bad {} {}", fault.code, fault.message)),
        }
    }
}

/// What an agent may hear when others are as quick, or its own time is over.
const fn is_usual(code: Code) -> bool {
    matches!(
        code,
        Code::AlreadyClaimed
            | Code::ClaimLost
            | Code::ClaimLimit
            | Code::NotReady
            | Code::InvalidTransition
            | Code::HandoffNotPending
            | Code::HandoffNotForYou
            | Code::HandoffExists
            | Code::PermissionDenied
            | Code::SessionEnded
            | Code::Busy
    )
}

struct Life<'l> {
    pm: &'l Pm,
    who: &'l str,
    project: ProjectId,
}

impl Life<'_> {
    async fn act<A: Action>(&self, action: A) -> Result<A::Output, PmFault> {
        self.pm.perform(&caller(self.who), action).await
    }

    async fn create(&self) -> Result<(), PmFault> {
        let mut wish = CreateTask::titled(&self.project, "something to do");
        wish.task.similar_ok = true;
        if rand::random_range(0..3_u8) == 0 {
            let open = ListTasks { status: vec![TaskStatus::Todo], limit: Some(5), ..ListTasks::default() };
            wish.task.depends_on = self.act(open).await?.tasks.iter().take(2).map(|one| one.id.to_string()).collect();
        }
        let task = self.act(wish).await?.task;
        said(&format!("created {} {}", task.id, task.reference));
        Ok(())
    }

    async fn work(&self) -> Result<(), PmFault> {
        let taken = self.act(ClaimTask::default()).await?;
        let (Some(task), Some(claim)) = (taken.task, taken.claim) else { return Ok(()) };
        said(&format!("claimed {} {}", task.id, claim.fence));
        match rand::random_range(0..6_u8) {
            0..=2 => self.finish(&task.id, TaskStatus::Done).await,
            3 => self.finish(&task.id, TaskStatus::Review).await,
            4 => self.hand_over(&task.id).await,
            // It is left in hand; killed or not, it comes back.
            _ => Ok(()),
        }
    }

    async fn finish(&self, task: &TaskId, status: TaskStatus) -> Result<(), PmFault> {
        self.act(finish(task, status)).await?;
        said(&format!("{} {task}", if status == TaskStatus::Done { "finished" } else { "submitted" }));
        Ok(())
    }

    async fn hand_over(&self, task: &TaskId) -> Result<(), PmFault> {
        let note = AddContext::of(task.clone(), ContextType::Note, "what I know");
        self.act(note).await?;
        let made = self.act(CreateHandoff::of(task.clone(), "half", vec!["the rest".into()])).await?;
        said(&format!("handed {}", made.handoff.id));
        Ok(())
    }

    async fn take_over(&self) -> Result<(), PmFault> {
        let waiting = self.act(GetPendingHandoffs::default()).await?.handoffs;
        let Some(handoff) = waiting.first() else { return Ok(()) };
        let accept =
            AcceptHandoff { handoff_id: handoff.id.clone(), note: None, session_id: None, idempotency_key: None };
        let taken = self.act(accept).await?;
        said(&format!("accepted {}", handoff.id));
        said(&format!("claimed {} {}", taken.task.id, taken.claim.fence));
        self.finish(&taken.task.id, TaskStatus::Done).await
    }

    async fn review(&self) -> Result<(), PmFault> {
        let waiting = ListTasks { status: vec![TaskStatus::Review], limit: Some(3), ..ListTasks::default() };
        let Some(task) = self.act(waiting).await?.tasks.into_iter().next() else { return Ok(()) };
        let verdict = ReviewTask {
            task_id: task.id.clone().into(),
            verdict: Verdict::Approve,
            notes: None,
            idempotency_key: None,
        };
        self.act(verdict).await?;
        said(&format!("finished {}", task.id));
        Ok(())
    }

    async fn look(&self) -> Result<(), PmFault> {
        let mine = self.act(GetMyTasks::default()).await?.tasks;
        let Some(held) = mine.iter().find(|one| one.status == TaskStatus::InProgress) else { return Ok(()) };
        let release = ReleaseTask {
            task_id: held.id.clone().into(),
            reason: "another day".into(),
            note: None,
            session_id: None,
            idempotency_key: None,
        };
        self.act(release).await.map(drop)
    }
}

/// What the outside was told.
#[derive(Default)]
struct Journal {
    created: Vec<(String, String)>,
    granted: Vec<(String, String)>,
    finished: BTreeSet<String>,
    accepted: Vec<String>,
    lives: usize,
}

impl Journal {
    fn note(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["created", id, reference] => self.created.push(((*id).into(), (*reference).into())),
            ["claimed", id, fence] => self.granted.push(((*id).into(), (*fence).into())),
            ["finished", id] => drop(self.finished.insert((*id).into())),
            ["accepted", id] => self.accepted.push((*id).into()),
            ["submitted" | "handed", _] => {}
            _ => panic!("an agent heard what no agent should hear: {line}"),
        }
    }
}

/// One agent's lives, one after the other, until the end.
fn lives(database: &str, clock: &FileClock, who: &str, project: &str, is_over: &AtomicBool) -> Journal {
    let mut journal = Journal::default();
    while !is_over.load(Ordering::Relaxed) {
        let mut agent = Other::start_at("live", database, clock, &[who, project]);
        for _ in 0..rand::random_range(1..12_u8) {
            journal.note(&agent.hear().expect("who was not killed goes on"));
        }
        if rand::random_range(0..3_u8) == 0 {
            // It is stopped wherever it is; time goes on without it.
            agent.signal(Signal::STOP);
            std::thread::sleep(Duration::from_millis(rand::random_range(0..60)));
            agent.signal(Signal::CONT);
            journal.note(&agent.hear().expect("who was stopped goes on"));
        }
        std::thread::sleep(Duration::from_micros(rand::random_range(0..3_000)));
        agent.signal(Signal::KILL);
        while let Some(line) = agent.hear() {
            journal.note(&line);
        }
        agent.wait();
        journal.lives += 1;
    }
    journal
}

fn soak(runtime: &Runtime, world: &World) {
    let database = &world.database();
    runtime.block_on(hire(world, AGENTS));
    let policy = ProjectPolicy {
        review_required: Some(false),
        worker_create: WorkerCreate::Allow,
        max_claims_per_session: 5,
        ..ProjectPolicy::default()
    };
    runtime.block_on(world.policy(policy));
    let folder = folder();
    let clock = FileClock::new(&folder.path().join("soak"));
    clock.set(BEGIN);
    let (project, is_over) = (world.project.to_string(), AtomicBool::new(false));
    let mut checks = 0;
    let journals: Vec<Journal> = std::thread::scope(|scope| {
        let (clock, project, is_over) = (&clock, &project, &is_over);
        let crowd: Vec<_> = (0..AGENTS)
            .map(|number| scope.spawn(move || lives(database, clock, &format!("w{number}"), project, is_over)))
            .collect();
        checks = watch(runtime, world, clock, is_over);
        crowd.into_iter().map(|one| one.join().unwrap()).collect()
    });
    runtime.block_on(check_journals(world, &journals));
    runtime.block_on(world.check());
    let lives: usize = journals.iter().map(|journal| journal.lives).sum();
    let told: usize = journals.iter().map(|journal| journal.created.len() + journal.granted.len()).sum();
    println!("{lives} lives, {told} acknowledged creations and grants, {checks} checks of everything, nothing wrong");
    assert!(lives >= AGENTS && told > 0 && checks > 0);
}

/// Moves time and looks whether everything is sound, until the end; answers how often it looked.
fn watch(runtime: &Runtime, world: &World, clock: &FileClock, is_over: &AtomicBool) -> usize {
    let (end, mut now, mut checks) = (Instant::now() + span(), BEGIN, 0);
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        while Instant::now() < end {
            std::thread::sleep(Duration::from_millis(100));
            now = Moment(now.0 + rand::random_range(0..600_000));
            clock.set(now);
            runtime.block_on(world.check());
            checks += 1;
        }
    }));
    is_over.store(true, Ordering::Relaxed);
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    checks
}

/// Everything that was acknowledged is there, and nothing was granted twice.
async fn check_journals(world: &World, journals: &[Journal]) {
    // Who asks again for what it holds is told so again; nobody else may be.
    let granted: Vec<_> = journals.iter().flat_map(|journal| journal.granted.iter().collect::<BTreeSet<_>>()).collect();
    assert_eq!(granted.iter().collect::<BTreeSet<_>>().len(), granted.len(), "one holder per fence");
    let accepted: Vec<_> = journals.iter().flat_map(|journal| &journal.accepted).collect();
    assert_eq!(accepted.iter().collect::<BTreeSet<_>>().len(), accepted.len(), "one taker per handoff");
    for (id, reference) in journals.iter().flat_map(|journal| &journal.created) {
        assert_eq!(look(world, id).await.reference, *reference);
    }
    for (id, fence) in granted {
        assert!(look(world, id).await.fence >= fence.parse().unwrap(), "a grant was lost: {id}");
    }
    for id in journals.iter().flat_map(|journal| &journal.finished) {
        assert_eq!(look(world, id).await.status, TaskStatus::Done, "a finish was lost: {id}");
    }
}

async fn look(world: &World, id: &str) -> tsugi_pm::action::view::TaskView {
    world.ok("vic", GetTask::of(TaskId::parse(id).unwrap())).await.task
}

/// A runtime of its own: who waits for the crowd blocks its thread.
fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

#[test]
fn sixteen_agents_live_and_die_on_a_file_and_nothing_is_ever_wrong() {
    let runtime = runtime();
    let world = runtime.block_on(World::sqlite());
    soak(&runtime, &world);
}

#[test]
fn sixteen_agents_live_and_die_on_postgres_and_nothing_is_ever_wrong() {
    let runtime = runtime();
    let Some(world) = runtime.block_on(World::postgres()) else { return };
    soak(&runtime, &world);
}

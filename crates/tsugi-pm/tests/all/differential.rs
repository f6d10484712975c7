//! Generated histories on both stores and on a small model in memory: the same answers and the same states.
//!
//! The model is written a second time, from the design and not from the code, with nothing but a list of tasks.

use std::collections::BTreeSet;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tsugi_pm::action::Action;
use tsugi_pm::action::claim::{ClaimTask, ReleaseTask};
use tsugi_pm::action::create::{CreateTask, NewTask};
use tsugi_pm::action::edit::UpdateDependencies;
use tsugi_pm::action::get_task::GetTask;
use tsugi_pm::action::handoff::{AcceptHandoff, CreateHandoff, RejectHandoff};
use tsugi_pm::action::list::ListTasks;
use tsugi_pm::action::status::UpdateTaskStatus;
use tsugi_pm::domain::fault::Code;
use tsugi_pm::domain::id::{HandoffId, TaskRef};
use tsugi_pm::domain::task::{Priority, TaskSort, TaskStatus};

use crate::world::{World, agent, caller, finish};

const WORKERS: [&str; 3] = ["ann", "bob", "cho"];
const LEASE_S: i64 = 3600;
const MOST_HELD: usize = 3;

/// Something that one of the team tries.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Create { priority: Priority, on: [Option<usize>; 2] },
    Claim { who: usize, task: usize },
    ClaimNext { who: usize },
    Release { who: usize, task: usize },
    Finish { who: usize, task: usize },
    Block { who: usize, task: usize },
    Unblock { who: usize, task: usize },
    Hand { who: usize, task: usize, to: Option<usize> },
    Accept { who: usize, task: usize },
    Reject { who: usize, task: usize },
    Depend { task: usize, on: usize },
    Cancel { task: usize },
    Reopen { task: usize },
    Wait { seconds: i64 },
    Sweep,
}

/// A task that something can happen to, and who would do it: mostly one that is ready, held or being handed over.
fn aim(dice: &mut StdRng, model: &Model) -> (usize, usize) {
    let any = (dice.random_range(0..model.tasks.len()), dice.random_range(0..WORKERS.len()));
    let wish = dice.random_range(0..4);
    let is_wanted = |task: &ModelTask| match wish {
        0 => task.holder.is_some(),
        1 => task.handoff.is_some(),
        2 => task.status == TaskStatus::Todo && model.is_free(task),
        _ => false,
    };
    let wanted: Vec<usize> = (0..model.tasks.len()).filter(|at| is_wanted(&model.tasks[*at])).collect();
    if wanted.is_empty() {
        return any;
    }
    let task = wanted[dice.random_range(0..wanted.len())];
    let owner = model.tasks[task].assignee.filter(|_| dice.random_bool(0.6));
    (task, owner.unwrap_or(any.1))
}

fn deed(dice: &mut StdRng, model: &Model) -> Deed {
    let tasks = model.tasks.len();
    if tasks == 0 {
        return Deed::Create { priority: Priority::Medium, on: [None, None] };
    }
    let (task, who) = aim(dice, model);
    match dice.random_range(0..25) {
        0..=2 => {
            let mut on = || dice.random_bool(0.3).then(|| dice.random_range(0..tasks));
            let on = [on(), on()];
            Deed::Create { priority: Priority::ALL[dice.random_range(0..4)], on }
        }
        3..=7 => Deed::Claim { who, task },
        8..=9 => Deed::ClaimNext { who },
        10 => Deed::Release { who, task },
        11..=12 => Deed::Finish { who, task },
        13 => Deed::Block { who, task },
        14 => Deed::Unblock { who, task },
        15..=17 => Deed::Hand { who, task, to: dice.random_bool(0.7).then(|| dice.random_range(0..WORKERS.len())) },
        18..=19 => Deed::Accept { who, task },
        20 => Deed::Reject { who, task },
        21 => Deed::Depend { task, on: dice.random_range(0..tasks) },
        22 => Deed::Cancel { task },
        23 => Deed::Reopen { task },
        _ if dice.random_bool(0.3) => Deed::Sweep,
        _ => Deed::Wait { seconds: dice.random_range(1..2500) },
    }
}

/// What everybody can see of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    status: TaskStatus,
    assignee: Option<usize>,
    fence: i64,
    ready: bool,
}

#[derive(Clone, Debug)]
struct ModelTask {
    status: TaskStatus,
    priority: Priority,
    assignee: Option<usize>,
    fence: i64,
    waits_for: BTreeSet<usize>,
    /// Who holds it, and when the lease and the longest hold end.
    holder: Option<(usize, i64, i64)>,
    /// To whom it is being handed: somebody, or anybody.
    handoff: Option<Option<usize>>,
    /// Who lost it and has not held it since.
    losers: BTreeSet<usize>,
    handoff_until: i64,
}

/// The design, in miniature.
#[derive(Default)]
struct Model {
    now: i64,
    tasks: Vec<ModelTask>,
}

impl Model {
    fn seen(&self) -> Vec<Seen> {
        let see = |task: &ModelTask| Seen {
            status: task.status,
            assignee: task.assignee,
            fence: task.fence,
            ready: task.status == TaskStatus::Todo && self.is_free(task),
        };
        self.tasks.iter().map(see).collect()
    }

    fn is_free(&self, task: &ModelTask) -> bool {
        task.waits_for.iter().all(|on| self.tasks[*on].status == TaskStatus::Done)
    }

    fn held_by(&self, who: usize) -> usize {
        self.tasks
            .iter()
            .filter(|task| task.holder.is_some_and(|(holder, until, _)| holder == who && until > self.now))
            .count()
    }

    fn reaches(&self, from: usize, to: usize) -> bool {
        from == to || self.tasks[from].waits_for.iter().any(|on| self.reaches(*on, to))
    }

    /// A lease that is over is over as soon as anybody looks at the task.
    fn expire(&mut self, task: usize) {
        let (now, task) = (self.now, &mut self.tasks[task]);
        if let Some((holder, until, _)) = task.holder
            && until <= now
        {
            task.holder = None;
            task.status = TaskStatus::Todo;
            task.assignee = None;
            task.handoff = Some(None);
            task.handoff_until = now + 86_400;
            task.losers.insert(holder);
        }
    }

    fn grant(&mut self, who: usize, task: usize) -> Result<(), Code> {
        if let Some((holder, _, deadline)) = self.tasks[task].holder {
            if holder != who {
                return Err(Code::AlreadyClaimed);
            }
            self.tasks[task].holder = Some((who, (self.now + LEASE_S).min(deadline), deadline));
            return Ok(());
        }
        let one = &self.tasks[task];
        if one.status != TaskStatus::Todo {
            return Err(Code::InvalidTransition);
        }
        if one.assignee.is_some_and(|owner| owner != who) {
            return Err(if one.handoff.is_some() { Code::HandoffNotForYou } else { Code::PermissionDenied });
        }
        if !self.is_free(one) {
            return Err(Code::NotReady);
        }
        if self.held_by(who) >= MOST_HELD {
            return Err(Code::ClaimLimit);
        }
        let now = self.now;
        let one = &mut self.tasks[task];
        one.handoff = None;
        one.fence += 1;
        one.status = TaskStatus::InProgress;
        one.assignee = Some(who);
        one.holder = Some((who, now + LEASE_S, now + 86_400));
        one.losers.remove(&who);
        Ok(())
    }

    /// The best task for somebody: mine before others', urgent first, then the most awaited, then the oldest.
    fn best(&self, who: usize) -> Option<usize> {
        let awaited = |at: usize| self.tasks.iter().filter(|task| task.waits_for.contains(&at)).count();
        let is_candidate = |task: &ModelTask| {
            task.status == TaskStatus::Todo && self.is_free(task) && task.assignee.is_none_or(|owner| owner == who)
        };
        let candidates = self.tasks.iter().enumerate().filter(|(_, task)| is_candidate(task));
        candidates
            .min_by_key(|(at, task)| (task.assignee.is_none(), task.priority, std::cmp::Reverse(awaited(*at)), *at))
            .map(|(at, _)| at)
    }

    fn hold(&mut self, who: usize, task: usize) -> Result<(), Code> {
        self.expire(task);
        match self.tasks[task].holder {
            Some((holder, _, _)) if holder == who => Ok(()),
            _ => Err(Code::ClaimLost),
        }
    }

    fn free(&mut self, task: usize, status: TaskStatus) {
        let one = &mut self.tasks[task];
        one.holder = None;
        one.status = status;
        if status == TaskStatus::Todo {
            one.assignee = None;
        }
    }

    /// A worker's status move that only a holder may make.
    fn leave(&mut self, who: usize, task: usize, to: TaskStatus) -> Result<(), Code> {
        self.expire(task);
        let one = &self.tasks[task];
        if one.status == to {
            return Ok(());
        }
        if one.holder.is_some_and(|(holder, _, _)| holder == who) {
            self.free(task, to);
            return Ok(());
        }
        Err(if one.losers.contains(&who) { Code::ClaimLost } else { Code::InvalidTransition })
    }

    /// Tries a deed; answers what a caller hears, and which task was taken by asking for the next one.
    fn try_deed(&mut self, deed: Deed) -> (Result<(), Code>, Option<usize>) {
        let result = match deed {
            Deed::Create { priority, on } => {
                self.tasks.push(ModelTask {
                    status: TaskStatus::Todo,
                    priority,
                    assignee: None,
                    fence: 0,
                    waits_for: on.into_iter().flatten().collect(),
                    holder: None,
                    handoff: None,
                    losers: BTreeSet::new(),
                    handoff_until: 0,
                });
                Ok(())
            }
            Deed::Claim { who, task } => {
                self.expire(task);
                self.grant(who, task)
            }
            Deed::ClaimNext { who } => return self.claim_next(who),
            Deed::Release { who, task } => self.hold(who, task).map(|()| self.free(task, TaskStatus::Todo)),
            Deed::Finish { who, task } => self.leave(who, task, TaskStatus::Done),
            Deed::Block { who, task } => self.leave(who, task, TaskStatus::Blocked),
            Deed::Unblock { who, task } => self.unblock(who, task),
            Deed::Hand { who, task, to } => self.hand(who, task, to),
            Deed::Accept { who, task } => self.accept(who, task),
            Deed::Reject { who, task } => self.reject(who, task),
            Deed::Depend { task, on } => self.depend(task, on),
            Deed::Cancel { task } => self.cancel(task),
            Deed::Reopen { task } => self.reopen(task),
            Deed::Wait { seconds } => {
                self.now += seconds;
                Ok(())
            }
            Deed::Sweep => {
                (0..self.tasks.len()).for_each(|task| self.expire(task));
                self.expire_handoffs();
                Ok(())
            }
        };
        (result, None)
    }

    fn expire_handoffs(&mut self) {
        let now = self.now;
        for task in &mut self.tasks {
            if task.handoff.is_some() && task.handoff_until <= now {
                if let Some(Some(target)) = task.handoff
                    && task.assignee == Some(target)
                {
                    task.assignee = None;
                }
                task.handoff = None;
            }
        }
    }

    fn claim_next(&mut self, who: usize) -> (Result<(), Code>, Option<usize>) {
        // What one holds comes first, oldest hold first; a hold that is over ends by the look.
        let mut held: Vec<usize> =
            (0..self.tasks.len()).filter(|at| self.tasks[*at].holder.is_some_and(|hold| hold.0 == who)).collect();
        held.sort_by_key(|at| self.tasks[*at].holder.map(|hold| hold.2));
        for at in held {
            self.expire(at);
            if self.tasks[at].holder.is_some() {
                return (self.grant(who, at), Some(at));
            }
        }
        match self.best(who) {
            Some(task) => {
                let granted = self.grant(who, task);
                (granted, granted.is_ok().then_some(task))
            }
            None => (Ok(()), None),
        }
    }

    fn unblock(&mut self, who: usize, task: usize) -> Result<(), Code> {
        self.expire(task);
        let one = &self.tasks[task];
        match one.status {
            TaskStatus::Todo => Ok(()),
            TaskStatus::Blocked => {
                self.tasks[task].status = TaskStatus::Todo;
                Ok(())
            }
            TaskStatus::InProgress if one.holder.is_some_and(|hold| hold.0 == who) => {
                self.free(task, TaskStatus::Todo);
                Ok(())
            }
            _ if one.losers.contains(&who) => Err(Code::ClaimLost),
            _ => Err(Code::InvalidTransition),
        }
    }

    fn hand(&mut self, who: usize, task: usize, to: Option<usize>) -> Result<(), Code> {
        self.expire(task);
        let one = &self.tasks[task];
        let is_holder = one.holder.is_some_and(|hold| hold.0 == who);
        let is_waiting = matches!(one.status, TaskStatus::Todo | TaskStatus::Blocked) && one.assignee == Some(who);
        if !is_holder && !is_waiting {
            return Err(Code::ClaimLost);
        }
        if one.handoff.is_some() {
            return Err(Code::HandoffExists);
        }
        let until = self.now + 86_400;
        let one = &mut self.tasks[task];
        if is_holder {
            one.losers.insert(who);
        }
        one.holder = None;
        one.status = TaskStatus::Todo;
        one.assignee = to;
        one.handoff = Some(to);
        one.handoff_until = until;
        Ok(())
    }

    fn accept(&mut self, who: usize, task: usize) -> Result<(), Code> {
        self.expire(task);
        let Some(to) = self.tasks[task].handoff else { return Err(Code::HandoffNotPending) };
        if to.is_some_and(|target| target != who) {
            return Err(Code::HandoffNotForYou);
        }
        self.grant(who, task)
    }

    fn reject(&mut self, who: usize, task: usize) -> Result<(), Code> {
        self.expire(task);
        let Some(to) = self.tasks[task].handoff else { return Err(Code::HandoffNotPending) };
        if to.is_some_and(|target| target != who) {
            return Err(Code::HandoffNotForYou);
        }
        let one = &mut self.tasks[task];
        one.handoff = None;
        if to.is_some() && one.assignee == to {
            one.assignee = None;
        }
        Ok(())
    }

    fn depend(&mut self, task: usize, on: usize) -> Result<(), Code> {
        if self.tasks[task].waits_for.contains(&on) {
            self.expire(task);
            return Ok(());
        }
        if self.reaches(on, task) {
            self.expire(task);
            return Err(Code::DependencyCycle);
        }
        self.expire(task);
        self.tasks[task].waits_for.insert(on);
        Ok(())
    }

    fn cancel(&mut self, task: usize) -> Result<(), Code> {
        self.expire(task);
        let one = &mut self.tasks[task];
        match one.status {
            TaskStatus::Cancelled => Ok(()),
            TaskStatus::Done => Err(Code::InvalidTransition),
            _ => {
                if let Some((holder, _, _)) = one.holder.take() {
                    one.losers.insert(holder);
                }
                one.handoff = None;
                one.status = TaskStatus::Cancelled;
                Ok(())
            }
        }
    }

    /// A manager's move to `todo`.
    fn reopen(&mut self, task: usize) -> Result<(), Code> {
        self.expire(task);
        let one = &mut self.tasks[task];
        match one.status {
            TaskStatus::Todo => Ok(()),
            TaskStatus::Done | TaskStatus::Blocked | TaskStatus::Backlog => {
                one.status = TaskStatus::Todo;
                Ok(())
            }
            TaskStatus::InProgress => {
                if let Some((holder, _, _)) = one.holder {
                    one.losers.insert(holder);
                }
                self.free(task, TaskStatus::Todo);
                Ok(())
            }
            _ => Err(Code::InvalidTransition),
        }
    }
}

/// A store playing the same history.
struct Played {
    world: World,
}

fn name(task: usize) -> TaskRef {
    TaskRef::Reference(format!("WEB-{}", task + 1))
}

fn heard<T>(result: Result<T, tsugi_pm::domain::fault::PmFault>) -> Result<T, Code> {
    result.map_err(|fault| fault.code)
}

impl Played {
    async fn act<A: Action>(&self, who: &str, action: A) -> Result<A::Output, Code> {
        heard(self.world.pm.perform(&caller(who), action).await)
    }

    async fn try_deed(&self, deed: Deed) -> (Result<(), Code>, Option<usize>) {
        let result = match deed {
            Deed::Create { priority, on } => {
                let depends_on = on.into_iter().flatten().map(|one| name(one).to_string()).collect();
                let task = NewTask {
                    title: "t".into(),
                    priority: Some(priority),
                    depends_on,
                    similar_ok: true,
                    ..NewTask::default()
                };
                let wish = CreateTask { project_id: self.world.project.clone().into(), task, idempotency_key: None };
                self.world.clock.advance_millis(1);
                self.act("manager", wish).await.map(drop)
            }
            Deed::Claim { who, task } => {
                self.act(WORKERS[who], ClaimTask { task_id: Some(name(task)), ..ClaimTask::default() }).await.map(drop)
            }
            Deed::ClaimNext { who } => {
                let taken = self.act(WORKERS[who], ClaimTask::default()).await;
                let task =
                    taken.as_ref().ok().and_then(|taken| taken.task.as_ref().map(|task| task.number as usize - 1));
                return (taken.map(drop), task);
            }
            Deed::Release { who, task } => {
                let wish = ReleaseTask {
                    task_id: name(task),
                    reason: "r".into(),
                    note: None,
                    session_id: None,
                    idempotency_key: None,
                };
                self.act(WORKERS[who], wish).await.map(drop)
            }
            Deed::Finish { who, task } => self.to(WORKERS[who], task, TaskStatus::Done).await,
            Deed::Block { who, task } => self.to(WORKERS[who], task, TaskStatus::Blocked).await,
            Deed::Unblock { who, task } => self.to(WORKERS[who], task, TaskStatus::Todo).await,
            Deed::Cancel { task } => self.to("manager", task, TaskStatus::Cancelled).await,
            Deed::Reopen { task } => self.to("manager", task, TaskStatus::Todo).await,
            Deed::Hand { who, task, to } => self.hand(who, task, to).await,
            Deed::Accept { who, task } => match self.last_handoff(task).await {
                None => Err(Code::HandoffNotPending),
                Some(handoff_id) => {
                    let wish = AcceptHandoff { handoff_id, note: None, session_id: None, idempotency_key: None };
                    self.act(WORKERS[who], wish).await.map(drop)
                }
            },
            Deed::Reject { who, task } => match self.last_handoff(task).await {
                None => Err(Code::HandoffNotPending),
                Some(handoff_id) => {
                    let wish = RejectHandoff { handoff_id, reason: "no".into(), idempotency_key: None };
                    self.act(WORKERS[who], wish).await.map(drop)
                }
            },
            Deed::Depend { task, on } => {
                let wish = UpdateDependencies {
                    task_id: name(task),
                    add: vec![name(on)],
                    remove: Vec::new(),
                    idempotency_key: None,
                };
                self.act("manager", wish).await.map(drop)
            }
            Deed::Wait { seconds } => {
                self.world.clock.advance_seconds(seconds);
                Ok(())
            }
            Deed::Sweep => heard(self.world.pm.sweep().await).map(drop),
        };
        (result, None)
    }

    async fn to(&self, who: &str, task: usize, status: TaskStatus) -> Result<(), Code> {
        let number = self.world.ok("vic", GetTask::of(name(task))).await.task.id;
        let wish = UpdateTaskStatus { reason: Some("because".into()), ..finish(&number, status) };
        self.act(who, wish).await.map(drop)
    }

    async fn hand(&self, who: usize, task: usize, to: Option<usize>) -> Result<(), Code> {
        let wish = CreateHandoff {
            to_agent_id: to.map(|one| agent(WORKERS[one])),
            ..CreateHandoff::of(name(task), "s", vec!["n".into()])
        };
        self.act(WORKERS[who], wish).await.map(drop)
    }

    /// The handoff that waits, or the last one there was.
    async fn last_handoff(&self, task: usize) -> Option<HandoffId> {
        self.world.ok("vic", GetTask::of(name(task))).await.handoff.map(|handoff| handoff.id.clone())
    }

    async fn seen(&self) -> Vec<Seen> {
        let mut seen = Vec::new();
        let mut list = ListTasks { sort: Some(TaskSort::Created), limit: Some(200), ..ListTasks::default() };
        loop {
            let page = self.world.ok("vic", list.clone()).await;
            for row in page.tasks {
                let task = self.world.ok("vic", GetTask::of(row.id.clone())).await.task;
                let assignee = task.assignee_id.map(|id| WORKERS.iter().position(|who| agent(who) == id).unwrap());
                seen.push(Seen { status: task.status, assignee, fence: task.fence, ready: task.ready });
            }
            match page.next_cursor {
                Some(cursor) => list.cursor = Some(cursor),
                None => return seen,
            }
        }
    }
}

async fn play(world: World, seed: u64, deeds: usize, codes: &mut BTreeSet<Code>) {
    let mut dice = StdRng::seed_from_u64(seed);
    let mut model = Model::default();
    for who in WORKERS {
        world.session(who).await;
    }
    let played = Played { world };
    for at in 0..deeds {
        // Everything that is over is ended first: the model does not know which call happens to sweep.
        for deed in [Deed::Sweep, deed(&mut dice, &model)] {
            let expected = model.try_deed(deed);
            let found = played.try_deed(deed).await;
            assert_eq!(found, expected, "seed {seed}, deed {at}: {deed:?}");
            codes.extend(found.0.err());
        }
        if at % 10 == 9 {
            assert_eq!(played.seen().await, model.seen(), "seed {seed}, after deed {at}");
        }
    }
    played.world.check().await;
}

fn amount() -> (u64, usize) {
    if std::env::var_os("TSUGI_LONG").is_some() { (200, 500) } else { (8, 200) }
}

/// Every refusal that these deeds can meet must have been met, or the histories prove less than they seem to.
fn check_variety(codes: &BTreeSet<Code>) {
    let wanted = [
        Code::InvalidTransition,
        Code::NotReady,
        Code::AlreadyClaimed,
        Code::ClaimLost,
        Code::ClaimLimit,
        Code::HandoffNotPending,
        Code::HandoffNotForYou,
        Code::HandoffExists,
        Code::DependencyCycle,
        Code::PermissionDenied,
    ];
    let missed: Vec<&Code> = wanted.iter().filter(|code| !codes.contains(code)).collect();
    assert!(missed.is_empty(), "never met: {missed:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_and_the_model_agree_on_generated_histories() {
    let (seeds, deeds) = amount();
    let mut codes = BTreeSet::new();
    for seed in 0..seeds {
        play(World::sqlite().await, seed, deeds, &mut codes).await;
    }
    check_variety(&codes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_and_the_model_agree_on_the_same_histories() {
    let (seeds, deeds) = amount();
    let mut codes = BTreeSet::new();
    for seed in 0..seeds.div_ceil(3) {
        let Some(world) = World::postgres().await else { return };
        play(world, seed, deeds, &mut codes).await;
    }
}

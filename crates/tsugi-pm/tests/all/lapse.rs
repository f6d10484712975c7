//! What happens when time runs out: leases, graces, handoffs, remembered answers, and a store that cannot be written.

use tsugi_pm::action::admin::SetMembership;
use tsugi_pm::action::agent::{GetMyProfile, GetSession};
use tsugi_pm::action::claim::ClaimTask;
use tsugi_pm::action::create::{CreateTask, NewTask};
use tsugi_pm::action::get_task::GetTask;
use tsugi_pm::action::handoff::{AcceptHandoff, CreateHandoff};
use tsugi_pm::action::list::GetReadyTasks;
use tsugi_pm::action::presence::{DisconnectSession, ProcessHeartbeat};
use tsugi_pm::action::project::{CreateProject, UpdateProject};
use tsugi_pm::action::session::{EndHandoff, EndSession, StartSession};
use tsugi_pm::action::status::UpdateTaskStatus;
use tsugi_pm::action::view::TaskView;
use tsugi_pm::action::{Action, ErasedAction, Pm};
use tsugi_pm::domain::fault::Code;
use tsugi_pm::domain::handoff::HandoffStatus;
use tsugi_pm::domain::id::{ProjectId, SessionId};
use tsugi_pm::domain::member::Role;
use tsugi_pm::domain::policy::ProjectPolicy;
use tsugi_pm::domain::session::{EndKind, SessionHost, SessionState};
use tsugi_pm::domain::task::TaskStatus;
use tsugi_pm::store::{StoreLocation, StoreOptions};

use crate::both_stores;
use crate::world::{World, agent, caller, claim};

both_stores!(
    a_done_deed_is_answered_as_done_even_if_its_notices_cannot_be_counted,
    who_only_looks_is_answered_although_nothing_can_be_swept,
    ending_a_session_hands_over_all_or_nothing,
    a_revived_session_lives_by_the_process_that_revived_it,
    the_next_task_is_also_one_whose_lease_nobody_has_ended_yet,
    a_handoff_that_is_over_is_not_taken_although_nobody_has_swept,
    each_claim_waits_as_long_as_its_own_project_says,
    a_claim_whose_session_did_not_come_back_is_free_although_nobody_has_swept,
    many_that_may_still_come_back_do_not_keep_one_waiting_that_may_not,
    a_handoff_is_completed_by_the_session_that_resumed_its_work,
    a_remembered_answer_is_forgotten_after_a_day,
    staying_where_it_is_keeps_the_lease,
);

/// Makes every change of a table fail, as a full disk would.
async fn jam(world: &World, table: &str) {
    let sql = match &world.location {
        StoreLocation::Sqlite(_) => {
            format!("CREATE TRIGGER jam BEFORE UPDATE ON {table} BEGIN SELECT RAISE(ABORT, 'no room'); END;")
        }
        StoreLocation::Postgres(_) => format!(
            "CREATE FUNCTION jam() RETURNS trigger AS $$ BEGIN RAISE 'no room'; END $$ LANGUAGE plpgsql; \
             CREATE TRIGGER jam BEFORE UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION jam();"
        ),
    };
    world.raw(&sql).await.unwrap();
}

fn hand(task: &TaskView, to: Option<&str>) -> CreateHandoff {
    CreateHandoff {
        to_agent_id: to.map(agent),
        ..CreateHandoff::of(task.id.clone(), "half of it is done", vec!["do the other half".into()])
    }
}

async fn a_done_deed_is_answered_as_done_even_if_its_notices_cannot_be_counted(world: World) {
    let (offered, other) = (world.task("offered").await, world.task("other").await);
    world.claim("ann", &offered).await;
    world.ok("ann", hand(&offered, Some("bob"))).await;
    jam(&world, "notice").await;
    let done = world.pm.perform_with_notices(&caller("bob"), ErasedAction::of(claim(&other.id))).await;
    let (claimed, notices) = done.unwrap_or_else(|fault| panic!("{fault:?}"));
    assert_eq!(claimed.to_json()["claimed"], true);
    assert_eq!(notices.len(), 1);
    world.pm.perform_with_notices(&caller("bob"), ErasedAction::of(GetMyProfile {})).await.map(drop).unwrap();
}

async fn who_only_looks_is_answered_although_nothing_can_be_swept(world: World) {
    let task = world.task("held").await;
    world.claim("ann", &task).await;
    world.clock.advance_seconds(3601);
    jam(&world, "claim").await;
    // A server that has not swept lately.
    let pm = Pm::open(StoreOptions::new(world.location.clone()).with_clock(world.clock.clone())).await.unwrap();
    assert!(pm.sweep().await.is_err(), "there is something to sweep, and it cannot be done");
    pm.perform(&caller("bob"), GetReadyTasks::default()).await.map(drop).unwrap();
}

fn end(tasks: &[&TaskView]) -> EndSession {
    let handoff = |task: &&TaskView| EndHandoff {
        task_id: task.id.clone().into(),
        to_agent_id: None,
        summary: "half".into(),
        next_steps: vec!["rest".into()],
    };
    EndSession {
        summary: "bye".into(),
        session_id: None,
        handoffs: tasks.iter().map(handoff).collect(),
        keep_claims: false,
        idempotency_key: None,
    }
}

async fn status(world: &World, task: &TaskView) -> TaskStatus {
    world.ok("vic", GetTask::of(task.id.clone())).await.task.status
}

async fn ending_a_session_hands_over_all_or_nothing(world: World) {
    let (long, short) = (world.task("long").await, world.task("short").await);
    world.session("ann").await;
    world.claim("ann", &long).await;
    world.ok("ann", ClaimTask { ttl_seconds: Some(60), ..claim(&short.id) }).await;
    world.clock.advance_seconds(61);
    world.refused("ann", end(&[&long, &short]), Code::ClaimLost).await;
    assert_eq!(status(&world, &long).await, TaskStatus::InProgress, "nothing of a refused call is done");
    assert_eq!(status(&world, &short).await, TaskStatus::Todo, "but a lease that is over is over");
    world.check().await;
    assert_eq!(world.ok("ann", end(&[&long])).await.handoffs.len(), 1);
    world.check().await;
}

fn hosted(who: &str, process_nonce: &str) -> tsugi_pm::action::caller::ActionCaller {
    let host = SessionHost { host: "here".into(), pid: 1, process_nonce: process_nonce.into() };
    caller(who).hosted_by(host)
}

async fn by<A: Action>(world: &World, who: &tsugi_pm::action::caller::ActionCaller, action: A) -> A::Output {
    world.pm.perform(who, action).await.unwrap_or_else(|fault| panic!("{}: {fault:?}", A::NAME))
}

async fn a_revived_session_lives_by_the_process_that_revived_it(world: World) {
    let task = world.task("t").await;
    let (first, second) = (hosted("ann", "first"), hosted("ann", "second"));
    let session_id = by(&world, &first, StartSession::default()).await.session_id;
    by(&world, &first, claim(&task.id)).await;
    world.clock.advance_seconds(61);
    assert_eq!(world.pm.sweep().await.unwrap().disconnected, 1);
    let again = ClaimTask { session_id: Some(session_id.clone()), ..claim(&task.id) };
    by(&world, &second, again.clone()).await;
    world.clock.advance_seconds(45);
    assert_eq!(by(&world, &second, ProcessHeartbeat { process_nonce: "second".into() }).await, 1);
    world.clock.advance_seconds(45);
    assert_eq!(world.pm.sweep().await.unwrap().disconnected, 0, "its new process gave a sign of life");
    world.clock.advance_seconds(61);
    assert_eq!(world.pm.sweep().await.unwrap().disconnected, 1);
    // Revived by a call that no process stands behind, it lives by calls alone.
    by(&world, &caller("ann"), again).await;
    world.clock.advance_seconds(600);
    assert_eq!(world.pm.sweep().await.unwrap().disconnected, 0);
    world.check().await;
}

async fn the_next_task_is_also_one_whose_lease_nobody_has_ended_yet(world: World) {
    let task = world.task("the only one").await;
    world.claim("ann", &task).await;
    // This call sweeps; the next one, within five seconds of real time, does not.
    assert!(!world.ok("bob", ClaimTask::default()).await.claimed);
    world.clock.advance_seconds(3601);
    let taken = world.ok("bob", ClaimTask::default()).await;
    assert_eq!(taken.task.map(|one| one.id), Some(task.id));
    world.check().await;
}

async fn a_handoff_that_is_over_is_not_taken_although_nobody_has_swept(world: World) {
    let (one, two) = (world.task("one").await, world.task("two").await);
    for task in [&one, &two] {
        world.claim("ann", task).await;
    }
    let (first, _) = (world.ok("ann", hand(&one, Some("bob"))).await, world.ok("ann", hand(&two, Some("bob"))).await);
    for who in ["bob", "cho"] {
        world.session(who).await;
    }
    world.clock.advance_seconds(86_401);
    let accept =
        AcceptHandoff { handoff_id: first.handoff.id.clone(), note: None, session_id: None, idempotency_key: None };
    let fault = world.refused("bob", accept, Code::HandoffNotPending).await;
    assert_eq!(fault.details["status"], "expired", "{fault:?}");
    let taken = world.claim("cho", &two).await;
    assert!(taken.claimed && taken.handoff.is_none(), "the task is free for everybody");
    let detail = world.ok("cho", GetTask::of(two.id.clone())).await;
    assert_eq!(detail.handoff.unwrap().status, HandoffStatus::Expired);
    world.check().await;
}

async fn project(world: &World, key: &str, resume_grace_s: i64) -> ProjectId {
    let wish = CreateProject {
        key: key.into(),
        name: key.into(),
        description: String::new(),
        policy: ProjectPolicy { review_required: Some(false), resume_grace_s, ..ProjectPolicy::default() },
        idempotency_key: None,
    };
    let project_id = world.operator(wish).await.project.id;
    for (name, role) in [("manager", Role::Manager), ("ann", Role::Worker), ("bob", Role::Worker)] {
        let (project_id, agent_id) = (project_id.clone().into(), agent(name));
        world.operator(SetMembership { project_id, agent_id, role: Some(role), allow_ai_owner: false }).await;
    }
    project_id
}

async fn task_in(world: &World, project: &ProjectId) -> TaskView {
    let task = NewTask { title: "t".into(), ..NewTask::default() };
    world.ok("manager", CreateTask { project_id: project.clone().into(), task, idempotency_key: None }).await.task
}

async fn session_in(world: &World, who: &str, project: &ProjectId) -> SessionId {
    let start = StartSession { project_id: Some(project.clone().into()), ..StartSession::default() };
    world.ok(who, start).await.session_id
}

async fn leave(world: &World, who: &str, session_id: &SessionId) {
    world.ok(who, DisconnectSession { session_id: session_id.clone(), kind: EndKind::Eof }).await;
}

async fn each_claim_waits_as_long_as_its_own_project_says(world: World) {
    let (patient, hasty) = (project(&world, "PAT", 1000).await, project(&world, "HAS", 100).await);
    let (slow, quick) = (task_in(&world, &patient).await, task_in(&world, &hasty).await);
    let session = session_in(&world, "ann", &hasty).await;
    for task in [&slow, &quick] {
        world.claim("ann", task).await;
    }
    leave(&world, "ann", &session).await;
    world.clock.advance_seconds(101);
    world.pm.sweep().await.unwrap();
    let held = |task: &TaskView| world.ok("bob", GetTask::of(task.id.clone()));
    assert_eq!(held(&quick).await.task.status, TaskStatus::Todo);
    assert_eq!(held(&slow).await.task.status, TaskStatus::InProgress, "its project waits longer");
    let row = world.ok("ann", GetSession { session_id: Some(session.clone()) }).await;
    assert_eq!(row.session.state, SessionState::Disconnected);
    world.clock.advance_seconds(900);
    assert_eq!(world.pm.sweep().await.unwrap().expired_sessions, 1);
    assert_eq!(held(&slow).await.task.status, TaskStatus::Todo);
    world.check().await;
}

async fn a_claim_whose_session_did_not_come_back_is_free_although_nobody_has_swept(world: World) {
    let task = world.task("left behind").await;
    let session = world.session("ann").await;
    world.claim("ann", &task).await;
    // This call sweeps; those that follow, within five seconds of real time, do not.
    world.refused("bob", claim(&task.id), Code::AlreadyClaimed).await;
    leave(&world, "ann", &session).await;
    world.clock.advance_seconds(899);
    world.refused("bob", claim(&task.id), Code::AlreadyClaimed).await;
    world.clock.advance_seconds(1);
    assert_eq!(world.claim("bob", &task).await.claim.unwrap().fence, 2);
    world.check().await;
}

async fn many_that_may_still_come_back_do_not_keep_one_waiting_that_may_not(world: World) {
    let patient = project(&world, "PAT", 86_400).await;
    for _ in 0..101 {
        let session = session_in(&world, "ann", &patient).await;
        leave(&world, "ann", &session).await;
    }
    world.clock.advance_seconds(1);
    let hasty = project(&world, "HAS", 0).await;
    let session = session_in(&world, "bob", &hasty).await;
    leave(&world, "bob", &session).await;
    assert_eq!(world.pm.sweep().await.unwrap().expired_sessions, 1);
    world
        .operator(UpdateProject {
            policy: Some(ProjectPolicy { resume_grace_s: 0, ..ProjectPolicy::default() }),
            ..UpdateProject::of(&patient)
        })
        .await;
    assert_eq!(world.pm.sweep().await.unwrap().expired_sessions, 100, "a sweep does a bounded amount");
    assert_eq!(world.pm.sweep().await.unwrap().expired_sessions, 1);
    world.check().await;
}

async fn a_handoff_is_completed_by_the_session_that_resumed_its_work(world: World) {
    let task = world.task("long").await;
    world.claim("ann", &task).await;
    let handed = world.ok("ann", hand(&task, Some("bob"))).await.handoff;
    let session = world.session("bob").await;
    let accept = AcceptHandoff { handoff_id: handed.id.clone(), note: None, session_id: None, idempotency_key: None };
    world.ok("bob", accept).await;
    leave(&world, "bob", &session).await;
    world.ok("bob", StartSession { resume: Some(session), ..StartSession::default() }).await;
    world.finish("bob", &task).await;
    let detail = world.ok("bob", GetTask::of(task.id.clone())).await;
    assert_eq!(detail.handoff.unwrap().status, HandoffStatus::Completed);
    world.check().await;
}

async fn a_remembered_answer_is_forgotten_after_a_day(world: World) {
    let create = |title: &str| CreateTask {
        project_id: world.project.clone().into(),
        task: NewTask { title: title.into(), ..NewTask::default() },
        idempotency_key: Some("one-and-only".into()),
    };
    let first = world.ok("manager", create("first")).await.task;
    world.clock.advance_seconds(86_399);
    assert_eq!(world.ok("manager", create("first")).await.task.id, first.id);
    world.clock.advance_seconds(2);
    // The key means nothing any more, although nobody has swept; and it can be used again.
    let second = world.ok("manager", create("second")).await.task;
    assert_ne!(second.id, first.id);
    assert_eq!(world.ok("manager", create("second")).await.task.id, second.id);
    world.clock.advance_seconds(86_401);
    assert_eq!(world.pm.sweep().await.unwrap().forgotten, 1);
}

async fn staying_where_it_is_keeps_the_lease(world: World) {
    let task = world.task("t").await;
    world.claim("ann", &task).await;
    world.clock.advance_seconds(3000);
    let stay = UpdateTaskStatus::new(task.id.clone(), TaskStatus::InProgress);
    assert!(!world.ok("ann", stay).await.changed);
    world.clock.advance_seconds(3000);
    assert_eq!(world.pm.sweep().await.unwrap().expired_claims, 0);
    let depend = tsugi_pm::action::edit::UpdateDependencies {
        task_id: task.id.clone().into(),
        add: Vec::new(),
        remove: Vec::new(),
        idempotency_key: None,
    };
    world.ok("ann", depend).await;
    world.clock.advance_seconds(3000);
    assert_eq!(world.pm.sweep().await.unwrap().expired_claims, 0);
}

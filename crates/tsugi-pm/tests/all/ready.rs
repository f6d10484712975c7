//! What is offered and what can be taken: only work that goes on, in one order over all projects, to the one who asks.

use tsugi_pm::action::admin::SetMembership;
use tsugi_pm::action::claim::ClaimTask;
use tsugi_pm::action::create::{CreateTask, NewTask};
use tsugi_pm::action::get_task::GetTask;
use tsugi_pm::action::list::{GetReadyTasks, ListTasks};
use tsugi_pm::action::project::{CreateProject, UpdateProject};
use tsugi_pm::action::session::StartSession;
use tsugi_pm::action::status::UpdateTaskStatus;
use tsugi_pm::action::view::TaskView;
use tsugi_pm::domain::fault::Code;
use tsugi_pm::domain::id::ProjectId;
use tsugi_pm::domain::member::Role;
use tsugi_pm::domain::policy::ProjectPolicy;
use tsugi_pm::domain::project::ProjectStatus;
use tsugi_pm::domain::task::{Priority, TaskStatus};

use crate::both_stores;
use crate::world::{World, agent, claim};

both_stores!(
    a_paused_project_offers_nothing,
    the_most_urgent_task_of_all_projects_comes_first,
    what_another_session_holds_is_not_in_hand,
    without_matching_also_what_nobody_can_do_is_offered,
    a_blocked_task_is_taken_up_by_its_assignee_with_a_move_and_by_nobody_with_a_claim,
);

async fn second_project(world: &World) -> ProjectId {
    let wish = CreateProject {
        key: "ABC".into(),
        name: "Another".into(),
        description: String::new(),
        policy: ProjectPolicy { review_required: Some(false), ..ProjectPolicy::default() },
        idempotency_key: None,
    };
    let project_id = world.operator(wish).await.project.id;
    for (name, role) in [("manager", Role::Manager), ("ann", Role::Worker), ("vic", Role::Viewer)] {
        let (project_id, agent_id) = (project_id.clone().into(), agent(name));
        world.operator(SetMembership { project_id, agent_id, role: Some(role), allow_ai_owner: false }).await;
    }
    project_id
}

async fn task(world: &World, project: &ProjectId, title: &str, priority: Priority) -> TaskView {
    let task = NewTask { title: title.into(), priority: Some(priority), ..NewTask::default() };
    world.ok("manager", CreateTask { project_id: project.clone().into(), task, idempotency_key: None }).await.task
}

async fn a_paused_project_offers_nothing(world: World) {
    let task = world.task("somewhere").await;
    world.claim("bob", &task).await;
    let after = world.waiting_task("afterwards", &[&task]).await;
    let free = world.task("free").await;
    let start = StartSession::default();
    assert_eq!(world.ok("ann", start.clone()).await.ready_preview.len(), 1);
    world.operator(UpdateProject::to_status(&world.project, ProjectStatus::Paused)).await;
    assert!(world.ok("ann", GetReadyTasks::default()).await.tasks.is_empty());
    let here = GetReadyTasks { project_id: Some(world.project.clone().into()), ..GetReadyTasks::default() };
    assert!(world.ok("ann", here).await.tasks.is_empty());
    assert!(world.ok("ann", start).await.ready_preview.is_empty());
    assert!(!world.ok("ann", GetTask::of(free.id.clone())).await.task.ready, "nothing can begin where nobody works");
    let rows = world.ok("ann", ListTasks::default()).await.tasks;
    assert!(rows.len() == 3 && rows.iter().all(|row| !row.ready), "{rows:?}");
    assert!(!world.task("new").await.ready);
    assert!(world.finish("bob", &task).await.newly_ready.is_empty(), "what is begun may be finished");
    world.operator(UpdateProject::to_status(&world.project, ProjectStatus::Active)).await;
    assert!(world.ok("ann", GetTask::of(after.id.clone())).await.task.ready);
}

async fn the_most_urgent_task_of_all_projects_comes_first(world: World) {
    let other = second_project(&world).await;
    let mut projects = [world.project.clone(), other];
    projects.sort();
    // The urgent one lies in the project that comes last by id, so that going project by project would miss it.
    let plain = task(&world, &projects[0], "plain", Priority::Medium).await;
    let low = task(&world, &projects[1], "low", Priority::Low).await;
    let urgent = task(&world, &projects[1], "urgent", Priority::Critical).await;
    let ready = world.ok("ann", GetReadyTasks { limit: Some(2), ..GetReadyTasks::default() }).await;
    let order: Vec<_> = ready.tasks.iter().map(|row| row.id.clone()).collect();
    assert_eq!(order, [urgent.id.clone(), plain.id.clone()]);
    let preview = world.ok("ann", StartSession::default()).await.ready_preview;
    assert_eq!(
        preview.iter().map(|row| row.id.clone()).collect::<Vec<_>>(),
        [&urgent, &plain, &low].map(|one| one.id.clone())
    );
    let taken = world.ok("ann", ClaimTask::default()).await;
    assert_eq!(taken.task.unwrap().id, urgent.id);
    world.check().await;
}

async fn what_another_session_holds_is_not_in_hand(world: World) {
    let held = world.task("held").await;
    let (first, second) = (world.session("ann").await, world.session("ann").await);
    world.ok("ann", ClaimTask { session_id: Some(first.clone()), ..claim(&held.id) }).await;
    let of = |session| GetReadyTasks { session_id: Some(session), ..GetReadyTasks::default() };
    assert_eq!(world.ok("ann", of(first)).await.in_hand[0].id, held.id);
    assert!(world.ok("ann", of(second)).await.in_hand.is_empty());
    assert!(world.ok("ann", GetReadyTasks::default()).await.in_hand.is_empty(), "which session is meant is not clear");
}

async fn without_matching_also_what_nobody_can_do_is_offered(world: World) {
    let needs = NewTask { title: "fly".into(), required_capabilities: vec!["wings".into()], ..NewTask::default() };
    let task = world.new_task(needs).await;
    assert!(world.ok("ann", GetReadyTasks::default()).await.tasks.is_empty());
    let all = GetReadyTasks { capability_match: Some(false), ..GetReadyTasks::default() };
    assert_eq!(world.ok("ann", all).await.tasks[0].id, task.id);
}

async fn a_blocked_task_is_taken_up_by_its_assignee_with_a_move_and_by_nobody_with_a_claim(world: World) {
    let task = world.task("stuck").await;
    world.claim("ann", &task).await;
    let to = |status| UpdateTaskStatus {
        reason: Some("no key yet".into()),
        ..UpdateTaskStatus::new(task.id.clone(), status)
    };
    world.ok("ann", to(TaskStatus::Blocked)).await;
    let fault = world.refused("ann", claim(&task.id), Code::InvalidTransition).await;
    assert_eq!(fault.details["allowed"], serde_json::json!(["todo", "in_progress"]), "{fault:?}");
    assert!(fault.hint.contains("no key yet"), "{fault:?}");
    let fault = world.refused("bob", claim(&task.id), Code::InvalidTransition).await;
    assert_eq!(fault.details["allowed"], serde_json::json!(["todo"]), "{fault:?}");
    world.refused("bob", to(TaskStatus::InProgress), Code::InvalidTransition).await;
    let moved = world.ok("ann", to(TaskStatus::InProgress)).await;
    assert_eq!(moved.task.status, TaskStatus::InProgress);
    world.check().await;
}

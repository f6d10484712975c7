//! The invariants I1 to I15 of the design, each as a test that both stores must pass.

use std::collections::BTreeSet;

use tsugi_pm::action::admin::RegisterAgent;
use tsugi_pm::action::agent::ListSessions;
use tsugi_pm::action::caller::ActionCaller;
use tsugi_pm::action::claim::{ClaimTask, ReleaseTask};
use tsugi_pm::action::context::AddContext;
use tsugi_pm::action::create::{CreateTask, NewTask};
use tsugi_pm::action::edit::{UpdateDependencies, UpdateTask};
use tsugi_pm::action::get_task::{GetTask, Section};
use tsugi_pm::action::handoff::{AcceptHandoff, CreateHandoff, GetPendingHandoffs, RejectHandoff};
use tsugi_pm::action::list::{GetMyTasks, GetReadyTasks, ListTasks};
use tsugi_pm::action::presence::DisconnectSession;
use tsugi_pm::action::project::{CreateProject, ListProjects, UpdateProject};
use tsugi_pm::action::search::{GetHistory, SearchRecords};
use tsugi_pm::action::session::{SessionHeartbeat, StartSession};
use tsugi_pm::action::status::UpdateTaskStatus;
use tsugi_pm::action::view::TaskView;
use tsugi_pm::domain::context::ContextType;
use tsugi_pm::domain::event::EventKind;
use tsugi_pm::domain::fault::Code;
use tsugi_pm::domain::handoff::GitState;
use tsugi_pm::domain::policy::ProjectPolicy;
use tsugi_pm::domain::project::ProjectStatus;
use tsugi_pm::domain::session::EndKind;
use tsugi_pm::domain::task::TaskStatus;

use crate::both_stores;
use crate::world::{World, agent, caller, claim, finish};

both_stores!(
    i1_a_task_is_in_progress_exactly_while_one_claim_lives,
    i2_a_claim_never_outlives_its_session_by_more_than_the_grace,
    i3_the_fence_only_grows_and_is_the_live_claims,
    i4_a_write_without_the_claim_changes_nothing,
    i5_a_handoff_leaves_pending_once,
    i6_a_task_has_at_most_one_pending_handoff,
    i7_dependencies_form_no_circle_and_stay_in_one_project,
    i8_work_begins_only_when_its_prerequisites_are_done,
    i9_every_change_has_an_event_of_its_version_and_events_stay,
    i10_state_rebuilt_from_events_is_the_stored_state,
    i11_numbers_are_dense_and_never_reused,
    i13_one_key_has_one_effect_and_one_answer,
    i14_no_answer_is_too_long_and_lists_go_on,
    i14_lists_of_projects_and_sessions_go_on_too,
    i15_an_archived_project_only_wakes_up,
    i15_the_database_itself_keeps_an_archived_project_as_it_is,
);

async fn state(world: &World, task: &TaskView) -> TaskView {
    world.ok("vic", GetTask::of(task.id.clone())).await.task
}

fn hand(task: &TaskView) -> CreateHandoff {
    CreateHandoff::of(task.id.clone(), "so far", vec!["go on".into()])
}

async fn i1_a_task_is_in_progress_exactly_while_one_claim_lives(world: World) {
    let task = world.task("work").await;
    let ends: [fn(&TaskView) -> UpdateTaskStatus; 3] = [
        |task| UpdateTaskStatus {
            reason: Some("wait".into()),
            ..UpdateTaskStatus::new(task.id.clone(), TaskStatus::Blocked)
        },
        |task| UpdateTaskStatus::new(task.id.clone(), TaskStatus::Todo),
        |task| finish(&task.id, TaskStatus::Review),
    ];
    for end in ends {
        world.ok("ann", UpdateTaskStatus::new(task.id.clone(), TaskStatus::InProgress)).await;
        let held = world.ok("vic", GetTask::of(task.id.clone())).await;
        assert_eq!((held.task.status, held.claim.is_some()), (TaskStatus::InProgress, true));
        world.check().await;
        world.ok("ann", end(&task)).await;
        let freed = world.ok("vic", GetTask::of(task.id.clone())).await;
        assert!(freed.claim.is_none() && freed.task.status != TaskStatus::InProgress);
        world.check().await;
    }
}

async fn i2_a_claim_never_outlives_its_session_by_more_than_the_grace(world: World) {
    let task = world.task("work").await;
    let session = world.session("ann").await;
    world.claim("ann", &task).await;
    world.ok("ann", DisconnectSession { session_id: session, kind: EndKind::Signal }).await;
    world.clock.advance_seconds(899);
    world.pm.sweep().await.unwrap();
    assert_eq!(state(&world, &task).await.status, TaskStatus::InProgress);
    assert_eq!(world.pm.verify().await.unwrap().overdue, 0);
    world.clock.advance_seconds(1);
    assert_eq!(world.pm.verify().await.unwrap().overdue, 1, "the grace is over, and nobody has swept");
    world.pm.sweep().await.unwrap();
    assert_eq!(world.pm.verify().await.unwrap().overdue, 0);
    assert_eq!(state(&world, &task).await.status, TaskStatus::Todo);
    world.check().await;
}

async fn i3_the_fence_only_grows_and_is_the_live_claims(world: World) {
    let task = world.task("work").await;
    let mut last = 0;
    for round in 0..6 {
        let who = ["ann", "bob", "cho"][round % 3];
        let claimed = world.claim(who, &task).await.claim.unwrap();
        assert_eq!(claimed.fence, last + 1);
        assert_eq!(state(&world, &task).await.fence, claimed.fence);
        last = claimed.fence;
        if round % 2 == 0 {
            let release = ReleaseTask {
                task_id: task.id.clone().into(),
                reason: "r".into(),
                note: None,
                session_id: None,
                idempotency_key: None,
            };
            world.ok(who, release).await;
        } else {
            world.clock.advance_seconds(3601);
        }
    }
    world.pm.sweep().await.unwrap();
    world.check().await;
}

async fn i4_a_write_without_the_claim_changes_nothing(world: World) {
    let task = world.task("work").await;
    world.session("ann").await;
    world.claim("ann", &task).await;
    world.clock.advance_seconds(3601);
    let writes = [TaskStatus::Review, TaskStatus::Done, TaskStatus::Blocked];
    for status in writes {
        let late = UpdateTaskStatus { reason: Some("late".into()), ..finish(&task.id, status) };
        world.refused("ann", late, Code::ClaimLost).await;
    }
    world.refused("ann", hand(&task), Code::ClaimLost).await;
    let release = ReleaseTask {
        task_id: task.id.clone().into(),
        reason: "late".into(),
        note: Some("x".into()),
        session_id: None,
        idempotency_key: None,
    };
    world.refused("ann", release, Code::ClaimLost).await;
    let after = world.ok("vic", GetTask::of(task.id.clone())).await;
    assert_eq!((after.task.status, after.task.fence), (TaskStatus::Todo, 1), "the lease ended, nothing else happened");
    assert!(after.contexts.unwrap().is_empty(), "the refused release left no note");
    world.claim("bob", &task).await;
    world.refused("ann", finish(&task.id, TaskStatus::Done), Code::ClaimLost).await;
    assert_eq!(state(&world, &task).await.assignee_id, Some(agent("bob")));
    world.check().await;
}

async fn i5_a_handoff_leaves_pending_once(world: World) {
    let task = world.task("work").await;
    world.claim("ann", &task).await;
    let handoff = world.ok("ann", hand(&task)).await.handoff;
    let accept = AcceptHandoff { handoff_id: handoff.id.clone(), note: None, session_id: None, idempotency_key: None };
    let reject = RejectHandoff { handoff_id: handoff.id.clone(), reason: "no".into(), idempotency_key: None };
    world.ok("bob", accept.clone()).await;
    world.refused("cho", accept.clone(), Code::HandoffNotPending).await;
    world.refused("cho", reject, Code::HandoffNotPending).await;
    world.clock.advance_seconds(100_000);
    world.pm.sweep().await.unwrap();
    world.refused("cho", accept, Code::HandoffNotPending).await;
    world.check().await;
}

async fn i6_a_task_has_at_most_one_pending_handoff(world: World) {
    let task =
        world.new_task(NewTask { title: "work".into(), assignee_id: Some(agent("ann")), ..NewTask::default() }).await;
    let mut to_ann = hand(&task);
    to_ann.to_agent_id = Some(agent("ann"));
    world.ok("ann", to_ann).await;
    world.refused("ann", hand(&task), Code::HandoffExists).await;
    let pending = world.ok("ann", GetPendingHandoffs::default()).await.handoffs;
    assert_eq!(pending.len(), 1);
    world.check().await;
}

async fn i7_dependencies_form_no_circle_and_stay_in_one_project(world: World) {
    let (a, b, c) = (world.task("a").await, world.task("b").await, world.task("c").await);
    let depend = |task: &TaskView, on: &TaskView| UpdateDependencies {
        task_id: task.id.clone().into(),
        add: vec![on.id.clone().into()],
        remove: Vec::new(),
        idempotency_key: None,
    };
    world.ok("ann", depend(&b, &a)).await;
    world.ok("ann", depend(&c, &b)).await;
    world.refused("ann", depend(&a, &c), Code::DependencyCycle).await;
    world.refused("ann", depend(&a, &a), Code::DependencyCycle).await;
    let key = CreateProject {
        key: "APP".into(),
        name: "App".into(),
        description: String::new(),
        policy: ProjectPolicy::default(),
        idempotency_key: None,
    };
    let other = world.ok("owner", key).await.project.id;
    let stranger = world.ok("owner", CreateTask::titled(&other, "elsewhere")).await.task;
    world.refused("owner", depend(&a, &stranger), Code::NotFound).await;
    let mut wish = CreateTask::titled(&other, "waits");
    wish.task.depends_on = vec![a.reference.clone()];
    world.refused("owner", wish, Code::NotFound).await;
    world.check().await;
}

async fn i8_work_begins_only_when_its_prerequisites_are_done(world: World) {
    let (a, b) = (world.task("a").await, world.task("b").await);
    let both = world.waiting_task("both", &[&a, &b]).await;
    world.claim("ann", &a).await;
    world.finish("ann", &a).await;
    world.refused("bob", claim(&both.id), Code::NotReady).await;
    world.claim("ann", &b).await;
    world.refused("bob", claim(&both.id), Code::NotReady).await;
    world.finish("ann", &b).await;
    let reopen =
        UpdateTaskStatus { reason: Some("wrong".into()), ..UpdateTaskStatus::new(a.id.clone(), TaskStatus::Todo) };
    world.ok("manager", reopen).await;
    world.refused("bob", claim(&both.id), Code::NotReady).await;
    let told = world.ok("bob", GetHistory { entity_id: Some(both.id.to_string()), ..GetHistory::default() }).await;
    assert!(told.events.iter().any(|event| event.kind == EventKind::TaskPrerequisiteReopened));
    world.claim("ann", &a).await;
    world.finish("ann", &a).await;
    world.claim("bob", &both).await;
    world.check().await;
}

async fn i9_every_change_has_an_event_of_its_version_and_events_stay(world: World) {
    let task = world.task("work").await;
    world.claim("ann", &task).await;
    let title = UpdateTask { title: Some("better".into()), ..UpdateTask::of(task.id.clone()) };
    world.ok("ann", title).await;
    world.finish("ann", &task).await;
    let history = GetHistory { entity_id: Some(task.reference.clone()), ..GetHistory::default() };
    let events = world.ok("vic", history).await.events;
    let versions: Vec<i64> = events.iter().map(|event| event.version_after).collect();
    assert_eq!(versions, [1, 2, 3, 4]);
    assert_eq!(state(&world, &task).await.version, 4);
    assert_eq!(events[1].actor_agent_id, Some(agent("ann")));
    for statement in ["UPDATE event SET reason = 'changed'", "DELETE FROM event"] {
        let refused = world.raw(statement).await.unwrap_err();
        assert!(refused.contains("append-only"), "{refused}");
    }
    world.check().await;
}

async fn i10_state_rebuilt_from_events_is_the_stored_state(world: World) {
    let task = world.task("work").await;
    world.claim("ann", &task).await;
    world.finish("ann", &task).await;
    world.check().await;
    world.raw("UPDATE task SET title = 'forged'").await.unwrap();
    let found = world.pm.verify().await.unwrap();
    assert!(found.problems.iter().any(|problem| problem.starts_with("I10") && problem.contains("title")), "{found:?}");
    world.raw("UPDATE task SET title = 'work', open_blockers = 7").await.unwrap();
    let found = world.pm.verify().await.unwrap();
    assert!(found.problems.iter().any(|problem| problem.contains("open prerequisites")), "{found:?}");
}

async fn i11_numbers_are_dense_and_never_reused(world: World) {
    let first = world.task("one").await;
    world.refused("ann", CreateTask::titled(&world.project, "one"), Code::SimilarExists).await;
    let mut wish = CreateTask::titled(&world.project, "two");
    wish.task.depends_on = vec!["WEB-77".into()];
    world.refused("ann", wish, Code::NotFound).await;
    let cancel = UpdateTaskStatus {
        reason: Some("no".into()),
        ..UpdateTaskStatus::new(first.id.clone(), TaskStatus::Cancelled)
    };
    world.ok("manager", cancel).await;
    assert_eq!(world.task("one").await.reference, "WEB-2");
    world.check().await;
}

async fn i13_one_key_has_one_effect_and_one_answer(world: World) {
    let mut wish = CreateTask::titled(&world.project, "once");
    wish.idempotency_key = Some("create-0001".into());
    let first = world.ok("ann", wish.clone()).await;
    let second = world.ok("ann", wish.clone()).await;
    assert_eq!(first.task, second.task);
    let mut other = wish.clone();
    other.task.title = "twice".into();
    world.refused("ann", other, Code::IdempotencyConflict).await;
    let theirs = CreateTask { task: NewTask { title: "theirs".into(), ..NewTask::default() }, ..wish };
    assert_eq!(world.ok("bob", theirs).await.task.reference, "WEB-2", "keys belong to their agent");
    let take = ClaimTask { idempotency_key: Some("claim-00001".into()), ..ClaimTask::default() };
    let (one, two) = (world.ok("ann", take.clone()).await, world.ok("ann", take).await);
    assert_eq!(one.claim, two.claim);
    let short = ClaimTask { idempotency_key: Some("short".into()), ..ClaimTask::default() };
    world.refused("ann", short, Code::InvalidArgument).await;
    world.check().await;
}

/// Fills a project with everything as long as it may be, then asks for everything.
async fn i14_no_answer_is_too_long_and_lists_go_on(world: World) {
    let long = "長い文章。".repeat(4_300);
    let title = |number: usize| format!("{number} {}", "題".repeat(190));
    let mut tasks = Vec::new();
    for number in 0..30 {
        let acceptance = (0..30).map(|at| format!("{at}{}", "条".repeat(290))).collect();
        let labels = (0..20).map(|at| format!("{at}{}", "札".repeat(38))).collect();
        let task =
            NewTask { title: title(number), description: long.clone(), acceptance, labels, ..NewTask::default() };
        tasks.push(world.new_task(task).await);
    }
    let task = &tasks[0];
    world.claim("ann", task).await;
    for _ in 0..12 {
        let note = AddContext::of(task.id.clone(), ContextType::Note, long.clone());
        short(&world.ok("ann", note).await);
    }
    let mut big = hand(task);
    big.summary = "要約".repeat(2_700);
    big.next_steps = vec!["次".repeat(490); 30];
    for list in [&mut big.warnings, &mut big.done, &mut big.uncertain] {
        *list = vec!["注".repeat(490); 30];
    }
    let files = (0..100).map(|at| format!("{at}{}", "道".repeat(290))).collect();
    big.git = Some(GitState { files, ..GitState::default() });
    let handed = world.ok("ann", big).await;
    short(&handed);
    let parts = ["summary", "next_steps", "warnings", "uncertain", "done", "git.files"];
    assert_eq!(handed.handoff.truncated, parts, "what is cut is named");
    short(&world.ok("bob", GetPendingHandoffs::default()).await);
    short(&world.ok("bob", StartSession::default()).await);
    let all = GetTask { include: Section::ALL.to_vec(), ..GetTask::of(task.id.clone()) };
    short(&world.ok("bob", all).await);
    let alone = GetTask { include: vec![Section::Handoff], ..GetTask::of(task.id.clone()) };
    let alone = world.ok("bob", alone).await;
    short(&alone);
    assert_eq!(alone.handoff.unwrap().next_steps[0].chars().count(), 490, "what is asked for alone has more room");
    let taken = world.claim("bob", task).await;
    short(&taken);
    assert_eq!((taken.handoff.unwrap().truncated.len(), taken.truncated), (parts.len(), vec!["contexts".to_owned()]));
    short(&world.ok("bob", GetReadyTasks::default()).await);
    short(&world.ok("bob", GetMyTasks::default()).await);
    let page = world.ok("bob", ListTasks::default()).await;
    short(&page);
    assert!(
        page.next_cursor.is_some() && page.tasks.iter().all(|row| serde_json::to_string(row).unwrap().len() <= 400)
    );
    let history = world.ok("bob", GetHistory::default()).await;
    short(&history);
    assert!(history.next_cursor.is_some());
    let search = SearchRecords { query: "長い".into(), project_id: None, kinds: Vec::new(), limit: None };
    short(&world.ok("bob", search).await);
    short(&world.ok("bob", SessionHeartbeat::default()).await);
    let refused = world.refused("cho", claim(&task.id), Code::AlreadyClaimed).await;
    short(&refused);
}

async fn i14_lists_of_projects_and_sessions_go_on_too(world: World) {
    let own = |key: String| CreateProject {
        key,
        name: "名".repeat(120),
        description: String::new(),
        policy: ProjectPolicy::default(),
        idempotency_key: None,
    };
    for number in 100..200 {
        world.ok("owner", own(format!("P{number}"))).await;
    }
    let first = world.ok("owner", ListProjects::default()).await;
    short(&first);
    let rest = ListProjects { cursor: first.next_cursor.clone(), limit: Some(200), ..ListProjects::default() };
    let rest = world.ok("owner", rest).await.projects;
    assert!(
        !rest.is_empty() && first.projects.len() + rest.len() == 101,
        "{} and {}",
        first.projects.len(),
        rest.len()
    );
    assert!(rest.iter().all(|row| first.projects.iter().all(|seen| seen.id != row.id)));

    let start = StartSession { client_note: Some("記".repeat(500)), ..StartSession::default() };
    for _ in 0..30 {
        world.ok("cho", start.clone()).await;
        world.session("ann").await;
    }
    let page = world.ok("cho", ListSessions::default()).await;
    short(&page);
    assert!(page.next_cursor.is_some());
    // Sessions elsewhere are passed over before the page is cut, not after.
    let eve = RegisterAgent::ai(agent("eve"));
    world.operator(eve).await;
    world.ok("eve", StartSession::default()).await;
    world.clock.advance_seconds(10);
    for _ in 0..5 {
        world.session("ann").await;
    }
    let hers = world.ok("eve", ListSessions { limit: Some(1), cursor: None }).await.sessions;
    assert_eq!(hers.len(), 1, "her own, although others were active later");
    let (mut seen, mut wish) = (BTreeSet::new(), ListSessions { limit: Some(7), cursor: None });
    loop {
        let page = world.ok("cho", wish.clone()).await;
        for row in &page.sessions {
            assert!(seen.insert(row.session.id.clone()), "each once");
        }
        match page.next_cursor {
            Some(cursor) => wish.cursor = Some(cursor),
            None => break,
        }
    }
    assert_eq!(seen.len(), 65, "30 of cho, 35 of ann");
}

fn short<T: serde::Serialize>(answer: &T) {
    let length = serde_json::to_string(answer).unwrap().len();
    assert!(length <= 32 * 1024, "{} answers {length} bytes", std::any::type_name::<T>());
}

async fn i15_an_archived_project_only_wakes_up(world: World) {
    let (held, free) = (world.task("held").await, world.task("free").await);
    world.session("ann").await;
    world.claim("ann", &held).await;
    world.ok("owner", UpdateProject::to_status(&world.project, ProjectStatus::Archived)).await;
    world.check().await;
    world.refused("ann", claim(&free.id), Code::ProjectNotActive).await;
    world.refused("manager", CreateTask::titled(&world.project, "new"), Code::ProjectNotActive).await;
    world.refused("ann", finish(&held.id, TaskStatus::Done), Code::ProjectNotActive).await;
    let title = UpdateTask { title: Some("t".into()), ..UpdateTask::of(free.id.clone()) };
    world.refused("manager", title, Code::ProjectNotActive).await;
    world
        .refused(
            "owner",
            UpdateProject { name: Some("n".into()), ..UpdateProject::of(&world.project) },
            Code::ProjectNotActive,
        )
        .await;
    let before = world.pm.last_seq().await.unwrap();
    world.clock.advance_seconds(1_000_000);
    world.pm.sweep().await.unwrap();
    let history =
        GetHistory { project_id: Some(world.project.clone().into()), since_seq: Some(before), ..GetHistory::default() };
    let later = world.pm.perform(&ActionCaller::operator(), history).await.unwrap();
    let touched: Vec<_> = later.events.iter().filter(|event| event.entity_id.starts_with("tsk_")).collect();
    assert!(touched.is_empty(), "{touched:?}");
    world.ok("owner", UpdateProject::to_status(&world.project, ProjectStatus::Active)).await;
    let session = world.session("bob").await;
    world.ok("bob", ClaimTask { session_id: Some(session), ..claim(&free.id) }).await;
    assert_eq!(
        world.pm.perform(&caller("vic"), GetTask::of(held.id.clone())).await.unwrap().task.status,
        TaskStatus::Todo
    );
    world.check().await;
}

/// Behind tsugi's back: what an archived project has is not changed, nothing in it is taken, and it cannot be put away
/// while something is held. (Adding rows is left to the actions, since an import brings archived projects with it.)
async fn i15_the_database_itself_keeps_an_archived_project_as_it_is(world: World) {
    let (task, other) = (world.task("held").await, world.task("other").await);
    world.claim("ann", &task).await;
    let refused = world.raw("UPDATE project SET status = 'archived'").await.unwrap_err();
    assert!(refused.contains("I15"), "{refused}");
    world.claim("bob", &other).await;
    world.ok("bob", hand(&other)).await;
    world.ok("owner", UpdateProject::to_status(&world.project, ProjectStatus::Archived)).await;
    let changes = [
        "UPDATE task SET title = 'changed'",
        "UPDATE claim SET state = 'live', ended_at = NULL",
        "UPDATE handoff SET summary = 'changed'",
        "UPDATE project SET name = 'changed'",
        "INSERT INTO claim (id, task_id, project_id, session_id, agent_id, fence, state, ttl_s, acquired_at, renewed_at, \
         expires_at, deadline_at, version) SELECT 'clm_x', task_id, project_id, session_id, agent_id, 9, 'live', 60, 0, 0, \
         0, 0, 1 FROM claim LIMIT 1",
    ];
    for change in changes {
        let refused = world.raw(change).await.unwrap_err();
        assert!(refused.contains("I15"), "{change}: {refused}");
    }
    world.check().await;
    let text = world.pm.export_text().await.unwrap();
    let copy = World::sqlite_empty().await;
    copy.pm.import(text).await.unwrap();
    copy.check().await;
}

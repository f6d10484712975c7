//! The board that people look at: columns of any size, everything that waits for a person, who is at work, and the
//! whole story of a task.

use tsugi_pm::action::admin::SetMembership;
use tsugi_pm::action::board::crew::GetCrew;
use tsugi_pm::action::board::message::SendMessage;
use tsugi_pm::action::board::needs::{AttentionNeed, GetNeeds};
use tsugi_pm::action::board::story::GetStory;
use tsugi_pm::action::board::timeline::{GetTimeline, TimelineView};
use tsugi_pm::action::board::{BoardView, GetBoard};
use tsugi_pm::action::context::AddContext;
use tsugi_pm::action::create::{CreateTask, CreateTasks, NamedTask, NewTask};
use tsugi_pm::action::edit::UpdateTask;
use tsugi_pm::action::handoff::{AcceptHandoff, CreateHandoff};
use tsugi_pm::action::project::{CreateProject, UpdateProject};
use tsugi_pm::action::search::GetNotifications;
use tsugi_pm::action::session::{SessionHeartbeat, StartSession};
use tsugi_pm::action::status::UpdateTaskStatus;
use tsugi_pm::action::view::TaskView;
use tsugi_pm::domain::context::ContextType;
use tsugi_pm::domain::event::EventKind;
use tsugi_pm::domain::fault::Code;
use tsugi_pm::domain::id::ProjectId;
use tsugi_pm::domain::member::Role;
use tsugi_pm::domain::policy::{ProjectPolicy, WorkerCreate};
use tsugi_pm::domain::project::ProjectStatus;
use tsugi_pm::domain::task::{Priority, TaskStatus};
use tsugi_pm::store::clock::TimeSource;

use crate::both_stores;
use crate::world::*;

both_stores!(
    columns_have_their_order_and_say_what_waits,
    what_is_done_leaves_the_board_after_seven_days,
    a_board_of_three_thousand_tasks_is_filtered_as_a_whole,
    everything_that_waits_for_a_person_is_told,
    an_agent_that_did_not_come_back_is_told_of_until_it_does,
    who_is_at_work_is_shown_with_leases_and_checkpoints,
    who_is_at_work_elsewhere_is_not_shown,
    a_story_has_every_hold_every_handoff_and_what_is_around,
    the_timeline_is_found_by_agent_task_and_kind,
    a_message_is_kept_and_heard_with_the_next_call,
    the_state_tells_sizes_leases_and_notices,
);

async fn board(world: &World, wish: GetBoard) -> BoardView {
    world.ok("manager", wish).await
}

/// The references in a column.
fn column(board: &BoardView, status: TaskStatus) -> Vec<String> {
    let column = board.columns.iter().find(|column| column.status == status).unwrap();
    column.cards.iter().map(|card| card.row.reference.clone()).collect()
}

fn total(board: &BoardView, status: TaskStatus) -> i64 {
    board.columns.iter().find(|column| column.status == status).unwrap().total
}

async fn cancel(world: &World, task: &TaskView) {
    let reason = Some("nobody wants it".to_owned());
    let wish = UpdateTaskStatus { reason, ..UpdateTaskStatus::new(task.id.clone(), TaskStatus::Cancelled) };
    world.ok("manager", wish).await;
}

async fn needs(world: &World) -> Vec<String> {
    let told = world.ok("manager", GetNeeds { project_id: world.project.clone().into() }).await;
    assert_eq!(told.total, told.needs.len() as i64);
    told.needs.iter().map(words).collect()
}

fn words(need: &AttentionNeed) -> String {
    match need {
        AttentionNeed::Review { task } => format!("review {}", task.row.reference),
        AttentionNeed::Blocked { task } => {
            format!("blocked {}: {}", task.row.reference, task.blocked_reason.as_deref().unwrap())
        }
        AttentionNeed::Handoff { task, summary, .. } => format!("handoff {}: {summary}", task.row.reference),
        AttentionNeed::Cancelled { task, prerequisites } => {
            format!("cancelled {} <- {}", task.row.reference, prerequisites[0].reference)
        }
        AttentionNeed::Approval { task } => format!("approval {}", task.row.reference),
        AttentionNeed::Expired { agent_id, tasks, .. } => format!("expired {agent_id} {}", tasks[0].row.reference),
    }
}

async fn columns_have_their_order_and_say_what_waits(world: World) {
    let first = world.task("First").await;
    let waiting = world.waiting_task("Waiting", &[&first]).await;
    let urgent = NewTask { title: "Urgent".into(), priority: Some(Priority::Critical), ..NewTask::default() };
    let urgent = world.new_task(urgent).await;
    let late = NewTask {
        title: "Late but urgent".into(),
        priority: Some(Priority::Critical),
        depends_on: vec![first.id.to_string()],
        ..NewTask::default()
    };
    let late = world.new_task(late).await;
    let shown = board(&world, GetBoard::of(&world.project)).await;
    let todo: Vec<&str> = [&urgent, &first, &late, &waiting].map(|task| task.reference.as_str()).to_vec();
    assert_eq!(column(&shown, TaskStatus::Todo), todo, "what can be begun comes first, then what is urgent");
    let cards = &shown.columns[1].cards;
    assert!(cards[0].row.ready && !cards[2].row.ready);
    assert_eq!(cards[2].waiting_on[0].reference, first.reference);
    let ready = board(&world, GetBoard { ready_only: true, ..GetBoard::of(&world.project) }).await;
    assert_eq!(total(&ready, TaskStatus::Todo), 2);
    // In a project that rests nothing can begin.
    world.operator(UpdateProject::to_status(&world.project, ProjectStatus::Paused)).await;
    let rests = board(&world, GetBoard::of(&world.project)).await;
    assert_eq!(rests.project_status, ProjectStatus::Paused);
    assert!(rests.columns[1].cards.iter().all(|card| !card.row.ready));
    world.refused("nobody", GetBoard::of(&world.project), Code::NotFound).await;
}

async fn what_is_done_leaves_the_board_after_seven_days(world: World) {
    let (old, new) = (world.task("Old").await, world.task("New").await);
    world.claim("ann", &old).await;
    world.finish("ann", &old).await;
    world.clock.advance_seconds(4 * 24 * 3600);
    world.claim("bob", &new).await;
    world.finish("bob", &new).await;
    let both = board(&world, GetBoard::of(&world.project)).await;
    assert_eq!(column(&both, TaskStatus::Done), [new.reference.clone(), old.reference.clone()]);
    world.clock.advance_seconds(3 * 24 * 3600 + 60);
    let one = board(&world, GetBoard::of(&world.project)).await;
    assert_eq!((column(&one, TaskStatus::Done), total(&one, TaskStatus::Done)), (vec![new.reference], 1));
}

async fn a_board_of_three_thousand_tasks_is_filtered_as_a_whole(world: World) {
    for hundred in 0..30 {
        let tasks = (0..100).map(|at| NamedTask {
            name: format!("n{at}"),
            task: NewTask {
                title: format!("Task 100%_{hundred}-{at}"),
                labels: vec![format!("part-{hundred}")],
                priority: Some(if at == 99 { Priority::Low } else { Priority::Medium }),
                assignee_id: (at == 7).then(|| agent("ann")),
                similar_ok: true,
                ..NewTask::default()
            },
        });
        let wish =
            CreateTasks { project_id: world.project.clone().into(), tasks: tasks.collect(), idempotency_key: None };
        world.ok("manager", wish).await;
    }
    let of = || GetBoard::of(&world.project);
    let all = board(&world, of()).await;
    assert_eq!((total(&all, TaskStatus::Todo), column(&all, TaskStatus::Todo).len()), (3000, 40));
    assert_eq!(all.labels.len(), 30);
    let more = GetBoard { cards: [(TaskStatus::Todo, 120)].into(), ..of() };
    assert_eq!(column(&board(&world, more).await, TaskStatus::Todo).len(), 120);
    for (wish, expected) in [
        (GetBoard { text: Some("task 100%_29-99".into()), ..of() }, 1),
        (GetBoard { text: Some("WEB-2999".into()), ..of() }, 1),
        (GetBoard { text: Some("100x".into()), ..of() }, 0),
        (GetBoard { label: Some("part-3".into()), ..of() }, 100),
        (GetBoard { priority: Some(Priority::Low), ..of() }, 30),
        (GetBoard { assignee_id: Some(agent("ann")), ..of() }, 30),
        (GetBoard { assignee_id: Some(agent("ann")), label: Some("part-3".into()), ..of() }, 1),
    ] {
        let said = format!("{wish:?}");
        assert_eq!(total(&board(&world, wish).await, TaskStatus::Todo), expected, "{said}");
    }
    let mine = world.ok("ann", GetBoard { mine: true, ..of() }).await;
    assert_eq!((total(&mine, TaskStatus::Todo), mine.me), (30, Some(agent("ann"))));
}

async fn everything_that_waits_for_a_person_is_told(world: World) {
    assert!(needs(&world).await.is_empty());
    let policy = ProjectPolicy {
        review_required: Some(true),
        worker_create: WorkerCreate::Triage,
        resume_grace_s: 60,
        claim_idle_ttl_s: 600,
        handoff_ttl_s: 600_000,
        ..ProjectPolicy::default()
    };
    world.policy(policy).await;
    let judged = world.task("Judged").await;
    world.claim("ann", &judged).await;
    world.ok("ann", finish(&judged.id, TaskStatus::Review)).await;
    let stuck = world.task("Stuck").await;
    world.claim("ann", &stuck).await;
    let reason = Some("the key is lost".to_owned());
    world.ok("ann", UpdateTaskStatus { reason, ..UpdateTaskStatus::new(stuck.id.clone(), TaskStatus::Blocked) }).await;
    let handed = world.task("Handed").await;
    world.claim("ann", &handed).await;
    world.ok("ann", CreateHandoff::of(handed.id.clone(), "half of it", vec!["the rest".into()])).await;
    let dropped = world.task("Dropped").await;
    let behind = world.waiting_task("Behind", &[&dropped]).await;
    cancel(&world, &dropped).await;
    let task = NewTask { title: "Found".into(), ..NewTask::default() };
    let found = CreateTask { project_id: world.project.clone().into(), task, idempotency_key: None };
    let found = world.ok("bob", found).await.task;
    // What a manager puts into the backlog waits for nobody.
    world.new_task(NewTask { title: "Later".into(), status: Some(TaskStatus::Backlog), ..NewTask::default() }).await;
    let expected = [
        format!("review {}", judged.reference),
        format!("blocked {}: the key is lost", stuck.reference),
        format!("handoff {}: half of it", handed.reference),
        format!("cancelled {} <- {}", behind.reference, dropped.reference),
        format!("approval {}", found.reference),
    ];
    assert_eq!(needs(&world).await, expected);
}

async fn an_agent_that_did_not_come_back_is_told_of_until_it_does(world: World) {
    world.policy(ProjectPolicy { resume_grace_s: 60, claim_idle_ttl_s: 80_000, ..ProjectPolicy::default() }).await;
    let task = world.task("Left alone").await;
    world.session("cho").await;
    world.claim("cho", &task).await;
    // Twelve hours without a call, and then the grace.
    world.clock.advance_seconds(12 * 3600 + 1);
    world.pm.sweep().await.unwrap();
    world.clock.advance_seconds(61);
    world.pm.sweep().await.unwrap();
    let gone = format!("expired agt_cho {}", task.reference);
    assert!(needs(&world).await.contains(&gone), "{:?}", needs(&world).await);
    world.clock.advance_seconds(5);
    world.session("cho").await;
    assert!(!needs(&world).await.contains(&gone));
}

async fn who_is_at_work_elsewhere_is_not_shown(world: World) {
    let elsewhere = found_another(&world).await;
    world.ok("ann", StartSession { project_id: Some(elsewhere.into()), ..StartSession::default() }).await;
    world.ok("bob", StartSession::default()).await;
    let crew = world.ok("manager", GetCrew { project_id: world.project.clone().into() }).await;
    let names: Vec<&str> = crew.members.iter().map(|member| member.agent_id.as_str()).collect();
    assert_eq!(names, ["agt_bob"]);
}

/// Another project, to which ann belongs too.
async fn found_another(world: &World) -> ProjectId {
    let wish = CreateProject {
        key: "OTHER".into(),
        name: "Another".into(),
        description: String::new(),
        policy: ProjectPolicy::default(),
        idempotency_key: None,
    };
    let project_id = world.operator(wish).await.project.id;
    let member = SetMembership {
        project_id: project_id.clone().into(),
        agent_id: agent("ann"),
        role: Some(Role::Worker),
        allow_ai_owner: false,
    };
    world.operator(member).await;
    project_id
}

async fn who_is_at_work_is_shown_with_leases_and_checkpoints(world: World) {
    world.policy(ProjectPolicy { claim_idle_ttl_s: 600, ..ProjectPolicy::default() }).await;
    let task = world.task("In hand").await;
    let session = world.session("ann").await;
    world.session("bob").await;
    world.claim("ann", &task).await;
    world.clock.advance_seconds(300);
    let report = SessionHeartbeat {
        session_id: Some(session.clone()),
        task_ids: vec![task.id.clone().into()],
        checkpoint: Some("half way".into()),
        ..SessionHeartbeat::default()
    };
    world.ok("ann", report).await;
    let crew = world.ok("manager", GetCrew { project_id: world.project.clone().into() }).await;
    let names: Vec<&str> = crew.members.iter().map(|member| member.agent_id.as_str()).collect();
    assert_eq!(names, ["agt_ann", "agt_bob"], "holders come first");
    let hold = &crew.members[0].holds[0];
    assert_eq!((hold.reference.as_str(), hold.checkpoint.as_deref()), (task.reference.as_str(), Some("half way")));
    assert_eq!(hold.expires_at.seconds_since(hold.renewed_at), 600);
    assert_eq!(hold.renewed_at.seconds_since(hold.acquired_at), 300);
    // A lease that ran out stands there until it is swept.
    world.clock.advance_seconds(700);
    let late = world.ok("manager", GetCrew { project_id: world.project.clone().into() }).await;
    assert!(late.members[0].holds[0].expires_at < world.clock.now());
    world.refused("nobody", GetCrew { project_id: world.project.clone().into() }, Code::NotFound).await;
}

async fn a_story_has_every_hold_every_handoff_and_what_is_around(world: World) {
    let first = world.task("First").await;
    let task = world.waiting_task("Middle", &[&first]).await;
    let last = world.waiting_task("Last", &[&task]).await;
    world.claim("bob", &first).await;
    world.finish("bob", &first).await;
    world.claim("ann", &task).await;
    let given = CreateHandoff::of(task.id.clone(), "one", vec!["go on".into()]);
    let handoff = world.ok("ann", given).await.handoff.handoff.id;
    world.clock.advance_seconds(1);
    world.ok("bob", AcceptHandoff { handoff_id: handoff, note: None, session_id: None, idempotency_key: None }).await;
    world.ok("bob", CreateHandoff::of(task.id.clone(), "two", vec!["end it".into()])).await;
    let story = world.ok("manager", GetStory { task_id: task.id.clone().into() }).await;
    let said: Vec<&str> = story.handoffs.iter().map(|one| one.summary.as_str()).collect();
    assert_eq!(said, ["one", "two"]);
    let holds: Vec<(i64, &str)> = story.holds.iter().map(|one| (one.fence, one.agent_id.as_str())).collect();
    assert_eq!(holds, [(2, "agt_bob"), (1, "agt_ann")]);
    assert!(story.holds.iter().all(|one| one.ended_at.is_some() && one.end_reason.is_some()));
    let mut edges = story.graph.edges.clone();
    edges.sort();
    let mut expected = vec![(task.id.clone(), first.id.clone()), (last.id.clone(), task.id.clone())];
    expected.sort();
    assert_eq!((edges, story.graph.tasks.len()), (expected, 3));
    world.refused("nobody", GetStory { task_id: task.id.into() }, Code::NotFound).await;
}

fn all_of(world: &World) -> GetTimeline {
    GetTimeline {
        project_id: Some(world.project.clone().into()),
        agent_id: None,
        task_id: None,
        kind: None,
        before_seq: None,
        since_seq: None,
        full: false,
        limit: None,
    }
}

fn kinds(timeline: &TimelineView) -> Vec<&str> {
    timeline.events.iter().map(|event| event.kind.as_str()).collect()
}

async fn the_timeline_is_found_by_agent_task_and_kind(world: World) {
    let (task, other) = (world.task("One").await, world.task("Other").await);
    world.claim("ann", &task).await;
    world.claim("bob", &other).await;
    let long = "line\n".repeat(200);
    let note = AddContext::of(task.id.clone(), ContextType::Note, long.clone());
    world.ok("ann", note).await;
    let of_task = GetTimeline { task_id: Some(task.id.clone().into()), ..all_of(&world) };
    let told = world.ok("manager", of_task.clone()).await;
    for kind in ["task.created", "task.claimed", "claim.granted", "context.added"] {
        assert_eq!(kinds(&told).iter().filter(|one| **one == kind).count(), 1, "{kind} in {:?}", kinds(&told));
    }
    assert_eq!(told.tasks[&task.id].reference, task.reference);
    assert!(told.events.windows(2).all(|pair| pair[0].seq > pair[1].seq), "newest first");
    let by_bob = world.ok("manager", GetTimeline { agent_id: Some(agent("bob")), ..all_of(&world) }).await;
    assert!(by_bob.events.iter().all(|event| event.actor_agent_id == Some(agent("bob"))) && !by_bob.events.is_empty());
    let of_kind = |kind: &str| GetTimeline { kind: Some(kind.into()), ..all_of(&world) };
    assert_eq!(kinds(&world.ok("manager", of_kind("context")).await), ["context.added"]);
    assert_eq!(kinds(&world.ok("manager", of_kind("task.claimed")).await), ["task.claimed"; 2]);
    // Cut where people skim, whole where they audit, and in pieces either way.
    let text = |told: &TimelineView| {
        let noted = told.events.iter().find(|event| event.kind == EventKind::ContextAdded).unwrap();
        noted.changes.iter().find(|change| change.field == "content").unwrap().new.as_str().unwrap().len()
    };
    let whole = world.ok("manager", GetTimeline { full: true, ..of_task }).await;
    assert!(text(&told) < long.len() && text(&whole) == long.len());
    let mut seen = Vec::new();
    let mut wish = GetTimeline { since_seq: Some(0), limit: Some(3), ..all_of(&world) };
    loop {
        let page = world.ok("manager", wish.clone()).await;
        seen.extend(page.events.iter().map(|event| event.seq));
        wish.since_seq = seen.last().copied();
        if !page.has_more {
            break;
        }
    }
    let all = world.ok("manager", GetTimeline { limit: Some(500), ..all_of(&world) }).await;
    let mut backwards: Vec<i64> = all.events.iter().map(|event| event.seq).collect();
    backwards.reverse();
    assert_eq!(seen, backwards);
}

async fn a_message_is_kept_and_heard_with_the_next_call(world: World) {
    let task = world.task("Talked about").await;
    world.claim("ann", &task).await;
    let message = SendMessage {
        project_id: world.project.clone().into(),
        agent_id: agent("ann"),
        task_id: Some(task.id.clone().into()),
        text: "please stop at noon".into(),
        idempotency_key: None,
    };
    let kept = world.ok("manager", message.clone()).await.context;
    assert_eq!(kept.task_id, Some(task.id));
    let heard = world.ok("ann", GetNotifications::default()).await;
    assert!(heard.notices.iter().any(|one| one.text.contains("please stop at noon")), "{heard:?}");
    let to_project = SendMessage { task_id: None, agent_id: agent("bob"), ..message.clone() };
    assert_eq!(world.ok("manager", to_project).await.context.task_id, None);
    let stranger = SendMessage { agent_id: agent("stranger"), ..message.clone() };
    world.refused("manager", stranger, Code::NotFound).await;
    world.refused("vic", message, Code::PermissionDenied).await;
    world.check().await;
}

async fn the_state_tells_sizes_leases_and_notices(world: World) {
    world.policy(ProjectPolicy { claim_idle_ttl_s: 60, ..ProjectPolicy::default() }).await;
    let task = world.task("Forgotten").await;
    world.claim("ann", &task).await;
    let before = world.pm.state().await.unwrap();
    assert_eq!((before.health.live_claims, before.oldest_unswept_lease, before.notices_unheard), (1, None, 0));
    assert!(before.health.bytes > 0 && before.health.schema == before.health.schema_known);
    assert_eq!(before.pid, std::process::id());
    world.clock.advance_seconds(90);
    let rename = UpdateTask { assignee_id: Some("agt_bob".into()), ..UpdateTask::of(world.task("For bob").await.id) };
    world.ok("manager", rename).await;
    let after = world.pm.state().await.unwrap();
    let waited = after.now.seconds_since(after.oldest_unswept_lease.unwrap());
    assert_eq!((waited, after.health.expired_claims), (30, 1));
    assert_eq!((after.notices_unheard, after.notices_for), (1, 1));
}

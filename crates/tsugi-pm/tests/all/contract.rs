//! One suite that every store must pass: the story of a team, step by step.

use tsugi_pm::action::ErasedAction;
use tsugi_pm::action::admin::{ForceEndSession, ForceRelease, IssueToken, RevokeToken, UpdateAgent};
use tsugi_pm::action::agent::{GetMyProfile, ListAgents};
use tsugi_pm::action::claim::{ClaimTask, ReleaseTask};
use tsugi_pm::action::context::AddContext;
use tsugi_pm::action::create::{CreateTask, CreateTasks, NamedTask, NewTask};
use tsugi_pm::action::edit::{LabelChange, UpdateDependencies, UpdateTask};
use tsugi_pm::action::get_task::GetTask;
use tsugi_pm::action::handoff::{AcceptHandoff, CreateHandoff, GetPendingHandoffs, RejectHandoff};
use tsugi_pm::action::list::{GetMyTasks, GetReadyTasks, ListTasks, Mine};
use tsugi_pm::action::presence::DisconnectSession;
use tsugi_pm::action::project::{GetProject, ListProjects, UpdateProject};
use tsugi_pm::action::search::{GetHistory, GetNotifications, SearchRecords};
use tsugi_pm::action::session::{EndHandoff, EndSession, SessionHeartbeat, StartSession};
use tsugi_pm::action::status::{ReviewTask, UpdateTaskStatus};
use tsugi_pm::domain::agent::AgentStatus;
use tsugi_pm::domain::context::ContextType;
use tsugi_pm::domain::fault::Code;
use tsugi_pm::domain::handoff::{HandoffKind, HandoffStatus};
use tsugi_pm::domain::notice::NoticeKind;
use tsugi_pm::domain::policy::{ProjectPolicy, WorkerCreate};
use tsugi_pm::domain::project::ProjectStatus;
use tsugi_pm::domain::session::{EndKind, SessionState};
use tsugi_pm::domain::task::{Priority, TaskSort, TaskStatus, Verdict};

use crate::both_stores;
use crate::world::{World, agent, caller, claim, finish};

both_stores!(
    a_task_goes_from_creation_to_done_and_frees_what_waits_for_it,
    the_loser_of_a_claim_learns_who_holds_it_and_what_else_there_is,
    ready_tasks_come_mine_first_then_by_priority_then_by_how_many_wait,
    a_handoff_carries_the_work_and_its_story_to_the_next_agent,
    a_rejected_handoff_frees_the_task_and_tells_the_sender,
    a_vanished_agent_leaves_its_checkpoint_and_its_task_comes_back,
    a_disconnected_session_revives_on_its_next_call,
    a_new_session_resumes_an_old_one_under_a_new_fence,
    ending_a_session_twice_gives_the_same_answer,
    ending_a_session_hands_over_releases_or_keeps,
    a_missing_session_is_found_started_or_asked_for,
    nobody_uses_somebody_elses_session,
    reviewed_work_needs_a_second_pair_of_eyes,
    workers_create_what_the_policy_lets_them,
    many_tasks_are_created_together_or_not_at_all,
    a_twin_is_refused_unless_it_is_wanted,
    fields_merge_and_a_stale_description_is_refused,
    lists_page_through_everything_once,
    words_are_found_also_in_japanese,
    a_cancelled_prerequisite_keeps_its_dependents_waiting,
    a_capability_that_is_missing_keeps_a_task_away,
    tokens_name_their_agent_until_they_are_revoked,
    a_stranger_sees_nothing,
    an_inactive_agent_may_not_act,
    a_person_can_take_a_claim_away_and_end_a_session,
    a_paused_project_gives_out_no_work,
    a_look_at_the_task_keeps_the_lease,
    what_was_exported_comes_back_the_same,
    a_clock_that_jumps_back_does_not_grant_twice,
    a_clock_that_was_years_ahead_for_a_moment_stops_nothing,
);

async fn a_task_goes_from_creation_to_done_and_frees_what_waits_for_it(world: World) {
    let first = world.task("lay the ground").await;
    let second = world.waiting_task("build the house", &[&first]).await;
    assert_eq!((first.reference.as_str(), second.reference.as_str()), ("WEB-1", "WEB-2"));
    let fault = world.refused("ann", claim(&second.id), Code::NotReady).await;
    assert_eq!(fault.details["blocked_by"][0]["ref"], "WEB-1");
    let claimed = world.claim("ann", &first).await;
    assert_eq!(claimed.claim.as_ref().unwrap().fence, 1);
    let moved = world.finish("ann", &first).await;
    assert_eq!(moved.newly_ready.iter().map(|row| row.reference.as_str()).collect::<Vec<_>>(), ["WEB-2"]);
    let again = world.finish("ann", &first).await;
    assert!(!again.changed, "asking twice changes nothing");
    let next = world.ok("bob", ClaimTask::default()).await;
    assert_eq!(next.task.unwrap().reference, "WEB-2");
    world.check().await;
}

async fn the_loser_of_a_claim_learns_who_holds_it_and_what_else_there_is(world: World) {
    let (held, free) = (world.task("held").await, world.task("free").await);
    world.claim("ann", &held).await;
    let fault = world.refused("bob", claim(&held.id), Code::AlreadyClaimed).await;
    assert_eq!(fault.details["holder"], "agt_ann");
    assert_eq!(fault.details["alternatives"][0]["id"], free.id.as_str());
    let again = world.claim("ann", &held).await;
    assert_eq!(again.claim.unwrap().fence, 1, "claiming what one holds is fine and grants nothing new");
    world.check().await;
}

async fn ready_tasks_come_mine_first_then_by_priority_then_by_how_many_wait(world: World) {
    let low =
        world.new_task(NewTask { title: "low".into(), priority: Some(Priority::Low), ..NewTask::default() }).await;
    let plain = world.task("plain").await;
    let wanted = world.task("wanted").await;
    world.waiting_task("waits", &[&wanted]).await;
    let urgent = world
        .new_task(NewTask { title: "urgent".into(), priority: Some(Priority::Critical), ..NewTask::default() })
        .await;
    let mine = NewTask {
        title: "mine".into(),
        priority: Some(Priority::Low),
        assignee_id: Some(agent("ann")),
        ..NewTask::default()
    };
    let mine = world.new_task(mine).await;
    let ready = world.ok("ann", GetReadyTasks::default()).await;
    let order: Vec<_> = ready.tasks.iter().map(|row| row.id.clone()).collect();
    assert_eq!(order, [mine.id, urgent.id, wanted.id.clone(), plain.id, low.id]);
    assert_eq!(ready.blocked_summary.n, 1);
    assert_eq!(ready.blocked_summary.top_blockers[0].id, wanted.id);
    let others = world.ok("bob", GetReadyTasks::default()).await;
    assert_eq!(others.tasks.len(), 4, "what is assigned to somebody else is not offered");
}

fn hand(task: &tsugi_pm::action::view::TaskView, to: Option<&str>) -> CreateHandoff {
    CreateHandoff {
        to_agent_id: to.map(agent),
        warnings: vec!["the tests are slow".into()],
        ..CreateHandoff::of(task.id.clone(), "half of it is done", vec!["do the other half".into()])
    }
}

fn note(task: &tsugi_pm::action::view::TaskView, kind: ContextType, content: &str) -> AddContext {
    AddContext::of(task.id.clone(), kind, content)
}

fn accept(handoff: &tsugi_pm::domain::handoff::Handoff) -> AcceptHandoff {
    AcceptHandoff { handoff_id: handoff.id.clone(), note: None, session_id: None, idempotency_key: None }
}

async fn a_handoff_carries_the_work_and_its_story_to_the_next_agent(world: World) {
    let task = world.task("big thing").await;
    world.claim("ann", &task).await;
    world.ok("ann", note(&task, ContextType::Note, "a detail")).await;
    world.ok("ann", note(&task, ContextType::Decision, "we use SQLite")).await;
    let handed = world.ok("ann", hand(&task, Some("bob"))).await;
    assert_eq!((handed.task.status, handed.task.assignee_id), (TaskStatus::Todo, Some(agent("bob"))));
    world.refused("ann", hand(&task, None), Code::ClaimLost).await;
    world.refused("cho", claim(&task.id), Code::HandoffNotForYou).await;
    world.refused("cho", accept(&handed.handoff), Code::HandoffNotForYou).await;
    assert_eq!(world.ok("bob", GetPendingHandoffs::default()).await.handoffs.len(), 1);
    let taken = world.ok("bob", accept(&handed.handoff)).await;
    assert_eq!((taken.claim.fence, taken.handoff.status), (2, HandoffStatus::Accepted));
    assert_eq!(taken.contexts[0].kind, ContextType::Decision, "decisions come first");
    let late = world.refused("bob", accept(&handed.handoff), Code::HandoffNotPending).await;
    assert_eq!(late.details["accepted_by"], "agt_bob");
    world.finish("bob", &task).await;
    let detail = world.ok("ann", GetTask::of(task.id.clone())).await;
    assert_eq!(detail.handoff.unwrap().status, HandoffStatus::Completed);
    let heard = world.ok("ann", GetNotifications::default()).await;
    assert!(heard.notices.iter().any(|notice| notice.kind == NoticeKind::HandoffAccepted));
    world.check().await;
}

async fn a_rejected_handoff_frees_the_task_and_tells_the_sender(world: World) {
    let task = world.task("unloved").await;
    world.claim("ann", &task).await;
    let handed = world.ok("ann", hand(&task, Some("bob"))).await;
    let reject =
        RejectHandoff { handoff_id: handed.handoff.id.clone(), reason: "no time".into(), idempotency_key: None };
    let answer = world.ok("bob", reject.clone()).await;
    assert_eq!((answer.task.assignee_id, answer.handoff.status), (None, HandoffStatus::Rejected));
    world.refused("bob", reject, Code::HandoffNotPending).await;
    world.claim("cho", &task).await;
    let ann = caller("ann");
    let notices = || async { world.pm.perform_with_notices(&ann, ErasedAction::of(GetMyProfile {})).await.unwrap().1 };
    let heard = notices().await;
    assert_eq!(heard[0].kind, NoticeKind::HandoffRejected);
    notices().await;
    assert!(notices().await.is_empty(), "a notice is shown at most twice");
    world.check().await;
}

async fn a_vanished_agent_leaves_its_checkpoint_and_its_task_comes_back(world: World) {
    let task = world.task("long work").await;
    let session = world.session("ann").await;
    world.claim("ann", &task).await;
    let beat = SessionHeartbeat { checkpoint: Some("reached step 3 of 5".into()), ..SessionHeartbeat::default() };
    assert_eq!(world.ok("ann", beat).await.leases.len(), 1);
    world.clock.advance_seconds(3601);
    let swept = world.pm.sweep().await.unwrap();
    assert_eq!(swept.expired_claims, 1);
    let taken = world.ok("bob", ClaimTask::default()).await;
    assert_eq!(taken.claim.unwrap().fence, 2);
    let left = taken.handoff.unwrap();
    assert_eq!((left.kind, left.summary.as_str()), (HandoffKind::Auto, "reached step 3 of 5"));
    let fault = world.refused("ann", finish(&task.id, TaskStatus::Done), Code::ClaimLost).await;
    assert_eq!(fault.details["holder"], "agt_bob");
    let beat = world
        .ok(
            "ann",
            SessionHeartbeat {
                session_id: Some(session),
                task_ids: vec![task.id.clone().into()],
                ..SessionHeartbeat::default()
            },
        )
        .await;
    assert_eq!((beat.leases.len(), beat.lost.len()), (0, 1));
    world.check().await;
}

async fn a_disconnected_session_revives_on_its_next_call(world: World) {
    let task = world.task("work").await;
    let session = world.session("ann").await;
    world.claim("ann", &task).await;
    let gone = DisconnectSession { session_id: session.clone(), kind: EndKind::Eof };
    assert_eq!(world.ok("ann", gone.clone()).await, SessionState::Disconnected);
    world.clock.advance_seconds(600);
    let mut done = finish(&task.id, TaskStatus::Review);
    done.session_id = Some(session.clone());
    assert!(world.ok("ann", done).await.changed);
    world.ok("ann", gone).await;
    world.clock.advance_seconds(901);
    assert_eq!(world.pm.sweep().await.unwrap().expired_sessions, 1);
    let late = SessionHeartbeat { session_id: Some(session), ..SessionHeartbeat::default() };
    world.refused("ann", late, Code::SessionEnded).await;
    world.check().await;
}

async fn a_new_session_resumes_an_old_one_under_a_new_fence(world: World) {
    let task = world.task("work").await;
    let old = world.session("ann").await;
    world.claim("ann", &task).await;
    let resume = StartSession { resume: Some(old.clone()), ..StartSession::default() };
    world.refused("bob", resume.clone(), Code::NotFound).await;
    let new = world.ok("ann", resume.clone()).await;
    assert_eq!((new.resumed_claims[0].fence, &new.resumed_claims[0].task_id), (2, &task.id));
    world.refused("ann", resume, Code::SessionEnded).await;
    let stale = UpdateTaskStatus { session_id: Some(old), ..finish(&task.id, TaskStatus::Done) };
    world.refused("ann", stale, Code::SessionEnded).await;
    world.finish("ann", &task).await;
    world.check().await;
}

fn end(handoffs: Vec<EndHandoff>, keep_claims: bool) -> EndSession {
    EndSession { summary: "enough for today".into(), session_id: None, handoffs, keep_claims, idempotency_key: None }
}

async fn ending_a_session_twice_gives_the_same_answer(world: World) {
    let task = world.task("work").await;
    let session = world.session("ann").await;
    world.claim("ann", &task).await;
    let wish = EndSession { session_id: Some(session), ..end(Vec::new(), false) };
    let first = world.ok("ann", wish.clone()).await;
    assert_eq!(first.released, std::slice::from_ref(&task.id));
    world.claim("bob", &task).await;
    let second = world.ok("ann", wish).await;
    assert_eq!(serde_json::to_value(&first).unwrap(), serde_json::to_value(&second).unwrap());
    world.refused("ann", end(Vec::new(), false), Code::SessionRequired).await;
    world.check().await;
}

async fn ending_a_session_hands_over_releases_or_keeps(world: World) {
    let (one, two) = (world.task("one").await, world.task("two").await);
    world.session("ann").await;
    world.claim("ann", &one).await;
    world.claim("ann", &two).await;
    let handoff = EndHandoff {
        task_id: one.id.clone().into(),
        to_agent_id: None,
        summary: "s".into(),
        next_steps: vec!["n".into()],
    };
    let ended = world.ok("ann", end(vec![handoff], false)).await;
    assert_eq!((ended.handoffs.len(), ended.released.as_slice()), (1, std::slice::from_ref(&two.id)));
    world.session("bob").await;
    world.claim("bob", &two).await;
    let kept = world.ok("bob", end(Vec::new(), true)).await;
    assert!(!kept.ended && kept.kept == [two.id.clone()]);
    world.refused("cho", claim(&two.id), Code::AlreadyClaimed).await;
    let resumed = world.ok("bob", StartSession { resume: Some(kept.session_id), ..StartSession::default() }).await;
    assert_eq!(resumed.resumed_claims.len(), 1);
    world.check().await;
}

async fn a_missing_session_is_found_started_or_asked_for(world: World) {
    let (one, two, three) = (world.task("one").await, world.task("two").await, world.task("three").await);
    let implicit = world.claim("ann", &one).await.session_id;
    let found = world.claim("ann", &two).await.session_id;
    assert_eq!(implicit, found, "the only active session is meant");
    let other = world.session("ann").await;
    let fault = world.refused("ann", claim(&three.id), Code::SessionAmbiguous).await;
    assert_eq!(fault.details["sessions"].as_array().unwrap().len(), 2);
    let named = ClaimTask { session_id: Some(other.clone()), ..claim(&three.id) };
    assert_eq!(world.ok("ann", named).await.session_id, other);
    let elsewhere = ClaimTask { session_id: Some(other), ..claim(&one.id) };
    world.refused("ann", elsewhere, Code::AlreadyClaimed).await;
}

async fn nobody_uses_somebody_elses_session(world: World) {
    let session = world.session("ann").await;
    let task = world.task("work").await;
    let stolen = ClaimTask { session_id: Some(session.clone()), ..claim(&task.id) };
    world.refused("bob", stolen, Code::NotFound).await;
    let end = EndSession { session_id: Some(session), ..end(Vec::new(), false) };
    world.refused("bob", end, Code::NotFound).await;
}

async fn reviewed_work_needs_a_second_pair_of_eyes(world: World) {
    world.policy(ProjectPolicy { review_required: None, ..ProjectPolicy::default() }).await;
    let task = world.task("work").await;
    world.claim("ann", &task).await;
    world.refused("ann", finish(&task.id, TaskStatus::Done), Code::ApprovalRequired).await;
    world.ok("ann", finish(&task.id, TaskStatus::Review)).await;
    let judge = |verdict, notes: Option<&str>| ReviewTask {
        task_id: task.id.clone().into(),
        verdict,
        notes: notes.map(str::to_owned),
        idempotency_key: None,
    };
    world.refused("ann", judge(Verdict::Approve, None), Code::PermissionDenied).await;
    world.refused("bob", judge(Verdict::Changes, None), Code::InvalidArgument).await;
    let back = world.ok("bob", judge(Verdict::Changes, Some("add a test"))).await;
    assert_eq!((back.task.status, back.task.assignee_id), (TaskStatus::Todo, Some(agent("ann"))));
    world.claim("ann", &task).await;
    world.ok("ann", finish(&task.id, TaskStatus::Review)).await;
    let done = world.ok("bob", judge(Verdict::Approve, None)).await;
    assert_eq!(done.task.status, TaskStatus::Done);
    world.refused("bob", judge(Verdict::Approve, None), Code::InvalidTransition).await;
    world.check().await;
}

async fn workers_create_what_the_policy_lets_them(world: World) {
    let wish = |title: &str| CreateTask::titled(&world.project, title);
    world.policy(ProjectPolicy { worker_create: WorkerCreate::Triage, ..ProjectPolicy::default() }).await;
    let task = world.ok("ann", wish("idea")).await.task;
    assert_eq!(task.status, TaskStatus::Backlog);
    world.refused("ann", UpdateTaskStatus::new(task.id.clone(), TaskStatus::Todo), Code::InvalidTransition).await;
    world.ok("manager", UpdateTaskStatus::new(task.id, TaskStatus::Todo)).await;
    world.policy(ProjectPolicy { worker_create: WorkerCreate::Deny, ..ProjectPolicy::default() }).await;
    world.refused("ann", wish("another"), Code::ApprovalRequired).await;
    world.refused("vic", wish("third"), Code::PermissionDenied).await;
    world.check().await;
}

async fn many_tasks_are_created_together_or_not_at_all(world: World) {
    let named = |name: &str, on: &[&str]| NamedTask {
        name: name.into(),
        task: NewTask {
            title: format!("task {name}"),
            depends_on: on.iter().map(|one| (*one).to_owned()).collect(),
            ..NewTask::default()
        },
    };
    let wish = |tasks| CreateTasks { project_id: world.project.clone().into(), tasks, idempotency_key: None };
    let circle = wish(vec![named("a", &["b"]), named("b", &["a"])]);
    world.refused("manager", circle, Code::DependencyCycle).await;
    let half = wish(vec![named("a", &[]), named("b", &["WEB-99"])]);
    world.refused("manager", half, Code::NotFound).await;
    let made = world.ok("manager", wish(vec![named("c", &["b", "a"]), named("b", &["a"]), named("a", &[])])).await;
    assert_eq!(made.refs["a"], "WEB-1", "numbers are dense: refused calls took none");
    let ready = world.ok("ann", GetReadyTasks::default()).await;
    assert_eq!(ready.tasks.len(), 1);
    let detail = world.ok("ann", GetTask::of(made.ids["c"].clone())).await;
    assert_eq!(detail.dependencies.unwrap().len(), 2);
    world.check().await;
}

async fn a_twin_is_refused_unless_it_is_wanted(world: World) {
    let first = world.task("Fix the login page").await;
    let mut twin = CreateTask::titled(&world.project, "fix the LOGIN-page!");
    let fault = world.refused("ann", twin.clone(), Code::SimilarExists).await;
    assert_eq!(fault.details["similar"][0]["id"], first.id.as_str());
    twin.task.similar_ok = true;
    assert_eq!(world.ok("ann", twin).await.similar.len(), 1);
}

async fn fields_merge_and_a_stale_description_is_refused(world: World) {
    let task = world.task("work").await;
    let labels = LabelChange { add: vec!["ui".into()], ..LabelChange::default() };
    let one = UpdateTask { labels: Some(labels), ..UpdateTask::of(task.id.clone()) };
    let two = UpdateTask { priority: Some(Priority::High), ..UpdateTask::of(task.id.clone()) };
    world.ok("ann", one).await;
    let both = world.ok("bob", two).await.task;
    assert_eq!(
        (both.labels.as_slice(), both.priority, both.version),
        (["ui".to_owned()].as_slice(), Priority::High, 3)
    );
    let blind = UpdateTask { description: Some("mine".into()), ..UpdateTask::of(task.id.clone()) };
    let fault = world.refused("ann", blind.clone(), Code::VersionConflict).await;
    assert_eq!(fault.details["current"]["version"], 3);
    let stale = UpdateTask { expected_version: Some(2), ..blind.clone() };
    world.refused("ann", stale, Code::VersionConflict).await;
    world.ok("ann", UpdateTask { expected_version: Some(3), ..blind.clone() }).await;
    let own = UpdateTask { description: Some("mine, better".into()), ..UpdateTask::of(task.id.clone()) };
    world.ok("ann", own).await;
    let give = UpdateTask { assignee_id: Some("agt_bob".into()), ..UpdateTask::of(task.id.clone()) };
    world.refused("ann", give.clone(), Code::PermissionDenied).await;
    assert_eq!(world.ok("manager", give).await.task.assignee_id, Some(agent("bob")));
    world.check().await;
}

async fn lists_page_through_everything_once(world: World) {
    for number in 0..25 {
        world.task(&format!("task {number}")).await;
        world.clock.advance_millis(if number % 3 == 0 { 0 } else { 5 });
    }
    for sort in TaskSort::ALL {
        let mut seen = Vec::new();
        let mut list = ListTasks { sort: Some(*sort), limit: Some(7), ..ListTasks::default() };
        loop {
            let page = world.ok("vic", list.clone()).await;
            seen.extend(page.tasks.into_iter().map(|row| row.reference));
            match page.next_cursor {
                Some(cursor) => list.cursor = Some(cursor),
                None => break,
            }
        }
        let mut distinct = seen.clone();
        distinct.sort();
        distinct.dedup();
        assert_eq!((seen.len(), distinct.len()), (25, 25), "{sort}");
    }
    let mine = GetMyTasks { include: vec![Mine::Created, Mine::Assigned], limit: Some(10), ..GetMyTasks::default() };
    let first = world.ok("manager", mine.clone()).await;
    let second = world.ok("manager", GetMyTasks { cursor: first.next_cursor, ..mine }).await;
    assert!(first.tasks.iter().all(|row| !second.tasks.contains(row)) && second.tasks.len() == 10);
    assert_eq!(world.ok("ann", ListAgents { limit: Some(2), ..ListAgents::default() }).await.agents.len(), 2);
}

async fn words_are_found_also_in_japanese(world: World) {
    let english = world.task("Rotate the signing keys").await;
    let japanese = world
        .new_task(NewTask {
            title: "ログイン画面を直す".into(),
            description: "引き継ぎの手順を書く".into(),
            ..NewTask::default()
        })
        .await;
    world.ok("ann", note(&english, ContextType::Decision, "keys rotate every ninety days")).await;
    let found = async |query: &str| {
        let search = SearchRecords { query: query.into(), project_id: None, kinds: Vec::new(), limit: None };
        let mut ids: Vec<String> = world.ok("vic", search).await.hits.into_iter().map(|hit| hit.reference).collect();
        ids.sort();
        ids
    };
    assert_eq!(found("keys rotat").await.len(), 2, "every word counts, the last may be unfinished");
    assert_eq!(found("引き継ぎ").await, [japanese.id.as_str()]);
    assert_eq!(found("画面").await, [japanese.id.as_str()]);
    assert!(found("keys nothing").await.is_empty());
    assert!(found("\" OR * ( ' : & | !").await.is_empty(), "no query is an error");
    let list = ListTasks { text: Some("signing".into()), ..ListTasks::default() };
    assert_eq!(world.ok("vic", list).await.tasks[0].id, english.id);
    let renamed = UpdateTask { title: Some("Rotate certificates".into()), ..UpdateTask::of(english.id.clone()) };
    world.ok("ann", renamed).await;
    assert!(found("signing").await.is_empty());
}

async fn a_cancelled_prerequisite_keeps_its_dependents_waiting(world: World) {
    let first = world.task("first").await;
    let second = world.waiting_task("second", &[&first]).await;
    world
        .refused("manager", UpdateTaskStatus::new(first.id.clone(), TaskStatus::Cancelled), Code::InvalidArgument)
        .await;
    let cancel = UpdateTaskStatus {
        reason: Some("not needed".into()),
        ..UpdateTaskStatus::new(first.id.clone(), TaskStatus::Cancelled)
    };
    world.refused("ann", cancel.clone(), Code::InvalidTransition).await;
    world.ok("manager", cancel).await;
    let fault = world.refused("ann", claim(&second.id), Code::NotReady).await;
    assert_eq!(fault.details["blocked_by"][0]["status"], "cancelled");
    let drop_it = UpdateDependencies {
        task_id: second.id.clone().into(),
        add: Vec::new(),
        remove: vec![first.id.clone().into()],
        idempotency_key: None,
    };
    assert!(world.ok("ann", drop_it).await.ready);
    world.claim("ann", &second).await;
    world.check().await;
}

async fn a_capability_that_is_missing_keeps_a_task_away(world: World) {
    let task = NewTask {
        title: "paint".into(),
        required_capabilities: vec!["css".into()],
        labels: vec!["ui".into()],
        ..NewTask::default()
    };
    let task = world.new_task(task).await;
    world.refused("ann", claim(&task.id), Code::PermissionDenied).await;
    assert!(!world.ok("ann", ClaimTask::default()).await.claimed);
    let learn = UpdateAgent {
        agent_id: agent("ann"),
        name: None,
        role_title: None,
        capabilities: Some(vec!["css".into(), "html".into()]),
        instructions: None,
        status: None,
    };
    world.operator(learn).await;
    assert!(!world.ok("ann", ClaimTask { labels: vec!["db".into()], ..ClaimTask::default() }).await.claimed);
    assert!(world.ok("ann", ClaimTask { labels: vec!["ui".into()], ..ClaimTask::default() }).await.claimed);
}

async fn tokens_name_their_agent_until_they_are_revoked(world: World) {
    let made = world.operator(IssueToken { agent_id: agent("ann"), scopes: Vec::new(), expires_in_s: Some(60) }).await;
    assert!(!format!("{made:?}").contains(&made.secret), "a secret does not print");
    let who = world.pm.authenticate(&made.secret).await.unwrap();
    assert_eq!(who.unwrap().agent_id(), Some(&agent("ann")));
    assert!(world.pm.authenticate("tsugi_wrong").await.unwrap().is_none());
    world.clock.advance_seconds(61);
    assert!(world.pm.authenticate(&made.secret).await.unwrap().is_none(), "it has expired");
    let lasting = world.operator(IssueToken { agent_id: agent("ann"), scopes: Vec::new(), expires_in_s: None }).await;
    world.operator(RevokeToken { token_id: lasting.token_id }).await;
    assert!(world.pm.authenticate(&lasting.secret).await.unwrap().is_none(), "it was revoked");
    world
        .refused(
            "ann",
            IssueToken { agent_id: agent("bob"), scopes: Vec::new(), expires_in_s: None },
            Code::PermissionDenied,
        )
        .await;
    world.check().await;
}

async fn a_stranger_sees_nothing(world: World) {
    let task = world.task("secret").await;
    world.operator(tsugi_pm::action::admin::RegisterAgent::ai(agent("eve"))).await;
    world.refused("eve", GetTask::of(task.id.clone()), Code::NotFound).await;
    world.refused("eve", claim(&task.id), Code::NotFound).await;
    world.refused("eve", GetProject { project_id: world.project.clone().into() }, Code::NotFound).await;
    assert!(world.ok("eve", ListProjects::default()).await.projects.is_empty());
    assert!(world.ok("eve", ListTasks::default()).await.tasks.is_empty());
    assert!(world.ok("eve", GetHistory::default()).await.events.is_empty());
    let search = SearchRecords { query: "secret".into(), project_id: None, kinds: Vec::new(), limit: None };
    assert!(world.ok("eve", search).await.hits.is_empty());
    assert_eq!(world.ok("vic", ListProjects::default()).await.projects.len(), 1);
}

async fn an_inactive_agent_may_not_act(world: World) {
    let off = UpdateAgent {
        agent_id: agent("ann"),
        name: None,
        role_title: None,
        capabilities: None,
        instructions: None,
        status: Some(AgentStatus::Inactive),
    };
    world.operator(off).await;
    world.refused("ann", GetMyProfile::default(), Code::AgentInactive).await;
    let unknown = world.pm.perform(&caller("nobody"), GetMyProfile::default()).await.unwrap_err();
    assert_eq!(unknown.code, Code::NotFound);
}

async fn a_person_can_take_a_claim_away_and_end_a_session(world: World) {
    let (one, two) = (world.task("one").await, world.task("two").await);
    let session = world.session("ann").await;
    world.claim("ann", &one).await;
    world.claim("ann", &two).await;
    let take = ForceRelease { task_id: one.id.clone().into(), reason: "needed elsewhere".into() };
    world.refused("bob", take.clone(), Code::PermissionDenied).await;
    assert_eq!(world.ok("owner", take).await.status, TaskStatus::Todo);
    let lost = ReleaseTask {
        task_id: one.id.clone().into(),
        reason: "x".into(),
        note: None,
        session_id: None,
        idempotency_key: None,
    };
    let fault = world.refused("ann", lost, Code::ClaimLost).await;
    assert_eq!(fault.details["reason"], "needed elsewhere");
    world.operator(ForceEndSession { session_id: session.clone(), reason: "runaway".into() }).await;
    world.claim("bob", &two).await;
    world
        .refused(
            "ann",
            SessionHeartbeat { session_id: Some(session), ..SessionHeartbeat::default() },
            Code::SessionEnded,
        )
        .await;
    world.check().await;
}

async fn a_paused_project_gives_out_no_work(world: World) {
    let task = world.task("work").await;
    world.refused("ann", UpdateProject::to_status(&world.project, ProjectStatus::Paused), Code::PermissionDenied).await;
    world.ok("manager", UpdateProject::to_status(&world.project, ProjectStatus::Paused)).await;
    world.refused("ann", claim(&task.id), Code::ProjectNotActive).await;
    assert!(!world.ok("ann", ClaimTask::default()).await.claimed);
    world.ok("owner", UpdateProject::to_status(&world.project, ProjectStatus::Active)).await;
    world.claim("ann", &task).await;
}

async fn a_look_at_the_task_keeps_the_lease(world: World) {
    let task = world.task("work").await;
    let until = world.claim("ann", &task).await.claim.unwrap().expires_at;
    world.clock.advance_seconds(3000);
    world.ok("ann", GetTask::of(task.id.clone())).await;
    let detail = world.ok("bob", GetTask::of(task.id.clone())).await;
    assert!(detail.claim.unwrap().expires_at > until);
    world.clock.advance_seconds(3000);
    world.finish("ann", &task).await;
    world.check().await;
}

async fn what_was_exported_comes_back_the_same(world: World) {
    let first = world.task("first").await;
    let second = world.waiting_task("second", &[&first]).await;
    let part = NewTask { title: "part".into(), parent_id: Some(second.id.clone().into()), ..NewTask::default() };
    world.new_task(part).await;
    world.claim("ann", &first).await;
    world.ok("ann", note(&first, ContextType::Decision, "so be it")).await;
    world.ok("ann", hand(&first, None)).await;
    let text = world.pm.export_text().await.unwrap();
    let other = World::sqlite_empty().await;
    let imported = other.pm.import(text.clone()).await.unwrap();
    assert!(imported.added > 10 && imported.skipped == 0);
    assert_eq!(other.pm.export_text().await.unwrap(), text, "a copy exports the same, line for line");
    other.check().await;
    let again = other.pm.import(text).await.unwrap();
    assert_eq!((again.added, again.events), (0, 0), "importing twice changes nothing");
    other.claim("bob", &first).await;
    other.check().await;
}

async fn a_clock_that_jumps_back_does_not_grant_twice(world: World) {
    let task = world.task("work").await;
    let granted = world.claim("ann", &task).await.claim.unwrap();
    world.clock.advance_seconds(-7200);
    world.refused("bob", claim(&task.id), Code::AlreadyClaimed).await;
    let other = world.task("other").await;
    assert!(other.created_at >= granted.acquired_at, "time does not run backwards");
    world.clock.advance_seconds(7200 + 3601);
    let taken = world.claim("bob", &task).await.claim.unwrap();
    assert_eq!(taken.fence, 2);
    world.check().await;
}

async fn a_clock_that_was_years_ahead_for_a_moment_stops_nothing(world: World) {
    const YEARS: i64 = 10 * 365 * 86_400;
    let task = world.task("work").await;
    world.claim("ann", &task).await;
    world.clock.advance_seconds(YEARS);
    assert_eq!(world.claim("bob", &task).await.claim.unwrap().fence, 2, "every lease is over");
    world.clock.advance_seconds(-YEARS);
    world.refused("cho", claim(&task.id), Code::AlreadyClaimed).await;
    assert_eq!(world.pm.health().await.unwrap().ahead_s, YEARS);
    // Time goes on from there, so that this lease ends too.
    world.clock.advance_seconds(3601);
    assert_eq!(world.claim("cho", &task).await.claim.unwrap().fence, 3);
    world.clock.advance_seconds(YEARS);
    assert_eq!(world.pm.health().await.unwrap().ahead_s, 0);
    world.check().await;
}

//! Who may do what, and what a refusal says about it.

use serde_json::json;
use tsugi_pm::action::caller::ActionCaller;
use tsugi_pm::action::claim::ClaimTask;
use tsugi_pm::action::create::NewTask;
use tsugi_pm::action::edit::UpdateTask;
use tsugi_pm::action::get_task::GetTask;
use tsugi_pm::action::handoff::CreateHandoff;
use tsugi_pm::action::init_project::{FirstMember, InitProject};
use tsugi_pm::action::project::{CreateProject, UpdateProject};
use tsugi_pm::action::search::{GetHistory, SearchRecords};
use tsugi_pm::action::status::{ReviewTask, UpdateTaskStatus};
use tsugi_pm::domain::fault::Code;
use tsugi_pm::domain::handoff::HandoffStatus;
use tsugi_pm::domain::member::Role;
use tsugi_pm::domain::policy::ProjectPolicy;
use tsugi_pm::domain::project::ProjectStatus;
use tsugi_pm::domain::task::{TaskStatus, Verdict, WorkEvidence, WorkResult};

use crate::both_stores;
use crate::world::{World, agent, claim};

both_stores!(
    a_manager_leads_a_project_and_its_owner_rules_it,
    a_refusal_says_what_it_would_take,
    another_session_of_the_same_agent_does_not_overwrite_a_description_unread,
    what_was_imported_is_found_by_the_same_words,
    the_database_itself_refuses_what_would_break_a_rule,
    what_a_person_does_with_the_database_in_hand_is_signed,
    work_that_begins_anew_needs_evidence_of_its_own,
    a_task_that_goes_back_to_the_backlog_takes_its_handoff_back,
    a_project_is_founded_whole_or_not_at_all,
);

async fn a_manager_leads_a_project_and_its_owner_rules_it(world: World) {
    let to = |status| UpdateProject::to_status(&world.project, status);
    let name = UpdateProject { name: Some("Shoe shop".into()), ..UpdateProject::of(&world.project) };
    assert_eq!(world.ok("manager", name.clone()).await.project.name, "Shoe shop");
    world.ok("manager", to(ProjectStatus::Paused)).await;
    world.ok("manager", to(ProjectStatus::Active)).await;
    world.refused("ann", name, Code::PermissionDenied).await;
    let rules = UpdateProject { policy: Some(ProjectPolicy::default()), ..UpdateProject::of(&world.project) };
    world.refused("manager", rules.clone(), Code::PermissionDenied).await;
    world.refused("manager", to(ProjectStatus::Archived), Code::PermissionDenied).await;
    world.ok("owner", rules).await;
    world.ok("owner", to(ProjectStatus::Archived)).await;
    world.refused("manager", to(ProjectStatus::Active), Code::PermissionDenied).await;
    world.ok("owner", to(ProjectStatus::Active)).await;
    world.check().await;
}

async fn a_refusal_says_what_it_would_take(world: World) {
    let theirs = NewTask { title: "bob's".into(), assignee_id: Some(agent("bob")), ..NewTask::default() };
    let theirs = world.new_task(theirs).await;
    let fault = world.refused("ann", claim(&theirs.id), Code::PermissionDenied).await;
    assert_eq!((&fault.details["required"], &fault.details["role"]), (&json!(["assignee"]), &json!("worker")));
    assert!(!fault.hint.is_empty());
    let judge =
        ReviewTask { task_id: theirs.id.clone().into(), verdict: Verdict::Approve, notes: None, idempotency_key: None };
    let fault = world.refused("manager", judge, Code::InvalidTransition).await;
    assert_eq!(fault.details["allowed"], json!(["backlog", "in_progress", "cancelled"]), "{fault:?}");
}

async fn another_session_of_the_same_agent_does_not_overwrite_a_description_unread(world: World) {
    let task = world.task("t").await;
    let write = |text: &str, version| UpdateTask {
        description: Some(text.into()),
        expected_version: version,
        ..UpdateTask::of(task.id.clone())
    };
    let first = world.session("ann").await;
    world.ok("ann", write("by the first", Some(1))).await;
    world.ok("ann", write("by the first, better", None)).await;
    world.session("ann").await;
    // Which of the two speaks is not clear, so neither is taken for the author.
    world.refused("ann", write("by whom?", None), Code::VersionConflict).await;
    let end = tsugi_pm::action::session::EndSession {
        summary: "bye".into(),
        session_id: Some(first),
        handoffs: Vec::new(),
        keep_claims: false,
        idempotency_key: None,
    };
    world.ok("ann", end).await;
    world.refused("ann", write("by the second", None), Code::VersionConflict).await;
    world.ok("ann", write("by the second", Some(3))).await;
    world.check().await;
}

async fn what_was_imported_is_found_by_the_same_words(world: World) {
    let task = world.task("shoes").await;
    world.ok("ann", ClaimTask { task_id: Some(task.id.clone().into()), ..ClaimTask::default() }).await;
    let hand = CreateHandoff {
        warnings: vec!["mind the giraffe".into()],
        ..CreateHandoff::of(task.id.clone(), "half", vec!["paint the zebra".into()])
    };
    world.ok("ann", hand).await;
    let copy = World::sqlite_empty().await;
    copy.pm.import(world.pm.export_text().await.unwrap()).await.unwrap();
    for word in ["zebra", "giraffe", "shoes"] {
        let search = || SearchRecords { query: word.into(), project_id: None, kinds: Vec::new(), limit: None };
        let (here, there) = (world.ok("bob", search()).await.hits, copy.ok("bob", search()).await.hits);
        let ids = |hits: Vec<tsugi_pm::action::search::SearchMatch>| {
            let mut ids: Vec<_> = hits.into_iter().map(|hit| hit.reference).collect();
            ids.sort();
            ids
        };
        assert!(!here.is_empty(), "{word}");
        assert_eq!(ids(there), ids(here), "{word}");
    }
}

async fn the_database_itself_refuses_what_would_break_a_rule(world: World) {
    let task = world.task("t").await;
    world.claim("ann", &task).await;
    let hand = CreateHandoff::of(task.id.clone(), "half", vec!["rest".into()]);
    world.ok("ann", hand).await;
    world.claim("bob", &task).await;
    let elsewhere = tsugi_pm::action::project::CreateProject {
        key: "ELSE".into(),
        name: "Elsewhere".into(),
        description: String::new(),
        policy: ProjectPolicy::default(),
        idempotency_key: None,
    };
    let elsewhere = world.operator(elsewhere).await.project.id;
    let stranger = tsugi_pm::action::create::CreateTask::titled(&elsewhere, "stranger");
    let stranger = world.operator(stranger).await.task;
    let edge = format!(
        "INSERT INTO dependency (project_id, task_id, depends_on_id, kind, created_at, version) \
         VALUES ('{}', '{}', '{}', 'blocks', 0, 1)",
        world.project, task.id, stranger.id
    );
    let cases = [
        ("UPDATE handoff SET status = 'pending'", "I5"),
        ("UPDATE task SET fence = 1 WHERE fence = 2", "I3"),
        (edge.as_str(), "I7"),
    ];
    for (sql, rule) in cases {
        let refusal = world.raw(sql).await.expect_err(sql);
        assert!(refusal.contains(rule), "{sql}: {refusal}");
    }
    world.check().await;
}

async fn what_a_person_does_with_the_database_in_hand_is_signed(world: World) {
    let task = world.task("t").await;
    let person = ActionCaller::operator_signing_as(agent("local"));
    let rename = UpdateTask { title: Some("better".into()), ..UpdateTask::of(task.id.clone()) };
    world.pm.perform(&person, rename).await.unwrap();
    let history = GetHistory { entity_id: Some(task.id.to_string()), newest: true, ..GetHistory::default() };
    let events = world.ok("vic", history).await.events;
    assert_eq!(events[0].actor_agent_id, Some(agent("local")));
    world.check().await;
}

async fn work_that_begins_anew_needs_evidence_of_its_own(world: World) {
    world.policy(ProjectPolicy { require_evidence: true, ..ProjectPolicy::default() }).await;
    let task = world.task("t").await;
    let to = |status, result: Option<WorkResult>, reason: Option<&str>| UpdateTaskStatus {
        result,
        reason: reason.map(str::to_owned),
        ..UpdateTaskStatus::new(task.id.clone(), status)
    };
    let shown = || {
        let evidence = serde_json::from_value::<Vec<WorkEvidence>>(json!([{"kind": "commit", "uri": "abc"}])).unwrap();
        Some(WorkResult { summary: "built".into(), evidence })
    };
    for reopened_from in [TaskStatus::Review, TaskStatus::Done] {
        world.claim("ann", &task).await;
        world.refused("ann", to(TaskStatus::Review, None, None), Code::InvalidArgument).await;
        world.ok("ann", to(TaskStatus::Review, shown(), None)).await;
        if reopened_from == TaskStatus::Done {
            world.ok("manager", to(TaskStatus::Done, None, None)).await;
        }
        let reopened = world.ok("manager", to(TaskStatus::Todo, None, Some("it broke"))).await.task;
        assert_eq!(reopened.result, None, "from {reopened_from}");
    }
    world.check().await;
}

async fn a_task_that_goes_back_to_the_backlog_takes_its_handoff_back(world: World) {
    let task = world.task("t").await;
    world.claim("ann", &task).await;
    let wish = CreateHandoff::of(task.id.clone(), "half".to_owned(), vec!["the rest".to_owned()]);
    world.ok("ann", wish).await;
    world.ok("manager", UpdateTaskStatus::new(task.id.clone(), TaskStatus::Backlog)).await;
    let left = world.ok("manager", GetTask::of(task.id.clone())).await.handoff.unwrap();
    assert_eq!(left.status, HandoffStatus::Withdrawn);
    world.check().await;
}

async fn a_project_is_founded_whole_or_not_at_all(world: World) {
    let founding = |role| InitProject {
        project: CreateProject {
            key: "NEW".into(),
            name: "New".into(),
            description: String::new(),
            policy: ProjectPolicy::default(),
            idempotency_key: None,
        },
        members: vec![
            FirstMember { agent_id: agent("newcomer"), role: Role::Worker },
            FirstMember { agent_id: agent("ann"), role },
        ],
        allow_ai_owner: false,
    };
    let operator = ActionCaller::operator();
    let refused = world.pm.perform(&operator, founding(Role::Owner)).await.unwrap_err();
    assert_eq!(refused.code, Code::PermissionDenied, "ann is a program: {refused:?}");
    assert_eq!(world.pm.agent_named("newcomer").await.unwrap(), None, "nothing of it stays");
    world.operator(founding(Role::Worker)).await;
    let taken = world.pm.perform(&operator, founding(Role::Worker)).await.unwrap_err();
    assert_eq!((taken.code, &taken.details["key"]), (Code::SimilarExists, &json!("NEW")));
}

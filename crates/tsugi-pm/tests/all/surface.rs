//! The finer promises of the MCP surface: sessions that are over, answers that are cut, prompts, keys and annotations.

use serde_json::{Value, json};
use tsugi_pm::action::agent::GetSession;
use tsugi_pm::action::create::NewTask;
use tsugi_pm::action::get_task::GetTask;
use tsugi_pm::domain::session::EndKind;
use tsugi_pm::domain::task::TaskStatus;
use tsugi_pm::mcp::actor::ServerActor;
use tsugi_pm::mcp::process::ServerProcess;
use tsugi_pm::mcp::{PmServerSettings, Profile, server};
use tsugi_protocol::mcp::{Method, ProtocolVersion};

use crate::mcp::{Client, host};
use crate::world::{World, agent};

/// `end_session` once left a legacy client, which names no session, with nothing but refusals.
#[tokio::test]
async fn a_legacy_client_whose_session_is_over_is_given_a_new_one() {
    let world = World::sqlite().await;
    let (one, two) = (world.task("one").await, world.task("two").await);
    let settings =
        PmServerSettings { profile: Profile::Standard, ..PmServerSettings::new(ServerActor::Agent(agent("ann"))) };
    let process = ServerProcess::new(world.pm.clone(), agent("ann"), host(), settings).await.unwrap();
    let legacy = Client { version: ProtocolVersion::V2025_06_18, ..Client::over(process.clone()) };
    let first = legacy.call("claim_task", json!({"task_id": one.id})).await["session_id"].clone();
    let ended = legacy.call("end_session", json!({"summary": "bye"})).await;
    assert_eq!(ended["session_id"], first);
    assert_eq!(legacy.call("end_session", json!({"summary": "bye"})).await["released"], ended["released"]);
    // Another process of the same agent is another session, and not taken for this one's.
    let other = world.session("ann").await;
    legacy.refused("release_task", json!({"task_id": one.id, "reason": "r"}), "claim_lost").await;
    let second = legacy.call("claim_task", json!({"task_id": two.id})).await["session_id"].clone();
    assert!(second != first && second != json!(other), "{second}");
    let moved = legacy.call("update_task_status", json!({"task_id": two.id, "status": "done"})).await;
    assert_eq!(moved["session_id"], second, "it is the client's session from then on");
    process.end(EndKind::Eof).await;
    let left = world.ok("ann", GetSession { session_id: Some(serde_json::from_value(second).unwrap()) }).await;
    assert_eq!(left.session.end_kind, Some(EndKind::Eof), "the process says goodbye for it");
}

#[tokio::test]
async fn i14_a_full_board_is_a_short_answer_that_goes_on() {
    let world = World::sqlite().await;
    let manager = Client::of(&world, "manager").await;
    for column in ["backlog", "todo", "cancelled"] {
        for number in 0..50 {
            let title = format!("{column} {number} {}", "題".repeat(40));
            let status = Some(if column == "backlog" { TaskStatus::Backlog } else { TaskStatus::Todo });
            let task = world.new_task(NewTask { title, status, ..NewTask::default() }).await;
            if column == "cancelled" {
                let away = json!({"task_id": task.id, "status": column, "reason": "r"});
                manager.call("update_task_status", away).await;
            }
        }
    }
    let board = Client::of(&world, "ann").await.read("project://WEB/board").await;
    assert!(board.to_string().len() <= 32 * 1024, "{} bytes", board.to_string().len());
    assert!(board["todo"]["next_cursor"].is_string(), "{board}");
}

#[tokio::test]
async fn a_prompt_that_is_cut_still_says_what_to_do() {
    let world = World::sqlite().await;
    let description = "長い説明。".repeat(4_000);
    let task = world.new_task(NewTask { title: "big".into(), description, ..NewTask::default() }).await;
    let client = Client::of(&world, "ann").await;
    let note = json!({"task_id": task.id, "type": "note", "content": "長い文章。".repeat(1_000)});
    client.call("add_context", note).await;
    let page = client.prompt("task_start", json!({"task_id": task.reference})).await;
    assert!(page.len() <= 6 * 1024, "{} bytes", page.len());
    assert!(page.trim_end().ends_with(r#"claim_task {"task_id": "WEB-1"}"#), "{page}");
}

#[tokio::test]
async fn the_template_of_a_handoff_knows_the_checkpoint_the_files_and_what_is_open() {
    let world = World::sqlite().await;
    let acceptance = vec!["it is fast".to_owned()];
    let task = world.new_task(NewTask { title: "t".into(), acceptance, ..NewTask::default() }).await;
    let client = Client::of(&world, "ann").await;
    client.call("claim_task", json!({"task_id": task.id})).await;
    let git = json!({"branch": "fast", "dirty": true, "files": ["src/slow.rs"]});
    client.call("heartbeat", json!({"checkpoint": "step 3 of 5", "git": git})).await;
    let page = client.prompt("handoff_template", json!({"task_id": task.reference})).await;
    for word in ["step 3 of 5", "fast dirty", "src/slow.rs", "it is fast", "create_handoff {"] {
        assert!(page.contains(word), "no `{word}` in: {page}");
    }
}

#[tokio::test]
async fn what_is_cut_from_a_resource_is_named() {
    let world = World::sqlite().await;
    let task = world.task("t").await;
    let client = Client::of(&world, "ann").await;
    let content = "長い文章。".repeat(4_000);
    client.call("add_context", json!({"task_id": task.id, "type": "note", "content": content})).await;
    let read = client.read(&format!("context://{}", task.id)).await;
    assert_eq!(read["truncated"], json!(["contexts"]));
    assert!(read["contexts"][0]["content"].as_str().unwrap().len() > 8 * 1024, "one alone has the room of all");
}

#[tokio::test]
async fn a_misspelt_field_of_one_of_many_tasks_is_refused() {
    let world = World::sqlite().await;
    let found = world.task("while doing this").await;
    let client = Client::of(&world, "manager").await;
    let many = |one: Value| json!({"project_id": world.project, "tasks": [one]});
    let wrong = many(json!({"ref": "a", "title": "t", "priorty": "high"}));
    let error = client.refused("create_tasks", wrong, "invalid_argument").await;
    assert!(error["message"].as_str().unwrap().contains("priorty"), "{error}");
    client.refused("create_tasks", many(json!({"title": "no ref"})), "invalid_argument").await;
    let right = many(json!({"ref": "a", "title": "t", "discovered_from": found.reference}));
    let made = client.call("create_tasks", right).await;
    let task = client.call("get_task", json!({"task_id": made["ids"]["a"]})).await;
    assert_eq!(task["task"]["discovered_from"], found.id.as_str());
}

/// Every object in a schema says which members it knows, and that it knows no others.
fn is_closed(schema: &Value) -> bool {
    let is_object = schema["type"] == "object";
    let nested = schema.as_object().into_iter().flat_map(|members| members.values());
    let listed = schema.as_array().into_iter().flatten();
    (!is_object || (schema["additionalProperties"] == false && schema["properties"].is_object()))
        && nested.chain(listed).all(is_closed)
}

#[tokio::test]
async fn every_object_in_every_schema_is_closed() {
    let world = World::sqlite().await;
    let settings =
        PmServerSettings { profile: Profile::All, ..PmServerSettings::new(ServerActor::Agent(agent("owner"))) };
    let client = Client::over(server(world.pm.clone(), settings).await.unwrap());
    let list = client.send(Method::ToolsList, json!({})).await.unwrap();
    for tool in list["tools"].as_array().unwrap() {
        assert!(is_closed(&tool["inputSchema"]), "{tool}");
    }
}

#[tokio::test]
async fn keeping_house_can_be_repeated_too_but_no_secret_is_remembered() {
    let world = World::sqlite().await;
    let settings =
        PmServerSettings { profile: Profile::All, ..PmServerSettings::new(ServerActor::Agent(agent("owner"))) };
    let client = Client::over(server(world.pm.clone(), settings).await.unwrap());
    let task = world.task("t").await;
    world.claim("ann", &task).await;
    let release = json!({"task_id": task.id, "reason": "r", "idempotency_key": "release-1"});
    let first = client.call("force_release", release.clone()).await;
    world.claim("bob", &task).await;
    assert_eq!(client.call("force_release", release).await, first, "bob keeps what he took since");
    assert_eq!(world.ok("bob", GetTask::of(task.id.clone())).await.task.assignee_id, Some(agent("bob")));
    let other = json!({"task_id": task.id, "reason": "another", "idempotency_key": "release-1"});
    client.refused("force_release", other, "idempotency_conflict").await;
    let wrong = json!({"task_id": task.id, "reason": "r", "idempotency_key": 1});
    client.refused("force_release", wrong, "invalid_argument").await;
    client
        .refused("new_token", json!({"agent_id": "agt_ann", "idempotency_key": "token-001"}), "invalid_argument")
        .await;
}

#[tokio::test]
async fn every_tool_says_that_it_stays_at_home_and_every_write_takes_a_key() {
    let world = World::sqlite().await;
    let list = Client::of(&world, "ann").await.send(Method::ToolsList, json!({})).await.unwrap();
    for tool in list["tools"].as_array().unwrap() {
        let (hints, arguments) = (&tool["annotations"], &tool["inputSchema"]["properties"]);
        assert_eq!(hints["openWorldHint"], false, "{tool}");
        let is_write = hints.get("readOnlyHint").is_none();
        assert_eq!(arguments.get("idempotency_key").is_some(), is_write, "{tool}");
    }
}

#[tokio::test]
async fn the_end_of_a_session_a_release_and_a_heartbeat_can_be_repeated() {
    let world = World::sqlite().await;
    let task = world.task("t").await;
    let client = Client::of(&world, "ann").await;
    client.call("claim_task", json!({"task_id": task.id})).await;
    let beat = json!({"checkpoint": "half", "idempotency_key": "beat-0001"});
    assert_eq!(client.call("heartbeat", beat.clone()).await, client.call("heartbeat", beat).await);
    let release = json!({"task_id": task.id, "reason": "r", "idempotency_key": "release-1"});
    assert_eq!(client.call("release_task", release.clone()).await, client.call("release_task", release).await);
    let end = json!({"summary": "bye", "idempotency_key": "end-00001"});
    assert_eq!(client.call("end_session", end.clone()).await, client.call("end_session", end).await);
}

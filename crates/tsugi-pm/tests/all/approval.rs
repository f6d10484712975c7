//! Where a rule wants a person's word, the person at the client is asked, and the history says so.

use serde_json::{Value, json};
use tsugi_pm::action::view::TaskView;
use tsugi_pm::domain::policy::{ProjectPolicy, WorkerCreate};
use tsugi_pm::mcp::actor::ServerActor;
use tsugi_pm::mcp::{PmServerSettings, server};
use tsugi_protocol::answer::Caller;
use tsugi_protocol::json::JsonObject;
use tsugi_protocol::mcp::{ClientCapabilities, Method, ProtocolVersion};

use crate::mcp::Client;
use crate::world::World;

/// A client whose person can be asked.
async fn asked(world: &World) -> Client {
    let form = JsonObject::from(json!({"elicitation": {"form": {}}}));
    Client { capabilities: ClientCapabilities::from_object(form), ..Client::of(world, "ann").await }
}

async fn strict() -> (World, TaskView) {
    let world = World::sqlite().await;
    let rules =
        ProjectPolicy { review_required: Some(true), worker_create: WorkerCreate::Deny, ..ProjectPolicy::default() };
    world.policy(rules).await;
    let task = world.task("work").await;
    (world, task)
}

fn finish(task: &TaskView) -> Value {
    json!({"task_id": task.id, "status": "done", "result": {"summary": "it works"}})
}

/// The same call again with what the person said.
async fn again(client: &Client, tool: &str, arguments: Value, question: &Value, said: Value) -> Value {
    let params = json!({
        "name": tool,
        "arguments": arguments,
        "inputResponses": {"approval": said},
        "requestState": question["requestState"],
    });
    client.send(Method::ToolsCall, params).await.unwrap()
}

fn yes() -> Value {
    json!({"action": "accept", "content": {"approve": true}})
}

#[tokio::test]
async fn a_person_at_the_client_can_say_yes_to_what_needs_a_person() {
    for version in [ProtocolVersion::LATEST, ProtocolVersion::V2025_11_25] {
        let (world, task) = strict().await;
        let client = Client { version, ..asked(&world).await };
        client.call("claim_task", json!({"task_id": task.id})).await;
        let question = client.result("update_task_status", finish(&task)).await;
        let form = &question["inputRequests"]["approval"]["params"];
        assert_eq!(form["requestedSchema"]["required"], json!(["approve"]), "{question}");
        assert!(form["message"].as_str().unwrap().contains("needs a review"), "{form}");
        let result = again(&client, "update_task_status", finish(&task), &question, yes()).await;
        assert_eq!(result["structuredContent"]["task"]["status"], "done", "{result}");
        let history = client.call("get_history", json!({"entity_id": task.id, "newest": true})).await;
        assert_eq!(history["events"][0]["reason"], "approved by the person at the client");
        world.check().await;
    }
}

#[tokio::test]
async fn an_approved_task_of_a_worker_still_goes_through_triage() {
    let (world, _) = strict().await;
    let client = asked(&world).await;
    let wish = json!({"project_id": world.project, "title": "idea"});
    let question = client.result("create_task", wish.clone()).await;
    let result = again(&client, "create_task", wish, &question, yes()).await;
    assert_eq!(result["structuredContent"]["task"]["status"], "backlog", "{result}");
}

#[tokio::test]
async fn a_no_is_a_no_and_a_yes_is_for_one_call() {
    let (world, task) = strict().await;
    let other = world.task("other").await;
    let client = asked(&world).await;
    client.call("claim_task", json!({"task_id": task.id})).await;
    client.call("claim_task", json!({"task_id": other.id})).await;
    let question = client.result("update_task_status", finish(&task)).await;
    let no = json!({"action": "accept", "content": {"approve": false}});
    let tries = [(finish(&task), json!({"action": "decline"})), (finish(&task), no), (finish(&other), yes())];
    for (arguments, said) in tries {
        let result = again(&client, "update_task_status", arguments, &question, said).await;
        assert_eq!(result["structuredContent"]["error"]["code"], "approval_required", "{result}");
    }
}

#[tokio::test]
async fn nobody_is_asked_who_cannot_be_and_nobody_through_a_gateway() {
    let (world, task) = strict().await;
    let silent = Client::of(&world, "ann").await;
    silent.call("claim_task", json!({"task_id": task.id})).await;
    silent.refused("update_task_status", finish(&task), "approval_required").await;
    let shared = server(world.pm.clone(), PmServerSettings::new(ServerActor::Principal)).await.unwrap();
    let remote = Client { answer: shared, caller: Caller::of_key("ann"), ..asked(&world).await };
    remote.refused("update_task_status", finish(&task), "approval_required").await;
    let question = asked(&world).await.result("update_task_status", finish(&task)).await;
    let result = again(&remote, "update_task_status", finish(&task), &question, yes()).await;
    assert_eq!(result["structuredContent"]["error"]["code"], "approval_required", "{result}");
}

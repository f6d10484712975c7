//! A story with the project-management server: three agents, each with a process of its own.

use serde_json::{Value, json};

use crate::client::{Client, Era};

/// An agent and its server.
struct Agent(Client);

impl Agent {
    async fn start(program: &str, db: &str, id: &str, era: Era) -> Self {
        let mut command = tokio::process::Command::new(program);
        command.args(["--db", db, "--agent-id", id, "--tools", "standard"]);
        Self(Client::of_program(command, era).await)
    }

    /// What a tool that must succeed answers.
    async fn act(&self, tool: &str, arguments: Value) -> Value {
        let result = self.0.call(tool, arguments).await;
        assert_ne!(result["isError"], true, "{tool}: {result}");
        result["structuredContent"].clone()
    }

    async fn leave(self) {
        self.0.service.cancel().await.unwrap();
    }
}

/// Tells it from the first session to the review.
pub(crate) async fn tell(program: &str, db: &str, era: Era) {
    let manager = Agent::start(program, db, "agt_manager", era).await;
    let ann = Agent::start(program, db, "agt_ann", era).await;
    let bob = Agent::start(program, db, "agt_bob", era).await;
    let project = manager.act("list_projects", json!({})).await["projects"][0]["id"].clone();
    let created = manager.act("create_task", json!({"project_id": project, "title": "Ship it"})).await;
    let task = &created["task"]["ref"];

    let session = ann.act("start_session", json!({"project_id": project})).await["session_id"].clone();
    let claimed = ann.act("claim_task", json!({"task_id": task, "session_id": session})).await;
    assert_eq!(claimed["claimed"], true, "{claimed}");
    let decision = json!({"task_id": task, "content": "use SQLite", "type": "decision", "session_id": session});
    ann.act("add_context", decision).await;
    let mut handoff = json!({"task_id": task, "to_agent_id": "agt_bob", "summary": "half done"});
    handoff["next_steps"] = json!(["the rest"]);
    handoff["session_id"] = session.clone();
    ann.act("create_handoff", handoff).await;

    let waiting = bob.act("get_pending_handoffs", json!({})).await;
    let accepted = bob.act("accept_handoff", json!({"handoff_id": waiting["handoffs"][0]["id"]})).await;
    assert_eq!(accepted["contexts"][0]["content"], "use SQLite", "{accepted}");
    bob.act("update_task_status", json!({"task_id": task, "status": "review", "result": {"summary": "works"}})).await;
    let judged = manager.act("review_task", json!({"task_id": task, "verdict": "approve"})).await;
    assert_eq!(judged["task"]["status"], "done", "{judged}");
    bob.act("end_session", json!({"summary": "shipped"})).await;
    ann.act("end_session", json!({"summary": "handed over", "session_id": session})).await;
    for agent in [manager, ann, bob] {
        agent.leave().await;
    }
    println!("told");
}

//! Tasks: the handle that a server may give in place of a result, and how its state reads
//! ([Tasks](https://github.com/modelcontextprotocol/ext-tasks/blob/main/specification/draft/tasks.md)).

use std::time::Duration;

use crate::json::{JsonObject, ObjectWriter};
use crate::rpc::RpcError;

/// The parameter and member that names a task.
pub const TASK_ID: &str = "taskId";

/// The name of the task that a result hands out; `None` for any other result.
pub fn created(result: &JsonObject) -> Option<String> {
    match result.get_bytes("resultType") == Some(b"\"task\"") {
        true => result.get_str(TASK_ID).map(|id| id.into_owned()),
        false => None,
    }
}

/// The same task, or parameters about it, under another name.
pub fn with_id(task: &JsonObject, id: &str) -> JsonObject {
    let mut renamed = ObjectWriter::with_capacity(task.bytes().len() + id.len());
    renamed.string(TASK_ID, id).members_except(task, &[TASK_ID]);
    renamed.finish_object()
}

/// How a task stands.
#[derive(Debug)]
pub enum TaskState {
    Working,
    /// The questions that are open, by key.
    InputRequired(JsonObject),
    Completed(JsonObject),
    Failed(Box<RpcError>),
    Cancelled,
}

impl TaskState {
    /// Reads a task; `None` when it has no state that is known.
    pub fn of(task: &JsonObject) -> Option<Self> {
        Some(match task.get_str("status")?.as_ref() {
            "working" => TaskState::Working,
            "input_required" => TaskState::InputRequired(task.get_object("inputRequests")?),
            "completed" => TaskState::Completed(task.get_object("result")?),
            "failed" => TaskState::Failed(Box::new(RpcError::from_raw(&task.get("error")?)?)),
            "cancelled" => TaskState::Cancelled,
            _ => return None,
        })
    }
}

/// How long the server wants a client to wait between two looks at a task.
pub fn poll_interval(task: &JsonObject) -> Option<Duration> {
    task.get("pollIntervalMs").and_then(|interval| interval.to::<u64>().ok()).map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(json: serde_json::Value) -> JsonObject {
        JsonObject::from(json)
    }

    #[test]
    fn only_a_result_that_says_so_is_a_task() {
        assert_eq!(created(&task(serde_json::json!({"resultType": "task", "taskId": "t"}))).as_deref(), Some("t"));
        assert_eq!(created(&task(serde_json::json!({"resultType": "complete", "taskId": "t"}))), None);
        let renamed = with_id(&task(serde_json::json!({"status": "working", "taskId": "t", "x": [1]})), "u");
        assert_eq!(renamed.raw().as_str(), r#"{"taskId":"u","status":"working","x":[1]}"#);
    }

    #[test]
    fn a_state_without_what_it_promises_is_unknown() {
        let state = |json| TaskState::of(&task(json));
        assert!(matches!(state(serde_json::json!({"status": "working"})), Some(TaskState::Working)));
        assert!(matches!(
            state(serde_json::json!({"status": "failed", "error": {"code": -1, "message": "no"}})),
            Some(TaskState::Failed(error)) if error.code() == -1
        ));
        for broken in [
            serde_json::json!({"status": "completed"}),
            serde_json::json!({"status": "failed"}),
            serde_json::json!({"status": "input_required"}),
            serde_json::json!({"status": "dancing"}),
            serde_json::json!({}),
        ] {
            assert!(state(broken.clone()).is_none(), "{broken}");
        }
    }
}

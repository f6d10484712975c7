//! What to try, said to a person: the verbs of the command instead of the tools of an agent.

use serde_json::Value;
use tsugi_pm::domain::fault::{Code, Fault};

/// What agents read, and what a person types instead.
const VERBS: [(&str, &str); 9] = [
    ("say similar_ok: true", "say --similar-ok"),
    ("other work with get_ready_tasks", "other work from `tsugi pm ready`"),
    ("look for other work with get_ready_tasks", "look for other work with `tsugi pm ready`"),
    ("use review: update_task_status with status `review`", "send it to review: `tsugi pm review`"),
    (", or leave a note with add_context", ""),
    ("move it to todo with update_task_status", "take it up again with `tsugi pm move KEY todo`"),
    ("leave to_agent_id out, and whoever comes may take it", "leave --to out, and whoever comes may take it"),
    (" with start_session", ""),
    (
        "name one as session_id",
        "name one with --session, or end the others with `tsugi pm end`; `tsugi pm who` shows them",
    ),
];

/// The hint of a refusal, in the words of the command.
pub(super) fn hint(fault: &Fault) -> String {
    if fault.code == Code::AlreadyClaimed {
        return instead(fault);
    }
    if let Some(key) = fault.details.get("key").and_then(Value::as_str) {
        return format!(
            "add agents to it: `tsugi pm agent add agt_x --project {key} --role worker`; or choose another key"
        );
    }
    if fault.details.get("field").is_some_and(|field| field == "reason") && fault.message.starts_with("a move to") {
        return "add --reason \"…\"".to_owned();
    }
    VERBS.iter().fold(fault.hint.clone(), |text, (tool, verb)| text.replace(tool, verb))
}

/// What is free instead of a task that somebody holds.
fn instead(fault: &Fault) -> String {
    let others = fault.details.get("alternatives").and_then(Value::as_array);
    let names: Vec<&str> = others.into_iter().flatten().filter_map(|task| task["ref"].as_str()).collect();
    if names.is_empty() {
        "nothing else is ready now".to_owned()
    } else {
        format!("free instead: {}", names.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn advice(code: Code, text: &str) -> String {
        hint(&Fault::new(code, "no").hint(text))
    }

    #[test]
    fn a_person_hears_of_verbs_and_of_what_is_free() {
        let heard = advice(Code::SimilarExists, "work on that one, or say similar_ok: true");
        assert_eq!(heard, "work on that one, or say --similar-ok");
        let heard = advice(Code::NotReady, "take one of these first, or other work with get_ready_tasks");
        assert_eq!(heard, "take one of these first, or other work from `tsugi pm ready`");
        assert_eq!(advice(Code::Busy, "try again"), "try again");
        let held = Fault::new(Code::AlreadyClaimed, "held").hint("take one of the alternatives");
        assert_eq!(hint(&held), "nothing else is ready now");
        let others = json!([{"ref": "WEB-1"}, {"ref": "WEB-4"}]);
        assert_eq!(hint(&held.with("alternatives", others)), "free instead: WEB-1, WEB-4");
    }
}

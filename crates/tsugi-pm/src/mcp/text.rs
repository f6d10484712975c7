//! Words for models and people: the server's guidance, and answers as short text for clients that read only text.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::Lang;
use crate::action::get_task::TaskDetail;
use crate::domain::limit;

/// The longest text beside structured content.
const OUTLINE_BYTES: usize = 4 * limit::KIB;
/// A value longer than this is cut in the text; the structured content has it in full.
const VALUE_BYTES: usize = 600;

/// What the server says about itself.
pub(super) fn instructions(lang: Lang) -> &'static str {
    lang.pick(
        "Shared project memory for agents. Begin with start_session, take work with claim_task, record decisions with \
         add_context, finish with update_task_status (review or done), pass on with create_handoff, and close with \
         end_session. A task is held by exactly one session; a claim ends when its holder stays idle. A task_id is tsk_… or KEY-n.",
        "エージェントが共有するプロジェクトの記憶です。start_session で始め、claim_task でタスクを確保し、add_context で決定を記録し、\
         update_task_status（review / done）で完了し、create_handoff で引き継ぎ、end_session で終えます。\
         タスクを持てるのは同時に一つのセッションだけです。task_id は tsk_… または KEY-n です。",
    )
}

/// An answer as short text: one line per field, one line per task.
pub(super) fn outline(value: &Value) -> String {
    let mut text = String::new();
    write(&mut text, value, 0);
    let (mut text, is_cut) = limit::clip(text.trim_end(), OUTLINE_BYTES);
    if is_cut {
        text.push_str("\n… (all of it is in structuredContent)");
    }
    text
}

fn write(text: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, value)| field(text, key, value, depth)),
        other => line(text, depth, &plain(other)),
    }
}

fn field(text: &mut String, key: &str, value: &Value, depth: usize) {
    match value {
        Value::Null => {}
        Value::Array(items) if items.is_empty() => line(text, depth, &format!("{key}: none")),
        Value::Array(items) => {
            line(text, depth, &format!("{key}:"));
            items.iter().for_each(|item| entry(text, item, depth + 1));
        }
        Value::Object(fields) => match row(fields) {
            Some(row) if depth > 0 => line(text, depth, &format!("{key}: {row}")),
            _ => {
                line(text, depth, &format!("{key}:"));
                write(text, value, depth + 1);
            }
        },
        other => line(text, depth, &format!("{key}: {}", plain(other))),
    }
}

fn entry(text: &mut String, item: &Value, depth: usize) {
    match item {
        Value::Object(fields) => match row(fields) {
            Some(row) => line(text, depth, &format!("- {row}")),
            None => {
                let parts = fields.iter().filter(|(_, value)| !is_nothing(value));
                let parts: Vec<String> = parts.map(|(key, value)| format!("{key}={}", plain(value))).collect();
                line(text, depth, &format!("- {}", parts.join(" ")));
            }
        },
        other => line(text, depth, &format!("- {}", plain(other))),
    }
}

/// A task as one line.
fn row(fields: &Map<String, Value>) -> Option<String> {
    let word = |key: &str| fields.get(key).and_then(Value::as_str);
    let (reference, title, status) = (word("ref")?, word("title")?, word("status")?);
    let mut row = format!("{reference} [{status}] {} {title}", word("priority").unwrap_or_default());
    if let Some(assignee) = word("assignee_id") {
        let _ = write!(row, " @{assignee}");
    }
    if let Some(id) = word("id") {
        let _ = write!(row, " ({id})");
    }
    Some(row)
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => limit::clip(text, VALUE_BYTES).0,
        other => limit::clip(&other.to_string(), VALUE_BYTES).0,
    }
}

fn line(text: &mut String, depth: usize, words: &str) {
    let _ = writeln!(text, "{:1$}{words}", "", depth * 2);
}

/// A task as a page for people and models.
pub(super) fn task_page(detail: &TaskDetail, lang: Lang) -> String {
    let task = &detail.task;
    let mut page = format!("# {} {}\n\n", task.reference, task.title);
    let _ = writeln!(page, "{} · {} · {}", task.status, task.priority, task.id);
    if !task.description.is_empty() {
        let _ = writeln!(page, "\n{}", task.description);
    }
    let criteria = task.acceptance.iter().map(|one| format!("[{}] {}", if one.done { 'x' } else { ' ' }, one.text));
    list(&mut page, lang.pick("Acceptance", "受け入れ条件"), criteria);
    let contexts = detail.contexts.iter().flatten().map(|one| format!("**{}** {}", one.kind, one.content));
    list(&mut page, lang.pick("Context", "コンテキスト"), contexts);
    let waits =
        detail.dependencies.iter().flatten().map(|one| format!("{} [{}] {}", one.reference, one.status, one.title));
    list(&mut page, lang.pick("Waits for", "前提タスク"), waits);
    if let Some(handoff) = &detail.handoff {
        let _ = writeln!(page, "\n## {} ({})\n\n{}", lang.pick("Handoff", "引き継ぎ"), handoff.status, handoff.summary);
        list(&mut page, lang.pick("Next steps", "次のステップ"), handoff.next_steps.iter().cloned());
        list(&mut page, lang.pick("Warnings", "注意点"), handoff.warnings.iter().cloned());
    }
    page
}

/// A heading with entries under it; nothing at all without entries.
pub(super) fn list(page: &mut String, heading: &str, entries: impl Iterator<Item = String>) {
    for (index, entry) in entries.enumerate() {
        if index == 0 {
            let _ = writeln!(page, "\n## {heading}\n");
        }
        let _ = writeln!(page, "- {entry}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_outline_has_a_line_per_field_and_a_line_per_task() {
        let answer = json!({"changed": true, "reason": null, "tasks": [
            {"id": "tsk_1", "ref": "WEB-1", "title": "Ship", "status": "todo", "priority": "high", "version": 3},
        ], "released": []});
        assert_eq!(outline(&answer), "changed: true\ntasks:\n  - WEB-1 [todo] high Ship (tsk_1)\nreleased: none");
    }

    #[test]
    fn an_outline_never_grows_long() {
        let answer = json!({"events": vec![json!({"text": "x".repeat(500)}); 100]});
        assert!(outline(&answer).len() < OUTLINE_BYTES + 100);
    }
}

//! What people see in a terminal: the board by status, a task as a page, who is at work.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::Deserialize;
use tsugi_pm::action::agent::SessionRow;
use tsugi_pm::action::get_task::TaskDetail;
use tsugi_pm::action::init_project::FirstMember;
use tsugi_pm::action::project::ProjectDetail;
use tsugi_pm::action::sweep::SweepSummary;
use tsugi_pm::action::verify::VerificationReport;
use tsugi_pm::action::view::{ClaimView, TaskRow, TaskView};
use tsugi_pm::domain::context::ContextEntry;
use tsugi_pm::domain::handoff::Handoff;
use tsugi_pm::domain::project::Project;
use tsugi_pm::domain::session::SessionState;
use tsugi_pm::domain::task::{Priority, TaskStatus};
use tsugi_pm::domain::time::Moment;
use tsugi_pm::domain::token::AccessToken;

use crate::output::printable;
use crate::output::style::TextPaint;

/// Now, for how long ago things were.
pub(super) fn now() -> Moment {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Moment(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// A length of time in its largest unit: `42 min`.
pub(super) fn length(seconds: i64) -> String {
    match seconds.max(0) {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} min", seconds / 60),
        seconds @ 3600..172_800 => format!("{} h", seconds / 3600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

fn ago(at: Moment, now: Moment) -> String {
    format!("{} ago", length(now.seconds_since(at)))
}

/// The board: what is under way first, then what could be, then the rest.
pub(super) fn board(tasks: &[TaskRow], paint: TextPaint) -> String {
    const ORDER: [TaskStatus; 7] = [
        TaskStatus::InProgress,
        TaskStatus::Review,
        TaskStatus::Blocked,
        TaskStatus::Todo,
        TaskStatus::Backlog,
        TaskStatus::Done,
        TaskStatus::Cancelled,
    ];
    let sections = ORDER.iter().filter_map(|status| {
        let rows: Vec<&TaskRow> = tasks.iter().filter(|task| task.status == *status).collect();
        (!rows.is_empty()).then(|| section(*status, &rows, paint))
    });
    let text = sections.collect::<Vec<_>>().join("\n\n");
    if text.is_empty() { "no open tasks".to_owned() } else { text }
}

/// What can be started, best first.
pub(super) fn ready(tasks: &[TaskRow], paint: TextPaint) -> String {
    let widest = tasks.iter().map(|row| row.reference.len()).max().unwrap_or(0);
    let lines: Vec<String> = tasks.iter().map(|row| line(row, widest, paint)).collect();
    if lines.is_empty() { "nothing is ready".to_owned() } else { lines.join("\n") }
}

/// How a check of everything went.
pub(super) fn verified(found: &VerificationReport, paint: TextPaint) -> String {
    // The verdict first.
    let head = match found.problems.len() as u64 + found.more_problems {
        0 => paint.good("sound"),
        1 => paint.error("1 problem"),
        many => paint.error(format!("{many} problems")),
    };
    let mut lines = vec![format!("{head}: {} records rebuilt from {} events", found.records, found.events)];
    if found.overdue > 0 {
        lines.push(
            paint.warning(format!("{} held beyond their time; `tsugi pm sweep` brings them back", found.overdue)),
        );
    }
    lines.extend(found.problems.iter().map(|problem| format!("  {}", printable(problem))));
    if found.more_problems > 0 {
        lines.push(paint.faint(format!("  and {} more", found.more_problems)));
    }
    lines.join("\n")
}

/// A project: its rules, its people, and how many tasks stand where.
pub(super) fn project(detail: &ProjectDetail, now: Moment, paint: TextPaint) -> String {
    let project = &detail.project;
    let mut lines = vec![
        format!("{}  {}", paint.hint(&project.key), paint.strong(printable(&project.name))),
        format!("{} · {}", project.status, project.id),
        paint.faint(format!("created {}, changed {}", ago(project.created_at, now), ago(project.updated_at, now))),
    ];
    if !project.description.is_empty() {
        lines.extend([String::new(), printable(&project.description)]);
    }
    // Through JSON, so that a new rule is shown without a change here.
    let rules = serde_json::json!(project.policy);
    let rules = rules.as_object().into_iter().flatten().map(|(name, value)| match value {
        serde_json::Value::Null => format!("{name} = when a person is a member"),
        serde_json::Value::String(word) => format!("{name} = {word}"),
        other => format!("{name} = {other}"),
    });
    part(&mut lines, "rules", rules.collect(), paint);
    let members = detail.members.iter().map(|one| format!("{:<8} {}", one.role.as_str(), one.agent_id));
    part(&mut lines, "people and programs", members.collect(), paint);
    let counts = detail.tasks.iter().map(|(status, count)| format!("{count:>5} {}", status.replace('_', " ")));
    part(&mut lines, "tasks", counts.collect(), paint);
    part(&mut lines, "what is known", detail.contexts.iter().map(|one| context(one, now)).collect(), paint);
    lines.join("\n")
}

fn section(status: TaskStatus, rows: &[&TaskRow], paint: TextPaint) -> String {
    // Aligned within a section only: sections are read one at a time.
    let widest = rows.iter().map(|row| row.reference.len()).max().unwrap_or(0);
    let heading = paint.strong(format!("{} {}", status.as_str().replace('_', " ").to_uppercase(), rows.len()));
    let lines = rows.iter().map(|row| format!("  {}", line(row, widest, paint)));
    std::iter::once(heading).chain(lines).collect::<Vec<_>>().join("\n")
}

fn line(row: &TaskRow, widest: usize, paint: TextPaint) -> String {
    let reference = format!("{:<widest$}", row.reference);
    let title = printable(&row.title).replace('\n', " ");
    let assignee = row.assignee_id.as_ref().map(|agent| format!("  {agent}")).unwrap_or_default();
    let waits = if row.waits_for > 0 { format!("  waits for {}", row.waits_for) } else { String::new() };
    // Faint, because nothing can be done about it now.
    let is_waiting = row.status == TaskStatus::Todo && !row.ready;
    let text = if is_waiting { paint.faint(&title) } else { title };
    format!(
        "{}  {}  {text}{}{}",
        paint.hint(reference),
        priority(row.priority, 8, paint),
        paint.faint(assignee),
        paint.warning(waits)
    )
}

fn priority(priority: Priority, width: usize, paint: TextPaint) -> String {
    let word = format!("{:<width$}", priority.as_str());
    match priority {
        Priority::Critical => paint.error(word),
        Priority::High => paint.warning(word),
        Priority::Medium | Priority::Low => paint.faint(word),
    }
}

/// What came of moving a task, as far as a person wants to see it at once.
#[derive(Deserialize)]
pub(super) struct TaskOutcome {
    task: TaskView,
    claim: Option<ClaimView>,
    handoff: Option<Handoff>,
    #[serde(default)]
    newly_ready: Vec<TaskRow>,
}

/// A moved task in a few lines.
pub(super) fn outcome(outcome: &TaskOutcome, now: Moment, paint: TextPaint) -> String {
    let task = &outcome.task;
    // Who has it now is what the person asked for.
    let whose = task.assignee_id.as_ref().map(|agent| format!(" · {agent}")).unwrap_or_default();
    let mut lines = vec![
        format!("{}  {}", paint.hint(&task.reference), paint.strong(printable(&task.title))),
        format!("{} · {}{whose}", paint.good(state(task)), priority(task.priority, 0, paint)),
    ];
    lines.extend(outcome.claim.as_ref().map(|claim| holder(claim, now)));
    if let Some(one) = &outcome.handoff {
        lines.push(paint.faint(&one.id));
        lines.extend(handoff(one, now).iter().map(|line| format!("  {}", printable(line).replace('\n', "\n  "))));
    }
    let ready = outcome.newly_ready.iter().map(|row| format!("{} {}", row.reference, row.title));
    part(&mut lines, "now ready", ready.collect(), paint);
    lines.join("\n")
}

/// One task with what surrounds it: what must be true, what was decided, who held it.
pub(super) fn task(detail: &TaskDetail, now: Moment, paint: TextPaint) -> String {
    let task = &detail.task;
    let mut lines = vec![
        format!("{}  {}", paint.hint(&task.reference), paint.strong(printable(&task.title))),
        format!("{} · {} · version {}", state(task), priority(task.priority, 0, paint), task.version),
        paint.faint(format!("created {}, changed {}", ago(task.created_at, now), ago(task.updated_at, now))),
    ];
    lines.extend(task.assignee_id.as_ref().map(|agent| format!("assigned to {agent}")));
    lines.extend(detail.claim.as_ref().map(|claim| holder(claim, now)));
    lines.extend(task.blocked_reason.as_ref().map(|reason| format!("blocked: {}", printable(reason))));
    if !task.description.is_empty() {
        lines.extend([String::new(), printable(&task.description)]);
    }
    let criteria = task.acceptance.iter().map(|one| format!("[{}] {}", if one.done { 'x' } else { ' ' }, one.text));
    part(&mut lines, "must be true", criteria.collect(), paint);
    part(&mut lines, "result", task.result.iter().map(|result| result.summary.clone()).collect(), paint);
    let rows = |rows: &Option<Vec<TaskRow>>| -> Vec<String> {
        rows.iter().flatten().map(|row| format!("{} {} ({})", row.reference, row.title, row.status)).collect()
    };
    part(&mut lines, "waits for", rows(&detail.dependencies), paint);
    part(&mut lines, "others wait for it", rows(&detail.dependents), paint);
    part(&mut lines, "handoff", detail.handoff.iter().flat_map(|one| handoff(one, now)).collect(), paint);
    let contexts = detail.contexts.iter().flatten().map(|one| context(one, now)).collect();
    part(&mut lines, "what is known", contexts, paint);
    // The current holder is shown above.
    let live = detail.claim.as_ref().map(|claim| &claim.id);
    let claims = detail.claim_history.iter().filter(|claim| Some(&claim.id) != live);
    let claims = claims.map(|one| format!("{} (fence {}, {})", one.agent_id, one.fence, ago(one.acquired_at, now)));
    part(&mut lines, "held before by", claims.collect(), paint);
    lines.join("\n")
}

fn state(task: &TaskView) -> String {
    match (task.status, task.ready) {
        (TaskStatus::Todo, true) => "todo, ready".to_owned(),
        (TaskStatus::Todo, false) if task.waits_for > 0 => format!("todo, waits for {}", task.waits_for),
        (status, _) => status.as_str().replace('_', " "),
    }
}

fn holder(claim: &ClaimView, now: Moment) -> String {
    let left = length(claim.expires_at.seconds_since(now));
    let held = length(now.seconds_since(claim.acquired_at));
    format!("held by {} for {held}, lease {left} (fence {})", claim.agent_id, claim.fence)
}

fn handoff(handoff: &Handoff, now: Moment) -> Vec<String> {
    let to = handoff.to_agent_id.as_ref().map_or("any agent", |agent| agent.as_str());
    let from = &handoff.from_agent_id;
    let head = format!("{} from {from} to {to}, {}: {}", handoff.status, ago(handoff.created_at, now), handoff.summary);
    let next = handoff.next_steps.iter().map(|step| format!("next: {step}"));
    let warnings = handoff.warnings.iter().map(|warning| format!("mind: {warning}"));
    std::iter::once(head).chain(next).chain(warnings).collect()
}

fn context(context: &ContextEntry, now: Moment) -> String {
    format!("{} by {}, {}: {}", context.kind, context.agent_id, ago(context.created_at, now), context.content)
}

/// A part with a heading; nothing when there is nothing to say.
fn part(lines: &mut Vec<String>, heading: &str, items: Vec<String>, paint: TextPaint) {
    if items.is_empty() {
        return;
    }
    lines.extend([String::new(), paint.strong(heading)]);
    lines.extend(items.iter().map(|item| format!("  {}", printable(item).replace('\n', "\n  "))));
}

/// A project that was just made.
pub(super) fn founded(project: &Project, members: &[FirstMember], paint: TextPaint) -> String {
    let mut lines = vec![
        format!("{}  {}", paint.hint(&project.key), paint.strong(printable(&project.name))),
        paint.faint(&project.id),
    ];
    let people = members.iter().map(|one| format!("{:<8} {}", one.role.as_str(), one.agent_id));
    part(&mut lines, "people and programs", people.collect(), paint);
    lines.join("\n")
}

/// What a sweep brought back.
pub(super) fn swept(swept: &SweepSummary) -> String {
    let counts = serde_json::json!(swept);
    // Zeros say nothing.
    let counts = counts.as_object().into_iter().flatten().filter(|(_, count)| count.as_u64() != Some(0));
    let told: Vec<String> = counts.map(|(what, count)| format!("{count} {}", what.replace('_', " "))).collect();
    if told.is_empty() { "nothing to release".to_owned() } else { told.join("\n") }
}

/// Tokens, by when they were made.
pub(super) fn tokens(tokens: &[AccessToken], now: Moment, paint: TextPaint) -> String {
    if tokens.is_empty() {
        return "there are no tokens".to_owned();
    }
    let lines = tokens.iter().map(|token| {
        let state = match (token.revoked_at, token.expires_at) {
            (Some(at), _) => paint.faint(format!("revoked {}", ago(at, now))),
            (None, Some(at)) if at <= now => paint.faint(format!("expired {}", ago(at, now))),
            (None, Some(at)) => format!("for {} more", length(at.seconds_since(now))),
            (None, None) => "for ever".to_owned(),
        };
        format!("{}  {}  made {}, {state}", token.id, paint.hint(&token.agent_id), ago(token.created_at, now))
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Who is at work, what they hold, and how long their leases last.
pub(super) fn who(sessions: &[SessionRow], now: Moment, paint: TextPaint) -> String {
    if sessions.is_empty() {
        return "no active sessions".to_owned();
    }
    sessions.iter().map(|row| at_work(row, now, paint)).collect::<Vec<_>>().join("\n")
}

fn at_work(row: &SessionRow, now: Moment, paint: TextPaint) -> String {
    let session = &row.session;
    let mark = match session.state {
        SessionState::Active => paint.good("active"),
        other => paint.warning(other.as_str()),
    };
    // Names come from clients, so control characters are removed.
    let client = session.client_name.as_deref().map(|name| format!(" with {}", printable(name))).unwrap_or_default();
    let head = format!(
        "{}  {mark}{client}  {}",
        paint.strong(&session.agent_id),
        paint.faint(format!("{}, last call {}", session.id, ago(session.last_activity_at, now)))
    );
    let tasks = row.tasks.iter().zip(&row.claims).map(|(task, claim)| {
        let left = claim.expires_at.seconds_since(now);
        let lease = format!("lease {}", length(left));
        // A lease that ends within five minutes is worth a look.
        let lease = if left < 300 { paint.warning(lease) } else { paint.faint(lease) };
        format!("  {}  {}  {lease}", paint.hint(&task.reference), printable(&task.title))
    });
    let checkpoint = row.checkpoint.iter().map(|text| format!("  {}", printable(text).replace('\n', " ")));
    std::iter::once(head).chain(tasks).chain(checkpoint).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(text: &str) -> TaskRow {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn the_board_says_what_is_under_way_first_and_what_waits() {
        let rows = [
            row(
                r#"{"id":"tsk_1","ref":"WEB-1","title":"a","status":"todo","priority":"high","ready":true,"updated_at":0,"version":1}"#,
            ),
            row(
                r#"{"id":"tsk_2","ref":"WEB-12","title":"b\u001b[2J","status":"todo","priority":"low","ready":false,"waits_for":2,"updated_at":0,"version":1}"#,
            ),
            row(
                r#"{"id":"tsk_3","ref":"WEB-3","title":"c","status":"in_progress","priority":"medium","ready":false,"assignee_id":"agt_a","updated_at":0,"version":1}"#,
            ),
        ];
        let expected = "IN PROGRESS 1\n  WEB-3  medium    c  agt_a\n\nTODO 2\n  WEB-1   high      a\n  \
                        WEB-12  low       b\u{fffd}[2J  waits for 2";
        assert_eq!(board(&rows, TextPaint::new(false)), expected);
        assert_eq!(board(&[], TextPaint::new(false)), "no open tasks");
    }

    #[test]
    fn what_came_of_a_move_is_told_in_a_few_lines() {
        let moved: TaskOutcome = serde_json::from_str(
            r#"{"task":{"id":"tsk_1","ref":"WEB-1","project_id":"prj_1","number":1,"title":"Sell shoes","status":"in_progress",
                "ready":false,"priority":"high","assignee_id":"agt_a","fence":1,"version":2,"created_at":0,"updated_at":0},
                "claim":{"id":"clm_1","task_id":"tsk_1","session_id":"ses_1","agent_id":"agt_a","fence":1,"acquired_at":0,
                "expires_at":3600000,"deadline_at":86400000}}"#,
        )
        .unwrap();
        let expected = "WEB-1  Sell shoes\nin progress · high · agt_a\nheld by agt_a for 0 s, lease 1 h (fence 1)";
        assert_eq!(outcome(&moved, Moment(0), TextPaint::new(false)), expected);
    }

    #[test]
    fn tokens_and_sweeps_are_told_in_words_and_times() {
        let token = |more: &str| -> AccessToken {
            let text = format!(
                r#"{{"id":"tok_1","agent_id":"agt_a","hash":"","scopes":[],"created_at":0,"version":1,
                    "expires_at":null,"revoked_at":null{more}}}"#
            );
            serde_json::from_str(&text.replace(r#""expires_at":null,"revoked_at":null,"#, "")).unwrap()
        };
        let made = [
            token(""),
            token(r#","expires_at":120000,"revoked_at":null"#),
            token(r#","expires_at":null,"revoked_at":30000"#),
        ];
        let told = tokens(&made, Moment(60_000), TextPaint::new(false));
        let ends = ["for ever", "for 1 min more", "revoked 30 s ago"];
        let wanted = ends.map(|end| format!("tok_1  agt_a  made 1 min ago, {end}")).join("\n");
        assert_eq!(told, wanted);
        assert_eq!(tokens(&[], Moment(0), TextPaint::new(false)), "there are no tokens");
        assert_eq!(swept(&SweepSummary { expired_claims: 2, ..SweepSummary::default() }), "2 expired claims");
        assert_eq!(swept(&SweepSummary::default()), "nothing to release");
    }

    #[test]
    fn lengths_are_told_in_their_largest_unit() {
        let told = [-5, 59, 60, 3599, 3600, 172_799, 172_800].map(length);
        assert_eq!(told, ["0 s", "59 s", "1 min", "59 min", "1 h", "47 h", "2 d"]);
    }
}

//! `tsugi pm doctor`: whether the database is well, and what to do where it is not.

use serde::Serialize;
use tsugi_pm::action::health::Health;

use super::{Desk, Place, told};
use crate::app::App;
use crate::failure::Failure;
use crate::output::Form;
use crate::report::exit::Exit;

/// A write-ahead log of this size is not kept small any more: somebody reads without end.
const LARGE_LOG: u64 = 256 << 20;

#[derive(Debug, clap::Args)]
pub(super) struct Doctor {
    #[command(flatten)]
    place: Place,
    /// Put right what can be put right safely: bring back what vanished agents held
    #[arg(long)]
    fix: bool,
}

/// How a part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Ok,
    Note,
    Wrong,
}

/// One thing that was looked at.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Finding {
    state: State,
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'static str>,
}

pub(super) async fn doctor(app: &App, order: &Doctor) -> Result<Exit, Failure> {
    let desk = Desk::open(app, &order.place).await?;
    let mut health = desk.pm.health().await.map_err(|fault| told(app, &fault))?;
    // A sweep does a bounded amount at a time.
    while order.fix && health.wants_sweep() {
        let swept = desk.pm.sweep().await.map_err(|fault| told(app, &fault))?;
        health = desk.pm.health().await.map_err(|fault| told(app, &fault))?;
        if swept == Default::default() {
            break;
        }
    }
    let findings = findings(&health);
    let is_well = findings.iter().all(|one| one.state != State::Wrong);
    match app.output.form() {
        Form::Json => app.output.json(&serde_json::json!({"ok": is_well, "health": health, "findings": findings}))?,
        Form::Text => tell(app, &findings)?,
    }
    Ok(if is_well { Exit::Success } else { Exit::Failed })
}

fn tell(app: &App, findings: &[Finding]) -> Result<(), Failure> {
    for finding in findings {
        let mark = match finding.state {
            State::Ok => "ok  ",
            State::Note => "note",
            State::Wrong => "bad ",
        };
        app.output.data(&format!("{mark}  {}", finding.text))?;
        if let Some(hint) = finding.hint {
            app.output.data(&format!("      try: {hint}"))?;
        }
    }
    Ok(())
}

fn findings(health: &Health) -> Vec<Finding> {
    [engine(health), schema(health), soundness(health), log_size(health)]
        .into_iter()
        .chain([places(health), work(health), sessions(health), claims(health), handoffs(health)])
        .flatten()
        .collect()
}

fn ok(text: String) -> Vec<Finding> {
    vec![Finding { state: State::Ok, text, hint: None }]
}

fn unless(is_well: bool, state: State, text: String, hint: &'static str) -> Option<Finding> {
    (!is_well).then_some(Finding { state, text, hint: Some(hint) })
}

fn engine(health: &Health) -> Vec<Finding> {
    ok(format!("the database answers: {}, {} KiB", health.engine, health.bytes / 1024))
}

fn schema(health: &Health) -> Vec<Finding> {
    ok(format!("schema {} of {}", health.schema, health.schema_known))
}

fn soundness(health: &Health) -> Vec<Finding> {
    if health.complaints.is_empty() {
        return ok("the engine finds it sound".to_owned());
    }
    let hint = "copy the file, then `tsugi pm export` from the copy and `tsugi pm import` into a new one";
    let bad =
        |text: &String| Finding { state: State::Wrong, text: format!("the engine says: {text}"), hint: Some(hint) };
    health.complaints.iter().map(bad).collect()
}

fn log_size(health: &Health) -> Vec<Finding> {
    let text = format!("the write-ahead log has {} MiB", health.log_bytes >> 20);
    unless(health.log_bytes < LARGE_LOG, State::Note, text, "end programs that read the file without end")
        .into_iter()
        .collect()
}

fn places(health: &Health) -> Vec<Finding> {
    let mut found = ok(format!("{} projects, {} agents", health.projects, health.agents));
    found.extend(unless(
        health.projects > 0,
        State::Note,
        "there is no project yet".to_owned(),
        "tsugi pm init --project WEB \"Web shop\" --agent agt_a:worker",
    ));
    found.extend(unless(
        health.projects_without_manager == 0,
        State::Note,
        format!("nobody manages {} projects but whoever has the database in hand", health.projects_without_manager),
        "tsugi pm agent add agt_b --project KEY --role manager",
    ));
    found.extend(unless(
        health.agents_without_place == 0,
        State::Note,
        format!("{} agents belong to no project and see nothing", health.agents_without_place),
        "tsugi pm agent add ID --project KEY --role worker",
    ));
    found
}

fn work(health: &Health) -> Vec<Finding> {
    let mut found = ok(format!("{} open tasks, {} of them in review", health.open_tasks, health.tasks_in_review));
    found.extend(unless(
        health.tasks_behind_cancelled == 0,
        State::Note,
        format!("{} tasks wait for one that was cancelled", health.tasks_behind_cancelled),
        "somebody must decide: take the dependency out, or cancel them too",
    ));
    found
}

fn sessions(health: &Health) -> Vec<Finding> {
    let text = format!("{} sessions at work, {} disconnected", health.active_sessions, health.disconnected_sessions);
    let mut found = ok(text);
    found.extend(unless(
        health.silent_sessions == 0,
        State::Note,
        format!("{} sessions have been silent too long", health.silent_sessions),
        "tsugi pm doctor --fix; any working agent does the same in passing",
    ));
    found
}

fn claims(health: &Health) -> Vec<Finding> {
    let mut found = ok(format!("{} tasks are held", health.live_claims));
    found.extend(unless(
        health.expired_claims == 0,
        State::Note,
        format!("{} leases have run out", health.expired_claims),
        "tsugi pm doctor --fix; any working agent does the same in passing",
    ));
    found
}

fn handoffs(health: &Health) -> Vec<Finding> {
    let mut found = ok(format!("{} handoffs wait", health.pending_handoffs));
    found.extend(unless(
        health.expired_handoffs == 0,
        State::Note,
        format!("{} handoffs were not taken in time", health.expired_handoffs),
        "tsugi pm doctor --fix",
    ));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn states(health: &Health) -> Vec<State> {
        findings(health).into_iter().map(|one| one.state).collect()
    }

    #[test]
    fn a_well_database_has_nothing_to_do_and_every_other_state_says_what() {
        let well = Health { projects: 1, ..Health::default() };
        assert!(states(&well).iter().all(|state| *state == State::Ok));
        let unwell = [
            Health::default(),
            Health { projects_without_manager: 1, ..well.clone() },
            Health { agents_without_place: 1, ..well.clone() },
            Health { tasks_behind_cancelled: 1, ..well.clone() },
            Health { silent_sessions: 1, ..well.clone() },
            Health { expired_claims: 1, ..well.clone() },
            Health { expired_handoffs: 1, ..well.clone() },
            Health { log_bytes: LARGE_LOG, ..well.clone() },
        ];
        for health in unwell {
            assert_eq!(states(&health).iter().filter(|state| **state == State::Note).count(), 1, "{health:?}");
            assert!(findings(&health).iter().all(|one| one.state == State::Ok || one.hint.is_some()));
        }
        let broken = Health { complaints: vec!["page 3 is never used".to_owned()], ..well };
        assert!(states(&broken).contains(&State::Wrong));
    }
}

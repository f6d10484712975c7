//! `tsugi pm doctor`: checks the database and says what to do about each problem.

use serde::Serialize;
use tsugi_pm::action::health::HealthReport;

use super::{PmConsole, PmTarget, told};
use crate::app::App;
use crate::failure::CommandFailure;
use crate::output::OutputFormat;
use crate::report::exit::CommandExit;

/// A write-ahead log of this size is no longer checkpointed: a reader never ends its transaction.
const LARGE_LOG: u64 = 256 << 20;

const BEGIN: &str = "tsugi pm init --project WEB \"Web shop\" --agent agt_a:worker";
const MANAGER: &str = "tsugi pm agent add agt_b --project KEY --role manager";
const PLACE: &str = "tsugi pm agent add ID --project KEY --role worker";
const DECIDE: &str = "decide: remove the dependency, or cancel these tasks too";
const SWEEP: &str = "tsugi pm doctor --fix; working agents also do this from time to time";
const CLOCK: &str = "set the clock right; until it has caught up, time goes on from the newest event";
const AHEAD: &str = "set that process's clock right; what it writes is dated by the time that has passed since boot";
const RESCUE: &str = "copy the file, then `tsugi pm export` from the copy and `tsugi pm import` into a new one";

#[derive(Debug, clap::Args)]
pub(super) struct PmDoctorArgs {
    #[command(flatten)]
    place: PmTarget,
    /// Repair what is safe to repair: release what vanished agents held
    #[arg(long)]
    fix: bool,
}

/// How a part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum FindingState {
    Ok,
    Note,
    Wrong,
}

/// One thing that was looked at.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct PmFinding {
    state: FindingState,
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'static str>,
}

pub(super) async fn doctor(app: &App, order: &PmDoctorArgs) -> Result<CommandExit, CommandFailure> {
    let console = PmConsole::open(app, &order.place).await?;
    let mut health = console.pm.health().await.map_err(|fault| told(app, &fault))?;
    // A sweep does a bounded amount at a time.
    while order.fix && health.wants_sweep() {
        let swept = console.pm.sweep().await.map_err(|fault| told(app, &fault))?;
        health = console.pm.health().await.map_err(|fault| told(app, &fault))?;
        // Nothing left that a sweep could release, whatever the counts say.
        if swept == Default::default() {
            break;
        }
    }
    let findings = findings(&health);
    // Notes do not fail the check: most pass by themselves.
    let is_well = findings.iter().all(|one| one.state != FindingState::Wrong);
    match app.output.form() {
        OutputFormat::Json => {
            app.output.json(&serde_json::json!({"ok": is_well, "health": health, "findings": findings}))?
        }
        OutputFormat::Text => tell(app, &findings)?,
    }
    Ok(if is_well { CommandExit::Success } else { CommandExit::Failed })
}

fn tell(app: &App, findings: &[PmFinding]) -> Result<(), CommandFailure> {
    for finding in findings {
        // Words, not colours alone: output is often piped.
        let mark = match finding.state {
            FindingState::Ok => "ok  ",
            FindingState::Note => "note",
            FindingState::Wrong => "bad ",
        };
        app.output.data(&format!("{mark}  {}", finding.text))?;
        if let Some(hint) = finding.hint {
            app.output.data(&format!("      try: {hint}"))?;
        }
    }
    Ok(())
}

/// One line for each part that is well, followed by its problems.
fn findings(health: &HealthReport) -> Vec<PmFinding> {
    let parts = [
        ok(format!("the database answers: {}, {} KiB", health.engine, health.bytes / 1024)),
        ok(format!("schema {} of {}", health.schema, health.schema_known)),
        ok("the engine finds it sound".to_owned()).filter(|_| health.complaints.is_empty()),
        large_log(health),
        ok(format!("{}, {}", count(health.projects, "project"), count(health.agents, "agent"))),
        no_project(health),
        note(health.projects_without_manager, "project", "without a manager", MANAGER),
        note(health.agents_without_place, "agent", "without a membership in any project", PLACE),
        ok(format!("{}, {} in review", count(health.open_tasks, "open task"), health.tasks_in_review)),
        note(health.tasks_behind_cancelled, "task", "waiting for one that was cancelled", DECIDE),
        ok(format!("{} at work, {} gone", count(health.active_sessions, "session"), health.disconnected_sessions)),
        note(health.silent_sessions, "session", "silent for too long", SWEEP),
        ok(format!("{} held", count(health.live_claims, "task"))),
        note(health.expired_claims, "lease", "that has run out", SWEEP),
        ok(format!("{} waiting", count(health.pending_handoffs, "handoff"))),
        note(health.expired_handoffs, "handoff", "not taken in time", SWEEP),
        note(health.ahead_s, "second", "between the clock and the newest event, which is ahead of it", CLOCK),
    ];
    complaints(health).chain(parts.into_iter().flatten()).chain(clocks(health)).collect()
}

fn ok(text: String) -> Option<PmFinding> {
    Some(PmFinding { state: FindingState::Ok, text, hint: None })
}

/// Some of these, in whichever number they are.
fn count(number: i64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Something that is there and should not be.
fn note(number: i64, noun: &str, how: &str, hint: &'static str) -> Option<PmFinding> {
    let text = format!("{} {how}", count(number, noun));
    (number > 0).then_some(PmFinding { state: FindingState::Note, text, hint: Some(hint) })
}

fn no_project(health: &HealthReport) -> Option<PmFinding> {
    let text = "there is no project yet".to_owned();
    (health.projects == 0).then_some(PmFinding { state: FindingState::Note, text, hint: Some(BEGIN) })
}

fn large_log(health: &HealthReport) -> Option<PmFinding> {
    let text = format!("the write-ahead log has {} MiB", health.log_bytes >> 20);
    let hint = Some("end programs that keep a read transaction open");
    (health.log_bytes >= LARGE_LOG).then_some(PmFinding { state: FindingState::Note, text, hint })
}

/// The processes whose clock is wrong, each by its name.
fn clocks(health: &HealthReport) -> impl Iterator<Item = PmFinding> {
    health.clocks_ahead.iter().map(|clock| PmFinding {
        state: FindingState::Note,
        text: format!(
            "the clock of process {} on {} was {} s ahead and is not followed",
            clock.pid, clock.host, clock.ahead_s
        ),
        hint: Some(AHEAD),
    })
}

fn complaints(health: &HealthReport) -> impl Iterator<Item = PmFinding> {
    health.complaints.iter().map(|text| PmFinding {
        state: FindingState::Wrong,
        text: format!("the engine says: {text}"),
        hint: Some(RESCUE),
    })
}

#[cfg(test)]
mod tests {
    use tsugi_pm::action::health::ProcessClock;
    use tsugi_pm::domain::time::Moment;

    use super::*;

    fn states(health: &HealthReport) -> Vec<FindingState> {
        findings(health).into_iter().map(|one| one.state).collect()
    }

    fn clock_ahead() -> ProcessClock {
        ProcessClock { host: "web1".to_owned(), pid: 4711, ahead_s: 7200, seen_at: Moment(0) }
    }

    #[test]
    fn a_process_whose_clock_is_ahead_is_named() {
        let health = HealthReport { projects: 1, clocks_ahead: vec![clock_ahead()], ..HealthReport::default() };
        let named = findings(&health).into_iter().find(|one| one.state == FindingState::Note).unwrap();
        assert_eq!(named.text, "the clock of process 4711 on web1 was 7200 s ahead and is not followed");
    }

    #[test]
    fn a_well_database_has_nothing_to_do_and_every_other_state_says_what() {
        let well = HealthReport { projects: 1, ..HealthReport::default() };
        assert!(states(&well).iter().all(|state| *state == FindingState::Ok));
        let unwell = [
            HealthReport::default(),
            HealthReport { projects_without_manager: 1, ..well.clone() },
            HealthReport { agents_without_place: 1, ..well.clone() },
            HealthReport { tasks_behind_cancelled: 1, ..well.clone() },
            HealthReport { silent_sessions: 1, ..well.clone() },
            HealthReport { expired_claims: 1, ..well.clone() },
            HealthReport { expired_handoffs: 1, ..well.clone() },
            HealthReport { ahead_s: 5, ..well.clone() },
            HealthReport { clocks_ahead: vec![clock_ahead()], ..well.clone() },
            HealthReport { log_bytes: LARGE_LOG, ..well.clone() },
        ];
        for health in unwell {
            assert_eq!(states(&health).iter().filter(|state| **state == FindingState::Note).count(), 1, "{health:?}");
            assert!(findings(&health).iter().all(|one| one.state == FindingState::Ok || one.hint.is_some()));
        }
        let broken = HealthReport { complaints: vec!["page 3 is never used".to_owned()], ..well };
        assert!(states(&broken).contains(&FindingState::Wrong));
    }
}

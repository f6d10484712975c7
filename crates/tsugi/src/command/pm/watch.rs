//! `tsugi pm watch`: prints events as they happen, until it is stopped.

use tsugi_pm::action::get_task::{GetTask, Section};
use tsugi_pm::action::project::GetProject;
use tsugi_pm::action::view::TaskView;
use tsugi_pm::domain::event::HistoryEvent;
use tsugi_pm::domain::id::{TaskId, TaskRef};
use tsugi_pm::domain::time::Moment;

use super::{PmConsole, PmTarget, told};
use crate::app::App;
use crate::command::serve::signals::ServiceSignals;
use crate::failure::CommandFailure;
use crate::output::OutputFormat;
use crate::report::exit::CommandExit;

#[derive(Debug, clap::Args)]
pub(super) struct PmWatchArgs {
    #[command(flatten)]
    place: PmTarget,
    /// Only this project: its key or id
    #[arg(long, value_name = "KEY")]
    project: Option<String>,
    /// Begin after this number instead of now; 0 tells everything
    #[arg(long, value_name = "SEQ")]
    since: Option<i64>,
}

pub(super) async fn watch(app: &App, order: &PmWatchArgs) -> Result<CommandExit, CommandFailure> {
    let mut signals = ServiceSignals::listen()?;
    let console = PmConsole::open(app, &order.place).await?;
    let since = match order.since {
        Some(since) => since,
        None => console.pm.last_seq().await.map_err(|fault| told(app, &fault))?,
    };
    let mut feed = console.pm.subscribe(since);
    if let Some(project_id) = console.project_if_named(order.project.as_deref()).await? {
        feed = feed.of_project(console.perform(GetProject { project_id }).await?.project.id);
    }
    if app.output.is_data_watched() && app.output.form() == OutputFormat::Text {
        app.output.message(|paint| paint.faint("watching; Ctrl-C ends it"));
    }
    loop {
        let event = tokio::select! {
            event = feed.next() => event.map_err(|fault| told(app, &fault))?,
            // A terminal that went away has no one to read it either.
            _ = signals.next() => return Ok(CommandExit::Success),
        };
        if console.pm.may_see(&console.caller, &event).await {
            console.tell(&event).await?;
        }
    }
}

impl PmConsole<'_> {
    async fn tell(&self, event: &HistoryEvent) -> Result<(), CommandFailure> {
        if self.app.output.form() == OutputFormat::Json {
            let line = serde_json::to_string(event).map_err(std::io::Error::other)?;
            return Ok(self.app.output.data(&line)?);
        }
        let thing = match event.task() {
            Some(task) => self.task_name(&task).await,
            None => event.entity_id.clone(),
        };
        let who = event.actor_agent_id.as_ref().map_or("tsugi", |agent| agent.as_str());
        let why = event.reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
        let text = format!("{} {:<20} {who:<16} {thing}{why}", time_of_day(event.at), event.kind.as_str());
        Ok(self.app.output.data(text.lines().collect::<Vec<_>>().join(" ").as_str())?)
    }

    /// `KEY-n` and the title; the id where the task cannot be read.
    async fn task_name(&self, task: &TaskId) -> String {
        match self.task(task).await {
            Some(found) => format!("{} {}", found.reference, found.title),
            None => task.to_string(),
        }
    }

    /// `KEY-n`, where the task can be read.
    pub(super) async fn reference(&self, task: &TaskId) -> Option<String> {
        self.task(task).await.map(|found| found.reference)
    }

    async fn task(&self, task: &TaskId) -> Option<TaskView> {
        let wish = GetTask { task_id: TaskRef::Id(task.clone()), include: vec![Section::Acceptance], max_bytes: None };
        self.pm.perform(&self.caller, wish).await.ok().map(|found| found.task)
    }
}

/// `12:34:56`, in UTC as all times here.
fn time_of_day(moment: Moment) -> String {
    let seconds = moment.0.div_euclid(1000).rem_euclid(86_400);
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_day_is_that_of_utc() {
        assert_eq!(time_of_day(Moment(1_800_000_000_000)), "08:00:00");
        assert_eq!(time_of_day(Moment(59_999)), "00:00:59");
    }
}

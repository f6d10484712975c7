//! The verbs that look for what was: log and search. People call a task by its number, so both do.

use std::collections::BTreeMap;

use serde_json::json;
use tsugi_pm::action::board::timeline::{GetTimeline, TimelineView};
use tsugi_pm::action::search::{self, GetHistory, SearchMatch};
use tsugi_pm::domain::event::HistoryEvent;
use tsugi_pm::domain::fault::PmFault;
use tsugi_pm::domain::id::{AgentId, TaskId, TaskRef};

use super::{PmConsole, PmTarget, layout, named, told};
use crate::app::App;
use crate::failure::CommandFailure;
use crate::output::OutputFormat;
use crate::output::table::TextTable;

#[derive(Debug, clap::Args)]
pub(super) struct PmLogArgs {
    #[command(flatten)]
    place: PmTarget,
    /// Of one task, with its holds, handoffs and contexts; or of any other thing by its id
    thing: Option<String>,
    /// Of one project: its key or id
    #[arg(long, value_name = "KEY")]
    project: Option<String>,
    /// Only what this agent did
    #[arg(long, value_name = "ID")]
    by: Option<String>,
    /// Only this kind of thing, such as handoff, or of event, such as task.claimed
    #[arg(long)]
    kind: Option<String>,
    /// After this number, from there on; without it the newest
    #[arg(long, value_name = "SEQ")]
    since: Option<i64>,
    /// How many at most
    #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = clap::value_parser!(i64).range(1..=500))]
    limit: i64,
}

pub(super) async fn log(app: &App, order: PmLogArgs) -> Result<(), CommandFailure> {
    let console = PmConsole::open(app, &order.place).await?;
    let mut story = story_of(app, &console, &order).await?;
    if order.since.is_none() {
        // The newest were asked for; they are told in the order in which they happened.
        story.events.reverse();
    }
    if app.output.form() == OutputFormat::Json {
        return Ok(app.output.json(&story)?);
    }
    let mut table = TextTable::new(["seq", "when", "what", "thing", "who", "why"]);
    let (now, owners) = (layout::now(), owners(&story.events));
    for event in &story.events {
        let who = event.actor_agent_id.as_ref().map_or("tsugi", |agent| agent.as_str()).to_owned();
        let when = format!("{} ago", layout::length(now.seconds_since(event.at)));
        let why = event.reason.clone().unwrap_or_default();
        table.row([event.seq.to_string(), when, event.kind.to_string(), thing(event, &story, &owners), who, why]);
    }
    Ok(app.output.table(&table)?)
}

async fn story_of(app: &App, console: &PmConsole<'_>, order: &PmLogArgs) -> Result<TimelineView, CommandFailure> {
    let project_id = console.project_if_named(order.project.as_deref()).await?;
    // A task has its own timeline, with its claims and handoffs.
    let task_id = order.thing.as_deref().and_then(|thing| TaskRef::parse(thing).ok());
    if let Some(thing) = order.thing.as_ref().filter(|_| task_id.is_none()) {
        // From a number on, oldest first; otherwise the newest.
        let (newest, since_seq) = (order.since.is_none(), order.since);
        let entity_id = Some(thing.clone());
        let wish =
            GetHistory { entity_id, newest, since_seq, limit: Some(order.limit.min(200)), ..GetHistory::default() };
        let events = console.perform(wish).await?.events;
        if events.is_empty() && order.since.is_none() {
            return Err(told(app, &PmFault::not_found("task or other thing with a history", thing)));
        }
        return Ok(TimelineView { events, has_more: false, tasks: Default::default() });
    }
    let wish = GetTimeline {
        project_id,
        agent_id: named(app, order.by.as_deref().map(AgentId::parse).transpose())?,
        task_id,
        kind: order.kind.clone(),
        before_seq: None,
        since_seq: order.since,
        full: false,
        limit: Some(order.limit),
    };
    console.perform(wish).await
}

/// Which task each thing belongs to, as far as the events say: only the first of a claim or handoff names its task.
fn owners(events: &[HistoryEvent]) -> BTreeMap<&str, TaskId> {
    events.iter().filter_map(|event| Some((event.entity_id.as_str(), event.task()?))).collect()
}

/// What an event is about: the task by its number and title, anything else by its id.
fn thing(event: &HistoryEvent, story: &TimelineView, owners: &BTreeMap<&str, TaskId>) -> String {
    match owners.get(event.entity_id.as_str()).and_then(|task| story.tasks.get(task)) {
        Some(task) => format!("{} {}", task.reference, task.title),
        None => event.entity_id.clone(),
    }
}

#[derive(Debug, clap::Args)]
pub(super) struct PmSearchArgs {
    #[command(flatten)]
    place: PmTarget,
    /// The words; the last may be unfinished
    query: String,
    /// Only in this project: its key or id
    #[arg(long, value_name = "KEY")]
    project: Option<String>,
    /// How many at most
    #[arg(long, value_name = "COUNT", default_value_t = 20, value_parser = clap::value_parser!(u8).range(1..=100))]
    limit: u8,
}

pub(super) async fn search(app: &App, order: PmSearchArgs) -> Result<(), CommandFailure> {
    let console = PmConsole::open(app, &order.place).await?;
    let project_id = console.project_if_named(order.project.as_deref()).await?;
    // One more than is shown tells whether there is more.
    let limit = Some(i64::from(order.limit) + 1);
    let mut hits =
        console.perform(search::SearchRecords { query: order.query, project_id, kinds: Vec::new(), limit }).await?.hits;
    let has_more = hits.len() > usize::from(order.limit);
    hits.truncate(usize::from(order.limit));
    if app.output.form() == OutputFormat::Json {
        return Ok(app.output.json(&json!({"hits": hits, "has_more": has_more}))?);
    }
    if hits.is_empty() {
        app.output.message(|_| "nothing was found".to_owned());
        return Ok(());
    }
    let mut table = TextTable::new(["kind", "id", "title", "where"]);
    for hit in hits {
        table.row([hit.kind.clone(), console.number_of(&hit).await, hit.title, hit.snippet]);
    }
    app.output.table(&table)?;
    if has_more {
        app.output.message(|_| format!("these are the best {}; --limit shows more", order.limit));
    }
    Ok(())
}

impl PmConsole<'_> {
    /// `KEY-n` for a task, the id for anything else.
    async fn number_of(&self, hit: &SearchMatch) -> String {
        match TaskId::parse(&hit.reference) {
            Ok(task) => self.reference(&task).await.unwrap_or_else(|| hit.reference.clone()),
            Err(_) => hit.reference.clone(),
        }
    }
}

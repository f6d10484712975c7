//! The history as people look for things in it: by who, by task and by kind.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::super::action_context::ActionContext;
use super::super::search::short_event;
use super::super::{Action, ActionEffect};
use crate::domain::event::HistoryEvent;
use crate::domain::fault::PmFault;
use crate::domain::id::{AgentId, ProjectRef, TaskId, TaskRef};
use crate::domain::limit;
use crate::store::tx::TimelineFilter;

/// Events unless asked for more, and at most.
const EVENTS: i64 = 100;
const MOST_EVENTS: i64 = 500;

/// The history of a project.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetTimeline {
    /// Which project; all that the caller can see when unset.
    pub project_id: Option<ProjectRef>,
    /// Only what this agent did.
    pub agent_id: Option<AgentId>,
    /// Only what is about this task: also its holds, handoffs, contexts and dependencies.
    pub task_id: Option<TaskRef>,
    /// Only this kind of thing (`handoff`), or this kind of event (`task.claimed`).
    pub kind: Option<String>,
    /// Newest first, before this number.
    pub before_seq: Option<i64>,
    /// Oldest first, after this number; newest first when unset.
    pub since_seq: Option<i64>,
    /// Values in full, however long.
    #[serde(default)]
    pub full: bool,
    pub limit: Option<i64>,
}

/// A part of the history.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TimelineView {
    pub events: Vec<HistoryEvent>,
    /// Whether there are more that way.
    pub has_more: bool,
    /// The tasks that they are about, by id.
    #[serde(default)]
    pub tasks: BTreeMap<TaskId, NamedEvent>,
}

/// How people call a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NamedEvent {
    /// `KEY-n`.
    #[serde(rename = "ref")]
    pub reference: String,
    pub title: String,
}

impl Action for GetTimeline {
    const NAME: &'static str = "get_timeline";
    const EFFECT: ActionEffect = ActionEffect::Read;
    type Output = TimelineView;

    fn run(&self, context: &mut ActionContext<'_, '_>) -> Result<TimelineView, PmFault> {
        let task = self.task_id.as_ref().map(|name| context.task_to_read(name).map(|task| task.id)).transpose()?;
        let is_everything = context.is_operator() && self.project_id.is_none();
        let projects = if is_everything { None } else { Some(context.projects(self.project_id.as_ref())?) };
        let limit = self.limit.unwrap_or(EVENTS).clamp(1, MOST_EVENTS);
        let filter = TimelineFilter {
            projects,
            actor: self.agent_id.clone(),
            task,
            kind: self.kind.clone(),
            before: if self.since_seq.is_some() { None } else { Some(self.before_seq.unwrap_or(i64::MAX)) },
            since: self.since_seq.unwrap_or(0),
            limit: limit + 1,
        };
        let mut events = context.tx.board_timeline(&filter)?;
        let has_more = events.len() as i64 > limit;
        events.truncate(usize::try_from(limit).unwrap_or(0));
        let tasks = tasks_of(context, &events)?;
        let shown = |event| if self.full { event } else { short_event(event) };
        Ok(TimelineView { events: events.into_iter().map(shown).collect(), has_more, tasks })
    }
}

fn tasks_of(
    context: &mut ActionContext<'_, '_>,
    events: &[HistoryEvent],
) -> Result<BTreeMap<TaskId, NamedEvent>, PmFault> {
    let ids: BTreeSet<TaskId> = events.iter().filter_map(HistoryEvent::task).collect();
    ids.into_iter()
        .map(|id| {
            let task = context.tx.task_get(&id.clone().into())?;
            Ok((id, NamedEvent { reference: task.reference, title: limit::clip(&task.title, 120).0 }))
        })
        .collect()
}

//! One task in full, with what surrounds it.

use serde::{Deserialize, Serialize};

use super::desk::Desk;
use super::view::{ClaimView, TaskRow, TaskView, contexts_within, fit, handoff_within};
use super::{Action, Effect};
use crate::domain::context::Context;
use crate::domain::event::Event;
use crate::domain::fault::Fault;
use crate::domain::handoff::Handoff;
use crate::domain::id::TaskRef;
use crate::domain::limit::KIB;
use crate::domain::task::Task;
use crate::domain::word::words;

words! {
    /// A part of a task's answer.
    Section {
        /// The full description.
        Description = "description",
        /// The criteria.
        Acceptance = "acceptance",
        /// What was learnt.
        Contexts = "contexts",
        /// The last handoff.
        Handoff = "handoff",
        /// What it waits for.
        Dependencies = "dependencies",
        /// Who holds it.
        Claim = "claim",
        /// What happened.
        History = "history",
    }
}

/// One task, with what the caller wants to know of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetTask {
    /// Which one.
    pub task_id: TaskRef,
    /// Which parts; everything but the history unless said otherwise.
    #[serde(default)]
    pub include: Vec<Section>,
    /// How long the answer may be.
    pub max_bytes: Option<usize>,
}

impl GetTask {
    /// A task with the usual parts.
    pub fn of(task_id: impl Into<TaskRef>) -> Self {
        Self { task_id: task_id.into(), include: Vec::new(), max_bytes: None }
    }
}

/// A task and its surroundings.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TaskDetail {
    /// The task.
    pub task: TaskView,
    /// What was learnt: decisions first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contexts: Option<Vec<Context>>,
    /// The handoff that waits, or else the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handoff: Option<Handoff>,
    /// What it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dependencies: Option<Vec<TaskRow>>,
    /// What waits for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dependents: Option<Vec<TaskRow>>,
    /// Who holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<ClaimView>,
    /// Who held it before, newest first: session and fence.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claim_history: Vec<ClaimView>,
    /// What happened, newest first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<Vec<Event>>,
    /// What was cut.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub truncated: Vec<String>,
}

impl Action for GetTask {
    const NAME: &'static str = "get_task";
    const EFFECT: Effect = Effect::Read;
    type Output = TaskDetail;

    fn touches(&self) -> Option<&TaskRef> {
        Some(&self.task_id)
    }

    fn run(&self, desk: &mut Desk<'_, '_>) -> Result<TaskDetail, Fault> {
        let budget = self.max_bytes.unwrap_or(16 * KIB);
        if !(1024..=256 * KIB).contains(&budget) {
            return Err(Fault::invalid("`max_bytes` must be between 1024 and 262144"));
        }
        let task = desk.task_to_read(&self.task_id)?;
        let room = if self.wants(Section::Description) { budget / 4 } else { 0 };
        let mut view = TaskView::within(&task, room.max(1));
        if !self.wants(Section::Acceptance) {
            view.acceptance.clear();
        }
        let mut detail = TaskDetail {
            truncated: view.truncated.clone(),
            task: view,
            contexts: None,
            handoff: None,
            dependencies: None,
            dependents: None,
            claim: None,
            claim_history: Vec::new(),
            history: None,
        };
        self.surroundings(desk, &task, budget, &mut detail)?;
        Ok(detail)
    }
}

impl GetTask {
    fn wants(&self, section: Section) -> bool {
        if self.include.is_empty() { section != Section::History } else { self.include.contains(&section) }
    }

    fn surroundings(
        &self,
        desk: &mut Desk<'_, '_>,
        task: &Task,
        budget: usize,
        detail: &mut TaskDetail,
    ) -> Result<(), Fault> {
        let cut = |what: &str, is_cut: bool, detail: &mut TaskDetail| {
            if is_cut {
                detail.truncated.push(what.to_owned());
            }
        };
        if self.wants(Section::Contexts) {
            let (contexts, is_cut) = contexts_within(desk.tx.context_of_task(&task.id, 100)?, budget / 4);
            detail.contexts = Some(contexts);
            cut("contexts", is_cut, detail);
        }
        if self.wants(Section::Handoff) {
            let pending = desk.tx.handoff_pending(&task.id)?;
            let last = pending.or(desk.tx.handoff_history(&task.id, 1)?.into_iter().next());
            detail.handoff = last.map(|handoff| handoff_within(handoff, budget / 8));
        }
        if self.wants(Section::Dependencies) {
            let (on, by) = (desk.prerequisites_of(task)?, desk.dependents_of(task)?);
            let ((on, on_cut), (by, by_cut)) = (fit(on, budget / 16), fit(by, budget / 16));
            (detail.dependencies, detail.dependents) = (Some(on), Some(by));
            cut("dependencies", on_cut || by_cut, detail);
        }
        if self.wants(Section::Claim) {
            detail.claim = desk.tx.claim_live(&task.id)?.as_ref().map(ClaimView::new);
            detail.claim_history = desk.tx.claim_history(&task.id, 3)?.iter().map(ClaimView::new).collect();
        }
        if self.wants(Section::History) {
            let events = desk.tx.event_latest(task.id.as_str(), 50)?;
            let (events, is_cut) = fit(events.into_iter().map(super::find::short_event).collect(), budget / 8);
            detail.history = Some(events);
            cut("history", is_cut, detail);
        }
        Ok(())
    }
}

impl Desk<'_, '_> {
    fn prerequisites_of(&mut self, task: &Task) -> Result<Vec<TaskRow>, Fault> {
        let edges = self.tx.dependency_list(&task.id)?;
        edges.into_iter().map(|edge| Ok(TaskRow::new(&self.tx.task_get(&edge.depends_on_id.into())?))).collect()
    }

    fn dependents_of(&mut self, task: &Task) -> Result<Vec<TaskRow>, Fault> {
        let ids = self.tx.dependency_dependents(&task.id)?;
        ids.into_iter().take(20).map(|id| Ok(TaskRow::new(&self.tx.task_get(&id.into())?))).collect()
    }
}

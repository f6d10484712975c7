//! One task in full, with what surrounds it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::action_context::ActionContext;
use super::truncate::{HandoffView, clip_list, contexts_within};
use super::view::{ClaimView, TaskRow, TaskView, fit};
use super::{Action, ActionEffect};
use crate::domain::claim::Claim;
use crate::domain::context::ContextEntry;
use crate::domain::event::HistoryEvent;
use crate::domain::fault::PmFault;
use crate::domain::handoff::GitState;
use crate::domain::id::TaskRef;
use crate::domain::limit::{self, KIB};
use crate::domain::task::Task;
use crate::domain::word::words;

words! {
    /// A part of a task's answer.
    Section {
        Description = "description",
        Acceptance = "acceptance",
        Contexts = "contexts",
        Handoff = "handoff",
        /// What it waits for.
        Dependencies = "dependencies",
        Claim = "claim",
        History = "history",
    }
}

impl Section {
    /// How much room it needs beside the others.
    const fn weight(self) -> usize {
        match self {
            Self::Description | Self::Contexts => 4,
            Self::Acceptance | Self::Handoff | Self::Dependencies | Self::History => 2,
            Self::Claim => 1,
        }
    }
}

/// One task, with what the caller wants to know of it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetTask {
    /// id or KEY-n
    #[schemars(extend("ja" = "タスクID"))]
    pub task_id: TaskRef,
    /// parts wanted
    #[serde(default)]
    #[schemars(extend("ja" = "項目"))]
    pub include: Vec<Section>,
    /// of the answer
    #[schemars(extend("ja" = "応答の上限", "rare" = true))]
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
    pub task: TaskView,
    /// What was learnt: decisions first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contexts: Option<Vec<ContextEntry>>,
    /// The handoff that waits, or else the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handoff: Option<HandoffView>,
    /// What it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dependencies: Option<Vec<TaskRow>>,
    /// What waits for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dependents: Option<Vec<TaskRow>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<ClaimView>,
    /// Where its holder last said that the work stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
    /// The holder's work tree at that time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git: Option<GitState>,
    /// Who held it before, newest first: session and fence.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claim_history: Vec<ClaimView>,
    /// What happened, newest first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<Vec<HistoryEvent>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub truncated: Vec<String>,
}

impl Action for GetTask {
    const NAME: &'static str = "get_task";
    const EFFECT: ActionEffect = ActionEffect::Read;
    type Output = TaskDetail;

    fn touches(&self) -> Option<&TaskRef> {
        Some(&self.task_id)
    }

    fn run(&self, context: &mut ActionContext<'_, '_>) -> Result<TaskDetail, PmFault> {
        // An answer that fills a model's context is of no use to it.
        let budget = self.max_bytes.unwrap_or(16 * KIB);
        if !(1024..=256 * KIB).contains(&budget) {
            return Err(PmFault::invalid("`max_bytes` must be between 1024 and 262144"));
        }
        let task = context.task_to_read(&self.task_id)?;
        let mut view = self.task_view(&task, budget);
        view.ready = view.ready && context.is_active(&task.project_id)?;
        let mut detail = TaskDetail {
            truncated: view.truncated.clone(),
            task: view,
            contexts: None,
            handoff: None,
            dependencies: None,
            dependents: None,
            claim: None,
            checkpoint: None,
            git: None,
            claim_history: Vec::new(),
            history: None,
        };
        self.surroundings(context, &task, budget, &mut detail)?;
        Ok(detail)
    }
}

impl GetTask {
    fn wants(&self, section: Section) -> bool {
        if self.include.is_empty() { section != Section::History } else { self.include.contains(&section) }
    }

    /// What a part may take of the whole: the fewer parts are wanted, the longer each may be.
    fn room(&self, budget: usize, section: Section) -> usize {
        // The task's own short fields weigh one.
        let all: usize = 1 + Section::ALL.iter().filter(|one| self.wants(**one)).map(|one| one.weight()).sum::<usize>();
        budget * section.weight() / all
    }

    fn task_view(&self, task: &Task, budget: usize) -> TaskView {
        let mut view = TaskView::within(task, self.room(budget, Section::Description));
        // A part that was not asked for is not reported as cut.
        let mut leave_out = |section: Section| {
            view.truncated.retain(|field| field != section.as_str());
            match section {
                Section::Description => view.description.clear(),
                _ => view.acceptance.clear(),
            }
        };
        for section in [Section::Description, Section::Acceptance] {
            if !self.wants(section) {
                leave_out(section);
            }
        }
        view
    }

    fn holder(&self, claim: Option<Claim>, room: usize, detail: &mut TaskDetail) {
        let Some(claim) = claim else { return };
        detail.claim = Some(ClaimView::new(&claim));
        // The claim itself is small; only its texts need room.
        let (checkpoint, is_cut) = limit::clip(claim.checkpoint.as_deref().unwrap_or_default(), room);
        detail.checkpoint = Some(checkpoint).filter(|text| !text.is_empty());
        detail.git = claim.git;
        let is_git_cut = detail.git.as_mut().is_some_and(|git| clip_list(&mut git.files, room));
        if is_cut || is_git_cut {
            detail.truncated.push(Section::Claim.to_string());
        }
    }

    fn surroundings(
        &self,
        context: &mut ActionContext<'_, '_>,
        task: &Task,
        budget: usize,
        detail: &mut TaskDetail,
    ) -> Result<(), PmFault> {
        let cut = |what: &str, is_cut: bool, detail: &mut TaskDetail| {
            if is_cut {
                detail.truncated.push(what.to_owned());
            }
        };
        // Each part gets its share of the budget, by weight.
        let room = |section| self.room(budget, section);
        if self.wants(Section::Contexts) {
            let (contexts, is_cut) =
                contexts_within(context.tx.context_of_task(&task.id, 100)?, room(Section::Contexts));
            detail.contexts = Some(contexts);
            cut("contexts", is_cut, detail);
        }
        if self.wants(Section::Handoff) {
            // The one that waits matters more than the newest.
            let pending = context.tx.handoff_pending(&task.id)?;
            let last = pending.or(context.tx.handoff_history(&task.id, 1)?.into_iter().next());
            detail.handoff = last.map(|handoff| HandoffView::within(handoff, room(Section::Handoff)));
            let is_cut = detail.handoff.as_ref().is_some_and(|handoff| !handoff.truncated.is_empty());
            cut("handoff", is_cut, detail);
        }
        if self.wants(Section::Dependencies) {
            let (on, by) = (prerequisites_of(context, task)?, dependents_of(context, task)?);
            let ((on, on_cut), (by, by_cut)) =
                (fit(on, room(Section::Dependencies) / 2), fit(by, room(Section::Dependencies) / 2));
            (detail.dependencies, detail.dependents) = (Some(on), Some(by));
            cut("dependencies", on_cut || by_cut, detail);
        }
        if self.wants(Section::Claim) {
            self.holder(context.tx.claim_live(&task.id)?, room(Section::Claim), detail);
            detail.claim_history = context.tx.claim_history(&task.id, 3)?.iter().map(ClaimView::new).collect();
        }
        if self.wants(Section::History) {
            let events = context.tx.event_latest(task.id.as_str(), 50)?;
            let (events, is_cut) =
                fit(events.into_iter().map(super::search::short_event).collect(), room(Section::History));
            detail.history = Some(events);
            cut("history", is_cut, detail);
        }
        Ok(())
    }
}

fn prerequisites_of(context: &mut ActionContext<'_, '_>, task: &Task) -> Result<Vec<TaskRow>, PmFault> {
    let edges = context.tx.dependency_list(&task.id)?;
    edges.into_iter().map(|edge| Ok(TaskRow::new(&context.tx.task_get(&edge.depends_on_id.into())?))).collect()
}

fn dependents_of(context: &mut ActionContext<'_, '_>, task: &Task) -> Result<Vec<TaskRow>, PmFault> {
    let ids = context.tx.dependency_dependents(&task.id)?;
    ids.into_iter().take(20).map(|id| Ok(TaskRow::new(&context.tx.task_get(&id.into())?))).collect()
}

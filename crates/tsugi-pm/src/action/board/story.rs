//! A task's whole story: every handoff, every hold with its fence, and the tasks around it.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::super::action_context::ActionContext;
use super::super::truncate::HandoffView;
use super::super::{Action, ActionEffect};
use super::TaskCard;
use crate::action::board::needs::card_of;
use crate::domain::claim::{Claim, ClaimState};
use crate::domain::fault::PmFault;
use crate::domain::id::{AgentId, ClaimId, SessionId, TaskId, TaskRef};
use crate::domain::limit;
use crate::domain::time::Moment;

/// Handoffs and holds that are told.
const MOST: i64 = 100;
/// How much of each handoff.
const HANDOFF_BYTES: usize = 4 * limit::KIB;
/// How far the tasks around it are looked at, and how many edges at each step.
const STEPS: usize = 2;
const EDGES: i64 = 40;

/// The story of a task.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetStory {
    pub task_id: TaskRef,
}

/// A hold, over or not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PastClaim {
    pub id: ClaimId,
    pub agent_id: AgentId,
    pub session_id: SessionId,
    /// Its fence: a write with an older one is refused.
    pub fence: i64,
    /// How it stands, or ended.
    pub state: ClaimState,
    pub acquired_at: Moment,
    /// When its holder last touched it.
    pub renewed_at: Moment,
    /// When it runs out, or would have.
    pub expires_at: Moment,
    pub ended_at: Option<Moment>,
    pub end_reason: Option<String>,
}

impl From<Claim> for PastClaim {
    fn from(claim: Claim) -> Self {
        Self {
            id: claim.id,
            agent_id: claim.agent_id,
            session_id: claim.session_id,
            fence: claim.fence,
            state: claim.state,
            acquired_at: claim.acquired_at,
            renewed_at: claim.renewed_at,
            expires_at: claim.expires_at,
            ended_at: claim.ended_at,
            end_reason: claim.end_reason,
        }
    }
}

/// A task and what surrounds it, as a graph.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DependencyGraph {
    /// The tasks, the one it is about among them.
    pub tasks: Vec<TaskCard>,
    /// Which waits for which: the ids of the one that waits and of its prerequisite.
    pub edges: Vec<(TaskId, TaskId)>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TaskStory {
    /// The chain of handoffs, oldest first.
    pub handoffs: Vec<HandoffView>,
    /// Who held it, newest first.
    pub holds: Vec<PastClaim>,
    /// The tasks around it.
    pub graph: DependencyGraph,
}

impl Action for GetStory {
    const NAME: &'static str = "get_story";
    const EFFECT: ActionEffect = ActionEffect::Read;
    type Output = TaskStory;

    fn run(&self, context: &mut ActionContext<'_, '_>) -> Result<TaskStory, PmFault> {
        let task = context.task_to_read(&self.task_id)?;
        let mut handoffs = context.tx.handoff_history(&task.id, MOST)?;
        handoffs.reverse();
        Ok(TaskStory {
            handoffs: handoffs.into_iter().map(|one| HandoffView::within(one, HANDOFF_BYTES)).collect(),
            holds: context.tx.claim_history(&task.id, MOST)?.into_iter().map(PastClaim::from).collect(),
            graph: graph_around(context, &task.id)?,
        })
    }
}

fn graph_around(context: &mut ActionContext<'_, '_>, task: &TaskId) -> Result<DependencyGraph, PmFault> {
    let mut known = BTreeSet::from([task.clone()]);
    let mut edges = BTreeSet::new();
    for _ in 0..STEPS {
        let from: Vec<TaskId> = known.iter().cloned().collect();
        for (waiting, on) in context.tx.board_edges(&from, EDGES)? {
            known.extend([waiting.clone(), on.clone()]);
            edges.insert((waiting, on));
        }
    }
    let tasks = known.into_iter().map(|id| card_of(context, &id.into())).collect::<Result<_, _>>()?;
    Ok(DependencyGraph { tasks, edges: edges.into_iter().collect() })
}

//! A task's whole story: every handoff, every hold with its fence, and the tasks around it.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::super::cut::HandoffView;
use super::super::desk::Desk;
use super::super::{Action, Effect};
use super::Card;
use crate::domain::claim::{Claim, ClaimState};
use crate::domain::fault::Fault;
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
    /// Which one.
    pub task_id: TaskRef,
}

/// A hold, over or not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PastHold {
    /// The claim.
    pub id: ClaimId,
    /// Whose it was.
    pub agent_id: AgentId,
    /// In which session.
    pub session_id: SessionId,
    /// Its fence: a write with an older one is refused.
    pub fence: i64,
    /// How it stands, or ended.
    pub state: ClaimState,
    /// Since when.
    pub acquired_at: Moment,
    /// When its holder last touched it.
    pub renewed_at: Moment,
    /// When it runs out, or would have.
    pub expires_at: Moment,
    /// Until when.
    pub ended_at: Option<Moment>,
    /// Why it ended.
    pub end_reason: Option<String>,
}

impl From<Claim> for PastHold {
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
pub struct Graph {
    /// The tasks, the one it is about among them.
    pub tasks: Vec<Card>,
    /// Which waits for which: the ids of the one that waits and of its prerequisite.
    pub edges: Vec<(TaskId, TaskId)>,
}

/// The story.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Story {
    /// The chain of handoffs, oldest first.
    pub handoffs: Vec<HandoffView>,
    /// Who held it, newest first.
    pub holds: Vec<PastHold>,
    /// The tasks around it.
    pub graph: Graph,
}

impl Action for GetStory {
    const NAME: &'static str = "get_story";
    const EFFECT: Effect = Effect::Read;
    type Output = Story;

    fn run(&self, desk: &mut Desk<'_, '_>) -> Result<Story, Fault> {
        let task = desk.task_to_read(&self.task_id)?;
        let mut handoffs = desk.tx.handoff_history(&task.id, MOST)?;
        handoffs.reverse();
        Ok(Story {
            handoffs: handoffs.into_iter().map(|one| HandoffView::within(one, HANDOFF_BYTES)).collect(),
            holds: desk.tx.claim_history(&task.id, MOST)?.into_iter().map(PastHold::from).collect(),
            graph: desk.graph_around(&task.id)?,
        })
    }
}

impl Desk<'_, '_> {
    fn graph_around(&mut self, task: &TaskId) -> Result<Graph, Fault> {
        let mut known = BTreeSet::from([task.clone()]);
        let mut edges = BTreeSet::new();
        for _ in 0..STEPS {
            let from: Vec<TaskId> = known.iter().cloned().collect();
            for (waiting, on) in self.tx.board_edges(&from, EDGES)? {
                known.extend([waiting.clone(), on.clone()]);
                edges.insert((waiting, on));
            }
        }
        let tasks = known.into_iter().map(|id| self.card_of(&id.into())).collect::<Result<_, _>>()?;
        Ok(Graph { tasks, edges: edges.into_iter().collect() })
    }
}

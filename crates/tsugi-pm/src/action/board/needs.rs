//! What waits for a person: work to judge, work that stands still, and agents that did not come back.

use serde::{Deserialize, Serialize};

use super::super::action_context::ActionContext;
use super::super::{Action, ActionEffect};
use super::{CardPrerequisite, TaskCard};
use crate::action::board::{board_of, cards};
use crate::domain::fault::PmFault;
use crate::domain::handoff::{Handoff, HandoffKind};
use crate::domain::id::{AgentId, HandoffId, ProjectId, ProjectRef, SessionId, TaskRef};
use crate::domain::limit;
use crate::domain::policy::WorkerCreate;
use crate::domain::session::AgentSession;
use crate::domain::task::{Task, TaskStatus};
use crate::domain::time::Moment;
use crate::store::tx::{BoardFilter, WaitingTask};

/// How many of each kind are listed; all are counted.
const LISTED: i64 = 50;
/// How long an agent that did not come back is news.
const NEWS_S: i64 = 24 * 3600;

/// What waits for a person in a project.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetNeeds {
    pub project_id: ProjectRef,
}

/// One thing that waits.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum AttentionNeed {
    /// Finished work wants to be judged.
    Review { task: TaskCard },
    /// Something outside is in the way.
    Blocked {
        /// The task, with the reason.
        task: TaskCard,
    },
    Handoff {
        id: HandoffId,
        task: TaskCard,
        from_agent_id: AgentId,
        /// The receiver; any agent when unset.
        to_agent_id: Option<AgentId>,
        /// Whether an agent wrote it, or it was made for an agent that vanished.
        handoff_kind: HandoffKind,
        summary: String,
        /// Since when it waits.
        created_at: Moment,
        expires_at: Moment,
    },
    /// A prerequisite was cancelled, so the task would wait for ever.
    Cancelled {
        /// The task that waits.
        task: TaskCard,
        /// The cancelled tasks that it waits for.
        prerequisites: Vec<CardPrerequisite>,
    },
    /// A worker found something to do; a manager's word makes it work.
    Approval { task: TaskCard },
    /// An agent vanished and did not come back.
    Expired {
        session_id: SessionId,
        agent_id: AgentId,
        /// What it worked with.
        client_name: Option<String>,
        /// When it was last heard.
        last_activity_at: Moment,
        /// What it had in hand.
        tasks: Vec<TaskCard>,
    },
}

/// What waits, most urgent kind first.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NeedList {
    pub needs: Vec<AttentionNeed>,
    /// How many there are, listed or not.
    pub total: i64,
}

impl Action for GetNeeds {
    const NAME: &'static str = "get_needs";
    const EFFECT: ActionEffect = ActionEffect::ReadAfterSweep;
    type Output = NeedList;

    fn run(&self, context: &mut ActionContext<'_, '_>) -> Result<NeedList, PmFault> {
        let (project, _) = board_of(context, &self.project_id)?;
        // Listed in the order of urgency: reviews hold up other agents.
        let (reviews, reviews_left) = standing_in(context, &project.id, TaskStatus::Review)?;
        let (blocked, blocked_left) = standing_in(context, &project.id, TaskStatus::Blocked)?;
        let mut needs: Vec<AttentionNeed> = reviews.into_iter().map(|task| AttentionNeed::Review { task }).collect();
        needs.extend(blocked.into_iter().map(|task| AttentionNeed::Blocked { task }));
        needs.extend(handoffs_waiting(context, &project.id)?);
        needs.extend(behind_cancelled(context, &project.id)?);
        // Elsewhere a worker's task in the backlog needs no approval.
        if project.policy.worker_create == WorkerCreate::Triage {
            let found = context.tx.board_triage(&project.id, LISTED)?;
            needs.extend(cards(context, &found)?.into_iter().map(|task| AttentionNeed::Approval { task }));
        }
        needs.extend(not_come_back(context, &project.id)?);
        let total = needs.len() as i64 + reviews_left + blocked_left;
        Ok(NeedList { needs, total })
    }
}

/// The tasks of a status, and how many more there are than are listed.
fn standing_in(
    context: &mut ActionContext<'_, '_>,
    project: &ProjectId,
    status: TaskStatus,
) -> Result<(Vec<TaskCard>, i64), PmFault> {
    let filter = BoardFilter {
        project: project.clone(),
        assignee: None,
        label: None,
        priority: None,
        text: None,
        is_ready_only: false,
        done_since: context.tx.now,
    };
    let found = context.tx.board_column(&filter, status, LISTED)?;
    // The count costs a query, and is known when the list was not cut.
    let is_all = (found.len() as i64) < LISTED;
    let counts = if is_all { Vec::new() } else { context.tx.board_counts(&filter)? };
    let all = counts.into_iter().find(|(one, _)| *one == status).map_or(0, |(_, count)| count);
    Ok((cards(context, &found)?, (all - found.len() as i64).max(0)))
}

fn handoffs_waiting(context: &mut ActionContext<'_, '_>, project: &ProjectId) -> Result<Vec<AttentionNeed>, PmFault> {
    let mut pending = context.tx.handoff_of_project(project)?;
    // The longest waiting first.
    pending.sort_by_key(|handoff| handoff.created_at);
    pending.truncate(LISTED as usize);
    pending.into_iter().map(|handoff| handoff_waiting(context, handoff)).collect()
}

fn handoff_waiting(context: &mut ActionContext<'_, '_>, handoff: Handoff) -> Result<AttentionNeed, PmFault> {
    Ok(AttentionNeed::Handoff {
        task: card_of(context, &handoff.task_id.into())?,
        id: handoff.id,
        from_agent_id: handoff.from_agent_id,
        to_agent_id: handoff.to_agent_id,
        handoff_kind: handoff.kind,
        summary: limit::clip(&handoff.summary, super::BRIEF).0,
        created_at: handoff.created_at,
        expires_at: handoff.expires_at,
    })
}

fn behind_cancelled(context: &mut ActionContext<'_, '_>, project: &ProjectId) -> Result<Vec<AttentionNeed>, PmFault> {
    let edges = context.tx.board_behind_cancelled(project, LISTED)?;
    edges
        // The rows are sorted by task, so each chunk is one task with its prerequisites.
        .chunk_by(|one, other| one.task == other.task)
        .map(|edges: &[WaitingTask]| {
            let prerequisites = edges.iter().map(CardPrerequisite::from).collect();
            Ok(AttentionNeed::Cancelled { task: card_of(context, &edges[0].task.clone().into())?, prerequisites })
        })
        .collect()
}

fn not_come_back(context: &mut ActionContext<'_, '_>, project: &ProjectId) -> Result<Vec<AttentionNeed>, PmFault> {
    let since = context.tx.now.plus_seconds(-NEWS_S);
    let expired = context.tx.board_expired(project, since, LISTED)?;
    expired.into_iter().map(|session| gone(context, session)).collect()
}

fn gone(context: &mut ActionContext<'_, '_>, session: AgentSession) -> Result<AttentionNeed, PmFault> {
    let lost = context.tx.board_lost_by(&session.id)?;
    let tasks = lost.into_iter().map(|claim| card_of(context, &claim.task_id.into())).collect::<Result<_, _>>()?;
    Ok(AttentionNeed::Expired {
        session_id: session.id,
        agent_id: session.agent_id,
        client_name: session.client_name,
        last_activity_at: session.last_activity_at,
        tasks,
    })
}

/// One task as a card.
pub(super) fn card_of(context: &mut ActionContext<'_, '_>, task: &TaskRef) -> Result<TaskCard, PmFault> {
    let task: Task = context.tx.task_get(task)?;
    let mut cards = cards(context, std::slice::from_ref(&task))?;
    cards.pop().ok_or_else(|| PmFault::not_found("task", task.id))
}

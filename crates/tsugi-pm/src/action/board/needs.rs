//! What waits for a person: work to judge, work that stands still, and agents that did not come back.

use serde::{Deserialize, Serialize};

use super::super::desk::Desk;
use super::super::{Action, Effect};
use super::{Card, Prerequisite};
use crate::domain::fault::Fault;
use crate::domain::handoff::{Handoff, HandoffKind};
use crate::domain::id::{AgentId, HandoffId, ProjectId, SessionId, TaskRef};
use crate::domain::limit;
use crate::domain::policy::WorkerCreate;
use crate::domain::session::Session;
use crate::domain::task::{Task, TaskStatus};
use crate::domain::time::Moment;
use crate::store::tx::{BoardFilter, Waiting};

/// How many of each kind are listed; all are counted.
const LISTED: i64 = 50;
/// How long an agent that did not come back is news.
const NEWS_S: i64 = 24 * 3600;

/// What waits for a person in a project.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetNeeds {
    /// Which project.
    pub project_id: ProjectId,
}

/// One thing that waits.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Need {
    /// Finished work wants to be judged.
    Review {
        /// The task.
        task: Card,
    },
    /// Something outside is in the way.
    Blocked {
        /// The task, with the reason.
        task: Card,
    },
    /// Nobody has taken a handoff.
    Handoff {
        /// Which one.
        id: HandoffId,
        /// Its task.
        task: Card,
        /// From whom.
        from_agent_id: AgentId,
        /// To whom; whoever comes when unset.
        to_agent_id: Option<AgentId>,
        /// Whether somebody wrote it, or it was left by an agent that vanished.
        handoff_kind: HandoffKind,
        /// What it says.
        summary: String,
        /// Since when it waits.
        created_at: Moment,
        /// Until when.
        expires_at: Moment,
    },
    /// A prerequisite was cancelled, so the task would wait for ever.
    Cancelled {
        /// The task that waits.
        task: Card,
        /// What it waits for in vain.
        prerequisites: Vec<Prerequisite>,
    },
    /// A worker found something to do; a manager's word makes it work.
    Approval {
        /// The task.
        task: Card,
    },
    /// An agent vanished and did not come back.
    Expired {
        /// Its session.
        session_id: SessionId,
        /// Who.
        agent_id: AgentId,
        /// What it worked with.
        client_name: Option<String>,
        /// When it was last heard.
        last_activity_at: Moment,
        /// What it had in hand.
        tasks: Vec<Card>,
    },
}

/// What waits, most urgent kind first.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Needs {
    /// The things.
    pub needs: Vec<Need>,
    /// How many there are, listed or not.
    pub total: i64,
}

impl Action for GetNeeds {
    const NAME: &'static str = "get_needs";
    const EFFECT: Effect = Effect::ReadAfterSweep;
    type Output = Needs;

    fn run(&self, desk: &mut Desk<'_, '_>) -> Result<Needs, Fault> {
        let (project, _) = desk.board_of(&self.project_id)?;
        let (reviews, reviews_left) = desk.standing_in(&self.project_id, TaskStatus::Review)?;
        let (blocked, blocked_left) = desk.standing_in(&self.project_id, TaskStatus::Blocked)?;
        let mut needs: Vec<Need> = reviews.into_iter().map(|task| Need::Review { task }).collect();
        needs.extend(blocked.into_iter().map(|task| Need::Blocked { task }));
        needs.extend(desk.handoffs_waiting(&self.project_id)?);
        needs.extend(desk.behind_cancelled(&self.project_id)?);
        if project.policy.worker_create == WorkerCreate::Triage {
            let found = desk.tx.board_triage(&self.project_id, LISTED)?;
            needs.extend(desk.cards(&found)?.into_iter().map(|task| Need::Approval { task }));
        }
        needs.extend(desk.not_come_back(&self.project_id)?);
        let total = needs.len() as i64 + reviews_left + blocked_left;
        Ok(Needs { needs, total })
    }
}

impl Desk<'_, '_> {
    /// The tasks of a status, and how many more there are than are listed.
    fn standing_in(&mut self, project: &ProjectId, status: TaskStatus) -> Result<(Vec<Card>, i64), Fault> {
        let filter = BoardFilter {
            project: project.clone(),
            assignee: None,
            label: None,
            priority: None,
            text: None,
            is_ready_only: false,
            done_since: self.tx.now,
        };
        let found = self.tx.board_column(&filter, status, LISTED)?;
        let is_all = (found.len() as i64) < LISTED;
        let counts = if is_all { Vec::new() } else { self.tx.board_counts(&filter)? };
        let all = counts.into_iter().find(|(one, _)| *one == status).map_or(0, |(_, count)| count);
        Ok((self.cards(&found)?, (all - found.len() as i64).max(0)))
    }

    fn handoffs_waiting(&mut self, project: &ProjectId) -> Result<Vec<Need>, Fault> {
        let mut pending = self.tx.handoff_of_project(project)?;
        pending.sort_by_key(|handoff| handoff.created_at);
        pending.truncate(LISTED as usize);
        pending.into_iter().map(|handoff| self.handoff_waiting(handoff)).collect()
    }

    fn handoff_waiting(&mut self, handoff: Handoff) -> Result<Need, Fault> {
        Ok(Need::Handoff {
            task: self.card_of(&handoff.task_id.into())?,
            id: handoff.id,
            from_agent_id: handoff.from_agent_id,
            to_agent_id: handoff.to_agent_id,
            handoff_kind: handoff.kind,
            summary: limit::clip(&handoff.summary, super::BRIEF).0,
            created_at: handoff.created_at,
            expires_at: handoff.expires_at,
        })
    }

    fn behind_cancelled(&mut self, project: &ProjectId) -> Result<Vec<Need>, Fault> {
        let edges = self.tx.board_behind_cancelled(project, LISTED)?;
        edges
            .chunk_by(|one, other| one.task == other.task)
            .map(|edges: &[Waiting]| {
                let prerequisites = edges.iter().map(Prerequisite::from).collect();
                Ok(Need::Cancelled { task: self.card_of(&edges[0].task.clone().into())?, prerequisites })
            })
            .collect()
    }

    fn not_come_back(&mut self, project: &ProjectId) -> Result<Vec<Need>, Fault> {
        let since = self.tx.now.plus_seconds(-NEWS_S);
        let gone = self.tx.board_expired(project, since, LISTED)?;
        gone.into_iter().map(|session| self.gone(session)).collect()
    }

    fn gone(&mut self, session: Session) -> Result<Need, Fault> {
        let lost = self.tx.board_lost_by(&session.id)?;
        let tasks = lost.into_iter().map(|claim| self.card_of(&claim.task_id.into())).collect::<Result<_, _>>()?;
        Ok(Need::Expired {
            session_id: session.id,
            agent_id: session.agent_id,
            client_name: session.client_name,
            last_activity_at: session.last_activity_at,
            tasks,
        })
    }

    /// One task as a card.
    pub(super) fn card_of(&mut self, task: &TaskRef) -> Result<Card, Fault> {
        let task: Task = self.tx.task_get(task)?;
        let mut cards = self.cards(std::slice::from_ref(&task))?;
        cards.pop().ok_or_else(|| Fault::not_found("task", task.id))
    }
}

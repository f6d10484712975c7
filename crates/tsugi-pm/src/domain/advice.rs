//! Hints that differ for an agent, which calls tools, and a person, who types commands.

/// What to try after a refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultAdvice {
    /// Take the task that is there already, or insist on a second one.
    WorkOnTheOther,
    /// An agent with more rights has to do it.
    AskManager,
    /// Say which of several sessions is meant.
    NameSession,
    /// Say that the session is meant which holds it.
    NameHolder(String),
    /// Hand it to any agent.
    LeaveTargetOut,
    /// There is no session yet.
    BeginSession,
    /// The session is over.
    BeginAnotherSession,
    /// Take it up again when this is over.
    WaitUntilOver(String),
    /// Begin with what it waits for, or do something else.
    TakePrerequisites,
    LookForOtherWork,
    /// Send it to review first.
    SendToReview,
    /// Say why.
    GiveReason,
}

impl FaultAdvice {
    /// As an agent reads it: in the words of the tools.
    pub fn to_agent(&self) -> String {
        let words = match self {
            Self::WorkOnTheOther => "work on that one, or say similar_ok: true",
            Self::AskManager => "ask a manager, or leave a note with add_context",
            Self::NameSession => "name one as session_id",
            Self::NameHolder(session) => {
                return format!("another session of yours holds it: name it as session_id, {session}");
            }
            Self::LeaveTargetOut => "leave to_agent_id out, and any agent may take it",
            Self::BeginSession => "begin one with start_session",
            Self::BeginAnotherSession => "begin a new one with start_session",
            Self::WaitUntilOver(reason) => {
                return format!("{reason}; when that is over, move it to todo with update_task_status");
            }
            Self::TakePrerequisites => "take one of these first, or other work with get_ready_tasks",
            Self::LookForOtherWork => "look for other work with get_ready_tasks",
            Self::GiveReason => "say why in `reason`",
            Self::SendToReview => "use review: update_task_status with status `review`",
        };
        words.to_owned()
    }
}

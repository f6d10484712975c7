//! The one seam: a call goes down, notes and exactly one outcome come up.

pub mod call;
pub mod fault;
pub mod identity;
pub mod reply;
pub mod session_lifetime;
pub mod timeline;

pub use call::{Call, CallOptions, CallParts, Caller};
pub use fault::{Blame, CallStage, DecidingRule, Fault, FaultCode, FaultDiagnosis, FaultReason, ProcessEnd, SentState};
pub use identity::{CallOwner, Identity};
pub use reply::{
    CallFailure, CallNote, CompletedResult, InputRelease, InputRequired, NoteSink, Outcome, Reply, ReplyEvent,
    ReplySource,
};
pub use session_lifetime::SessionLifetime;
pub use timeline::CallTimeline;

/// Everything that answers calls: a connection, a layer, the hub, an in-process server, a test fake.
pub trait Answer: Send + Sync {
    /// Starts answering. Nothing blocks here; work happens while the reply is polled or elsewhere.
    /// Dropping the reply cancels the call.
    fn answer(&self, call: Call) -> Reply;
}

impl<T: Answer + ?Sized> Answer for std::sync::Arc<T> {
    fn answer(&self, call: Call) -> Reply {
        (**self).answer(call)
    }
}

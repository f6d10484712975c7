//! The refusal of a call whose token lacks a scope: what it says to clients of each era, at each address.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::HeaderValue;
use serde_json::{Value, json};
use tsugi_auth::challenge::{BearerChallenge, ChallengeError};
use tsugi_auth::scope::ScopeSet;
use tsugi_protocol::answer::{
    Answer, Call, CallFailure, Fault, FaultCode, FaultReason, Outcome, Reply, ReplyEvent, ReplySource,
};
use tsugi_protocol::json::RawJson;
use tsugi_protocol::mcp::Era;

use super::resource::{ResourceDirectory, ResourcePath};
use crate::guard::authority::Authority;

const DESCRIPTION: &str = "the token lacks a scope that this call needs";

/// The refusal of a call that needs these scopes.
pub(crate) fn insufficient(needed: &ScopeSet) -> Fault {
    let details = json!({"error": ChallengeError::InsufficientScope.code(), "scope": needed.to_string()});
    Fault::new(FaultCode::PermissionDenied, DESCRIPTION)
        .with_reason(FaultReason::InsufficientScope)
        .with_details(RawJson::from(details))
}

/// The challenge for the header of a response that refuses with this fault; `None` for any other fault.
pub(crate) fn header_of(fault: &Fault) -> Option<HeaderValue> {
    let details: Value = details_of(fault)?.to().ok()?;
    let scope = ScopeSet::parse(details["scope"].as_str()?);
    let challenge = BearerChallenge {
        error: Some(ChallengeError::InsufficientScope),
        description: Some(DESCRIPTION),
        scope: Some(&scope),
        resource_metadata: details["resource_metadata"].as_str()?,
    };
    HeaderValue::try_from(challenge.to_string()).ok()
}

/// The details of a fault that is about scopes. Only this module makes such faults: servers cannot.
fn details_of(fault: &Fault) -> Option<&RawJson> {
    fault.details.as_ref().filter(|_| fault.reason == Some(FaultReason::InsufficientScope))
}

/// An answer at one address. Its refusals for want of scope say where that address's tokens come from, and are
/// complete for the revision that the client speaks.
pub(crate) struct ScopeChallenger {
    answer: Arc<dyn Answer>,
    metadata: Arc<str>,
}

impl ScopeChallenger {
    pub(crate) fn around(
        answer: Arc<dyn Answer>,
        resources: &ResourceDirectory,
        path: ResourcePath<'_>,
    ) -> Arc<dyn Answer> {
        Arc::new(Self { answer, metadata: resources.metadata_address(path).into() })
    }
}

impl Answer for ScopeChallenger {
    fn answer(&self, call: Call) -> Reply {
        let context = ChallengeContext { metadata: self.metadata.clone(), granted: granted_for_challenge(&call) };
        match self.answer.answer(call).into_ready() {
            Ok(outcome) => Reply::ready(context.complete(outcome)),
            Err(reply) => Reply::from_source(ChallengedReply { reply, context }),
        }
    }
}

/// What a challenge to this caller repeats of its token. Clients of 2025-11-25 and earlier ask for the scopes of the
/// challenge alone, and would lose those that they have. Newer ones keep them (MCP, Step-Up Authorization Flow).
fn granted_for_challenge(call: &Call) -> Option<ScopeSet> {
    if call.meta.client.version.era() == Era::Modern {
        return None;
    }
    let scopes = Authority::of(&call.caller)?.granted_scopes()?;
    Some(scopes.clone())
}

struct ChallengeContext {
    metadata: Arc<str>,
    granted: Option<ScopeSet>,
}

impl ChallengeContext {
    fn complete(&self, outcome: Outcome) -> Outcome {
        match outcome {
            Outcome::Failed(CallFailure::Fault(mut fault)) => {
                self.complete_fault(&mut fault);
                Outcome::Failed(CallFailure::Fault(fault))
            }
            other => other,
        }
    }

    fn complete_fault(&self, fault: &mut Fault) {
        let Some(Ok(mut details)) = details_of(fault).map(RawJson::to::<Value>) else { return };
        if let (Some(granted), Some(needed)) = (&self.granted, details["scope"].as_str()) {
            details["scope"] = Value::from(ScopeSet::parse(needed).union(granted).to_string());
        }
        details["resource_metadata"] = Value::from(&*self.metadata);
        fault.details = Some(RawJson::from(details));
    }
}

struct ChallengedReply {
    reply: Reply,
    context: ChallengeContext,
}

impl ReplySource for ChallengedReply {
    fn poll_event(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<ReplyEvent> {
        Poll::Ready(match std::task::ready!(self.reply.poll_event(context)) {
            ReplyEvent::Done(outcome) => ReplyEvent::Done(self.context.complete(outcome)),
            note => note,
        })
    }
}

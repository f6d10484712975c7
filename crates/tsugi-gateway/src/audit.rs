//! What a gateway reports to an audit log. The log itself is elsewhere: a gateway without one pays for one branch.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use http::request::Parts;
use serde_json::Value;
use tsugi_auth::challenge::ChallengeError;
use tsugi_protocol::answer::{
    Call, Caller, DecidingRule, Fault, FaultCode, FaultReason, Outcome, Reply, ReplyEvent, ReplySource,
};
use tsugi_protocol::mcp::Method;

/// Where events are written down for people who must prove them.
pub trait AuditTrail: Send + Sync {
    /// Writes that a call is about to be sent to a server. When it cannot be written the call is refused with the fault.
    fn begin(&self, call: &Call, server: &str) -> Result<AuditTicket, Fault>;

    /// Writes what has happened already.
    fn note(&self, event: &AuditEvent<'_>);

    /// How the log stands, and its last lines, newest first, for administrators. May block.
    fn look(&self, query: &AuditQuery) -> Result<Value, Fault>;

    /// How the file and each sink stand, for the metrics. A trail without either has nothing to say.
    fn sinks(&self) -> Vec<AuditSinkStatus> {
        Vec::new()
    }
}

/// How one place stands that lines are written to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditSinkStatus {
    /// `file`, or the name of a sink.
    pub name: String,
    pub is_up: bool,
    /// Lines that wait for it.
    pub waiting: u64,
    /// Lines that it will never have, since the start.
    pub lost: u64,
}

/// Which lines the dashboard shows.
#[derive(Debug, Clone, Default)]
pub struct AuditQuery {
    /// A kind, or its beginning before a dot.
    pub kind: Option<String>,
    pub identity: Option<String>,
    pub limit: usize,
}

/// A call that was written down and waits for its end.
pub struct AuditTicket {
    pub entry: Box<dyn CallAuditEntry>,
    /// Resolves when the line is on the disk, where the configuration wants calls to wait for that.
    pub on_disk: Option<BoxFuture<'static, Result<(), Fault>>>,
}

/// The open entry of one call.
pub trait CallAuditEntry: Send {
    fn end(self: Box<Self>, ending: AuditEnding<'_>);
}

/// How a call ended.
#[derive(Debug, Clone, Copy)]
pub enum AuditEnding<'a> {
    Outcome(&'a Outcome),
    /// The caller left or cancelled before there was an outcome.
    Abandoned,
}

/// What is written down beside calls.
#[derive(Debug, Clone, Copy)]
pub enum AuditEvent<'a> {
    /// A call was refused before it was sent.
    CallDenied {
        call: &'a Call,
        fault: &'a Fault,
        by: DenialRule,
    },
    /// A request was refused before there was a call.
    RequestDenied {
        caller: &'a Caller,
        route: &'a str,
        address: Option<&'a str>,
        code: FaultCode,
        by: DenialRule,
        policy: Option<&'a DecidingRule>,
    },
    /// A credential did not hold. These are counted by address.
    CredentialRefused {
        address: Option<&'a str>,
    },
    /// A token of an issuer did not hold, or lacks a scope. These are counted by address, too.
    TokenRefused {
        address: Option<&'a str>,
        error: ChallengeError,
    },
    /// A person signed in at the dashboard.
    SignedIn {
        caller: &'a Caller,
        address: Option<&'a str>,
    },
    SignedOut {
        caller: &'a Caller,
    },
    /// An administrator gave an order about a server.
    ServerOrdered {
        caller: &'a Caller,
        order: &'a str,
        server: &'a str,
        is_done: bool,
    },
}

/// The kind of rule that decided against a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DenialRule {
    /// What the caller may use.
    Permit,
    /// How much it may call.
    Quota,
    /// What its role may do.
    Role,
    /// Whether it may come in at all.
    Credential,
    /// Which scopes its token has.
    Scope,
    /// Where a program in a sandbox may connect to.
    Egress,
    /// What was agreed to about the tool, which the server has changed since.
    Pin,
    /// What the rules of a policy say.
    Policy,
    /// A rule of a policy that could not be evaluated.
    PolicyError,
}

impl DenialRule {
    pub const fn as_str(self) -> &'static str {
        match self {
            DenialRule::Permit => "permit",
            DenialRule::Quota => "quota",
            DenialRule::Role => "role",
            DenialRule::Credential => "credential",
            DenialRule::Scope => "scope",
            DenialRule::Egress => "egress",
            DenialRule::Pin => "pin",
            DenialRule::Policy => "policy",
            DenialRule::PolicyError => "policy.error",
        }
    }

    pub fn of_policy(rule: &DecidingRule) -> Self {
        if rule.is_error { DenialRule::PolicyError } else { DenialRule::Policy }
    }

    /// The rule behind a refused call; `None` when no rule refused it, as when there is no such tool.
    pub fn of_fault(fault: &Fault) -> Option<Self> {
        match fault.code {
            _ if fault.reason == Some(FaultReason::InsufficientScope) => Some(DenialRule::Scope),
            _ if let Some(rule) = &fault.decided_by => Some(DenialRule::of_policy(rule)),
            FaultCode::PermissionDenied => Some(DenialRule::Permit),
            FaultCode::RateLimitExceeded => Some(DenialRule::Quota),
            FaultCode::ToolChanged => Some(DenialRule::Pin),
            _ => None,
        }
    }
}

/// The address of a client, kept with its requests where there is an audit log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientAddress(pub(crate) IpAddr);

/// The address that a request came from, where it is known.
pub(crate) fn address_of(parts: &Parts) -> Option<String> {
    parts.extensions.get::<ClientAddress>().map(|address| address.0.to_string())
}

/// Writes down that a call was refused, if a rule refused it.
pub(crate) fn note_denial(trail: Option<&Arc<dyn AuditTrail>>, call: &Call, fault: &Fault) {
    // A name that does not exist is a mistake and not a refusal.
    if let (Some(trail), Some(by)) = (trail, DenialRule::of_fault(fault)) {
        trail.note(&AuditEvent::CallDenied { call, fault, by });
    }
}

/// True for calls that are written down. Lists and greetings are answered from what is known already.
fn is_recorded(method: &Method) -> bool {
    use Method::*;
    !matches!(method, Discover | Listen | ToolsList | PromptsList | ResourcesList | TemplatesList)
}

/// Writes a call down, sends it, and writes down how it ended.
pub(crate) fn forward(
    trail: &Arc<dyn AuditTrail>,
    call: Call,
    server: &str,
    send: impl FnOnce(Call) -> Reply + Send + 'static,
) -> Result<Reply, Box<(Call, Fault)>> {
    // No server is asked for these, so that there is no effect to prove.
    if !is_recorded(&call.method) {
        return Ok(send(call));
    }
    match trail.begin(&call, server) {
        Ok(AuditTicket { entry, on_disk: None }) => Ok(watch_end(send(call), entry)),
        Ok(AuditTicket { entry, on_disk: Some(on_disk) }) => {
            // Ended even when the caller leaves while the disk is awaited.
            let mut entry = OpenEntry(Some(entry));
            Ok(Reply::from_pending_reply(async move {
                match on_disk.await {
                    Ok(()) => match entry.0.take() {
                        Some(entry) => watch_end(send(call), entry),
                        None => send(call),
                    },
                    Err(fault) => {
                        let outcome = Outcome::fault(fault);
                        entry.end(AuditEnding::Outcome(&outcome));
                        Reply::ready(outcome)
                    }
                }
            }))
        }
        Err(fault) => Err(Box::new((call, fault))),
    }
}

fn watch_end(reply: Reply, entry: Box<dyn CallAuditEntry>) -> Reply {
    match reply.into_ready() {
        // Answered at once, such as from a cache: no box is needed.
        Ok(outcome) => {
            entry.end(AuditEnding::Outcome(&outcome));
            Reply::ready(outcome)
        }
        Err(reply) => Reply::from_source(AuditedReply { reply, entry: OpenEntry(Some(entry)) }),
    }
}

/// An entry that is ended once, at the latest when it is dropped.
struct OpenEntry(Option<Box<dyn CallAuditEntry>>);

impl OpenEntry {
    fn end(&mut self, ending: AuditEnding<'_>) {
        if let Some(entry) = self.0.take() {
            entry.end(ending);
        }
    }
}

impl Drop for OpenEntry {
    fn drop(&mut self) {
        self.end(AuditEnding::Abandoned);
    }
}

/// A reply whose end is written down before its receiver gets the outcome.
struct AuditedReply {
    reply: Reply,
    entry: OpenEntry,
}

impl ReplySource for AuditedReply {
    fn poll_event(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<ReplyEvent> {
        let event = std::task::ready!(self.reply.poll_event(context));
        // Before the event is given up, and so before the answer.
        if let ReplyEvent::Done(outcome) = &event {
            self.entry.end(AuditEnding::Outcome(outcome));
        }
        Poll::Ready(event)
    }

    fn is_in_line(&self) -> bool {
        ReplySource::is_in_line(&self.reply)
    }
}

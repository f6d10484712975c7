//! What goes down the seam: a modern request, its caller, and how layers may treat it.

use std::any::Any;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use super::identity::{CallOwner, Identity};
use super::session_lifetime::{LifetimeCell, SessionObserver};
use super::timeline::CallTimeline;
use crate::json::{JsonObject, ObjectWriter, RawJson};
use crate::mcp::Method;
use crate::mcp::meta::RequestMeta;
use crate::mcp::version::Era;

/// A request on its way down. It goes by value through a dozen layers, so it is one pointer; [`CallParts`] is what it holds.
/// Cloning shares them until one of the two is changed: a call that may be made again is kept by all who pass it on.
#[derive(Debug, Clone)]
pub struct Call(Arc<CallParts>);

/// What a call holds. It is always in the modern form: `params` without `_meta`, which is kept apart as
/// [`RequestMeta`], because every era writes that part its own way.
#[derive(Debug, Clone)]
pub struct CallParts {
    pub method: Method,
    /// The parameters without `_meta`, raw.
    pub params: JsonObject,
    /// What the request says about itself and its client.
    pub meta: RequestMeta,
    pub caller: Caller,
    /// How layers may treat it.
    pub options: CallOptions,
}

impl From<CallParts> for Call {
    fn from(parts: CallParts) -> Self {
        Self(Arc::new(parts))
    }
}

impl Deref for Call {
    type Target = CallParts;

    fn deref(&self) -> &CallParts {
        &self.0
    }
}

impl DerefMut for Call {
    fn deref_mut(&mut self) -> &mut CallParts {
        // Copies only while another layer still holds the call.
        Arc::make_mut(&mut self.0)
    }
}

impl Call {
    /// A call with these parameters from ourselves.
    pub fn new(method: Method, params: JsonObject) -> Self {
        let (meta, caller, options) = (RequestMeta::default(), Caller::local(), CallOptions::default());
        Self::from(CallParts { method, params, meta, caller, options })
    }

    pub fn into_parts(self) -> CallParts {
        Arc::unwrap_or_clone(self.0)
    }

    /// A call without parameters.
    pub fn bare(method: Method) -> Self {
        Self::new(method, JsonObject::empty())
    }

    /// A `tools/call`. `arguments` must be an object; `None` sends none.
    pub fn tool(name: &str, arguments: Option<&RawJson>) -> Self {
        let mut params = ObjectWriter::with_capacity(name.len() + 64);
        params.string("name", name);
        if let Some(arguments) = arguments {
            params.raw("arguments", arguments);
        }
        Self::new(Method::ToolsCall, params.finish_object())
    }

    /// The same call from this caller.
    pub fn from_caller(mut self, caller: Caller) -> Self {
        self.caller = caller;
        self
    }

    /// What the call is about: a tool's or prompt's name, a resource's address.
    pub fn subject(&self) -> Option<std::borrow::Cow<'_, str>> {
        self.method.subject_key().and_then(|key| self.params.get_str(key))
    }

    /// True for a call that brings answers to a server's questions.
    pub fn is_answer(&self) -> bool {
        self.params.has("requestState") || self.params.has("inputResponses")
    }

    /// The same call about another subject (a public name becomes a server's own, say).
    pub fn with_subject(mut self, subject: &str) -> Self {
        if let Some(key) = self.method.subject_key() {
            let mut params = ObjectWriter::with_capacity(self.params.bytes().len() + subject.len());
            // The subject moves to the front; the order of members has no meaning.
            params.string(key, subject).members_except(&self.params, &[key]);
            self.params = params.finish_object();
        }
        self
    }

    /// The same call as a retry that brings the answers to an [`InputRequired`](super::InputRequired) outcome.
    /// `state` is echoed exactly, or absent when there was none.
    pub fn retry_with(mut self, responses: Option<&RawJson>, state: Option<&str>) -> Self {
        let mut params = ObjectWriter::with_capacity(self.params.bytes().len() + 128);
        // A second retry must not carry the answers of the first.
        params.members_except(&self.params, &["inputResponses", "requestState"]);
        if let Some(responses) = responses {
            params.raw("inputResponses", responses);
        }
        if let Some(state) = state {
            params.string("requestState", state);
        }
        self.params = params.finish_object();
        self
    }
}

/// How layers may treat one call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallOptions {
    /// How long the call may be silent; the server's setting applies when absent.
    pub timeout: Option<Duration>,
    /// Set when the caller vouches that repeating the call does no harm.
    pub is_idempotent: bool,
    /// Set for calls whose answer must come from the server itself, not from a cache.
    pub skip_cache: bool,
    /// By which face it came in, for those who count calls; empty for our own.
    pub face: &'static str,
    /// The era of MCP that it came in; `None` for faces that do not speak MCP.
    pub era: Option<Era>,
    /// The id of the request it came with, where that is written to a log.
    pub request_id: Option<Arc<str>>,
    /// Where it came from, where a policy asks for that.
    pub address: Option<IpAddr>,
    /// Where its steps are recorded, if they are.
    pub timeline: Option<CallTimeline>,
}

/// The caller of a call: who it is, in which session, and what the request that brought the call may do.
///
/// Two callers are equal when owner and session are. What each of their requests may do does not count.
#[derive(Debug, Clone)]
pub struct Caller(Arc<CallerRecord>);

#[derive(Debug, Clone)]
struct CallerRecord {
    owner: CallOwner,
    session: Option<OwnSession>,
    is_operator: bool,
    authority: Option<CarriedAuthority>,
}

/// A value of the layer that identified the caller. Others carry it and do not look inside.
#[derive(Clone)]
struct CarriedAuthority(Arc<dyn Any + Send + Sync>);

impl fmt::Debug for CarriedAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CarriedAuthority")
    }
}

/// A caller's session: its name, and its lifetime where one is known.
#[derive(Debug, Clone)]
struct OwnSession {
    name: String,
    life: Option<Arc<LifetimeCell>>,
}

impl PartialEq for Caller {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.session() == other.session() && self.owner() == other.owner()
    }
}

impl Eq for Caller {}

impl Hash for Caller {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.owner().hash(state);
        self.session().hash(state);
    }
}

impl Caller {
    /// The program itself: the command at a terminal, or a program that embeds the library.
    pub fn local() -> Self {
        static LOCAL: OnceLock<Caller> = OnceLock::new();
        // Built once: every internal call uses it.
        LOCAL.get_or_init(|| Caller::of(Identity::Local).as_operator()).clone()
    }

    /// A caller with this identity or owner.
    pub fn of(owner: impl Into<CallOwner>) -> Self {
        Self(Arc::new(CallerRecord { owner: owner.into(), session: None, is_operator: false, authority: None }))
    }

    /// The holder of the API key with this name.
    pub fn of_key(name: impl Into<Arc<str>>) -> Self {
        Self::of(Identity::key(name))
    }

    /// The same caller as one who may control this program, and so what its own servers keep.
    pub fn as_operator(&self) -> Self {
        self.with(|record| record.is_operator = true)
    }

    /// The same caller with what this request may do.
    pub fn with_authority<T: Any + Send + Sync>(&self, authority: Arc<T>) -> Self {
        self.with(|record| record.authority = Some(CarriedAuthority(authority)))
    }

    /// What the request may do, as the layer that identified the caller has put it. `None` for callers inside this
    /// program, and for a value of another type.
    pub fn authority<T: Any>(&self) -> Option<&T> {
        self.0.authority.as_ref().and_then(|authority| authority.0.downcast_ref())
    }

    /// The same caller in a session, for servers that keep an instance per session. One with a known end is a
    /// [`SessionLifetime`](super::SessionLifetime).
    pub fn in_session(&self, session: impl Into<String>) -> Self {
        self.with(|record| record.session = Some(OwnSession { name: session.into(), life: None }))
    }

    /// The sender of a request in the session that another request has opened: its own authority, the other's session.
    /// The two must have the same owner.
    pub fn in_session_of(&self, opener: &Self) -> Self {
        let authorities = (self.0.authority.as_ref(), opener.0.authority.as_ref());
        match authorities {
            // The same key sends nearly every request of a session, and then nothing is built.
            (Some(own), Some(others)) if Arc::ptr_eq(&own.0, &others.0) => opener.clone(),
            (None, None) if self.is_operator() == opener.is_operator() => opener.clone(),
            _ => self.with(|record| record.session.clone_from(&opener.0.session)),
        }
    }

    pub(super) fn in_living_session(&self, name: String, life: Arc<LifetimeCell>) -> Self {
        self.with(|record| record.session = Some(OwnSession { name, life: Some(life) }))
    }

    fn with(&self, change: impl FnOnce(&mut CallerRecord)) -> Self {
        // Callers are shared by many calls, so a change makes a new one.
        let mut record = CallerRecord::clone(&self.0);
        change(&mut record);
        Self(Arc::new(record))
    }

    /// Notifies `keeper` once when the caller's session is over, and at once when it is over already. It never notifies
    /// without a session, or with one that has no end.
    pub fn when_session_ends(&self, keeper: Weak<dyn SessionObserver>) {
        if let Some(life) = self.0.session.as_ref().and_then(|session| session.life.as_ref()) {
            life.keep(self, keeper);
        }
    }

    /// Whether this caller can be told from others, by a credential or at least by a session.
    pub fn is_distinct(&self) -> bool {
        *self.identity() != Identity::Anonymous || self.0.session.is_some()
    }

    pub fn identity(&self) -> &Identity {
        &self.0.owner.identity
    }

    /// Whom the caller's sessions, tasks and parked calls belong to.
    pub fn owner(&self) -> &CallOwner {
        &self.0.owner
    }

    /// Whether the caller may control this program: the person at this machine, or the holder of an admin key.
    pub fn is_operator(&self) -> bool {
        self.0.is_operator
    }

    /// The session, when the caller has one.
    pub fn session(&self) -> Option<&str> {
        self.0.session.as_ref().map(|session| session.name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::identity::ClientId;

    #[test]
    fn renaming_a_call_leaves_its_arguments_as_they_were() {
        let arguments = RawJson::literal(r#"{"x": 1.50,"name":"inner"}"#);
        let call = Call::tool("files__read", Some(&arguments)).with_subject("read");
        assert_eq!(call.params.raw().as_str(), r#"{"name":"read","arguments":{"x": 1.50,"name":"inner"}}"#);
        assert_eq!(call.subject().unwrap(), "read");
    }

    #[test]
    fn a_retry_carries_the_answers_and_exactly_the_state_it_was_given() {
        let call = Call::tool("t", None).retry_with(Some(&RawJson::literal("{\"k\":{}}")), Some("s1"));
        assert_eq!(call.params.raw().as_str(), r#"{"name":"t","inputResponses":{"k":{}},"requestState":"s1"}"#);
        let again = call.retry_with(Some(&RawJson::literal("{}")), None);
        assert_eq!(again.params.raw().as_str(), r#"{"name":"t","inputResponses":{}}"#);
    }

    #[test]
    fn callers_are_equal_by_owner_and_session_whatever_their_requests_may_do() {
        let caller = Caller::of_key("ann");
        assert_eq!(caller, Caller::of_key("ann"));
        assert_ne!(caller, caller.in_session("s"));
        assert_ne!(caller, Caller::of(Identity::subject("corp", "ann")));
        assert_eq!(caller, caller.as_operator().with_authority(Arc::new(7)));
        assert!(caller.as_operator().in_session("s").is_operator());
        let owner = |client| CallOwner { client: Some(ClientId::new(client)), ..caller.owner().clone() };
        assert_ne!(Caller::of(owner("editor")), Caller::of(owner("shell")), "two clients of one person");
    }

    #[test]
    fn a_request_in_a_session_keeps_its_own_authority() {
        let broad = Caller::of_key("ann").as_operator().with_authority(Arc::new("broad"));
        let session = broad.in_session("s");
        let narrow = Caller::of_key("ann").with_authority(Arc::new("narrow")).in_session_of(&session);
        assert_eq!(narrow, session);
        assert_eq!((narrow.authority::<&str>(), narrow.is_operator()), (Some(&"narrow"), false));
        assert_eq!(narrow.authority::<u8>(), None, "another type is not found");
        let same = broad.in_session_of(&session);
        assert!(Arc::ptr_eq(&same.0, &session.0), "the usual case builds nothing");
    }

    #[test]
    fn anonymous_callers_are_told_apart_by_their_sessions_alone() {
        let anonymous = Caller::of(Identity::Anonymous).as_operator();
        assert!(!anonymous.is_distinct());
        assert!(anonymous.in_session("s").is_distinct());
        assert!(Caller::of_key("anonymous").is_distinct());
    }
}

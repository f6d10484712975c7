//! What goes down the seam: a modern request, its caller, and how layers may treat it.

use std::hash::{Hash, Hasher};
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::session_lifetime::{LifetimeCell, SessionObserver};
use super::timeline::CallTimeline;
use crate::json::{JsonObject, ObjectWriter, RawJson};
use crate::mcp::Method;
use crate::mcp::meta::RequestMeta;

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
    /// The id of the request it came with, where that is written to a log.
    pub request_id: Option<Arc<str>>,
    /// Where its steps are recorded, if they are.
    pub timeline: Option<CallTimeline>,
}

/// The caller. Parked calls, cached answers and fairness belong to one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Caller(Arc<CallerIdentity>);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct CallerIdentity {
    principal: String,
    session: Option<OwnSession>,
    is_operator: bool,
    is_anybody: bool,
}

/// A caller's session: its name, and its lifetime where one is known.
#[derive(Debug, Clone)]
struct OwnSession {
    name: String,
    life: Option<Arc<LifetimeCell>>,
}

impl PartialEq for OwnSession {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for OwnSession {}

impl Hash for OwnSession {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl Caller {
    /// The program itself: the command at a terminal, or a program that embeds the library.
    pub fn local() -> Self {
        static LOCAL: std::sync::OnceLock<Caller> = std::sync::OnceLock::new();
        // Built once: every internal call uses it.
        LOCAL.get_or_init(|| Caller::new("local").as_operator()).clone()
    }

    /// A caller known by this name (a key's name, a token's subject).
    pub fn new(principal: impl Into<String>) -> Self {
        let (principal, session) = (principal.into(), None);
        Self(Arc::new(CallerIdentity { principal, session, is_operator: false, is_anybody: false }))
    }

    /// Callers that were not asked for a name: they cannot be told apart.
    pub fn any_session_of(principal: impl Into<String>) -> Self {
        Self::new(principal).with(|identity| identity.is_anybody = true)
    }

    /// The same caller as one who may control this program, and so what its own servers keep.
    pub fn as_operator(&self) -> Self {
        self.with(|identity| identity.is_operator = true)
    }

    /// The same caller in a session, for servers that keep an instance per session. One with a known end is a
    /// [`SessionLifetime`](super::SessionLifetime).
    pub fn in_session(&self, session: impl Into<String>) -> Self {
        self.with(|identity| identity.session = Some(OwnSession { name: session.into(), life: None }))
    }

    pub(super) fn in_living_session(&self, name: String, life: Arc<LifetimeCell>) -> Self {
        self.with(|identity| identity.session = Some(OwnSession { name, life: Some(life) }))
    }

    fn with(&self, change: impl FnOnce(&mut CallerIdentity)) -> Self {
        // Callers are shared by many calls, so a change makes a new one.
        let mut identity = CallerIdentity::clone(&self.0);
        change(&mut identity);
        Self(Arc::new(identity))
    }

    /// Notifies `keeper` once when the caller's session is over, and at once when it is over already. It never notifies
    /// without a session, or with one that has no end.
    pub fn when_session_ends(&self, keeper: Weak<dyn SessionObserver>) {
        if let Some(life) = self.0.session.as_ref().and_then(|session| session.life.as_ref()) {
            life.keep(self, keeper);
        }
    }

    /// Whether this caller can be told from others, by a name or at least by a session.
    pub fn has_identity(&self) -> bool {
        !self.0.is_anybody || self.0.session.is_some()
    }

    pub fn principal(&self) -> &str {
        &self.0.principal
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
    fn callers_are_equal_by_name_and_session() {
        let caller = Caller::new("ann");
        assert_eq!(caller, Caller::new("ann"));
        assert_ne!(caller, caller.in_session("s"));
        assert_ne!(caller, caller.as_operator());
        assert!(caller.as_operator().in_session("s").is_operator());
    }

    #[test]
    fn callers_without_a_name_are_told_apart_by_their_sessions_alone() {
        let anybody = Caller::any_session_of("anonymous").as_operator();
        assert!(!anybody.has_identity());
        assert!(anybody.in_session("s").has_identity());
        assert!(Caller::new("ann").has_identity());
    }
}

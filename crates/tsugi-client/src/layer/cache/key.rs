//! What makes two reads the same.

use std::borrow::Cow;
use std::hash::BuildHasher;

use bytes::Bytes;
use foldhash::fast::RandomState;
use tsugi_protocol::answer::{Call, CallOwner, Caller};
use tsugi_protocol::json::{JsonObject, ObjectWriter};
use tsugi_protocol::mcp::{AskableInputs, Method};

/// Entries of `_meta` that say where a call comes from, not what it asks.
const TRACING: [&str; 3] = ["traceparent", "tracestate", "baggage"];

/// What a call asks for, as far as it decides the answer: same method and parameters byte for byte, same owner, a client
/// that can be asked for the same, and no change of the server in between. It borrows from the call: most keys are
/// looked up and never kept.
#[derive(Debug)]
pub(super) struct CacheKeyRef<'call> {
    /// Of the parameters, the owner and what can be asked, made once: a key is looked up several times.
    pub(super) digest: u64,
    method: &'call Method,
    params: Cow<'call, [u8]>,
    /// What others put into `_meta`; absent when there is nothing.
    meta: Option<Bytes>,
    owner: CacheOwner<&'call Caller>,
    /// What the client can be asked for: a server that cannot ask says something else, or refuses. It does not count
    /// for what is everybody's.
    askable: Option<AskableInputs>,
    /// Counts the changes of the server; entries of an older count are never found again.
    epoch: u64,
}

/// An owned key. It copies its parts, so that it does not keep the buffer of the wire alive.
#[derive(Debug)]
pub(super) struct CacheKey {
    method: Method,
    params: Box<[u8]>,
    meta: Option<Bytes>,
    owner: CacheOwner<Caller>,
    askable: Option<AskableInputs>,
    epoch: u64,
}

/// Whose result it is.
#[derive(Debug, Clone, Copy)]
pub(super) enum CacheOwner<C> {
    /// Any caller's.
    Everybody,
    /// One caller's, in all sessions.
    Principal(C),
    /// One caller's in one session.
    Session(C),
}

impl<C: std::borrow::Borrow<Caller>> CacheOwner<C> {
    /// Whose result it is, and in which session, as far as they count. An operator sees more than the same caller
    /// without that right.
    fn parts(&self) -> (u8, Option<(&CallOwner, bool)>, Option<&str>) {
        match self {
            CacheOwner::Everybody => (0, None, None),
            CacheOwner::Principal(caller) => (1, Some(owner_of(caller.borrow())), None),
            CacheOwner::Session(caller) => (2, Some(owner_of(caller.borrow())), caller.borrow().session()),
        }
    }
}

fn owner_of(caller: &Caller) -> (&CallOwner, bool) {
    (caller.owner(), caller.is_operator())
}

impl<'call> CacheKeyRef<'call> {
    pub(super) fn of(call: &'call Call, owner: CacheOwner<&'call Caller>, epoch: u64, hasher: &RandomState) -> Self {
        let params = match call.params.is_whole() {
            true => Cow::Borrowed(&call.params.bytes()[..]),
            false => Cow::Owned(call.params.raw().bytes().to_vec()),
        };
        let askable = Some(call.meta.client.capabilities.askable());
        let digest = hasher.hash_one((&params[..], owner.parts(), askable));
        Self { digest, method: &call.method, params, meta: meta_of(call), owner, askable, epoch }
    }

    /// The same read, shared by all callers.
    pub(super) fn for_everybody(&self, hasher: &RandomState) -> CacheKeyRef<'_> {
        everybodys(self.method, &self.params, &self.meta, self.epoch, hasher)
    }

    /// As an owned key.
    pub(super) fn to_key(&self) -> CacheKey {
        let owner = match self.owner {
            CacheOwner::Everybody => CacheOwner::Everybody,
            CacheOwner::Principal(caller) => CacheOwner::Principal(caller.clone()),
            CacheOwner::Session(caller) => CacheOwner::Session(caller.clone()),
        };
        let (params, meta) = (Box::from(&self.params[..]), self.meta.clone());
        CacheKey { method: self.method.clone(), params, meta, owner, askable: self.askable, epoch: self.epoch }
    }
}

impl CacheKey {
    /// Whether two calls with these have the same answer.
    pub(super) fn is(&self, sought: &CacheKeyRef<'_>) -> bool {
        self.params[..] == sought.params[..]
            && self.epoch == sought.epoch
            && self.askable == sought.askable
            && self.method == *sought.method
            && self.owner.parts() == sought.owner.parts()
            && self.meta == sought.meta
    }

    /// Whether it belongs to one session.
    pub(super) fn is_of_session(&self) -> bool {
        matches!(self.owner, CacheOwner::Session(_))
    }

    /// The same read, shared by all callers.
    pub(super) fn for_everybody(&self, hasher: &RandomState) -> CacheKeyRef<'_> {
        everybodys(&self.method, &self.params, &self.meta, self.epoch, hasher)
    }

    /// Whether it reads this resource.
    pub(super) fn reads(&self, uri: &str) -> bool {
        if self.method != Method::ResourcesRead {
            return false;
        }
        let params = JsonObject::parse(Bytes::copy_from_slice(&self.params));
        params.is_ok_and(|params| params.get_str("uri").as_deref() == Some(uri))
    }
}

fn everybodys<'key>(
    method: &'key Method,
    params: &'key [u8],
    meta: &Option<Bytes>,
    epoch: u64,
    hasher: &RandomState,
) -> CacheKeyRef<'key> {
    let (owner, askable) = (CacheOwner::<&Caller>::Everybody, None);
    let digest = hasher.hash_one((params, owner.parts(), askable));
    CacheKeyRef { digest, method, params: Cow::Borrowed(params), meta: meta.clone(), owner, askable, epoch }
}

fn meta_of(call: &Call) -> Option<Bytes> {
    if call.meta.rest.is_empty() {
        return None;
    }
    let mut meta = ObjectWriter::with_capacity(call.meta.rest.bytes().len());
    meta.members(&call.meta.rest, |key| !TRACING.contains(&key));
    (!meta.is_empty()).then(|| meta.finish().bytes().clone())
}

//! What makes two reads the same.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};

use bytes::Bytes;
use tsugi_protocol::answer::{Call, Caller};
use tsugi_protocol::json::Splice;
use tsugi_protocol::mcp::Method;

/// Entries of `_meta` that say where a call comes from, not what it asks.
const TRACING: [&str; 3] = ["traceparent", "tracestate", "baggage"];

/// Two calls with the same key have the same answer: same method and parameters byte for byte, same owner, and
/// no change of the server between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Key {
    /// Of the parameters, made once: keys are looked up several times.
    digest: u64,
    method: Method,
    params: Bytes,
    /// What others put into `_meta`; absent when there is nothing.
    meta: Option<Bytes>,
    owner: Owner,
    /// Counts the changes of the server; entries of an older count are never found again.
    epoch: u64,
}

/// Whose result it is.
#[derive(Debug, Clone)]
pub(super) enum Owner {
    /// Anybody's.
    Everybody,
    /// One caller's, in all sessions.
    Principal(Caller),
    /// One caller's in one session.
    Session(Caller),
}

impl Owner {
    /// The caller's name and session, as far as they count.
    fn parts(&self) -> (u8, Option<&str>, Option<&str>) {
        match self {
            Owner::Everybody => (0, None, None),
            Owner::Principal(caller) => (1, Some(caller.principal()), None),
            Owner::Session(caller) => (2, Some(caller.principal()), caller.session()),
        }
    }
}

impl PartialEq for Owner {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for Owner {}

impl Hash for Owner {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts().hash(state);
    }
}

impl Key {
    pub(super) fn of(call: &Call, owner: Owner, epoch: u64, hasher: &RandomState) -> Self {
        // Copied: a key must not keep the buffer of the wire alive.
        let params = Bytes::copy_from_slice(call.params.bytes());
        let digest = hasher.hash_one(&params);
        Self { digest, method: call.method.clone(), params, meta: meta_of(call), owner, epoch }
    }

    /// Whether it belongs to one session.
    pub(super) fn is_of_session(&self) -> bool {
        matches!(self.owner, Owner::Session(_))
    }

    /// The same read for everybody.
    pub(super) fn for_everybody(&self) -> Self {
        Self { owner: Owner::Everybody, ..self.clone() }
    }

    /// Whether it reads this resource.
    pub(super) fn reads(&self, uri: &str) -> bool {
        if self.method != Method::ResourcesRead {
            return false;
        }
        let params = tsugi_protocol::json::Object::parse(self.params.clone());
        params.is_ok_and(|params| params.get_str("uri").as_deref() == Some(uri))
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.digest);
        self.owner.hash(state);
    }
}

fn meta_of(call: &Call) -> Option<Bytes> {
    if call.meta.rest.is_empty() {
        return None;
    }
    let mut meta = Splice::with_capacity(call.meta.rest.bytes().len());
    meta.members(&call.meta.rest, |key| !TRACING.contains(&key));
    (!meta.is_empty()).then(|| meta.finish().bytes().clone())
}

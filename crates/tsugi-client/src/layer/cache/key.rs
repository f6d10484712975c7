//! What makes two reads the same.

use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher};
use std::sync::Arc;

use bytes::Bytes;
use foldhash::fast::RandomState;
use tsugi_protocol::answer::{Call, Caller};
use tsugi_protocol::json::Splice;
use tsugi_protocol::mcp::{Askable, Method};

/// Entries of `_meta` that say where a call comes from, not what it asks.
const TRACING: [&str; 3] = ["traceparent", "tracestate", "baggage"];

/// Two calls with the same key have the same answer: same method and parameters byte for byte, same owner, a client
/// that can be asked for the same, and no change of the server between them. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Key(Arc<Parts>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Parts {
    /// Of the parameters, the owner and what can be asked, made once: keys are looked up several times.
    digest: u64,
    method: Method,
    params: Box<[u8]>,
    /// What others put into `_meta`; absent when there is nothing.
    meta: Option<Bytes>,
    owner: Owner,
    /// What the client can be asked for: a server that cannot ask says something else, or refuses. It does not count
    /// for what is everybody's.
    askable: Option<Askable>,
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
        let params: Box<[u8]> = call.params.raw().bytes()[..].into();
        let askable = Some(call.meta.client.capabilities.askable());
        let digest = hasher.hash_one((&params, &owner, askable));
        let (method, meta) = (call.method.clone(), meta_of(call));
        Self(Arc::new(Parts { digest, method, params, meta, owner, askable, epoch }))
    }

    /// Whether it belongs to one session.
    pub(super) fn is_of_session(&self) -> bool {
        matches!(self.0.owner, Owner::Session(_))
    }

    /// The same read for everybody.
    pub(super) fn for_everybody(&self, hasher: &RandomState) -> Self {
        let (owner, askable) = (Owner::Everybody, None);
        let digest = hasher.hash_one((&self.0.params, &owner, askable));
        Self(Arc::new(Parts { digest, owner, askable, ..Parts::clone(&self.0) }))
    }

    /// Whether it reads this resource.
    pub(super) fn reads(&self, uri: &str) -> bool {
        if self.0.method != Method::ResourcesRead {
            return false;
        }
        let params = tsugi_protocol::json::Object::parse(Bytes::copy_from_slice(&self.0.params));
        params.is_ok_and(|params| params.get_str("uri").as_deref() == Some(uri))
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.digest);
    }
}

/// Places keys in a table by their digest, which nobody outside can foresee.
pub(super) type ByDigest = BuildHasherDefault<Digest>;

/// Passes a key's digest on as it is.
#[derive(Default)]
pub(super) struct Digest(u64);

impl Hasher for Digest {
    fn write(&mut self, _: &[u8]) {
        unreachable!("a key is hashed as one number");
    }

    fn write_u64(&mut self, digest: u64) {
        self.0 = digest;
    }

    fn finish(&self) -> u64 {
        self.0
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

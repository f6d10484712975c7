//! Legacy sessions over HTTP: who they belong to, how many there may be, when they are forgotten.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ::http::StatusCode;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use tokio::time::Instant;
use tsugi_protocol::answer::{self, CallOwner, Caller, FaultCode, Identity};

use super::replay::{ReplayBudget, ReplaySource, ReplayStream};
use crate::config::GatewayLimits;
use crate::face::legacy_session::LegacySession;
use crate::guard::principal::Principal;
use crate::guard::refusal::HttpRefusal;

/// How many finished streams of one session are kept for readers that come back.
const KEPT_STREAMS: usize = 32;
/// How many streams of one session go on although their client is gone. Those that it reads are as many as its
/// connections.
const LEFT_STREAMS: usize = 64;
/// Which part of what all sessions may keep one of them may.
const SHARE: usize = 8;
/// How many sessions are looked at to find one that can go when the table is full.
const SAMPLE: usize = 16;

/// One session.
pub(crate) struct ClientSession {
    pub(super) conversation: Arc<LegacySession>,
    pub(super) standing: Arc<ReplayStream>,
    /// The name by which servers know it, and its end.
    life: answer::SessionLifetime,
    owner: CallOwner,
    /// Which address it was opened at: the name of a server, or nothing for all together.
    place: Option<String>,
    streams: Mutex<Vec<Arc<ReplayStream>>>,
    next_stream: AtomicU64,
    replay_limit: usize,
    kept_limit: usize,
    budget: Arc<ReplayBudget>,
    used_at: Mutex<Instant>,
}

impl ClientSession {
    /// Opens a stream for these requests of a caller.
    pub(super) fn open(&self, source: ReplaySource, caller: &Caller) -> Arc<ReplayStream> {
        let number = self.next_stream.fetch_add(1, Ordering::Relaxed);
        let replay = Arc::new(ReplayStream::new(number, self.replay_limit, self.budget.clone()));
        replay.feed(source, caller);
        let mut streams = self.streams.lock();
        // On every new stream, so that a busy session needs no sweep.
        self.thin_out(&mut streams);
        let surplus = surplus(&mut streams);
        streams.push(replay.clone());
        drop(streams);
        // Their calls are cancelled, which is not to be done under the lock.
        surplus.iter().for_each(ReplayStream::end);
        replay
    }

    /// Drops finished streams beyond the number and the bytes that are kept, the oldest first. The newest stays, however
    /// large it is.
    fn thin_out(&self, streams: &mut Vec<Arc<ReplayStream>>) {
        let (mut count, mut bytes) = (0, 0);
        for index in (0..streams.len()).rev() {
            let Some(size) = streams[index].size_at_end() else { continue };
            count += 1;
            bytes += size;
            let is_too_much = count > KEPT_STREAMS || count > 1 && bytes > self.kept_limit;
            if is_too_much || streams[index].is_forgotten() {
                streams.remove(index);
            }
        }
    }

    /// The stream with this number; 0 is the one for changes.
    pub(super) fn stream(&self, number: u64) -> Option<Arc<ReplayStream>> {
        if number == self.standing.number() {
            return Some(self.standing.clone());
        }
        let streams = self.streams.lock();
        streams.iter().find(|stream| stream.number() == number && !stream.is_forgotten()).cloned()
    }

    fn touch(&self) {
        *self.used_at.lock() = Instant::now();
    }

    fn forget_streams(&self, age: Duration) {
        let is_fresh = |stream: &Arc<ReplayStream>| stream.ended_at().is_none_or(|ended| ended.elapsed() < age);
        let mut streams = self.streams.lock();
        streams.retain(is_fresh);
        streams.shrink_to_fit();
    }

    fn end(&self) {
        self.conversation.end();
        self.standing.end();
        for stream in self.streams.lock().iter() {
            stream.end();
        }
        self.life.end();
    }
}

/// Takes out the streams that go on without their client beyond the number that may, the oldest first.
fn surplus(streams: &mut Vec<Arc<ReplayStream>>) -> Vec<Arc<ReplayStream>> {
    let left = streams.iter().filter(|stream| stream.is_left()).count();
    let mut too_many = left.saturating_sub(LEFT_STREAMS);
    let is_surplus = |stream: &mut Arc<ReplayStream>| {
        let is_surplus = too_many > 0 && stream.is_left();
        too_many -= usize::from(is_surplus);
        is_surplus
    };
    streams.extract_if(.., is_surplus).collect()
}

/// All sessions of a gateway.
pub(crate) struct ClientSessionTable {
    limits: GatewayLimits,
    budget: Arc<ReplayBudget>,
    inner: Mutex<ClientSessionRows>,
}

#[derive(Default)]
struct ClientSessionRows {
    places: HashMap<Arc<str>, usize>,
    /// In no order, so that a few can be looked at without looking at all.
    entries: Vec<(Arc<str>, Arc<ClientSession>)>,
    per_caller: HashMap<Identity, usize>,
}

impl ClientSessionTable {
    pub(crate) fn new(limits: &GatewayLimits) -> Self {
        Self { limits: limits.clone(), budget: Arc::new(ReplayBudget::new(limits.replays)), inner: Mutex::default() }
    }

    /// Keeps a session under a fresh id that cannot be guessed.
    pub(super) fn insert(
        &self,
        principal: &Principal,
        place: Option<String>,
        conversation: LegacySession,
        life: answer::SessionLifetime,
    ) -> Result<Arc<str>, HttpRefusal> {
        // 144 bits, which base64 writes without padding.
        let random: [u8; 18] = rand::random();
        let id: Arc<str> = BASE64_URL_SAFE_NO_PAD.encode(random).into();
        let session = Arc::new(ClientSession {
            conversation: Arc::new(conversation),
            standing: Arc::new(ReplayStream::new(0, self.limits.replay, self.budget.clone())),
            life,
            owner: principal.caller().owner().clone(),
            place,
            streams: Mutex::default(),
            next_stream: AtomicU64::new(1),
            replay_limit: self.limits.replay,
            kept_limit: self.limits.replays / SHARE,
            budget: self.budget.clone(),
            used_at: Mutex::new(Instant::now()),
        });
        let mut inner = self.inner.lock();
        // Callers without a key share one name, so a limit per caller would lock them all out.
        if principal.is_authenticated() && inner.count_of(principal.identity()) >= self.limits.sessions_per_caller {
            return Err(too_many("this caller has too many sessions"));
        }
        if inner.entries.len() >= self.limits.sessions && !inner.evict_one() {
            return Err(too_many("there are too many sessions"));
        }
        inner.insert(id.clone(), session);
        Ok(id)
    }

    /// The session with this id, if it is this caller's and was opened at this address.
    pub(super) fn find(&self, id: &str, principal: &Principal, place: Option<&str>) -> Option<Arc<ClientSession>> {
        let inner = self.inner.lock();
        let (_, session) = &inner.entries[*inner.places.get(id)?];
        // What a request may do is its own matter; here only the owner counts.
        let is_theirs = session.owner == *principal.caller().owner() && session.place.as_deref() == place;
        is_theirs.then(|| {
            session.touch();
            session.clone()
        })
    }

    /// Ends a session.
    pub(super) fn remove(&self, id: &str) {
        let removed = self.inner.lock().remove(id);
        if let Some(session) = removed {
            session.end();
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.inner.lock().entries.len()
    }

    /// Forgets sessions that were unused for long, and streams that no client came back to.
    pub(crate) fn sweep(&self) {
        // Copied, so that requests do not wait for the sweep.
        let sessions: Vec<(Arc<str>, Arc<ClientSession>)> = self.inner.lock().entries.clone();
        for (id, session) in sessions {
            session.forget_streams(self.limits.replay_age);
            // Beside the table's and ours, a reader or a request may hold it.
            let is_used = Arc::strong_count(&session) > 2;
            if !is_used && session.used_at.lock().elapsed() >= self.limits.session_idle {
                self.remove(&id);
            }
        }
    }
}

impl ClientSessionRows {
    fn count_of(&self, caller: &Identity) -> usize {
        self.per_caller.get(caller).copied().unwrap_or(0)
    }

    fn insert(&mut self, id: Arc<str>, session: Arc<ClientSession>) {
        *self.per_caller.entry(session.owner.identity.clone()).or_default() += 1;
        self.places.insert(id.clone(), self.entries.len());
        self.entries.push((id, session));
    }

    fn remove(&mut self, id: &str) -> Option<Arc<ClientSession>> {
        let place = self.places.remove(id)?;
        let (_, session) = self.entries.swap_remove(place);
        // `swap_remove` has put the last entry here.
        if let Some((moved, _)) = self.entries.get(place) {
            self.places.insert(moved.clone(), place);
        }
        if let Some(count) = self.per_caller.get_mut(&session.owner.identity) {
            *count -= 1;
            if *count == 0 {
                self.per_caller.remove(&session.owner.identity);
            }
        }
        Some(session)
    }

    /// Makes room by ending the idlest of a few unused sessions.
    fn evict_one(&mut self) -> bool {
        let looked_at = (0..SAMPLE).map(|_| rand::random_range(0..self.entries.len()));
        let unused = looked_at.filter(|index| Arc::strong_count(&self.entries[*index].1) == 1);
        let idlest = unused.min_by_key(|index| *self.entries[*index].1.used_at.lock());
        let Some(id) = idlest.map(|index| self.entries[index].0.clone()) else { return false };
        if let Some(session) = self.remove(&id) {
            session.end();
        }
        true
    }
}

fn too_many(message: &'static str) -> HttpRefusal {
    HttpRefusal::new(StatusCode::SERVICE_UNAVAILABLE, FaultCode::Overloaded, message)
        .retry_after(Duration::from_secs(60))
}

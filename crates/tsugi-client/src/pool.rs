//! Several instances of one server: which of them gets a call, when a new one starts, when one rests.

mod member;
mod questions;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio_util::task::TaskTracker;
use tsugi_protocol::answer::session_lifetime::SessionObserver;
use tsugi_protocol::answer::{Answer, Call, Caller, Fault, FaultCode, Reply};
use tsugi_protocol::codec::framing::FramingKind;
use tsugi_protocol::mcp::{AskableInputs, ClientCapabilities, Era};

use crate::config::{InstancePolicy, StartPolicy};
use crate::connection::era_cache::{EraCache, KnownEra};
use crate::server::{Instance, InstanceRole, ManagerShared, ServerStatus};
use member::{InstanceLease, PoolMember};
use questions::QuestionOwners;

/// The instances of a server. The first one always exists: it provides the catalog.
pub(crate) struct InstancePool {
    first: Arc<PoolMember>,
    common: Arc<ManagerShared>,
    kind: InstancePolicy,
    more: Mutex<Vec<PoolSlot>>,
    numbers: AtomicU64,
    /// Which instance asked a question, by the state that comes back with the answer.
    question_owners: Arc<QuestionOwners>,
    leaving: TaskTracker,
    /// A session may end on a thread without a runtime.
    runtime: Handle,
    own: Weak<InstancePool>,
    janitor: Option<AbortHandle>,
}

/// An instance besides the first.
struct PoolSlot {
    owner: Option<InstanceOwner>,
    member: Arc<PoolMember>,
}

/// Whose an instance is, and on which terms it was opened: those of its caller.
#[derive(Clone, PartialEq)]
struct InstanceOwner {
    caller: Caller,
    askable: AskableInputs,
    announces_roots: bool,
    era: Era,
}

impl InstanceOwner {
    fn of(call: &Call) -> Self {
        let client = &call.meta.client;
        let (askable, era) = (client.capabilities.askable(), client.version.era());
        Self { caller: call.caller.clone(), askable, announces_roots: client.capabilities.announces_roots(), era }
    }

    fn capabilities(&self) -> ClientCapabilities {
        self.askable.to_capabilities().announcing_roots(self.announces_roots)
    }
}

impl InstancePool {
    /// For a server that has more than one instance or rests when it is idle; `None` for others.
    pub(crate) fn of(instance: &Arc<Instance>, common: &Arc<ManagerShared>) -> Option<Arc<Self>> {
        let (kind, idle) = (instance.config.instances, instance.config.idle_timeout);
        // One instance that never rests needs no pool around it.
        if kind == InstancePolicy::Shared && idle.is_none() {
            return None;
        }
        let first = PoolMember::first(instance.clone());
        let question_owners = Arc::new(QuestionOwners::new(instance.options.input_lifetime));
        Some(Arc::new_cyclic(|pool: &Weak<InstancePool>| Self {
            first,
            common: common.clone(),
            kind,
            more: Mutex::default(),
            numbers: AtomicU64::new(1),
            question_owners,
            leaving: TaskTracker::new(),
            runtime: Handle::current(),
            own: pool.clone(),
            janitor: idle.map(|idle| tokio::spawn(sweep(pool.clone(), idle, InstancePool::rest)).abort_handle()),
        }))
    }

    /// Adds how many run, how many calls they have, and how many of those wait for input.
    pub(crate) fn add_to_status(&self, status: &mut ServerStatus) {
        let more = self.more.lock();
        (status.instances, status.in_flight, status.parked) = (0, 0, 0);
        for member in more.iter().map(|slot| &slot.member).chain([&self.first]) {
            status.instances += usize::from(member.is_running());
            status.in_flight += member.calls();
            status.parked += member.parked();
        }
    }

    /// Stops all instances but the first and waits until they are gone.
    pub(crate) async fn stop(&self) {
        let slots = std::mem::take(&mut *self.more.lock());
        futures_util::future::join_all(slots.iter().map(|slot| slot.member.stop())).await;
        self.leaving.close();
        self.leaving.wait().await;
        self.leaving.reopen();
    }

    /// Ends all instances but the first without waiting: the manager has let the server go.
    pub(crate) fn let_go(&self) {
        let slots = std::mem::take(&mut *self.more.lock());
        for slot in slots {
            slot.member.instance().let_go();
        }
    }

    fn pick(&self, call: &Call) -> Result<InstanceLease, Fault> {
        match self.kind {
            // No instance is started for a removed server; the first one returns the error.
            _ if self.first.instance().is_let_go() => Ok(self.first.lease()),
            InstancePolicy::Shared => Ok(self.first.lease()),
            InstancePolicy::PerSession if !call.caller.is_distinct() => Err(self.nobodys()),
            InstancePolicy::PerSession => self.of_session(InstanceOwner::of(call), self.asker(call)),
            InstancePolicy::Auto if !self.first.instance().asks() => Ok(self.first.lease()),
            InstancePolicy::Auto => Ok(self.least_busy(call, self.first.instance().config.max_connections)),
            InstancePolicy::Pool(most) => Ok(self.least_busy(call, most)),
        }
    }

    /// The instance of this caller in this session.
    fn of_session(&self, owner: InstanceOwner, asker: Option<u64>) -> Result<InstanceLease, Fault> {
        let mut more = self.more.lock();
        // An answer goes to the instance that asked, even when its caller declares other capabilities by now.
        let is_its = |slot: &&PoolSlot| match (&slot.owner, asker) {
            (Some(other), Some(number)) => other.caller == owner.caller && slot.member.number() == number,
            (other, _) => other.as_ref() == Some(&owner),
        };
        if let Some(slot) = more.iter().find(is_its) {
            return Ok(slot.member.lease());
        }
        // The first instance has a connection too.
        let most = self.first.instance().config.max_connections.saturating_sub(1).max(1);
        if more.len() >= most {
            let unused = more.iter().enumerate().filter(|(_, slot)| slot.member.is_unused());
            let Some((index, _)) = unused.min_by_key(|(_, slot)| slot.member.last_used()) else {
                return Err(self.full(most));
            };
            let slot = more.swap_remove(index);
            self.retire(slot.member);
        }
        let member = self.start(Some(&owner));
        let (lease, caller) = (member.lease(), owner.caller.clone());
        more.push(PoolSlot { owner: Some(owner), member });
        // A session that has ended already calls back at once, which needs the lock.
        drop(more);
        let keeper: Weak<dyn SessionObserver> = self.own.clone();
        caller.when_session_ends(keeper);
        Ok(lease)
    }

    /// One process for all who have no name would mix what belongs to each of them.
    fn nobodys(&self) -> Fault {
        let message = "each caller has an instance of this server of its own, and this call does not say whose it is";
        let fault = Fault::new(FaultCode::PermissionDenied, message).on_server(&self.first.instance().config.name);
        fault.with_hint("call with a key (`tsugi key add`), or in a session: `initialize`, a WebSocket or stdio")
    }

    /// The number of the instance that asked what this call brings the answer to.
    fn asker(&self, call: &Call) -> Option<u64> {
        self.question_owners.get(&call.params.get_str("requestState")?)
    }

    fn full(&self, most: usize) -> Fault {
        let message = format!("all {most} connections for sessions are in use");
        let mut fault = Fault::new(FaultCode::Overloaded, message).on_server(&self.first.instance().config.name);
        fault.retry_after_ms = Some(1000);
        fault.with_hint("raise `maxConnections`")
    }

    /// The instance with the fewest calls, parked ones included: they hold its turn. A new one while all have some and
    /// there may be more. An answer to a question goes to the one that asked.
    fn least_busy(&self, call: &Call, most: usize) -> InstanceLease {
        let mut more = self.more.lock();
        if let Some(number) = self.asker(call) {
            let asked = more.iter().map(|slot| &slot.member).find(|instance| instance.number() == number);
            return asked.unwrap_or(&self.first).lease();
        }
        let all = more.iter().map(|slot| &slot.member).chain([&self.first]);
        let least = all.min_by_key(|instance| (instance.burden(), instance.number())).unwrap_or(&self.first);
        // The first instance is not in `more`, but counts.
        if least.burden() == 0 || more.len() + 1 >= most {
            return least.lease();
        }
        let member = self.start(None);
        let lease = member.lease();
        more.push(PoolSlot { owner: None, member });
        lease
    }

    /// A new instance. One that has an owner hears of what its owner can be asked for, and in its owner's era if it
    /// speaks that.
    fn start(&self, owner: Option<&InstanceOwner>) -> Arc<PoolMember> {
        let first = self.first.instance();
        let mut config = first.config.clone();
        config.start = StartPolicy::Lazy;
        let mut common =
            owner.map_or_else(|| (*self.common).clone(), |owner| self.common.declaring(owner.capabilities()));
        if owner.is_some_and(|owner| owner.era == Era::Legacy) {
            // As if the server were known to speak it: that is tried first, and the other era after it.
            let framing = common.memory.get(&config.target).map_or(FramingKind::Line, |known| known.framing);
            common.memory = Arc::new(EraCache::open(None));
            common.memory.set(&config.target, KnownEra { era: Era::Legacy, framing });
        }
        let (instance, task) = Instance::spawn(config, &common, None, first.layers.clone(), InstanceRole::Replica);
        PoolMember::further(instance, task, self.numbers.fetch_add(1, Relaxed))
    }

    /// The instance on the terms of this call's caller, if there is one and its server was promised to hear when the
    /// caller's roots change.
    pub(crate) fn promised_roots(&self, call: &Call) -> Option<Arc<Instance>> {
        let owner = InstanceOwner::of(call);
        let is_its = |slot: &&PoolSlot| owner.announces_roots && slot.owner.as_ref() == Some(&owner);
        let instance = self.more.lock().iter().find(is_its).map(|slot| slot.member.instance().clone());
        instance.filter(|instance| instance.era() == Some(Era::Legacy))
    }

    /// Lets an instance go in the background.
    fn retire(&self, instance: Arc<PoolMember>) {
        tracing::info!(server = %self.first.instance().config.name, "an instance that no caller uses is stopped");
        self.leaving.spawn_on(async move { instance.stop().await }, &self.runtime);
    }

    /// Lets these instances go.
    fn retire_all(&self, is_over: impl Fn(&PoolSlot) -> bool) {
        let gone: Vec<PoolSlot> = self.more.lock().extract_if(.., |slot| is_over(slot)).collect();
        for slot in gone {
            self.retire(slot.member);
        }
    }

    /// Stops what was not used for so long.
    fn rest(&self, idle: Duration) {
        let is_idle = |instance: &PoolMember| instance.is_unused() && instance.last_used().elapsed() >= idle;
        self.retire_all(|slot| is_idle(&slot.member));
        if is_idle(&self.first) && self.first.is_running() {
            self.first.instance().rest();
        }
    }
}

/// Lets what is idle rest, as long as its owner is there. It looks several times per idle time, so that nothing rests
/// much later than it should.
pub(crate) async fn sweep<T>(owner: Weak<T>, idle: Duration, rest: fn(&T, Duration)) {
    let pause = (idle / 4).clamp(Duration::from_millis(5), Duration::from_secs(30));
    loop {
        tokio::time::sleep(pause).await;
        match owner.upgrade() {
            Some(owner) => rest(&owner, idle),
            None => return,
        }
    }
}

impl Drop for InstancePool {
    fn drop(&mut self) {
        if let Some(janitor) = &self.janitor {
            janitor.abort();
        }
    }
}

impl SessionObserver for InstancePool {
    /// A session's instance ends with it, even with calls in flight: their caller is gone.
    fn session_ended(&self, caller: &Caller) {
        self.retire_all(|slot| slot.owner.as_ref().is_some_and(|owner| owner.caller == *caller));
    }
}

impl Answer for InstancePool {
    fn answer(&self, call: Call) -> Reply {
        match self.pick(&call) {
            Ok(lease) => lease.answer(call, self.question_owners.clone()),
            Err(fault) => Reply::fault(fault),
        }
    }
}

#[cfg(test)]
mod tests;

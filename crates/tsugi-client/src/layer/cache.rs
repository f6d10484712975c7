//! Results of reads kept for a while, and identical reads under way made one.

mod flight;
mod key;
mod shelf;
mod store;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tsugi_protocol::answer::{Answer, Call, Caller, Complete, Outcome, Reply};
use tsugi_protocol::json::{Object, Splice};
use tsugi_protocol::mcp::freshness::{CacheScope, Freshness};
use tsugi_protocol::mcp::{Method, tool};

use crate::config::{Instances, Switch};
use crate::tools::{KnownTool, Tools};
use key::{Owner, Sought};
pub use store::Counts;
use store::Role;
pub(crate) use store::Store;

/// Answers reads from a store. Only reads are kept: tools that are read-only or configured so, and
/// resources whose server says for how long.
pub(crate) struct Cache {
    inner: Arc<dyn Answer>,
    tools: Arc<Tools>,
    store: Arc<Store>,
    instances: Instances,
    keeps: Keeps,
}

/// What is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keeps {
    /// Every read.
    Reads,
    /// Only the results of tools for which that is configured.
    Configured,
}

impl Cache {
    /// Around `inner`.
    pub(crate) fn new(
        inner: Arc<dyn Answer>,
        tools: Arc<Tools>,
        store: Arc<Store>,
        instances: Instances,
        keeps: Keeps,
    ) -> Self {
        Self { inner, tools, store, instances, keeps }
    }

    /// How long the result of this call may be kept; `None` when it may not.
    fn lifetime(&self, call: &Call) -> Option<Lifetime> {
        if call.is_answer() || call.options.skip_cache {
            return None;
        }
        match call.method {
            Method::ResourcesRead => (self.keeps == Keeps::Reads).then_some(Lifetime::AsServerSays),
            Method::ToolsCall => self.tools.of(call, |tool| self.lifetime_of(tool))?,
            _ => None,
        }
    }

    fn lifetime_of(&self, tool: &KnownTool) -> Option<Lifetime> {
        let is_kept = match tool.settings.cache {
            Switch::On => true,
            Switch::Off => false,
            Switch::Auto => tool.is_read_only && self.keeps == Keeps::Reads,
        };
        is_kept.then(|| Lifetime::Fixed(tool.settings.cache_ttl.unwrap_or(self.store.ttl())))
    }

    /// Whose result it is: what a server with a state per session says is for that session alone.
    fn owner<'call>(&self, call: &'call Call) -> Owner<&'call Caller> {
        match self.instances {
            Instances::PerSession => Owner::Session(&call.caller),
            _ => Owner::Principal(&call.caller),
        }
    }

    /// What is to be done about a call whose result may be kept.
    fn role(&self, call: &Call, lifetime: Lifetime) -> Role {
        let sought = self.store.sought(call, self.owner(call));
        if let Some(complete) = self.shared(&sought, &lifetime) {
            return Role::Kept(complete);
        }
        // Notes are written for one caller, so one who wants them asks alone.
        if call.meta.progress_token.is_none() && call.meta.log_level.is_none() {
            return self.store.join(&sought, lifetime);
        }
        match self.store.get(&sought) {
            Some(complete) => Role::Kept(complete),
            None => Role::Alone,
        }
    }

    /// A result that its server calls public, where no state per session can have gone into it.
    fn shared(&self, sought: &Sought<'_>, lifetime: &Lifetime) -> Option<Complete> {
        if *lifetime != Lifetime::AsServerSays || self.instances == Instances::PerSession {
            return None;
        }
        self.store.get_everybodys(sought)
    }
}

fn from_before(call: &Call, complete: Complete) -> Reply {
    note(call, "the result was kept from before");
    Reply::ready(Outcome::Complete(complete))
}

/// Tells somebody who looks at the call.
fn note(call: &Call, words: &str) {
    if let Some(timeline) = &call.options.timeline {
        let now = Instant::now();
        timeline.add("cache", now, now, Some(words.to_owned()));
    }
}

impl Answer for Cache {
    fn answer(&self, call: Call) -> Reply {
        let Some(lifetime) = self.lifetime(&call) else { return self.inner.answer(call) };
        match self.role(&call, lifetime) {
            Role::Kept(complete) => from_before(&call, complete),
            Role::Leader(rider) => rider.depart(self.inner.answer(call)),
            Role::Follower(rider) => {
                note(&call, "waits for the same call of somebody else");
                rider.follow(self.inner.clone(), call)
            }
            Role::Alone => {
                self.store.count_miss();
                self.inner.answer(call)
            }
        }
    }
}

/// For how long a result is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lifetime {
    /// As long as the result itself says.
    AsServerSays,
    /// So long.
    Fixed(Duration),
}

impl Lifetime {
    /// How long and for whom this result is kept; `None` when it is not.
    fn of(&self, body: &Object) -> Option<(Duration, CacheScope)> {
        if tool::is_error(body) {
            return None;
        }
        let (ttl, scope) = match self {
            Lifetime::Fixed(ttl) => (*ttl, CacheScope::Private),
            Lifetime::AsServerSays => {
                let freshness = Freshness::of(body);
                (Duration::from_millis(freshness.ttl_ms), freshness.scope)
            }
        };
        (!ttl.is_zero()).then_some((ttl, scope))
    }
}

/// The result as it is now: what it says about its own freshness has grown shorter.
fn aged(complete: Complete, remaining: Duration) -> Complete {
    if !complete.body.has("ttlMs") {
        return complete;
    }
    let mut body = Splice::with_capacity(complete.body.bytes().len() + 16);
    body.members_but(&complete.body, &["ttlMs"]).number("ttlMs", remaining.as_millis() as u64);
    Complete { body: body.finish_object(), ..complete }
}

#[cfg(test)]
mod tests;

//! Caches results of reads, and merges identical reads in flight into one.

mod key;
mod lru;
mod shared_read;
mod store;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tsugi_protocol::answer::{Answer, Call, Caller, CompletedResult, Outcome, Reply};
use tsugi_protocol::json::{JsonObject, ObjectWriter};
use tsugi_protocol::mcp::cache_hints::{CacheHints, CacheScope};
use tsugi_protocol::mcp::{Method, extension, tool};

use crate::config::{AutoSwitch, InstancePolicy};
use crate::tool_table::{KnownTool, ToolTable};
use key::{CacheKeyRef, CacheOwner};
pub use store::CacheCounts;
pub(crate) use store::CacheStore;
use store::ReadRole;

/// Answers reads from a store. Only reads are kept: tools that are read-only or configured so, and
/// resources whose server says for how long.
pub(crate) struct CacheLayer {
    inner: Arc<dyn Answer>,
    tools: Arc<ToolTable>,
    store: Arc<CacheStore>,
    instances: InstancePolicy,
    keeps: CacheSelection,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CacheSelection {
    Reads,
    /// Only the results of tools for which that is configured.
    Configured,
}

impl CacheLayer {
    pub(crate) fn new(
        inner: Arc<dyn Answer>,
        tools: Arc<ToolTable>,
        store: Arc<CacheStore>,
        instances: InstancePolicy,
        keeps: CacheSelection,
    ) -> Self {
        Self { inner, tools, store, instances, keeps }
    }

    /// How long the result of this call may be kept; `None` when it may not.
    fn lifetime(&self, call: &Call) -> Option<CacheLifetime> {
        // An answer to a server's question continues a call, so it cannot be the same as another.
        if call.is_answer() || call.options.skip_cache {
            return None;
        }
        // A caller that takes tasks may get one, and a task has one owner.
        if self.tools.has_tasks() && call.meta.client.capabilities.has_extension(extension::TASKS) {
            return None;
        }
        match call.method {
            Method::ResourcesRead => (self.keeps == CacheSelection::Reads).then_some(CacheLifetime::AsServerSays),
            Method::ToolsCall => self.tools.of(call, |tool| self.lifetime_of(tool))?,
            _ => None,
        }
    }

    fn lifetime_of(&self, tool: &KnownTool) -> Option<CacheLifetime> {
        let is_kept = match tool.settings.cache {
            AutoSwitch::On => true,
            AutoSwitch::Off => false,
            AutoSwitch::Auto => tool.is_read_only && self.keeps == CacheSelection::Reads,
        };
        is_kept.then(|| CacheLifetime::Fixed(tool.settings.cache_ttl.unwrap_or(self.store.ttl())))
    }

    /// Whose result it is: what a server with a state per session says is for that session alone.
    fn owner<'call>(&self, call: &'call Call) -> CacheOwner<&'call Caller> {
        match self.instances {
            InstancePolicy::PerSession => CacheOwner::Session(&call.caller),
            _ => CacheOwner::Principal(&call.caller),
        }
    }

    /// What is to be done about a call whose result may be kept.
    fn role(&self, call: &Call, lifetime: CacheLifetime) -> ReadRole {
        let sought = self.store.sought(call, self.owner(call));
        // A public result first: it serves every caller, no matter which one read it.
        if let Some(complete) = self.shared(&sought, &lifetime) {
            return ReadRole::Kept(complete);
        }
        // Notifications are written for one caller, so a caller that wants them makes its own call.
        if call.meta.progress_token.is_none() && call.meta.log_level.is_none() {
            return self.store.join(&sought, lifetime);
        }
        match self.store.get(&sought) {
            Some(complete) => ReadRole::Kept(complete),
            None => ReadRole::Alone,
        }
    }

    /// A result that its server calls public, where no state per session can have gone into it.
    fn shared(&self, sought: &CacheKeyRef<'_>, lifetime: &CacheLifetime) -> Option<CompletedResult> {
        if *lifetime != CacheLifetime::AsServerSays || self.instances == InstancePolicy::PerSession {
            return None;
        }
        self.store.get_everybodys(sought)
    }
}

fn reply_from_cache(call: &Call, complete: CompletedResult) -> Reply {
    note(call, "the result was kept from before");
    Reply::ready(Outcome::Complete(complete))
}

/// Adds a note to the call's timeline, if it has one.
fn note(call: &Call, words: &str) {
    if let Some(timeline) = &call.options.timeline {
        let now = Instant::now();
        timeline.add("cache", now, now, Some(words.to_owned()));
    }
}

impl Answer for CacheLayer {
    fn answer(&self, call: Call) -> Reply {
        let Some(lifetime) = self.lifetime(&call) else { return self.inner.answer(call) };
        match self.role(&call, lifetime) {
            ReadRole::Kept(complete) => reply_from_cache(&call, complete),
            ReadRole::Leader(rider) => rider.lead(self.inner.answer(call)),
            ReadRole::Follower(rider) => {
                note(&call, "waits for the same call of another caller");
                rider.follow(self.inner.clone(), call)
            }
            ReadRole::Alone => {
                self.store.count_miss();
                self.inner.answer(call)
            }
        }
    }
}

/// For how long a result is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CacheLifetime {
    /// As long as the result itself says.
    AsServerSays,
    Fixed(Duration),
}

impl CacheLifetime {
    /// How long and for whom this result is kept; `None` when it is not.
    fn of(&self, body: &JsonObject) -> Option<(Duration, CacheScope)> {
        if tool::is_error(body) {
            return None;
        }
        let (ttl, scope) = match self {
            CacheLifetime::Fixed(ttl) => (*ttl, CacheScope::Private),
            CacheLifetime::AsServerSays => {
                let freshness = CacheHints::of(body);
                (Duration::from_millis(freshness.ttl_ms), freshness.scope)
            }
        };
        // A server that says 0 does not want its result reused at all.
        (!ttl.is_zero()).then_some((ttl, scope))
    }
}

/// The result as it is now: what it says about its own freshness has grown shorter.
fn with_remaining_ttl(complete: CompletedResult, remaining: Duration) -> CompletedResult {
    // Results without a freshness pass untouched, without a copy.
    if !complete.body.has("ttlMs") {
        return complete;
    }
    let mut body = ObjectWriter::with_capacity(complete.body.bytes().len() + 16);
    body.members_except(&complete.body, &["ttlMs"]).number("ttlMs", remaining.as_millis() as u64);
    CompletedResult { body: body.finish_object(), ..complete }
}

#[cfg(test)]
mod tests;

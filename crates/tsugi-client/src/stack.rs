//! The order of the layers around one server.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tsugi_protocol::answer::Answer;

use crate::config::{CachePolicy, Options, RetryPolicy, ServerConfig, Strictness, Switch, ValidatePolicy};
use crate::layer::Asked;
use crate::layer::breaker::{Breaker, Guard};
use crate::layer::cache::{Cache, Keeps, Store};
use crate::layer::can_execute::CanExecute;
use crate::layer::deadline::{Deadline, Limits};
use crate::layer::limit::{Gate, Limit};
use crate::layer::retry::Retry;
use crate::layer::trace::Trace;
use crate::layer::validate::Validate;
use crate::tools::Tools;

/// What the layers of one server know. The server's task fills and empties it; connections come and go, this stays.
pub(crate) struct Parts {
    pub(crate) tools: Arc<Tools>,
    pub(crate) cache: Option<Arc<Store>>,
    pub(crate) breaker: Option<Arc<Breaker>>,
    pub(crate) gate: Option<Arc<Gate>>,
    /// The server was stopped by order: calls do not start it.
    pub(crate) is_held: AtomicBool,
}

impl Parts {
    /// As a server is configured.
    pub(crate) fn of(config: &ServerConfig) -> Self {
        Self {
            tools: Arc::new(Tools::new(config)),
            cache: cache_of(config).map(|policy| Arc::new(Store::new(policy))),
            breaker: config.breaker.map(|policy| Arc::new(Breaker::new(policy))),
            gate: config.limit.map(Gate::new),
            is_held: AtomicBool::new(false),
        }
    }
}

/// Puts the layers around `server`, outermost first: *trace* → *deadline* → *can execute* → *cache* →
/// *validate* → *breaker* → *retry* → *limit* → server. A layer that is off is not there at all, or costs one look.
///
/// A program's own word comes first, and the cache before everything that costs something; what was refused is not
/// counted against the server; every try waits for its turn anew; and the deadline is for all of it together.
/// Where calls that were silent for too long are tried again, the limit on silence is one for each try and stands
/// within *retry*; the limit on the whole stays where it is. The layers from *breaker* on know each other's types, so
/// that a call that passes all of them takes one box.
pub(crate) fn build(
    server: Arc<dyn Answer>,
    config: &ServerConfig,
    options: &Options,
    parts: &Parts,
    all: Option<&Arc<Gate>>,
) -> Arc<dyn Answer> {
    let name: Arc<str> = config.name.as_str().into();
    let limits = Limits::of(config, options);
    let repeats_timeouts = config.retry.as_ref().is_some_and(RetryPolicy::repeats_timeouts);
    let (each, limits) = match repeats_timeouts {
        true => (Some(limits.clone()), limits.whole_only()),
        false => (None, limits),
    };
    let is_bare = parts.gate.is_none() && all.is_none() && config.retry.is_none() && parts.breaker.is_none();
    let mut stack: Arc<dyn Answer> = match is_bare {
        true => server,
        false => {
            let tries = Limit::new(server, name.clone(), parts.gate.clone(), all.cloned());
            match each {
                Some(each) => repeated(Deadline::new(tries, name.clone(), Some(each), None), config, parts),
                None => repeated(tries, config, parts),
            }
        }
    };
    if is_checking(config) {
        stack = Arc::new(Validate::new(stack, name.clone(), parts.tools.clone()));
    }
    if let Some(store) = &parts.cache {
        let keeps = if config.cache.is_some() { Keeps::Reads } else { Keeps::Configured };
        stack = Arc::new(Cache::new(stack, parts.tools.clone(), store.clone(), config.instances, keeps));
    }
    // Asked before every call, also one that needs no server.
    stack = Arc::new(CanExecute::new(stack, name.clone(), options.checks.clone()));
    let deadline = Deadline::new(stack, name, Some(limits), parts.breaker.clone());
    Arc::new(Trace::new(deadline, config))
}

/// Puts *retry* and *breaker* around one try.
fn repeated(one: impl Asked + 'static, config: &ServerConfig, parts: &Parts) -> Arc<dyn Answer> {
    let name: Arc<str> = config.name.as_str().into();
    let tries = Retry::new(one, name.clone(), parts.tools.clone(), config.retry.clone(), config.restart);
    Arc::new(Guard::new(tries, name, parts.breaker.clone()))
}

/// The layers for our own questions, such as lists: *trace* → *deadline* → connection.
pub(crate) fn plain(connection: impl Answer + 'static, config: &ServerConfig, options: &Options) -> impl Answer {
    let limits = Limits::of(config, options);
    let deadline = Deadline::new(Arc::new(connection), config.name.as_str().into(), Some(limits), None);
    Trace::new(deadline, config)
}

/// How results are kept: a single tool may want that where its server does not.
fn cache_of(config: &ServerConfig) -> Option<CachePolicy> {
    let is_wanted = config.tools.values().any(|tool| tool.cache == Switch::On);
    config.cache.or_else(|| is_wanted.then(CachePolicy::default))
}

fn is_checking(config: &ServerConfig) -> bool {
    let checks = |policy: &ValidatePolicy| policy.arguments != Strictness::Off || policy.results != Strictness::Off;
    checks(&config.validate) || config.tools.values().filter_map(|tool| tool.validate.as_ref()).any(checks)
}

#[cfg(test)]
mod tests;

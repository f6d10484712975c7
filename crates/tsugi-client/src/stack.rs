//! The order of the layers around one server.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tsugi_protocol::answer::Answer;

use crate::config::{
    AutoSwitch, CachePolicy, ManagerOptions, RetryPolicy, ServerConfig, ValidatePolicy, ValidationMode,
};
use crate::layer::TypedAnswer;
use crate::layer::breaker::{BreakerLayer, CircuitBreaker};
use crate::layer::cache::{CacheLayer, CacheSelection, CacheStore};
use crate::layer::can_execute::CanExecuteLayer;
use crate::layer::deadline::{DeadlineLayer, DeadlineLimits};
use crate::layer::limit::{ConcurrencyGate, LimitLayer};
use crate::layer::retry::RetryLayer;
use crate::layer::trace::TraceLayer;
use crate::layer::validate::ValidateLayer;
use crate::tool_table::ToolTable;

/// What the layers of one server know. The server's task fills and empties it; connections come and go, this stays.
pub(crate) struct LayerState {
    pub(crate) tools: Arc<ToolTable>,
    pub(crate) cache: Option<Arc<CacheStore>>,
    pub(crate) breaker: Option<Arc<CircuitBreaker>>,
    pub(crate) gate: Option<Arc<ConcurrencyGate>>,
    /// The server was stopped by order: calls do not start it.
    pub(crate) is_held: AtomicBool,
}

impl LayerState {
    /// As a server is configured.
    pub(crate) fn of(config: &ServerConfig) -> Self {
        Self {
            tools: Arc::new(ToolTable::new(config)),
            cache: cache_of(config).map(|policy| Arc::new(CacheStore::new(policy))),
            breaker: config.breaker.map(|policy| Arc::new(CircuitBreaker::new(policy))),
            gate: config.limit.map(ConcurrencyGate::new),
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
    options: &ManagerOptions,
    parts: &LayerState,
    all: Option<&Arc<ConcurrencyGate>>,
) -> Arc<dyn Answer> {
    let name: Arc<str> = config.name.as_str().into();
    let limits = DeadlineLimits::of(config, options);
    let repeats_timeouts = config.retry.as_ref().is_some_and(RetryPolicy::repeats_timeouts);
    let (each, limits) = match repeats_timeouts {
        true => (Some(limits.clone()), limits.whole_only()),
        false => (None, limits),
    };
    let is_bare = parts.gate.is_none() && all.is_none() && config.retry.is_none() && parts.breaker.is_none();
    let mut stack: Arc<dyn Answer> = match is_bare {
        true => server,
        false => {
            let tries = LimitLayer::new(server, name.clone(), parts.gate.clone(), all.cloned());
            match each {
                Some(each) => repeated(DeadlineLayer::new(tries, name.clone(), Some(each), None), config, parts),
                None => repeated(tries, config, parts),
            }
        }
    };
    if is_checking(config) {
        stack = Arc::new(ValidateLayer::new(stack, name.clone(), parts.tools.clone()));
    }
    if let Some(store) = &parts.cache {
        let keeps = if config.cache.is_some() { CacheSelection::Reads } else { CacheSelection::Configured };
        stack = Arc::new(CacheLayer::new(stack, parts.tools.clone(), store.clone(), config.instances, keeps));
    }
    // Asked before every call, also one that needs no server.
    stack = Arc::new(CanExecuteLayer::new(stack, name.clone(), options.checks.clone()));
    let deadline = DeadlineLayer::new(stack, name, Some(limits), parts.breaker.clone());
    Arc::new(TraceLayer::new(deadline, config))
}

/// Puts *retry* and *breaker* around one try.
fn repeated(one: impl TypedAnswer + 'static, config: &ServerConfig, parts: &LayerState) -> Arc<dyn Answer> {
    let name: Arc<str> = config.name.as_str().into();
    let tries = RetryLayer::new(one, name.clone(), parts.tools.clone(), config.retry.clone(), config.restart);
    Arc::new(BreakerLayer::new(tries, name, parts.breaker.clone()))
}

/// The layers for our own questions, such as lists: *trace* → *deadline* → connection.
pub(crate) fn plain(connection: impl Answer + 'static, config: &ServerConfig, options: &ManagerOptions) -> impl Answer {
    let limits = DeadlineLimits::of(config, options);
    let deadline = DeadlineLayer::new(Arc::new(connection), config.name.as_str().into(), Some(limits), None);
    TraceLayer::new(deadline, config)
}

/// How results are kept: a single tool may want that where its server does not.
fn cache_of(config: &ServerConfig) -> Option<CachePolicy> {
    let is_wanted = config.tools.values().any(|tool| tool.cache == AutoSwitch::On);
    config.cache.or_else(|| is_wanted.then(CachePolicy::default))
}

fn is_checking(config: &ServerConfig) -> bool {
    let checks =
        |policy: &ValidatePolicy| policy.arguments != ValidationMode::Off || policy.results != ValidationMode::Off;
    checks(&config.validate) || config.tools.values().filter_map(|tool| tool.validate.as_ref()).any(checks)
}

#[cfg(test)]
mod tests;

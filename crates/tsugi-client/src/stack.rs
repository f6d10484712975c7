//! Builds the layers around one server, in their order.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tsugi_protocol::answer::Answer;

use crate::config::{
    AutoSwitch, CachePolicy, ManagerOptions, RetryPolicy, ServerConfig, ValidatePolicy, ValidationMode,
};
use crate::layer::breaker::{BreakerLayer, CircuitBreaker};
use crate::layer::cache::{CacheLayer, CacheSelection, CacheStore};
use crate::layer::can_execute::CanExecuteLayer;
use crate::layer::deadline::{DeadlineLayer, DeadlineLimits};
use crate::layer::debug::DebugLayer;
use crate::layer::limit::{ConcurrencyGate, LimitLayer};
use crate::layer::pin::{PinGate, PinLayer};
use crate::layer::retry::RetryLayer;
use crate::layer::task_wait::TaskWaitLayer;
use crate::layer::trace::TraceLayer;
use crate::layer::validate::{ListSource, ValidateLayer};
use crate::layer::{Boxed, TypedAnswer};
use crate::tool_table::ToolTable;

/// The state of one server's layers. It outlives connections; the server's task fills and empties it.
pub(crate) struct LayerState {
    pub(crate) tools: Arc<ToolTable>,
    pub(crate) cache: Option<Arc<CacheStore>>,
    pub(crate) breaker: Option<Arc<CircuitBreaker>>,
    pub(crate) gate: Option<Arc<ConcurrencyGate>>,
    /// What may be used, where pins may refuse a call.
    pub(crate) pins: Option<Arc<PinGate>>,
    /// The server was stopped by order: calls do not start it.
    pub(crate) is_held: AtomicBool,
}

impl LayerState {
    /// As a server is configured.
    pub(crate) fn of(config: &ServerConfig, options: &ManagerOptions) -> Self {
        Self {
            tools: Arc::new(ToolTable::new(config)),
            cache: cache_of(config).map(|policy| Arc::new(CacheStore::new(policy))),
            breaker: config.breaker.map(|policy| Arc::new(CircuitBreaker::new(policy, config.name.as_str().into()))),
            gate: config.limit.map(ConcurrencyGate::new),
            pins: options.pins.as_ref().and_then(|_| PinGate::of(config.pin)).map(Arc::new),
            is_held: AtomicBool::new(false),
        }
    }
}

/// Puts the layers around `server`, outermost first: *trace* → *deadline* → *can execute* → *pin* → *cache* →
/// *validate* → *task wait* → *breaker* → *retry* → *limit* → server. A layer that is off is not there at all, or costs one look.
///
/// The program's own checks come first, and the cache before everything that costs something. A refused call is not
/// counted against the server. Every try takes a new place in the queue, and the deadline is for all tries together.
/// Where silent calls are tried again, each try has its own limit on silence, inside *retry*; the limit on the whole
/// call stays outside. The layers from *breaker* on know each other's types, so that they share one allocation per call.
pub(crate) fn build(
    server: Arc<dyn Answer>,
    config: &ServerConfig,
    options: &ManagerOptions,
    parts: &LayerState,
    all: Option<&Arc<ConcurrencyGate>>,
    list: Option<ListSource>,
) -> Arc<dyn Answer> {
    let name: Arc<str> = config.name.as_str().into();
    let server = debugged(server, config, options);
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
                Some(each) => {
                    let tries = DeadlineLayer::new(tries, name.clone(), Some(each), None);
                    repeated(tries, config, parts, limits.clone())
                }
                None => repeated(tries, config, parts, limits.clone()),
            }
        }
    };
    // Inside *validate*, which is about final results, and outside the tries: every look at a task is a call of its own.
    stack = Arc::new(TaskWaitLayer::new(stack, name.clone(), parts.tools.clone(), options));
    if is_checking(config) {
        stack = Arc::new(ValidateLayer::new(stack, name.clone(), parts.tools.clone(), list.clone()));
    }
    if let Some(store) = &parts.cache {
        let keeps = if config.cache.is_some() { CacheSelection::Reads } else { CacheSelection::Configured };
        stack = Arc::new(CacheLayer::new(stack, parts.tools.clone(), store.clone(), config.instances, keeps));
    }
    // Before the cache: a result that was kept is not given for a tool that has changed since.
    if let Some(gate) = &parts.pins {
        stack = Arc::new(PinLayer::new(stack, name.clone(), gate.clone(), list));
    }
    // Checked before every call, even one that the cache answers.
    stack = Arc::new(CanExecuteLayer::new(stack, name.clone(), options.checks.clone()));
    let deadline = Boxed(DeadlineLayer::new(stack, name, Some(limits), parts.breaker.clone()));
    Arc::new(TraceLayer::new(deadline, config))
}

/// Puts *retry* and *breaker* around one try.
fn repeated(
    one: impl TypedAnswer + 'static,
    config: &ServerConfig,
    parts: &LayerState,
    limits: DeadlineLimits,
) -> Arc<dyn Answer> {
    let name: Arc<str> = config.name.as_str().into();
    let tries = RetryLayer::new(one, name.clone(), parts.tools.clone(), config.retry.clone(), config.restart, limits);
    Arc::new(Boxed(BreakerLayer::new(tries, name, parts.breaker.clone())))
}

/// The layers for our own questions, such as lists: *trace* → *deadline* → connection.
pub(crate) fn plain(connection: impl Answer + 'static, config: &ServerConfig, options: &ManagerOptions) -> impl Answer {
    let limits = DeadlineLimits::of(config, options);
    let deadline = DeadlineLayer::new(
        debugged(Arc::new(connection), config, options),
        config.name.as_str().into(),
        Some(limits),
        None,
    );
    TraceLayer::new(Boxed(deadline), config)
}

/// With `options.debug`, logs what passes.
fn debugged(server: Arc<dyn Answer>, config: &ServerConfig, options: &ManagerOptions) -> Arc<dyn Answer> {
    if options.debug { Arc::new(DebugLayer::new(server, config)) } else { server }
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

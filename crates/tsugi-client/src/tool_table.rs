//! A server's tools as the layers see them: hints and compiled schemas, made once per catalog and shared.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use bytes::Bytes;
use parking_lot::Mutex;
use tsugi_protocol::answer::Call;
use tsugi_protocol::json::RawJson;
use tsugi_protocol::mcp::Method;
use tsugi_protocol::mcp::tool::ToolDescription;
use tsugi_schema::error::SchemaError;
use tsugi_schema::validate::{ValidationLimits, Validator};

use crate::catalog::{Catalog, OmittedEntry};
use crate::config::{AutoSwitch, ServerConfig, ToolConfig, ValidatePolicy, ValidationMode};

/// Where lines about values that do not fit go: a gateway shows them, commands do not.
pub(crate) const CHECKING: &str = "tsugi_checking";

/// A schema of more bytes may take long to compile.
const LIGHT: usize = 8 * 1024;

/// The current tools of one server. Empty until its list is known.
pub(crate) struct ToolTable {
    server: Arc<str>,
    settings: HashMap<String, ToolConfig>,
    policy: ValidatePolicy,
    known: ArcSwap<foldhash::HashMap<String, Arc<KnownTool>>>,
    is_listed: AtomicBool,
    /// Whether the server may answer calls with tasks.
    has_tasks: AtomicBool,
}

impl ToolTable {
    /// For a server whose list is not known yet.
    pub(crate) fn new(config: &ServerConfig) -> Self {
        Self {
            server: config.name.as_str().into(),
            settings: config.tools.clone(),
            policy: config.validate,
            known: ArcSwap::default(),
            is_listed: AtomicBool::new(false),
            has_tasks: AtomicBool::new(false),
        }
    }

    /// Takes over what a catalog says. A tool whose description did not change keeps its compiled schemas.
    pub(crate) fn fill(&self, catalog: &Catalog) {
        let old = self.known.load_full();
        let know = |tool: &ToolDescription| {
            // Compiled schemas are kept for tools that did not change: compiling may take milliseconds.
            let same = old.get(tool.name()).filter(|known| known.written == *tool.object().bytes()).cloned();
            (tool.name().to_owned(), same.unwrap_or_else(|| Arc::new(self.known_tool(tool))))
        };
        let left_out = catalog.tools.left_out.iter().map(|tool| (tool.name.clone(), Arc::new(self.left_out(tool))));
        // The last entry of a name wins, so a tool that is offered hides an omitted one.
        self.known.store(Arc::new(left_out.chain(catalog.tools.items.iter().map(know)).collect()));
        self.has_tasks.store(catalog.has_tasks(), Ordering::Relaxed);
        // After the tools: a call that sees the flag sees them too.
        self.is_listed.store(true, Ordering::Release);
    }

    /// Whether the server may answer calls with tasks.
    pub(crate) fn has_tasks(&self) -> bool {
        self.has_tasks.load(Ordering::Relaxed)
    }

    /// Whether this call has to wait for the server's list: its arguments must be checked, and no list has come yet.
    pub(crate) fn lacks_list_for(&self, call: &Call) -> bool {
        if self.is_listed.load(Ordering::Acquire) || call.method != Method::ToolsCall {
            return false;
        }
        let own = call.subject().and_then(|tool| self.settings.get(&*tool)?.validate);
        own.unwrap_or(self.policy).arguments == ValidationMode::Enforce
    }

    /// Tools whose schemas were looked at and cannot be used, or not as a whole, and why.
    pub(crate) fn unusable(&self) -> Vec<OmittedEntry> {
        let known = self.known.load();
        let mut tools: Vec<OmittedEntry> = known.values().flat_map(|tool| tool.troubles()).collect();
        tools.sort_by(|one, other| one.name.cmp(&other.name));
        tools
    }

    /// One that is not offered: nothing is known of it but its name.
    fn left_out(&self, tool: &OmittedEntry) -> KnownTool {
        let settings = self.settings.get(&tool.name);
        KnownTool {
            server: self.server.clone(),
            name: tool.name.as_str().into(),
            written: Bytes::new(),
            is_read_only: false,
            repeat: RepeatRule::IfNotSent,
            settings: settings.cloned().unwrap_or_default(),
            policy: settings.and_then(|own| own.validate).unwrap_or(self.policy),
            input: LazySchema::unusable(tool.reason.clone()),
            output: LazySchema::of(None),
            complained: Mutex::default(),
        }
    }

    /// The tool with this name, if it is in the server's list.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<KnownTool>> {
        self.known.load().get(name).cloned()
    }

    /// Looks at the tool of a call; `None` when it is not a tool call, or the tool is not in the server's list. The tool
    /// is borrowed, not cloned: every call of every caller comes here.
    pub(crate) fn of<T>(&self, call: &Call, look: impl FnOnce(&Arc<KnownTool>) -> T) -> Option<T> {
        if call.method != Method::ToolsCall {
            return None;
        }
        // No clone: every call comes here, and a shared counter would be contended.
        self.known.load().get(&*call.subject()?).map(look)
    }

    fn known_tool(&self, tool: &ToolDescription) -> KnownTool {
        let settings = self.settings.get(tool.name());
        let is_read_only = settings.and_then(|own| own.read_only).unwrap_or_else(|| tool.is_read_only());
        let is_idempotent = settings.and_then(|own| own.idempotent).unwrap_or_else(|| tool.is_idempotent());
        KnownTool {
            server: self.server.clone(),
            name: tool.name().into(),
            written: tool.object().bytes().clone(),
            is_read_only,
            repeat: match settings.map_or(AutoSwitch::Auto, |own| own.retry) {
                AutoSwitch::On => RepeatRule::Always,
                AutoSwitch::Off => RepeatRule::Never,
                // Hints are claims of the server; the configuration above overrules them.
                AutoSwitch::Auto if is_read_only || is_idempotent => RepeatRule::Always,
                AutoSwitch::Auto => RepeatRule::IfNotSent,
            },
            settings: settings.cloned().unwrap_or_default(),
            policy: settings.and_then(|own| own.validate).unwrap_or(self.policy),
            input: LazySchema::of(tool.input_schema()),
            output: LazySchema::of(tool.output_schema()),
            complained: Mutex::default(),
        }
    }
}

/// When a tool may be called a second time for one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RepeatRule {
    Never,
    /// Only when the first call did not reach the server.
    IfNotSent,
    /// Doing it twice is as doing it once.
    Always,
}

#[derive(Debug)]
pub(crate) struct KnownTool {
    server: Arc<str>,
    name: Box<str>,
    written: Bytes,
    /// Whether calling it changes nothing, by its hint or by configuration.
    pub(crate) is_read_only: bool,
    /// When it may be called again.
    pub(crate) repeat: RepeatRule,
    /// What was configured for it.
    pub(crate) settings: ToolConfig,
    /// How it is checked.
    pub(crate) policy: ValidatePolicy,
    input: LazySchema,
    output: LazySchema,
    /// When a value that does not fit was last logged.
    complained: Mutex<Option<Instant>>,
}

/// A value that does not fit is logged at most once in this time per tool, so that a busy server does not flood the
/// log.
const COMPLAINTS: Duration = Duration::from_secs(60);

impl KnownTool {
    /// Whether a value that does not fit is logged now.
    pub(crate) fn may_complain(&self, now: Instant) -> bool {
        let mut complained = self.complained.lock();
        let is_due = complained.is_none_or(|last| now.duration_since(last) >= COMPLAINTS);
        if is_due {
            *complained = Some(now);
        }
        is_due
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether the schemas that are needed are compiled.
    pub(crate) fn is_prepared(&self) -> bool {
        let is_ready = |schema: &LazySchema, strictness| strictness == ValidationMode::Off || schema.is_ready();
        is_ready(&self.input, self.policy.arguments) && is_ready(&self.output, self.policy.results)
    }

    /// Whether compiling the schemas takes no noticeable time. A call of such a tool begins when it is made, and not when
    /// its reply is polled.
    pub(crate) fn is_light(&self) -> bool {
        self.input.is_light() && self.output.is_light()
    }

    /// Compiles the schemas that are needed. This may take some tens of milliseconds.
    pub(crate) fn prepare(&self) {
        if self.policy.arguments != ValidationMode::Off {
            self.input();
        }
        if self.policy.results != ValidationMode::Off {
            self.output();
        }
    }

    /// Why the tool may not be called where its checking is enforced: a schema that is hostile cannot be checked. One
    /// that is only careless costs the checking and not the tool, since other clients do not look at it either.
    pub(crate) fn refusal(&self) -> Option<String> {
        let refuse = |schema: &LazySchema, strictness, which| {
            let unusable = schema.compiled.get()?.as_ref().err()?;
            // A schema that is merely broken costs the check, not the tool.
            (strictness == ValidationMode::Enforce && unusable.is_hostile()).then(|| format!("its {which}: {unusable}"))
        };
        refuse(&self.input, self.policy.arguments, "inputSchema")
            .or_else(|| refuse(&self.output, self.policy.results, "outputSchema"))
    }

    fn troubles(&self) -> impl Iterator<Item = OmittedEntry> {
        let of = |schema: &LazySchema, which: &str| match schema.compiled.get() {
            Some(Err(unusable)) => Some(format!("its {which} cannot be used: {unusable}")),
            Some(Ok(validator)) => {
                let (pointer, reason) = validator.skipped().first()?;
                Some(format!("its {which} is not checked as a whole: {pointer}: {reason}"))
            }
            None => None,
        };
        let reasons = [of(&self.input, "inputSchema"), of(&self.output, "outputSchema")];
        reasons.into_iter().flatten().map(|reason| OmittedEntry { name: self.name.to_string(), reason })
    }

    /// Checks arguments; compiled with the first use. `None` when there is no schema or it cannot be used.
    pub(crate) fn input(&self) -> Option<&Validator> {
        self.input.compiled(self, "inputSchema")
    }

    pub(crate) fn output(&self) -> Option<&Validator> {
        self.output.compiled(self, "outputSchema")
    }
}

/// A schema that is compiled when it is first needed, so that a server with a thousand tools starts at once.
#[derive(Debug)]
struct LazySchema {
    raw: Option<RawJson>,
    compiled: OnceLock<Result<Validator, SchemaError>>,
}

impl LazySchema {
    fn of(raw: Option<RawJson>) -> Self {
        Self { raw, compiled: OnceLock::new() }
    }

    /// Of a tool that could not be read at all.
    fn unusable(reason: String) -> Self {
        Self { raw: None, compiled: OnceLock::from(Err(SchemaError::LeftOut(reason))) }
    }

    fn is_ready(&self) -> bool {
        self.raw.is_none() || self.compiled.get().is_some()
    }

    /// Whether compiling it takes no time to speak of: it is small and has no pattern, which is what takes long.
    fn is_light(&self) -> bool {
        // Regular expressions (`pattern`, `patternProperties`) are what takes long to compile.
        let is_light = |raw: &RawJson| raw.bytes().len() <= LIGHT && !raw.as_str().contains("attern");
        self.compiled.get().is_some() || self.raw.as_ref().is_none_or(is_light)
    }

    /// A schema that cannot be compiled costs this tool and nothing else.
    fn compiled(&self, tool: &KnownTool, which: &str) -> Option<&Validator> {
        let raw = self.raw.as_ref()?;
        let compile = || {
            Validator::compile_text(raw.as_str(), ValidationLimits::default()).inspect_err(|reason| {
                let (server, tool) = (&tool.server, &tool.name);
                tracing::warn!(target: CHECKING, %server, tool = %tool, which, %reason, "a schema cannot be used");
            })
        };
        // Two calls may race to be first; one of them compiles, the other waits for it.
        self.compiled.get_or_init(compile).as_ref().ok()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::config::ConnectTarget;
    use serde_json::{Value, json};
    use tsugi_protocol::serve;

    /// A catalog with these tools.
    pub(crate) fn catalog(tools: Value) -> Catalog {
        let identity = serve::InProcessServer::builder("test", "1").build().identity();
        let mut catalog = Catalog::empty(Arc::new(identity));
        let tools: Vec<RawJson> = tools.as_array().unwrap().iter().map(|tool| RawJson::from(tool.clone())).collect();
        catalog.tools.items = tools.iter().filter_map(ToolDescription::from_raw).collect();
        catalog
    }

    fn known(settings: ToolConfig, hints: Value) -> Arc<KnownTool> {
        let server = serve::InProcessServer::builder("test", "1").build();
        let mut config = ServerConfig::new("s", ConnectTarget::InProcess(server));
        config.tools.insert("t".into(), settings);
        let tools = ToolTable::new(&config);
        tools.fill(&catalog(json!([{"name": "t", "annotations": hints}])));
        tools.get("t").unwrap()
    }

    #[test]
    fn configuration_overrules_what_a_server_claims_of_its_tools() {
        let claimed = known(ToolConfig::default(), json!({"readOnlyHint": true}));
        assert!(claimed.is_read_only && claimed.repeat == RepeatRule::Always);
        let denied = ToolConfig { read_only: Some(false), idempotent: Some(false), ..ToolConfig::default() };
        let denied = known(denied, json!({"readOnlyHint": true, "idempotentHint": true}));
        assert!(!denied.is_read_only && denied.repeat == RepeatRule::IfNotSent);
        let vouched = known(ToolConfig { read_only: Some(true), ..ToolConfig::default() }, json!({}));
        assert!(vouched.is_read_only && vouched.repeat == RepeatRule::Always);
    }

    #[test]
    fn a_tool_is_complained_of_once_a_minute() {
        let (tool, now) = (known(ToolConfig::default(), json!({})), Instant::now());
        assert!(tool.may_complain(now) && !tool.may_complain(now + COMPLAINTS / 2));
        assert!(tool.may_complain(now + COMPLAINTS));
    }
}

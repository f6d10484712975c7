//! What the layers know about a server's tools: hints and compiled schemas, made once per catalog and shared.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use bytes::Bytes;
use tsugi_protocol::answer::Call;
use tsugi_protocol::json::Raw;
use tsugi_protocol::mcp::Method;
use tsugi_protocol::mcp::tool::Tool;
use tsugi_schema::validate::{Limits, Validator};

use crate::catalog::Catalog;
use crate::config::{ServerConfig, Switch, ToolConfig, ValidatePolicy};

/// The tools of one server as they are at the moment. Empty until the server has told them.
pub(crate) struct Tools {
    server: Arc<str>,
    settings: HashMap<String, ToolConfig>,
    policy: ValidatePolicy,
    known: ArcSwap<foldhash::HashMap<String, Arc<KnownTool>>>,
}

impl Tools {
    /// Of a server that has not told anything yet.
    pub(crate) fn new(config: &ServerConfig) -> Self {
        Self {
            server: config.name.as_str().into(),
            settings: config.tools.clone(),
            policy: config.validate,
            known: ArcSwap::default(),
        }
    }

    /// Takes over what a catalog says. A tool whose description did not change keeps its compiled schemas.
    pub(crate) fn fill(&self, catalog: &Catalog) {
        let old = self.known.load_full();
        let know = |tool: &Tool| {
            let same = old.get(tool.name()).filter(|known| known.written == *tool.object().bytes()).cloned();
            (tool.name().to_owned(), same.unwrap_or_else(|| Arc::new(self.known_tool(tool))))
        };
        self.known.store(Arc::new(catalog.tools.items.iter().map(know).collect()));
    }

    /// The tool with this name, when the server has told of it.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<KnownTool>> {
        self.known.load().get(name).cloned()
    }

    /// Looks at the tool that a call is about; `None` when it is about none, or one that the server has not told of.
    /// Nothing is counted up and down for it: every call of every caller looks.
    pub(crate) fn of<T>(&self, call: &Call, look: impl FnOnce(&Arc<KnownTool>) -> T) -> Option<T> {
        if call.method != Method::ToolsCall {
            return None;
        }
        self.known.load().get(&*call.subject()?).map(look)
    }

    fn known_tool(&self, tool: &Tool) -> KnownTool {
        let settings = self.settings.get(tool.name());
        let is_read_only = settings.and_then(|own| own.read_only).unwrap_or_else(|| tool.is_read_only());
        let is_idempotent = settings.and_then(|own| own.idempotent).unwrap_or_else(|| tool.is_idempotent());
        KnownTool {
            server: self.server.clone(),
            name: tool.name().into(),
            written: tool.object().bytes().clone(),
            is_read_only,
            repeat: match settings.map_or(Switch::Auto, |own| own.retry) {
                Switch::On => Repeat::Always,
                Switch::Off => Repeat::Never,
                Switch::Auto if is_read_only || is_idempotent => Repeat::Always,
                Switch::Auto => Repeat::IfNotSent,
            },
            settings: settings.cloned().unwrap_or_default(),
            policy: settings.and_then(|own| own.validate).unwrap_or(self.policy),
            input: Schema::of(tool.input_schema()),
            output: Schema::of(tool.output_schema()),
        }
    }
}

/// When a tool may be called a second time for one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// Never.
    Never,
    /// Only when the first call did not reach the server.
    IfNotSent,
    /// Doing it twice is as doing it once.
    Always,
}

/// One tool.
#[derive(Debug)]
pub(crate) struct KnownTool {
    server: Arc<str>,
    name: Box<str>,
    written: Bytes,
    /// Whether calling it changes nothing, by its hint or by configuration.
    pub(crate) is_read_only: bool,
    /// When it may be called again.
    pub(crate) repeat: Repeat,
    /// What was configured for it.
    pub(crate) settings: ToolConfig,
    /// How it is checked.
    pub(crate) policy: ValidatePolicy,
    input: Schema,
    output: Schema,
}

impl KnownTool {
    /// The name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Checks arguments; compiled with the first use. `None` when there is no schema or it cannot be used.
    pub(crate) fn input(&self) -> Option<&Validator> {
        self.input.compiled(self, "inputSchema")
    }

    /// Checks structured results.
    pub(crate) fn output(&self) -> Option<&Validator> {
        self.output.compiled(self, "outputSchema")
    }
}

/// A schema that is compiled when it is first needed, so that a server with a thousand tools starts at once.
#[derive(Debug)]
struct Schema {
    raw: Option<Raw>,
    compiled: OnceLock<Option<Validator>>,
}

impl Schema {
    fn of(raw: Option<Raw>) -> Self {
        Self { raw, compiled: OnceLock::new() }
    }

    /// A schema that cannot be compiled costs this tool's checking and nothing else.
    fn compiled(&self, tool: &KnownTool, which: &str) -> Option<&Validator> {
        let raw = self.raw.as_ref()?;
        let compile = || match compile(raw) {
            Ok(validator) => Some(validator),
            Err(reason) => {
                let (server, tool) = (&tool.server, &tool.name);
                tracing::warn!(%server, tool = %tool, which, reason, "a schema cannot be used; values are not checked");
                None
            }
        };
        self.compiled.get_or_init(compile).as_ref()
    }
}

fn compile(raw: &Raw) -> Result<Validator, String> {
    let limits = Limits::default();
    if raw.bytes().len() > limits.schema_bytes {
        return Err(format!("it is larger than {} bytes", limits.schema_bytes));
    }
    let schema: serde_json::Value = raw.to().map_err(|error| error.to_string())?;
    Validator::compile(&schema, limits).map_err(|error| error.to_string())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::config::Target;
    use serde_json::{Value, json};
    use tsugi_protocol::serve;

    /// A catalog with these tools.
    pub(crate) fn catalog(tools: Value) -> Catalog {
        let identity = serve::Server::builder("test", "1").build().identity();
        let mut catalog = Catalog::empty(Arc::new(identity));
        let tools: Vec<Raw> = tools.as_array().unwrap().iter().map(|tool| Raw::from(tool.clone())).collect();
        catalog.tools.items = tools.iter().filter_map(Tool::from_raw).collect();
        catalog
    }

    fn known(settings: ToolConfig, hints: Value) -> Arc<KnownTool> {
        let server = serve::Server::builder("test", "1").build();
        let mut config = ServerConfig::new("s", Target::InProcess(server));
        config.tools.insert("t".into(), settings);
        let tools = Tools::new(&config);
        tools.fill(&catalog(json!([{"name": "t", "annotations": hints}])));
        tools.get("t").unwrap()
    }

    #[test]
    fn configuration_overrules_what_a_server_claims_of_its_tools() {
        let claimed = known(ToolConfig::default(), json!({"readOnlyHint": true}));
        assert!(claimed.is_read_only && claimed.repeat == Repeat::Always);
        let denied = ToolConfig { read_only: Some(false), idempotent: Some(false), ..ToolConfig::default() };
        let denied = known(denied, json!({"readOnlyHint": true, "idempotentHint": true}));
        assert!(!denied.is_read_only && denied.repeat == Repeat::IfNotSent);
        let vouched = known(ToolConfig { read_only: Some(true), ..ToolConfig::default() }, json!({}));
        assert!(vouched.is_read_only && vouched.repeat == Repeat::Always);
    }
}

//! Builds an in-process server.

use std::future::Future;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::json::{JsonObject, ObjectWriter, RawJson};
use crate::mcp::cache_hints::{CacheHints, CacheScope};

use super::completion::{CompletionFuture, CompletionHandler, CompletionRequest, CompletionValues};
use super::context::HandlerContext;
use super::error::HandlerError;
use super::output::IntoToolOutput;
use super::prompt::BoundPrompt;
use super::resource::{BoundResource, BoundTemplate};
use super::server::{InProcessServer, ServerFeatures, ServerOffer};
use super::subscription::PrepareHook;
use super::tool::{BoundTool, ToolBuilder};

/// A server on its way to being one.
pub struct ServerBuilder {
    info: Vec<(String, RawJson)>,
    instructions: Option<String>,
    offer: ServerOffer,
    features: ServerFeatures,
    completion: Option<CompletionHandler>,
    can_log: bool,
    extensions: Vec<(String, RawJson)>,
    list_freshness: CacheHints,
    page_size: usize,
    before_watching: Option<PrepareHook>,
}

impl ServerBuilder {
    pub(super) fn new(name: &str, version: &str) -> Self {
        Self {
            info: vec![("name".into(), RawJson::string(name)), ("version".into(), RawJson::string(version))],
            instructions: None,
            offer: ServerOffer::default(),
            features: ServerFeatures::default(),
            completion: None,
            can_log: false,
            extensions: Vec::new(),
            // The lists are the same for every caller, and listeners are notified of changes at once.
            list_freshness: CacheHints { ttl_ms: 60_000, scope: CacheScope::Public },
            page_size: usize::MAX,
            before_watching: None,
        }
    }

    /// With a title for people.
    pub fn title(self, title: &str) -> Self {
        self.info("title", RawJson::string(title))
    }

    /// With a further member of `serverInfo`, such as `websiteUrl` or `icons`.
    pub fn info(mut self, key: impl Into<String>, value: RawJson) -> Self {
        self.info.push((key.into(), value));
        self
    }

    /// With guidance for the model.
    pub fn instructions(mut self, instructions: impl Into<String>) -> Self {
        self.instructions = Some(instructions.into());
        self
    }

    /// With a tool. A second one of the same name replaces the first.
    pub fn tool(mut self, tool: BoundTool) -> Self {
        // Adding one declares the capability, so that it cannot be forgotten.
        self.offer.tools.add(tool);
        self.with_tools()
    }

    /// With a tool that has a schema of its own and takes its arguments as they come.
    pub fn raw_tool<O, F, R>(self, name: &str, description: &str, input_schema: RawJson, handler: F) -> Self
    where
        O: IntoToolOutput,
        F: Fn(JsonObject, HandlerContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<O, HandlerError>> + Send + 'static,
    {
        self.tool(ToolBuilder::new(name, description).input_schema(input_schema).raw_handler(handler))
    }

    pub fn resource(mut self, resource: BoundResource) -> Self {
        self.offer.resources.add(resource);
        self.with_resources()
    }

    /// With a family of resources. Of several that match an address, the one added first is asked.
    pub fn template(mut self, template: BoundTemplate) -> Self {
        // Templates have no capability of their own in MCP.
        self.offer.templates.add(template);
        self.with_resources()
    }

    pub fn prompt(mut self, prompt: BoundPrompt) -> Self {
        self.offer.prompts.add(prompt);
        self.with_prompts()
    }

    /// With suggestions for the arguments of its prompts and templates.
    pub fn completion<F, R>(mut self, handler: F) -> Self
    where
        F: Fn(CompletionRequest, HandlerContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<CompletionValues, HandlerError>> + Send + 'static,
    {
        let handler = move |request, context| -> CompletionFuture { Box::pin(handler(request, context)) };
        self.completion = Some(Arc::new(handler));
        self
    }

    /// Offers tools even if none is there yet.
    pub fn with_tools(mut self) -> Self {
        self.features.tools = true;
        self
    }

    /// Offers resources even if none is there yet.
    pub fn with_resources(mut self) -> Self {
        self.features.resources = true;
        self
    }

    /// Offers prompts even if none is there yet.
    pub fn with_prompts(mut self) -> Self {
        self.features.prompts = true;
        self
    }

    /// Lets handlers send log lines to callers that ask for them.
    pub fn with_logging(mut self) -> Self {
        self.can_log = true;
        self
    }

    /// Declares a further capability, such as `extensions` or `experimental`.
    pub fn capability(mut self, name: impl Into<String>, settings: RawJson) -> Self {
        self.extensions.push((name.into(), settings));
        self
    }

    /// How long lists and the answer to `server/discover` may be kept, and for whom.
    pub fn list_freshness(mut self, freshness: CacheHints) -> Self {
        self.list_freshness = freshness;
        self
    }

    /// Lists this many entries at a time instead of all.
    pub fn page_size(mut self, size: usize) -> Self {
        // Pages without entries would never reach the end of a list.
        self.page_size = size.max(1);
        self
    }

    /// Runs this before a listener that asked for resource updates is acknowledged. A server that looks for
    /// changes only while a client watches starts here.
    pub fn before_watching<F, R>(mut self, prepare: F) -> Self
    where
        F: Fn() -> R + Send + Sync + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        self.before_watching = Some(Box::new(move || Box::pin(prepare())));
        self
    }

    pub fn build(self) -> Arc<InProcessServer> {
        let mut info = ObjectWriter::with_capacity(128);
        for (key, value) in &self.info {
            info.raw(key, value);
        }
        Arc::new(InProcessServer {
            info: info.finish(),
            instructions: self.instructions,
            // Entries can still be added while the server runs.
            offer: RwLock::new(self.offer),
            features: RwLock::new(self.features),
            completion: self.completion,
            can_log: self.can_log,
            extensions: self.extensions,
            list_freshness: self.list_freshness,
            page_size: self.page_size,
            before_watching: self.before_watching,
            notifier: Default::default(),
        })
    }
}

impl std::fmt::Debug for ServerBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder").field("info", &self.info).finish_non_exhaustive()
    }
}

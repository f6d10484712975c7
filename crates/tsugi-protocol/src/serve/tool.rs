//! A tool: how it is described, and the function behind it.

use std::future::Future;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::json::{JsonObject, ObjectWriter, RawJson};

use super::arguments;
use super::context::HandlerContext;
use super::error::HandlerError;
use super::listing::ListingEntry;
use super::output::{IntoToolOutput, ToolOutput};
use super::schema::arguments_schema;

/// The description of a tool. [`ToolBuilder::handler`] makes it callable.
#[derive(Debug, Clone)]
pub struct ToolBuilder {
    name: String,
    description: String,
    title: Option<String>,
    input_schema: Option<RawJson>,
    output_schema: Option<RawJson>,
    hints: Vec<(&'static str, bool)>,
    more: Vec<(String, RawJson)>,
}

/// The arguments of a tool that takes none.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct NoArguments {}

impl ToolBuilder {
    /// A tool of this name; the description is for the model.
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            title: None,
            input_schema: None,
            output_schema: None,
            hints: Vec::new(),
            more: Vec::new(),
        }
    }

    /// With a title for people.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    pub fn read_only(self) -> Self {
        self.hint("readOnlyHint", true)
    }

    /// Calling it twice with the same arguments is as calling it once.
    pub fn idempotent(self) -> Self {
        self.hint("idempotentHint", true)
    }

    /// Whether it may destroy something. Clients assume that it may.
    pub fn destructive(self, is_destructive: bool) -> Self {
        self.hint("destructiveHint", is_destructive)
    }

    /// Whether it reaches out to a world that the server does not own. Clients assume that it does.
    pub fn open_world(self, is_open: bool) -> Self {
        self.hint("openWorldHint", is_open)
    }

    fn hint(mut self, key: &'static str, value: bool) -> Self {
        // The last word counts.
        self.hints.retain(|(known, _)| *known != key);
        self.hints.push((key, value));
        self
    }

    /// With a schema of one's own for the arguments, instead of the derived one.
    pub fn input_schema(mut self, schema: RawJson) -> Self {
        self.input_schema = Some(schema);
        self
    }

    /// With a schema of one's own for the structured content, instead of the derived one.
    pub fn output_schema(mut self, schema: RawJson) -> Self {
        self.output_schema = Some(schema);
        self
    }

    /// With a further member of the description, such as `icons` or `_meta`.
    pub fn member(mut self, key: impl Into<String>, value: RawJson) -> Self {
        self.more.push((key.into(), value));
        self
    }

    /// Answered by `handler`, which takes typed arguments. Arguments that do not fit never reach it: the
    /// caller gets a result with `isError` that names the argument, so that a model can correct itself
    /// ([Error Handling](https://modelcontextprotocol.io/specification/2026-07-28/server/tools#error-handling)).
    pub fn handler<A, O, F, R>(mut self, handler: F) -> BoundTool
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        O: IntoToolOutput,
        F: Fn(A, HandlerContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<O, HandlerError>> + Send + 'static,
    {
        // A schema that was set by hand wins over the derived one.
        self.input_schema.get_or_insert_with(arguments_schema::<A>);
        self.raw_handler(move |raw, context| {
            // Parsed outside of the future, which then holds only the typed arguments.
            let work = arguments::read(&raw.raw()).map(|arguments| handler(arguments, context));
            async move { work.map_err(HandlerError::failed)?.await }
        })
    }

    /// Answered by `handler`, which takes the arguments as they came. Without [`ToolBuilder::input_schema`] any
    /// object is accepted.
    pub fn raw_handler<O, F, R>(mut self, handler: F) -> BoundTool
    where
        O: IntoToolOutput,
        F: Fn(JsonObject, HandlerContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<O, HandlerError>> + Send + 'static,
    {
        if self.output_schema.is_none() {
            self.output_schema = O::output_schema();
        }
        // Written once, not for every listing.
        let described = self.describe();
        let handler = move |arguments, context| -> ToolFuture {
            let work = handler(arguments, context);
            Box::pin(async move { work.await.map(IntoToolOutput::into_output) })
        };
        BoundTool { name: self.name, described, handler: Arc::new(handler) }
    }

    fn describe(&self) -> RawJson {
        let mut tool = ObjectWriter::with_capacity(512);
        tool.string("name", &self.name);
        if let Some(title) = &self.title {
            tool.string("title", title);
        }
        tool.string("description", &self.description);
        // The specification demands a schema even for a tool without arguments.
        let any_object = RawJson::literal(r#"{"type":"object"}"#);
        tool.raw("inputSchema", self.input_schema.as_ref().unwrap_or(&any_object));
        if let Some(schema) = &self.output_schema {
            tool.raw("outputSchema", schema);
        }
        if !self.hints.is_empty() {
            let hints: serde_json::Map<_, _> =
                self.hints.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
            tool.raw("annotations", &RawJson::from_value(&hints));
        }
        for (key, value) in &self.more {
            tool.raw(key, value);
        }
        tool.finish()
    }
}

/// What a tool's handler is doing.
pub(super) type ToolFuture = std::pin::Pin<Box<dyn Future<Output = Result<ToolOutput, HandlerError>> + Send>>;
type ToolHandler = dyn Fn(JsonObject, HandlerContext) -> ToolFuture + Send + Sync;

/// A tool that can be called.
#[derive(Clone)]
pub struct BoundTool {
    name: String,
    described: RawJson,
    handler: Arc<ToolHandler>,
}

impl BoundTool {
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The description, as `tools/list` shows it.
    pub fn description(&self) -> &RawJson {
        &self.described
    }

    pub(super) fn call(&self, arguments: JsonObject, context: HandlerContext) -> ToolFuture {
        (self.handler)(arguments, context)
    }
}

impl std::fmt::Debug for BoundTool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BoundTool({})", self.name)
    }
}

impl ListingEntry for BoundTool {
    fn key(&self) -> &str {
        &self.name
    }

    fn described(&self) -> &RawJson {
        &self.described
    }
}

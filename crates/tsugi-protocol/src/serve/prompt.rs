//! A prompt: how it is described, and the function that renders it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::json::{JsonObject, ObjectWriter, RawJson};

use super::arguments;
use super::context::HandlerContext;
use super::error::HandlerError;
use super::listing::ListingEntry;
use super::output::{array_of, block};
use super::schema::members_of;

/// Who speaks in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromptRole {
    User,
    Assistant,
}

#[derive(Debug, Clone, Default)]
pub struct PromptOutput {
    description: Option<String>,
    messages: Vec<RawJson>,
}

impl PromptOutput {
    /// One message of the user.
    pub fn user(text: impl AsRef<str>) -> Self {
        Self::default().message(PromptRole::User, &block::text(text.as_ref()))
    }

    /// And a message with this content block, see [`block`].
    pub fn message(mut self, role: PromptRole, content: &RawJson) -> Self {
        let mut message = ObjectWriter::with_capacity(content.bytes().len() + 32);
        message.string("role", if role == PromptRole::User { "user" } else { "assistant" }).raw("content", content);
        self.messages.push(message.finish());
        self
    }

    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    pub(super) fn write(&self, result: &mut ObjectWriter) {
        if let Some(description) = &self.description {
            result.string("description", description);
        }
        // The member is required, even without a message.
        result.raw("messages", &array_of(&self.messages));
    }
}

/// The description of a prompt. [`PromptBuilder::handler`] makes it usable.
#[derive(Debug, Clone)]
pub struct PromptBuilder {
    name: String,
    more: Vec<(String, RawJson)>,
}

impl PromptBuilder {
    /// A prompt of this name; the description is for people.
    pub fn new(name: impl Into<String>, description: &str) -> Self {
        Self { name: name.into(), more: Vec::new() }.member("description", RawJson::string(description))
    }

    /// With a title for people.
    pub fn title(self, title: &str) -> Self {
        self.member("title", RawJson::string(title))
    }

    /// With a further member of the description, such as `icons` or `_meta`.
    pub fn member(mut self, key: impl Into<String>, value: RawJson) -> Self {
        self.more.push((key.into(), value));
        self
    }

    /// Rendered by `handler`. The arguments are the fields of its type, described by their doc comments;
    /// since the arguments of prompts are strings on the wire, so must the fields be (or optional strings,
    /// or enums of names).
    pub fn handler<A, F, R>(self, handler: F) -> BoundPrompt
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        F: Fn(A, HandlerContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<PromptOutput, HandlerError>> + Send + 'static,
    {
        // Written once here, not for every listing.
        let described = self.describe(&arguments_of::<A>());
        let handler = move |arguments: JsonObject, context| -> PromptFuture {
            match arguments::read(&arguments.raw()) {
                Ok(arguments) => Box::pin(handler(arguments, context)),
                // The result of a prompt has no place for errors, unlike that of a tool.
                Err(reason) => Box::pin(std::future::ready(Err(HandlerError::invalid_params(reason)))),
            }
        };
        BoundPrompt { name: self.name, described, handler: Arc::new(handler) }
    }

    fn describe(&self, arguments: &RawJson) -> RawJson {
        let mut prompt = ObjectWriter::with_capacity(256);
        prompt.string("name", &self.name);
        for (key, value) in &self.more {
            prompt.raw(key, value);
        }
        prompt.raw("arguments", arguments);
        prompt.finish()
    }
}

/// The arguments of a prompt, read from the schema of its type.
fn arguments_of<A: JsonSchema>() -> RawJson {
    // The protocol has a flat list of arguments and no schema for them.
    let schema = members_of::<A>();
    let required: Vec<&str> =
        schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let arguments = properties.map(|(name, property)| {
        let mut argument = json!({"name": name, "required": required.contains(&name.as_str())});
        if let Some(description) = property.get("description") {
            argument["description"] = description.clone();
        }
        argument
    });
    RawJson::from(Value::Array(arguments.collect()))
}

type PromptFuture = Pin<Box<dyn Future<Output = Result<PromptOutput, HandlerError>> + Send>>;
type PromptHandler = dyn Fn(JsonObject, HandlerContext) -> PromptFuture + Send + Sync;

/// A prompt that can be rendered.
#[derive(Clone)]
pub struct BoundPrompt {
    name: String,
    described: RawJson,
    handler: Arc<PromptHandler>,
}

impl BoundPrompt {
    pub(super) fn render(&self, arguments: JsonObject, context: HandlerContext) -> PromptFuture {
        (self.handler)(arguments, context)
    }
}

impl std::fmt::Debug for BoundPrompt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BoundPrompt({})", self.name)
    }
}

impl ListingEntry for BoundPrompt {
    fn key(&self) -> &str {
        &self.name
    }

    fn described(&self) -> &RawJson {
        &self.described
    }
}

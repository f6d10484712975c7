//! A prompt: how it is described, and the function that renders it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::json::{Object, Raw, Splice};

use super::arguments;
use super::context::Context;
use super::error::Error;
use super::listing::Entry;
use super::output::{array_of, block};
use super::schema::members_of;

/// Who speaks in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The user.
    User,
    /// The model.
    Assistant,
}

/// A rendered prompt.
#[derive(Debug, Clone, Default)]
pub struct PromptOutput {
    description: Option<String>,
    messages: Vec<Raw>,
}

impl PromptOutput {
    /// One message of the user.
    pub fn user(text: impl AsRef<str>) -> Self {
        Self::default().message(Role::User, &block::text(text.as_ref()))
    }

    /// And a message with this content block, see [`block`].
    pub fn message(mut self, role: Role, content: &Raw) -> Self {
        let mut message = Splice::with_capacity(content.bytes().len() + 32);
        message.string("role", if role == Role::User { "user" } else { "assistant" }).raw("content", content);
        self.messages.push(message.finish());
        self
    }

    /// With a description.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    pub(super) fn write(&self, result: &mut Splice) {
        if let Some(description) = &self.description {
            result.string("description", description);
        }
        result.raw("messages", &array_of(&self.messages));
    }
}

/// The description of a prompt. [`Prompt::handler`] makes it usable.
#[derive(Debug, Clone)]
pub struct Prompt {
    name: String,
    more: Vec<(String, Raw)>,
}

impl Prompt {
    /// A prompt of this name; the description is for people.
    pub fn new(name: impl Into<String>, description: &str) -> Self {
        Self { name: name.into(), more: Vec::new() }.member("description", Raw::string(description))
    }

    /// With a title for people.
    pub fn title(self, title: &str) -> Self {
        self.member("title", Raw::string(title))
    }

    /// With a further member of the description, such as `icons` or `_meta`.
    pub fn member(mut self, key: impl Into<String>, value: Raw) -> Self {
        self.more.push((key.into(), value));
        self
    }

    /// Rendered by `handler`. The arguments are the fields of its type, described by their doc comments;
    /// since the arguments of prompts are strings on the wire, so must the fields be (or optional strings,
    /// or enums of names).
    pub fn handler<A, F, R>(self, handler: F) -> BoundPrompt
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
        F: Fn(A, Context) -> R + Send + Sync + 'static,
        R: Future<Output = Result<PromptOutput, Error>> + Send + 'static,
    {
        let described = self.describe(&arguments_of::<A>());
        let handler = move |arguments: Object, context| -> PromptWork {
            match arguments::read(&arguments.raw()) {
                Ok(arguments) => Box::pin(handler(arguments, context)),
                Err(reason) => Box::pin(std::future::ready(Err(Error::invalid_params(reason)))),
            }
        };
        BoundPrompt { name: self.name, described, handler: Arc::new(handler) }
    }

    fn describe(&self, arguments: &Raw) -> Raw {
        let mut prompt = Splice::with_capacity(256);
        prompt.string("name", &self.name);
        for (key, value) in &self.more {
            prompt.raw(key, value);
        }
        prompt.raw("arguments", arguments);
        prompt.finish()
    }
}

/// The arguments of a prompt, read from the schema of its type.
fn arguments_of<A: JsonSchema>() -> Raw {
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
    Raw::from(Value::Array(arguments.collect()))
}

type PromptWork = Pin<Box<dyn Future<Output = Result<PromptOutput, Error>> + Send>>;
type PromptHandler = dyn Fn(Object, Context) -> PromptWork + Send + Sync;

/// A prompt that can be rendered.
#[derive(Clone)]
pub struct BoundPrompt {
    name: String,
    described: Raw,
    handler: Arc<PromptHandler>,
}

impl BoundPrompt {
    pub(super) fn render(&self, arguments: Object, context: Context) -> PromptWork {
        (self.handler)(arguments, context)
    }
}

impl std::fmt::Debug for BoundPrompt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BoundPrompt({})", self.name)
    }
}

impl Entry for BoundPrompt {
    fn key(&self) -> &str {
        &self.name
    }

    fn described(&self) -> &Raw {
        &self.described
    }
}

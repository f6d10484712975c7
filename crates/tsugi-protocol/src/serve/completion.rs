//! Completes an argument of a prompt or a template while a person types it.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::json::{JsonObject, ObjectWriter, RawJson};
use crate::mcp::completion::CompletionReference;

use super::context::HandlerContext;
use super::error::HandlerError;

/// How many suggestions an answer may have
/// ([Completion Results](https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/completion#completion-results)).
const MAX_VALUES: usize = 100;

/// What is to be completed.
#[derive(Debug, Clone)]
pub struct CompletionRequest {
    /// Of which prompt or template.
    pub reference: CompletionReference,
    pub argument: String,
    /// What has been typed.
    pub value: String,
    /// Arguments that are filled in already.
    pub arguments: HashMap<String, String>,
}

impl CompletionRequest {
    /// Reads the parameters of `completion/complete`.
    pub(super) fn of(params: &JsonObject) -> Result<Self, HandlerError> {
        let reference = CompletionReference::of(params)
            .ok_or_else(|| HandlerError::invalid_params("`ref` is missing or of an unknown kind"))?;
        let argument =
            params.get_object("argument").ok_or_else(|| HandlerError::invalid_params("`argument` is missing"))?;
        let text = |key: &str| argument.get_str(key).map(|text| text.into_owned());
        let missing = || HandlerError::invalid_params("`argument` needs a name and a value");
        let known = params.get_object("context").and_then(|context| context.get("arguments"));
        Ok(Self {
            reference,
            argument: text("name").ok_or_else(missing)?,
            value: text("value").ok_or_else(missing)?,
            arguments: known.and_then(|arguments| arguments.to().ok()).unwrap_or_default(),
        })
    }
}

/// Suggestions, best first. Only the first 100 are sent, with a flag that there are more.
#[derive(Debug, Clone, Default)]
pub struct CompletionValues(Vec<String>);

impl CompletionValues {
    pub fn new<T: Into<String>>(values: impl IntoIterator<Item = T>) -> Self {
        Self(values.into_iter().map(Into::into).collect())
    }

    /// Those of `values` that begin with what was typed.
    pub fn starting_with<T: Into<String>>(typed: &str, values: impl IntoIterator<Item = T>) -> Self {
        Self(values.into_iter().map(Into::into).filter(|value: &String| value.starts_with(typed)).collect())
    }

    pub(super) fn write(&self, result: &mut ObjectWriter) {
        let shown = &self.0[..self.0.len().min(MAX_VALUES)];
        let has_more = RawJson::literal(if shown.len() < self.0.len() { "true" } else { "false" });
        let mut completion = ObjectWriter::with_capacity(256);
        completion
            .raw("values", &RawJson::from_value(shown))
            .number("total", self.0.len() as u64)
            .raw("hasMore", &has_more);
        result.raw("completion", &completion.finish());
    }
}

pub(super) type CompletionFuture = Pin<Box<dyn Future<Output = Result<CompletionValues, HandlerError>> + Send>>;
pub(super) type CompletionHandler = Arc<dyn Fn(CompletionRequest, HandlerContext) -> CompletionFuture + Send + Sync>;

//! Resources and templates: how they are described, and the functions that read them.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::json::{ObjectWriter, RawJson};
use crate::mcp::cache_hints::CacheHints;

use super::arguments;
use super::context::HandlerContext;
use super::error::HandlerError;
use super::listing::ListingEntry;
use super::output::array_of;
use crate::mcp::uri_template::UriTemplate;

/// What reading a resource gives.
#[derive(Debug, Clone)]
pub struct ResourceContents {
    parts: Vec<ContentPart>,
    freshness: CacheHints,
}

#[derive(Debug, Clone)]
struct ContentPart {
    uri: Option<String>,
    mime_type: Option<String>,
    key: &'static str,
    data: String,
}

impl ResourceContents {
    /// Text, of the resource's own media type unless another is given.
    pub fn text(text: impl Into<String>) -> Self {
        Self::empty().and_text(None, None, text)
    }

    pub fn json(value: &RawJson) -> Self {
        Self::empty().and_text(None, Some("application/json"), value.as_str())
    }

    /// Binary data in base64.
    pub fn blob(base64: impl Into<String>, mime_type: &str) -> Self {
        let part = ContentPart { uri: None, mime_type: Some(mime_type.into()), key: "blob", data: base64.into() };
        Self { parts: vec![part], freshness: CacheHints::NONE }
    }

    pub fn empty() -> Self {
        Self { parts: Vec::new(), freshness: CacheHints::NONE }
    }

    /// And this text, under another address or of another media type.
    pub fn and_text(mut self, uri: Option<&str>, mime_type: Option<&str>, text: impl Into<String>) -> Self {
        let (uri, mime_type) = (uri.map(str::to_owned), mime_type.map(str::to_owned));
        self.parts.push(ContentPart { uri, mime_type, key: "text", data: text.into() });
        self
    }

    /// May be kept so long, for so many. Without this it is stale at once and private.
    pub fn fresh_for(mut self, freshness: CacheHints) -> Self {
        self.freshness = freshness;
        self
    }

    pub(super) fn write(&self, result: &mut ObjectWriter, uri: &str, mime_type: Option<&str>) {
        let parts: Vec<RawJson> = self.parts.iter().map(|part| part.describe(uri, mime_type)).collect();
        result.raw("contents", &array_of(&parts));
        result.number("ttlMs", self.freshness.ttl_ms).string("cacheScope", self.freshness.scope.as_str());
    }
}

impl ContentPart {
    fn describe(&self, uri: &str, mime_type: Option<&str>) -> RawJson {
        let mut part = ObjectWriter::with_capacity(self.data.len() + uri.len() + 64);
        // A part without an address is the resource that was asked for.
        part.string("uri", self.uri.as_deref().unwrap_or(uri));
        // The part's own type wins over the description's.
        if let Some(mime_type) = self.mime_type.as_deref().or(mime_type) {
            part.string("mimeType", mime_type);
        }
        part.string(self.key, &self.data);
        part.finish()
    }
}

/// The description of a resource or a template.
#[derive(Debug, Clone)]
struct ResourceFields {
    address_key: &'static str,
    address: String,
    name: String,
    mime_type: Option<String>,
    more: Vec<(String, RawJson)>,
}

impl ResourceFields {
    fn describe(&self) -> RawJson {
        let mut card = ObjectWriter::with_capacity(256);
        // `uri` or `uriTemplate`: the only difference between the two kinds.
        card.string(self.address_key, &self.address).string("name", &self.name);
        if let Some(mime_type) = &self.mime_type {
            card.string("mimeType", mime_type);
        }
        for (key, value) in &self.more {
            card.raw(key, value);
        }
        card.finish()
    }
}

/// The description of a resource. [`ResourceBuilder::handler`] makes it readable.
#[derive(Debug, Clone)]
pub struct ResourceBuilder(ResourceFields);

/// The description of a family of resources. [`TemplateBuilder::handler`] makes it readable.
#[derive(Debug, Clone)]
pub struct TemplateBuilder(ResourceFields);

macro_rules! card_methods {
    ($type:ident) => {
        impl $type {
            /// Of this media type.
            pub fn mime_type(mut self, mime_type: impl Into<String>) -> Self {
                self.0.mime_type = Some(mime_type.into());
                self
            }

            /// With a title for people.
            pub fn title(self, title: &str) -> Self {
                self.member("title", RawJson::string(title))
            }

            pub fn description(self, description: &str) -> Self {
                self.member("description", RawJson::string(description))
            }

            /// With a further member of the description, such as `annotations`, `size` or `_meta`.
            pub fn member(mut self, key: impl Into<String>, value: RawJson) -> Self {
                self.0.more.push((key.into(), value));
                self
            }
        }
    };
}

card_methods!(ResourceBuilder);
card_methods!(TemplateBuilder);

type ReadFuture = Pin<Box<dyn Future<Output = Result<ResourceContents, HandlerError>> + Send>>;
type ReadHandler<A> = dyn Fn(A, HandlerContext) -> ReadFuture + Send + Sync;

impl ResourceBuilder {
    /// A resource at this address.
    pub fn new(uri: impl Into<String>, name: impl Into<String>) -> Self {
        let (address, name) = (uri.into(), name.into());
        Self(ResourceFields { address_key: "uri", address, name, mime_type: None, more: Vec::new() })
    }

    /// Read by `handler`.
    pub fn handler<F, R>(self, handler: F) -> BoundResource
    where
        F: Fn(HandlerContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<ResourceContents, HandlerError>> + Send + 'static,
    {
        // Written once here, not for every listing.
        let described = self.0.describe();
        // `()` stands where a template's handler takes its variables.
        let handler = move |(), context| -> ReadFuture { Box::pin(handler(context)) };
        BoundResource { card: self.0, described, handler: Arc::new(handler) }
    }
}

/// A resource that can be read.
#[derive(Clone)]
pub struct BoundResource {
    card: ResourceFields,
    described: RawJson,
    handler: Arc<ReadHandler<()>>,
}

impl BoundResource {
    pub(super) fn read(&self, context: HandlerContext) -> ReadFuture {
        (self.handler)((), context)
    }

    pub(super) fn mime_type(&self) -> Option<String> {
        self.card.mime_type.clone()
    }
}

impl ListingEntry for BoundResource {
    fn key(&self) -> &str {
        &self.card.address
    }

    fn described(&self) -> &RawJson {
        &self.described
    }
}

impl TemplateBuilder {
    /// Resources whose addresses match this pattern: `{name}`, `{+name}` and `{?a,b}` are understood.
    ///
    /// # Panics
    /// When the pattern has another form; it is the program's own constant.
    pub fn new(uri_template: impl Into<String>, name: impl Into<String>) -> Self {
        let (address, name) = (uri_template.into(), name.into());
        // A mistake of the programmer, found when the server is built.
        assert!(UriTemplate::parse(&address).is_some(), "unsupported URI template {address}");
        Self(ResourceFields { address_key: "uriTemplate", address, name, mime_type: None, more: Vec::new() })
    }

    /// Read by `handler`, which takes the variables of the pattern as the fields of a type; all are
    /// strings. A map of strings will do. An address whose variables do not fit is not found.
    pub fn handler<A, F, R>(self, handler: F) -> BoundTemplate
    where
        A: DeserializeOwned + Send + 'static,
        F: Fn(A, HandlerContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<ResourceContents, HandlerError>> + Send + 'static,
    {
        let pattern = UriTemplate::parse(&self.0.address).expect("the pattern was checked when the template was made");
        let described = self.0.describe();
        let handler = move |variables: RawJson, context| -> ReadFuture {
            // Variables are strings; the type of `A` says what they must look like.
            match arguments::read(&variables) {
                Ok(variables) => Box::pin(handler(variables, context)),
                Err(reason) => Box::pin(std::future::ready(Err(HandlerError::invalid_params(reason)))),
            }
        };
        BoundTemplate { card: self.0, pattern, described, handler: Arc::new(handler) }
    }
}

/// A template whose resources can be read.
#[derive(Clone)]
pub struct BoundTemplate {
    card: ResourceFields,
    pattern: UriTemplate,
    described: RawJson,
    handler: Arc<ReadHandler<RawJson>>,
}

impl BoundTemplate {
    /// The variables of `uri` as an object, when it is one of this family.
    pub(super) fn variables(&self, uri: &str) -> Option<RawJson> {
        let variables = self.pattern.variables(uri)?;
        let object: Map<String, Value> = variables.into_iter().map(|(name, value)| (name, value.into())).collect();
        Some(RawJson::from_value(&object))
    }

    pub(super) fn read(&self, variables: RawJson, context: HandlerContext) -> ReadFuture {
        (self.handler)(variables, context)
    }

    pub(super) fn mime_type(&self) -> Option<String> {
        self.card.mime_type.clone()
    }
}

impl ListingEntry for BoundTemplate {
    fn key(&self) -> &str {
        &self.card.address
    }

    fn described(&self) -> &RawJson {
        &self.described
    }
}

macro_rules! debug_by_address {
    ($type:ident) => {
        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!(stringify!($type), "({})"), self.card.address)
            }
        }
    };
}

debug_by_address!(BoundResource);
debug_by_address!(BoundTemplate);

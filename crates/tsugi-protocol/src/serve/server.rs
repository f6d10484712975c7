//! The server itself: which call goes to which handler, and what the answers look like.

use std::borrow::Cow;
use std::future::Future;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::answer::{Answer, Call, InputRequired, Outcome, Reply};
use crate::json::{JsonObject, ObjectWriter, RawJson};
use crate::mcp::cache_hints::CacheHints;
use crate::mcp::completion::CompletionReference;
use crate::mcp::subscription::SubscriptionFilter;
use crate::mcp::{ClientCapabilities, Method, ProtocolVersion, ServerCapabilities, ServerIdentity, meta};
use crate::rpc::{RpcError, code};

use super::builder::ServerBuilder;
use super::completion::{CompletionHandler, CompletionRequest};
use super::context::HandlerContext;
use super::error::HandlerError;
use super::handler_reply;
use super::listing::{EntryList, ListingEntry};
use super::output::ToolOutput;
use super::prompt::BoundPrompt;
use super::resource::{BoundResource, BoundTemplate, ResourceContents};
use super::subscription::{ChangeNotifier, PrepareHook, agreed};
use super::tool::BoundTool;

/// A server in this process. Its offer may change while it runs, and listeners are notified.
pub struct InProcessServer {
    pub(super) info: RawJson,
    pub(super) instructions: Option<String>,
    pub(super) offer: RwLock<ServerOffer>,
    pub(super) features: RwLock<ServerFeatures>,
    pub(super) completion: Option<CompletionHandler>,
    pub(super) can_log: bool,
    pub(super) extensions: Vec<(String, RawJson)>,
    pub(super) list_freshness: CacheHints,
    pub(super) page_size: usize,
    pub(super) before_watching: Option<PrepareHook>,
    pub(super) notifier: ChangeNotifier,
}

#[derive(Debug, Default)]
pub(super) struct ServerOffer {
    pub(super) tools: EntryList<BoundTool>,
    pub(super) resources: EntryList<BoundResource>,
    pub(super) templates: EntryList<BoundTemplate>,
    pub(super) prompts: EntryList<BoundPrompt>,
}

/// Which lists a server has at all. Once offered, a feature stays, even when its list becomes empty.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ServerFeatures {
    pub(super) tools: bool,
    pub(super) resources: bool,
    pub(super) prompts: bool,
}

impl ServerFeatures {
    fn has(self, feature: &str) -> bool {
        match feature {
            "tools" => self.tools,
            "resources" => self.resources,
            "prompts" => self.prompts,
            _ => false,
        }
    }
}

impl Answer for InProcessServer {
    fn answer(&self, call: Call) -> Reply {
        let answered = match &call.method {
            Method::Discover => Ok(Reply::ready(self.discover())),
            Method::ToolsList => self.list(&call, "tools", "tools", |offer| &offer.tools),
            Method::ResourcesList => self.list(&call, "resources", "resources", |offer| &offer.resources),
            Method::TemplatesList => self.list(&call, "resources", "resourceTemplates", |offer| &offer.templates),
            Method::PromptsList => self.list(&call, "prompts", "prompts", |offer| &offer.prompts),
            Method::ToolsCall => self.call_tool(&call),
            Method::ResourcesRead => self.read(&call),
            Method::PromptsGet => self.render(&call),
            Method::Complete => self.complete(&call),
            Method::Listen => self.listen(&call),
            _ => Err(unknown_method(&call)),
        };
        // A request that is wrong in itself is answered at once, without a task.
        answered.unwrap_or_else(|error| Reply::ready(error.into_outcome()))
    }
}

impl InProcessServer {
    /// Starts a server of this name and version.
    pub fn builder(name: &str, version: &str) -> ServerBuilder {
        ServerBuilder::new(name, version)
    }

    /// The handle that announces changes.
    pub fn notifier(&self) -> &ChangeNotifier {
        &self.notifier
    }

    /// Who this server is, as `server/discover` says it.
    pub fn identity(&self) -> ServerIdentity {
        ServerIdentity {
            info: Some(self.info.clone()),
            version: ProtocolVersion::LATEST,
            capabilities: self.capabilities(),
            instructions: self.instructions.clone(),
            supported_versions: vec![ProtocolVersion::LATEST.as_str().to_owned()],
        }
    }

    /// What this server can do.
    pub fn capabilities(&self) -> ServerCapabilities {
        let features = *self.features.read();
        let announced = RawJson::literal(r#"{"listChanged":true}"#);
        let watched = RawJson::literal(r#"{"listChanged":true,"subscribe":true}"#);
        // Listing changes can always be announced: the notifier belongs to every server.
        let nothing_more = RawJson::literal("{}");
        let mut capabilities = ObjectWriter::with_capacity(256);
        for (is_there, name, settings) in [
            (features.tools, "tools", &announced),
            (features.resources, "resources", &watched),
            (features.prompts, "prompts", &announced),
            (self.completion.is_some(), "completions", &nothing_more),
            (self.can_log, "logging", &nothing_more),
        ] {
            if is_there {
                capabilities.raw(name, settings);
            }
        }
        for (name, settings) in &self.extensions {
            capabilities.raw(name, settings);
        }
        ServerCapabilities::from_object(capabilities.finish_object())
    }

    /// Adds a tool, or replaces the one of the same name.
    pub fn add_tool(&self, tool: BoundTool) {
        // Before the tool itself: a client that sees the list must also see the capability.
        self.features.write().tools = true;
        self.offer.write().tools.add(tool);
        self.notifier.tools_changed();
    }

    /// Takes a tool away; false when there was none. Calls that run already are not touched.
    pub fn remove_tool(&self, name: &str) -> bool {
        let is_removed = self.offer.write().tools.remove(name);
        // Removing what is not there changes nothing, so nothing is announced.
        is_removed.then(|| self.notifier.tools_changed()).is_some()
    }

    /// Adds a resource, or replaces the one at the same address.
    pub fn add_resource(&self, resource: BoundResource) {
        self.features.write().resources = true;
        self.offer.write().resources.add(resource);
        self.notifier.resources_changed();
    }

    /// Takes a resource away; false when there was none.
    pub fn remove_resource(&self, uri: &str) -> bool {
        let is_removed = self.offer.write().resources.remove(uri);
        is_removed.then(|| self.notifier.resources_changed()).is_some()
    }

    /// Adds a template, or replaces the one of the same pattern.
    pub fn add_template(&self, template: BoundTemplate) {
        self.features.write().resources = true;
        self.offer.write().templates.add(template);
        self.notifier.resources_changed();
    }

    /// Takes a template away; false when there was none.
    pub fn remove_template(&self, uri_template: &str) -> bool {
        let is_removed = self.offer.write().templates.remove(uri_template);
        is_removed.then(|| self.notifier.resources_changed()).is_some()
    }

    /// Adds a prompt, or replaces the one of the same name.
    pub fn add_prompt(&self, prompt: BoundPrompt) {
        self.features.write().prompts = true;
        self.offer.write().prompts.add(prompt);
        self.notifier.prompts_changed();
    }

    /// Takes a prompt away; false when there was none.
    pub fn remove_prompt(&self, name: &str) -> bool {
        let is_removed = self.offer.write().prompts.remove(name);
        is_removed.then(|| self.notifier.prompts_changed()).is_some()
    }

    fn context(&self, call: &Call) -> HandlerContext {
        HandlerContext::new(call, self.notifier.clone(), self.can_log)
    }

    fn discover(&self) -> Outcome {
        complete(&self.info, |result| {
            result.raw("supportedVersions", &RawJson::from_value(&[ProtocolVersion::LATEST.as_str()]));
            result.raw("capabilities", &self.capabilities().raw());
            if let Some(instructions) = &self.instructions {
                result.string("instructions", instructions);
            }
            let freshness = self.list_freshness;
            result.number("ttlMs", freshness.ttl_ms).string("cacheScope", freshness.scope.as_str());
        })
    }

    fn list<T: ListingEntry>(
        &self,
        call: &Call,
        feature: &str,
        key: &str,
        listing: fn(&ServerOffer) -> &EntryList<T>,
    ) -> Result<Reply, HandlerError> {
        self.must_have(call, feature)?;
        let cursor = cursor_of(&call.params)?;
        // The page is copied out under the lock; nothing is awaited while it is held.
        let page = listing(&self.offer.read()).page(cursor.as_deref(), self.page_size)?;
        Ok(Reply::ready(complete(&self.info, |result| page.write(result, key, self.list_freshness))))
    }

    fn must_have(&self, call: &Call, feature: &str) -> Result<(), HandlerError> {
        if self.features.read().has(feature) { Ok(()) } else { Err(unknown_method(call)) }
    }

    fn call_tool(&self, call: &Call) -> Result<Reply, HandlerError> {
        self.must_have(call, "tools")?;
        let name = subject(call)?;
        let tool = self.offer.read().tools.get(&name);
        let tool = tool.ok_or_else(|| HandlerError::invalid_params(format!("unknown tool: {name}")))?;
        let arguments = arguments_of(call)?;
        let info = self.info.clone();
        Ok(self.run(call, move |context| async move {
            match tool.call(arguments, context).await {
                Ok(output) => Ok(tool_outcome(&info, &output)),
                // A failed tool is a result with `isError`, which the model sees and can act on.
                Err(HandlerError::Failed(output)) => Ok(tool_outcome(&info, &output)),
                Err(error) => Err(error),
            }
        }))
    }

    fn read(&self, call: &Call) -> Result<Reply, HandlerError> {
        self.must_have(call, "resources")?;
        let uri = subject(call)?.into_owned();
        let info = self.info.clone();
        let resource = self.offer.read().resources.get(&uri);
        if let Some(resource) = resource {
            return Ok(self.run(call, move |context| async move {
                let mime_type = resource.mime_type();
                Ok(read_outcome(&info, &uri, mime_type, &resource.read(context).await?))
            }));
        }
        // Fixed addresses win over templates.
        let (template, variables) = self.template_for(&uri).ok_or_else(|| HandlerError::resource_not_found(&uri))?;
        Ok(self.run(call, move |context| async move {
            let mime_type = template.mime_type();
            Ok(read_outcome(&info, &uri, mime_type, &template.read(variables, context).await?))
        }))
    }

    fn template_for(&self, uri: &str) -> Option<(Arc<BoundTemplate>, RawJson)> {
        let offer = self.offer.read();
        offer.templates.iter().find_map(|template| Some((template.clone(), template.variables(uri)?)))
    }

    fn render(&self, call: &Call) -> Result<Reply, HandlerError> {
        self.must_have(call, "prompts")?;
        let name = subject(call)?;
        let prompt = self.offer.read().prompts.get(&name);
        let prompt = prompt.ok_or_else(|| HandlerError::invalid_params(format!("unknown prompt: {name}")))?;
        let arguments = arguments_of(call)?;
        let info = self.info.clone();
        Ok(self.run(call, move |context| async move {
            let output = prompt.render(arguments, context).await?;
            Ok(complete(&info, |result| output.write(result)))
        }))
    }

    fn complete(&self, call: &Call) -> Result<Reply, HandlerError> {
        let handler = self.completion.clone().ok_or_else(|| unknown_method(call))?;
        let request = CompletionRequest::of(&call.params)?;
        if !self.knows(&request.reference) {
            return Err(HandlerError::invalid_params("unknown prompt or resource template"));
        }
        let info = self.info.clone();
        Ok(self.run(call, move |context| async move {
            let completions = handler(request, context).await?;
            Ok(complete(&info, |result| completions.write(result)))
        }))
    }

    fn knows(&self, reference: &CompletionReference) -> bool {
        let offer = self.offer.read();
        match reference {
            CompletionReference::Prompt(name) => offer.prompts.get(name).is_some(),
            CompletionReference::Resource(uri) => {
                offer.templates.get(uri).is_some() || offer.resources.get(uri).is_some()
            }
        }
    }

    fn listen(&self, call: &Call) -> Result<Reply, HandlerError> {
        let asked = call
            .params
            .get_object("notifications")
            .ok_or_else(|| HandlerError::invalid_params("`notifications` is missing"))?;
        let features = *self.features.read();
        let filter = agreed(SubscriptionFilter::from_object(&asked), |feature| features.has(feature));
        // Nothing needs watching for a listener that only wants lists.
        let preparing = self.before_watching.as_ref().filter(|_| !filter.uris.is_empty()).map(|prepare| prepare());
        Ok(self.notifier.listen(filter, meta_of(&self.info, None), preparing))
    }

    /// Runs a handler inside the reply. It starts when the reply is first polled.
    fn run<R>(&self, call: &Call, work: impl FnOnce(HandlerContext) -> R + Send + 'static) -> Reply
    where
        R: Future<Output = Result<Outcome, HandlerError>> + Send,
    {
        let context = self.context(call);
        let notes = context.notes();
        let may_ask = call.method.may_ask();
        // The client is kept to check, after the work, whether it can be asked at all.
        let client = call.meta.client.clone();
        let work = async move {
            let ended = work(context).await;
            ended.unwrap_or_else(|error| checked(error, may_ask, &client.capabilities).into_outcome())
        };
        handler_reply::reply(Box::pin(work), notes)
    }
}

/// Questions are only let through where the protocol allows them and to clients that can answer them.
fn checked(error: HandlerError, may_ask: bool, client: &ClientCapabilities) -> HandlerError {
    match error {
        HandlerError::NeedInput(_) if !may_ask => HandlerError::internal("this request cannot ask for input"),
        HandlerError::NeedInput(input) => input.checked(client).map_or_else(|error| error, HandlerError::NeedInput),
        other => other,
    }
}

/// A complete result that says who gave it.
fn complete(info: &RawJson, write: impl FnOnce(&mut ObjectWriter)) -> Outcome {
    let mut result = ObjectWriter::with_capacity(512);
    result.string("resultType", "complete");
    write(&mut result);
    result.raw("_meta", &meta_of(info, None).raw());
    Outcome::complete(result.finish_object())
}

fn meta_of(info: &RawJson, own: Option<&JsonObject>) -> JsonObject {
    let mut members = ObjectWriter::with_capacity(256);
    if let Some(own) = own {
        members.all_members(own);
    }
    // A tool that answers for another server may name that one.
    if own.is_none_or(|own| !own.has(meta::SERVER_INFO)) {
        members.raw(meta::SERVER_INFO, info);
    }
    members.finish_object()
}

fn tool_outcome(info: &RawJson, output: &ToolOutput) -> Outcome {
    let own_meta = output.own("_meta").as_ref().and_then(JsonObject::of);
    // A raw result says itself whether it is complete.
    let kind = output.own("resultType").unwrap_or_else(|| RawJson::literal("\"complete\""));
    let mut result = ObjectWriter::with_capacity(512);
    result.raw("resultType", &kind);
    output.write(&mut result);
    result.raw("_meta", &meta_of(info, own_meta.as_ref()).raw());
    let result = result.finish_object();
    if kind.as_str() != "\"input_required\"" {
        return Outcome::complete(result);
    }
    let empty = || Outcome::error(RpcError::new(code::INTERNAL_ERROR, "the tool asks nothing and keeps no state"));
    InputRequired::from_result(&result).map_or_else(empty, Outcome::InputRequired)
}

fn read_outcome(info: &RawJson, uri: &str, mime_type: Option<String>, contents: &ResourceContents) -> Outcome {
    complete(info, |result| contents.write(result, uri, mime_type.as_deref()))
}

fn unknown_method(call: &Call) -> HandlerError {
    RpcError::new(code::METHOD_NOT_FOUND, &format!("unknown method: {}", call.method)).into()
}

/// The name or address that a request is about.
fn subject(call: &Call) -> Result<Cow<'_, str>, HandlerError> {
    let key = call.method.subject_key().unwrap_or_default();
    call.subject().ok_or_else(|| HandlerError::invalid_params(format!("`{key}` is missing or not a string")))
}

/// The arguments; none at all, or `null` as some clients write it, is an empty object.
fn arguments_of(call: &Call) -> Result<JsonObject, HandlerError> {
    match call.params.get("arguments").filter(|arguments| !arguments.is_null()) {
        None => Ok(JsonObject::empty()),
        Some(arguments) => {
            JsonObject::of(&arguments).ok_or_else(|| HandlerError::invalid_params("`arguments` must be an object"))
        }
    }
}

fn cursor_of(params: &JsonObject) -> Result<Option<Cow<'_, str>>, HandlerError> {
    match params.get_str("cursor") {
        None if params.has("cursor") => Err(HandlerError::invalid_params("`cursor` must be a string")),
        cursor => Ok(cursor),
    }
}

impl std::fmt::Debug for InProcessServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("info", &self.info).finish_non_exhaustive()
    }
}

//! One server by itself, with its own names, behind the same gates as everything else.

use std::collections::HashSet;
use std::sync::Arc;

use tsugi_client::Server;
use tsugi_policy::question::NameKind;
use tsugi_protocol::answer::{Answer, Call, CompletedResult, Fault, FaultCode, Outcome, Reply};
use tsugi_protocol::era::notification;
use tsugi_protocol::json::{JsonObject, ObjectWriter, RawJson};
use tsugi_protocol::mcp::Method;
use tsugi_protocol::mcp::completion::CompletionReference;
use tsugi_schema::header_param::HeaderParams;

use super::list::ListKind;
use super::route::answer_measured;
use super::snapshot::{PublicEntry, describe_as};
use super::task::{self, TaskReplyEdit};
use super::{Hub, extension, page, watch};
use crate::backend::ToolHeaders;
use crate::guard::caller_access::CallerAccess;
use crate::guard::oauth::scope_rules::ScopeSubject;

/// A server as `/servers/{name}/mcp` shows it.
#[derive(Clone)]
pub(super) struct SingleServer {
    hub: Hub,
    /// The server as it was when the endpoint was made. A session may outlive it: see [`SingleServer::server`].
    first: Server,
}

impl SingleServer {
    pub(super) fn new(hub: Hub, server: Server) -> Self {
        Self { hub, first: server }
    }

    fn name(&self) -> &str {
        self.first.name()
    }

    /// The server that has the name now: another configuration may have put one in the place of the first. When none
    /// has it, the first says why it cannot be called.
    fn server(&self) -> Server {
        self.hub.manager().server(self.name()).unwrap_or_else(|| self.first.clone())
    }

    /// True when the configuration lets this tool out.
    fn is_presented(&self, tool: &str) -> bool {
        self.hub.config().presentations.get(self.name()).is_none_or(|shape| shape.allows(tool))
    }

    /// True when only some of what the server has can be named in this call.
    fn is_restricted(&self, call: &Call, access: &CallerAccess) -> bool {
        let is_about_tools = matches!(call.method, Method::ToolsCall | Method::ToolsList);
        access.needs_listed_names()
            || is_about_tools
                && self.hub.config().presentations.get(self.name()).is_some_and(|shape| shape.hides_tools())
    }

    /// True when this caller may see and use what the server itself calls `own`.
    fn allows(&self, call: &Call, own: &str, access: &CallerAccess) -> bool {
        match subject_kind(call) {
            SubjectKind::Tool => self.is_presented(own) && access.allows(self.name(), own),
            SubjectKind::Prompt => access.allows(self.name(), own),
            SubjectKind::Resource => access.allows_uri(&self.server(), own),
        }
    }

    /// True when the server lists what a call names. The server itself may accept other spellings of it, by which a
    /// permit could be passed.
    fn is_listed(&self, call: &Call, own: &str) -> bool {
        let Some(catalog) = self.server().catalog() else { return false };
        match subject_kind(call) {
            SubjectKind::Tool => catalog.tool(own).is_some(),
            SubjectKind::Prompt => catalog.prompts.items.iter().any(|prompt| prompt.name() == own),
            // The permit looks for addresses in the catalog itself, since templates count there.
            SubjectKind::Resource => true,
        }
    }

    /// Asks the server, and counts what it does.
    fn ask(&self, call: Call) -> Reply {
        let other = || self.hub.snapshot().other_meters.get(self.name()).cloned();
        let meter = match call.method {
            // The same meter as behind `/mcp`, so that a tool has one line in the metrics.
            Method::ToolsCall => call.subject().and_then(|tool| self.entry(&tool)?.meter).or_else(other),
            Method::PromptsGet | Method::ResourcesRead | Method::Complete => other(),
            _ => None,
        };
        let (server, snapshot) = (self.server(), self.hub.snapshot());
        let extensions = snapshot.extensions.of(self.name()).map(|extensions| &**extensions);
        let mut call = call;
        extension::narrow(&mut call, extensions);
        let edit = extensions.and_then(|all| TaskReplyEdit::of_call(&self.hub, &server, all, &call));
        let reply = self.hub.send_recorded(call, self.name(), move |call| answer_measured(&server, meter, call));
        match edit {
            None => reply,
            Some(edit) => edit.apply(reply),
        }
    }

    /// Asks about a task of this server.
    fn ask_about_task(&self, call: Call, access: &CallerAccess) -> Reply {
        let snapshot = self.hub.snapshot();
        let (server, ticket) = match task::find(&self.hub, &snapshot, &call, access, Some(self.name())) {
            Ok(found) => found,
            Err(fault) => return self.hub.refuse(&call, fault),
        };
        let edit = TaskReplyEdit::same(&call);
        let mut call = call.with_subject(&ticket.id);
        extension::narrow(&mut call, snapshot.extensions.of(self.name()).map(|extensions| &**extensions));
        let meter = snapshot.other_meters.get(self.name()).cloned();
        let reply = self.hub.send_recorded(call, self.name(), move |call| answer_measured(&server, meter, call));
        match edit {
            None => reply,
            Some(edit) => edit.apply(reply),
        }
    }

    /// The tool with this name of the server's own.
    fn entry(&self, own: &str) -> Option<PublicEntry> {
        let view = self.hub.snapshot();
        let public = view.own_tools.get(self.name())?.get(own)?;
        view.tools.get(public).cloned()
    }

    /// The part of a call that this caller may have: nothing of a server that it may not use, and of a subscription
    /// the resources that it may.
    fn narrow(&self, mut call: Call, access: &CallerAccess) -> Result<Call, Box<(Call, Fault)>> {
        let name = self.name();
        let named = subject(&call);
        let denied = match &named {
            _ if !access.allows_some_of(name) => Some(format!("this caller may not use the server {name:?}")),
            None if matches!(call.method, Method::Other(_)) && !access.allows_method(name, &call.method) => {
                Some(format!("this caller may not use the method {:?}", call.method.as_str()))
            }
            // One text for both, so that a caller cannot find out names that it may not use.
            Some(own) if !self.allows(&call, own, access) || !self.is_listed(&call, own) => {
                Some(format!("this caller may not use {own:?}"))
            }
            _ => None,
        };
        if let Some(message) = denied {
            return Err(Box::new((call, Fault::new(FaultCode::PermissionDenied, message).on_server(name))));
        }
        if let Err(fault) = self.expect_policy(&call, named.as_deref(), access) {
            return Err(Box::new((call, fault)));
        }
        // After the permit: a name that the caller may not use must not show that more scope would help.
        if let Err(fault) = self.expect_scopes(&call, named.as_deref(), access) {
            return Err(Box::new((call, fault)));
        }
        if call.method == Method::Listen
            && let Some(mut filter) = notification::requested_filter(&call.params)
        {
            let has_scopes = |uri: &str| access.expect_scopes(name, ScopeSubject::Address(uri)).is_ok();
            let is_permitted = |uri: &str| access.expect_policy(&call, name, NameKind::Address, uri).is_ok();
            filter.uris.retain(|uri| access.allows_uri(&self.server(), uri) && is_permitted(uri) && has_scopes(uri));
            call.params = notification::listen_params(&filter);
        }
        Ok(call)
    }

    /// Asks the policy about a call. What it refuses reads like what a permit refuses.
    fn expect_policy(&self, call: &Call, named: Option<&str>, access: &CallerAccess) -> Result<(), Fault> {
        let name = self.name();
        let refused = |message: String| Fault::new(FaultCode::PermissionDenied, message).on_server(name);
        match named {
            Some(own) => {
                let asked = access.expect_policy(call, name, subject_kind(call).name_kind(), own);
                asked.map_err(|rule| refused(format!("this caller may not use {own:?}")).by_rule(rule))
            }
            None if matches!(call.method, Method::Other(_)) => {
                let method = call.method.as_str();
                let asked = access.expect_policy(call, name, NameKind::Method, method);
                asked.map_err(|rule| refused(format!("this caller may not use the method {method:?}")).by_rule(rule))
            }
            // Lists are narrowed one by one; a server that shows nothing is not greeted either.
            None if !self.hub.snapshot().lists_some_of(&self.server(), access) => {
                Err(refused(format!("this caller may not use the server {name:?}")))
            }
            None => Ok(()),
        }
    }

    fn expect_scopes(&self, call: &Call, named: Option<&str>, access: &CallerAccess) -> Result<(), Fault> {
        let scope_subject = match (named, subject_kind(call)) {
            (Some(own), SubjectKind::Tool | SubjectKind::Prompt) => ScopeSubject::Name(own),
            (Some(own), SubjectKind::Resource) => ScopeSubject::Address(own),
            (None, _) if matches!(call.method, Method::Other(_)) => ScopeSubject::Method(call.method.as_str()),
            // Lists, greetings and notifications need the base scopes alone, so that step-up can happen.
            (None, _) => return Ok(()),
        };
        access.expect_scopes(self.name(), scope_subject)
    }

    /// Decides once the server's lists are known. It is started when it is not running.
    fn answer_once_listed(&self, call: Call, access: CallerAccess) -> Reply {
        let this = self.clone();
        Reply::from_pending_reply(async move {
            let limit = call.options.timeout.unwrap_or(this.hub.manager().options().timeout);
            match this.server().settled(limit).await {
                Ok(_) => this.answer_listed(call, &access),
                Err(fault) => this.hub.refuse(&call, fault),
            }
        })
    }

    fn answer_listed(&self, call: Call, access: &CallerAccess) -> Reply {
        let is_restricted = self.is_restricted(&call, access);
        let narrowed = match is_restricted {
            true => self.narrow(call, access),
            false => {
                // Only a policy in shadow mode can be asked here: it counts, and everything passes.
                let _ = self.expect_policy(&call, subject(&call).as_deref(), access);
                Ok(call)
            }
        };
        let call = match narrowed {
            Ok(call) => call,
            Err(denied) => return self.hub.refuse(&denied.0, denied.1),
        };
        if task::is_task_method(call.method.as_str()) {
            let fault = Fault::new(FaultCode::MethodNotFound, format!("method not found: {}", call.method));
            return self.hub.refuse(&call, fault.on_server(self.name()));
        }
        if call.method == Method::Listen && task::wants_extensions(&call) {
            return watch::listen_to(&self.hub, call, &self.server());
        }
        if call.method == Method::Discover && self.hub.config().is_silent(self.name()) {
            return self.discover(call);
        }
        if ListKind::of(&call.method).is_some() && !self.is_whole(&call, is_restricted) {
            return Arc::new(self.clone()).list(call, access.clone());
        }
        self.ask(call)
    }

    /// True when a list is given whole, as the server's catalog has it.
    fn is_whole(&self, call: &Call, is_restricted: bool) -> bool {
        let limit = self.hub.config().page;
        // The catalog has the list serialized, so that a whole one costs no work.
        let is_small = self.server().catalog().is_some_and(|catalog| {
            let (items, bytes) = catalog.size(&call.method);
            items <= limit.items && bytes <= limit.bytes
        });
        is_small && !call.params.has("cursor") && !is_restricted && !self.is_described(call)
    }

    /// Who the server is, without its instructions.
    fn discover(&self, call: Call) -> Reply {
        let asked = self.ask(call);
        Reply::from_future(async move {
            match asked.outcome().await {
                Outcome::Complete(complete) => {
                    Outcome::Complete(CompletedResult { body: complete.body.without("instructions"), ..complete })
                }
                other => other,
            }
        })
    }

    /// A page of the server's list, without what this caller may not see.
    fn list(self: Arc<Self>, call: Call, access: CallerAccess) -> Reply {
        Reply::from_future(async move {
            let outcome = self.server().answer(call.clone()).outcome().await;
            let Outcome::Complete(complete) = outcome else { return outcome };
            match self.page(&call, &complete.body, &access) {
                Ok(body) => Outcome::Complete(CompletedResult { body, ..complete }),
                Err(fault) => Outcome::fault(fault),
            }
        })
    }

    /// True when the configuration has other words for some of the server's tools.
    fn is_described(&self, call: &Call) -> bool {
        call.method == Method::ToolsList && self.hub.config().presentations.contains_key(self.name())
    }

    /// A tool with the words that the configuration has for it. Its name is the server's own here.
    fn describe_item(&self, call: &Call, own: String, item: RawJson) -> (String, RawJson) {
        if call.method != Method::ToolsList {
            return (own, item);
        }
        let config = self.hub.config();
        let shape = config.presentations.get(self.name());
        let item = describe_as(item, shape.and_then(|shape| shape.description(&own)));
        (own, item)
    }

    fn page(&self, call: &Call, body: &JsonObject, access: &CallerAccess) -> Result<JsonObject, Fault> {
        let (key, name) = match call.method {
            Method::ToolsList => ("tools", "name"),
            Method::PromptsList => ("prompts", "name"),
            Method::ResourcesList => ("resources", "uri"),
            _ => ("resourceTemplates", "uriTemplate"),
        };
        let after = page::after(key, call)?;
        let is_restricted = self.is_restricted(call, access);
        let items: Vec<RawJson> = body.get(key).and_then(|items| items.to().ok()).unwrap_or_default();
        // An entry without a name cannot be called, so it is not shown.
        let named = |item: &RawJson| Some((JsonObject::of(item)?.get_str(name)?.into_owned(), item.clone()));
        let is_shown = |(own, _): &(String, RawJson)| {
            let kind = subject_kind(call).name_kind();
            !is_restricted || self.allows(call, own, access) && access.lists(self.name(), kind, own)
        };
        // A name that comes twice would lead a cursor back.
        let mut seen = HashSet::new();
        let is_first = |(own, _): &(String, RawJson)| seen.insert(own.clone());
        let shown: Vec<(String, RawJson)> = items.iter().filter_map(named).filter(is_shown).filter(is_first).collect();
        let shown: Vec<(String, RawJson)> =
            shown.into_iter().map(|(own, item)| self.describe_item(call, own, item)).collect();
        let entries = shown.iter().map(|(own, item)| (own.as_str(), item.as_str()));
        let page = self.hub.config().page.page(key, entries, after.as_deref()).ok_or_else(page::gone)?;
        let array =
            RawJson::parse(format!("[{}]", page.items.join(",")).into()).expect("an array of values is a value");
        let mut result = ObjectWriter::with_capacity(array.bytes().len() + 512);
        result.raw(key, &array).members_except(body, &[key]);
        if let Some(next) = &page.next {
            result.string("nextCursor", next);
        }
        Ok(result.finish_object())
    }
}

/// Which of the server's lists has what a call names.
enum SubjectKind {
    Tool,
    Prompt,
    Resource,
}

impl SubjectKind {
    fn name_kind(&self) -> NameKind {
        match self {
            SubjectKind::Tool => NameKind::Tool,
            SubjectKind::Prompt => NameKind::Prompt,
            SubjectKind::Resource => NameKind::Address,
        }
    }
}

fn subject_kind(call: &Call) -> SubjectKind {
    match call.method {
        Method::ToolsCall | Method::ToolsList => SubjectKind::Tool,
        Method::PromptsGet | Method::PromptsList => SubjectKind::Prompt,
        Method::Complete => match CompletionReference::of(&call.params) {
            Some(CompletionReference::Prompt(_)) => SubjectKind::Prompt,
            _ => SubjectKind::Resource,
        },
        _ => SubjectKind::Resource,
    }
}

/// What a call names.
fn subject(call: &Call) -> Option<String> {
    match call.method {
        Method::Complete => CompletionReference::of(&call.params).map(|reference| match reference {
            CompletionReference::Prompt(name) | CompletionReference::Resource(name) => name,
        }),
        _ => call.subject().map(|subject| subject.into_owned()),
    }
}

impl Answer for SingleServer {
    fn answer(&self, call: Call) -> Reply {
        let access = self.hub.access(&call.caller).asked_by(&call);
        if call.method.is_about_task() {
            return self.ask_about_task(call, &access);
        }
        // Lists and greetings are narrowed afterwards and need not wait.
        let names_something = call.method == Method::Listen || subject(&call).is_some();
        if names_something && self.is_restricted(&call, &access) && self.server().catalog().is_none() {
            return self.answer_once_listed(call, access);
        }
        self.answer_listed(call, &access)
    }
}

impl ToolHeaders for SingleServer {
    fn header_params(&self, tool: &str) -> Option<Arc<HeaderParams>> {
        self.entry(tool)?.header_params
    }
}

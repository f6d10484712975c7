//! One server by itself, with its own names, behind the same gates as everything else.

use std::collections::HashSet;
use std::sync::Arc;

use tsugi_client::Server;
use tsugi_protocol::answer::{Answer, Call, CompletedResult, Fault, FaultCode, Outcome, Reply};
use tsugi_protocol::era::notification;
use tsugi_protocol::json::{JsonObject, ObjectWriter, RawJson};
use tsugi_protocol::mcp::Method;
use tsugi_protocol::mcp::completion::CompletionReference;
use tsugi_schema::header_param::HeaderParams;

use super::snapshot::{PublicEntry, describe_as};
use super::{Hub, page};
use crate::backend::ToolHeaders;

/// A server as `/servers/{name}/mcp` shows it.
#[derive(Clone)]
pub(super) struct SingleServer {
    hub: Hub,
    /// The server as it was when somebody came here. A session may outlive it: see [`SingleServer::server`].
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

    /// True when this caller may see and use this name.
    fn allows(&self, call: &Call, own: &str) -> bool {
        let is_shown = call.method != Method::ToolsCall && call.method != Method::ToolsList
            || self.hub.config().shapes.get(self.name()).is_none_or(|shape| shape.allows(own));
        is_shown && self.hub.permit(&call.caller).is_none_or(|permit| permit.allows(self.name(), own))
    }

    /// Asks the server, and counts what it does.
    fn ask(&self, mut call: Call) -> Reply {
        let other = || self.hub.view().other_meters.get(self.name()).cloned();
        let meter = match call.method {
            Method::ToolsCall => call.subject().and_then(|tool| self.entry(&tool)?.meter).or_else(other),
            Method::PromptsGet | Method::ResourcesRead | Method::Complete => other(),
            _ => None,
        };
        let begun = meter.map(|meter| meter.begin(&mut call));
        let reply = self.server().answer(call);
        match begun {
            Some(begun) => begun.measure(reply),
            None => reply,
        }
    }

    /// The tool with this name of the server's own.
    fn entry(&self, own: &str) -> Option<PublicEntry> {
        let view = self.hub.view();
        let public = view.own_tools.get(self.name())?.get(own)?;
        view.tools.get(public).cloned()
    }

    /// What of a call this caller may have: nothing of a server that is not for it, and of a subscription the
    /// resources that are.
    fn narrow(&self, mut call: Call) -> Result<Call, Box<(Call, Fault)>> {
        let name = self.name();
        let is_for_others = self.hub.permit(&call.caller).is_some_and(|permit| !permit.allows_some_of(name));
        let denied = match subject(&call) {
            _ if is_for_others => Some(format!("this caller may not use the server {name:?}")),
            Some(own) if !self.allows(&call, &own) => Some(format!("this caller may not use {own:?}")),
            _ => None,
        };
        if let Some(message) = denied {
            return Err(Box::new((call, Fault::new(FaultCode::PermissionDenied, message).on_server(name))));
        }
        if call.method == Method::Listen {
            let mut filter = notification::read_filter(&call.params);
            filter.uris.retain(|uri| self.allows(&call, uri));
            call.params = notification::listen_params(&filter);
        }
        Ok(call)
    }

    fn is_restricted(&self, call: &Call) -> bool {
        self.hub.permit(&call.caller).is_some() || self.hub.config().shapes.contains_key(self.name())
    }

    /// True when a list is given whole, as the server's catalog has it.
    fn is_whole(&self, call: &Call) -> bool {
        let limit = self.hub.config().page;
        let is_small = self.server().catalog().is_some_and(|catalog| {
            let (items, bytes) = catalog.size(&call.method);
            items <= limit.items && bytes <= limit.bytes
        });
        is_small && !call.params.has("cursor") && !self.is_restricted(call)
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
    fn list(self: Arc<Self>, call: Call) -> Reply {
        Reply::from_future(async move {
            let outcome = self.server().answer(call.clone()).outcome().await;
            let Outcome::Complete(complete) = outcome else { return outcome };
            match self.page(&call, &complete.body) {
                Ok(body) => Outcome::Complete(CompletedResult { body, ..complete }),
                Err(fault) => Outcome::fault(fault),
            }
        })
    }

    /// A tool with the words that the configuration has for it. Its name is the server's own here.
    fn describe_item(&self, call: &Call, own: String, item: RawJson) -> (String, RawJson) {
        if call.method != Method::ToolsList {
            return (own, item);
        }
        let config = self.hub.config();
        let shape = config.shapes.get(self.name());
        let item = describe_as(item, shape.and_then(|shape| shape.description(&own)));
        (own, item)
    }

    fn page(&self, call: &Call, body: &JsonObject) -> Result<JsonObject, Fault> {
        let (key, name) = match call.method {
            Method::ToolsList => ("tools", "name"),
            Method::PromptsList => ("prompts", "name"),
            Method::ResourcesList => ("resources", "uri"),
            _ => ("resourceTemplates", "uriTemplate"),
        };
        let after = page::after(key, call)?;
        let items: Vec<RawJson> = body.get(key).and_then(|items| items.to().ok()).unwrap_or_default();
        let named = |item: &RawJson| Some((JsonObject::of(item)?.get_str(name)?.into_owned(), item.clone()));
        let is_shown = |(own, _): &(String, RawJson)| !self.is_restricted(call) || self.allows(call, own);
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

/// What a call is about.
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
        let narrowed = if self.is_restricted(&call) { self.narrow(call) } else { Ok(call) };
        let call = match narrowed {
            Ok(call) => call,
            Err(denied) => return self.hub.refuse(&denied.0, denied.1),
        };
        let is_list = matches!(
            call.method,
            Method::ToolsList | Method::PromptsList | Method::ResourcesList | Method::TemplatesList
        );
        if call.method == Method::Discover && self.hub.config().is_silent(self.name()) {
            return self.discover(call);
        }
        if is_list && !self.is_whole(&call) {
            return Arc::new(self.clone()).list(call);
        }
        self.ask(call)
    }
}

impl ToolHeaders for SingleServer {
    fn header_params(&self, tool: &str) -> Option<Arc<HeaderParams>> {
        self.entry(tool)?.header_params
    }
}

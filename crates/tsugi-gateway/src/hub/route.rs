//! Which server a call concerns: by public name, by address, or because there is only one.

use std::sync::Arc;

use tsugi_client::Server;
use tsugi_client::seal::TaskTicket;
use tsugi_policy::question::NameKind;
use tsugi_protocol::answer::{Answer, Call, Fault, FaultCode, Reply};
use tsugi_protocol::mcp::Method;
use tsugi_protocol::mcp::completion::CompletionReference;

use super::access::denied;
use super::extension::{self, ExtensionSubject, ServerExtensions};
use super::snapshot::{HubSnapshot, PublicEntry, PublicNames};
use super::task::{self, TaskReplyEdit};
use super::{Hub, app, resource};
use crate::guard::caller_access::CallerAccess;
use crate::guard::oauth::scope_rules::ScopeSubject;
use crate::telemetry::metrics::ToolMeter;

/// A call's server, and what that server calls its subject.
pub(crate) struct RoutedCall {
    server: Server,
    subject: RoutedSubject,
    meter: Option<Arc<ToolMeter>>,
    /// What the server declares beside the core, where it does.
    extensions: Option<Arc<ServerExtensions>>,
}

enum RoutedSubject {
    /// The server knows it by the same name.
    Same,
    /// The server knows it by this name.
    Own(String),
    /// The server knows what is to be completed by this name.
    Reference(CompletionReference),
    /// The server knows this parameter of a method that no revision defines by this value.
    Parameter(&'static str, String),
    /// The server knows the task by this name.
    Task(TaskTicket),
}

impl RoutedCall {
    fn new(server: Server, subject: RoutedSubject) -> Self {
        Self { server, subject, meter: None, extensions: None }
    }

    /// True while a server that comes before this one has not told its lists: the address may be that server's, and must
    /// not be taken over by one that is only faster.
    pub(crate) fn may_be_anothers(&self, snapshot: &HubSnapshot, call: &Call) -> bool {
        let is_address =
            matches!(call.method, Method::ResourcesRead | Method::ResourcesSubscribe | Method::ResourcesUnsubscribe);
        // An address that names its server is not in doubt.
        is_address && !snapshot.is_complete && call.subject().is_none_or(|uri| resource::unwrap(&uri).is_none()) && {
            let mut earlier = snapshot.servers.iter().take_while(|server| server.name() != self.server.name());
            earlier.any(|server| !snapshot.servers_told.contains(server.name()))
        }
    }

    pub(crate) fn answer(self, mut call: Call, hub: &Hub) -> Reply {
        // The address as the caller has it: results say it again.
        let asked = match call.method {
            Method::ResourcesRead => call.subject().map(|uri| uri.into_owned()),
            _ => None,
        };
        match &self.subject {
            RoutedSubject::Same => {}
            // Servers know their own names only.
            RoutedSubject::Own(own) => call = call.with_subject(own),
            RoutedSubject::Reference(reference) => call.params = reference.replace_in(&call.params),
            RoutedSubject::Parameter(key, own) => call.params = extension::with_parameter(&call.params, key, own),
            RoutedSubject::Task(_) => {}
        }
        extension::narrow(&mut call, self.extensions.as_deref());
        let edit = match &self.subject {
            RoutedSubject::Task(ticket) => {
                let edit = TaskReplyEdit::same(&call);
                call = call.with_subject(&ticket.id);
                edit
            }
            _ => self.extensions.as_deref().and_then(|all| TaskReplyEdit::of_call(hub, &self.server, all, &call)),
        };
        let pages = app::AddressEdit::of_call(hub, &self.server, self.extensions.as_deref(), &call, asked.as_deref());
        let reply = if !hub.has_audit() {
            answer_measured(&self.server, self.meter, call)
        } else {
            let (server, meter) = (self.server.clone(), self.meter);
            hub.send_recorded(call, self.server.name(), move |call| answer_measured(&server, meter, call))
        };
        let reply = match edit {
            None => reply,
            Some(edit) => edit.apply(reply),
        };
        match pages {
            None => reply,
            Some(pages) => pages.apply(reply),
        }
    }
}

/// Asks a server, and counts what it does.
pub(super) fn answer_measured(server: &Server, meter: Option<Arc<ToolMeter>>, mut call: Call) -> Reply {
    let begun = meter.map(|meter| meter.begin(&mut call));
    let reply = server.answer(call);
    match begun {
        Some(begun) => begun.measure(reply),
        None => reply,
    }
}

/// Finds the server that a call concerns. The same gate holds for what is listed and for what is called.
pub(crate) fn route(
    hub: &Hub,
    snapshot: &HubSnapshot,
    call: &Call,
    access: &CallerAccess,
) -> Result<RoutedCall, Fault> {
    let routed = match call.method {
        Method::ToolsCall => route_named(&snapshot.tools, call, access, FaultCode::ToolNotFound, "tool"),
        Method::PromptsGet => route_named(&snapshot.prompts, call, access, FaultCode::InvalidParams, "prompt"),
        Method::ResourcesRead | Method::ResourcesSubscribe | Method::ResourcesUnsubscribe => {
            route_resource(snapshot, call, access)
        }
        Method::Complete => route_completion(snapshot, call, access),
        Method::TasksGet | Method::TasksUpdate | Method::TasksCancel => route_task(hub, snapshot, call, access),
        Method::Other(_) => route_other(snapshot, call, access),
        _ => only_server(snapshot, call, access),
    }?;
    let extensions = match call.method {
        // Known already: a tool brings them along.
        Method::ToolsCall => routed.extensions,
        _ => snapshot.extensions.of(routed.server.name()).cloned(),
    };
    // Calls without a tool are counted per server, so that callers cannot make labels.
    let meter = routed.meter.or_else(|| snapshot.other_meters.get(routed.server.name()).cloned());
    Ok(RoutedCall { meter, extensions, ..routed })
}

/// The server that a name begins with, when its lists are not known yet: it may well have that name.
pub(crate) fn unlisted_server(snapshot: &HubSnapshot, call: &Call, access: &CallerAccess) -> Option<Server> {
    if !matches!(call.method, Method::ToolsCall | Method::PromptsGet) {
        return None;
    }
    let name = call.subject()?;
    let is_meant = |server: &&Server| {
        let own = name.strip_prefix(server.name()).and_then(|rest| rest.strip_prefix("__"));
        own.is_some_and(|own| access.allows(server.name(), own))
    };
    // Only prefixes are tried: without one any server could be meant.
    snapshot.servers.iter().filter(|server| !snapshot.servers_told.contains(server.name())).find(is_meant).cloned()
}

fn route_named(
    names: &PublicNames,
    call: &Call,
    access: &CallerAccess,
    code: FaultCode,
    kind: &str,
) -> Result<RoutedCall, Fault> {
    let name = call.subject().ok_or_else(|| Fault::new(FaultCode::InvalidParams, "the parameter `name` is missing"))?;
    let entry = find_named(names, &name, call, access, code, kind)?;
    Ok(RoutedCall {
        server: entry.server.clone(),
        subject: subject_for(&entry.own, &name),
        meter: entry.meter.clone(),
        extensions: entry.extensions.clone(),
    })
}

/// The entry with this public name. Permits are decided on the name that the server's catalog has for it.
fn find_named<'a>(
    names: &'a PublicNames,
    name: &str,
    call: &Call,
    access: &CallerAccess,
    code: FaultCode,
    kind: &str,
) -> Result<&'a PublicEntry, Fault> {
    let unknown = || access.missing(kind, name, || Fault::new(code, format!("there is no {kind} named {name:?}")));
    let entry = names.get(name).ok_or_else(unknown)?;
    if !access.allows(entry.server.name(), &entry.own) {
        return Err(denied(kind, name));
    }
    let name_kind = if call.method == Method::ToolsCall { NameKind::Tool } else { NameKind::Prompt };
    access.expect_use(call, &entry.server, name_kind, &entry.own, || denied(kind, name))?;
    access.expect_scopes(entry.server.name(), ScopeSubject::Name(&entry.own))?;
    Ok(entry)
}

fn subject_for(own: &str, public: &str) -> RoutedSubject {
    if own == public { RoutedSubject::Same } else { RoutedSubject::Own(own.to_owned()) }
}

fn route_resource(snapshot: &HubSnapshot, call: &Call, access: &CallerAccess) -> Result<RoutedCall, Fault> {
    let uri = call.subject().ok_or_else(|| Fault::new(FaultCode::InvalidParams, "the parameter `uri` is missing"))?;
    let (server, own) = resource::find(snapshot, &uri, call, access)?;
    Ok(RoutedCall::new(server, subject_for(&own, &uri)))
}

fn route_completion(snapshot: &HubSnapshot, call: &Call, access: &CallerAccess) -> Result<RoutedCall, Fault> {
    match CompletionReference::of(&call.params) {
        Some(CompletionReference::Prompt(name)) => {
            let entry = find_named(&snapshot.prompts, &name, call, access, FaultCode::InvalidParams, "prompt")?;
            Ok(routed_reference(entry.server.clone(), &name, &entry.own, CompletionReference::Prompt))
        }
        Some(CompletionReference::Resource(uri)) => {
            let (server, own) = match snapshot.templates.get(&uri) {
                Some(listed) if access.allows_uri(&listed.server, &listed.own) => {
                    let refusal = || denied("resource", &uri);
                    access.expect_use(call, &listed.server, NameKind::Address, &listed.own, refusal)?;
                    access.expect_scopes(listed.server.name(), ScopeSubject::Address(&listed.own))?;
                    (listed.server.clone(), listed.own.clone())
                }
                Some(_) => return Err(denied("resource", &uri)),
                None => resource::find(snapshot, &uri, call, access)?,
            };
            Ok(routed_reference(server, &uri, &own, CompletionReference::Resource))
        }
        None => Err(Fault::new(FaultCode::InvalidParams, "the parameter `ref` names neither a prompt nor a resource")),
    }
}

fn routed_reference(
    server: Server,
    public: &str,
    own: &str,
    reference: fn(String) -> CompletionReference,
) -> RoutedCall {
    let subject = if own == public { RoutedSubject::Same } else { RoutedSubject::Reference(reference(own.to_owned())) };
    RoutedCall::new(server, subject)
}

fn route_task(hub: &Hub, snapshot: &HubSnapshot, call: &Call, access: &CallerAccess) -> Result<RoutedCall, Fault> {
    let (server, ticket) = task::find(hub, snapshot, call, access, None)?;
    Ok(RoutedCall::new(server, RoutedSubject::Task(ticket)))
}

/// Methods that no revision defines go to the server that has their subject, or to the only one that declares their
/// extension.
fn route_other(snapshot: &HubSnapshot, call: &Call, access: &CallerAccess) -> Result<RoutedCall, Fault> {
    let method = call.method.as_str();
    let may_use = |server: &Server| {
        access.allows_method(server.name(), &call.method)
            && access.expect_policy(call, server.name(), NameKind::Method, method).is_ok()
    };
    if task::is_task_method(method) {
        return Err(unknown_method(call, access));
    }
    if let [_] = snapshot.servers.as_slice() {
        return only_server(snapshot, call, access);
    }
    let mut declaring = snapshot.extensions.declaring(&snapshot.servers, method);
    declaring.retain(|server| may_use(server));
    let subject = extension::subject(snapshot, call, access);
    let found = match (declaring.as_slice(), subject) {
        ([], Some(subject)) => Some((subject.server.clone(), subject.into_routed())),
        ([], None) => None,
        (several, Some(subject)) if several.iter().any(|server| server.name() == subject.server.name()) => {
            Some((subject.server.clone(), subject.into_routed()))
        }
        // The name is one that only the extension knows.
        ([only], _) => Some(((*only).clone(), RoutedSubject::Same)),
        (several, _) => {
            let names: Vec<&str> = several.iter().map(|server| server.name()).collect();
            return Err(extension::ambiguous(method, &names));
        }
    };
    match found {
        Some((server, subject)) if may_use(&server) => {
            access.expect_scopes(server.name(), ScopeSubject::Method(method))?;
            Ok(RoutedCall::new(server, subject))
        }
        _ => Err(unknown_method(call, access)),
    }
}

impl ExtensionSubject {
    fn into_routed(self) -> RoutedSubject {
        match self.is_own_name {
            true => RoutedSubject::Same,
            false => RoutedSubject::Parameter(self.key, self.own),
        }
    }
}

/// The same for every method and any number of servers, so that nothing can be found out.
fn unknown_method(call: &Call, access: &CallerAccess) -> Fault {
    match access.is_restricted() {
        true => denied("method", call.method.as_str()),
        false => Fault::new(FaultCode::MethodNotFound, format!("method not found: {}", call.method)),
    }
}

/// Methods that say nothing about their server go to the only one there is.
fn only_server(snapshot: &HubSnapshot, call: &Call, access: &CallerAccess) -> Result<RoutedCall, Fault> {
    match snapshot.servers.as_slice() {
        // With several servers it cannot be known which one is meant.
        [only] if access.allows_method(only.name(), &call.method) => {
            let method = call.method.as_str();
            access.expect_use(call, only, NameKind::Method, method, || denied("method", method))?;
            access.expect_scopes(only.name(), ScopeSubject::Method(call.method.as_str()))?;
            Ok(RoutedCall::new(only.clone(), RoutedSubject::Same))
        }
        _ => Err(unknown_method(call, access)),
    }
}

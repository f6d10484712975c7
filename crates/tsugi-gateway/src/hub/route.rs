//! Which server a call concerns: by public name, by address, by template, or because there is only one.

use std::sync::Arc;

use tsugi_client::{Server, not_found};
use tsugi_protocol::answer::{Answer, Call, Fault, FaultCode, Reply};
use tsugi_protocol::mcp::Method;
use tsugi_protocol::mcp::completion::CompletionReference;

use super::snapshot::{HubSnapshot, PublicEntry, PublicNames};
use crate::guard::permit::AccessPermit;
use crate::telemetry::metrics::ToolMeter;

/// What wrapped addresses begin with; the server's name and its own address follow.
const WRAPPER: &str = "tsugi://";

/// An address that says whose it is. Templates can be wrapped too: expanding and unwrapping commute.
pub(crate) fn wrap(server: &str, uri: &str) -> String {
    format!("{WRAPPER}{server}/{uri}")
}

/// The server and its own address inside a wrapped one.
pub(crate) fn unwrap(uri: &str) -> Option<(&str, &str)> {
    uri.strip_prefix(WRAPPER)?.split_once('/')
}

/// A call's server, and what that server calls its subject.
pub(crate) struct RoutedCall {
    server: Server,
    subject: RoutedSubject,
    meter: Option<Arc<ToolMeter>>,
}

enum RoutedSubject {
    /// The server knows it by the same name.
    Same,
    /// The server knows it by this name.
    Own(String),
    /// The server knows what is to be completed by this name.
    Reference(CompletionReference),
}

impl RoutedCall {
    /// Asks the server.
    pub(crate) fn answer(self, mut call: Call) -> Reply {
        match self.subject {
            RoutedSubject::Same => {}
            RoutedSubject::Own(own) => call = call.with_subject(&own),
            RoutedSubject::Reference(reference) => call.params = reference.replace_in(&call.params),
        }
        let begun = self.meter.map(|meter| meter.begin(&mut call));
        let reply = self.server.answer(call);
        match begun {
            Some(begun) => begun.measure(reply),
            None => reply,
        }
    }
}

/// Finds the server that a call concerns. The same gate holds for what is listed and for what is called.
pub(crate) fn route(view: &HubSnapshot, call: &Call, permit: Option<&AccessPermit>) -> Result<RoutedCall, Fault> {
    let allows = |server: &Server, own: &str| permit.is_none_or(|permit| permit.allows(server.name(), own));
    let routed = match call.method {
        Method::ToolsCall => route_named(&view.tools, call, &allows, FaultCode::ToolNotFound, "tool"),
        Method::PromptsGet => route_named(&view.prompts, call, &allows, FaultCode::InvalidParams, "prompt"),
        Method::ResourcesRead | Method::ResourcesSubscribe | Method::ResourcesUnsubscribe => {
            route_resource(view, call, &allows)
        }
        Method::Complete => route_completion(view, call, &allows),
        _ => only_server(view, call, permit),
    }?;
    let meter = routed.meter.or_else(|| view.other_meters.get(routed.server.name()).cloned());
    Ok(RoutedCall { meter, ..routed })
}

/// The server that a name begins with, when it has not told what it has: it may well have that.
pub(crate) fn unlisted_server(view: &HubSnapshot, call: &Call, permit: Option<&AccessPermit>) -> Option<Server> {
    if !matches!(call.method, Method::ToolsCall | Method::PromptsGet) {
        return None;
    }
    let name = call.subject()?;
    let is_meant = |server: &&Server| {
        let own = name.strip_prefix(server.name()).and_then(|rest| rest.strip_prefix("__"));
        own.is_some_and(|own| permit.is_none_or(|permit| permit.allows(server.name(), own)))
    };
    view.servers.iter().filter(|server| !view.servers_told.contains(server.name())).find(is_meant).cloned()
}

type PermitCheck<'a> = dyn Fn(&Server, &str) -> bool + 'a;

fn route_named(
    names: &PublicNames,
    call: &Call,
    allows: &PermitCheck<'_>,
    code: FaultCode,
    kind: &str,
) -> Result<RoutedCall, Fault> {
    let name = call.subject().ok_or_else(|| Fault::new(FaultCode::InvalidParams, "the parameter `name` is missing"))?;
    let unknown = || Fault::new(code, format!("there is no {kind} named {name:?}"));
    let entry = names.get(&name).ok_or_else(unknown)?;
    if !allows(&entry.server, &entry.own) {
        return Err(denied(kind, &name));
    }
    Ok(RoutedCall { server: entry.server.clone(), subject: subject_for(&entry.own, &name), meter: entry.meter.clone() })
}

fn subject_for(own: &str, public: &str) -> RoutedSubject {
    if own == public { RoutedSubject::Same } else { RoutedSubject::Own(own.to_owned()) }
}

fn denied(kind: &str, name: &str) -> Fault {
    Fault::new(FaultCode::PermissionDenied, format!("this caller may not use the {kind} {name:?}"))
}

fn route_resource(view: &HubSnapshot, call: &Call, allows: &PermitCheck<'_>) -> Result<RoutedCall, Fault> {
    let uri = call.subject().ok_or_else(|| Fault::new(FaultCode::InvalidParams, "the parameter `uri` is missing"))?;
    let (server, own) = find_resource(view, &uri).ok_or_else(|| not_found::resource(&uri))?;
    if !allows(&server, &own) {
        return Err(denied("resource", &uri));
    }
    Ok(RoutedCall { server, subject: subject_for(&own, &uri), meter: None })
}

/// The server that has an address, and the address as that server knows it. Unlisted addresses go by
/// template, then to the only server that has resources at all.
pub(crate) fn find_resource(view: &HubSnapshot, uri: &str) -> Option<(Server, String)> {
    if let Some((name, own)) = unwrap(uri)
        && let Some(server) = view.servers.iter().find(|server| server.name() == name)
    {
        return Some((server.clone(), own.to_owned()));
    }
    let of_entry = |entry: &PublicEntry| (entry.server.clone(), uri.to_owned());
    if let Some(entry) = view.resources.get(uri) {
        return Some(of_entry(entry));
    }
    let matching = view.templates.iter().filter(|(pattern, _)| unwrap(pattern).is_none() && matches(pattern, uri));
    if let Some((_, entry)) = matching.max_by_key(|(pattern, _)| literal_length(pattern)) {
        return Some(of_entry(entry));
    }
    let has_resources =
        |server: &&Server| server.catalog().is_none_or(|catalog| catalog.identity.capabilities.has("resources"));
    let mut able = view.servers.iter().filter(has_resources);
    match (able.next(), able.next()) {
        (Some(only), None) => Some((only.clone(), uri.to_owned())),
        _ => None,
    }
}

/// True when an address could have been made from a template: its literal parts occur in order.
fn matches(template: &str, uri: &str) -> bool {
    let parts = literals(template);
    let (Some(first), Some(last)) = (parts.first(), parts.last()) else { return false };
    let Some(mut rest) = uri.strip_prefix(first) else { return false };
    if parts.len() == 1 {
        return rest.is_empty();
    }
    for part in &parts[1..parts.len() - 1] {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.len() >= last.len() && rest.ends_with(last)
}

fn literals(template: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = template;
    while let Some(open) = rest.find('{') {
        let Some(close) = rest[open..].find('}') else { break };
        parts.push(&rest[..open]);
        rest = &rest[open + close + 1..];
    }
    parts.push(rest);
    parts
}

fn literal_length(template: &str) -> usize {
    literals(template).iter().map(|part| part.len()).sum()
}

fn route_completion(view: &HubSnapshot, call: &Call, allows: &PermitCheck<'_>) -> Result<RoutedCall, Fault> {
    match CompletionReference::of(&call.params) {
        Some(CompletionReference::Prompt(name)) => {
            let unknown = || Fault::new(FaultCode::InvalidParams, format!("there is no prompt named {name:?}"));
            let entry = view.prompts.get(&name).ok_or_else(unknown)?;
            if !allows(&entry.server, &entry.own) {
                return Err(denied("prompt", &name));
            }
            Ok(routed_reference(entry.server.clone(), &name, &entry.own, CompletionReference::Prompt))
        }
        Some(CompletionReference::Resource(uri)) => {
            let listed = view.templates.get(&uri).map(|entry| (entry.server.clone(), entry.own.clone()));
            let (server, own) =
                listed.or_else(|| find_resource(view, &uri)).ok_or_else(|| not_found::resource(&uri))?;
            if !allows(&server, &own) {
                return Err(denied("resource", &uri));
            }
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
    RoutedCall { server, subject, meter: None }
}

/// Methods that say nothing about their server go to the only one there is.
fn only_server(view: &HubSnapshot, call: &Call, permit: Option<&AccessPermit>) -> Result<RoutedCall, Fault> {
    match view.servers.as_slice() {
        [only] if permit.is_none_or(|permit| permit.allows_some_of(only.name())) => {
            Ok(RoutedCall { server: only.clone(), subject: RoutedSubject::Same, meter: None })
        }
        _ => Err(Fault::new(FaultCode::MethodNotFound, format!("method not found: {}", call.method))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_matches_a_template_by_its_literal_parts() {
        for (template, uri, expected) in [
            ("test://template/{id}/data", "test://template/123/data", true),
            ("test://template/{id}/data", "test://template/123/other", false),
            ("test://template/{id}/data", "test://other/123/data", false),
            ("file:///{+path}", "file:///a/b/c", true),
            ("db://{table}/{row}", "db://users/7", true),
            ("db://{table}/{row}", "db://users", false),
            ("plain://x", "plain://x", true),
            ("plain://x", "plain://x/y", false),
        ] {
            assert_eq!(matches(template, uri), expected, "{template} {uri}");
        }
        assert_eq!(unwrap(&wrap("files", "test://a/b?c#d")), Some(("files", "test://a/b?c#d")));
    }
}

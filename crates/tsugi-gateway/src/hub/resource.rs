//! Which server an address belongs to: by name, by list, by template, or because only one server has resources.

use tsugi_client::{Server, not_found};
use tsugi_policy::question::NameKind;
use tsugi_protocol::answer::{Call, Fault, FaultCode};
use tsugi_protocol::mcp::uri_template::UriTemplate;

use super::snapshot::HubSnapshot;
use crate::guard::caller_access::CallerAccess;
use crate::guard::oauth::scope_rules::ScopeSubject;

/// What wrapped addresses begin with; the server's name and its own address follow.
const WRAPPER: &str = "tsugi://";

/// Schemes that extensions give a meaning: clients look for them, so an address keeps its scheme.
const KEPT_SCHEMES: [&str; 2] = ["skill://", "ui://"];

/// An address of a kept scheme that names its server: `skill://SERVER/…`. `None` for any other scheme.
pub(crate) fn keep_scheme(server: &str, uri: &str) -> Option<String> {
    KEPT_SCHEMES.iter().find_map(|scheme| Some(format!("{scheme}{server}/{}", uri.strip_prefix(scheme)?)))
}

/// The server in an address of a kept scheme, and the server's own address.
fn unkeep(uri: &str) -> Option<(&str, String)> {
    KEPT_SCHEMES.iter().find_map(|scheme| {
        let (server, rest) = uri.strip_prefix(scheme)?.split_once('/')?;
        Some((server, format!("{scheme}{rest}")))
    })
}

/// An address that names its server. Templates can be wrapped too: expanding and unwrapping commute.
pub(crate) fn wrap(server: &str, uri: &str) -> String {
    format!("{WRAPPER}{server}/{uri}")
}

/// The server and its own address inside a wrapped one.
pub(crate) fn unwrap(uri: &str) -> Option<(&str, &str)> {
    uri.strip_prefix(WRAPPER)?.split_once('/')
}

/// The server that has an address, and the address as that server knows it.
pub(crate) fn find(
    snapshot: &HubSnapshot,
    uri: &str,
    call: &Call,
    access: &CallerAccess,
) -> Result<(Server, String), Fault> {
    let unknown = || access.missing("resource", uri, || not_found::resource(uri));
    let (server, own) = match find_owner(snapshot, uri, call, access)? {
        Some(found) => found,
        None => return Err(unknown()),
    };
    if !access.allows_uri(&server, &own) {
        return Err(unknown());
    }
    access.expect_use(call, &server, NameKind::Address, &own, unknown)?;
    access.expect_scopes(server.name(), ScopeSubject::Address(&own))?;
    Ok((server, own))
}

fn find_owner(
    snapshot: &HubSnapshot,
    uri: &str,
    call: &Call,
    access: &CallerAccess,
) -> Result<Option<(Server, String)>, Fault> {
    if let Some((name, own)) = unwrap(uri)
        && let Some(server) = snapshot.servers.iter().find(|server| server.name() == name)
    {
        return Ok(Some((server.clone(), own.to_owned())));
    }
    if snapshot.has_several_servers()
        && let Some((name, own)) = unkeep(uri)
        && let Some(server) = snapshot.servers.iter().find(|server| server.name() == name)
    {
        return Ok(Some((server.clone(), own)));
    }
    let listed = snapshot.resources.get(uri).map(|entry| &entry.server);
    // A second server that lists the same address must not take it over from the first.
    if let Some(server) = listed.or_else(|| snapshot.shared_uris.get(uri)) {
        return Ok(Some((server.clone(), uri.to_owned())));
    }
    if let Some(server) = find_by_template(snapshot, uri, call, access)? {
        return Ok(Some((server, uri.to_owned())));
    }
    let has_resources =
        |server: &&Server| server.catalog().is_none_or(|catalog| catalog.identity.capabilities.has("resources"));
    let mut able = snapshot.servers.iter().filter(has_resources);
    Ok(match (able.next(), able.next()) {
        (Some(only), None) => Some((only.clone(), uri.to_owned())),
        _ => None,
    })
}

/// The only server that has a template for an address. A longer template does not win over another server's: a
/// server could otherwise take over addresses of another one.
fn find_by_template(
    snapshot: &HubSnapshot,
    uri: &str,
    call: &Call,
    access: &CallerAccess,
) -> Result<Option<Server>, Fault> {
    let mut owners: Vec<&Server> = Vec::new();
    for (_, entry) in snapshot.templates.iter().filter(|(_, entry)| fits(&entry.own, uri)) {
        // Servers that this caller may not use must not show in an error either.
        let is_new = owners.iter().all(|known| known.name() != entry.server.name());
        let is_open =
            |server: &Server| access.allows_uri(server, uri) && access.may_use_address(call, server.name(), uri);
        if is_new && is_open(&entry.server) {
            owners.push(&entry.server);
        }
    }
    match owners.as_slice() {
        [] => Ok(None),
        [only] => Ok(Some((*only).clone())),
        [first, second, ..] => {
            let message = format!(
                "the resource {uri:?} fits templates of the servers {:?} and {:?}",
                first.name(),
                second.name()
            );
            let hint = format!("name the server: {}", wrap(first.name(), uri));
            Err(Fault::new(FaultCode::InvalidParams, message).with_hint(hint))
        }
    }
}

/// Whether an address could have been made from a template of a server.
pub(super) fn fits(template: &str, uri: &str) -> bool {
    UriTemplate::lenient(template).matches(uri)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_fits_a_template_by_its_literal_parts() {
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
            assert_eq!(fits(template, uri), expected, "{template} {uri}");
        }
        assert_eq!(keep_scheme("s", "skill://a/b/SKILL.md").as_deref(), Some("skill://s/a/b/SKILL.md"));
        assert_eq!(unkeep("skill://s/a/b/SKILL.md"), Some(("s", "skill://a/b/SKILL.md".to_owned())));
        assert_eq!((keep_scheme("s", "file:///a"), unkeep("ui://s")), (None, None));
        assert_eq!(unwrap(&wrap("files", "test://a/b?c#d")), Some(("files", "test://a/b?c#d")));
    }
}

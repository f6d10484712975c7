//! What one caller may name. A restricted caller can use names of the catalog only: a server that ignores case or
//! spaces would otherwise run a denied tool under another spelling.

use tsugi_client::Server;
use tsugi_client::catalog::Catalog;
use tsugi_policy::question::NameKind;
use tsugi_protocol::answer::{Call, Fault, FaultCode};
use tsugi_protocol::mcp::extension::SKILLS;

use super::{app, resource};
use crate::guard::caller_access::CallerAccess;

impl CallerAccess {
    /// True when this caller may use this address. Restricted callers can only use addresses that the server lists or
    /// has a template for.
    pub(crate) fn allows_uri(&self, server: &Server, uri: &str) -> bool {
        !self.needs_listed_names()
            || self.allows_address(server.name(), uri)
                && server.catalog().is_some_and(|catalog| has_uri(&catalog, uri) || has_extension_uri(&catalog, uri))
    }

    /// Refuses a call about something that the policy keeps from this caller. It reads like the refusal by a permit.
    pub(super) fn expect_use(
        &self,
        call: &Call,
        server: &Server,
        kind: NameKind,
        own: &str,
        refusal: impl FnOnce() -> Fault,
    ) -> Result<(), Fault> {
        self.expect_policy(call, server.name(), kind, own).map_err(|rule| refusal().by_rule(rule))
    }

    /// The refusal of something that is not there. To a restricted caller it reads like the refusal of something it may
    /// not use, so that names outside its own lists cannot be found out.
    pub(crate) fn missing(&self, kind: &str, name: &str, unknown: impl FnOnce() -> Fault) -> Fault {
        if self.is_restricted() { denied(kind, name) } else { unknown() }
    }
}

/// The refusal of something that the caller may not use.
pub(super) fn denied(kind: &str, name: &str) -> Fault {
    Fault::new(FaultCode::PermissionDenied, format!("this caller may not use the {kind} {name:?}"))
}

/// True for an address that an extension tells of instead of the list: the files of skills, and the pages of tools.
fn has_extension_uri(catalog: &Catalog, uri: &str) -> bool {
    let has_page = || catalog.tools.items.iter().any(|tool| app::page_of(tool.object()).as_deref() == Some(uri));
    match uri.split_once("://") {
        Some(("skill", _)) => catalog.identity.capabilities.has_extension(SKILLS),
        Some(("ui", _)) => has_page(),
        _ => false,
    }
}

/// True when a server lists an address, or a template that the address fits.
fn has_uri(catalog: &Catalog, uri: &str) -> bool {
    catalog.resources.items.iter().any(|listed| listed.uri() == uri)
        // A template itself is named when its arguments are completed.
        || catalog.templates.items.iter().any(|template| template.uri() == uri || resource::fits(template.uri(), uri))
}

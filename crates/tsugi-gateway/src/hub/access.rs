//! What one caller may name. A restricted caller can use names of the catalog only: a server that ignores case or
//! spaces would otherwise run a denied tool under another spelling.

use std::sync::Arc;

use tsugi_client::Server;
use tsugi_client::catalog::Catalog;
use tsugi_protocol::answer::{Fault, FaultCode};

use super::resource;
use crate::guard::permit::AccessPermit;

/// The permit of one caller. Without one the caller may use everything.
#[derive(Clone)]
pub(crate) struct CallerAccess(Option<Arc<AccessPermit>>);

impl CallerAccess {
    pub(super) fn new(permit: Option<Arc<AccessPermit>>) -> Self {
        Self(permit)
    }

    pub(crate) fn permit(&self) -> Option<&AccessPermit> {
        self.0.as_deref()
    }

    pub(crate) fn is_restricted(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn allows_some_of(&self, server: &str) -> bool {
        self.permit().is_none_or(|permit| permit.allows_some_of(server))
    }

    /// True when this caller may use a tool or prompt that the server lists under this name.
    pub(crate) fn allows(&self, server: &str, own: &str) -> bool {
        self.permit().is_none_or(|permit| permit.allows(server, own))
    }

    /// True when this caller may use this address. Restricted callers can only use addresses that the server lists or
    /// has a template for.
    pub(crate) fn allows_uri(&self, server: &Server, uri: &str) -> bool {
        let Some(permit) = self.permit() else { return true };
        permit.allows_uri(server.name(), uri) && server.catalog().is_some_and(|catalog| has_uri(&catalog, uri))
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

/// True when a server lists an address, or a template that the address fits.
fn has_uri(catalog: &Catalog, uri: &str) -> bool {
    catalog.resources.items.iter().any(|listed| listed.uri() == uri)
        // A template itself is named when its arguments are completed.
        || catalog.templates.items.iter().any(|template| template.uri() == uri || resource::fits(template.uri(), uri))
}

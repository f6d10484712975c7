//! Fetching what a server offers, and telling what changed.

use std::sync::Arc;

use tsugi_protocol::mcp::Era;

use super::Inner;
use super::status::What;
use crate::catalog::{Catalog, Lists, Wire, fetch};
use crate::connection::Connection;
use crate::stack;

/// Fetches lists, tells what changed, and gives those that could not be fetched.
pub(super) async fn refresh(inner: &Arc<Inner>, connection: &Connection, lists: Lists) -> Lists {
    let source = stack::plain(connection.clone(), &inner.config, &inner.options);
    let old = inner.catalog.load_full();
    let identity = connection.identity();
    let wire = match connection {
        Connection::Exchange(_) if identity.version.era() == Era::Modern => Wire::ModernHttp,
        _ => Wire::Other,
    };
    let catalog = fetch(&source, &inner.options.profile, old.as_deref(), identity, lists, wire).await;
    if let Connection::Exchange(exchange) = connection {
        exchange.set_header_params(catalog.header_params());
    }
    inner.parts.tools.fill(&catalog);
    let failed = catalog.failed(lists);
    let changes = changes_between(old.as_deref(), &catalog, lists.without(failed));
    inner.catalog.store(Some(Arc::new(catalog)));
    inner.status.wake();
    for what in changes {
        inner.status.tell(what);
    }
    failed
}

/// After a first fetch everything is new; later a list that was fetched counts as changed.
fn changes_between(old: Option<&Catalog>, new: &Catalog, lists: Lists) -> Vec<What> {
    let same = |one: usize, two: usize| old.is_some() && one == 0 && two == 0;
    let mut changes = Vec::new();
    let count = |pick: fn(&Catalog) -> usize| (old.map_or(0, pick), pick(new));
    for (wanted, what, (before, after)) in [
        (lists.tools, What::Tools, count(|catalog| catalog.tools.items.len())),
        (lists.prompts, What::Prompts, count(|catalog| catalog.prompts.items.len())),
        (
            lists.resources,
            What::Resources,
            count(|catalog| catalog.resources.items.len() + catalog.templates.items.len()),
        ),
    ] {
        if wanted && !same(before, after) {
            changes.push(what);
        }
    }
    changes
}

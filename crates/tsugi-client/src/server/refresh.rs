//! Fetching what a server offers, and telling what changed.

use std::sync::Arc;

use tsugi_protocol::answer::Outcome;
use tsugi_protocol::mcp::{Era, Method};

use super::status::ServerEvent;
use super::{Instance, InstanceRole};
use crate::catalog::{Catalog, ListSelection, ListWire, fetch};
use crate::connection::ServerConnection;
use crate::stack;

/// Fetches lists, tells what changed, and gives those that could not be fetched. What a server says has changed is
/// told whatever it reads; quietly, only what reads differently than before, so that nobody notices a server that was
/// started again, or a list that grew old and is still the same.
pub(super) async fn refresh(
    inner: &Arc<Instance>,
    connection: &ServerConnection,
    lists: ListSelection,
    is_quiet: bool,
) -> ListSelection {
    let source = stack::plain(connection.clone(), &inner.config, &inner.options);
    let old = inner.catalog.load_full();
    let identity = connection.identity();
    let wire = match connection {
        ServerConnection::Http(_) if identity.version.era() == Era::Modern => ListWire::ModernHttp,
        _ => ListWire::Other,
    };
    let catalog = fetch(&source, &inner.options.profile, old.as_deref(), identity, lists, wire).await;
    if let ServerConnection::Http(exchange) = connection {
        exchange.set_header_params(catalog.header_params());
    }
    let failed = catalog.failed(lists);
    let is_first = matches!(inner.role, InstanceRole::Primary(_));
    if is_first {
        inner.layers.tools.fill(&catalog);
    }
    let mut changes = changes_between(old.as_deref(), &catalog, lists.without(failed));
    let shown = old.clone().or_else(|| inner.remembered.load_full());
    if let Some(shown) = shown.filter(|_| is_quiet) {
        changes.retain(|what| !reads_the_same(&shown, &catalog, what));
    }
    let catalog = Arc::new(catalog);
    inner.catalog.store(Some(catalog.clone()));
    if is_first {
        keep(inner, catalog);
    }
    inner.status.wake();
    for what in changes {
        inner.status.announce(what);
    }
    failed
}

/// Writes down what the server offers, beside the work.
fn keep(inner: &Arc<Instance>, catalog: Arc<Catalog>) {
    let inner = inner.clone();
    tokio::task::spawn_blocking(move || inner.manifests.save(&inner.config.name, &inner.config.target, &catalog));
}

/// Whether a list is the one that was shown already, before the server was up or before it was away.
fn reads_the_same(remembered: &Catalog, new: &Catalog, what: &ServerEvent) -> bool {
    // The entries count: a new version of the server that offers the same is no change.
    let same = |method, key| match (remembered.answer(&method), new.answer(&method)) {
        (Some(Outcome::Complete(one)), Some(Outcome::Complete(other))) => {
            one.body.get_bytes(key) == other.body.get_bytes(key)
        }
        _ => false,
    };
    match what {
        ServerEvent::Tools => same(Method::ToolsList, "tools"),
        ServerEvent::Prompts => same(Method::PromptsList, "prompts"),
        ServerEvent::Resources => {
            same(Method::ResourcesList, "resources") && same(Method::TemplatesList, "resourceTemplates")
        }
        _ => false,
    }
}

/// After a first fetch everything is new; later a list that was fetched counts as changed.
fn changes_between(old: Option<&Catalog>, new: &Catalog, lists: ListSelection) -> Vec<ServerEvent> {
    let same = |one: usize, two: usize| old.is_some() && one == 0 && two == 0;
    let mut changes = Vec::new();
    let count = |pick: fn(&Catalog) -> usize| (old.map_or(0, pick), pick(new));
    for (wanted, what, (before, after)) in [
        (lists.tools, ServerEvent::Tools, count(|catalog| catalog.tools.items.len())),
        (lists.prompts, ServerEvent::Prompts, count(|catalog| catalog.prompts.items.len())),
        (
            lists.resources,
            ServerEvent::Resources,
            count(|catalog| catalog.resources.items.len() + catalog.templates.items.len()),
        ),
    ] {
        if wanted && !same(before, after) {
            changes.push(what);
        }
    }
    changes
}

//! Fetching what a server offers, and telling what changed.

use std::sync::Arc;

use tsugi_pins::store::OfferSource;
use tsugi_protocol::answer::Outcome;
use tsugi_protocol::mcp::{Era, Method};

use super::status::ServerEvent;
use super::{Instance, InstanceRole};
use crate::catalog::{Catalog, ListSelection, ListWire, fetch, pinning};
use crate::connection::ServerConnection;
use crate::stack;

/// Fetches lists, announces what changed, and returns those that could not be fetched. A change that the server
/// notified of is announced in any case. With `is_quiet`, only a list whose content differs is, so that a restart or an
/// expired list that is still the same goes unnoticed.
pub(super) async fn refresh(
    instance: &Arc<Instance>,
    connection: &ServerConnection,
    lists: ListSelection,
    is_quiet: bool,
) -> ListSelection {
    let source = stack::plain(connection.clone(), &instance.config, &instance.options);
    let old = instance.catalog.load_full();
    let identity = connection.identity();
    let wire = match connection {
        ServerConnection::Http(_) if identity.version.era() == Era::Modern => ListWire::ModernHttp,
        _ => ListWire::Other,
    };
    let catalog = fetch(&source, &instance.options.profile, old.as_deref(), identity, lists, wire).await;
    let fetched = lists.without(catalog.failed(lists));
    // Before anything else sees it: what is not pinned is neither listed, compiled, written down nor announced.
    let catalog = hold_to_pins(instance, catalog, fetched).await;
    if let ServerConnection::Http(exchange) = connection {
        exchange.set_header_params(catalog.header_params());
    }
    let failed = catalog.failed(lists);
    let is_first = matches!(instance.role, InstanceRole::Primary(_));
    if is_first {
        instance.layers.tools.fill(&catalog);
    }
    let mut changes = changes_between(old.as_deref(), &catalog, lists.without(failed));
    let shown = old.clone().or_else(|| instance.remembered.load_full());
    if let Some(shown) = shown.filter(|_| is_quiet || instance.layers.pins.is_some()) {
        changes.retain(|what| !reads_the_same(&shown, &catalog, what));
    }
    let catalog = Arc::new(catalog);
    instance.catalog.store(Some(catalog.clone()));
    if is_first {
        keep(instance, catalog);
    }
    instance.status.wake();
    for what in changes {
        instance.status.announce(what);
    }
    failed
}

/// Changes a catalog to what the pins let through. Off the runtime, since the lock file is read and written.
async fn hold_to_pins(instance: &Arc<Instance>, mut catalog: Catalog, lists: ListSelection) -> Catalog {
    if instance.pins().is_none() {
        return catalog;
    }
    let source = match instance.role {
        InstanceRole::Primary(_) => OfferSource::Live,
        InstanceRole::Replica | InstanceRole::CallerSession(_) => OfferSource::Replica,
    };
    let (judging, unjudged) =
        (instance.clone(), Catalog { generation: catalog.generation, ..Catalog::empty(catalog.identity.clone()) });
    let judged = tokio::task::spawn_blocking(move || {
        let instance = judging;
        let Some(pins) = instance.pins() else { return catalog };
        let verdicts = pinning::apply(&mut catalog, lists, &instance.config.name, pins, source);
        if let Some(gate) = &instance.layers.pins {
            match source {
                OfferSource::Live => gate.fill(&catalog, lists, &verdicts),
                _ => gate.fill_replica(&instance.life, &verdicts),
            }
        }
        catalog
    });
    // A catalog that could not be judged is shown to no caller.
    judged.await.unwrap_or(unjudged)
}

/// Writes down what the server offers, beside the work.
fn keep(instance: &Arc<Instance>, catalog: Arc<Catalog>) {
    let instance = instance.clone();
    tokio::task::spawn_blocking(move || {
        instance.manifests.save(&instance.config.name, &instance.config.target, &catalog)
    });
}

/// Whether a list is the one that was shown already, before the server was up or before it was away.
fn reads_the_same(remembered: &Catalog, new: &Catalog, what: &ServerEvent) -> bool {
    // Only the entries are compared: a new version of the server that offers the same is not a change.
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

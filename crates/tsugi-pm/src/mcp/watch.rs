//! From the change feed to subscribers: which addresses an event is about.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tsugi_protocol::serve::{Notifier, Server};

use super::service::Service;
use crate::action::caller::Caller;
use crate::action::look::{GetTask, Section};
use crate::domain::event::{EntityType, Event};
use crate::domain::fault::Fault;
use crate::domain::id::{TaskId, TaskRef};

/// How often the place in the history is kept up while nobody watches anything.
const REST: Duration = Duration::from_millis(250);
/// How soon the watcher notices that its server is gone, and how long it rests after a database that failed.
const LOOK_UP: Duration = Duration::from_secs(5);

/// Tells subscribers of changes for as long as the server lives.
pub(super) fn start(service: &Arc<Service>, server: &Arc<Server>, since: i64) {
    let (service, server, notifier) = (service.clone(), Arc::downgrade(server), server.notifier().clone());
    tokio::spawn(async move { watch(&service, &server, &notifier, since).await });
}

async fn watch(service: &Service, server: &Weak<Server>, notifier: &Notifier, mut since: i64) {
    while server.strong_count() > 0 {
        let told = match notifier.is_any_watched() {
            true => tell(service, notifier, &mut since).await,
            false => rest(service, notifier, &mut since).await,
        };
        // What dead agents held comes back also while nobody calls.
        if let Err(fault) = told.and(service.pm.sweep_now_and_then().await) {
            tracing::warn!(%fault, "subscribers hear nothing for a while");
            tokio::time::sleep(LOOK_UP).await;
        }
    }
}

/// While nobody watches anything, only the place in the history is kept up, and not at every change. It is read before
/// we look again, so whatever happens after somebody came lies behind it.
async fn rest(service: &Service, notifier: &Notifier, since: &mut i64) -> Result<(), Fault> {
    let mut changes = service.pm.store().changes();
    let newest = service.pm.last_seq().await?;
    if !notifier.is_any_watched() {
        *since = newest;
        tokio::time::sleep(REST).await;
        let _ = tokio::time::timeout(LOOK_UP, changes.changed()).await;
    }
    Ok(())
}

/// Tells every change until nobody watches any more.
async fn tell(service: &Service, notifier: &Notifier, since: &mut i64) -> Result<(), Fault> {
    let mut feed = service.pm.subscribe(*since);
    while notifier.is_any_watched() {
        match tokio::time::timeout(LOOK_UP, feed.next()).await {
            Ok(event) => {
                let event = event?;
                *since = event.seq;
                announce(service, notifier, &event).await;
            }
            // A moment without changes.
            Err(_) => service.pm.sweep_now_and_then().await?,
        }
    }
    Ok(())
}

async fn announce(service: &Service, notifier: &Notifier, event: &Event) {
    for uri in addresses(service, event) {
        notifier.resource_updated(&uri);
    }
    if let Some(project) = &event.project_id {
        let key = service.pm.project_key(project).await;
        for name in [Some(project.to_string()), key].into_iter().flatten() {
            project_addresses(&name).iter().for_each(|uri| notifier.resource_updated(uri));
        }
    }
    if let Some(task) = event.task() {
        let reference = reference(service, &task).await;
        for name in [Some(task.to_string()), reference].into_iter().flatten() {
            task_addresses(&name).iter().for_each(|uri| notifier.resource_updated(uri));
        }
    }
}

fn task_addresses(name: &str) -> [String; 4] {
    ["task", "context", "handoff", "claim"].map(|scheme| format!("{scheme}://{name}"))
}

fn project_addresses(name: &str) -> [String; 4] {
    let [whole, board, ready] = ["", "/board", "/ready"].map(|part| format!("project://{name}{part}"));
    [whole, board, ready, format!("events://{name}")]
}

/// Addresses that belong neither to one task nor to one project.
fn addresses(service: &Service, event: &Event) -> Vec<String> {
    let mut addresses = Vec::new();
    match event.entity_type {
        EntityType::Session => {
            addresses.push(format!("session://{}", event.entity_id));
            addresses.extend(event.actor_agent_id.iter().map(|agent| format!("agent://{agent}")));
        }
        EntityType::Agent => addresses.push(format!("agent://{}", event.entity_id)),
        EntityType::Claim => addresses.extend(event.session_id.iter().map(|session| format!("session://{session}"))),
        _ => {}
    }
    let is_personal = !matches!(event.entity_type, EntityType::Project | EntityType::Dependency);
    if is_personal && service.settings.actor.may_be(event.actor_agent_id.as_ref()) {
        addresses.extend(["agent://me".to_owned(), "session://current".to_owned()]);
    }
    addresses
}

/// `KEY-n`, since a task may be watched under either name.
async fn reference(service: &Service, task: &TaskId) -> Option<String> {
    let wish = GetTask { task_id: TaskRef::Id(task.clone()), include: vec![Section::Acceptance], max_bytes: None };
    let found = service.pm.perform(&Caller::operator(), wish).await.ok()?;
    Some(found.task.reference)
}

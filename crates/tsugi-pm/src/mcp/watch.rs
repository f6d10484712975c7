//! From the change feed to subscribers: which addresses an event is about.

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tsugi_protocol::serve::{ChangeNotifier, InProcessServer};

use super::service::PmService;
use crate::action::caller::ActionCaller;
use crate::action::get_task::{GetTask, Section};
use crate::domain::event::{EntityType, HistoryEvent};
use crate::domain::fault::PmFault;
use crate::domain::id::{TaskId, TaskRef};

/// A new subscriber is also notified of the last moments: a legacy client's wish is answered a little
/// before it reaches us.
const MOMENT_MS: i64 = 1_000;
/// How soon the watcher notices that its server is gone, and how long it rests after a database that failed.
const LOOK_UP: Duration = Duration::from_secs(5);

/// Where in the history notifications start. It is read for the first subscriber, before its subscription is
/// acknowledged, so that the database is not queried while there are none.
#[derive(Debug, Default)]
pub(super) struct EventCursor {
    state: Mutex<WatchState>,
    found: Notify,
}

#[derive(Debug, Default)]
enum WatchState {
    /// There are no subscribers.
    #[default]
    Resting,
    /// A subscriber came; the database may not have answered.
    Found(Option<i64>),
    Telling,
}

impl EventCursor {
    /// A subscription starts. One that starts while others are served gets what they get.
    pub(super) async fn prepare(&self, service: &PmService) {
        if !matches!(*self.state.lock(), WatchState::Resting) {
            return;
        }
        let place = look(service).await.ok();
        let mut state = self.state.lock();
        if matches!(*state, WatchState::Resting) {
            *state = WatchState::Found(place);
            self.found.notify_one();
        }
    }

    /// Whether there is a subscriber; a new one is served from the position that was found.
    fn is_telling(&self, since: &mut Option<i64>) -> bool {
        let mut state = self.state.lock();
        if let WatchState::Found(place) = *state {
            (*since, *state) = (place, WatchState::Telling);
        }
        matches!(*state, WatchState::Telling)
    }

    /// Whether there is still a subscriber. Checked under the lock, so that the next one finds us either serving or resting.
    fn goes_on(&self, notifier: &ChangeNotifier) -> bool {
        let mut state = self.state.lock();
        // Asked under our lock: a subscriber that comes now waits for it and finds us resting.
        let goes_on = notifier.is_any_watched();
        if !goes_on {
            *state = WatchState::Resting;
        }
        goes_on
    }
}

async fn look(service: &PmService) -> Result<i64, PmFault> {
    service.pm.store().read(|tx| tx.event_seq_before(MOMENT_MS)).await
}

/// Tells subscribers of changes for as long as the server lives.
pub(super) fn start(service: &Arc<PmService>, server: &Arc<InProcessServer>) {
    // Weak: the watcher must not keep its own server alive.
    let (service, server, notifier) = (service.clone(), Arc::downgrade(server), server.notifier().clone());
    tokio::spawn(async move { watch(&service, &server, &notifier).await });
}

async fn watch(service: &PmService, server: &Weak<InProcessServer>, notifier: &ChangeNotifier) {
    let mut since = None;
    while server.strong_count() > 0 {
        // While there are no subscribers the task only waits to be woken.
        let told = match service.place.is_telling(&mut since) {
            true => tell(service, notifier, &mut since).await,
            false => {
                let _ = tokio::time::timeout(LOOK_UP, service.place.found.notified()).await;
                Ok(())
            }
        };
        // What dead agents held is released even while there are no calls.
        if let Err(fault) = told.and(service.pm.sweep_now_and_then().await) {
            tracing::warn!(%fault, "subscribers are not notified for a while");
            tokio::time::sleep(LOOK_UP).await;
        }
    }
}

/// Sends every change until there are no subscribers. After a fault, `since` is where to continue.
async fn tell(service: &PmService, notifier: &ChangeNotifier, since: &mut Option<i64>) -> Result<(), PmFault> {
    let place = match *since {
        Some(place) => place,
        None => look(service).await?,
    };
    *since = Some(place);
    let mut feed = service.pm.subscribe(place);
    while service.place.goes_on(notifier) {
        match tokio::time::timeout(LOOK_UP, feed.next()).await {
            Ok(event) => {
                let event = event?;
                *since = Some(event.seq);
                announce(service, notifier, &event).await;
            }
            // A moment without changes.
            Err(_) => service.pm.sweep_now_and_then().await?,
        }
    }
    Ok(())
}

async fn announce(service: &PmService, notifier: &ChangeNotifier, event: &HistoryEvent) {
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
fn addresses(service: &PmService, event: &HistoryEvent) -> Vec<String> {
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
async fn reference(service: &PmService, task: &TaskId) -> Option<String> {
    let wish = GetTask { task_id: TaskRef::Id(task.clone()), include: vec![Section::Acceptance], max_bytes: None };
    let found = service.pm.perform(&ActionCaller::operator(), wish).await.ok()?;
    Some(found.task.reference)
}

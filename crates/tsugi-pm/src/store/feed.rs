//! The change feed: every event in order, from any point, with none missing, also those of other processes.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::sync::watch;

use super::PmStore;
use super::tx::EventFilter;
use crate::domain::event::HistoryEvent;
use crate::domain::fault::PmFault;
use crate::domain::id::ProjectId;

/// How many events are read at once; a slow reader holds no more than these in memory.
const PAGE: i64 = 100;
/// A wake-up may be lost with the process that should have sent it; then the next look comes after this long.
const LOOK_ANYWAY: Duration = Duration::from_secs(2);

/// A reader's place in the history. Events are read from the database, so a slow reader loses none.
pub struct EventFeed {
    store: PmStore,
    filter: EventFilter,
    waiting: VecDeque<HistoryEvent>,
    changes: watch::Receiver<u64>,
}

impl EventFeed {
    pub(super) fn new(store: PmStore, since_seq: i64) -> Self {
        let changes = store.changes();
        let filter = EventFilter { since: since_seq, limit: PAGE, ..EventFilter::default() };
        Self { store, filter, waiting: VecDeque::new(), changes }
    }

    /// Only the events of one project.
    #[must_use]
    pub fn of_project(mut self, project: ProjectId) -> Self {
        self.filter.projects = Some(vec![project]);
        self
    }

    /// The next event, as soon as there is one. Safe to drop and call again: no event is lost.
    pub async fn next(&mut self) -> Result<HistoryEvent, PmFault> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return Ok(event);
            }
            // Mark first, then look: a change between the two wakes us again.
            self.changes.borrow_and_update();
            if !self.fill().await? {
                let _ = tokio::time::timeout(LOOK_ANYWAY, self.changes.changed()).await;
            }
        }
    }

    async fn fill(&mut self) -> Result<bool, PmFault> {
        let filter = self.filter.clone();
        let events = self.store.read(move |tx| tx.event_list(&filter)).await?;
        if let Some(last) = events.last() {
            self.filter.since = last.seq;
        }
        self.waiting.extend(events);
        Ok(!self.waiting.is_empty())
    }
}

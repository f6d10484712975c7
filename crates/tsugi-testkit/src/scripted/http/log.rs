//! Events that were sent, so that a stream that broke can be continued.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::wire::Wire;

/// The logs of all streams.
#[derive(Default)]
pub(super) struct EventLogs {
    logs: Mutex<HashMap<u64, Arc<EventLog>>>,
    next: AtomicU64,
}

/// The log of one stream.
pub(super) struct EventLog {
    number: u64,
    events: Mutex<Vec<String>>,
    is_ended: AtomicBool,
}

impl EventLogs {
    pub(super) fn open(&self) -> Arc<EventLog> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let log = Arc::new(EventLog { number, events: Mutex::default(), is_ended: AtomicBool::new(false) });
        self.logs.lock().insert(number, log.clone());
        log
    }

    /// Continues a stream after the event with this id, to its end; false when the connection is over.
    pub(super) fn replay(&self, last: &str, wire: &Wire) -> bool {
        let place =
            last.split_once('-').and_then(|(number, index)| Some((number.parse().ok()?, index.parse::<usize>().ok()?)));
        let found = place.and_then(|(number, index)| Some((self.logs.lock().get(&number)?.clone(), index)));
        let Some((log, mut index)) = found else {
            wire.respond(404, &[], "unknown event id");
            return true;
        };
        wire.open_stream(&[]);
        while !wire.is_gone() {
            // Looked at before the events: whatever was added until then is in them.
            let is_ended = log.is_ended.load(Ordering::Acquire);
            for event in log.after(index) {
                index += 1;
                wire.event(&format!("{}-{index}", log.number), "message", &event);
            }
            if is_ended {
                wire.end_stream();
                return true;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        false
    }
}

impl EventLog {
    /// Adds an event and gives its id.
    pub(super) fn add(&self, text: &str) -> String {
        let mut events = self.events.lock();
        events.push(text.to_owned());
        format!("{}-{}", self.number, events.len() - 1)
    }

    pub(super) fn end(&self) {
        self.is_ended.store(true, Ordering::Release);
    }

    fn after(&self, index: usize) -> Vec<String> {
        self.events.lock().iter().skip(index + 1).cloned().collect()
    }
}

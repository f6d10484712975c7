//! Which instance asked a question, until its answer comes back.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// More questions than this are not remembered: the oldest is forgotten, and its answer goes to any instance.
const MOST: usize = 10_000;

/// The instances of a pool by the states that their questions carry, each for a while. All live equally long, so the
/// oldest entry is always the next to expire: a map and a queue are enough, and no cache library is needed for it.
#[derive(Debug)]
pub(super) struct QuestionOwners {
    lifetime: Duration,
    entries: Mutex<QuestionEntries>,
}

#[derive(Debug, Default)]
struct QuestionEntries {
    owners: HashMap<String, (u64, Instant)>,
    by_age: VecDeque<(String, Instant)>,
}

impl QuestionOwners {
    pub(super) fn new(lifetime: Duration) -> Self {
        Self { lifetime, entries: Mutex::default() }
    }

    /// Remembers that the instance with this number asked.
    pub(super) fn insert(&self, state: String, instance: u64) {
        let now = Instant::now();
        let mut entries = self.entries.lock();
        entries.remove_expired(now, MOST - 1);
        entries.by_age.push_back((state.clone(), now + self.lifetime));
        entries.owners.insert(state, (instance, now + self.lifetime));
    }

    pub(super) fn get(&self, state: &str) -> Option<u64> {
        let entries = self.entries.lock();
        entries.owners.get(state).filter(|(_, until)| Instant::now() < *until).map(|(instance, _)| *instance)
    }
}

impl QuestionEntries {
    /// Removes what has expired, and the oldest until at most `most` are left.
    fn remove_expired(&mut self, now: Instant, most: usize) {
        while self.by_age.front().is_some_and(|(_, until)| *until <= now || self.by_age.len() > most) {
            let Some((state, until)) = self.by_age.pop_front() else { return };
            // The same state may have been asked with again since: that entry stays.
            if self.owners.get(&state).is_some_and(|(_, newest)| *newest == until) {
                self.owners.remove(&state);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_question_is_remembered_for_its_lifetime() {
        let owners = QuestionOwners::new(Duration::from_secs(10));
        owners.insert("a".into(), 1);
        tokio::time::advance(Duration::from_secs(6)).await;
        owners.insert("b".into(), 2);
        assert_eq!((owners.get("a"), owners.get("b"), owners.get("c")), (Some(1), Some(2), None));
        tokio::time::advance(Duration::from_secs(6)).await;
        assert_eq!((owners.get("a"), owners.get("b")), (None, Some(2)));
        owners.insert("c".into(), 3);
        assert_eq!(owners.entries.lock().owners.len(), 2, "what has expired is removed");
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_question_makes_room() {
        let owners = QuestionOwners::new(Duration::from_secs(10));
        for number in 0..=MOST as u64 {
            owners.insert(number.to_string(), number);
        }
        assert_eq!((owners.get("0"), owners.get("1")), (None, Some(1)));
        assert_eq!(owners.entries.lock().by_age.len(), MOST);
    }
}

//! Sign-ins that were completed, so that none is completed twice.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::guard::api_key::SecretDigest;

/// Completed sign-ins of the last ten minutes that are remembered at most. Beyond them the provider refuses the code.
const MOST: usize = 10_000;

/// The states of completed sign-ins, by digest, until they expire.
#[derive(Default)]
pub(super) struct SpentStates(Mutex<HashMap<SecretDigest, u64>>);

impl SpentStates {
    /// Notes that a state is used; false when it was before.
    pub(super) fn insert(&self, state: &str, expires: u64, now: u64) -> bool {
        let mut states = self.0.lock();
        if states.len() >= MOST {
            states.retain(|_, expires| *expires > now);
        }
        if states.len() >= MOST
            && let Some(oldest) = states.iter().min_by_key(|(_, expires)| **expires).map(|(state, _)| *state)
        {
            states.remove(&oldest);
        }
        states.insert(SecretDigest::of(state), expires).is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_used_once_and_the_table_is_bounded() {
        let spent = SpentStates::default();
        assert!(spent.insert("a", 2_000, 1_000) && !spent.insert("a", 2_000, 1_000));
        for number in 0..MOST {
            assert!(spent.insert(&number.to_string(), 1_500, 1_000));
        }
        assert_eq!(spent.0.lock().len(), MOST);
        assert!(spent.insert("b", 3_000, 1_600));
        assert!(spent.0.lock().len() < 3, "what has expired is forgotten first");
        assert!(!spent.insert("a", 2_000, 1_600));
    }
}

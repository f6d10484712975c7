//! How many retries all calls together may have: a server in trouble is not given more to do.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// What one retry costs, in parts.
const PRICE: u32 = 5;
/// What can be saved up: ten retries.
const MOST: u32 = 10 * PRICE;

/// One retry for every five calls, and a few to begin with.
#[derive(Debug)]
pub(super) struct RetryBudget(AtomicU32);

impl Default for RetryBudget {
    fn default() -> Self {
        Self(AtomicU32::new(MOST))
    }
}

impl RetryBudget {
    /// A call was made.
    pub(super) fn earn(&self) {
        // A full budget is the usual case and is only looked at.
        if self.0.load(Relaxed) < MOST {
            let _ = self.0.try_update(Relaxed, Relaxed, |parts| Some((parts + 1).min(MOST)));
        }
    }

    /// Takes one retry; `false` when there is none left.
    pub(super) fn spend(&self) -> bool {
        self.0.try_update(Relaxed, Relaxed, |parts| parts.checked_sub(PRICE)).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_the_long_run_a_fifth_of_the_calls_may_be_repeated() {
        let budget = RetryBudget::default();
        let mut spent = 0;
        for _ in 0..1000 {
            budget.earn();
            spent += usize::from(budget.spend());
        }
        assert!((200..=210).contains(&spent), "{spent}");
    }
}

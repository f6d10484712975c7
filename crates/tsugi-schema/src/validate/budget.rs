//! Counts the work of one check and stops it at a limit, which the validation library lacks.
//!
//! The library reads the checked value only through [`super::node`], which charges here. The counter lives in a
//! thread-local because the library builds some nodes itself and gives no place to carry a counter along. Stopping
//! is an unwind with a private payload, caught in [`run`]: a flag would not do, since a failing branch only makes
//! `anyOf` try the next one. `resume_unwind` does not call the panic hook, so nothing is printed.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Stack a check may use. Threads of the runtime have 2 MiB; this leaves room for the caller's own frames.
const STACK: usize = 640 * 1024;

thread_local! {
    static LEFT: Cell<u64> = const { Cell::new(0) };
    static PRICE: Cell<u64> = const { Cell::new(1) };
    static STACK_START: Cell<usize> = const { Cell::new(0) };
}

/// What a check unwinds with that used up its work or its stack.
struct BudgetExhausted;

/// Runs a check that may do `work` units, each look at the value costing `price`; `None` when it was stopped.
pub(super) fn run<T>(work: u64, price: u64, check: impl FnOnce() -> T) -> Option<T> {
    LEFT.set(work);
    PRICE.set(price);
    STACK_START.set(stack_position());
    // The library keeps no state across checks that a stopped one could leave broken.
    match catch_unwind(AssertUnwindSafe(check)) {
        Ok(result) => Some(result),
        Err(payload) if payload.is::<BudgetExhausted>() => None,
        Err(other) => resume_unwind(other),
    }
}

/// Pays for one look at the value, and `extra` units for its size.
#[inline]
pub(super) fn charge(extra: u64) {
    let price = PRICE.get().saturating_add(extra);
    match LEFT.get().checked_sub(price) {
        Some(left) => LEFT.set(left),
        None => stop(),
    }
}

/// Pays for a look at an array or object: the place where a check goes deeper.
#[inline]
pub(super) fn charge_container() {
    charge(0);
    if STACK_START.get().abs_diff(stack_position()) > STACK {
        stop();
    }
}

#[cold]
fn stop() -> ! {
    // What is left to run while unwinding must not stop a second time.
    LEFT.set(u64::MAX);
    resume_unwind(Box::new(BudgetExhausted))
}

#[inline(never)]
fn stack_position() -> usize {
    let marker = 0u8;
    std::hint::black_box(&raw const marker) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_beyond_the_limit_is_stopped() {
        assert_eq!(run(10, 1, || (0..10).for_each(|_| charge(0))), Some(()));
        assert_eq!(run(10, 1, || (0..11).for_each(|_| charge(0))), None);
        assert_eq!(run(10, 1, || charge(10)), None);
        assert_eq!(run(10, 6, || (0..2).for_each(|_| charge(0))), None);
    }

    #[test]
    fn endless_recursion_is_stopped_before_the_stack_ends() {
        fn deeper(levels: u64) -> u64 {
            charge_container();
            match levels {
                0 => 0,
                _ => std::hint::black_box(deeper(levels - 1)) + 1,
            }
        }
        assert_eq!(run(u64::MAX, 1, || deeper(u64::MAX)), None);
    }

    #[test]
    #[should_panic(expected = "a real fault")]
    fn other_panics_pass_through() {
        let _ = run(10, 1, || panic!("a real fault"));
    }
}

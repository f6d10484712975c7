//! The process that stands between us and a child, so that nothing the child starts outlives us.
//!
//! The guardian is the parent of the child and the *subreaper* of everything below it:
//! a daemon that forks twice and leaves its session is handed to the guardian by the kernel.
//! It holds one end of a socket whose other end only we hold; the end of that stream means that we are gone,
//! whether by SIGKILL, a panic or a normal exit, and the guardian then ends all its descendants and itself.
//! It has none left exactly when `wait` says that it has no children, so no list can be incomplete.
//!
//! **Why our own executable is run again instead of a fork without exec.**
//! A forked guardian keeps a copy of every page that the gateway later changes, for as long as the job lives:
//! with a heap of hundreds of megabytes and a server that restarts, that is a leak, slows every thread
//! by copy faults after each fork, and makes the guardian as good a victim for the out-of-memory killer as the gateway.
//! It could also run only async-signal-safe code, since other threads may hold any lock at the time of the fork.
//! A fresh process is small, starts through `posix_spawn` (no page tables copied), has one thread,
//! and may use all of Rust, which the sandbox needs.
//! For this the program calls [`entry::guardian_main`] first in its `main`. A program that does not, and a system
//! without `/proc`, get a process group instead, which is reported ([`entry::is_usable`]).
//!
//! Signals sent to us or to our terminal do not reach the guardian: it leads its own session and blocks all signals.
//! Besides the guardian the child has a parent-death signal, since SIGKILL cannot be blocked by anyone.

mod child_start;
pub(crate) mod control;
pub(crate) mod entry;
pub(crate) mod launch;
pub(crate) mod message;
mod reap;
mod run;

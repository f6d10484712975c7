//! Policies: named rules that permit or forbid, and for each question the rule that decided.
//!
//! [`rule_file`] reads rules, [`set`] asks them, and [`cache`] remembers answers that cannot change. What a `when` means
//! is behind [`condition`]; CEL is its one language. Nothing is permitted unless a rule permits it, a rule that forbids
//! wins, and a rule that cannot be evaluated counts against the caller. Nothing here opens a socket or reads a clock: the
//! time is part of a [`question`].

pub mod arguments;
pub mod cache;
mod cel;
pub mod condition;
pub mod lint;
pub mod problem;
pub mod question;
pub mod rule;
pub mod rule_file;
pub mod set;
pub mod spelling;

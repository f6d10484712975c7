//! Tokens of issuers that exist in this file only: right ones, forged ones, and the vectors of RFCs and of Wycheproof.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may panic and say what it skipped")]

mod attacks;
mod login;
mod vectors;

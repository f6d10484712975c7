//! Signatures of tokens: which algorithms count, which key fits, and whether a signature is right.
//!
//! `jsonwebtoken` checks signatures, with `ring` underneath (decision 36). Everything that decides *whether* a
//! signature is checked with a key is in these files, because that is where JOSE libraries fail.

pub mod algorithm;
pub mod jws;
pub mod key_set;
mod provider;
pub mod signer;

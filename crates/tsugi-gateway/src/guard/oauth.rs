//! Access tokens of OAuth issuers: the gateway as a resource server.
//!
//! [`verifier`] turns a token into an authority, with the keys that [`issuer_keys`] fetches and keeps. [`resource`] is
//! what the gateway says about itself: the metadata that clients look for, and the challenge in a refusal.
//! [`scope_rules`] say which scopes a call needs, and [`scope_challenge`] says so to a client that lacks one. [`login`]
//! signs people in at the dashboard. How a document is fetched is not known here: the command hands over a
//! [`document_fetch::DocumentFetch`].

pub mod document_fetch;
pub mod introspector;
pub mod issuer_keys;
pub mod login;
pub mod resource;
pub(crate) mod scope_challenge;
pub mod scope_rules;
mod token_cache;
pub mod verifier;

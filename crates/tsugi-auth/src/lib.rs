//! OAuth and JOSE as data: tokens, keys, metadata and challenges are parsed, checked and written here.
//!
//! Nothing here opens a socket or reads a clock: bytes and the time come in as arguments. A caller fetches an
//! [`issuer_metadata::IssuerMetadata`], then the [`jose::key_set::KeySet`] that it names, and shows both a token:
//!
//! 1. [`jose::jws::CompactJws`] splits it and reads its header,
//! 2. [`token::TokenClaims`] finds the issuer that it claims to be from, and
//! 3. [`token::TokenRules`] check the signature first, then every claim.
//!
//! Every refusal is a variant of [`token::TokenRefusal`]; the text is for people only. A person signs in by [`login`].

pub mod challenge;
pub mod client_auth;
pub mod code_flow;
pub mod endpoint;
pub mod id_token;
pub mod introspection;
pub mod issuer_metadata;
pub mod jose;
pub mod key_cache;
pub mod login;
pub mod pkce;
pub mod resource_metadata;
pub mod scope;
pub mod secret;
pub mod strict_json;
pub mod token;
